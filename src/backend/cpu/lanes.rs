//! Element values while a kernel computes: doubles, floats or 64-bit integers.
//!
//! `float` and the narrower floats compute in floats, integers and `bool` in 64 bits; results are
//! rounded (or wrapped) once to their type.

use super::fault::Fault;
use super::storage::{Memory, values_of};
pub(super) use crate::backend::class::Class;
use crate::data::fp8;
use crate::ir::DType;
use crate::plan::{Plan, Scalar, View};

/// Values of one kind.
#[derive(Clone, Debug)]
pub(super) enum Lanes {
    /// `double`.
    F64(Vec<f64>),
    /// `float`, `half`, `bfloat16` and 8-bit floats.
    F32(Vec<f32>),
    /// Integers and `bool`.
    I64(Vec<i64>),
}

/// The class of a type; an error for types that the CPU backend lacks.
pub(super) fn class(dtype: DType) -> Result<Class, Fault> {
    crate::backend::class::class(dtype).ok_or(Fault::Type(dtype))
}

impl Lanes {
    /// The elements of a view.
    pub(super) fn load(memory: &Memory, plan: &Plan, view: &View) -> Result<Lanes, Fault> {
        Ok(match view.dtype {
            DType::Double => Lanes::F64(memory.read(plan, view)?),
            DType::Float => Lanes::F32(memory.read(plan, view)?),
            DType::Half => {
                let values: Vec<half::f16> = memory.read(plan, view)?;
                Lanes::F32(values.iter().map(|value| value.to_f32()).collect())
            }
            DType::BFloat16 => {
                let values: Vec<half::bf16> = memory.read(plan, view)?;
                Lanes::F32(values.iter().map(|value| value.to_f32()).collect())
            }
            DType::Int | DType::Index => Lanes::I64(memory.read(plan, view)?),
            DType::Int32 => {
                let values: Vec<i32> = memory.read(plan, view)?;
                Lanes::I64(values.iter().map(|&value| i64::from(value)).collect())
            }
            DType::Bool => {
                let values: Vec<u8> = memory.read(plan, view)?;
                Lanes::I64(values.iter().map(|&value| i64::from(value != 0)).collect())
            }
            dtype => {
                let decode = fp8::decoder(dtype).ok_or(Fault::Type(dtype))?;
                let codes: Vec<u8> = memory.read(plan, view)?;
                Lanes::F32(codes.into_iter().map(decode).collect())
            }
        })
    }

    /// Writes the values to a view, rounded to its type.
    pub(super) fn store(self, memory: &mut Memory, plan: &Plan, view: &View) -> Result<(), Fault> {
        match (view.dtype, self.into_class(class(view.dtype)?)) {
            (DType::Half, Lanes::F32(values)) => {
                let values: Vec<_> = values.into_iter().map(half::f16::from_f32).collect();
                memory.write(plan, view, &values)
            }
            (DType::BFloat16, Lanes::F32(values)) => {
                let values: Vec<_> = values.into_iter().map(half::bf16::from_f32).collect();
                memory.write(plan, view, &values)
            }
            (DType::Int32, Lanes::I64(values)) => {
                let values: Vec<i32> = values.into_iter().map(|value| value as i32).collect();
                memory.write(plan, view, &values)
            }
            (DType::Bool, Lanes::I64(values)) => {
                let values: Vec<u8> =
                    values.into_iter().map(|value| u8::from(value != 0)).collect();
                memory.write(plan, view, &values)
            }
            (_, Lanes::F64(values)) => memory.write(plan, view, &values),
            (dtype, Lanes::F32(values)) => match fp8::encoder(dtype) {
                None => memory.write(plan, view, &values),
                Some(encode) => {
                    let codes: Vec<u8> = values.into_iter().map(encode).collect();
                    memory.write(plan, view, &codes)
                }
            },
            (_, Lanes::I64(values)) => memory.write(plan, view, &values),
        }
    }

    /// The values as another class; reals truncate to integers.
    pub(super) fn into_class(self, class: Class) -> Lanes {
        match (class, self) {
            (Class::F64, Lanes::F32(v)) => Lanes::F64(v.into_iter().map(f64::from).collect()),
            (Class::F64, Lanes::I64(v)) => Lanes::F64(v.into_iter().map(|x| x as f64).collect()),
            (Class::F32, Lanes::F64(v)) => Lanes::F32(v.into_iter().map(|x| x as f32).collect()),
            (Class::F32, Lanes::I64(v)) => Lanes::F32(v.into_iter().map(|x| x as f32).collect()),
            (Class::I64, Lanes::F64(v)) => Lanes::I64(v.into_iter().map(|x| x as i64).collect()),
            (Class::I64, Lanes::F32(v)) => Lanes::I64(v.into_iter().map(|x| x as i64).collect()),
            (_, lanes) => lanes,
        }
    }

