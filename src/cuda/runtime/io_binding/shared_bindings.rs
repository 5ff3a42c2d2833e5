//! Overlapping tensors of a caller: they are one allocation, whatever inputs, outputs and ranks they are bound to.
//!
//! On one rank the binding routes handle such tensors correctly, or refuse them
//! ([`binding_routes`](crate::runtime::io_binding::binding_routes)). Between ranks only communication orders accesses,
//! and no communication of a proved program orders accesses to another rank's tensor. A tensor that one rank writes may
//! not overlap a tensor that is bound on another rank.

use crate::runtime::io_binding::tensor_check::StridedTensor;

/// A tensor that is bound on a rank.
#[derive(Clone, Debug)]
pub(crate) struct RankTensor {
    /// The place of the rank in this process.
    pub(crate) place: usize,
    /// The number of its binding slot.
    pub(crate) slot: usize,
    /// True if the program writes it there.
    pub(crate) written: bool,
    /// The tensor.
    pub(crate) tensor: StridedTensor,
}

/// Two overlapping tensors of different ranks, of which a rank writes at least one.
pub(crate) fn find_rank_conflict(tensors: &[RankTensor]) -> Option<[&RankTensor; 2]> {
    let mut sorted: Vec<&RankTensor> = tensors.iter().filter(|bound| !bound.tensor.view.is_empty()).collect();
    sorted.sort_by_key(|bound| bound.tensor.byte_range());
    sorted.iter().enumerate().find_map(|(number, &one)| {
        let (_, end) = one.tensor.byte_range();
        let after = sorted[number + 1..].iter().take_while(|other| other.tensor.byte_range().0 < end);
        let mut others = after.filter(|other| other.place != one.place && (one.written || other.written));
        let other = others.find(|other| one.tensor.overlaps(&other.tensor))?;
        Some(if one.place < other.place { [one, *other] } else { [*other, one] })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::io_binding::tensor_check::{CALLERS, VECTOR};
    use hostir::ir::DType;
    use hostir::plan::{BufferView, ViewDim};

    /// 4 rows of 8 floats, every `stride` elements.
    fn bound(place: usize, written: bool, address: u64, stride: usize) -> RankTensor {
        let base = address / VECTOR * VECTOR;
        let dims = [ViewDim { extent: 4, stride }, ViewDim { extent: 8, stride: 1 }];
        let offset = ((address - base) / 4) as usize;
        let view = BufferView { buffer: CALLERS, offset, dims: dims.into_iter().collect(), dtype: DType::Float };
        RankTensor { place, slot: 0, written, tensor: StridedTensor { base, view } }
    }

    fn places(tensors: &[RankTensor]) -> Option<[usize; 2]> {
        find_rank_conflict(tensors).map(|pair| pair.map(|bound| bound.place))
    }

    #[test]
    fn tensors_of_several_ranks() {
        let reads = |place, address| bound(place, false, address, 8);
        let writes = |place, address| bound(place, true, address, 8);
        assert_eq!(places(&[reads(0, 0x1000), reads(1, 0x1000)]), None, "all ranks may read one tensor");
        assert_eq!(places(&[writes(0, 0x1000), writes(1, 0x1080)]), None, "one behind the other");
        assert_eq!(places(&[writes(1, 0x107c), reads(0, 0x1000)]), Some([0, 1]));
        assert_eq!(places(&[writes(0, 0x1000), writes(0, 0x1000)]), None, "one rank's routes are for these");
        let long = [reads(2, 0x1000), reads(0, 0x1010), writes(1, 0x1078)];
        assert_eq!(places(&long), Some([1, 2]));
        // Halves of the rows of one tensor.
        let halves = [bound(0, true, 0x1000, 16), bound(1, true, 0x1020, 16)];
        assert_eq!(places(&halves), None);
        assert_eq!(places(&[bound(0, true, 0x1000, 16), bound(1, true, 0x101c, 16)]), Some([0, 1]));
    }
}
