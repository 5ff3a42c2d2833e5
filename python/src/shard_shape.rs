//! Matches shapes of a caller's tensors with those of a program's shards.
//!
//! A caller's tensor may leave out the axes that are sharded over devices, of which a rank has one index, and it may
//! have one axis for several that follow each other, `[2 * m, n]` for `[2, m, n]`, if all of them but the last are
//! known.

use std::collections::HashSet;

/// An axis of a shard: whether it is sharded over devices, and its extent on the rank if it is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShardAxis {
    pub(crate) sharded: bool,
    pub(crate) extent: Option<usize>,
}

/// An extent and a stride, of an axis of the caller's or of the shard.
pub(crate) type Extent = (usize, i64);

/// The extents and strides of a shard's axes in a caller's tensor; `None` if it is none of the shard.
pub(crate) fn match_shard(axes: &[ShardAxis], given: &[Extent]) -> Option<Vec<Extent>> {
    let whole = split_axes(axes, given).filter(|_| axes.len() >= given.len());
    whole.or_else(|| {
        let inner: Vec<ShardAxis> = axes.iter().copied().filter(|axis| !axis.sharded).collect();
        let mut found = split_axes(&inner, given)?.into_iter();
        axes.iter().map(|axis| if axis.sharded { Some((1, 0)) } else { found.next() }).collect()
    })
}

/// Splits the caller's axes into those of the shard: the first split that fits.
fn split_axes(axes: &[ShardAxis], given: &[Extent]) -> Option<Vec<Extent>> {
    let mut split = AxisSplit { axes, given, found: Vec::new(), refused: HashSet::new() };
    split.goes_from(0, 0, given.first().map_or(1, |(extent, _)| *extent)).then_some(split.found)
}

/// A search for a way to split the caller's axes.
struct AxisSplit<'a> {
    axes: &'a [ShardAxis],
    given: &'a [Extent],
    found: Vec<Extent>,
    /// The positions from which the search fails: with axes of extent 1 there are many paths to each of them.
    refused: HashSet<(usize, usize, usize)>,
}

impl AxisSplit<'_> {
    /// Returns true if the axes from `axis` on match the caller's from `at` on, of whose first one the extent `left`
    /// remains. Remembers the result.
    fn goes_from(&mut self, axis: usize, at: usize, left: usize) -> bool {
        let (Some(own), Some(&(_, stride))) = (self.axes.get(axis), self.given.get(at)) else {
            return axis == self.axes.len() && at == self.given.len();
        };
        if self.refused.contains(&(axis, at, left)) {
            return false;
        }
        let next = self.given.get(at + 1).map_or(1, |(extent, _)| *extent);
        let is_alone = own.extent.is_none_or(|known| known == left);
        if is_alone && self.goes_with((left, stride), axis, at + 1, next) {
            return true;
        }
        // The axis and those after it are one of the caller's.
        let is_longer = self.axes.len() - axis > self.given.len() - at;
        let outer = own.extent.filter(|known| is_longer && *known > 0 && left.is_multiple_of(*known));
        let found = outer.is_some_and(|outer| {
            let inner = left / outer;
            let outer_stride = i64::try_from(inner).ok().and_then(|inner| stride.checked_mul(inner));
            outer_stride.is_some_and(|outer_stride| self.goes_with((outer, outer_stride), axis, at, inner))
        });
        if !found {
            self.refused.insert((axis, at, left));
        }
        found
    }

    /// The rest of [`AxisSplit::goes_from`] with this extent for the axis.
    fn goes_with(&mut self, extent: Extent, axis: usize, at: usize, left: usize) -> bool {
        let length = self.found.len();
        self.found.push(extent);
        let goes = self.goes_from(axis + 1, at, left);
        if !goes {
            self.found.truncate(length);
        }
        goes
    }
}
