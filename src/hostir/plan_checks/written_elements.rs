//! The elements of a buffer that have been written.
//!
//! Columns of a matrix are as many ranges as it has rows. So sets of several ranges are kept by their shape: for each
//! shape the first elements of its sets, as ranges. Sets whose first elements fill the distance between two of their
//! ranges are joined along that axis: all columns of a matrix together are one range. A question that shapes cannot
//! answer turns them into ranges.

use super::element_set::{ElementRuns, ElementSet, SetAxes};
use std::collections::BTreeMap;
use std::ops::Range;

/// The elements that have been written.
#[derive(Default, Debug)]
pub(super) struct WrittenElements {
    ranges: ElementRanges,
    /// By the axes along which a range repeats: the ranges.
    shapes: BTreeMap<SetAxes, ElementRanges>,
}

impl WrittenElements {
    /// All elements below `length`.
    pub(super) fn all_below(length: usize) -> Self {
        let mut ranges = ElementRanges::default();
        if length > 0 {
            ranges.insert_range(0..length);
        }
        Self { ranges, ..Self::default() }
    }

    /// Adds a set.
    pub(super) fn insert_set(&mut self, set: &ElementSet) {
        if self.ranges.has_range(&set.bounds()) {
            return;
        }
        let (mut run, axes) = set.first_run();
        let mut axes = SetAxes::from_slice(axes);
        while let Some(&inner) = axes.last() {
            let firsts = self.shapes.entry(axes.clone()).or_default();
            let joined = firsts.insert_range(run);
            if joined.len() < inner.stride {
                return;
            }
            firsts.remove_range(joined.start);
            run = joined.start..joined.end + (inner.extent - 1) * inner.stride;
            axes.pop();
        }
        self.ranges.insert_range(run);
    }

    /// The first element of a set that is missing here.
    pub(super) fn first_missing(&mut self, set: &ElementSet) -> Option<usize> {
        if self.has_at_once(set) {
            return None;
        }
        self.unfold_shapes();
        set.element_runs().find_map(|run| self.ranges.missing_of_range(&run))
    }

    /// The number of elements of a set that are missing here.
    pub(super) fn count_missing(&mut self, set: &ElementSet) -> usize {
        self.unfold_shapes();
        set.element_runs().map(|run| run.len() - self.ranges.count_of_range(&run)).sum()
    }

    /// Returns true if one range, or one shape, shows that all elements of a set are here.
    fn has_at_once(&self, set: &ElementSet) -> bool {
        let (run, axes) = set.first_run();
        self.ranges.has_range(&set.bounds()) || self.shapes.get(axes).is_some_and(|firsts| firsts.has_range(&run))
    }

    /// Turns the sets of all shapes into ranges.
    fn unfold_shapes(&mut self) {
        for (axes, firsts) in std::mem::take(&mut self.shapes) {
            for first in firsts.iter() {
                for run in ElementRuns::new(&axes, first) {
                    self.ranges.insert_range(run);
                }
            }
        }
    }
}

/// Disjoint ranges of elements that do not touch: by the start of each its end.
#[derive(Clone, Default, Debug)]
struct ElementRanges(BTreeMap<usize, usize>);

impl ElementRanges {
    fn iter(&self) -> impl Iterator<Item = Range<usize>> {
        self.0.iter().map(|(&start, &end)| start..end)
    }

    /// Adds a range, and returns the range that it is part of now.
    fn insert_range(&mut self, range: Range<usize>) -> Range<usize> {
        let Range { mut start, mut end } = range;
        if let Some((&before, last)) = self.0.range_mut(..=start).next_back().filter(|(_, last)| **last >= start) {
            if *last >= end {
                return before..*last;
            }
            *last = end;
            start = before;
        } else {
            self.0.insert(start, end);
        }
        while let Some((&after, &last)) = self.0.range(start + 1..=end).next() {
            self.0.remove(&after);
            end = end.max(last);
        }
        self.0.insert(start, end);
        start..end
    }

    fn remove_range(&mut self, start: usize) {
        self.0.remove(&start);
    }

    /// The range that contains an element, or the last one before it.
    fn range_before(&self, element: usize) -> Option<Range<usize>> {
        self.0.range(..=element).next_back().map(|(&start, &end)| start..end)
    }

    /// True if all of a range is here.
    fn has_range(&self, range: &Range<usize>) -> bool {
        self.range_before(range.start).is_some_and(|old| range.end <= old.end)
    }

    fn missing_of_range(&self, range: &Range<usize>) -> Option<usize> {
        match self.range_before(range.start).filter(|old| range.start < old.end) {
            Some(old) => (old.end < range.end).then_some(old.end),
            None => Some(range.start),
        }
    }

    fn count_of_range(&self, range: &Range<usize>) -> usize {
        let first = self.range_before(range.start).map_or(range.start, |old| old.start);
        let near = self.0.range(first..range.end);
        near.map(|(&start, &end)| end.min(range.end).saturating_sub(start.max(range.start))).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::DType;
    use crate::plan::{BufferId, BufferView, ViewDim};
    use std::collections::BTreeSet;

    /// A set of up to three axes, and its elements; `None` if an element occurs twice.
    fn random_set(rng: &mut fastrand::Rng) -> Option<(ElementSet, BTreeSet<usize>)> {
        let mut dims = Vec::new();
        for _ in 0..rng.usize(0..4) {
            dims.push(ViewDim { extent: rng.usize(1..5), stride: [1, 2, 3, 4, 6, 8, 12, 24][rng.usize(0..8)] });
        }
        let view = BufferView { buffer: BufferId(0), offset: rng.usize(0..24), dims: dims.into(), dtype: DType::Float };
        let set = ElementSet::of_view(&view)?;
        let elements: BTreeSet<usize> = set.element_runs().flatten().collect();
        (elements.len() == view.len()).then_some((set, elements))
    }

    #[test]
    fn written_elements_agree_with_lists() {
        let mut rng = fastrand::Rng::with_seed(3);
        for _ in 0..2_000 {
            let (mut written, mut all) = (WrittenElements::default(), BTreeSet::new());
            for _ in 0..rng.usize(1..40) {
                let Some((set, elements)) = random_set(&mut rng) else { continue };
                if rng.bool() {
                    written.insert_set(&set);
                    all.extend(elements);
                    continue;
                }
                let missing = set.element_runs().flatten().find(|element| !all.contains(element));
                assert_eq!(written.first_missing(&set), missing, "{set:?}");
                if rng.u8(0..4) == 0 {
                    assert_eq!(written.count_missing(&set), elements.difference(&all).count(), "{set:?}");
                }
            }
        }
    }

    #[test]
    fn columns_become_a_range() {
        let mut written = WrittenElements::default();
        let (rows, columns) = (5, 7);
        for column in [3, 0, 6, 1, 5, 4, 2] {
            let dims = [ViewDim { extent: rows, stride: columns }].into_iter().collect();
            let view = BufferView { buffer: BufferId(0), offset: column, dims, dtype: DType::Float };
            written.insert_set(&ElementSet::of_view(&view).expect("it has elements"));
        }
        assert!(written.ranges.iter().eq(std::iter::once(0..rows * columns)));
        assert!(written.shapes.values().all(|firsts| firsts.0.is_empty()));
    }
}
