//! A modelled device that the streams of one rank share.
//!
//! The device has two resources: arithmetic and memory bandwidth. An instruction needs some of each (a
//! [`LocalDemand`]), is served by both at the same time, and is done when both have served it completely. Each resource
//! is a processor-sharing server: while it serves `n` instructions, each gets `1/n` of its rate. This is Kleinrock's
//! egalitarian processor sharing ("Time-shared systems: a theoretical treatment", JACM 14, 1967), here among the
//! instructions of one turn (`device_turns`). Turns have strict priority, the earlier one first, and a later turn gets
//! a resource only while no earlier one uses it.
//!
//! All instructions of a turn on a resource attain service at the same rate, so the order in which they finish is known
//! when they arrive: by the service that each member of the turn will have received. A set in that order makes every
//! step cost the logarithm of the number of streams.

use super::model_clock::TakenShare;
use crate::plan::cost::LocalDemand;
use std::collections::{BTreeMap, BTreeSet};

/// Differences of time below this are rounding errors, in nanoseconds.
const ROUNDING_NS: f64 = 1e-3;

/// The least rate of the arithmetic: communications cannot stop it.
const LEAST_RATE: f64 = 0.05;

/// The instructions of one turn that a resource serves.
#[derive(Default, Debug)]
struct TurnShare {
    /// The service that a member from the beginning has received, in nanoseconds of the whole resource.
    attained: f64,
    /// The values of `attained` at which each stream's instruction is served completely. They are not negative, so the
    /// order of their bits is theirs.
    goals: BTreeSet<(u64, usize)>,
}

impl TurnShare {
    /// The time until the first member is served completely, if nothing changes.
    fn first_wait(&self) -> Option<f64> {
        let &(goal, _) = self.goals.first()?;
        Some((f64::from_bits(goal) - self.attained).max(0.0) * self.goals.len() as f64)
    }
}

/// A resource of a device.
#[derive(Default, Debug)]
struct SharedResource {
    /// By turn; only the first one is served.
    turns: BTreeMap<u32, TurnShare>,
}

impl SharedResource {
    /// The time until the first instruction is served completely at a rate, if nothing changes.
    fn first_wait(&self, rate: f64) -> Option<f64> {
        Some(self.turns.values().next()?.first_wait()? / rate)
    }

    /// Adds an instruction.
    fn add_demand(&mut self, turn: u32, stream: usize, needed: f64) {
        let share = self.turns.entry(turn).or_default();
        share.goals.insert(((share.attained + needed).to_bits(), stream));
    }

    /// Serves the first turn for some time.
    fn serve_first_turn(&mut self, elapsed: f64) {
        if let Some(share) = self.turns.values_mut().next() {
            share.attained += elapsed / share.goals.len() as f64;
        }
    }

    /// Removes an instruction that is served completely at `now`, and returns its stream.
    fn take_satisfied(&mut self, now: f64) -> Option<usize> {
        let mut first = self.turns.first_entry()?;
        let wait = first.get().first_wait()?;
        if wait > ROUNDING_NS && now + wait > now {
            return None;
        }
        let (_, stream) = first.get_mut().goals.pop_first()?;
        if first.get().goals.is_empty() {
            first.remove();
        }
        Some(stream)
    }
}

/// An instruction on the device.
#[derive(Clone, Copy, Debug)]
struct DeviceJob {
    turn: u32,
    demand: LocalDemand,
    /// The number of resources that it still needs.
    unsatisfied: usize,
}

/// The modelled device of one rank. Each stream has at most one instruction on it.
#[derive(Debug)]
pub(super) struct SharedDevice {
    now: f64,
    /// The ends of launches, by time and stream.
    launches: BTreeSet<(u64, usize)>,
    /// The share of the arithmetic that communications take, and its changes to come, by time.
    taken: f64,
    taken_changes: BTreeMap<u64, f64>,
    arithmetic: SharedResource,
    memory: SharedResource,
    /// By stream.
    jobs: Vec<Option<DeviceJob>>,
}

