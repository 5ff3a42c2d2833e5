//! Sets of elements of a buffer: strided ranges without regard to the order of their axes.
//!
//! Whether two sets have a common element is a linear equation in the indices of their axes with bounds on each. The
//! search fixes one index after another, and solves the equation of the last two at once.

use crate::plan::BufferView;
use smallvec::SmallVec;
use std::ops::Range;

/// One axis of an element set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct SetAxis {
    pub(super) stride: usize,
    pub(super) extent: usize,
}

/// Axes of an element set, the largest stride first.
pub(super) type SetAxes = SmallVec<[SetAxis; 4]>;

/// The elements of a view, in a form that is equal for views that differ only in the order or the grouping of their
/// axes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct ElementSet {
    first: usize,
    /// The largest stride first; no axis has one index, none repeats elements, and contiguous axes are merged.
    axes: SetAxes,
}

/// The values of a search variable: a multiple of `factor` between `least` and `most` times.
#[derive(Clone, Copy, Debug)]
struct SearchTerm {
    factor: i128,
    least: i128,
    most: i128,
}

impl SearchTerm {
    fn has_value(&self, value: i128) -> bool {
        self.least <= value && value <= self.most
    }
}

/// The number of steps after which a search for a common element counts as successful.
const MOST_STEPS: u32 = 100_000;

impl ElementSet {
    /// The elements of a view; `None` if it has none.
    pub(super) fn of_view(view: &BufferView) -> Option<Self> {
        if view.is_empty() {
            return None;
        }
        let mut axes: SetAxes = view
            .dims
            .iter()
            .filter(|dim| dim.extent > 1 && dim.stride > 0)
            .map(|dim| SetAxis { stride: dim.stride, extent: dim.extent })
            .collect();
        axes.sort_by(|a, b| b.stride.cmp(&a.stride).then(b.extent.cmp(&a.extent)));
        let mut merged = SetAxes::new();
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

    /// The first run of consecutive elements, and the axes along which it repeats.
    pub(super) fn first_run(&self) -> (Range<usize>, &[SetAxis]) {
        let (outer, length) = match self.axes.split_last() {
            Some((inner, outer)) if inner.stride == 1 => (outer, inner.extent),
            _ => (&self.axes[..], 1),
        };
        (self.first..self.first + length, outer)
    }

    /// The ranges of consecutive elements that make up the set, in order.
    pub(super) fn element_runs(&self) -> ElementRuns<'_> {
        let (run, axes) = self.first_run();
        ElementRuns::new(axes, run)
    }

    /// An element that is in both sets.
    pub(super) fn common_element(&self, other: &ElementSet) -> Option<usize> {
        if self.is_interval() && other.is_interval() {
            return self.overlaps(other).then(|| self.first.max(other.first));
        }
        self.overlaps(other).then(|| self.first_common(other))
    }

    /// True if an element is in both sets.
    pub(super) fn overlaps(&self, other: &ElementSet) -> bool {
        let (own, others) = (self.bounds(), other.bounds());
        if own.end <= others.start || others.end <= own.start {
            return false;
        }
        if self.is_interval() && other.is_interval() {
            return true;
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
        has_combination(&terms, wanted, &mut steps)
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
    let (term, rest) = match terms {
        [] => return wanted == 0,
        [one] => return wanted % one.factor == 0 && one.has_value(wanted / one.factor),
        [one, two] => return has_pair(*one, *two, wanted),
        [term, rest @ ..] => (term, rest),
    };
    *steps += 1;
    if *steps > MOST_STEPS {
        return true;
    }
    let least_rest: i128 = rest.iter().map(|term| term.factor * term.least).sum();
    let most_rest: i128 = rest.iter().map(|term| term.factor * term.most).sum();
    // factor * n must lie between wanted - most_rest and wanted - least_rest.
    let from = div_ceil(wanted - most_rest, term.factor);
    let to = (wanted - least_rest).div_euclid(term.factor);
    (from.max(term.least)..=to.min(term.most)).any(|value| has_combination(rest, wanted - term.factor * value, steps))
}

/// True if multiples of two factors add up to a number: `one.factor * n + two.factor * m = wanted` determines `n`
/// modulo `two.factor`.
fn has_pair(one: SearchTerm, two: SearchTerm, wanted: i128) -> bool {
    let divided = Bezout::of_factors(one.factor, two.factor);
    if wanted % divided.divisor != 0 {
        return false;
    }
    let period = two.factor / divided.divisor;
    let residue = (wanted / divided.divisor % period * (divided.first % period)).rem_euclid(period);
    let from = div_ceil(wanted - two.factor * two.most, one.factor).max(one.least);
    let to = (wanted - two.factor * two.least).div_euclid(one.factor).min(one.most);
    from + (residue - from).rem_euclid(period) <= to
}

/// The greatest common divisor of two numbers, and a multiple of the first that equals it modulo the second.
struct Bezout {
    divisor: i128,
    first: i128,
}

impl Bezout {
    /// By Euclid's algorithm; both numbers are positive.
    fn of_factors(one: i128, two: i128) -> Self {
        let (mut now, mut next) = (Self { divisor: one, first: 1 }, Self { divisor: two, first: 0 });
        while next.divisor != 0 {
            let quotient = now.divisor / next.divisor;
            let rest =
                Self { divisor: now.divisor - quotient * next.divisor, first: now.first - quotient * next.first };
            (now, next) = (next, rest);
        }
        now
    }
}

fn div_ceil(number: i128, by: i128) -> i128 {
    -(-number).div_euclid(by)
}

/// Iterates over the runs of an [`ElementSet`].
pub(super) struct ElementRuns<'s> {
    axes: &'s [SetAxis],
    indices: SmallVec<[usize; 4]>,
    next: Option<usize>,
    length: usize,
}

impl<'s> ElementRuns<'s> {
    /// A run, repeated along axes.
    pub(super) fn new(axes: &'s [SetAxis], run: Range<usize>) -> Self {
        let indices = SmallVec::from_elem(0, axes.len());
        Self { axes, indices, next: Some(run.start), length: run.len() }
    }
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
        }
    }
}