    /// The values converted to a type and back to the class it computes in.
    pub(super) fn rounded(self, dtype: DType) -> Result<Lanes, Fault> {
        if dtype == DType::Bool {
            return Ok(Lanes::I64(self.truths().into_iter().map(i64::from).collect()));
        }
        Ok(match (dtype, self.into_class(class(dtype)?)) {
            (DType::Half, Lanes::F32(v)) => {
                Lanes::F32(v.into_iter().map(|x| half::f16::from_f32(x).to_f32()).collect())
            }
            (DType::BFloat16, Lanes::F32(v)) => {
                Lanes::F32(v.into_iter().map(|x| half::bf16::from_f32(x).to_f32()).collect())
            }
            (DType::Int32, Lanes::I64(v)) => {
                Lanes::I64(v.into_iter().map(|x| i64::from(x as i32)).collect())
            }
            (dtype, Lanes::F32(v)) => match (fp8::encoder(dtype), fp8::decoder(dtype)) {
                (Some(encode), Some(decode)) => {
                    Lanes::F32(v.into_iter().map(|x| decode(encode(x))).collect())
                }
                _ => Lanes::F32(v),
            },
            (_, lanes) => lanes,
        })
    }

    /// Whether each value is not zero.
    pub(super) fn truths(&self) -> Vec<bool> {
        match self {
            Lanes::F64(v) => v.iter().map(|&x| x != 0.0).collect(),
            Lanes::F32(v) => v.iter().map(|&x| x != 0.0).collect(),
            Lanes::I64(v) => v.iter().map(|&x| x != 0).collect(),
        }
    }

    /// `len` times one value.
    pub(super) fn splat(value: Scalar, class: Class, len: usize) -> Lanes {
        match class {
            Class::F64 => Lanes::F64(vec![value.as_f64(); len]),
            Class::F32 => Lanes::F32(vec![value.as_f64() as f32; len]),
            Class::I64 => Lanes::I64(vec![value.as_i64(); len]),
        }
    }
}

impl Lanes {
    /// Values from the bytes of a type.
    pub(super) fn from_bytes(dtype: DType, bytes: &[u8]) -> Result<Lanes, Fault> {
        Ok(match dtype {
            DType::Double => Lanes::F64(values_of(bytes)),
            DType::Float => Lanes::F32(values_of(bytes)),
            DType::Half => {
                let values: Vec<half::f16> = values_of(bytes);
                Lanes::F32(values.iter().map(|value| value.to_f32()).collect())
            }
            DType::BFloat16 => {
                let values: Vec<half::bf16> = values_of(bytes);
                Lanes::F32(values.iter().map(|value| value.to_f32()).collect())
            }
            DType::Int | DType::Index => Lanes::I64(values_of(bytes)),
            DType::Int32 => {
                let values: Vec<i32> = values_of(bytes);
                Lanes::I64(values.iter().map(|&value| i64::from(value)).collect())
            }
            DType::Bool => Lanes::I64(bytes.iter().map(|&value| i64::from(value != 0)).collect()),
            dtype => {
                let decode = fp8::decoder(dtype).ok_or(Fault::Type(dtype))?;
                Lanes::F32(bytes.iter().map(|&code| decode(code)).collect())
            }
        })
    }

    /// The values as bytes of a type.
    pub(super) fn into_bytes(self, dtype: DType) -> Result<Vec<u8>, Fault> {
        Ok(match (dtype, self.into_class(class(dtype)?)) {
            (DType::Half, Lanes::F32(v)) => {
                let values: Vec<half::f16> = v.into_iter().map(half::f16::from_f32).collect();
                bytemuck::cast_slice(&values).to_vec()
            }
            (DType::BFloat16, Lanes::F32(v)) => {
                let values: Vec<half::bf16> = v.into_iter().map(half::bf16::from_f32).collect();
                bytemuck::cast_slice(&values).to_vec()
            }
            (DType::Int32, Lanes::I64(v)) => {
                let values: Vec<i32> = v.into_iter().map(|x| x as i32).collect();
                bytemuck::cast_slice(&values).to_vec()
            }
            (DType::Bool, Lanes::I64(v)) => v.into_iter().map(|x| u8::from(x != 0)).collect(),
            (_, Lanes::F64(v)) => bytemuck::cast_slice(&v).to_vec(),
            (dtype, Lanes::F32(v)) => match fp8::encoder(dtype) {
                None => bytemuck::cast_slice(&v).to_vec(),
                Some(encode) => v.into_iter().map(encode).collect(),
            },
            (_, Lanes::I64(v)) => bytemuck::cast_slice(&v).to_vec(),
        })
    }
}
