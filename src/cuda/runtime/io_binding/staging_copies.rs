//! Copies between a caller's tensors and a plan's memory, before and after a run.

use crate::runtime::io_binding::tensor_check::{CALLERS, StridedTensor};
use hostir::plan::BufferView;
use hostir_gpu::codegen;
use hostir_gpu::codegen::job;
use hostir_gpu::unsupported::Unsupported;

/// The direction in which elements go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CopyDirection {
    /// From the caller's memory, before the run.
    In,
    /// To the caller's memory, after the run.
    Out,
}

/// A copy with its addresses.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum BindingTransfer {
    /// Bytes in one piece.
    Bytes { to: u64, from: u64, bytes: usize },
    /// A kernel.
    Kernel { text: String, grid: [u32; 3], block: [u32; 3], addresses: Vec<u64> },
}

/// The elements of a caller's tensor that the plan's view stores: the first one of each repeated element.
fn stored_elements(tensor: &BufferView, plan_view: &BufferView) -> BufferView {
    let mut stored = tensor.clone();
    let repeated = stored.dims.iter_mut().zip(&plan_view.dims).filter(|(_, dim)| dim.repeats_element());
    repeated.for_each(|(dim, _)| dim.extent = 1);
    stored
}

/// The copies between a caller's tensor and the plan's view of it, whose buffer is at `buffer`.
pub(crate) fn binding_transfers(
    tensor: &StridedTensor,
    plan_view: &BufferView,
    buffer: u64,
    way: CopyDirection,
) -> Result<Vec<BindingTransfer>, Unsupported> {
    if plan_view.is_empty() {
        return Ok(Vec::new());
    }
    let address = |view: &BufferView| {
        let base = if view.buffer == CALLERS { tensor.base } else { buffer };
        base + (view.offset * view.dtype.byte_size()) as u64
    };
    let (from, to) = match way {
        CopyDirection::In => (&stored_elements(&tensor.view, plan_view), &plan_view.stored_part()),
        CopyDirection::Out => (plan_view, &tensor.view),
    };
    if from.is_contiguous() && to.is_contiguous() {
        let bytes = from.len() * from.dtype.byte_size();
        return Ok(vec![BindingTransfer::Bytes { to: address(to), from: address(from), bytes }]);
    }
    let mut job = codegen::generate_copy(from, to)?;
    job.annotate();
    let launches = job.launches.into_iter();
    let kernel = |launch: job::KernelLaunch| {
        // Copies have no scratch memory.
        let addresses = launch.params.iter().map(|param| param.as_view().map_or(0, address)).collect();
        BindingTransfer::Kernel { text: launch.text, grid: launch.grid, block: launch.block, addresses }
    };
    Ok(launches.map(kernel).collect())
}
