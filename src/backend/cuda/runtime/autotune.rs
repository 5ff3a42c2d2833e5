//! Autotuning: the choice of an algorithm for each GEMM of the program.
//!
//! Ranks that compute the same GEMM have to round alike, or replicas would differ: the first rank that has a GEMM
//! chooses for all. Choices are cached, so equal GEMMs of later programs take the same algorithm without being timed; those of
//! sustained trials are kept for later processes, too.

mod kept_choices;
mod rank_timings;
mod trial_operands;

use crate::runtime::autotune::kept_choices::{keep_choice, kept_choice};
use crate::runtime::failure::RankFailure;
use crate::runtime::loaded_program::LoadedProgram;
use crate::runtime::options::{GemmTuning, Options};
use crate::runtime::process_group::ProcessGroup;
use hostir::diag::Diag;
use hostir_gpu::gemm_shape::GemmShape;
use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// GEMMs of fewer operations take cuBLASLt's first proposal: their time is mostly launch latency.
const WORTHWHILE: u64 = 1 << 20;
/// When a program has been tuned for so long, the GEMMs that are left are tuned quickly: other processes wait for its ranks, and
/// give up after a while.
const SUSTAINED_TIME: Duration = Duration::from_secs(30);

/// The source of a rank's choice of GEMM algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AlgorithmChoice {
    /// This algorithm, which is already known.
    Settled(usize),
    /// The fastest, by timing all candidates.
    Timed,
    /// The choice of an earlier rank.
    Followed,
}

/// A GEMM, and its number of candidate algorithms.
type GemmCandidates<'s> = (&'s GemmShape, usize);

/// A GEMM of a rank by number, its algorithm, and the effort that this took.
type RankChoice = (usize, usize, GemmTuning);

