//! Warm-up: issues all NCCL communications once before the run, so that the run makes no connection.
//!
//! NCCL connects two members at their first message, and all members at the first collective of each kind and size.
//! That allocates and maps memory, which may wait for work on the device and may block other threads of the process in
//! the driver. A deadlock follows if a kernel waits for another rank whose thread is blocked. All ranks therefore take
//! one team after the other: first its messages, all in one group of calls, then its collectives in program order,
//! which is the same for all members; and each rank waits for the end of each call before the next. One case remains: a
//! member connects for a collective while another one's device waits for it in the same collective.
#![allow(unsafe_code, reason = "only the rank knows that its addresses are right")]

use crate::runtime::failure::{RankFailure, RunProgress};
use crate::runtime::rank::RankRuntime;
use crate::runtime::rank::commands::{CommandList, ResolvedCommand};
use crate::runtime::rank::nccl_calls::{ResolvedNcclCall, issue_nccl_calls};
use hostir_gpu::nccl_lowering::NcclFunction;
use nccl_rs::DataType;
use std::time::Duration;

impl RankRuntime<'_> {
    /// Sends and receives once from each peer in a team with which the rank has messages.
    pub(crate) fn warm_up_messages(&mut self, entry: usize, timeout: Duration) -> Result<(), RankFailure> {
        let calls = team_calls(&self.commands, entry);
        let Some(first) = calls.iter().find(|(_, call)| is_message(call)) else { return Ok(()) };
        let (step, messages) = (first.0, one_byte_messages(calls.iter().map(|(_, call)| *call)));
        self.warm_up_calls(entry, step, &messages, timeout)
    }

    /// Runs every distinct collective of a team once.
    pub(crate) fn warm_up_collectives(&mut self, entry: usize, timeout: Duration) -> Result<(), RankFailure> {
        let collectives = distinct_collectives(team_calls(&self.commands, entry));
        collectives.into_iter().try_for_each(|(step, call)| self.warm_up_calls(entry, step, &[call], timeout))
    }

    /// Issues these calls, and waits for their end. Errors are attributed to `step`.
    fn warm_up_calls(
        &mut self,
        entry: usize,
        step: usize,
        calls: &[ResolvedNcclCall],
        timeout: Duration,
    ) -> Result<(), RankFailure> {
        let inst = self.commands.step_inst(step);
        self.tracker.publish_position(Some(inst));
        self.tracker.publish_run_begin();
        let (comm, stream) = (self.communicators.team_communicator(entry), self.streams.main());
        // SAFETY: the rank's promise: these are calls of the program, or their first bytes, and all members
        // warm up the same ones.
        unsafe { issue_nccl_calls(comm, calls, stream) }.map_err(|failure| failure.at_inst(inst))?;
        self.wait_with_progress(timeout, |_| RunProgress::Inst(inst))
    }
}

/// Returns a rank's NCCL calls for a team, each with the step it belongs to.
fn team_calls(commands: &CommandList, entry: usize) -> Vec<(usize, ResolvedNcclCall)> {
    let steps = commands.ready.iter().enumerate().filter_map(|(step, (ready, _))| match ready {
        ResolvedCommand::Communicate { comm, calls } if commands.team_entry(*comm) == entry => {
            Some((step, calls.clone()))
        }
        _ => None,
    });
    steps.flat_map(|(step, calls)| commands.nccl_calls[calls].iter().map(move |call| (step, *call))).collect()
}

fn is_message(call: &ResolvedNcclCall) -> bool {
    call.function.message_peer().is_some()
}

/// The first message to each peer and from each peer, cut to one byte; empty messages are left out. Messages of two
/// ranks match in their order, so the peer finds the same ones among its own.
fn one_byte_messages(calls: impl Iterator<Item = ResolvedNcclCall>) -> Vec<ResolvedNcclCall> {
    let mut found: Vec<ResolvedNcclCall> = Vec::new();
    for call in calls.filter(is_message) {
        if !found.iter().any(|old| old.function == call.function) {
            found.push(ResolvedNcclCall { count: call.count.min(1), dtype: DataType::Uint8, ..call });
        }
    }
    found
}

/// The distinct collectives among these calls: the first one of those that differ in addresses only.
fn distinct_collectives(calls: Vec<(usize, ResolvedNcclCall)>) -> Vec<(usize, ResolvedNcclCall)> {
    let mut found: Vec<(usize, ResolvedNcclCall)> = Vec::new();
    for (step, call) in calls {
        if is_message(&call) || call.function == NcclFunction::Copy {
            continue;
        }
        if !found.iter().any(|(_, old)| without_addresses(*old) == without_addresses(call)) {
            found.push((step, call));
        }
    }
    found
}

/// A collective without its addresses.
fn without_addresses(call: ResolvedNcclCall) -> ResolvedNcclCall {
    ResolvedNcclCall { send: 0, recv: 0, ..call }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nccl_rs::NcclRedOp;

    const FLOAT: DataType = DataType::Float32;

    fn call(function: NcclFunction, addresses: [u64; 2], count: usize, dtype: DataType) -> ResolvedNcclCall {
        let [send, recv] = addresses;
        ResolvedNcclCall { function, reduction: NcclRedOp::Sum, send, recv, count, dtype }
    }

    #[test]
    fn a_byte_to_and_from_each_peer() {
        let send = |from, count, peer| call(NcclFunction::Send { peer }, [from, from], count, FLOAT);
        let recv = |to, peer| call(NcclFunction::Recv { peer }, [to, to], 9, FLOAT);
        let copy = call(NcclFunction::Copy, [2, 1], 9, FLOAT);
        let calls =
            [send(0, 9, 1), recv(8, 1), send(16, 9, 1), send(7, 0, 4), send(9, 9, 4), send(24, 9, 2), copy, recv(3, 2)];
        let byte = |function, address, count| call(function, [address, address], count, DataType::Uint8);
        let expected = [
            byte(NcclFunction::Send { peer: 1 }, 0, 1),
            byte(NcclFunction::Recv { peer: 1 }, 8, 1),
            byte(NcclFunction::Send { peer: 4 }, 7, 0),
            byte(NcclFunction::Send { peer: 2 }, 24, 1),
            byte(NcclFunction::Recv { peer: 2 }, 3, 1),
        ];
        assert_eq!(one_byte_messages(calls.into_iter()), expected);
    }

    #[test]
    fn collectives_that_differ() {
        let gather = |send, count, dtype| call(NcclFunction::AllGather, [send, 8 * send], count, dtype);
        let reduce = |root| call(NcclFunction::Reduce { root }, [1, 2], 3, FLOAT);
        let message = call(NcclFunction::Send { peer: 1 }, [0, 0], 9, FLOAT);
        let calls = vec![
            (3, message),
            (4, gather(0, 5, FLOAT)),
            (5, gather(64, 5, FLOAT)),
            (6, reduce(0)),
            (7, gather(0, 6, FLOAT)),
            (8, reduce(1)),
            (9, gather(0, 5, DataType::Float16)),
            (10, reduce(0)),
        ];
        let steps: Vec<usize> = distinct_collectives(calls).into_iter().map(|(step, _)| step).collect();
        assert_eq!(steps, [4, 6, 7, 8, 9]);
    }
}
