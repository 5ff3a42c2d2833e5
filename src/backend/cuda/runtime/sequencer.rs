//! Where the ranks' threads wait for each other.

use crate::runtime::failure_latch::Alarm;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A barrier that is open for good once a rank fails, so that nobody waits for it.
pub(crate) struct Gate {
    members: usize,
    arrived: AtomicUsize,
    alarm: Arc<Alarm>,
}

impl Gate {
    /// A gate for the threads of so many ranks, which raise an alarm when they fail.
    pub(crate) fn new(members: usize, alarm: Arc<Alarm>) -> Self {
        Self { members, arrived: AtomicUsize::new(0), alarm }
    }

    /// Waits until all members are here as often as this one. Spins: the threads should go on at the
    /// same time.
    pub(crate) fn wait(&self) {
        let number = self.arrived.fetch_add(1, Ordering::AcqRel);
        let wanted = (number / self.members + 1) * self.members;
        while self.arrived.load(Ordering::Acquire) < wanted && self.alarm.first().is_none() {
            std::thread::yield_now();
        }
    }
}

/// Turns that the ranks take: number 0 first. Nobody waits for a turn any more once a rank fails.
struct Line {
    next: AtomicU64,
    alarm: Arc<Alarm>,
}

/// A rank's turns in a common order of all ranks' steps, which is gone through once a run.
pub(crate) struct Turns {
    line: Arc<Line>,
    /// The places of its steps in the order, ascending.
    places: Vec<u64>,
    /// Steps of all ranks.
    all: u64,
    runs: u64,
}

impl Turns {
    /// The turns of so many ranks, which raise an alarm when they fail; `order` says of each step whose it is.
    pub(crate) fn of(
        ranks: usize,
        order: impl ExactSizeIterator<Item = usize>,
        alarm: &Arc<Alarm>,
    ) -> Vec<Turns> {
        let line = Arc::new(Line { next: AtomicU64::new(0), alarm: alarm.clone() });
        let all = order.len() as u64;
        let none = || Turns { line: line.clone(), places: Vec::new(), all, runs: 0 };
        let mut turns: Vec<Turns> = (0..ranks).map(|_| none()).collect();
        for (place, rank) in (0..).zip(order) {
            turns[rank].places.push(place);
        }
        turns
    }

    /// Does this rank's steps of one run, by number, each when it is its turn. All ranks do so equally
    /// often.
    pub(crate) fn each<E>(
        &mut self,
        mut work: impl FnMut(usize) -> Result<(), E>,
    ) -> Result<(), E> {
        let first = self.runs * self.all;
        self.runs += 1;
        for (step, place) in self.places.iter().enumerate() {
            while self.line.next.load(Ordering::Acquire) != first + place
                && self.line.alarm.first().is_none()
            {
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
        let turns = Turns::of(2, order.iter().map(|(rank, _)| *rank), &Arc::default());
        std::thread::scope(|scope| {
            for (rank, mut turns) in turns.into_iter().enumerate() {
                let done = &done;
                scope.spawn(move || {
                    for _ in 0..50 {
                        let note = |step| {
                            done.lock().unwrap().push((rank, step));
                            Ok::<(), ()>(())
                        };
                        turns.each(note).unwrap();
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
        let alarm = Arc::new(Alarm::default());
        let mut turns = Turns::of(2, [0, 1, 0].into_iter(), &alarm);
        assert_eq!(turns[0].each(|_| Err("lost")), Err("lost"));
        alarm.raise(0);
        assert_eq!(turns[1].each(|_| Ok::<(), &str>(())), Ok(()));
    }

    #[test]
    fn nobody_passes_early_and_nobody_waits_for_the_failed() {
        let alarm = Arc::new(Alarm::default());
        let (gate, passed) = (Gate::new(3, alarm.clone()), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for round in 1..=100 {
                        gate.wait();
                        passed.fetch_add(1, Ordering::AcqRel);
                        gate.wait();
                        assert_eq!(passed.load(Ordering::Acquire), 3 * round);
                        gate.wait();
                    }
                });
            }
        });
        alarm.raise(1);
        gate.wait();
    }
}