impl SharedDevice {
    /// An idle device.
    pub(super) fn new(streams: usize) -> Self {
        Self {
            now: 0.0,
            launches: BTreeSet::new(),
            taken: 0.0,
            taken_changes: BTreeMap::new(),
            arithmetic: SharedResource::default(),
            memory: SharedResource::default(),
            jobs: vec![None; streams],
        }
    }

    /// Begins a stream's instruction at `now`, not before the time to which the device was last advanced.
    pub(super) fn begin_inst(&mut self, now: u64, stream: usize, turn: u32, demand: LocalDemand) {
        self.jobs[stream] = Some(DeviceJob { turn, demand, unsatisfied: 0 });
        self.launches.insert((now.saturating_add(demand.launch_ns), stream));
    }

    /// A communication takes a share of the arithmetic, from now on if it has started before.
    pub(super) fn take_arithmetic(&mut self, taken: TakenShare) {
        if taken.end as f64 > self.now {
            let start = taken.start.max(self.now.ceil() as u64);
            *self.taken_changes.entry(start).or_default() += taken.share;
            *self.taken_changes.entry(taken.end.max(start)).or_default() -= taken.share;
        }
    }

    /// The rate at which arithmetic is served.
    fn arithmetic_rate(&self) -> f64 {
        (1.0 - self.taken).clamp(LEAST_RATE, 1.0)
    }

    /// The time of the next change, if no instruction begins before; in whole nanoseconds, rounded up.
    pub(super) fn next_change(&self) -> Option<u64> {
        self.next_instant().map(|instant| (instant - ROUNDING_NS).max(self.now).ceil() as u64)
    }

    /// Advances to a time, and returns the streams whose instructions are done by then, in order of their ends.
    pub(super) fn advance_to(&mut self, ns: u64) -> Vec<usize> {
        let end = ns as f64;
        let mut finished = Vec::new();
        loop {
            let instant = self.next_instant().map_or(end, |instant| instant.min(end)).max(self.now);
            let elapsed = instant - self.now;
            self.arithmetic.serve_first_turn(elapsed * self.arithmetic_rate());
            self.memory.serve_first_turn(elapsed);
            self.now = instant;
            if !self.make_due_changes(&mut finished) && instant >= end {
                return finished;
            }
        }
    }

    fn next_instant(&self) -> Option<f64> {
        let launched = self.launches.first().map(|&(ns, _)| ns as f64);
        let waits = [self.arithmetic.first_wait(self.arithmetic_rate()), self.memory.first_wait(1.0)];
        let satisfied = waits.into_iter().flatten().map(|wait| self.now + wait);
        // Shares that change while nothing computes are no event.
        let is_computing = !self.arithmetic.turns.is_empty();
        let taken = self.taken_changes.first_key_value().filter(|_| is_computing).map(|(&ns, _)| ns as f64);
        launched.into_iter().chain(satisfied).chain(taken).min_by(f64::total_cmp)
    }

    /// Makes the changes that are due; returns true if there were any.
    fn make_due_changes(&mut self, finished: &mut Vec<usize>) -> bool {
        let mut changed = self.change_shares();
        while let Some(stream) =
            self.arithmetic.take_satisfied(self.now).or_else(|| self.memory.take_satisfied(self.now))
        {
            changed = true;
            let Some(job) = &mut self.jobs[stream] else { continue };
            job.unsatisfied -= 1;
            if job.unsatisfied == 0 {
                self.jobs[stream] = None;
                finished.push(stream);
            }
        }
        while let Some(&(ns, stream)) = self.launches.first()
            && ns as f64 <= self.now
        {
            changed = true;
            self.launches.pop_first();
            self.serve_launched(stream, finished);
        }
        changed
    }

