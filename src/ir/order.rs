//! What the numbers of domains say about order, for the two places where the text asks them.
//!
//! Numbers name domains. nvFuser's printed form loses two orders, and there they decide: where a device
//! domain stands among the axes, and which axis of its operand each axis of a permuting op's result is.
//! A reader asks once and writes the answers into the IR ([`Tensor::axes`](super::Tensor::axes),
//! [`AttrKey::Perm`](super::AttrKey::Perm)); a printer asks once more, to see where a reader would find
//! something else than the IR has. Nothing in between looks at numbers.

use super::op::OpId;
use super::program::Program;
use super::tensor::IterDomain;
use super::types::ParallelType;
use smallvec::SmallVec;

/// Positions among the printed domains of a tensor.
pub type DomainPositions = SmallVec<[u32; 6]>;

/// The axes of a tensor of which the text says no more than its domains: each device domain stands
/// before the first other domain with a larger number. Results of permuting ops (`permuted`) and tensors
/// with numbers left out keep their printed order.
pub fn implied_axes(domains: &[IterDomain], permuted: bool) -> DomainPositions {
    let printed = 0..domains.len() as u32;
    let numbered = domains.iter().all(|domain| domain.number != u32::MAX);
    if permuted || !numbered {
        return printed.collect();
    }
    let device = |at: &u32| domains[*at as usize].parallel.is_device();
    let mut axes: DomainPositions = printed.clone().filter(|at| !device(at)).collect();
    for at in printed.filter(device) {
        let number = domains[at as usize].number;
        let behind = |other: &u32| !device(other) && domains[*other as usize].number > number;
        let place = axes.iter().position(behind).unwrap_or(axes.len());
        axes.insert(place, at);
    }
    axes
}

/// The permutation of an op that has no `perm=`: stored axis k of its result is the stored axis of its
/// operand that the numbers in ascending order give. `None` where a number is left out. `axes` are those
/// of the result.
pub fn implied_permutation(domains: &[IterDomain], axes: &[u32]) -> Option<Vec<i64>> {
    let stored = axes.iter().map(|&at| &domains[at as usize]).filter(|d| !d.is_reduction());
    let numbers: SmallVec<[u32; 6]> = stored.map(|domain| domain.number).collect();
    if numbers.contains(&u32::MAX) {
        return None;
    }
    let mut sorted: SmallVec<[usize; 6]> = (0..numbers.len()).collect();
    sorted.sort_by_key(|&k| numbers[k]);
    let place = |k: usize| sorted.iter().position(|&other| other == k).map(|place| place as i64);
    (0..numbers.len()).map(place).collect()
}

/// Whether the numbers look as if a parallel domain were a part of an axis: a split gives its two halves
/// the next two numbers and leaves a gap where the axis was, which is older than they are.
pub fn has_split_numbers(domains: &[IterDomain]) -> bool {
    let parallel = |d: &IterDomain| d.parallel.is_device() || d.parallel == ParallelType::Stream;
    let numbers = || domains.iter().map(|domain| domain.number);
    let (Some(low), Some(high)) = (numbers().min(), numbers().max()) else { return false };
    if high == u32::MAX || ((high - low) as usize) < domains.len() {
        return false;
    }
    domains.iter().filter(|&domain| parallel(domain)).any(|outer| {
        let older = numbers().filter(|&number| number < outer.number).count();
        let has_inner = numbers().any(|number| Some(number) == outer.number.checked_add(1));
        has_inner && (outer.number - low) as usize > older
    })
}

/// Where new numbers start: behind those in use, or in the widest gap between them if they are so large
/// that what is numbered behind them could not be read again. `u32::MAX` is no number.
pub fn first_free_number(numbers: impl Iterator<Item = u32>) -> u32 {
    let mut used: Vec<u32> = numbers.filter(|&number| number != u32::MAX).collect();
    let Some(&last) = used.iter().max() else { return 0 };
    if last < 1 << 30 {
        return last + 1;
    }
    used.sort_unstable();
    let gaps = used.windows(2).map(|pair| (pair[1] - pair[0], pair[0].saturating_add(1)));
    let first = used.first().map(|&first| (first, 0));
    gaps.chain(first).max().map_or(0, |(_, start)| start)
}

/// By tensor: whether an op of the program permutes into it.
pub fn permuted_results(program: &Program) -> Vec<bool> {
    let mut permuted = vec![false; program.tensors().len()];
    let mut visit = |id: OpId| {
        let op = program.op(id);
        if op.kind.has_permutation() {
            op.output_tensors().for_each(|tensor| permuted[super::Id::index(tensor)] = true);
        }
    };
    program.walk(program.body(), &mut visit);
    program.index_definitions().into_iter().for_each(|block| program.walk(block, &mut visit));
    program.units().iter().for_each(|(_, unit)| program.walk(unit.body, &mut visit));
    permuted
}
