//! Times the algorithms of a rank's GEMMs and chooses the fastest.
#![allow(unsafe_code, reason = "only the rank knows that its addresses are right")]

use super::trial_operands::TrialOperands;
use crate::runtime::options::{GemmTuning, Options};
use crate::runtime::rank::RankRuntime;
use crate::sys::Error;
use crate::sys::blas::GemmOperands;
use hostir_gpu::gemm_shape::GemmShape;
use std::time::Instant;

/// The number of timed single runs of each proposal.
const TRIALS: usize = 3;
/// A GEMM of fewer milliseconds is tuned by single runs alone: longer trials would gain little.
const WORTH_STRETCHES: f64 = 0.1;
/// Milliseconds of runs of one algorithm in a row: those before the timed ones, in which the clock settles at the power
/// limit, and the timed ones. On H100s one such time chose algorithms 0.4% slower than the fastest on average, single
/// runs 1.8%.
const LEAD: f64 = 40.0;
const STRETCH: f64 = 60.0;
/// Milliseconds of runs before all these: an idle GPU takes that long to reach its power limit.
const WARM_UP: f64 = 200.0;
/// An algorithm is dropped if its single run takes this many times the least one.
const FAR: f64 = 1.5;
/// The number of algorithms that are timed again, beside the library's first proposal, and how often.
const FINALISTS: usize = 4;
const FINALS: usize = 4;

/// A GEMM of a rank with operands for its trials.
#[derive(Clone, Copy)]
struct GemmTrial<'t> {
    gemm: usize,
    operands: &'t GemmOperands,
    parts: &'t [u64],
    options: &'t Options,
}

impl RankRuntime<'_> {
    /// Each GEMM, and its number of candidate algorithms.
    pub(crate) fn gemm_candidates(&self) -> impl Iterator<Item = (&GemmShape, usize)> {
        self.commands.schedule.shapes.iter().zip(self.kernels.gemms.iter().map(|gemm| gemm.algorithm_count()))
    }

    /// Times the algorithms of a GEMM in turn, on random operands; returns the fastest, and the effort. Without memory
    /// for operands it returns the library's first proposal, which is seldom far from it. With a deadline the trials
    /// are sustained, if they are worth it and end before it.
    pub(crate) fn fastest_algorithm(
        &mut self,
        gemm: usize,
        deadline: Option<Instant>,
        options: &Options,
    ) -> Result<(usize, GemmTuning), Error> {
        const UNTIMED: (usize, GemmTuning) = (0, GemmTuning::Quick);
        let Some((actual, parts)) = self.commands.first_operands(gemm) else { return Ok(UNTIMED) };
        let shape = &self.commands.schedule.shapes[gemm];
        let (cache, stream) = (&self.memory.cache, self.streams.main());
        let Some(operands) = TrialOperands::new(shape, &actual, parts, &self.device, cache, stream)? else {
            return Ok(UNTIMED);
        };
        let trial = GemmTrial { gemm, operands: &operands.operands, parts: &operands.parts, options };
        let single = self.single_times(trial)?;
        let fastest = index_of_least(&single);
        let is_worth_it = single.get(fastest).is_some_and(|least| *least >= WORTH_STRETCHES);
        if let Some(deadline) = deadline.filter(|_| is_worth_it)
            && let Some(choice) = self.fastest_in_stretches(trial, single, deadline)?
        {
            return Ok((choice, GemmTuning::Sustained));
        }
        Ok((fastest, GemmTuning::Quick))
    }

    /// The least of several single runs of each proposal, in milliseconds.
    fn single_times(&mut self, trial: GemmTrial<'_>) -> Result<Vec<f64>, Error> {
        let mut least = vec![f64::INFINITY; self.kernels.gemms[trial.gemm].proposal_count()];
        // The first run may have to load the algorithm.
        for _ in 0..=TRIALS {
            for (choice, least) in least.iter_mut().enumerate() {
                *least = least.min(self.time_gemm(trial, choice, 0, 1)?);
            }
        }
        Ok(least)
    }

    /// The fastest algorithm in many runs in a row, among the proposals, their variants and our kernels; `None` if the
    /// deadline comes before each has run. `single` has the milliseconds of single runs of the proposals.
    fn fastest_in_stretches(
        &mut self,
        trial: GemmTrial<'_>,
        mut single: Vec<f64>,
        deadline: Instant,
    ) -> Result<Option<usize>, Error> {
        let count = self.kernels.gemms[trial.gemm].algorithm_count();
        for variant in single.len()..count {
            // The library may refuse a variant when it runs, and NVRTC a kernel. The first run may have to load it.
            single.push(self.time_gemm(trial, variant, 1, 1).unwrap_or(f64::INFINITY));
        }
        let least = single[index_of_least(&single)];
        let runs = |milliseconds: f64| (milliseconds / least).ceil() as usize;
        self.time_gemm(trial, 0, 0, runs(WARM_UP))?;
        let mut times = vec![Vec::with_capacity(1 + FINALS); count];
        for choice in (0..count).filter(|choice| single[*choice] <= FAR * least) {
            if Instant::now() >= deadline {
                return Ok(None);
            }
            times[choice].push(self.time_gemm(trial, choice, runs(LEAD), runs(STRETCH))?);
        }
        let finalists = finalists_of(&times);
        for choice in (0..FINALS).flat_map(|_| &finalists) {
            if Instant::now() >= deadline {
                break;
            }
            times[*choice].push(self.time_gemm(trial, *choice, runs(LEAD), runs(STRETCH))?);
        }
        let medians: Vec<f64> = finalists.iter().map(|choice| median_of(&times[*choice])).collect();
        Ok(finalists.get(index_of_least(&medians)).copied())
    }

    /// Milliseconds of one of `runs` runs in a row of an algorithm, after `lead` untimed ones.
    fn time_gemm(&mut self, trial: GemmTrial<'_>, choice: usize, lead: usize, runs: usize) -> Result<f64, Error> {
        self.kernels.gemms[trial.gemm].choose(choice, &self.device, trial.options)?;
        let (stream, timers) = (self.streams.main(), &self.streams.timers);
        for run in 0..lead + runs {
            if run == lead {
                stream.record(&timers[0])?;
            }
            // SAFETY: the rank's promise: nothing else is in flight before the first run; the operands were made for
            // this shape.
            unsafe { self.kernels.run_gemm(trial.gemm, trial.operands, trial.parts, stream) }?;
        }
        stream.record(&timers[1])?;
        stream.synchronize()?;
        Ok(timers[1].elapsed_since(&timers[0])? / runs as f64)
    }

    /// Applies these algorithms, and runs each GEMM once: the library loads an algorithm at its first use, which must
    /// not happen beside communications of the run.
    pub(crate) fn apply_algorithms(&mut self, choices: &[usize], options: &Options) -> Result<(), Error> {
        for (gemm, choice) in self.kernels.gemms.iter_mut().zip(choices) {
            gemm.choose(*choice, &self.device, options)?;
        }
        if self.kernels.gemms.is_empty() {
            return Ok(());
        }
        let stream = self.streams.main();
        for number in 0..self.kernels.gemms.len() {
            if let Some((operands, parts)) = self.commands.first_operands(number) {
                // SAFETY: the rank's promise, as in `time_gemm`.
                unsafe { self.kernels.run_gemm(number, &operands, parts, stream) }?;
            }
        }
        stream.synchronize()
    }
}

