//! The order that domain numbers imply, for the two places where the text depends on it.
//!
//! Numbers name domains. nvFuser's printed form does not show two orders, which numbers then decide: the
//! position of a device domain among the axes, and the axis of the operand that each axis of a permuting op's
//! result is. The reader decides once and stores the answers in the IR ([`Tensor::axes`](super::Tensor::axes),
//! [`AttrKey::Perm`](super::AttrKey::Perm)); the printer repeats the decision to find where a reader would
//! get a different answer. No other code looks at numbers.

use super::program::Program;
use super::tensor::IterDomain;
use super::types::ParallelType;
use smallvec::SmallVec;

/// Positions among the printed domains of a tensor.
pub type DomainPositions = SmallVec<[u32; 6]>;

/// The axes of a tensor whose text gives only its domains: each device domain is placed before the first
/// other domain with a larger number. Results of permuting ops (`permuted`) and tensors with missing numbers
/// keep their printed order.
pub fn implied_axes(domains: &[IterDomain], permuted: bool) -> DomainPositions {
    let printed = 0..domains.len() as u32;
    let numbered = domains.iter().all(|domain| domain.number.is_some());
    if permuted || !numbered {
        return printed.collect();
    }
    let device = |at: &u32| domains[*at as usize].parallel.is_device();
    let mut axes: DomainPositions = printed.clone().filter(|at| !device(at)).collect();
    for at in printed.filter(device) {
        let number = domains[at as usize].number;
        let after = axes.iter().position(|other| !device(other) && domains[*other as usize].number > number);
        let place = after.unwrap_or(axes.len());
        axes.insert(place, at);
    }
    axes
}

/// The permutation of an op without `perm=`: stored axis k of its result is the k-th stored axis of its
/// operand in ascending order of numbers. `None` if a number is missing. `axes` are those of the result.
pub fn implied_permutation(domains: &[IterDomain], axes: &[u32]) -> Option<Vec<i64>> {
    let stored = axes.iter().map(|&at| &domains[at as usize]).filter(|d| !d.is_reduction());
    let numbers = stored.map(|domain| domain.number).collect::<Option<SmallVec<[u32; 6]>>>()?;
    let mut sorted: SmallVec<[usize; 6]> = (0..numbers.len()).collect();
    sorted.sort_by_key(|&k| numbers[k]);
    let places = (0..numbers.len()).map(|k| sorted.iter().position(|&other| other == k));
    places.map(|place| place.map(|place| place as i64)).collect()
}

/// Returns true if the domain numbers suggest that a parallel domain is one half of a split axis: a split gives its
/// two halves the next two numbers and leaves a gap at the number of the axis, which is older than they are.
pub fn has_split_numbers(domains: &[IterDomain]) -> bool {
    let numbers = || domains.iter().filter_map(|domain| domain.number);
    let (Some(low), Some(high)) = (numbers().min(), numbers().max()) else { return false };
    if numbers().count() < domains.len() || ((high - low) as usize) < domains.len() {
        return false;
    }
    (0..domains.len()).filter(|&outer| domains[outer].is_distributed()).any(|outer| {
        let Some(number) = domains[outer].number else { return false };
        let older = numbers().filter(|&other| other < number).count();
        split_partner(domains, outer).is_some() && (number - low) as usize > older
    })
}

/// The rest of the axis whose outer part, judging by its number, is the device or stream domain at `outer`. If the axis
/// was swizzled after its split, the domain is the third new one, and the rest comes before it.
pub fn split_partner(domains: &[IterDomain], outer: usize) -> Option<usize> {
    let number = domains[outer].number?;
    let find = |wanted: Option<u32>| domains.iter().position(|domain| wanted.is_some() && domain.number == wanted);
    let after = find(number.checked_add(1));
    after.or_else(|| {
        let is_swizzled = domains[outer].parallel == ParallelType::Stream;
        let missing = number.checked_sub(2).filter(|&missing| find(Some(missing)).is_none());
        let low = domains.iter().filter_map(|domain| domain.number).min();
        missing.filter(|missing| is_swizzled && low < Some(*missing)).and_then(|_| find(number.checked_sub(1)))
    })
}

/// Returns the first number for new domains: the one after the largest in use, or the start of the widest gap if the
/// largest is so high that 32 bits might not hold all numbers after it.
pub fn first_free_number(numbers: impl Iterator<Item = u32>) -> u32 {
    let mut used: Vec<u32> = numbers.collect();
    let Some(&last) = used.iter().max() else { return 0 };
    if last < 1 << 30 {
        return last + 1;
    }
    used.sort_unstable();
    let gaps = used.windows(2).map(|pair| (pair[1] - pair[0], pair[0].saturating_add(1)));
    let first = used.first().map(|&first| (first, 0));
    gaps.chain(first).max().map_or(0, |(_, start)| start)
}

/// For each tensor: true if it is the result of a permuting op.
pub fn permuted_results(program: &Program) -> Vec<bool> {
    let mut permuted = vec![false; program.tensors().len()];
    let units = program.units().iter().map(|(_, unit)| unit.body);
    for block in [program.body()].into_iter().chain(program.index_definitions()).chain(units) {
        program.walk(block, &mut |id| {
            let op = program.op(id);
            if op.kind.has_permutation() {
                op.output_tensors().for_each(|tensor| permuted[super::Id::index(tensor)] = true);
            }
        });
    }
    permuted
}
