//! Element values during a computation: doubles, floats, 64-bit integers or complex numbers.
//!
//! `float` and the narrower floats compute in floats, integers and `bool` in 64 bits, complex numbers in doubles; results
//! are rounded (or wrapped) once to their type.

use super::storage::{RankMemory, values_of};
use crate::backend::class::{ComputeClass, compute_class};
use crate::backend::fault::ExecutionFault;
use crate::data::fp8;
use crate::ir::DType;
use crate::ir::functions::complex::Complex64;
use crate::ir::functions::unsigned_of_real;
use crate::plan::{BufferView, Plan, ScalarValue};
use bytemuck::Pod;

/// Values of one kind.
#[derive(Clone, Debug)]
pub(super) enum ElementVector {
    /// `double`.
    F64(Vec<f64>),
    /// `float`, `half`, `bfloat16` and 8-bit floats.
    F32(Vec<f32>),
    /// Integers and `bool`.
    I64(Vec<i64>),
    /// `uint64_t`.
    U64(Vec<u64>),
    /// Complex numbers of both widths.
    Complex(Vec<Complex64>),
}

/// The kind of a vector: a compute type that all backends have, or complex numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum VectorClass {
    /// Doubles.
    F64,
    /// Floats.
    F32,
    /// 64-bit integers.
    I64,
    /// 64-bit integers without a sign.
    U64,
    /// Complex numbers of doubles.
    Complex,
}

impl VectorClass {
    /// Returns true for the classes of integers.
    pub(super) fn is_integer(self) -> bool {
        matches!(self, VectorClass::I64 | VectorClass::U64)
    }
}

/// The class of a type; an error for types with which nothing computes.
pub(super) fn require_vector_class(dtype: DType) -> Result<VectorClass, ExecutionFault> {
    match compute_class(dtype) {
        Some(ComputeClass::F64) => Ok(VectorClass::F64),
        Some(ComputeClass::F32) => Ok(VectorClass::F32),
        Some(ComputeClass::I64) => Ok(VectorClass::I64),
        Some(ComputeClass::U64) => Ok(VectorClass::U64),
        None if dtype.is_complex() => Ok(VectorClass::Complex),
        None => Err(ExecutionFault::Type(dtype)),
    }
}

/// Memory from which the elements of a vector are read, as values of the element's size.
trait ElementSource {
    /// All elements.
    fn read_elements<T: Pod>(&self) -> Result<Vec<T>, ExecutionFault>;
}

/// A view of a rank's memory.
struct MemoryView<'m> {
    memory: &'m RankMemory,
    view: &'m BufferView,
}

impl ElementSource for MemoryView<'_> {
    fn read_elements<T: Pod>(&self) -> Result<Vec<T>, ExecutionFault> {
        self.memory.read_view(self.view)
    }
}

impl ElementSource for &[u8] {
    fn read_elements<T: Pod>(&self) -> Result<Vec<T>, ExecutionFault> {
        Ok(values_of(self))
    }
}

/// The place to which the elements of a vector are written, as values of the element's size.
trait ElementSink {
    /// The rest of the place.
    type Written;
    /// Writes all elements.
    fn write_elements<T: Pod>(self, values: &[T]) -> Result<Self::Written, ExecutionFault>;
}

/// A view of a rank's memory that is written.
struct WrittenView<'m> {
    memory: &'m mut RankMemory,
    plan: &'m Plan,
    view: &'m BufferView,
}

impl ElementSink for WrittenView<'_> {
    type Written = ();
    fn write_elements<T: Pod>(self, values: &[T]) -> Result<(), ExecutionFault> {
        self.memory.write_view(self.plan, self.view, values)
    }
}

/// New bytes.
struct NewBytes;

impl ElementSink for NewBytes {
    type Written = Vec<u8>;
    fn write_elements<T: Pod>(self, values: &[T]) -> Result<Vec<u8>, ExecutionFault> {
        Ok(bytemuck::cast_slice(values).to_vec())
    }
}

/// Integers of a narrow type as those that are computed with.
fn widened<T: Pod + Into<i64>>(source: &impl ElementSource) -> Result<ElementVector, ExecutionFault> {
    let values = source.read_elements::<T>()?;
    Ok(ElementVector::I64(values.into_iter().map(Into::into).collect()))
}

/// A complex number of floats as one of doubles.
fn widened_complex(parts: [f32; 2]) -> Complex64 {
    let [re, im] = parts.map(f64::from);
    Complex64::new(re, im)
}

/// A complex number of doubles, rounded to floats.
fn narrowed_complex(z: Complex64) -> [f32; 2] {
    [z.re, z.im].map(|part| part as f32)
}

/// Each value of a vector as another one.
fn converted<A, B>(values: Vec<A>, convert: impl Fn(A) -> B) -> Vec<B> {
    values.into_iter().map(convert).collect()
}

