//! Strided views of buffers.

use crate::ir::DType;
use smallvec::SmallVec;

crate::ir::dense_id! {
    /// A buffer of a plan.
    BufferId
}

/// Extent and stride of one axis, in elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ViewDim {
    /// Number of indices.
    pub extent: usize,
    /// The distance of neighbours, in elements; 0 for an expanded axis.
    pub stride: usize,
}

/// The axes of a view, outermost first. A plan has views by the million, most of them with few axes.
pub type ViewDims = SmallVec<[ViewDim; 2]>;

/// A strided range of a buffer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BufferView {
    /// The buffer.
    pub buffer: BufferId,
    /// First element.
    pub offset: usize,
    /// Axes, outermost first; a sharded axis has extent 1, reductions are left out.
    pub dims: ViewDims,
    /// Element type.
    pub dtype: DType,
}

impl BufferView {
    /// Number of indices (elements counted with repetition for expanded axes).
    pub fn len(&self) -> usize {
        self.dims.iter().map(|dim| dim.extent).product()
    }
    /// Number of elements without repetition.
    pub fn distinct_len(&self) -> usize {
        let extents = self.dims.iter().map(|dim| if dim.stride == 0 { dim.extent.min(1) } else { dim.extent });
        extents.product()
    }
    /// True if it has no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Extents, outermost first.
    pub fn shape(&self) -> Vec<usize> {
        self.dims.iter().map(|dim| dim.extent).collect()
    }
    /// The distance from the view's first element to its last, in elements; 0 if the view has only one.
    pub fn last_offset(&self) -> usize {
        self.dims.iter().map(|dim| dim.extent.saturating_sub(1) * dim.stride).sum()
    }
    /// Returns true if its elements are contiguous in row-major order.
    pub fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        for dim in self.dims.iter().rev() {
            if dim.extent != 1 && dim.stride != expected {
                return self.is_empty();
            }
            expected *= dim.extent;
        }
        true
    }
    /// The same elements with the row-major dims of `shape`; `None` unless the view is contiguous and `shape` has as
    /// many elements.
    pub fn reshaped_to(&self, shape: &[usize]) -> Option<BufferView> {
        let fits = self.is_contiguous() && shape.iter().product::<usize>() == self.len();
        fits.then(|| BufferView { dims: row_major(shape), ..self.clone() })
    }
}

/// Row-major dims of a shape.
pub fn row_major(shape: &[usize]) -> ViewDims {
    let mut dims: ViewDims = shape.iter().map(|&extent| ViewDim { extent, stride: 0 }).collect();
    let mut stride = 1usize;
    for dim in dims.iter_mut().rev() {
        dim.stride = stride;
        stride = stride.saturating_mul(dim.extent.max(1));
    }
    dims
}
