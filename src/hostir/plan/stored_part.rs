//! The stored elements of views with repeated elements.
//!
//! An expanded broadcast (`b.1 ex 3`) stores one element along its axis. Its views repeat that element (stride 0), and
//! every instruction writes each stored element once.

use super::inst::{InstKind, StepOperand};
use super::view::{BufferView, ViewDim};
use crate::data::HostTensor;
use smallvec::SmallVec;

impl ViewDim {
    /// Returns true if the axis repeats one stored element.
    pub fn repeats_element(&self) -> bool {
        self.stride == 0 && self.extent > 1
    }
}

impl BufferView {
    /// The stored elements: the first along each axis that repeats one.
    pub fn stored_part(&self) -> BufferView {
        let mut part = self.clone();
        part.dims.iter_mut().filter(|dim| dim.repeats_element()).for_each(|dim| dim.extent = 1);
        part
    }
    /// The indices, among all elements in row-major order, of the stored ones; `None` if all are stored.
    pub fn stored_places(&self) -> Option<Vec<usize>> {
        if !self.dims.iter().any(ViewDim::repeats_element) {
            return None;
        }
        let mut places = vec![0];
        for dim in &self.dims {
            let extent = if dim.repeats_element() { 1 } else { dim.extent };
            places = places.into_iter().flat_map(|outer| (0..extent).map(move |at| outer * dim.extent + at)).collect();
        }
        Some(places)
    }
}

/// The stored part of an input's data: the first element of each repetition.
pub fn stored_input(view: &BufferView, tensor: HostTensor) -> HostTensor {
    let Some(places) = view.stored_places().filter(|_| tensor.len() == view.len()) else { return tensor };
    let size = tensor.dtype().byte_size();
    let mut stored = HostTensor::zeros(tensor.dtype(), &view.stored_part().shape());
    for (to, place) in stored.bytes_mut().chunks_exact_mut(size.max(1)).zip(places) {
        to.copy_from_slice(&tensor.bytes()[place * size..(place + 1) * size]);
    }
    stored
}

/// Makes an instruction write each stored element once, if its result repeats elements.
///
/// # Errors
/// The axis of the result along which one element would get different values.
pub(super) fn write_stored_once(kind: &mut InstKind) -> Result<(), usize> {
    let Some(written) = kind.written_view() else { return Ok(()) };
    let axes = 0..written.dims.len();
    let repeated: SmallVec<[usize; 4]> = axes.filter(|&axis| written.dims[axis].repeats_element()).collect();
    repeated.into_iter().try_for_each(|axis| narrow_inst(kind, axis).ok_or(axis))
}

/// Keeps index 0 along one axis of an instruction's result; `None` if the operands differ along it.
fn narrow_inst(kind: &mut InstKind, axis: usize) -> Option<()> {
    let output: &mut BufferView = match kind {
        InstKind::Copy { src, dst } => {
            narrow_operand(src, axis)?;
            dst
        }
        InstKind::Fill { dst, .. } => dst,
        InstKind::Kernel(kernel) => {
            let index = StepOperand::Index(axis as u32);
            if kernel.steps.iter().any(|step| step.args.contains(&index)) {
                return None;
            }
            kernel.inputs.iter_mut().try_for_each(|input| narrow_operand(input, axis))?;
            &mut kernel.output
        }
        InstKind::Gemm(gemm) => {
            // The last axis of the result is that of the right factor, the one before that of the left factor.
            let from_end = gemm.out.dims.len() - axis;
            if from_end > 1 {
                narrow_from_end(&mut gemm.a, from_end)?;
            }
            if from_end != 2 {
                narrow_from_end(&mut gemm.b, from_end)?;
            }
            let scales = gemm.scales.as_deref_mut().map_or(&mut [][..], |scales| scales.as_mut_slice());
            gemm.bias.iter_mut().chain(scales).try_for_each(|view| narrow_from_end(view, from_end))?;
            &mut gemm.out
        }
        InstKind::Reduce(fold) => {
            let kept = (0..fold.input.dims.len()).filter(|place| !fold.axes.contains(place)).nth(axis)?;
            narrow_operand(&mut fold.input, kept)?;
            &mut fold.output
        }
        InstKind::Take(take) => {
            if axis != take.axis {
                narrow_operand(&mut take.input, axis)?;
            }
            narrow_operand(&mut take.index, axis)?;
            &mut take.output
        }
        InstKind::Accumulate(sum) if axis != sum.axis => {
            // Beyond the value's extent, elements remain those of the base.
            if sum.value.dims.get(axis)?.extent != sum.output.dims.get(axis)?.extent {
                return None;
            }
            narrow_operand(&mut sum.base, axis)?;
            narrow_operand(&mut sum.index, axis)?;
            narrow_operand(&mut sum.value, axis)?;
            &mut sum.output
        }
        InstKind::Rows(rows) if axis < rows.batch_axes => {
            rows.inputs.iter_mut().try_for_each(|input| narrow_operand(input, axis))?;
            &mut rows.output
        }
        _ => return None,
    };
    output.dims[axis].extent = 1;
    Some(())
}

fn narrow_from_end(view: &mut BufferView, from_end: usize) -> Option<()> {
    let axis = view.dims.len().checked_sub(from_end)?;
    narrow_operand(view, axis)
}

/// Keeps index 0 along an axis of a view; `None` if its elements differ along it.
fn narrow_operand(view: &mut BufferView, axis: usize) -> Option<()> {
    let dim = view.dims.get_mut(axis)?;
    if dim.extent > 1 && dim.stride != 0 {
        return None;
    }
    dim.extent = dim.extent.min(1);
    Some(())
}
