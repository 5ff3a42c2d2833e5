//! `hostir.Tensor`: a tensor in host memory, of any element type that programs have.

use crate::dlpack;
use hostir::data::HostTensor;
use hostir::ir::DType;
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict};
use std::sync::Arc;

/// Element types by the names that numpy, torch and ml_dtypes share.
const NAMES: &[(&str, DType)] = &[
    ("float64", DType::Double),
    ("float32", DType::Float),
    ("float16", DType::Half),
    ("bfloat16", DType::BFloat16),
    ("float8_e4m3fn", DType::Float8E4M3),
    ("float8_e5m2", DType::Float8E5M2),
    ("float8_e8m0fnu", DType::Float8E8M0),
    ("float4_e2m1fn", DType::Float4E2M1),
    ("float4_e2m1fn_x2", DType::Float4E2M1x2),
    ("int8", DType::Int8),
    ("int16", DType::Int16),
    ("int32", DType::Int32),
    ("int64", DType::Int),
    ("int64", DType::Index),
    ("uint8", DType::UInt8),
    ("uint16", DType::UInt16),
    ("uint32", DType::UInt32),
    ("uint64", DType::UInt64),
    ("bool", DType::Bool),
    ("complex64", DType::ComplexFloat),
    ("complex128", DType::ComplexDouble),
];

/// The element type of a name.
///
/// # Errors
/// `TypeError` if programs have no such type.
pub(crate) fn dtype_named(name: &str) -> PyResult<DType> {
    let found = NAMES.iter().find(|(known, _)| *known == name);
    found
        .map(|(_, dtype)| *dtype)
        .ok_or_else(|| PyTypeError::new_err(format!("no program has elements of type {name}")))
}

/// The name of an element type.
pub(crate) fn dtype_name(dtype: DType) -> &'static str {
    NAMES.iter().find(|(_, known)| *known == dtype).map_or("", |(name, _)| name)
}

/// The arguments of [`Tensor::from_bytes`].
type TensorParts<'py> = (&'static str, Vec<usize>, Bound<'py, PyBytes>);

/// A dense row-major tensor in host memory.
#[pyclass(frozen, module = "hostir")]
pub(crate) struct Tensor {
    data: Arc<HostTensor>,
}

impl Tensor {
    /// A tensor.
    pub(crate) fn new(data: HostTensor) -> Self {
        Self { data: Arc::new(data) }
    }
    /// The same memory.
    pub(crate) fn host_tensor(&self) -> Arc<HostTensor> {
        Arc::clone(&self.data)
    }
}

#[pymethods]
impl Tensor {
    /// A tensor of these bytes.
    #[staticmethod]
    fn from_bytes(dtype: &str, shape: Vec<usize>, data: &[u8]) -> PyResult<Self> {
        let dtype = dtype_named(dtype)?;
        let bytes = shape.iter().try_fold(dtype.byte_size(), |bytes, extent| bytes.checked_mul(*extent));
        if bytes != Some(data.len()) {
            return Err(PyValueError::new_err(format!("{} bytes do not fit the shape {shape:?}", data.len())));
        }
        Ok(Self::new(HostTensor::from_bytes(dtype, &shape, data).unwrap_or_else(|| HostTensor::zeros(dtype, &shape))))
    }

    /// A copy of another library's tensor in host memory.
    #[staticmethod]
    fn from_dlpack(py: Python<'_>, array: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (device, _): (i32, i32) = array.call_method0("__dlpack_device__")?.extract()?;
        if device != dlpack::HOST {
            return Err(PyBufferError::new_err("the array is not in host memory"));
        }
        let versioned = PyDict::new(py);
        versioned.set_item("max_version", (1, 0))?;
        let capsule = match array.call_method("__dlpack__", (), Some(&versioned)) {
            // Libraries from before DLPack 1 take no version.
            Err(error) if error.is_instance_of::<PyTypeError>(py) => array.call_method0("__dlpack__")?,
            capsule => capsule?,
        };
        let capsule =
            capsule.cast_into::<PyCapsule>().map_err(|_| PyTypeError::new_err("`__dlpack__` gave no capsule"))?;
        Ok(Self::new(dlpack::read_capsule(&capsule)?))
    }

    /// Extents, outermost first.
    #[getter]
    fn shape(&self) -> Vec<usize> {
        self.data.shape().to_vec()
    }

    /// The element type: `float32`, `bfloat16`.
    #[getter]
    fn dtype(&self) -> &'static str {
        dtype_name(self.data.dtype())
    }

    /// The elements, row by row, in the machine's byte order.
    fn tobytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.data.bytes())
    }

    /// For copies and pickles: bytes, with shape and type.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, TensorParts<'py>)> {
        let (py, tensor) = (slf.py(), slf.get());
        let bytes = PyBytes::new(py, tensor.data.bytes());
        Ok((slf.get_type().getattr("from_bytes")?, (tensor.dtype(), tensor.data.shape().to_vec(), bytes)))
    }

    fn __repr__(&self) -> String {
        format!("hostir.Tensor(shape={:?}, dtype={})", self.data.shape(), self.dtype())
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        (dlpack::HOST, 0)
    }

    /// The tensor as an array of numpy.
    #[pyo3(signature = (dtype = None, copy = None))]
    fn __array__<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<Py<PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // Every array is a copy, and only numpy asks for none.
        if copy == Some(false) {
            return Err(PyValueError::new_err("a tensor becomes an array as a copy"));
        }
        slf.py().import("hostir._arrays")?.getattr("as_array")?.call1((slf, dtype))
    }

    /// A capsule with a copy of the tensor.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__(
        &self,
        py: Python<'_>,
        stream: Option<Py<PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Py<PyAny>> {
        drop(stream);
        if dl_device.is_some_and(|(device, _)| device != dlpack::HOST) || copy == Some(false) {
            return Err(PyBufferError::new_err("a tensor is exported as a copy in host memory"));
        }
        let versioned = max_version.is_some_and(|(major, _)| major >= 1);
        dlpack::make_capsule(py, HostTensor::clone(&self.data), versioned, false)
    }

    /// The same elements as unsigned integers of their size, for libraries that lack the element type.
    fn bits(&self) -> TensorBits {
        TensorBits { data: self.host_tensor() }
    }
}

/// The elements of a tensor as unsigned integers.
#[pyclass(frozen, module = "hostir._native")]
pub(crate) struct TensorBits {
    data: Arc<HostTensor>,
}

#[pymethods]
impl TensorBits {
    fn __dlpack_device__(&self) -> (i32, i32) {
        (dlpack::HOST, 0)
    }

    #[pyo3(signature = (**options))]
    fn __dlpack__(&self, py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Py<PyAny>> {
        let version = options.and_then(|options| options.get_item("max_version").ok().flatten());
        let versioned =
            version.is_some_and(|version| version.extract::<(u32, u32)>().is_ok_and(|(major, _)| major >= 1));
        dlpack::make_capsule(py, HostTensor::clone(&self.data), versioned, true)
    }
}
