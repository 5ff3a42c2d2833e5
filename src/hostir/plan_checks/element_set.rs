//! Sets of elements of a buffer: strided ranges without regard to the order of their axes.

use crate::plan::BufferView;
use smallvec::SmallVec;
use std::ops::Range;

/// One axis of an element set.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct SetAxis {
    stride: usize,
    extent: usize,
}

/// The elements of a view, in a form that is equal for views that differ only in the order or the grouping of their
/// axes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct ElementSet {
    first: usize,
    /// The largest stride first; no axis has one index, none repeats elements, and contiguous axes are merged.
    axes: SmallVec<[SetAxis; 4]>,
}

/// The values of a search variable: a multiple of `factor` between `least` and `most` times.
#[derive(Clone, Copy, Debug)]
struct SearchTerm {
    factor: i128,
    least: i128,
    most: i128,
}

/// The number of steps after which a search for a common element counts as successful.
const MOST_STEPS: u32 = 100_000;

impl ElementSet {
    /// The elements of a view; `None` if it has none.
    pub(super) fn of_view(view: &BufferView) -> Option<Self> {
        if view.is_empty() {
            return None;
        }
        let mut axes: SmallVec<[SetAxis; 4]> = view
            .dims
            .iter()
            .filter(|dim| dim.extent > 1 && dim.stride > 0)
            .map(|dim| SetAxis { stride: dim.stride, extent: dim.extent })
            .collect();
        axes.sort_by(|a, b| b.stride.cmp(&a.stride).then(b.extent.cmp(&a.extent)));
        let mut merged: SmallVec<[SetAxis; 4]> = SmallVec::new();
        for axis in axes {
            match merged.last_mut() {
                Some(outer) if outer.stride == axis.stride * axis.extent => {
                    *outer = SetAxis { stride: axis.stride, extent: outer.extent * axis.extent };
                }
                _ => merged.push(axis),
            }
        }
        Some(Self { first: view.offset, axes: merged })
    }

    /// The range from the first element to the last.
    pub(super) fn bounds(&self) -> Range<usize> {
        let last: usize = self.axes.iter().map(|axis| (axis.extent - 1) * axis.stride).sum();
        self.first..self.first + last + 1
    }

    /// The ranges of consecutive elements that make up the set, in order.
    pub(super) fn element_runs(&self) -> ElementRuns<'_> {
        let (outer, length) = match self.axes.split_last() {
            Some((inner, outer)) if inner.stride == 1 => (outer, inner.extent),
            _ => (&self.axes[..], 1),
        };
        ElementRuns { axes: outer, indices: SmallVec::from_elem(0, outer.len()), next: Some(self.first), length }
    }

    /// An element that is in both sets.
    pub(super) fn common_element(&self, other: &ElementSet) -> Option<usize> {
        let (own, others) = (self.bounds(), other.bounds());
        if own.end <= others.start || others.end <= own.start {
            return None;
        }
        if self.is_interval() && other.is_interval() {
            return Some(own.start.max(others.start));
        }
        // first + sum(stride * index) = other.first + sum(stride' * index')
        let mut terms: SmallVec<[SearchTerm; 8]> = SmallVec::new();
        let ours = self.axes.iter().map(|axis| (axis, true));
        for (axis, is_own) in ours.chain(other.axes.iter().map(|axis| (axis, false))) {
            let count = axis.extent as i128 - 1;
            let (least, most) = if is_own { (0, count) } else { (-count, 0) };
            terms.push(SearchTerm { factor: axis.stride as i128, least, most });
        }
        terms.sort_by_key(|term| std::cmp::Reverse(term.factor));
        terms.dedup_by(|next, kept| {
            let same = next.factor == kept.factor;
            if same {
                kept.least += next.least;
                kept.most += next.most;
            }
            same
        });
        let wanted = other.first as i128 - self.first as i128;
        let mut steps = 0;
        has_combination(&terms, wanted, &mut steps).then(|| self.first_common(other))
    }

    /// True if the elements are consecutive.
    pub(super) fn is_interval(&self) -> bool {
        match self.axes.as_slice() {
            [] => true,
            [axis] => axis.stride == 1,
            _ => false,
        }
    }

    /// The first common element of sets that have one.
    fn first_common(&self, other: &ElementSet) -> usize {
        let (mut left, mut right) = (self.element_runs().peekable(), other.element_runs().peekable());
        while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
            if a.start < b.end && b.start < a.end {
                return a.start.max(b.start);
            }
            if a.end <= b.start {
                left.next()
            } else {
                right.next()
            };
        }
        self.first.max(other.first)
    }
}

/// Whether multiples of the terms' factors add up to a number.
fn has_combination(terms: &[SearchTerm], wanted: i128, steps: &mut u32) -> bool {
    let Some((term, rest)) = terms.split_first() else { return wanted == 0 };
    *steps += 1;
    if *steps > MOST_STEPS {
        return true;
    }
    let least_rest: i128 = rest.iter().map(|term| term.factor * term.least).sum();
    let most_rest: i128 = rest.iter().map(|term| term.factor * term.most).sum();
    // factor * n must lie between wanted - most_rest and wanted - least_rest.
    let from =
        (wanted - most_rest).div_euclid(term.factor) + i128::from((wanted - most_rest).rem_euclid(term.factor) != 0);
    let to = (wanted - least_rest).div_euclid(term.factor);
    let (from, to) = (from.max(term.least), to.min(term.most));
    let mut value = from;
    while value <= to {
        if has_combination(rest, wanted - term.factor * value, steps) {
            return true;
        }
        value += 1;
    }
    false
}

