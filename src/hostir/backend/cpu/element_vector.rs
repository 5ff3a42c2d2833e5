//! Element values during a computation: doubles, floats or 64-bit integers.
//!
//! `float` and the narrower floats compute in floats, integers and `bool` in 64 bits; results are
//! rounded (or wrapped) once to their type.

use super::storage::{RankMemory, values_of};
pub(super) use crate::backend::class::ComputeClass;
use crate::backend::fault::ExecutionFault;
use crate::data::fp8;
use crate::ir::DType;
use crate::plan::{BufferView, Plan, ScalarValue};

/// Values of one kind.
#[derive(Clone, Debug)]
pub(super) enum ElementVector {
    /// `double`.
    F64(Vec<f64>),
    /// `float`, `half`, `bfloat16` and 8-bit floats.
    F32(Vec<f32>),
    /// Integers and `bool`.
    I64(Vec<i64>),
}

/// The class of a type; an error for types that the CPU backend lacks.
pub(super) fn require_compute_class(dtype: DType) -> Result<ComputeClass, ExecutionFault> {
    crate::backend::class::compute_class(dtype).ok_or(ExecutionFault::Type(dtype))
}

impl ElementVector {
    /// The elements of a view.
    pub(super) fn load_view(memory: &RankMemory, view: &BufferView) -> Result<ElementVector, ExecutionFault> {
        Ok(match view.dtype {
            DType::Double => ElementVector::F64(memory.read_view(view)?),
            DType::Float => ElementVector::F32(memory.read_view(view)?),
            DType::Half => {
                let values: Vec<half::f16> = memory.read_view(view)?;
                ElementVector::F32(values.iter().map(|value| value.to_f32()).collect())
            }
            DType::BFloat16 => {
                let values: Vec<half::bf16> = memory.read_view(view)?;
                ElementVector::F32(values.iter().map(|value| value.to_f32()).collect())
            }
            DType::Int | DType::Index => ElementVector::I64(memory.read_view(view)?),
            DType::Int32 => {
                let values: Vec<i32> = memory.read_view(view)?;
                ElementVector::I64(values.iter().map(|&value| i64::from(value)).collect())
            }
            DType::Bool => {
                let values: Vec<u8> = memory.read_view(view)?;
                ElementVector::I64(values.iter().map(|&value| i64::from(value != 0)).collect())
            }
            dtype => {
                let decode = fp8::decoder_for(dtype).ok_or(ExecutionFault::Type(dtype))?;
                let codes: Vec<u8> = memory.read_view(view)?;
                ElementVector::F32(codes.into_iter().map(decode).collect())
            }
        })
    }

