//! Synchronizes the clocks of a run's processes.
//!
//! Each process has its own clock. The offset of two clocks is estimated from collective steps
//! ([`ControlPlane::all_gather`]). No process returns from a step before all have called it, so a rank's call at `t0`
//! precedes rank 0's return at `t1`, and rank 0's call at `t2` precedes the rank's return at `t3`, as if a message
//! made a round trip. NTP's formula (RFC 5905, section 8) then says that rank 0's clock is ahead by
//! `((t1 - t0) + (t2 - t3)) / 2`, with an error of at most half of the round trip `(t3 - t0) - (t2 - t1)`. NTP keeps
//! the sample with the shortest round trip; here the shortest delays of both directions are kept independently,
//! which is never worse. A delay is short if the measured caller is the last to call, so the ranks take turns in
//! calling last.
//!
//! Processes of one host share a clock ([`monotonic_ns`]). The measurement only checks that it is consistent with
//! this, so that processes that claim to be on one host and have different clocks (time namespaces) are compared like
//! others.
//!
//! Clocks also run at different speeds, with differences of some tens of microseconds per second. Times between two
//! comparisons are interpolated ([`ClockDrift`]).

use super::control_plane::{ControlPlane, ControlPlaneError};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// The number of initial steps without delays, which show how long a step takes.
const FIRST: u32 = 4;
/// The number of times that each rank calls last, and the maximum number of steps of a comparison.
const TURNS: u32 = 8;
const MOST: u32 = 1024;
/// The bounds of the delay with which a rank calls last; the delay is twice the shortest step.
const LATE: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(20));

/// A step on one process's clock, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockStep {
    /// Right before the call.
    pub before: u64,
    /// Right after its return.
    pub after: u64,
}

/// The offset of a process's clock from rank 0's.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ClockOffset {
    /// The nanoseconds by which the clock is ahead of rank 0's.
    pub ahead_ns: i64,
    /// The error bound: the true offset differs by at most this much in either direction.
    pub error_ns: u64,
}

/// The time in nanoseconds of a monotonic clock that all processes of a host share.
pub fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    seconds.unwrap_or(0).saturating_mul(1_000_000_000).saturating_add(nanos.unwrap_or(0))
}

/// The signed difference between two times.
fn time_between(from: u64, to: u64) -> i128 {
    i128::from(to) - i128::from(from)
}

/// Lower and upper bounds on the offset of a process's clock from rank 0's, from the same steps on both.
fn offset_bounds(first: &[ClockStep], other: &[ClockStep]) -> Option<(i128, i128)> {
    let steps = first.iter().zip(other);
    let least = steps.clone().map(|(first, other)| time_between(first.after, other.before)).max()?;
    let most = steps.map(|(first, other)| time_between(first.before, other.after)).min()?;
    Some((least, most))
}

/// Computes the clock offset of a process from the same steps as seen by rank 0 and by that process.
pub fn estimate_offset(first: &[ClockStep], other: &[ClockStep]) -> ClockOffset {
    let Some((least, most)) = offset_bounds(first, other) else { return ClockOffset::default() };
    // Bounds that cross come from clocks that run unevenly.
    let error = u64::try_from((most - least).unsigned_abs().div_ceil(2)).unwrap_or(u64::MAX);
    let ahead = i64::try_from((least + most).div_euclid(2)).unwrap_or(0);
    ClockOffset { ahead_ns: ahead, error_ns: error }
}

/// Returns true if the same steps on rank 0 and on another process allow an offset.
fn is_possible(offset: ClockOffset, first: &[ClockStep], other: &[ClockStep]) -> bool {
    offset_bounds(first, other).is_none_or(|(least, most)| (least..=most).contains(&i128::from(offset.ahead_ns)))
}

/// Computes the clock offsets of all processes, by rank. Processes of one host share a clock, unless the measured
/// steps rule that out.
fn estimate_offsets(all: &[(String, Vec<ClockStep>)]) -> Vec<ClockOffset> {
    let mut found: Vec<ClockOffset> = Vec::new();
    for (rank, (host, steps)) in all.iter().enumerate() {
        let first = &all[0].1;
        let same = all[..rank].iter().position(|(other, _)| other == host);
        let same = same.and_then(|rank| found.get(rank).copied());
        found.push(match same.filter(|offset| is_possible(*offset, first, steps)) {
            Some(same) => same,
            None if rank == 0 => ClockOffset::default(),
            None => estimate_offset(first, steps),
        });
    }
    found
}

