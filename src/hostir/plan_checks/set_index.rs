//! Finds the sets of elements near another one without a search through all of them.

use std::collections::BTreeMap;
use std::ops::Range;

/// The bounds of numbered sets, by their lengths: class `k` holds those of `2^k` to `2^(k+1) - 1` elements, sorted by
/// their starts, so that a search in it visits no more starts than fit into the range, and one set before it.
#[derive(Default, Debug)]
pub(super) struct SetIndex {
    classes: Vec<BTreeMap<SetStart, usize>>,
}

/// The start of a set, and its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct SetStart {
    start: usize,
    number: u32,
}

impl SetIndex {
    /// Adds the bounds of a set, which are not empty.
    pub(super) fn insert_bounds(&mut self, bounds: &Range<usize>, number: u32) {
        let class = bounds.len().ilog2() as usize;
        if self.classes.len() <= class {
            self.classes.resize_with(class + 1, BTreeMap::new);
        }
        self.classes[class].insert(SetStart { start: bounds.start, number }, bounds.end);
    }

    /// The numbers of the sets whose bounds overlap a range, in order.
    pub(super) fn find_near(&self, range: &Range<usize>) -> Vec<u32> {
        let mut found = Vec::new();
        for (class, starts) in self.classes.iter().enumerate() {
            let longest = (2usize << class) - 1;
            let first = SetStart { start: (range.start + 1).saturating_sub(longest), number: 0 };
            let after = SetStart { start: range.end, number: 0 };
            let near = starts.range(first..after).filter(|&(_, &end)| end > range.start);
            found.extend(near.map(|(start, _)| start.number));
        }
        found.sort_unstable();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_sets_are_those_of_a_plain_loop() {
        let mut rng = fastrand::Rng::with_seed(5);
        for _ in 0..200 {
            let random = |rng: &mut fastrand::Rng| {
                let start = rng.usize(0..100);
                start..start + rng.usize(1..40)
            };
            let all: Vec<Range<usize>> = (0..rng.usize(0..30)).map(|_| random(&mut rng)).collect();
            let mut index = SetIndex::default();
            all.iter().zip(0..).for_each(|(bounds, number)| index.insert_bounds(bounds, number));
            let wanted = random(&mut rng);
            let near = all.iter().zip(0..).filter(|(one, _)| one.start < wanted.end && wanted.start < one.end);
            assert_eq!(index.find_near(&wanted), near.map(|(_, number)| number).collect::<Vec<u32>>());
        }
    }
}
