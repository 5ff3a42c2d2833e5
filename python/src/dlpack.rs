//! DLPack, the protocol by which array libraries exchange tensors: <https://dmlc.github.io/dlpack/latest/>.
//!
//! [`read_capsule`] copies the tensor of a capsule, and [`make_capsule`] exports a tensor that its capsule owns. Both
//! forms of the protocol are supported: `dltensor`, and `dltensor_versioned` of version 1. All memory is the host's.
#![allow(unsafe_code, reason = "DLPack is structures of C behind pointers")]

use crate::failure::Failure;
use hostir::data::HostTensor;
use hostir::diag::{Diag, codes};
use hostir::ir::DType;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use smallvec::SmallVec;
use std::ffi::{CStr, c_void};
use std::ptr;

/// `kDLCPU`.
pub(crate) const HOST: i32 = 1;

/// The name of a capsule of a `DLManagedTensor`.
const PLAIN: &CStr = c"dltensor";

/// The name of a capsule of a `DLManagedTensorVersioned`.
const VERSIONED: &CStr = c"dltensor_versioned";

/// The maximum number of axes of a tensor: no array library has more.
const MOST_AXES: i32 = 64;

/// `DLDataType`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ElementType {
    code: u8,
    bits: u8,
    lanes: u16,
}

/// `DLTensor`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct DlTensor {
    pub(crate) data: *mut c_void,
    pub(crate) device_type: i32,
    pub(crate) device_id: i32,
    pub(crate) ndim: i32,
    pub(crate) dtype: ElementType,
    pub(crate) shape: *const i64,
    pub(crate) strides: *const i64,
    pub(crate) byte_offset: u64,
}

impl DlTensor {
    /// One without memory, to be filled in.
    pub(crate) fn empty() -> Self {
        Self {
            data: ptr::null_mut(),
            device_type: 0,
            device_id: 0,
            ndim: 0,
            dtype: ElementType { code: 0, bits: 0, lanes: 0 },
            shape: ptr::null(),
            strides: ptr::null(),
            byte_offset: 0,
        }
    }
}

/// `DLManagedTensor`.
#[repr(C)]
struct ManagedTensor {
    tensor: DlTensor,
    manager: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedTensor)>,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
struct VersionedTensor {
    major: u32,
    minor: u32,
    manager: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut VersionedTensor)>,
    flags: u64,
    tensor: DlTensor,
}

/// `DLPackTypeCode`, bits, and our types.
const TYPES: &[(u8, u8, DType)] = &[
    (0, 8, DType::Int8),
    (0, 16, DType::Int16),
    (0, 32, DType::Int32),
    (0, 64, DType::Int),
    (0, 64, DType::Index),
    (1, 8, DType::UInt8),
    (1, 16, DType::UInt16),
    (1, 32, DType::UInt32),
    (1, 64, DType::UInt64),
    (2, 16, DType::Half),
    (2, 32, DType::Float),
    (2, 64, DType::Double),
    (4, 16, DType::BFloat16),
    (5, 64, DType::ComplexFloat),
    (5, 128, DType::ComplexDouble),
    (6, 8, DType::Bool),
    (10, 8, DType::Float8E4M3),
    (12, 8, DType::Float8E5M2),
    (14, 8, DType::Float8E8M0),
];

/// Copies the tensor of a capsule.
///
/// # Errors
/// `TypeError` for something else than such a capsule, `BufferError` for a tensor of a device or of a type that no
/// program has, and `HostIrError` if there is no memory for a copy.
pub(crate) fn read_capsule(capsule: &Bound<'_, PyCapsule>) -> PyResult<HostTensor> {
    if let Ok(pointer) = capsule.pointer_checked(Some(VERSIONED)) {
        // SAFETY: a capsule of this name holds a `DLManagedTensorVersioned`, which lives as long as the capsule.
        let managed = unsafe { pointer.cast::<VersionedTensor>().as_ref() };
        if managed.major != 1 {
            return Err(PyBufferError::new_err(format!("DLPack {} is not known; version 1 is", managed.major)));
        }
        return copy_tensor(capsule.py(), &managed.tensor);
    }
    let Ok(pointer) = capsule.pointer_checked(Some(PLAIN)) else {
        return Err(PyTypeError::new_err("`__dlpack__` gave no DLPack capsule"));
    };
    // SAFETY: a capsule of this name holds a `DLManagedTensor`, which lives as long as the capsule.
    copy_tensor(capsule.py(), unsafe { &pointer.cast::<ManagedTensor>().as_ref().tensor })
}

