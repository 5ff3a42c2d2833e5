//! Checks of a caller's tensor as an input or output of a program.

use crate::runtime::io_binding::{DeviceTensor, IoSide};
use crate::sys::context::AddressInfo;
use hostir::diag::message;
use hostir::diag::{Diag, Message, Span, codes};
use hostir::ir::quoted_type;
use hostir::plan::{BufferId, BufferView, ViewDim, ViewDims, are_disjoint};

/// The input or output to which a tensor is bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BindingTarget<'a> {
    pub(crate) side: IoSide,
    pub(crate) name: &'a str,
    pub(crate) span: Span,
    pub(crate) rank: u32,
    /// The rank's part in the plan's memory.
    pub(crate) view: &'a BufferView,
    /// True if the program writes the tensor.
    pub(crate) written: bool,
}

impl BindingTarget<'_> {
    /// `input T0 of rank 1`.
    fn display_name(&self) -> String {
        format!("{} {} of rank {}", self.side, self.name, self.rank)
    }

    fn binding_error(&self, code: &'static str, message: impl Into<Message>) -> Diag {
        Diag::error(code, self.span, message)
    }
}

/// The error for an input that needs data and has none.
pub(crate) fn unbound_input_error(expected: &BindingTarget<'_>) -> Diag {
    expected
        .binding_error(codes::UNBOUND, format!("{} has no data", expected.display_name()))
        .with_note("bind a device tensor to it, or upload one, before the run")
}

/// The error for an output that is kept in an input whose address is not known yet.
pub(crate) fn unplaced_output_error(expected: &BindingTarget<'_>) -> Diag {
    let message = message!("{} is a view of an input, so it has no address before a run", expected.display_name());
    expected.binding_error(codes::SESSION, message).with_note("bind it, or query it after the first run")
}

/// The buffer of views of callers' memory.
pub(crate) const CALLERS: BufferId = BufferId(u32::MAX);

/// The alignment that kernels assume of memory, in bytes.
pub(crate) const VECTOR: u64 = 16;

/// A tensor whose layout is valid: a view from the multiple of [`VECTOR`] at or before its first element.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StridedTensor {
    /// The address at which the view's buffer starts.
    pub(crate) base: u64,
    pub(crate) view: BufferView,
}

impl StridedTensor {
    /// Address of its first element.
    pub(crate) fn data_address(&self) -> u64 {
        self.base + (self.view.offset * self.view.dtype.byte_size()) as u64
    }

    /// First byte, and the byte after the last.
    pub(crate) fn byte_range(&self) -> (u64, u64) {
        let elements = if self.view.is_empty() { 0 } else { self.view.last_offset() + 1 };
        let bytes = elements * self.view.dtype.byte_size();
        (self.data_address(), self.data_address() + bytes as u64)
    }

    /// Returns true if both have the same elements in the same order.
    pub(crate) fn is_same_tensor(&self, other: &StridedTensor) -> bool {
        let [own, others] = [self, other].map(|tensor| tensor.view.dims.iter().filter(|dim| dim.extent != 1));
        self.data_address() == other.data_address() && self.view.dtype == other.view.dtype && own.eq(others)
    }

    /// Returns true if the two may have a byte in common.
    pub(crate) fn overlaps(&self, other: &StridedTensor) -> bool {
        let ((a, a_end), (b, b_end)) = (self.byte_range(), other.byte_range());
        if a >= b_end || b >= a_end {
            return false;
        }
        let size = self.view.dtype.byte_size() as u64;
        if other.view.dtype.byte_size() as u64 != size || a % size != b % size {
            return true;
        }
        let [own, others] = [(self, a), (other, b)]
            .map(|(tensor, start)| BufferView { offset: ((start - a.min(b)) / size) as usize, ..tensor.view.clone() });
        !are_disjoint(&own, &others)
    }
}

/// Checks type, shape, strides and the alignment of elements.
pub(crate) fn check_layout(expected: &BindingTarget<'_>, tensor: &DeviceTensor) -> Result<StridedTensor, Diag> {
    let (view, what) = (expected.view, expected.display_name());
    if tensor.dtype != view.dtype {
        let (is, given) = (quoted_type(view.dtype), quoted_type(tensor.dtype));
        let message = message!("{} is `{}`, but a tensor of type `{}` was given", what, is, given);
        let note = "pass a tensor of the program's type, or change the type in the program";
        return Err(expected.binding_error(codes::BOUND_TYPE, message).with_note(note));
    }
    if tensor.shape != view.shape() {
        let (is, given) = (view.shape(), &tensor.shape);
        let message = message!(
            "{} has shape {}, but a tensor of shape {} was given",
            what,
            format!("{is:?}"),
            format!("{given:?}")
        );
        return Err(expected.binding_error(codes::BOUND_SHAPE, message).with_note(
            "the sizes of a session are fixed when it is built; an axis that is sharded over devices has extent 1 on each rank",
        ));
    }
    let dims = check_strides(expected, tensor)?;
    let size = view.dtype.byte_size() as u64;
    if !tensor.pointer.is_multiple_of(size) && !view.is_empty() {
        let (at, name) = (tensor.pointer, quoted_type(view.dtype));
        let message = message!(
            "{} was bound to the address {}, but elements of `{}` must be aligned to {} bytes",
            what,
            format!("{at:#x}"),
            name,
            size
        );
        return Err(expected
            .binding_error(codes::BOUND_MEMORY, message)
            .with_note("copy the tensor to memory with the alignment of its elements"));
    }
    let base = tensor.pointer - tensor.pointer % VECTOR;
    let offset = ((tensor.pointer - base) / size) as usize;
    Ok(StridedTensor { base, view: BufferView { buffer: CALLERS, offset, dims, dtype: view.dtype } })
}