impl ElementVector {
    /// The elements of a view.
    pub(super) fn load_view(memory: &RankMemory, view: &BufferView) -> Result<ElementVector, ExecutionFault> {
        Self::decode_elements(view.dtype, &MemoryView { memory, view })
    }

    /// Writes the values to a view, rounded to its type.
    pub(super) fn store_view(
        self,
        memory: &mut RankMemory,
        plan: &Plan,
        view: &BufferView,
    ) -> Result<(), ExecutionFault> {
        self.encode_elements(view.dtype, WrittenView { memory, plan, view })
    }

    /// Values from the bytes of a type.
    pub(super) fn from_bytes(dtype: DType, bytes: &[u8]) -> Result<ElementVector, ExecutionFault> {
        Self::decode_elements(dtype, &bytes)
    }

    /// The values as bytes of a type.
    pub(super) fn into_bytes(self, dtype: DType) -> Result<Vec<u8>, ExecutionFault> {
        self.encode_elements(dtype, NewBytes)
    }

    fn decode_elements(dtype: DType, source: &impl ElementSource) -> Result<ElementVector, ExecutionFault> {
        Ok(match dtype {
            DType::Double => ElementVector::F64(source.read_elements()?),
            DType::Float => ElementVector::F32(source.read_elements()?),
            DType::Half => ElementVector::F32(converted(source.read_elements()?, half::f16::to_f32)),
            DType::BFloat16 => ElementVector::F32(converted(source.read_elements()?, half::bf16::to_f32)),
            DType::Int | DType::Index => ElementVector::I64(source.read_elements()?),
            DType::Int32 => widened::<i32>(source)?,
            DType::Int16 => widened::<i16>(source)?,
            DType::Int8 => widened::<i8>(source)?,
            DType::UInt64 => ElementVector::U64(source.read_elements()?),
            DType::UInt32 => widened::<u32>(source)?,
            DType::UInt16 => widened::<u16>(source)?,
            DType::UInt8 => widened::<u8>(source)?,
            DType::Bool => ElementVector::I64(converted(source.read_elements()?, |byte: u8| i64::from(byte != 0))),
            DType::ComplexDouble => {
                ElementVector::Complex(converted(source.read_elements()?, |[re, im]: [f64; 2]| Complex64::new(re, im)))
            }
            DType::ComplexFloat => ElementVector::Complex(converted(source.read_elements()?, widened_complex)),
            dtype => {
                let decode = fp8::decoder_for(dtype).ok_or(ExecutionFault::Type(dtype))?;
                ElementVector::F32(converted(source.read_elements()?, decode))
            }
        })
    }

    fn encode_elements<S: ElementSink>(self, dtype: DType, sink: S) -> Result<S::Written, ExecutionFault> {
        match (dtype, self.into_class(require_vector_class(dtype)?)) {
            (DType::Half, ElementVector::F32(v)) => sink.write_elements(&converted(v, half::f16::from_f32)),
            (DType::BFloat16, ElementVector::F32(v)) => sink.write_elements(&converted(v, half::bf16::from_f32)),
            (DType::Bool, ElementVector::I64(v)) => sink.write_elements(&converted(v, |x| u8::from(x != 0))),
            (dtype, ElementVector::I64(v)) => match dtype.byte_size() {
                1 => sink.write_elements(&converted(v, |x| x as u8)),
                2 => sink.write_elements(&converted(v, |x| x as u16)),
                4 => sink.write_elements(&converted(v, |x| x as u32)),
                _ => sink.write_elements(&v),
            },
            (_, ElementVector::U64(v)) => sink.write_elements(&v),
            (DType::ComplexFloat, ElementVector::Complex(v)) => sink.write_elements(&converted(v, narrowed_complex)),
            (_, ElementVector::Complex(v)) => sink.write_elements(&converted(v, |z| [z.re, z.im])),
            (_, ElementVector::F64(v)) => sink.write_elements(&v),
            (dtype, ElementVector::F32(v)) => match fp8::encoder_for(dtype) {
                None => sink.write_elements(&v),
                Some(encode) => sink.write_elements(&converted(v, encode)),
            },
        }
    }

    /// The values of the class of doubles.
    pub(super) fn as_doubles(&self) -> Option<&[f64]> {
        if let ElementVector::F64(values) = self { Some(values) } else { None }
    }

    /// The values of the class of floats.
    pub(super) fn as_floats(&self) -> Option<&[f32]> {
        if let ElementVector::F32(values) = self { Some(values) } else { None }
    }

    /// The values of the class of integers.
    pub(super) fn as_integers(&self) -> Option<&[i64]> {
        if let ElementVector::I64(values) = self { Some(values) } else { None }
    }

    /// The values of the class of integers without a sign.
    pub(super) fn as_unsigned(&self) -> Option<&[u64]> {
        if let ElementVector::U64(values) = self { Some(values) } else { None }
    }

    /// The complex numbers.
    pub(super) fn as_complex(&self) -> Option<&[Complex64]> {
        if let ElementVector::Complex(values) = self { Some(values) } else { None }
    }