/// Compares all processes' clocks and returns each rank's offset from rank 0's. All processes call this, and get
/// the same result. `now` is this process's clock in nanoseconds: [`monotonic_ns`], or a simulated one in tests.
///
/// # Errors
/// Those of [`ControlPlane::all_gather`].
pub fn compare_clocks(
    control_plane: &dyn ControlPlane,
    now: &dyn Fn() -> u64,
) -> Result<Vec<ClockOffset>, ControlPlaneError> {
    let own = take_clock_steps(control_plane, now)?;
    let times = own.iter().flat_map(|step| [step.before, step.after]);
    let mut message: Vec<u8> = times.flat_map(u64::to_le_bytes).collect();
    message.extend(control_plane.host_name().as_bytes());
    let all = control_plane.all_gather("clocks", &message)?;
    let all: Option<Vec<_>> = all.iter().map(|bytes| decode_steps(bytes, own.len())).collect();
    let Some(all) = all else {
        let why = "`clocks` came in pieces".to_owned();
        return Err(ControlPlaneError::Broken { why });
    };
    Ok(estimate_offsets(&all))
}

/// Performs the steps of a comparison.
fn take_clock_steps(
    control_plane: &dyn ControlPlane,
    now: &dyn Fn() -> u64,
) -> Result<Vec<ClockStep>, ControlPlaneError> {
    let (rank, world) = (control_plane.rank(), control_plane.world_size().max(1));
    let turns = (MOST / world).clamp(1, TURNS);
    let mut steps: Vec<ClockStep> = Vec::new();
    for number in 0..FIRST + turns * world {
        let late = number.checked_sub(FIRST).is_some_and(|number| number % world == rank);
        if late {
            let shortest = steps.iter().map(|step| step.after.saturating_sub(step.before)).min();
            let twice = Duration::from_nanos(shortest.unwrap_or(0).saturating_mul(2));
            std::thread::sleep(twice.clamp(LATE.0, LATE.1));
        }
        let before = now();
        control_plane.all_gather("clock", &[])?;
        steps.push(ClockStep { before, after: now() });
    }
    Ok(steps)
}

/// Decodes a process's host name and its `count` steps.
fn decode_steps(bytes: &[u8], count: usize) -> Option<(String, Vec<ClockStep>)> {
    let (steps, host) = bytes.split_at_checked(count * 16)?;
    let steps = steps.chunks_exact(16).map(read_step).collect::<Option<_>>()?;
    Some((String::from_utf8_lossy(host).into_owned(), steps))
}

/// Decodes a step from its 16 bytes.
fn read_step(bytes: &[u8]) -> Option<ClockStep> {
    let (before, after) = bytes.split_first_chunk()?;
    let after = u64::from_le_bytes(after.try_into().ok()?);
    Some(ClockStep { before: u64::from_le_bytes(*before), after })
}

/// A process's clock between two comparisons.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockDrift {
    /// The process's time at the first comparison, and the measured offset.
    pub start: (u64, ClockOffset),
    /// The process's time at the second comparison, and the measured offset.
    pub end: (u64, ClockOffset),
}

impl ClockDrift {
    /// Converts a time of the process's clock to rank 0's; 0 if that would be negative.
    pub fn to_rank_zero(&self, ns: u64) -> u64 {
        let (from, to) = (self.start.0, self.end.0.max(self.start.0 + 1));
        let (first, second) = (i128::from(self.start.1.ahead_ns), i128::from(self.end.1.ahead_ns));
        let part = ns.clamp(from, to).saturating_sub(from) as f64 / (to - from) as f64;
        let ahead = first + ((second - first) as f64 * part).round() as i128;
        let time = i128::from(ns) - ahead;
        u64::try_from(time.max(0)).unwrap_or(u64::MAX)
    }

