//! Element types and reductions of NCCL, named without its library.

/// The reduction of an NCCL collective.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NcclReduction {
    /// The sum.
    Sum,
    /// The product.
    Prod,
    /// The largest element.
    Max,
    /// The smallest element.
    Min,
    /// The mean.
    Avg,
}

/// The element type of an NCCL call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NcclType {
    /// Unsigned 8-bit integers.
    Uint8,
    /// Signed 32-bit integers.
    Int32,
    /// Signed 64-bit integers.
    Int64,
    /// Half precision.
    Float16,
    /// 32-bit floats.
    Float32,
    /// 64-bit floats.
    Float64,
    /// bfloat16.
    Bfloat16,
}