/// The algorithms with the least single times, and the first one; algorithms without a time are left out.
fn finalists_of(times: &[Vec<f64>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..times.len()).filter(|choice| !times[*choice].is_empty()).collect();
    order.sort_by(|one, other| median_of(&times[*one]).total_cmp(&median_of(&times[*other])));
    order.truncate(FINALISTS);
    if !order.contains(&0) && times.first().is_some_and(|first| !first.is_empty()) {
        order.push(0);
    }
    order
}

/// The median of some times, of an even number the greater of the two in the middle; infinite for none.
fn median_of(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::INFINITY)
}

/// The index of the least number; 0 if there is none.
fn index_of_least(numbers: &[f64]) -> usize {
    let least = numbers.iter().enumerate().min_by(|(_, one), (_, other)| one.total_cmp(other));
    least.map_or(0, |(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::{finalists_of, index_of_least, median_of};

    #[test]
    fn finalists_are_the_fastest_and_the_first() {
        let times: Vec<Vec<f64>> = [9.0, 1.0, 5.0, 2.0, 3.0, 4.0].into_iter().map(|time| vec![time]).collect();
        assert_eq!(finalists_of(&times), [1, 3, 4, 5, 0]);
        assert_eq!(finalists_of(&times[..2]), [1, 0]);
        assert_eq!(finalists_of(&[vec![], vec![2.0]]), [1]);
        assert_eq!(finalists_of(&[]), [0; 0]);
    }

    #[test]
    fn one_slow_time_does_not_count() {
        assert_eq!(median_of(&[1.0, 1.2, 9.0, 1.1, 1.3]), 1.2);
        assert_eq!(median_of(&[2.0, 1.0]), 2.0);
        assert_eq!(median_of(&[]), f64::INFINITY);
    }

    #[test]
    fn the_least_number_is_found() {
        assert_eq!(index_of_least(&[3.0, 1.0, f64::INFINITY, 1.0]), 1);
        assert_eq!(index_of_least(&[f64::NAN, 2.0]), 1);
        assert_eq!(index_of_least(&[]), 0);
    }
}
