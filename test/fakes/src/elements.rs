//! The elements of views in memory.

use hostir::plan::BufferView;

/// Byte offsets of a view's elements, row-major.
fn element_offsets(view: &BufferView) -> Vec<usize> {
    let mut all = vec![0];
    for dim in &view.dims {
        let step = |base: &usize| -> Vec<usize> { (0..dim.extent).map(|index| base + index * dim.stride).collect() };
        all = all.iter().flat_map(step).collect();
    }
    all.into_iter().map(|offset| offset * view.dtype.byte_size()).collect()
}

/// A view's elements, row-major, from the bytes of its range.
pub(crate) fn gathered_bytes(view: &BufferView, bytes: &[u8]) -> Vec<u8> {
    let size = view.dtype.byte_size();
    element_offsets(view).into_iter().flat_map(|at| bytes[at..at + size].to_vec()).collect()
}

/// The bytes of a view's range with other elements.
pub(crate) fn scattered_bytes(view: &BufferView, mut bytes: Vec<u8>, dense: &[u8]) -> Vec<u8> {
    let size = view.dtype.byte_size();
    for (at, element) in element_offsets(view).into_iter().zip(dense.chunks_exact(size)) {
        bytes[at..at + size].copy_from_slice(element);
    }
    bytes
}
