//! Plan builder functions for ops that compute: copies, pointwise functions, reductions, GEMMs, factories.

use super::{BufferView, Function, InstKind, KernelStep, PlanBuilder, PointwiseKernel, StepOperand, ViewDim};
use crate::diag::message;
use crate::diag::{Diag, codes};
use crate::ir::{ExprId, TensorId};
use smallvec::smallvec;

/// The view with axes of extent 1 repeated (stride 0) up to `shape`; missing outer axes are added.
/// `None` if it does not fit.
pub fn expanded_view(view: &BufferView, shape: &[usize]) -> Option<BufferView> {
    let missing = shape.len().checked_sub(view.dims.len())?;
    let mut dims: super::ViewDims = smallvec![ViewDim { extent: 1, stride: 0 }; missing];
    dims.extend(view.dims.iter().copied());
    for (dim, &extent) in dims.iter_mut().zip(shape) {
        if dim.extent == 1 && extent != 1 {
            *dim = ViewDim { extent, stride: 0 };
        } else if dim.extent != extent {
            return None;
        }
    }
    Some(BufferView { dims, ..view.clone() })
}

impl PlanBuilder<'_> {
    /// The view of a tensor that an op reads, with an element for each one of its result's shape ([`expanded_view`]).
    ///
    /// # Errors
    /// Those of [`PlanBuilder::input_view`], and if the shapes do not fit.
    pub fn fitted_input(&self, tensor: TensorId, result: TensorId, shape: &[usize]) -> Result<BufferView, Diag> {
        let view = self.input_view(tensor)?;
        expanded_view(&view, shape).ok_or_else(|| self.shape_error(tensor, &view.shape(), result, shape))
    }
}

/// Copies a view of `input`, arranged like the result, into the result.
///
/// # Errors
/// If the shapes differ, or the result cannot be allocated.
pub fn emit_copy_to_result(
    cx: &mut PlanBuilder<'_>,
    input: TensorId,
    src: BufferView,
    result: TensorId,
) -> Result<(), Diag> {
    let dst = cx.output_view(result)?;
    let Some(src) = expanded_view(&src, &dst.shape()) else {
        return Err(cx.shape_error(input, &src.shape(), result, &dst.shape()));
    };
    if src == dst {
        return Ok(());
    }
    emit_copy(cx, src, dst)
}

/// A copy, or a cast where the types differ.
///
/// # Errors
/// If the plan becomes too large.
pub fn emit_copy(cx: &mut PlanBuilder<'_>, src: BufferView, dst: BufferView) -> Result<(), Diag> {
    if src.dtype == dst.dtype {
        return cx.emit_inst(InstKind::Copy { src: Box::new(src), dst: Box::new(dst) });
    }
    let step = KernelStep {
        function: Function::Cast,
        args: smallvec![StepOperand::Input(0)],
        compute: src.dtype,
        result: dst.dtype,
    };
    cx.emit_inst(InstKind::Kernel(Box::new(PointwiseKernel { inputs: smallvec![src], output: dst, steps: vec![step] })))
}

/// Returns the offset and the length of the shard with an index.
pub(crate) fn stream_part(
    cx: &PlanBuilder<'_>,
    extent: usize,
    parts: ExprId,
    index: ExprId,
) -> Result<(usize, usize), Diag> {
    let (parts, index) = (cx.eval_size(parts)?, cx.eval_int(index)?);
    let Some(index) = usize::try_from(index).ok().filter(|&index| index < parts) else {
        let message = message!("part {} is out of range: the stream-parallel axis has {} parts", index, parts);
        return Err(cx.error_here(codes::OUT_OF_RANGE, message));
    };
    let length = extent.div_ceil(parts);
    let start = extent.min(index.saturating_mul(length));
    Ok((start, length.min(extent - start)))
}
