//! Shapes of a caller's tensors beside those of a program's shards.
//!
//! A caller's tensor may leave out the axes that are sharded over devices, of which a rank has one index, and it may have
//! one axis for several that follow each other, `[2 * m, n]` for `[2, m, n]`, if all of them but the last are known.

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

/// Splits the caller's axes so that there is one for each of the shard's: the first way that fits.
fn split_axes(axes: &[ShardAxis], given: &[Extent]) -> Option<Vec<Extent>> {
    let (Some((axis, later)), Some((&(extent, stride), rest))) = (axes.split_first(), given.split_first()) else {
        return (axes.is_empty() && given.is_empty()).then(Vec::new);
    };
    let alone = axis.extent.is_none_or(|known| known == extent).then(|| split_axes(later, rest)).flatten();
    let (own, mut found) = match alone {
        Some(found) => ((extent, stride), found),
        None => {
            // The axis and those behind it are one of the caller's.
            let outer = axis.extent.filter(|known| axes.len() > given.len() && *known > 0 && extent % known == 0)?;
            let inner = extent / outer;
            let mut remaining = vec![(inner, stride)];
            remaining.extend(rest);
            let outer_stride = stride.checked_mul(i64::try_from(inner).ok()?)?;
            ((outer, outer_stride), split_axes(later, &remaining)?)
        }
    };
    found.insert(0, own);
    Some(found)
}
