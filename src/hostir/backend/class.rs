//! Compute types: the type in which each backend computes. Results are rounded to their element type once.

use crate::ir::DType;

/// A compute type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ComputeClass {
    /// Doubles.
    F64,
    /// Floats.
    F32,
    /// 64-bit integers, also of narrower ones and of `bool`.
    I64,
    /// 64-bit integers without a sign.
    U64,
}

impl ComputeClass {
    /// Returns true for the classes of integers.
    pub fn is_integer(self) -> bool {
        matches!(self, ComputeClass::I64 | ComputeClass::U64)
    }
}

/// The compute type of an element type; `None` for types that backends do not compute with.
pub fn compute_class(dtype: DType) -> Option<ComputeClass> {
    match dtype {
        DType::Double => Some(ComputeClass::F64),
        DType::Float | DType::Half | DType::BFloat16 => Some(ComputeClass::F32),
        DType::Float8E4M3 | DType::Float8E5M2 | DType::Float8E8M0 | DType::Float4E2M1 => Some(ComputeClass::F32),
        DType::Int | DType::Index | DType::Int32 | DType::Int16 | DType::Int8 | DType::Bool => Some(ComputeClass::I64),
        DType::UInt32 | DType::UInt16 | DType::UInt8 => Some(ComputeClass::I64),
        DType::UInt64 => Some(ComputeClass::U64),
        DType::Float4E2M1x2 | DType::ComplexFloat | DType::ComplexDouble | DType::Kernel(_) => None,
    }
}
