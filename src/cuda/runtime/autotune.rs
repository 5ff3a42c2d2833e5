//! Autotuning: the choice of an algorithm for each GEMM of the program.
//!
//! Ranks that compute the same GEMM have to round alike, or replicas would differ: the first rank that has a GEMM
//! chooses for all. Choices are cached, so equal GEMMs of later programs take the same algorithm without being timed.
//! Choices of sustained trials are also kept for later processes.

mod kept_choices;
mod rank_timings;
mod trial_operands;

use crate::runtime::autotune::kept_choices::{keep_choice, kept_choice};
use crate::runtime::failure::RankFailure;
use crate::runtime::gemm_choice::GemmChoice;
use crate::runtime::loaded_program::LoadedProgram;
use crate::runtime::options::{GemmTuning, Options};
use hostir::diag::Diag;
use hostir_gpu::gemm_shape::GemmShape;
use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// GEMMs of fewer operations take cuBLASLt's first proposal: their time is mostly launch latency.
const WORTHWHILE: u64 = 1 << 20;
/// The time after which the remaining GEMMs of a program are tuned quickly, if half the timeout is not reached before:
/// other processes wait for its ranks, and give up after a while.
const SUSTAINED_TIME: Duration = Duration::from_secs(30);

/// The source of a rank's choice of GEMM algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AlgorithmChoice {
    /// An algorithm that is already known, and the effort by which it was chosen.
    Known(usize, GemmTuning),
    /// The fastest, by timing all candidates.
    Timed,
    /// The choice of an earlier rank.
    Followed,
}

/// A GEMM, and its number of candidate algorithms.
type GemmCandidates<'s> = (&'s GemmShape, usize);