/// Iterates over the runs of an [`ElementSet`].
pub(super) struct ElementRuns<'s> {
    axes: &'s [SetAxis],
    indices: SmallVec<[usize; 4]>,
    next: Option<usize>,
    length: usize,
}

impl Iterator for ElementRuns<'_> {
    type Item = Range<usize>;
    fn next(&mut self) -> Option<Range<usize>> {
        let start = self.next?;
        let mut place = start;
        self.next = None;
        for (index, axis) in self.indices.iter_mut().zip(self.axes).rev() {
            if *index + 1 < axis.extent {
                *index += 1;
                self.next = Some(place + axis.stride);
                break;
            }
            place -= *index * axis.stride;
            *index = 0;
        }
        Some(start..start + self.length)
    }
}

/// A set of elements as disjoint ranges in order.
#[derive(Clone, Default, Debug)]
pub(super) struct ElementRanges {
    ranges: Vec<Range<usize>>,
}

impl ElementRanges {
    /// All elements below `length`.
    pub(super) fn all_below(length: usize) -> Self {
        Self { ranges: Vec::from_iter((length > 0).then_some(0..length)) }
    }

    /// Adds a set.
    pub(super) fn insert_set(&mut self, set: &ElementSet) {
        for run in set.element_runs() {
            self.insert_range(run);
        }
    }

    fn insert_range(&mut self, range: Range<usize>) {
        let from = self.ranges.partition_point(|old| old.end < range.start);
        let to = from + self.ranges[from..].partition_point(|old| old.start <= range.end);
        if from == to {
            self.ranges.insert(from, range);
            return;
        }
        let joined = self.ranges[from].start.min(range.start)..self.ranges[to - 1].end.max(range.end);
        self.ranges.splice(from..to, [joined]);
    }

    /// The first element of a set that is missing here.
    pub(super) fn first_missing(&self, set: &ElementSet) -> Option<usize> {
        set.element_runs().find_map(|run| self.missing_of_range(&run))
    }

    fn missing_of_range(&self, range: &Range<usize>) -> Option<usize> {
        let place = self.ranges.partition_point(|old| old.end <= range.start);
        match self.ranges.get(place) {
            Some(old) if old.start <= range.start => (old.end < range.end).then_some(old.end),
            _ => Some(range.start),
        }
    }

    /// The number of elements of a set that are missing here.
    pub(super) fn count_missing(&self, set: &ElementSet) -> usize {
        set.element_runs().map(|run| run.len() - self.count_of_range(&run)).sum()
    }

    fn count_of_range(&self, range: &Range<usize>) -> usize {
        let first = self.ranges.partition_point(|old| old.end <= range.start);
        let near = self.ranges[first..].iter().take_while(|old| old.start < range.end);
        near.map(|old| old.end.min(range.end) - old.start.max(range.start)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::DType;
    use crate::plan::{BufferId, ViewDim};
    use std::collections::BTreeSet;

    fn strided_view(offset: usize, dims: &[(usize, usize)]) -> BufferView {
        let dims = dims.iter().map(|&(extent, stride)| ViewDim { extent, stride }).collect();
        BufferView { buffer: BufferId(0), offset, dims, dtype: DType::Float }
    }

    fn listed(view: &BufferView) -> BTreeSet<usize> {
        let mut all = BTreeSet::from([view.offset]);
        for dim in &view.dims {
            all = all.iter().flat_map(|at| (0..dim.extent).map(move |k| at + k * dim.stride)).collect();
        }
        if view.is_empty() { BTreeSet::new() } else { all }
    }

    fn random_view(rng: &mut fastrand::Rng) -> BufferView {
        let dims: Vec<(usize, usize)> =
            (0..rng.usize(0..4)).map(|_| (rng.usize(0..5), [0, 1, 2, 3, 4, 5, 8, 12][rng.usize(0..8)])).collect();
        strided_view(rng.usize(0..20), &dims)
    }

    #[test]
    fn sets_agree_with_lists() {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..20_000 {
            let (a, b) = (random_view(&mut rng), random_view(&mut rng));
            let (left, right) = (listed(&a), listed(&b));
            let (Some(one), Some(two)) = (ElementSet::of_view(&a), ElementSet::of_view(&b)) else {
                assert!(left.is_empty() || right.is_empty());
                continue;
            };
            let runs: BTreeSet<usize> = one.element_runs().flatten().collect();
            assert_eq!(runs, left, "{a:?}");
            assert_eq!(one.bounds(), *left.first().unwrap()..left.last().unwrap() + 1);
            match one.common_element(&two) {
                Some(_) => assert!(!left.is_disjoint(&right), "{a:?} {b:?}"),
                None => assert!(left.is_disjoint(&right), "{a:?} {b:?}"),
            }
            let mut ranges = ElementRanges::default();
            ranges.insert_set(&one);
            let missing: Vec<usize> = right.difference(&left).copied().collect();
            if two.element_runs().map(|run| run.len()).sum::<usize>() == right.len() {
                assert_eq!(ranges.count_missing(&two), missing.len(), "{a:?} {b:?}");
            }
            assert_eq!(ranges.first_missing(&two).is_some(), !missing.is_empty(), "{a:?} {b:?}");
        }
    }
}
