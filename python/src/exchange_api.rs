//! Tensors of another library without a copy, on any device: by DLPack's C exchange API, if their type has it
//! (`__dlpack_c_exchange_api__`, <https://dmlc.github.io/dlpack/latest/>), else by their attributes.
//!
//! The API takes tens of nanoseconds for a tensor where attributes take a microsecond, and knows the current stream.
#![allow(unsafe_code, reason = "the exchange API is a structure of C behind a pointer")]

use crate::dlpack::{DlTensor, HOST, dtype_of, read_numbers};
use crate::tensor::dtype_named;
use hostir::ir::DType;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyCapsule, PyFloat, PyInt, PyString, PyType};
use smallvec::SmallVec;
use std::ffi::{CStr, c_int, c_void};
use std::ptr;

/// The name of the capsule with the API.
const API: &CStr = c"dlpack_exchange_api";

/// `kDLCUDA`.
const CUDA: i32 = 2;

/// `DLPackExchangeAPI`; functions that are not called here have no type.
#[repr(C)]
struct ExchangeTable {
    major: u32,
    minor: u32,
    older: *const ExchangeTable,
    allocate: *const c_void,
    managed_from_object: *const c_void,
    managed_to_object: *const c_void,
    tensor_from_object: Option<unsafe extern "C" fn(*mut c_void, *mut DlTensor) -> c_int>,
    current_work_stream: Option<unsafe extern "C" fn(i32, i32, *mut *mut c_void) -> c_int>,
}

/// All about a tensor but its address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TensorKey {
    /// Kind of device and its number, as DLPack has them.
    device: (i32, i32),
    dtype: DType,
    /// Extent and stride, in elements, of each axis.
    axes: SmallVec<[(i64, i64); 6]>,
}

/// A tensor as it was found.
#[derive(Debug)]
pub(crate) struct FoundTensor {
    pub(crate) key: TensorKey,
    pub(crate) address: u64,
}

impl TensorKey {
    /// The number of the device.
    pub(crate) fn device_number(&self) -> i32 {
        self.device.1
    }

    /// True unless the strides show that it is not every second number of a complex tensor.
    fn may_be_imaginary(&self) -> bool {
        self.axes.iter().all(|(extent, stride)| *extent < 2 || stride % 2 == 0)
    }

    /// A tensor on the device of this one.
    pub(crate) fn beside(&self, dtype: DType, shape: &[i64], strides: &[i64]) -> Self {
        let axes = shape.iter().copied().zip(strides.iter().copied()).collect();
        Self { device: self.device, dtype, axes }
    }

    /// Returns whether numbers are stored in two parts, and whether a view may change their signs without access to
    /// memory.
    pub(crate) fn may_be_lazy(&self) -> (bool, bool) {
        let complex = matches!(self.dtype, DType::ComplexFloat | DType::ComplexDouble);
        (complex, complex || matches!(self.dtype, DType::Float | DType::Double | DType::Half | DType::BFloat16))
    }

    fn is_empty(&self) -> bool {
        self.axes.iter().any(|(extent, _)| *extent == 0)
    }
}

/// Reads tensors of one type.
pub(crate) struct TensorReader {
    class: Py<PyType>,
    table: Option<&'static ExchangeTable>,
}

// SAFETY: the table is constant, and its functions are called with the interpreter held.
unsafe impl Send for TensorReader {}
// SAFETY: as above.
unsafe impl Sync for TensorReader {}

impl TensorReader {
    /// The reader for a type, whose table of version 1 is used if it has one.
    pub(crate) fn new(class: &Bound<'_, PyType>) -> Self {
        Self { class: class.clone().unbind(), table: find_table(class) }
    }

    /// Whether the type has the exchange API.
    pub(crate) fn has_api(&self) -> bool {
        self.table.is_some()
    }

    /// Whether an object is of this very type.
    pub(crate) fn reads(&self, object: &Bound<'_, PyAny>) -> bool {
        object.get_type_ptr() == self.class.as_ptr().cast()
    }

    /// A tensor of this type; `None` for one without strided memory, or whose numbers differ from those in memory.
    pub(crate) fn read_tensor(&self, tensor: &Bound<'_, PyAny>) -> Option<FoundTensor> {
        let found = match self.table.and_then(|table| table.tensor_from_object) {
            Some(read) => read_by_api(read, tensor),
            None => read_by_attributes(tensor).ok().and_then(usable),
        };
        found.filter(|found| !found.key.may_be_imaginary() || !is_negative_view(tensor))
    }