/// The choices for all GEMMs, `[rank][gemm]`. `known` has earlier choices, by rank, with their effort.
fn algorithm_choices(
    ranks: &[Vec<GemmCandidates<'_>>],
    known: impl Fn(usize, &GemmShape) -> Option<(usize, GemmTuning)>,
) -> Vec<Vec<AlgorithmChoice>> {
    let mut seen = HashSet::new();
    let mut ways = Vec::new();
    for (rank, gemms) in ranks.iter().enumerate() {
        let mut own = Vec::new();
        for gemm in gemms {
            own.push(match seen.insert(gemm.0) {
                true => first_choice(gemm, known(rank, gemm.0)),
                false => AlgorithmChoice::Followed,
            });
        }
        ways.push(own);
    }
    ways
}

/// The choice for a shape that no earlier GEMM has.
fn first_choice((shape, count): &GemmCandidates<'_>, known: Option<(usize, GemmTuning)>) -> AlgorithmChoice {
    match known {
        Some((choice, effort)) if choice < *count => AlgorithmChoice::Known(choice, effort),
        _ if *count < 2 || shape.flop_count() < WORTHWHILE => AlgorithmChoice::Known(0, GemmTuning::Quick),
        _ => AlgorithmChoice::Timed,
    }
}

/// Chooses an algorithm for each GEMM, the same on all ranks.
pub(crate) fn tune_gemms(loaded: &mut LoadedProgram<'_>, options: &Options) -> Result<(), Vec<Diag>> {
    let gemms: Vec<Vec<GemmCandidates<'_>>> =
        loaded.ranks.iter().map(|rank| rank.gemm_candidates().collect()).collect();
    let kinds: Vec<String> = loaded.ranks.iter().map(|rank| rank.device.name().unwrap_or_default()).collect();
    let ways = algorithm_choices(&gemms, |rank, shape| known_choice(options, &kinds[rank], shape));
    let first = loaded.ranks.first().map_or(0, |rank| rank.plan.rank);
    let deadline =
        (options.tuning == GemmTuning::Sustained).then(|| Instant::now() + SUSTAINED_TIME.min(options.timeout / 2));
    let chosen = Mutex::new(vec![Vec::new(); ways.len()]);
    loaded.for_each_rank(|rank| {
        let at = (rank.plan.rank - first) as usize;
        let mut own = Vec::new();
        for (gemm, way) in ways[at].iter().enumerate() {
            let (algorithm, effort) = match way {
                AlgorithmChoice::Known(choice, effort) => (*choice, *effort),
                AlgorithmChoice::Timed => rank.fastest_algorithm(gemm, deadline, options)?,
                AlgorithmChoice::Followed => continue,
            };
            let shape = rank.commands.schedule.shapes[gemm].clone();
            own.push(GemmChoice { shape, algorithm, effort, kind: kinds[at].clone() });
        }
        if let Ok(mut chosen) = chosen.lock() {
            chosen[at] = own;
        }
        Ok(())
    })?;
    let chosen = chosen.into_inner().unwrap_or_default().concat();
    apply_tuning(loaded, chosen, options, &kinds)
}

/// The choice that this process or an earlier one made for a GEMM on this kind of device, and its effort.
fn known_choice(options: &Options, kind: &str, shape: &GemmShape) -> Option<(usize, GemmTuning)> {
    let cached = options.cache.cached_algorithm(kind, shape, options.tuning);
    cached.or_else(|| kept_choice(options, kind, shape).map(|choice| (choice, GemmTuning::Sustained)))
}

/// Agrees on the choices with the other processes, remembers them, and applies them.
fn apply_tuning(
    loaded: &mut LoadedProgram<'_>,
    chosen: Vec<GemmChoice>,
    options: &Options,
    kinds: &[String],
) -> Result<(), Vec<Diag>> {
    let agreed = loaded.process_group.agree_on_algorithms(chosen)?;
    let agreed: HashMap<&GemmShape, &GemmChoice> = agreed.iter().map(|choice| (&choice.shape, choice)).collect();
    for (rank, kind) in loaded.ranks.iter().zip(kinds) {
        let choices = rank.gemm_candidates().filter_map(|(shape, _)| agreed.get(shape));
        choices.for_each(|choice| remember_choice(options, kind, choice));
    }
    loaded.for_each_rank(|rank| {
        let find = |shape: &GemmShape| agreed.get(shape).map_or(0, |choice| choice.algorithm);
        let choices: Vec<usize> = rank.gemm_candidates().map(|(shape, _)| find(shape)).collect();
        rank.apply_algorithms(&choices, options).map_err(RankFailure::from)
    })
}

/// Remembers a choice for this kind of device: for later programs and, if it comes from sustained trials on this
/// device, for later processes.
fn remember_choice(options: &Options, kind: &str, choice: &GemmChoice) {
    let GemmChoice { shape, algorithm, effort, .. } = choice;
    let effort = if choice.kind == kind { *effort } else { GemmTuning::Quick };
    options.cache.record_algorithm(kind, shape, effort, *algorithm);
    if effort == GemmTuning::Sustained {
        keep_choice(options, kind, shape, *algorithm);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::options::ImageStore;
    use crate::runtime::resource_cache::ResourceCache;
    use hostir_gpu::gemm_shape::{MatrixElement, MatrixLayout};

    /// A GEMM of square matrices.
    fn square(size: u64) -> GemmShape {
        GemmShape::dense(MatrixElement::F32, [size; 3], [true, false])
    }

    #[test]
    fn each_product_is_timed_once_if_at_all() {
        let (small, large, other) = (square(64), square(512), square(1024));
        assert_eq!((small.flop_count(), large.flop_count()), (524_288, 268_435_456));
        let ranks = [vec![(&small, 8), (&large, 8)], vec![(&large, 8), (&other, 1)], vec![(&other, 8), (&small, 8)]];
        let expected = [
            [AlgorithmChoice::Known(0, GemmTuning::Quick), AlgorithmChoice::Timed],
            [AlgorithmChoice::Followed, AlgorithmChoice::Known(0, GemmTuning::Quick)],
            [AlgorithmChoice::Followed, AlgorithmChoice::Followed],
        ];
        assert_eq!(algorithm_choices(&ranks, |_, _| None), expected);
        // A known choice is taken if that algorithm exists here.
        let known =
            |rank, shape: &GemmShape| (rank == 0 && *shape == square(512)).then_some((5, GemmTuning::Sustained));
        assert_eq!(
            algorithm_choices(&ranks, known)[0],
            [AlgorithmChoice::Known(0, GemmTuning::Quick), AlgorithmChoice::Known(5, GemmTuning::Sustained)]
        );
        let gone = |_, _: &GemmShape| Some((8, GemmTuning::Sustained));
        assert_eq!(algorithm_choices(&ranks, gone), expected);
    }

    #[test]
    fn operations_of_transposed_and_batched_products() {
        let layout = |rows, columns| MatrixLayout { rows, columns, leading: 1, batch_stride: 0 };
        let shape = GemmShape { a: (layout(5, 3), true), d: layout(3, 7), batch: 4, ..square(1) };
        assert_eq!(shape.flop_count(), 2 * 3 * 7 * 5 * 4);
    }

    #[test]
    fn what_was_chosen_is_known_afterwards() {
        use GemmTuning::{Quick, Sustained};
        let cache = ResourceCache::default();
        cache.record_algorithm("a device", &square(512), Quick, 3);
        assert_eq!(cache.cached_algorithm("a device", &square(512), Quick), Some((3, Quick)));
        assert_eq!(cache.cached_algorithm("another", &square(512), Quick), None);
        // A quick choice does not serve a sustained request, but a sustained one serves both.
        assert_eq!(cache.cached_algorithm("a device", &square(512), Sustained), None);
        cache.record_algorithm("a device", &square(512), Sustained, 5);
        assert_eq!(cache.cached_algorithm("a device", &square(512), Sustained), Some((5, Sustained)));
        assert_eq!(cache.cached_algorithm("a device", &square(512), Quick), Some((5, Sustained)));
    }

    /// A store in memory.
    #[derive(Default)]
    struct MemoryStore(Mutex<HashMap<String, Vec<u8>>>);

    // SAFETY: it returns what it was given.
    #[allow(unsafe_code, reason = "promises that entries are what was kept")]
    unsafe impl ImageStore for MemoryStore {
        fn get(&self, key: &str) -> Option<Vec<u8>> {
            self.0.lock().unwrap().get(key).cloned()
        }

        fn put(&self, key: &str, image: &[u8]) {
            self.0.lock().unwrap().insert(key.to_owned(), image.to_vec());
        }
    }

    #[test]
    fn only_sustained_choices_of_the_same_kind_of_device_are_kept() {
        use GemmTuning::{Quick, Sustained};
        let store = std::sync::Arc::new(MemoryStore::default());
        let process = || Options { store: Some(store.clone()), tuning: Sustained, ..Options::default() };
        let shape = square(512);
        let choice = |effort, kind: &str| GemmChoice { shape: shape.clone(), algorithm: 4, effort, kind: kind.into() };
        remember_choice(&process(), "H100", &choice(Quick, "H100"));
        remember_choice(&process(), "H100", &choice(Sustained, "H200"));
        assert_eq!(known_choice(&process(), "H100", &shape), None);
        let options = process();
        remember_choice(&options, "H100", &choice(Sustained, "H100"));
        assert_eq!(known_choice(&options, "H100", &shape), Some((4, Sustained)));
        // Another process takes it, also with less effort.
        assert_eq!(known_choice(&process(), "H100", &shape), Some((4, Sustained)));
        assert_eq!(known_choice(&Options { tuning: Quick, ..process() }, "H100", &shape), Some((4, Sustained)));
        assert_eq!(known_choice(&process(), "H200", &shape), None);
        assert_eq!(known_choice(&process(), "H100", &square(1024)), None);
    }
}