    /// Makes the changes of the taken share that are due; returns true if there were any.
    fn change_shares(&mut self) -> bool {
        let mut changed = false;
        while let Some(first) = self.taken_changes.first_entry()
            && *first.key() as f64 <= self.now
        {
            self.taken += first.remove();
            changed = true;
        }
        changed
    }

    /// Serves a stream's instruction after its launch with the resources that it needs.
    fn serve_launched(&mut self, stream: usize, finished: &mut Vec<usize>) {
        let Some(job) = &mut self.jobs[stream] else { return };
        let demands = [(&mut self.arithmetic, job.demand.arithmetic_ns), (&mut self.memory, job.demand.memory_ns)];
        for (resource, needed) in demands {
            if needed > 0.0 {
                job.unsatisfied += 1;
                resource.add_demand(job.turn, stream, needed);
            }
        }
        if job.unsatisfied == 0 {
            self.jobs[stream] = None;
            finished.push(stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SharedDevice;
    use crate::plan::cost::LocalDemand;

    fn demand(arithmetic_ns: f64, memory_ns: f64) -> LocalDemand {
        LocalDemand { launch_ns: 10, arithmetic_ns, memory_ns }
    }

    /// Runs the device until it is idle; returns the ends by stream.
    fn ends_of(mut device: SharedDevice, streams: usize) -> Vec<u64> {
        let mut ends = vec![0; streams];
        while let Some(ns) = device.next_change() {
            for stream in device.advance_to(ns) {
                ends[stream] = ns;
            }
        }
        ends
    }

    /// A device on which streams begin at 0, each with a turn and a demand.
    fn started(jobs: &[(u32, LocalDemand)]) -> SharedDevice {
        let mut device = SharedDevice::new(jobs.len());
        for (stream, &(turn, demand)) in jobs.iter().enumerate() {
            device.begin_inst(0, stream, turn, demand);
        }
        device
    }

    /// Egalitarian processor sharing in closed form: with needs `a <= b`, the first ends after `2 a`, the second after
    /// `a + b`.
    #[test]
    fn equal_shares() {
        for (first, second, ends) in [(100.0, 100.0, [210, 210]), (30.0, 100.0, [70, 140]), (0.5, 0.25, [11, 11])] {
            let device = started(&[(0, demand(first, 0.0)), (0, demand(second, 0.0))]);
            assert_eq!(ends_of(device, 2), ends);
        }
        let third = demand(1.0, 0.0);
        assert_eq!(ends_of(started(&[(0, third), (0, third), (0, third)]), 3), [13, 13, 13]);
    }

    /// Alone an instruction takes the longer of its needs; two that need different resources take no time from
    /// each other, and one that needs nothing takes its launch.
    #[test]
    fn two_resources() {
        assert_eq!(ends_of(started(&[(0, demand(50.0, 70.0))]), 1), [80]);
        let device = started(&[(0, demand(50.0, 0.0)), (0, demand(0.0, 60.0)), (0, demand(0.0, 0.0))]);
        assert_eq!(ends_of(device, 3), [60, 70, 10]);
        assert_eq!(ends_of(started(&[(0, demand(50.0, 20.0)), (0, demand(0.0, 30.0))]), 2), [60, 60]);
    }

    /// A later turn uses the resources that an earlier one leaves, and yields when an earlier one arrives.
    #[test]
    fn turns_in_order() {
        assert_eq!(ends_of(started(&[(1, demand(40.0, 0.0)), (0, demand(100.0, 0.0))]), 2), [150, 110]);
        assert_eq!(ends_of(started(&[(1, demand(0.0, 40.0)), (0, demand(100.0, 20.0))]), 2), [70, 110]);
        let mut device = SharedDevice::new(2);
        device.begin_inst(0, 0, 1, demand(40.0, 0.0));
        assert_eq!(device.advance_to(20), []);
        device.begin_inst(20, 1, 0, demand(5.0, 0.0));
        assert_eq!(ends_of(device, 2), [55, 35]);
    }
}
