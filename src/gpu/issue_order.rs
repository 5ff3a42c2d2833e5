//! A common issue order of all ranks' commands, for ranks that share devices.
//!
//! A device takes the work of its streams from a limited number of hardware queues (`CUDA_DEVICE_MAX_CONNECTIONS`, at
//! most 32), and its copy engines have queues of their own. Further streams share queues, so work that could run can be
//! queued after work of another stream that waits for a semaphore. With eight ranks of four streams on one device,
//! that semaphore may have to be signalled by another rank's work that is queued in the same way.
//!
//! If every command is issued after all commands that it waits for, on whichever rank, then the same holds in every
//! queue, and the first command in this order that has not ended can always make progress, however streams share
//! queues. Ranks that are processes have queues of their own: there each rank's own subsequence is enough.

use crate::schedule::{RankSchedule, ScheduleStep, SemaphoreOp, StreamCommand};
use std::collections::BTreeSet;

/// Splits steps in front of each wait for a semaphore, so that other ranks' steps can come before it.
fn split_at_waits(steps: Vec<ScheduleStep>) -> Vec<ScheduleStep> {
    let mut parts = Vec::with_capacity(steps.len());
    for ScheduleStep { call, stream, inst } in steps {
        let StreamCommand::Signal { signals } = call else {
            parts.push(ScheduleStep { call, stream, inst });
            continue;
        };
        let mut rest = signals.as_slice();
        while !rest.is_empty() {
            let next = rest[1..].iter().position(|signal| matches!(signal, SemaphoreOp::Wait { .. }));
            let end = next.map_or(rest.len(), |at| at + 1);
            parts.push(ScheduleStep { call: StreamCommand::Signal { signals: rest[..end].to_vec() }, stream, inst });
            rest = &rest[end..];
        }
    }
    parts
}

/// Puts each rank's steps into one order of all ranks' steps, in which each step comes after those that it waits for;
/// returns the rank of each step of the order. A rank's steps on one stream keep their order. Returns `None` if there
/// is no such order: on devices these ranks would wait for each other. Waits inside of kernels are not considered.
pub fn impose_global_order(schedules: &mut [RankSchedule]) -> Option<Vec<usize>> {
    for schedule in schedules.iter_mut() {
        schedule.steps = split_at_waits(std::mem::take(&mut schedule.steps));
    }
    let order = find_global_order(schedules)?;
    let mut steps: Vec<Vec<Option<ScheduleStep>>> =
        schedules.iter_mut().map(|schedule| schedule.steps.drain(..).map(Some).collect()).collect();
    for (rank, step) in &order {
        schedules[*rank].steps.extend(steps[*rank][*step].take());
    }
    Some(order.into_iter().map(|(rank, _)| rank).collect())
}

/// All steps, by rank and number, in such an order.
fn find_global_order(schedules: &[RankSchedule]) -> Option<Vec<(usize, usize)>> {
    let mut ranks: Vec<RankCursor<'_>> = schedules.iter().map(RankCursor::new).collect();
    let mut signalled: BTreeSet<(usize, usize)> = BTreeSet::new();
    let mut order = Vec::new();
    let all: usize = schedules.iter().map(|schedule| schedule.steps.len()).sum();
    while order.len() < all {
        let before = order.len();
        for (number, rank) in ranks.iter_mut().enumerate() {
            while let Some(step) = rank.next(number, &signalled) {
                rank.take_step(number, step, &mut signalled);
                order.push((number, step));
            }
        }
        if order.len() == before {
            return None;
        }
    }
    Some(order)
}

/// The remaining steps of a rank.
struct RankCursor<'s> {
    steps: &'s [ScheduleStep],
    /// By stream: its steps, and the number of those that are done.
    queues: Vec<(Vec<usize>, usize)>,
    /// By event.
    reached: Vec<bool>,
}

impl<'s> RankCursor<'s> {
    fn new(schedule: &'s RankSchedule) -> Self {
        let mut queues = vec![(Vec::new(), 0); schedule.streams];
        for (at, step) in schedule.steps.iter().enumerate() {
            queues[step.stream].0.push(at);
        }
        Self { steps: &schedule.steps, queues, reached: vec![false; schedule.events] }
    }