/// The ways of all products, `[rank][product]`. `known` tells what was chosen before, by rank.
fn algorithm_choices(
    ranks: &[Vec<GemmCandidates<'_>>],
    known: impl Fn(usize, &GemmShape) -> Option<usize>,
) -> Vec<Vec<AlgorithmChoice>> {
    let mut seen = HashSet::new();
    let mut ways = Vec::new();
    for (rank, products) in ranks.iter().enumerate() {
        let mut own = Vec::new();
        for product in products {
            own.push(match seen.insert(product.0) {
                true => first_choice(product, known(rank, product.0)),
                false => AlgorithmChoice::Followed,
            });
        }
        ways.push(own);
    }
    ways
}

/// The choice for a shape that no earlier product has.
fn first_choice((shape, count): &GemmCandidates<'_>, known: Option<usize>) -> AlgorithmChoice {
    match known {
        Some(choice) if choice < *count => AlgorithmChoice::Settled(choice),
        _ if *count < 2 || shape.flop_count() < WORTHWHILE => AlgorithmChoice::Settled(0),
        _ => AlgorithmChoice::Timed,
    }
}

/// Chooses an algorithm for each GEMM, the same on all ranks.
pub(crate) fn tune_gemms(loaded: &mut LoadedProgram<'_>, options: &Options) -> Result<(), Vec<Diag>> {
    let (pool, tuning) = (&options.pool, options.tuning);
    let products: Vec<Vec<GemmCandidates<'_>>> =
        loaded.ranks.iter().map(|rank| rank.gemm_candidates().collect()).collect();
    let kinds: Vec<String> = loaded.ranks.iter().map(|rank| rank.device.name().unwrap_or_default()).collect();
    let ways = algorithm_choices(&products, |rank, shape| {
        let kind = &kinds[rank];
        pool.cached_algorithm(kind, shape, tuning).or_else(|| kept_choice(options, kind, shape))
    });
    let first = loaded.ranks.first().map_or(0, |rank| rank.plan.rank);
    let chosen = Mutex::new(vec![Vec::new(); ways.len()]);
    let begun = Instant::now();
    loaded.for_each_rank(|rank| {
        let at = (rank.plan.rank - first) as usize;
        let mut own = Vec::new();
        for (product, way) in ways[at].iter().enumerate() {
            let effort = if begun.elapsed() < SUSTAINED_TIME { tuning } else { GemmTuning::Quick };
            match way {
                AlgorithmChoice::Settled(choice) => own.push((product, *choice, tuning)),
                AlgorithmChoice::Timed => own.push((product, rank.fastest_algorithm(product, effort)?, effort)),
                AlgorithmChoice::Followed => {}
            }
        }
        if let Ok(mut chosen) = chosen.lock() {
            chosen[at] = own;
        }
        Ok(())
    })?;
    let chosen = chosen.into_inner().unwrap_or_default();
    apply_tuning(loaded, &chosen, options, &kinds)
}

/// Agrees with the other processes, remembers, and takes what was chosen.
fn apply_tuning(
    loaded: &mut LoadedProgram<'_>,
    chosen: &[Vec<RankChoice>],
    options: &Options,
    kinds: &[String],
) -> Result<(), Vec<Diag>> {
    let agreed = agree_on_choices(loaded, chosen, &loaded.joint)?;
    let find = |shape: &GemmShape| agreed.get(shape).copied().unwrap_or(0);
    for ((rank, kind), own) in loaded.ranks.iter().zip(kinds).zip(chosen) {
        let quick: HashSet<usize> = own.iter().filter(|one| one.2 == GemmTuning::Quick).map(|one| one.0).collect();
        for (product, (shape, _)) in rank.gemm_candidates().enumerate() {
            let effort = if quick.contains(&product) { GemmTuning::Quick } else { options.tuning };
            options.pool.record_algorithm(kind, shape, effort, find(shape));
            if effort == GemmTuning::Sustained {
                keep_choice(options, kind, shape, find(shape));
            }
        }
    }
    loaded.for_each_rank(|rank| {
        let choices: Vec<usize> = rank.gemm_candidates().map(|(shape, _)| find(shape)).collect();
        rank.apply_algorithms(&choices).map_err(RankFailure::from)
    })
}

/// Returns the algorithms on which all ranks agree.
fn agree_on_choices(
    loaded: &LoadedProgram<'_>,
    chosen: &[Vec<RankChoice>],
    joint: &ProcessGroup,
) -> Result<HashMap<GemmShape, usize>, Vec<Diag>> {
    let mut own = Vec::new();
    for (rank, chosen) in loaded.ranks.iter().zip(chosen) {
        let shapes: Vec<&GemmShape> = rank.gemm_candidates().map(|(shape, _)| shape).collect();
        own.extend(chosen.iter().map(|(product, choice, _)| (shapes[*product].clone(), *choice)));
    }
    Ok(joint.agree_on_algorithms(own)?.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::resource_cache::ResourceCache;
    use hostir_gpu::gemm_shape::{GemmBias, GemmNumerics, GemmScales, MatrixElement, MatrixLayout};

    /// A product of square matrices.
    fn square(size: u64) -> GemmShape {
        let leading = size as i64;
        let layout = MatrixLayout { rows: size, columns: size, leading, batch_stride: 0 };
        GemmShape {
            element: MatrixElement::F32,
            factors: [MatrixElement::F32; 2],
            numerics: GemmNumerics::default(),
            a: (layout, false),
            b: (layout, true),
            d: layout,
            bias: GemmBias::None,
            scales: GemmScales::None,
            batch: 1,
            remote: false,
            alignments: [256; 4],
        }
    }

    #[test]
    fn each_product_is_timed_once_if_at_all() {
        let (small, large, other) = (square(64), square(512), square(1024));
        assert_eq!((small.flop_count(), large.flop_count()), (524_288, 268_435_456));
        let ranks = [vec![(&small, 8), (&large, 8)], vec![(&large, 8), (&other, 1)], vec![(&other, 8), (&small, 8)]];
        let expected = [
            [AlgorithmChoice::Settled(0), AlgorithmChoice::Timed],
            [AlgorithmChoice::Followed, AlgorithmChoice::Settled(0)],
            [AlgorithmChoice::Followed, AlgorithmChoice::Followed],
        ];
        assert_eq!(algorithm_choices(&ranks, |_, _| None), expected);
        // What is known is taken if there is such an algorithm here.
        let known = |rank, shape: &GemmShape| (rank == 0 && *shape == square(512)).then_some(5);
        assert_eq!(algorithm_choices(&ranks, known)[0], [AlgorithmChoice::Settled(0), AlgorithmChoice::Settled(5)]);
        let gone = |_, _: &GemmShape| Some(8);
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
        let pool = ResourceCache::default();
        pool.record_algorithm("a device", &square(512), Quick, 3);
        assert_eq!(pool.cached_algorithm("a device", &square(512), Quick), Some(3));
        assert_eq!(pool.cached_algorithm("another", &square(512), Quick), None);
        // A quick choice is none for whoever wants the other one, which serves both.
        assert_eq!(pool.cached_algorithm("a device", &square(512), Sustained), None);
        pool.record_algorithm("a device", &square(512), Sustained, 5);
        assert_eq!(pool.cached_algorithm("a device", &square(512), Sustained), Some(5));
        assert_eq!(pool.cached_algorithm("a device", &square(512), Quick), Some(5));
    }
}