/// Refuses a tensor outside of the symmetric memory for which the program was prepared.
pub(crate) fn check_fixed(
    expected: &BindingTarget<'_>,
    tensor: &StridedTensor,
    fixed: Option<u64>,
) -> Result<(), Diag> {
    let Some(fixed) = fixed else { return Ok(()) };
    let at = tensor.data_address();
    if at == fixed && tensor.view.is_contiguous() {
        return Ok(());
    }
    let what = expected.display_name();
    let message = match at == fixed {
        true => format!("{what} is symmetric memory, but was bound with gaps between its elements"),
        false => format!("{what} is symmetric memory at {fixed:#x}, but was bound to the address {at:#x}"),
    };
    let note = "other ranks have its address: build a session for each symmetric tensor";
    Err(expected.binding_error(codes::SYMMETRIC_MEMORY, message).with_note(note))
}

/// The tensor's axes, if the program supports its strides.
fn check_strides(expected: &BindingTarget<'_>, tensor: &DeviceTensor) -> Result<ViewDims, Diag> {
    let (given, needed) = (tensor.strides.len(), tensor.shape.len());
    if given != needed {
        let why = format!(", which are {given} strides for {needed} axes");
        return Err(strides_error(expected, tensor, &why, "pass one stride for each axis, in elements"));
    }
    if tensor.strides.iter().any(|&stride| stride < 0) {
        let note = "copy the tensor to one with strides of 0 or more";
        return Err(strides_error(expected, tensor, ", one of which is negative", note));
    }
    let axes = tensor.shape.iter().zip(&tensor.strides);
    let dims: ViewDims = axes.map(|(&extent, &stride)| ViewDim { extent, stride: stride as usize }).collect();
    if !tensor.is_empty() && end_address(&dims, tensor).is_none() {
        let why = ", which place the last element beyond the address space";
        return Err(strides_error(expected, tensor, why, "strides count elements, not bytes"));
    }
    if expected.written && has_aliased_elements(&dims) {
        let why = ", with which elements may overlap, but the program writes the tensor";
        let note = "bind memory in which no two elements overlap";
        return Err(strides_error(expected, tensor, why, note));
    }
    Ok(dims)
}

fn strides_error(expected: &BindingTarget<'_>, tensor: &DeviceTensor, why: &str, note: &str) -> Diag {
    let message =
        message!("{} was bound with strides {}{}", expected.display_name(), format!("{:?}", tensor.strides), why);
    expected.binding_error(codes::BOUND_STRIDES, message).with_note(note)
}

/// The address after the last element, unless it overflows.
fn end_address(dims: &ViewDims, tensor: &DeviceTensor) -> Option<u64> {
    let mut last = 0usize;
    for dim in dims {
        last = last.checked_add(dim.extent.checked_sub(1)?.checked_mul(dim.stride)?)?;
    }
    let bytes = last.checked_add(1)?.checked_mul(tensor.dtype.byte_size())?;
    tensor.pointer.checked_add(u64::try_from(bytes).ok()?).filter(|&end| end < 1 << 62)
}

/// Returns true if elements may share memory: an axis has a stride smaller than the range of the axes inside of it.
fn has_aliased_elements(dims: &ViewDims) -> bool {
    let mut long: Vec<ViewDim> = dims.iter().filter(|dim| dim.extent > 1).copied().collect();
    long.sort_by_key(|dim| dim.stride);
    let mut reach = 0;
    long.into_iter().any(|dim| {
        let inside = reach;
        reach += (dim.extent - 1) * dim.stride;
        dim.stride <= inside
    })
}

/// Checks that a tensor is in memory of the rank's device, as far as the driver can tell.
pub(crate) fn check_memory(
    expected: &BindingTarget<'_>,
    tensor: &StridedTensor,
    about: &AddressInfo,
    device: usize,
) -> Result<(), Diag> {
    let (start, end) = tensor.byte_range();
    if about.host {
        let note = "upload the tensor, or copy it to the device";
        return Err(memory_error(expected, start, "which is host memory", note));
    }
    let Some(found) = about.device else {
        let note = "bind an address from the CUDA driver, the CUDA runtime, or a framework on top of them";
        return Err(memory_error(expected, start, "which is not device memory", note));
    };
    if found != device {
        let why = format!("which is on device {found}, but the rank runs on device {device}");
        let note = "bind memory on the rank's device, or assign that device to the rank";
        return Err(memory_error(expected, start, &why, note));
    }
    if about.elsewhere {
        let note = "sessions run in the primary context of the device, as the CUDA runtime does";
        return Err(memory_error(expected, start, "which belongs to another context of the device", note));
    }
    match about.allocation {
        Some((from, to)) if start < from || end > to => {
            let (needed, there) = (end - start, to.saturating_sub(start));
            let why = format!("which needs {needed} bytes, but the allocation has {there} there");
            Err(memory_error(expected, start, &why, "shape and strides must stay within the allocation"))
        }
        _ => Ok(()),
    }
}

fn memory_error(expected: &BindingTarget<'_>, start: u64, why: &str, note: &str) -> Diag {
    let message = message!("{} was bound to the address {}, {}", expected.display_name(), format!("{start:#x}"), why);
    expected.binding_error(codes::BOUND_MEMORY, message).with_note(note)
}
