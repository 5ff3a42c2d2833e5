//! The communications of NCCL's once before the run, so that the run makes no connection.
//!
//! NCCL connects two members at their first message, and for a collective at the first one of its kind and
//! size. That allocates and maps memory, which may wait for what the device does, and may keep other
//! threads of the process out of the driver meanwhile: beside a kernel that waits for another rank, whose
//! thread is kept out, nothing would go on. So all ranks together take one team after the other, first its
//! messages, all in one group of calls, then its collectives in the order of the program, which is the same
//! for all members; and each rank waits for the end of each call before the next. What is left is that a
//! member connects for a collective while another one's device waits for it in that same collective.
#![allow(unsafe_code, reason = "only the rank knows that its addresses are right")]

use crate::runtime::failure::{Failure, Reached};
use crate::runtime::rank::{Rank, Raw, Ready, communicate};
use nccl_rs::DataType;
use std::time::Duration;

/// A call of NCCL's, of elements of a type.
type Typed = (Raw, DataType);

impl Rank<'_> {
    /// Sends and receives once from each peer in a team that it has messages with.
    pub(crate) fn rehearse_messages(
        &mut self,
        entry: usize,
        timeout: Duration,
    ) -> Result<(), Failure> {
        let calls = self.of_team(entry);
        let Some(first) = calls.iter().find(|(_, (raw, _))| is_message(raw)) else { return Ok(()) };
        let (step, messages) = (first.0, pairs(calls.iter().map(|(_, call)| *call)));
        self.rehearse(entry, step, &messages, timeout)
    }

    /// Carries out every different collective of a team once.
    pub(crate) fn rehearse_collectives(
        &mut self,
        entry: usize,
        timeout: Duration,
    ) -> Result<(), Failure> {
        let collectives = distinct(self.of_team(entry));
        collectives
            .into_iter()
            .try_for_each(|(step, call)| self.rehearse(entry, step, &[call], timeout))
    }

    /// What this rank calls for a team, with the step that it is for.
    fn of_team(&self, entry: usize) -> Vec<(usize, Typed)> {
        let steps = self.ready.iter().enumerate().filter_map(|(step, (ready, _))| match ready {
            Ready::Communicate { comm, calls } if self.schedule.members[*comm].0 == entry => {
                Some((step, calls.clone()))
            }
            _ => None,
        });
        steps
            .flat_map(|(step, calls)| self.raw[calls].iter().map(move |call| (step, *call)))
            .collect()
    }

    /// Issues these calls, and waits for their end. What fails is of `step`.
    fn rehearse(
        &mut self,
        entry: usize,
        step: usize,
        calls: &[Typed],
        timeout: Duration,
    ) -> Result<(), Failure> {
        let inst = self.schedule.steps[step].inst;
        self.is_at(Some(inst));
        self.begin();
        let comm = self.comms.iter_mut().find(|(other, _)| *other == entry);
        let (comm, stream) = (comm.map(|(_, comm)| comm), &self.streams[0]);
        // SAFETY: the rank's promise: these are calls of the program, or their first bytes, and all members
        // rehearse the same ones.
        unsafe { communicate(comm, calls, stream) }.map_err(|failure| failure.at(inst))?;
        self.wait_in(timeout, |_| Reached::Inst(inst))
    }
}

fn is_message(raw: &Raw) -> bool {
    matches!(raw, Raw::Send { .. } | Raw::Recv { .. })
}

/// Of the messages to each peer, and of those from it, the first one, cut to one byte; nothing of an empty
/// one. Messages of two ranks match in their order, so the peer finds the same among its own.
fn pairs(calls: impl Iterator<Item = Typed>) -> Vec<Typed> {
    let mut found: Vec<Typed> = Vec::new();
    for (raw, _) in calls {
        let raw = match raw {
            Raw::Send { from, count, peer } => Raw::Send { from, count: count.min(1), peer },
            Raw::Recv { to, count, peer } => Raw::Recv { to, count: count.min(1), peer },
            _ => continue,
        };
        let same = |(old, _): &Typed| match (old, raw) {
            (Raw::Send { peer: old, .. }, Raw::Send { peer, .. })
            | (Raw::Recv { peer: old, .. }, Raw::Recv { peer, .. }) => *old == peer,
            _ => false,
        };
        if !found.iter().any(same) {
            found.push((raw, DataType::Uint8));
        }
    }
    found
}

/// The collectives among these calls, of those that are alike but for addresses the first.
fn distinct(calls: Vec<(usize, Typed)>) -> Vec<(usize, Typed)> {
    let mut found: Vec<(usize, Typed)> = Vec::new();
    for (step, (raw, dtype)) in calls {
        let alike = |(_, (old, other)): &(usize, Typed)| (kind(*old), *other) == (kind(raw), dtype);
        if !is_message(&raw) && !matches!(raw, Raw::Copy { .. }) && !found.iter().any(alike) {
            found.push((step, (raw, dtype)));
        }
    }
    found
}

/// A collective without its addresses.
fn kind(raw: Raw) -> Raw {
    let (send, recv) = (0, 0);
    match raw {
        Raw::AllGather { count, .. } => Raw::AllGather { send, recv, count },
        Raw::AllReduce { count, op, .. } => Raw::AllReduce { send, recv, count, op },
        Raw::Reduce { count, op, root, .. } => Raw::Reduce { send, recv, count, op, root },
        Raw::ReduceScatter { count, op, .. } => Raw::ReduceScatter { send, recv, count, op },
        Raw::Broadcast { count, root, .. } => Raw::Broadcast { send, recv, count, root },
        Raw::Send { .. } | Raw::Recv { .. } | Raw::Copy { .. } => raw,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOAT: DataType = DataType::Float32;

    #[test]
    fn a_byte_to_and_from_each_peer() {
        let send = |from, count, peer| (Raw::Send { from, count, peer }, FLOAT);
        let recv = |to, peer| (Raw::Recv { to, count: 9, peer }, FLOAT);
        let copy = (Raw::Copy { to: 1, from: 2, bytes: 9 }, FLOAT);
        let calls = [
            send(0, 9, 1),
            recv(8, 1),
            send(16, 9, 1),
            send(7, 0, 4),
            send(9, 9, 4),
            send(24, 9, 2),
            copy,
            recv(3, 2),
        ];
        let byte = |raw| (raw, DataType::Uint8);
        let expected = [
            byte(Raw::Send { from: 0, count: 1, peer: 1 }),
            byte(Raw::Recv { to: 8, count: 1, peer: 1 }),
            byte(Raw::Send { from: 7, count: 0, peer: 4 }),
            byte(Raw::Send { from: 24, count: 1, peer: 2 }),
            byte(Raw::Recv { to: 3, count: 1, peer: 2 }),
        ];
        assert_eq!(pairs(calls.into_iter()), expected);
    }

    #[test]
    fn collectives_that_differ() {
        let gather = |send, count, dtype| (Raw::AllGather { send, recv: 8 * send, count }, dtype);
        let reduce = |root| {
            let op = nccl_rs::RedOp::Sum;
            (Raw::Reduce { send: 1, recv: 2, count: 3, op, root }, FLOAT)
        };
        let message = (Raw::Send { from: 0, count: 9, peer: 1 }, FLOAT);
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
        let steps: Vec<usize> = distinct(calls).into_iter().map(|(step, _)| step).collect();
        assert_eq!(steps, [4, 6, 7, 8, 9]);
    }
}