    /// The error bound of converted times, in nanoseconds.
    pub fn error_ns(&self) -> u64 {
        self.start.1.error_ns.max(self.end.1.error_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::control_plane::ThreadControlPlane;
    use std::time::Instant;

    fn step(before: u64, after: u64) -> ClockStep {
        ClockStep { before, after }
    }

    #[test]
    fn the_formula_of_ntp() {
        // By rank 0's clock: the rank calls at 100, rank 0 returns at 130, calls at 200, and the rank
        // returns at 220. The rank's clock is 5000 ahead.
        let first = [step(10, 130), step(200, 290)];
        let other = [step(5100, 5150), step(5150, 5220)];
        // ((130 - 5100) + (200 - 5220)) / 2 = -4995; (5220 - 5100) - (200 - 130) = 50.
        assert_eq!(estimate_offset(&first, &other), ClockOffset { ahead_ns: 4995, error_ns: 25 });
        // And the same the other way round.
        assert_eq!(estimate_offset(&other, &first), ClockOffset { ahead_ns: -4995, error_ns: 25 });
    }

    #[test]
    fn the_shortest_ways_count_whichever_step_they_are_of() {
        let first = [step(0, 1000), step(2000, 2010), step(3000, 3990)];
        let other = [step(990, 1005), step(2001, 2900), step(3001, 3013)];
        // There within 2010 - 2001 = 9 (second step), back within 3013 - 3000 = 13 (third).
        assert_eq!(estimate_offset(&first, &other), ClockOffset { ahead_ns: 2, error_ns: 11 });
        assert_eq!(estimate_offset(&[], &[]), ClockOffset::default());
        assert_eq!(estimate_offset(&first, &first).ahead_ns, 0);
    }

    /// Clocks that are hours apart, and one that has just begun.
    #[test]
    fn simulated_clocks_are_found() {
        let hour = 3_600_000_000_000u64;
        let skews = [5 * hour, 0, 9 * hour, 5 * hour];
        let start = Instant::now();
        let found = std::thread::scope(|scope| {
            let one = |control_plane: ThreadControlPlane| {
                let skew = skews[control_plane.rank() as usize];
                let now = move || start.elapsed().as_nanos() as u64 + skew;
                scope.spawn(move || compare_clocks(&control_plane, &now).unwrap())
            };
            let ranks = ThreadControlPlane::new(4, Duration::from_secs(30));
            let threads: Vec<_> = ranks.into_iter().map(one).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        for offsets in &found {
            assert_eq!(*offsets, found[0]);
            for (offset, skew) in offsets.iter().zip(skews) {
                let off = (offset.ahead_ns - (skew as i64 - skews[0] as i64)).unsigned_abs();
                assert!(off <= offset.error_ns, "{offset:?} is off by {off}");
                assert!(offset.error_ns < 1_000_000_000, "{offset:?}");
            }
        }
        // One host, and no contradiction to one clock.
        assert_eq!((found[0][0], found[0][3]), (ClockOffset::default(), ClockOffset::default()));
    }

    #[test]
    fn processes_of_a_host_have_one_clock_if_that_can_be() {
        let steps = |ahead: u64, ways: u64| vec![step(100 + ahead - ways, 110 + ahead + ways)];
        let host = |name: &str, steps| (name.to_owned(), steps);
        let all = [
            host("a", steps(50, 0)),
            host("b", steps(1050, 4)),
            host("a", steps(53, 1)),
            host("b", steps(1051, 8)),
            host("b", steps(9050, 8)),
        ];
        let found = estimate_offsets(&all);
        let of = |ahead_ns, error_ns| ClockOffset { ahead_ns, error_ns };
        assert_eq!(found, [of(0, 0), of(1000, 14), of(0, 0), of(1000, 14), of(9000, 18)]);
    }

    #[test]
    fn the_clock_goes_on() {
        let (first, second) = (monotonic_ns(), monotonic_ns());
        assert!(first > 0 && second >= first);
    }

    #[test]
    fn clocks_of_different_speed() {
        // Ahead by 1000 at first, by 1500 a million later: 500 parts in a million faster.
        let at = |ahead_ns, error_ns| ClockOffset { ahead_ns, error_ns };
        let drift = ClockDrift { start: (1_001_000, at(1000, 7)), end: (2_001_500, at(1500, 9)) };
        assert_eq!(drift.to_rank_zero(1_001_000), 1_000_000);
        assert_eq!(drift.to_rank_zero(2_001_500), 2_000_000);
        assert_eq!(drift.to_rank_zero(1_501_250), 1_500_000);
        assert_eq!(drift.error_ns(), 9);
        // Outside of the two comparisons the nearest one counts.
        assert_eq!(drift.to_rank_zero(2_501_500), 2_500_000);
        assert_eq!(drift.to_rank_zero(10), 0);
    }

    #[test]
    fn a_rank_that_fails_ends_the_comparison() {
        let mut ranks = ThreadControlPlane::new(2, Duration::from_secs(30));
        ranks.remove(1).report_failure("H0522\n\nno clock");
        let error = compare_clocks(&ranks[0], &|| 0).unwrap_err();
        assert!(matches!(error, ControlPlaneError::Failed { rank: 1, .. }));
        let message = [vec![0; 32], b"host".to_vec()].concat();
        let (host, steps) = decode_steps(&message, 2).unwrap();
        assert_eq!((host.as_str(), steps), ("host", vec![step(0, 0); 2]));
        assert_eq!(decode_steps(&message, 3), None);
    }
}
