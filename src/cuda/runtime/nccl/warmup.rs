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
use nccl_rs::DataType;
use std::time::Duration;

/// A call of NCCL's, of elements of a type.
type TypedCall = (ResolvedNcclCall, DataType);

impl RankRuntime<'_> {
    /// Sends and receives once from each peer in a team with which the rank has messages.
    pub(crate) fn warm_up_messages(&mut self, entry: usize, timeout: Duration) -> Result<(), RankFailure> {
        let calls = team_calls(&self.commands, entry);
        let Some(first) = calls.iter().find(|(_, (raw, _))| is_message(raw)) else { return Ok(()) };
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
        calls: &[TypedCall],
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
fn team_calls(commands: &CommandList, entry: usize) -> Vec<(usize, TypedCall)> {
    let steps = commands.ready.iter().enumerate().filter_map(|(step, (ready, _))| match ready {
        ResolvedCommand::Communicate { comm, calls } if commands.team_entry(*comm) == entry => {
            Some((step, calls.clone()))
        }
        _ => None,
    });
    steps.flat_map(|(step, calls)| commands.nccl_calls[calls].iter().map(move |call| (step, *call))).collect()
}

fn is_message(raw: &ResolvedNcclCall) -> bool {
    matches!(raw, ResolvedNcclCall::Send { .. } | ResolvedNcclCall::Recv { .. })
}

/// The first message to each peer and from each peer, cut to one byte; empty messages are left out. Messages of two
/// ranks match in their order, so the peer finds the same ones among its own.
fn one_byte_messages(calls: impl Iterator<Item = TypedCall>) -> Vec<TypedCall> {
    let mut found: Vec<TypedCall> = Vec::new();
    for (raw, _) in calls {
        let raw = match raw {
            ResolvedNcclCall::Send { from, count, peer } => ResolvedNcclCall::Send { from, count: count.min(1), peer },
            ResolvedNcclCall::Recv { to, count, peer } => ResolvedNcclCall::Recv { to, count: count.min(1), peer },
            _ => continue,
        };
        if !found.iter().any(|(old, _)| has_same_peer(*old, raw)) {
            found.push((raw, DataType::Uint8));
        }
    }
    found
}

/// Returns true if two messages have the same direction and peer.
fn has_same_peer(a: ResolvedNcclCall, b: ResolvedNcclCall) -> bool {
    match (a, b) {
        (ResolvedNcclCall::Send { peer: a, .. }, ResolvedNcclCall::Send { peer: b, .. })
        | (ResolvedNcclCall::Recv { peer: a, .. }, ResolvedNcclCall::Recv { peer: b, .. }) => a == b,
        _ => false,
    }
}

/// The distinct collectives among these calls: the first one of those that differ in addresses only.
fn distinct_collectives(calls: Vec<(usize, TypedCall)>) -> Vec<(usize, TypedCall)> {
    let mut found: Vec<(usize, TypedCall)> = Vec::new();
    for (step, (raw, dtype)) in calls {
        if is_message(&raw) || matches!(raw, ResolvedNcclCall::Copy { .. }) {
            continue;
        }
        let shape = (without_addresses(raw), dtype);
        if !found.iter().any(|(_, (old, dtype))| (without_addresses(*old), *dtype) == shape) {
            found.push((step, (raw, dtype)));
        }
    }
    found
}

/// A collective without its addresses.
fn without_addresses(raw: ResolvedNcclCall) -> ResolvedNcclCall {
    let (send, recv) = (0, 0);
    match raw {
        ResolvedNcclCall::AllGather { count, .. } => ResolvedNcclCall::AllGather { send, recv, count },
        ResolvedNcclCall::AllReduce { count, op, .. } => ResolvedNcclCall::AllReduce { send, recv, count, op },
        ResolvedNcclCall::Reduce { count, op, root, .. } => ResolvedNcclCall::Reduce { send, recv, count, op, root },
        ResolvedNcclCall::ReduceScatter { count, op, .. } => ResolvedNcclCall::ReduceScatter { send, recv, count, op },
        ResolvedNcclCall::Broadcast { count, root, .. } => ResolvedNcclCall::Broadcast { send, recv, count, root },
        ResolvedNcclCall::Send { .. } | ResolvedNcclCall::Recv { .. } | ResolvedNcclCall::Copy { .. } => raw,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOAT: DataType = DataType::Float32;

    #[test]
    fn a_byte_to_and_from_each_peer() {
        let send = |from, count, peer| (ResolvedNcclCall::Send { from, count, peer }, FLOAT);
        let recv = |to, peer| (ResolvedNcclCall::Recv { to, count: 9, peer }, FLOAT);
        let copy = (ResolvedNcclCall::Copy { to: 1, from: 2, bytes: 9 }, FLOAT);
        let calls =
            [send(0, 9, 1), recv(8, 1), send(16, 9, 1), send(7, 0, 4), send(9, 9, 4), send(24, 9, 2), copy, recv(3, 2)];
        let byte = |raw| (raw, DataType::Uint8);
        let expected = [
            byte(ResolvedNcclCall::Send { from: 0, count: 1, peer: 1 }),
            byte(ResolvedNcclCall::Recv { to: 8, count: 1, peer: 1 }),
            byte(ResolvedNcclCall::Send { from: 7, count: 0, peer: 4 }),
            byte(ResolvedNcclCall::Send { from: 24, count: 1, peer: 2 }),
            byte(ResolvedNcclCall::Recv { to: 3, count: 1, peer: 2 }),
        ];
        assert_eq!(one_byte_messages(calls.into_iter()), expected);
    }

    #[test]
    fn collectives_that_differ() {
        let gather = |send, count, dtype| (ResolvedNcclCall::AllGather { send, recv: 8 * send, count }, dtype);
        let reduce = |root| {
            let op = nccl_rs::NcclRedOp::Sum;
            (ResolvedNcclCall::Reduce { send: 1, recv: 2, count: 3, op, root }, FLOAT)
        };
        let message = (ResolvedNcclCall::Send { from: 0, count: 9, peer: 1 }, FLOAT);
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
