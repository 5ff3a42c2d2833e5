//! The communications of NCCL's once before the run, so that the run makes no connection.
//!
//! NCCL connects two members at their first message, and for a collective at the first one of its kind and
//! size. That allocates and maps memory, which may wait for what the device does, and may keep other
//! threads of the process out of the driver meanwhile: beside a kernel that waits for another rank, whose
//! thread is kept out, nothing would go on. Hence nothing is on a rank's device when it connects: it waits
//! for the end of each call. Nobody waits for ever, since all ranks take their teams in the same order, a
//! team's messages connect in one group of calls, and its collectives come in the order of the program,
//! which is the same for all members.

use super::{Rank, Raw, Ready, communicate};
use crate::backend::cuda::{Failure, Reached};
use nccl_rs::DataType;
use std::time::Duration;

impl Rank<'_> {
    /// Carries out every different communication once.
    pub(in super::super) fn rehearse(&mut self, timeout: Duration) -> Result<(), Failure> {
        // The place of a team among all of the program's is the same on all ranks.
        let mut teams: Vec<usize> = self.comms.iter().map(|(entry, _)| *entry).collect();
        teams.sort_unstable();
        for entry in teams {
            let steps = self.of_team(entry);
            let Some(&first) = steps.first() else { continue };
            self.rehearse_one(entry, first, &self.pairs(&steps), timeout)?;
            let mut seen: Vec<Vec<String>> = Vec::new();
            for step in steps {
                let calls = self.collectives(step);
                let names = calls.iter().map(|(raw, dtype)| name(raw, *dtype)).collect();
                if !seen.contains(&names) {
                    self.rehearse_one(entry, step, &calls, timeout)?;
                    seen.push(names);
                }
            }
        }
        Ok(())
    }

    /// The steps in which a team communicates.
    fn of_team(&self, entry: usize) -> Vec<usize> {
        let is_of = |(ready, _): &(Ready, usize)| match ready {
            Ready::Communicate { comm, .. } => self.schedule.members[*comm].0 == entry,
            _ => false,
        };
        (0..self.ready.len()).filter(|&step| is_of(&self.ready[step])).collect()
    }

    /// The calls of a step.
    fn calls(&self, step: usize) -> &[(Raw, DataType)] {
        match &self.ready[step].0 {
            Ready::Communicate { calls, .. } => &self.raw[calls.clone()],
            _ => &[],
        }
    }

    /// Of the messages of these steps one byte to and from each peer. A peer finds the same among its own.
    fn pairs(&self, steps: &[usize]) -> Vec<(Raw, DataType)> {
        pairs(steps.iter().flat_map(|&step| self.calls(step)).map(|(raw, _)| *raw))
    }

    /// The collectives of a step.
    fn collectives(&self, step: usize) -> Vec<(Raw, DataType)> {
        let calls = self.calls(step).iter();
        let others = calls.filter(|(raw, _)| {
            !matches!(raw, Raw::Send { .. } | Raw::Recv { .. } | Raw::Copy { .. })
        });
        others.copied().collect()
    }

    /// Issues these calls, and waits for their end. `step` is told if it fails.
    fn rehearse_one(
        &mut self,
        entry: usize,
        step: usize,
        calls: &[(Raw, DataType)],
        timeout: Duration,
    ) -> Result<(), Failure> {
        if calls.is_empty() {
            return Ok(());
        }
        self.begin();
        let comm = self.comms.iter_mut().find(|(other, _)| *other == entry);
        let inst = self.schedule.steps[step].inst;
        communicate(comm.map(|(_, comm)| comm), calls, &self.streams[0])
            .map_err(|failure| failure.at(inst))?;
        self.wait_in(timeout, |_| Reached::Inst(inst))
    }
}

/// One byte to and from each peer of these messages.
fn pairs(messages: impl Iterator<Item = Raw>) -> Vec<(Raw, DataType)> {
    let mut found: Vec<(Raw, DataType)> = Vec::new();
    for raw in messages {
        let raw = match raw {
            Raw::Send { from, count: 1.., peer } => Raw::Send { from, count: 1, peer },
            Raw::Recv { to, count: 1.., peer } => Raw::Recv { to, count: 1, peer },
            _ => continue,
        };
        let same = |(old, _): &(Raw, DataType)| match (old, raw) {
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

/// What collectives that connect alike have in common.
fn name(raw: &Raw, dtype: DataType) -> String {
    match raw {
        Raw::AllGather { count, .. } => format!("gather {count} {dtype:?}"),
        Raw::AllReduce { count, op, .. } => format!("all {op:?} {count} {dtype:?}"),
        Raw::Reduce { count, op, root, .. } => format!("reduce {root} {op:?} {count} {dtype:?}"),
        Raw::ReduceScatter { count, op, .. } => format!("scatter {op:?} {count} {dtype:?}"),
        Raw::Broadcast { count, root, .. } => format!("broadcast {root} {count} {dtype:?}"),
        Raw::Send { .. } | Raw::Recv { .. } | Raw::Copy { .. } => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_to_and_from_each_peer() {
        let send = |from, peer| Raw::Send { from, count: 9, peer };
        let recv = |to, peer| Raw::Recv { to, count: 9, peer };
        let nothing = Raw::Send { from: 7, count: 0, peer: 4 };
        let copy = Raw::Copy { to: 1, from: 2, bytes: 9 };
        let messages =
            [send(0, 1), recv(8, 1), send(16, 1), nothing, send(24, 2), copy, recv(3, 2)];
        let found: Vec<String> = pairs(messages.into_iter())
            .iter()
            .map(|(raw, dtype)| format!("{raw:?} {dtype:?}"))
            .collect();
        assert_eq!(
            found,
            [
                "Send { from: 0, count: 1, peer: 1 } Uint8",
                "Recv { to: 8, count: 1, peer: 1 } Uint8",
                "Send { from: 24, count: 1, peer: 2 } Uint8",
                "Recv { to: 3, count: 1, peer: 2 } Uint8",
            ]
        );
    }
}
