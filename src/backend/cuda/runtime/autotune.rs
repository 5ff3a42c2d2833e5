//! Which algorithm each product of the program takes.
//!
//! Ranks that compute the same product have to round alike, or replicas would differ: the first rank that
//! has a product chooses for all. What it chose is remembered, so equal products of later programs take
//! the same algorithm without being timed.

mod rank_timings;

use crate::runtime::failure::Failure;
use crate::runtime::loaded_program::Loaded;
use crate::runtime::process_group::Joint;
use crate::runtime::resource_cache::Pool;
use hostir::diag::Diag;
use hostir_gpu::gemm_shape::Shape;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

/// Products of fewer operations take the library's first proposal: the time of a launch is most of theirs.
const WORTHWHILE: u64 = 1 << 20;

/// How a rank of this process comes to the algorithm of a product.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// It is this one.
    Settled(usize),
    /// By timing all.
    Timed,
    /// As an earlier rank.
    Followed,
}

/// A product, and how many algorithms there are for it.
type Choice<'s> = (&'s Shape, usize);

/// The ways of all products, `[rank][product]`. `known` tells what was chosen before, by rank.
fn ways(
    ranks: &[Vec<Choice<'_>>],
    known: impl Fn(usize, &Shape) -> Option<usize>,
) -> Vec<Vec<Way>> {
    let mut seen = HashSet::new();
    let mut ways = Vec::new();
    for (rank, products) in ranks.iter().enumerate() {
        let way = |(shape, count): &Choice<'_>| match known(rank, shape) {
            Some(choice) if choice < *count => Way::Settled(choice),
            _ if *count < 2 || shape.flop() < WORTHWHILE => Way::Settled(0),
            _ => Way::Timed,
        };
        let mut own = Vec::new();
        for product in products {
            own.push(if seen.insert(product.0) { way(product) } else { Way::Followed });
        }
        ways.push(own);
    }
    ways
}

/// Chooses an algorithm for each product, on all ranks alike.
pub(crate) fn tune(loaded: &mut Loaded<'_>, pool: &Arc<Pool>) -> Result<(), Vec<Diag>> {
    let products: Vec<Vec<Choice<'_>>> =
        loaded.ranks.iter().map(|rank| rank.products().collect()).collect();
    let kinds: Vec<String> =
        loaded.ranks.iter().map(|rank| rank.device.name().unwrap_or_default()).collect();
    let ways = ways(&products, |rank, shape| pool.choice(&kinds[rank], shape));
    let first = loaded.ranks.first().map_or(0, |rank| rank.plan.rank);
    let chosen = Mutex::new(vec![Vec::new(); ways.len()]);
    loaded.each(|rank| {
        let at = (rank.plan.rank - first) as usize;
        let mut own = Vec::new();
        for (product, way) in ways[at].iter().enumerate() {
            match way {
                Way::Settled(choice) => own.push((product, *choice)),
                Way::Timed => own.push((product, rank.fastest(product)?)),
                Way::Followed => {}
            }
        }
        if let Ok(mut chosen) = chosen.lock() {
            chosen[at] = own;
        }
        Ok(())
    })?;
    let chosen = chosen.into_inner().unwrap_or_default();
    settle(loaded, &chosen, (pool, &kinds))
}

/// Agrees with the other processes, remembers, and takes what was chosen.
fn settle(
    loaded: &mut Loaded<'_>,
    chosen: &[Vec<(usize, usize)>],
    (pool, kinds): (&Arc<Pool>, &[String]),
) -> Result<(), Vec<Diag>> {
    let agreed = agreed(loaded, chosen, &loaded.joint)?;
    let find = |shape: &Shape| agreed.get(shape).copied().unwrap_or(0);
    for (rank, kind) in loaded.ranks.iter().zip(kinds) {
        rank.products().for_each(|(shape, _)| pool.chose(kind, shape, find(shape)));
    }
    loaded.each(|rank| {
        let choices: Vec<usize> = rank.products().map(|(shape, _)| find(shape)).collect();
        rank.take(&choices).map_err(Failure::from)
    })
}

/// What all ranks take.
fn agreed(
    loaded: &Loaded<'_>,
    chosen: &[Vec<(usize, usize)>],
    joint: &Joint,
) -> Result<HashMap<Shape, usize>, Vec<Diag>> {
    let mut own = Vec::new();
    for (rank, chosen) in loaded.ranks.iter().zip(chosen) {
        let shapes: Vec<&Shape> = rank.products().map(|(shape, _)| shape).collect();
        own.extend(chosen.iter().map(|(product, choice)| (shapes[*product].clone(), *choice)));
    }
    Ok(joint.choices(own)?.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostir_gpu::gemm_shape::{Bias, Element, Layout};

    /// A product of square matrices.
    fn square(size: u64) -> Shape {
        let leading = size as i64;
        let layout = Layout { rows: size, columns: size, leading, batch_stride: 0 };
        Shape {
            element: Element::F32,
            factors: [Element::F32; 2],
            tf32: false,
            a: (layout, false),
            b: (layout, true),
            d: layout,
            bias: Bias::None,
            batch: 1,
            alignments: [256; 4],
        }
    }

    #[test]
    fn each_product_is_timed_once_if_at_all() {
        let (small, large, other) = (square(64), square(512), square(1024));
        assert_eq!((small.flop(), large.flop()), (524_288, 268_435_456));
        let ranks = [
            vec![(&small, 8), (&large, 8)],
            vec![(&large, 8), (&other, 1)],
            vec![(&other, 8), (&small, 8)],
        ];
        let expected = [
            [Way::Settled(0), Way::Timed],
            [Way::Followed, Way::Settled(0)],
            [Way::Followed, Way::Followed],
        ];
        assert_eq!(ways(&ranks, |_, _| None), expected);
        // What is known is taken if there is such an algorithm here.
        let known = |rank, shape: &Shape| (rank == 0 && *shape == square(512)).then_some(5);
        assert_eq!(ways(&ranks, known)[0], [Way::Settled(0), Way::Settled(5)]);
        let gone = |_, _: &Shape| Some(8);
        assert_eq!(ways(&ranks, gone), expected);
    }

    #[test]
    fn operations_of_transposed_and_batched_products() {
        let layout = |rows, columns| Layout { rows, columns, leading: 1, batch_stride: 0 };
        let shape = Shape { a: (layout(5, 3), true), d: layout(3, 7), batch: 4, ..square(1) };
        assert_eq!(shape.flop(), 2 * 3 * 7 * 5 * 4);
    }

    #[test]
    fn what_was_chosen_is_known_afterwards() {
        let pool = Pool::default();
        pool.chose("a device", &square(512), 3);
        assert_eq!(pool.choice("a device", &square(512)), Some(3));
        assert_eq!(pool.choice("another", &square(512)), None);
    }
}