    /// The current stream of a device, if the API has it.
    pub(crate) fn current_stream(&self, py: Python<'_>, key: &TensorKey) -> Option<usize> {
        let ask = self.table?.current_work_stream?;
        let mut stream = ptr::null_mut();
        // SAFETY: the pointer is to a handle of this frame; the interpreter is held.
        let status = unsafe { ask(key.device.0, key.device.1, &raw mut stream) };
        if status != 0 {
            drop(PyErr::take(py));
            return None;
        }
        Some(stream as usize)
    }
}

/// The table of a type, if it is of version 1 and reads tensors.
fn find_table(class: &Bound<'_, PyType>) -> Option<&'static ExchangeTable> {
    let capsule = class.getattr(intern!(class.py(), "__dlpack_c_exchange_api__")).ok()?;
    let pointer = capsule.cast::<PyCapsule>().ok()?.pointer_checked(Some(API)).ok()?;
    // SAFETY: a capsule of this name holds a `DLPackExchangeAPI`, which lives as long as the process.
    let table: &'static ExchangeTable = unsafe { pointer.cast::<ExchangeTable>().as_ref() };
    (table.major == 1 && table.tensor_from_object.is_some()).then_some(table)
}

fn read_by_api(
    read: unsafe extern "C" fn(*mut c_void, *mut DlTensor) -> c_int,
    tensor: &Bound<'_, PyAny>,
) -> Option<FoundTensor> {
    let mut found = DlTensor::empty();
    // SAFETY: the object is of the type that the table is of; the pointer is to a structure of this frame.
    let status = unsafe { read(tensor.as_ptr().cast(), &raw mut found) };
    if status != 0 {
        drop(PyErr::take(tensor.py()));
        return None;
    }
    let axes = usize::try_from(found.ndim).ok()?;
    let (shape, strides) = (read_numbers(found.shape, axes), read_numbers(found.strides, axes));
    let whole = shape.len() == axes && strides.len() == axes;
    let axes = shape.iter().copied().zip(strides.iter().copied()).collect();
    let key = TensorKey { device: (found.device_type, found.device_id), dtype: dtype_of(found.dtype).ok()?, axes };
    let address = (found.data as u64).wrapping_add(found.byte_offset);
    usable(FoundTensor { key, address }).filter(|_| whole)
}

/// A tensor by its attributes: those of torch's tensors.
pub(crate) fn read_by_attributes(tensor: &Bound<'_, PyAny>) -> PyResult<FoundTensor> {
    let py = tensor.py();
    let shape: Vec<i64> = tensor.getattr(intern!(py, "shape"))?.extract()?;
    let strides: Vec<i64> = tensor.call_method0(intern!(py, "stride"))?.extract()?;
    let dtype = read_dtype(&tensor.getattr(intern!(py, "dtype"))?)?;
    let device = tensor.getattr(intern!(py, "device"))?;
    let kind: String = device.getattr(intern!(py, "type"))?.extract()?;
    let kind = match kind.as_str() {
        "cpu" => HOST,
        "cuda" => CUDA,
        other => return Err(pyo3::exceptions::PyBufferError::new_err(format!("the tensor is on {other}"))),
    };
    let number: Option<i32> = device.getattr(intern!(py, "index"))?.extract()?;
    let address: u64 = tensor.call_method0(intern!(py, "data_ptr"))?.extract()?;
    let axes = shape.into_iter().zip(strides).collect();
    Ok(FoundTensor { key: TensorKey { device: (kind, number.unwrap_or(0)), dtype, axes }, address })
}

/// torch's element type of a program's: `torch.float32`.
pub(crate) fn read_dtype(dtype: &Bound<'_, PyAny>) -> PyResult<DType> {
    let name = dtype.str()?.extract::<String>()?;
    dtype_named(name.strip_prefix("torch.").unwrap_or(&name))
}

/// True for a tensor of torch whose numbers are the negated ones in memory: the imaginary part of a conjugate.
fn is_negative_view(tensor: &Bound<'_, PyAny>) -> bool {
    let asked = tensor.call_method0(intern!(tensor.py(), "is_neg"));
    asked.and_then(|answer| answer.extract()).unwrap_or(false)
}

/// A tensor with elements has memory; one whose storage was given back has none.
fn usable(found: FoundTensor) -> Option<FoundTensor> {
    (found.address != 0 || found.key.is_empty()).then_some(found)
}

/// Returns true if an object is of one of Python's own types of plain values: comparing it calls no other code.
pub(crate) fn is_plain_value(object: &Bound<'_, PyAny>) -> bool {
    object.is_exact_instance_of::<PyString>()
        || object.is_none()
        || object.is_exact_instance_of::<PyInt>()
        || object.is_exact_instance_of::<PyBool>()
        || object.is_exact_instance_of::<PyFloat>()
}
