//! The fastest of several programs by measured times, which are equal where their intervals overlap.

use super::kept::{ChoiceReason, MeasuredTime, TunedWay};
use crate::run::bench::measurement::Times;

/// The most runs for which the binomial distribution is summed up; beyond, it is nearly normal.
const MOST_SUMMED: usize = 1000;

/// The probability that the median is below an interval, and that it is above.
const TAIL: f64 = 0.025;

/// The median of times, and its interval.
pub(super) fn measured_time(times: &Times) -> MeasuredTime {
    let sorted = times.sorted();
    let rank = interval_rank(sorted.len());
    let [low, high] = [rank, sorted.len().saturating_sub(rank + 1)].map(|at| sorted.get(at).copied());
    let [median, low, high] = [Some(times.percentile(50)), low, high].map(|ms| round_us(ms.unwrap_or(f64::NAN) * 1e3));
    MeasuredTime { median_us: median, low_us: low, high_us: high, runs: sorted.len() }
}

/// A time of the model, which cannot tell apart what differs by 2%.
pub(super) fn modelled_time(us: f64) -> MeasuredTime {
    MeasuredTime { median_us: round_us(us), low_us: round_us(us * 0.99), high_us: round_us(us * 1.01), runs: 1 }
}

/// The place, from 0, of the smallest of `runs` sorted times that starts a 95% interval of the median; the interval
/// ends as far from the largest. So many times are below the median with a probability of at most [`TAIL`].
fn interval_rank(runs: usize) -> usize {
    if runs > MOST_SUMMED {
        return ((runs as f64 - 1.96 * (runs as f64).sqrt()) / 2.0) as usize - 1;
    }
    let mut term = 0.5f64.powi(runs as i32);
    let (mut below, mut rank) = (term, 0);
    loop {
        term *= (runs - rank) as f64 / (rank + 1) as f64;
        if below + term > TAIL || rank + 1 >= runs {
            return rank;
        }
        below += term;
        rank += 1;
    }
}

/// Microseconds with three decimals.
pub(super) fn round_us(us: f64) -> f64 {
    (us * 1e3).round() / 1e3
}

/// The places of the programs that are not clearly slower than the fastest, by the model.
pub(super) fn close_ways(ways: &[TunedWay], margin_percent: f64) -> Vec<usize> {
    let least = ways.iter().map(|way| way.model_us).fold(f64::INFINITY, f64::min);
    let most = least * (1.0 + margin_percent / 100.0);
    (0..ways.len()).filter(|&at| ways[at].model_us <= most).collect()
}

/// A choice among programs.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct RankedWays {
    /// The place of the chosen one.
    pub(super) chosen: usize,
    pub(super) reason: ChoiceReason,
    /// The places of others that are as fast, as far as can be told.
    pub(super) tied: Vec<usize>,
}

/// Chooses among the close programs: the first of those that cannot be told from the fastest.
pub(super) fn rank_ways(ways: &[TunedWay], close: &[usize]) -> RankedWays {
    let timed: Vec<(usize, &MeasuredTime)> =
        close.iter().filter_map(|&at| Some((at, ways[at].measured.as_ref()?))).collect();
    let fastest = timed.iter().min_by(|(_, one), (_, other)| one.median_us.total_cmp(&other.median_us));
    let Some(&(_, fastest)) = fastest.filter(|_| timed.len() > 1) else {
        let chosen = close.first().copied().unwrap_or(0);
        return RankedWays { chosen, reason: ChoiceReason::Model, tied: Vec::new() };
    };
    let mut equal = timed.iter().filter(|(_, time)| time.low_us <= fastest.high_us).map(|(at, _)| *at);
    let chosen = equal.next().unwrap_or(0);
    let tied: Vec<usize> = equal.collect();
    let reason = if tied.is_empty() { ChoiceReason::Fastest } else { ChoiceReason::Tie };
    RankedWays { chosen, reason, tied }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The places from 1 in tables of order statistics (W. J. Conover, Practical Nonparametric Statistics).
    #[test]
    fn intervals_are_those_of_tables() {
        for (runs, first) in [(6, 1), (10, 2), (15, 4), (20, 6), (25, 8), (50, 18), (100, 40)] {
            assert_eq!(interval_rank(runs) + 1, first, "{runs} runs");
        }
        // Both rules agree where one follows the other.
        assert_eq!(interval_rank(MOST_SUMMED), interval_rank(MOST_SUMMED + 1));
    }

    #[test]
    fn intervals_hold_the_median() {
        let time = measured_time(&Times::from_unsorted((1..=10).rev().map(f64::from).collect()));
        assert_eq!((time.low_us, time.median_us, time.high_us, time.runs), (2000.0, 5000.0, 9000.0, 10));
    }

    fn way(model_us: f64, measured: Option<[f64; 3]>) -> TunedWay {
        let measured =
            measured.map(|[low_us, median_us, high_us]| MeasuredTime { median_us, low_us, high_us, runs: 50 });
        TunedWay { file: String::new(), plan: String::new(), model_us, measured }
    }

    #[test]
    fn the_first_of_equal_ways_is_chosen() {
        let ways = [way(12.0, Some([9.5, 10.0, 10.5])), way(13.0, None), way(10.0, Some([9.0, 9.4, 9.6]))];
        assert_eq!(close_ways(&ways, 20.0), [0, 2]);
        let ranked = rank_ways(&ways, &[0, 2]);
        assert_eq!(ranked, RankedWays { chosen: 0, reason: ChoiceReason::Tie, tied: vec![2] });
        // Not measured is not equal, and an interval above is not either.
        let ways = [way(12.0, Some([9.7, 10.0, 10.5])), way(10.0, Some([9.0, 9.4, 9.6]))];
        let ranked = rank_ways(&ways, &[0, 1]);
        assert_eq!(ranked, RankedWays { chosen: 1, reason: ChoiceReason::Fastest, tied: Vec::new() });
    }
}
