//! Events after each wait for other ranks, by which a failed run finds the instruction that did not end.
//!
//! Work of a stream completes in order, so an event that is reached shows that everything before it on its stream is
//! done. Most communications have an event after them anyway, for the instructions that wait for them; those that run
//! on the issuing stream have none, and [`RankSchedule::add_wait_events`] adds some. Instructions are listed in the
//! order of their issue. An instruction is issued after its dependences, so the first one whose event is not reached is
//! the one that waits, or one of those after it that share the event.

use crate::nccl_lowering::NcclFunction;
use crate::schedule::{P2pCopy, RankSchedule, ScheduleStep, StreamCommand};
use hostir::plan::InstId;
use std::collections::BTreeMap;

/// An instruction that waits for other ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerWait {
    /// Index of the instruction in the plan.
    pub inst: InstId,
    /// Index in [`RankSchedule::steps`](super::RankSchedule::steps) of its first call that waits.
    pub first: usize,
    /// Index of the last one.
    pub last: usize,
    /// The first event after it on its stream, which may be after other instructions too; `None` if only the end of the
    /// run shows that its wait has ended.
    pub event: Option<usize>,
}

/// Instructions that share an event in a run that is issued call by call, where each event costs the host a call.
pub const SHARED: usize = 32;

impl RankSchedule {
    /// Adds events so that at most `every` instructions share one. The last instruction of the run needs none.
    pub fn add_wait_events(&mut self, every: usize) {
        let waits = peer_waits(&self.steps);
        // By stream: the next instruction that waits there, and the number of those since the last event.
        let mut next: Vec<Option<usize>> = vec![None; waits.len()];
        let mut seen: BTreeMap<usize, usize> = BTreeMap::new();
        for at in (0..waits.len()).rev() {
            next[at] = seen.insert(self.steps[waits[at].last].stream, at);
        }
        let mut open: BTreeMap<usize, usize> = BTreeMap::new();
        let mut added: BTreeMap<usize, usize> = BTreeMap::new();
        for (at, wait) in waits.iter().enumerate() {
            let count = open.entry(self.steps[wait.last].stream).or_default();
            *count += 1;
            let has_mark = next[at].map_or(wait.event.is_some(), |next| waits[next].event != wait.event);
            let is_last = at + 1 == waits.len();
            if !has_mark && !is_last && (*count >= every || next[at].is_none()) {
                added.insert(wait.last, self.events);
                self.events += 1;
                *count = 0;
            }
            if has_mark {
                *count = 0;
            }
        }
        let mut marked = Vec::with_capacity(self.steps.len() + added.len());
        for (at, step) in std::mem::take(&mut self.steps).into_iter().enumerate() {
            let (stream, inst) = (step.stream, step.inst);
            marked.push(step);
            if let Some(&event) = added.get(&at) {
                marked.push(ScheduleStep { call: StreamCommand::Record { event }, stream, inst });
            }
        }
        self.steps = marked;
    }
}

/// The instructions that wait for other ranks, in the order in which they are issued.
pub fn peer_waits(steps: &[ScheduleStep]) -> Vec<PeerWait> {
    // By stream: the instructions that wait and have no event yet, by their indices in `waits`.
    let mut open: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut waits: Vec<PeerWait> = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        if let StreamCommand::Record { event } = step.call {
            for wait in open.remove(&step.stream).unwrap_or_default() {
                waits[wait].event = Some(event);
            }
            continue;
        }
        if !step.call.waits_for_peers() {
            continue;
        }
        let open = open.entry(step.stream).or_default();
        match open.last() {
            Some(&wait) if waits[wait].inst == step.inst => waits[wait].last = at,
            _ => {
                open.push(waits.len());
                waits.push(PeerWait { inst: step.inst, first: at, last: at, event: None });
            }
        }
    }
    waits
}

impl StreamCommand {
    /// Returns true if the call may block its stream until another rank has done its part.
    fn waits_for_peers(&self) -> bool {
        match self {
            StreamCommand::Communicate { calls, .. } => calls.iter().any(|call| call.function != NcclFunction::Copy),
            StreamCommand::Signal { signals } => {
                signals.iter().any(|signal| matches!(signal, crate::schedule::SemaphoreOp::Wait { .. }))
            }
            StreamCommand::P2pBatch(batch) => {
                !batch.waits.is_empty() || batch.copies.iter().any(|one| matches!(one, P2pCopy::Message(_)))
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::SemaphoreOp;

    fn waits(stream: usize, inst: u32) -> ScheduleStep {
        ScheduleStep {
            call: StreamCommand::Signal { signals: vec![SemaphoreOp::Wait { flag: 0 }] },
            stream,
            inst: InstId(inst),
        }
    }

    fn signals(stream: usize, inst: u32) -> ScheduleStep {
        let signals = vec![SemaphoreOp::Signal { rank: 1, flag: 0 }];
        ScheduleStep { call: StreamCommand::Signal { signals }, stream, inst: InstId(inst) }
    }

    fn record(event: usize, stream: usize, inst: u32) -> ScheduleStep {
        ScheduleStep { call: StreamCommand::Record { event }, stream, inst: InstId(inst) }
    }

    fn marked(steps: Vec<ScheduleStep>, events: usize, every: usize) -> RankSchedule {
        let mut schedule = RankSchedule { steps, events, ..RankSchedule::default() };
        schedule.add_wait_events(every);
        schedule
    }

    #[test]
    fn a_mark_that_is_there_serves() {
        let steps = vec![record(0, 0, 0), waits(1, 4), record(1, 1, 5), signals(0, 6)];
        let found = marked(steps.clone(), 2, 1);
        assert_eq!((&found.steps, found.events), (&steps, 2));
        assert_eq!(peer_waits(&steps), [PeerWait { inst: InstId(4), first: 1, last: 1, event: Some(1) }]);
    }

    #[test]
    fn all_but_the_last_get_one() {
        let steps = vec![waits(0, 1), waits(0, 1), signals(0, 2), waits(1, 3), waits(0, 4), signals(0, 5)];
        let found = marked(steps.clone(), 7, 1);
        let mut expected = steps;
        expected.insert(2, record(7, 0, 1));
        expected.insert(5, record(8, 1, 3));
        assert_eq!((&found.steps, found.events), (&expected, 9));
        let expected = [
            PeerWait { inst: InstId(1), first: 0, last: 1, event: Some(7) },
            PeerWait { inst: InstId(3), first: 4, last: 4, event: Some(8) },
            PeerWait { inst: InstId(4), first: 6, last: 6, event: None },
        ];
        assert_eq!(peer_waits(&found.steps), expected);
    }

    #[test]
    fn some_share_one() {
        let steps: Vec<ScheduleStep> = (0..5).map(|inst| waits(0, inst)).collect();
        let found = marked(steps, 0, 2);
        let events: Vec<Option<usize>> = peer_waits(&found.steps).iter().map(|wait| wait.event).collect();
        assert_eq!(events, [Some(0), Some(0), Some(1), Some(1), None]);
        assert_eq!(found.steps.len(), 7);
    }
}