/// Copies the elements of a tensor. Its owner stays the capsule, which frees it.
fn copy_tensor(py: Python<'_>, tensor: &DlTensor) -> PyResult<HostTensor> {
    if tensor.device_type != HOST {
        return Err(PyBufferError::new_err("the tensor is not in host memory"));
    }
    let dtype = dtype_of(tensor.dtype)?;
    if !(0..=MOST_AXES).contains(&tensor.ndim) {
        return Err(PyBufferError::new_err(format!("the tensor has {} axes", tensor.ndim)));
    }
    let axes = tensor.ndim as usize;
    let shape: Vec<usize> = read_numbers(tensor.shape, axes).iter().map(|extent| *extent as usize).collect();
    let copy = HostTensor::try_zeros(dtype, &shape);
    let mut copy = copy.ok_or_else(|| Failure::from(no_memory(dtype, &shape)).into_exception(py))?;
    let strides = match tensor.strides.is_null() {
        true => row_major(&shape),
        false => read_numbers(tensor.strides, axes).into_vec(),
    };
    if !copy.is_empty() {
        let first = tensor.data.cast::<u8>().wrapping_add(tensor.byte_offset as usize);
        copy_elements(first, &strides, dtype.byte_size(), &shape, copy.bytes_mut());
    }
    Ok(copy)
}

/// The error for a tensor that is too large to be copied: one without memory of its own can have any shape.
fn no_memory(dtype: DType, shape: &[usize]) -> Diag {
    let bytes = shape.iter().fold(dtype.byte_size() as u128, |bytes, extent| bytes.saturating_mul(*extent as u128));
    let message = format!("out of memory: a copy of the tensor of shape {shape:?} needs {bytes} bytes");
    Diag::global_error(codes::NO_MEMORY, message)
        .with_note("inputs are copied, and expanded axes with them; reduce the sizes")
}

pub(crate) fn dtype_of(dtype: ElementType) -> PyResult<DType> {
    let known = TYPES.iter().find(|(code, bits, _)| (*code, *bits, 1) == (dtype.code, dtype.bits, dtype.lanes));
    known.map(|(.., known)| *known).ok_or_else(|| {
        PyBufferError::new_err(format!(
            "no program has elements of DLPack's type {} of {} bits",
            dtype.code, dtype.bits
        ))
    })
}

/// The numbers of an array of a `DLTensor`, one for each axis.
pub(crate) fn read_numbers(from: *const i64, axes: usize) -> SmallVec<[i64; 6]> {
    if axes == 0 || from.is_null() {
        return SmallVec::new();
    }
    // SAFETY: shape and strides of a `DLTensor` have `ndim` numbers.
    unsafe { std::slice::from_raw_parts(from, axes) }.into()
}

/// Copies all elements, row by row, to `to`, which has room for exactly these.
fn copy_elements(from: *const u8, strides: &[i64], size: usize, shape: &[usize], to: &mut [u8]) {
    let ([extent, inner @ ..], [stride, inner_strides @ ..]) = (shape, strides) else {
        return copy_bytes(from, to);
    };
    if strides == row_major(shape).as_slice() {
        return copy_bytes(from, to);
    }
    let step = (*stride as isize).wrapping_mul(size as isize);
    for (at, row) in to.chunks_exact_mut(to.len() / extent).enumerate() {
        copy_elements(from.wrapping_offset(step.wrapping_mul(at as isize)), inner_strides, size, inner, row);
    }
}

