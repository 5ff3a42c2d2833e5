//! Barriers and the issue sequencer, where the ranks' threads wait for each other.

use crate::runtime::failure_latch::FailureFlag;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A barrier that opens permanently once a rank fails, so that no thread waits for the failed one.
pub(crate) struct RankBarrier {
    members: usize,
    arrived: AtomicUsize,
    alarm: Arc<FailureFlag>,
}

impl RankBarrier {
    /// A barrier for the threads of so many ranks; `alarm` says whether one has failed.
    pub(crate) fn new(members: usize, alarm: Arc<FailureFlag>) -> Self {
        Self { members, arrived: AtomicUsize::new(0), alarm }
    }

    /// Waits until all members have arrived as often as this one. Spins, so that the threads continue at the same time.
    pub(crate) fn wait(&self) {
        let number = self.arrived.fetch_add(1, Ordering::AcqRel);
        let wanted = (number / self.members + 1) * self.members;
        while self.arrived.load(Ordering::Acquire) < wanted && self.alarm.first_failed().is_none() {
            std::thread::yield_now();
        }
    }
}

/// Turns that the ranks take, from number 0. Once a rank fails, no rank waits for a turn.
struct TicketLock {
    next: AtomicU64,
    alarm: Arc<FailureFlag>,
}

/// A rank's turns in a common order of all ranks' steps, which each run goes through once.
pub(crate) struct IssueSequencer {
    line: Arc<TicketLock>,
    /// The places of its steps in the order, ascending.
    places: Vec<u64>,
    /// Steps of all ranks.
    all: u64,
    runs: u64,
}

impl IssueSequencer {
    /// The turns of so many ranks, whose failures `alarm` reports; `order` has the rank of each step.
    pub(crate) fn for_ranks(
        ranks: usize,
        order: impl ExactSizeIterator<Item = usize>,
        alarm: &Arc<FailureFlag>,
    ) -> Vec<IssueSequencer> {
        let line = Arc::new(TicketLock { next: AtomicU64::new(0), alarm: alarm.clone() });
        let all = order.len() as u64;
        let mut turns: Vec<IssueSequencer> =
            (0..ranks).map(|_| IssueSequencer { line: line.clone(), places: Vec::new(), all, runs: 0 }).collect();
        for (place, rank) in (0..).zip(order) {
            turns[rank].places.push(place);
        }
        turns
    }

    /// Does this rank's steps of one run, by number, each at its turn. All ranks call it equally often.
    pub(crate) fn run_in_turn<E>(&mut self, mut work: impl FnMut(usize) -> Result<(), E>) -> Result<(), E> {
        let first = self.runs * self.all;
        self.runs += 1;
        for (step, place) in self.places.iter().enumerate() {
            while self.line.next.load(Ordering::Acquire) != first + place && self.line.alarm.first_failed().is_none() {
                std::thread::yield_now();
            }
            work(step)?;
            self.line.next.store(first + place + 1, Ordering::Release);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_take_turns_run_after_run() {
        let order = [(1, 0), (0, 0), (1, 1), (1, 2), (0, 1), (0, 2)];
        let done = std::sync::Mutex::new(Vec::new());
        let turns = IssueSequencer::for_ranks(2, order.iter().map(|(rank, _)| *rank), &Arc::default());
        std::thread::scope(|scope| {
            for (rank, mut turns) in turns.into_iter().enumerate() {
                let done = &done;
                scope.spawn(move || {
                    for _ in 0..50 {
                        let note = |step| {
                            done.lock().unwrap().push((rank, step));
                            Ok::<(), ()>(())
                        };
                        turns.run_in_turn(note).unwrap();
                    }
                });
            }
        });
        let done = done.into_inner().unwrap();
        assert_eq!(done.len(), 300);
        assert!(done.chunks(6).all(|run| run == order));
    }

    #[test]
    fn who_fails_keeps_nobody() {
        let alarm = Arc::new(FailureFlag::default());
        let mut turns = IssueSequencer::for_ranks(2, [0, 1, 0].into_iter(), &alarm);
        assert_eq!(turns[0].run_in_turn(|_| Err("lost")), Err("lost"));
        alarm.set_failed(0);
        assert_eq!(turns[1].run_in_turn(|_| Ok::<(), &str>(())), Ok(()));
    }

    #[test]
    fn nobody_passes_early_and_nobody_waits_for_the_failed() {
        let alarm = Arc::new(FailureFlag::default());
        let (barrier, passed) = (RankBarrier::new(3, alarm.clone()), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for round in 1..=100 {
                        barrier.wait();
                        passed.fetch_add(1, Ordering::AcqRel);
                        barrier.wait();
                        assert_eq!(passed.load(Ordering::Acquire), 3 * round);
                        barrier.wait();
                    }
                });
            }
        });
        alarm.set_failed(1);
        barrier.wait();
    }
}