    /// Writes the values to a view, rounded to its type.
    pub(super) fn store_view(
        self,
        memory: &mut RankMemory,
        plan: &Plan,
        view: &BufferView,
    ) -> Result<(), ExecutionFault> {
        match (view.dtype, self.into_class(require_compute_class(view.dtype)?)) {
            (DType::Half, ElementVector::F32(values)) => {
                let values: Vec<_> = values.into_iter().map(half::f16::from_f32).collect();
                memory.write_view(plan, view, &values)
            }
            (DType::BFloat16, ElementVector::F32(values)) => {
                let values: Vec<_> = values.into_iter().map(half::bf16::from_f32).collect();
                memory.write_view(plan, view, &values)
            }
            (DType::Int32, ElementVector::I64(values)) => {
                let values: Vec<i32> = values.into_iter().map(|value| value as i32).collect();
                memory.write_view(plan, view, &values)
            }
            (DType::Bool, ElementVector::I64(values)) => {
                let values: Vec<u8> = values.into_iter().map(|value| u8::from(value != 0)).collect();
                memory.write_view(plan, view, &values)
            }
            (_, ElementVector::F64(values)) => memory.write_view(plan, view, &values),
            (dtype, ElementVector::F32(values)) => match fp8::encoder_for(dtype) {
                None => memory.write_view(plan, view, &values),
                Some(encode) => {
                    let codes: Vec<u8> = values.into_iter().map(encode).collect();
                    memory.write_view(plan, view, &codes)
                }
            },
            (_, ElementVector::I64(values)) => memory.write_view(plan, view, &values),
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

    /// Converts the values to another class; reals truncate to integers.
    pub(super) fn into_class(self, class: ComputeClass) -> ElementVector {
        match (class, self) {
            (ComputeClass::F64, ElementVector::F32(v)) => ElementVector::F64(v.into_iter().map(f64::from).collect()),
            (ComputeClass::F64, ElementVector::I64(v)) => ElementVector::F64(v.into_iter().map(|x| x as f64).collect()),
            (ComputeClass::F32, ElementVector::F64(v)) => ElementVector::F32(v.into_iter().map(|x| x as f32).collect()),
            (ComputeClass::F32, ElementVector::I64(v)) => ElementVector::F32(v.into_iter().map(|x| x as f32).collect()),
            (ComputeClass::I64, ElementVector::F64(v)) => ElementVector::I64(v.into_iter().map(|x| x as i64).collect()),
            (ComputeClass::I64, ElementVector::F32(v)) => ElementVector::I64(v.into_iter().map(|x| x as i64).collect()),
            (_, element_vector) => element_vector,
        }
    }

    /// Converts the values to a type and back to the class that it computes in.
    pub(super) fn rounded_to(self, dtype: DType) -> Result<ElementVector, ExecutionFault> {
        if dtype == DType::Bool {
            return Ok(ElementVector::I64(self.nonzero_mask().into_iter().map(i64::from).collect()));
        }
        Ok(match (dtype, self.into_class(require_compute_class(dtype)?)) {
            (DType::Half, ElementVector::F32(v)) => {
                ElementVector::F32(v.into_iter().map(|x| half::f16::from_f32(x).to_f32()).collect())
            }
            (DType::BFloat16, ElementVector::F32(v)) => {
                ElementVector::F32(v.into_iter().map(|x| half::bf16::from_f32(x).to_f32()).collect())
            }
            (DType::Int32, ElementVector::I64(v)) => {
                ElementVector::I64(v.into_iter().map(|x| i64::from(x as i32)).collect())
            }
            (dtype, ElementVector::F32(v)) => match (fp8::encoder_for(dtype), fp8::decoder_for(dtype)) {
                (Some(encode), Some(decode)) => ElementVector::F32(v.into_iter().map(|x| decode(encode(x))).collect()),
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
        }
    }

    /// `len` times one value.
    pub(super) fn splat(value: ScalarValue, class: ComputeClass, len: usize) -> ElementVector {
        match class {
            ComputeClass::F64 => ElementVector::F64(vec![value.as_f64(); len]),
            ComputeClass::F32 => ElementVector::F32(vec![value.as_f64() as f32; len]),
            ComputeClass::I64 => ElementVector::I64(vec![value.as_i64(); len]),
        }
    }
}

impl ElementVector {
    /// Values from the bytes of a type.
    pub(super) fn from_bytes(dtype: DType, bytes: &[u8]) -> Result<ElementVector, ExecutionFault> {
        Ok(match dtype {
            DType::Double => ElementVector::F64(values_of(bytes)),
            DType::Float => ElementVector::F32(values_of(bytes)),
            DType::Half => {
                let values: Vec<half::f16> = values_of(bytes);
                ElementVector::F32(values.iter().map(|value| value.to_f32()).collect())
            }
            DType::BFloat16 => {
                let values: Vec<half::bf16> = values_of(bytes);
                ElementVector::F32(values.iter().map(|value| value.to_f32()).collect())
            }
            DType::Int | DType::Index => ElementVector::I64(values_of(bytes)),
            DType::Int32 => {
                let values: Vec<i32> = values_of(bytes);
                ElementVector::I64(values.iter().map(|&value| i64::from(value)).collect())
            }
            DType::Bool => ElementVector::I64(bytes.iter().map(|&value| i64::from(value != 0)).collect()),
            dtype => {
                let decode = fp8::decoder_for(dtype).ok_or(ExecutionFault::Type(dtype))?;
                ElementVector::F32(bytes.iter().map(|&code| decode(code)).collect())
            }
        })
    }

    /// The values as bytes of a type.
    pub(super) fn into_bytes(self, dtype: DType) -> Result<Vec<u8>, ExecutionFault> {
        Ok(match (dtype, self.into_class(require_compute_class(dtype)?)) {
            (DType::Half, ElementVector::F32(v)) => {
                let values: Vec<half::f16> = v.into_iter().map(half::f16::from_f32).collect();
                bytemuck::cast_slice(&values).to_vec()
            }
            (DType::BFloat16, ElementVector::F32(v)) => {
                let values: Vec<half::bf16> = v.into_iter().map(half::bf16::from_f32).collect();
                bytemuck::cast_slice(&values).to_vec()
            }
            (DType::Int32, ElementVector::I64(v)) => {
                let values: Vec<i32> = v.into_iter().map(|x| x as i32).collect();
                bytemuck::cast_slice(&values).to_vec()
            }
            (DType::Bool, ElementVector::I64(v)) => v.into_iter().map(|x| u8::from(x != 0)).collect(),
            (_, ElementVector::F64(v)) => bytemuck::cast_slice(&v).to_vec(),
            (dtype, ElementVector::F32(v)) => match fp8::encoder_for(dtype) {
                None => bytemuck::cast_slice(&v).to_vec(),
                Some(encode) => v.into_iter().map(encode).collect(),
            },
            (_, ElementVector::I64(v)) => bytemuck::cast_slice(&v).to_vec(),
        })
    }
}