    /// Converts the values to another class; reals truncate to integers, and integers wrap. The real part is left of a
    /// complex number.
    pub(super) fn into_class(self, class: VectorClass) -> ElementVector {
        match (class, self) {
            (VectorClass::Complex, ElementVector::Complex(v)) => ElementVector::Complex(v),
            (VectorClass::Complex, reals) => match reals.into_class(VectorClass::F64) {
                ElementVector::F64(v) => ElementVector::Complex(converted(v, |x| Complex64::new(x, 0.0))),
                other => other,
            },
            (class, ElementVector::Complex(v)) => ElementVector::F64(converted(v, |z| z.re)).into_class(class),
            (VectorClass::F64, ElementVector::F32(v)) => ElementVector::F64(converted(v, f64::from)),
            (VectorClass::F64, ElementVector::I64(v)) => ElementVector::F64(converted(v, |x| x as f64)),
            (VectorClass::F64, ElementVector::U64(v)) => ElementVector::F64(converted(v, |x| x as f64)),
            (VectorClass::F32, ElementVector::F64(v)) => ElementVector::F32(converted(v, |x| x as f32)),
            (VectorClass::F32, ElementVector::I64(v)) => ElementVector::F32(converted(v, |x| x as f32)),
            (VectorClass::F32, ElementVector::U64(v)) => ElementVector::F32(converted(v, |x| x as f32)),
            (VectorClass::I64, ElementVector::F64(v)) => ElementVector::I64(converted(v, |x| x as i64)),
            (VectorClass::I64, ElementVector::F32(v)) => ElementVector::I64(converted(v, |x| x as i64)),
            (VectorClass::I64, ElementVector::U64(v)) => ElementVector::I64(converted(v, u64::cast_signed)),
            (VectorClass::U64, ElementVector::F64(v)) => ElementVector::U64(converted(v, unsigned_of_real)),
            (VectorClass::U64, ElementVector::F32(v)) => {
                ElementVector::U64(converted(v, |x| unsigned_of_real(f64::from(x))))
            }
            (VectorClass::U64, ElementVector::I64(v)) => ElementVector::U64(converted(v, i64::cast_unsigned)),
            (_, element_vector) => element_vector,
        }
    }

    /// Converts the values to a type and back to the class that it computes in.
    pub(super) fn rounded_to(self, dtype: DType) -> Result<ElementVector, ExecutionFault> {
        if dtype == DType::Bool {
            let reals = if self.as_complex().is_some() { self.into_class(VectorClass::F64) } else { self };
            return Ok(ElementVector::I64(converted(reals.nonzero_mask(), i64::from)));
        }
        Ok(match (dtype, self.into_class(require_vector_class(dtype)?)) {
            (DType::Half, ElementVector::F32(v)) => {
                ElementVector::F32(converted(v, |x| half::f16::from_f32(x).to_f32()))
            }
            (DType::BFloat16, ElementVector::F32(v)) => {
                ElementVector::F32(converted(v, |x| half::bf16::from_f32(x).to_f32()))
            }
            (dtype, ElementVector::I64(v)) if dtype.byte_size() < size_of::<i64>() => {
                ElementVector::I64(converted(v, |x| dtype.wrapped_integer(x)))
            }
            (DType::ComplexFloat, ElementVector::Complex(v)) => {
                ElementVector::Complex(converted(v, |z| widened_complex(narrowed_complex(z))))
            }
            (dtype, ElementVector::F32(v)) => match (fp8::encoder_for(dtype), fp8::decoder_for(dtype)) {
                (Some(encode), Some(decode)) => ElementVector::F32(converted(v, |x| decode(encode(x)))),
                _ => ElementVector::F32(v),
            },
            (_, element_vector) => element_vector,
        })
    }

    /// Compares each value with zero: true if it is not zero.
    pub(super) fn nonzero_mask(&self) -> Vec<bool> {
        match self {
            ElementVector::F64(v) => v.iter().map(|&x| x != 0.0).collect(),
            ElementVector::F32(v) => v.iter().map(|&x| x != 0.0).collect(),
            ElementVector::I64(v) => v.iter().map(|&x| x != 0).collect(),
            ElementVector::U64(v) => v.iter().map(|&x| x != 0).collect(),
            ElementVector::Complex(v) => v.iter().map(|z| z.re != 0.0 || z.im != 0.0).collect(),
        }
    }

    /// `len` times one value.
    pub(super) fn splat(value: ScalarValue, class: VectorClass, len: usize) -> ElementVector {
        match class {
            VectorClass::F64 => ElementVector::F64(vec![value.as_f64(); len]),
            VectorClass::F32 => ElementVector::F32(vec![value.as_f64() as f32; len]),
            VectorClass::I64 => ElementVector::I64(vec![value.as_i64(); len]),
            VectorClass::U64 => ElementVector::U64(vec![value.as_u64(); len]),
            VectorClass::Complex => ElementVector::Complex(vec![value.as_complex(); len]),
        }
    }
}
