//! Compute types: the type in which each backend computes. Results are rounded to their element type once.

use crate::ir::DType;

/// A compute type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ComputeClass {
    /// Doubles.
    F64,
    /// Floats.
    F32,
    /// 64-bit integers, also of `bool`.
    I64,
}

/// The compute type of an element type; `None` for types that backends do not compute with.
pub fn compute_class(dtype: DType) -> Option<ComputeClass> {
    match dtype {
        DType::Double => Some(ComputeClass::F64),
        DType::Float | DType::Half | DType::BFloat16 => Some(ComputeClass::F32),
        DType::Float8E4M3 | DType::Float8E5M2 | DType::Float8E8M0 => Some(ComputeClass::F32),
        DType::Int | DType::Index | DType::Int32 | DType::Bool => Some(ComputeClass::I64),
        DType::Float4E2M1
        | DType::Float4E2M1x2
        | DType::Int8
        | DType::Int16
        | DType::UInt8
        | DType::UInt16
        | DType::UInt32
        | DType::UInt64
        | DType::ComplexFloat
        | DType::ComplexDouble => None,
    }
}