fn copy_bytes(from: *const u8, to: &mut [u8]) {
    // SAFETY: the tensor's owner says by its shape and strides that these bytes are its own; `to` is ours.
    unsafe { ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
}

/// The strides, in elements, of a tensor without gaps. The extents of a tensor without elements may overflow: then the
/// stride is 0, and nobody uses it.
fn row_major(shape: &[usize]) -> Vec<i64> {
    let mut strides = vec![1i64; shape.len()];
    for axis in (1..shape.len()).rev() {
        let extent = i64::try_from(shape[axis]).ok();
        strides[axis - 1] = extent.and_then(|extent| strides[axis].checked_mul(extent)).unwrap_or(0);
    }
    strides
}

/// An exported tensor: its memory, and the lists that the C structure points to.
struct GivenTensor {
    data: HostTensor,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

impl GivenTensor {
    fn new(data: HostTensor) -> Box<Self> {
        let shape = data.shape().iter().map(|extent| *extent as i64).collect();
        let strides = row_major(data.shape());
        Box::new(Self { data, shape, strides })
    }

    /// The C structure, which points into this one.
    fn describe(&mut self, bits_only: bool) -> PyResult<DlTensor> {
        let dtype = self.data.dtype();
        let unsigned = 8 * dtype.byte_size();
        let known = TYPES.iter().find(|(.., known)| *known == dtype);
        let dtype = match known {
            _ if bits_only => ElementType { code: 1, bits: unsigned as u8, lanes: 1 },
            Some((code, bits, _)) => ElementType { code: *code, bits: *bits, lanes: 1 },
            None => return Err(PyBufferError::new_err(format!("DLPack has no type for {}", dtype.name()))),
        };
        Ok(DlTensor {
            data: self.data.bytes_mut().as_mut_ptr().cast(),
            device_type: HOST,
            device_id: 0,
            ndim: self.shape.len() as i32,
            dtype,
            shape: self.shape.as_ptr(),
            strides: self.strides.as_ptr(),
            byte_offset: 0,
        })
    }
}

/// A capsule that owns a tensor; with `bits_only` its elements are unsigned integers of the same size.
///
/// # Errors
/// A type that DLPack does not have.
pub(crate) fn make_capsule(py: Python<'_>, data: HostTensor, versioned: bool, bits_only: bool) -> PyResult<Py<PyAny>> {
    let mut given = GivenTensor::new(data);
    let tensor = given.describe(bits_only)?;
    let manager = Box::into_raw(given).cast();
    let (name, pointer): (_, *mut c_void) = match versioned {
        true => {
            let deleter = Some(delete_versioned as unsafe extern "C" fn(*mut VersionedTensor));
            let managed = VersionedTensor { major: 1, minor: 0, manager, deleter, flags: 0, tensor };
            (VERSIONED, Box::into_raw(Box::new(managed)).cast())
        }
        false => {
            let deleter = Some(delete_plain as unsafe extern "C" fn(*mut ManagedTensor));
            (PLAIN, Box::into_raw(Box::new(ManagedTensor { tensor, manager, deleter })).cast())
        }
    };
    // SAFETY: the pointer is not null, the name lives as long as the program, and the destructor knows both forms.
    let capsule = unsafe { ffi::PyCapsule_New(pointer, name.as_ptr(), Some(drop_capsule)) };
    // SAFETY: `PyCapsule_New` gives a new reference, or null with an exception.
    unsafe { Bound::from_owned_ptr_or_err(py, capsule) }.map(Bound::unbind)
}

/// Frees a tensor that nobody has taken: the taker of a capsule's tensor renames the capsule.
unsafe extern "C" fn drop_capsule(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this with a capsule of `make_capsule`, and holds the GIL.
    let plain = unsafe { ffi::PyCapsule_IsValid(capsule, PLAIN.as_ptr()) } == 1;
    // SAFETY: as above.
    let versioned = unsafe { ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) } == 1;
    if plain {
        // SAFETY: a capsule of this name is valid, so it has this pointer.
        let pointer = unsafe { ffi::PyCapsule_GetPointer(capsule, PLAIN.as_ptr()) };
        // SAFETY: it is of `make_capsule`, and nobody has taken it.
        unsafe { delete_plain(pointer.cast()) };
    }
    if versioned {
        // SAFETY: a capsule of this name is valid, so it has this pointer.
        let pointer = unsafe { ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()) };
        // SAFETY: it is of `make_capsule`, and nobody has taken it.
        unsafe { delete_versioned(pointer.cast()) };
    }
}

/// The deleter of a `DLManagedTensor`.
unsafe extern "C" fn delete_plain(managed: *mut ManagedTensor) {
    // SAFETY: the owner calls this once, with the pointer that `make_capsule` made.
    let managed = unsafe { Box::from_raw(managed) };
    // SAFETY: the manager is the box of `make_capsule`.
    drop(unsafe { Box::from_raw(managed.manager.cast::<GivenTensor>()) });
}

/// The deleter of a `DLManagedTensorVersioned`.
unsafe extern "C" fn delete_versioned(managed: *mut VersionedTensor) {
    // SAFETY: the owner calls this once, with the pointer that `make_capsule` made.
    let managed = unsafe { Box::from_raw(managed) };
    // SAFETY: the manager is the box of `make_capsule`.
    drop(unsafe { Box::from_raw(managed.manager.cast::<GivenTensor>()) });
}