    /// Returns, of the steps that can continue, the first in the rank's own order.
    fn next(&self, number: usize, signalled: &BTreeSet<(usize, usize)>) -> Option<usize> {
        let heads = self.queues.iter().filter_map(|(steps, done)| steps.get(*done).copied());
        let free = heads.filter(|&step| match &self.steps[step].call {
            StreamCommand::Wait { event } => self.reached[*event],
            StreamCommand::Signal { signals } => match signals.first() {
                Some(SemaphoreOp::Wait { flag }) => signalled.contains(&(number, *flag)),
                _ => true,
            },
            _ => true,
        });
        free.min()
    }

    fn take_step(&mut self, number: usize, step: usize, signalled: &mut BTreeSet<(usize, usize)>) {
        let ScheduleStep { call, stream, .. } = &self.steps[step];
        self.queues[*stream].1 += 1;
        match call {
            StreamCommand::Record { event } => self.reached[*event] = true,
            StreamCommand::Signal { signals } => {
                for signal in signals {
                    match *signal {
                        SemaphoreOp::Signal { rank, flag } => {
                            signalled.insert((rank as usize, flag));
                        }
                        SemaphoreOp::Reset { flag } => {
                            signalled.remove(&(number, flag));
                        }
                        SemaphoreOp::Wait { .. } => {}
                    }
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostir::plan::InstId;

    fn schedule(steps: Vec<(StreamCommand, usize)>) -> RankSchedule {
        let step = |(call, stream)| ScheduleStep { call, stream, inst: InstId(0) };
        let steps = steps.into_iter().map(step).collect();
        RankSchedule { steps, streams: 2, events: 1, ..RankSchedule::default() }
    }

    fn signals<const N: usize>(signals: [SemaphoreOp; N]) -> StreamCommand {
        StreamCommand::Signal { signals: signals.to_vec() }
    }

    #[test]
    fn steps_are_parted_in_front_of_waits() {
        let signal = SemaphoreOp::Signal { rank: 1, flag: 0 };
        let (wait, lower) = (SemaphoreOp::Wait { flag: 3 }, SemaphoreOp::Reset { flag: 3 });
        let steps = vec![
            ScheduleStep { call: signals([signal, signal, wait, lower, wait]), stream: 1, inst: InstId(7) },
            ScheduleStep { call: StreamCommand::Record { event: 0 }, stream: 0, inst: InstId(8) },
        ];
        let calls: Vec<StreamCommand> = split_at_waits(steps).into_iter().map(|step| step.call).collect();
        let parts = [signals([signal, signal]), signals([wait, lower]), signals([wait])];
        assert_eq!(calls[..3], parts);
        assert_eq!(calls[3..], [StreamCommand::Record { event: 0 }]);
    }

    #[test]
    fn each_step_comes_behind_what_it_waits_for() {
        // Rank 0 waits on stream 1 for rank 1, which waits for a later step of rank 0 on stream 0.
        let (wait, lower) = (SemaphoreOp::Wait { flag: 0 }, SemaphoreOp::Reset { flag: 0 });
        let first = schedule(vec![
            (signals([wait, lower]), 1),
            (StreamCommand::Record { event: 0 }, 1),
            (signals([SemaphoreOp::Signal { rank: 1, flag: 0 }]), 0),
            (StreamCommand::Wait { event: 0 }, 0),
        ]);
        let second =
            schedule(vec![(signals([wait, lower]), 0), (signals([SemaphoreOp::Signal { rank: 0, flag: 0 }]), 0)]);
        let mut both = [first.clone(), second.clone()];
        let expected = vec![(0, 2), (1, 0), (1, 1), (0, 0), (0, 1), (0, 3)];
        assert_eq!(find_global_order(&both), Some(expected));
        assert_eq!(impose_global_order(&mut both), Some(vec![0, 1, 1, 0, 0, 0]));
        let steps = [2, 0, 1, 3].map(|at| first.steps[at].clone());
        assert_eq!((&both[0].steps[..], &both[1].steps), (&steps[..], &second.steps));
    }

    #[test]
    fn ranks_that_wait_for_each_other_have_no_order() {
        let wait = || schedule(vec![(signals([SemaphoreOp::Wait { flag: 0 }]), 0)]);
        assert_eq!(impose_global_order(&mut [wait(), wait()]), None);
    }
}
