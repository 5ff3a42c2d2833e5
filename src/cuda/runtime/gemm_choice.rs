//! A choice of an algorithm, as ranks tell it to each other.

use crate::runtime::options::GemmTuning;
use hostir_gpu::gemm_shape::GemmShape;

/// An algorithm for a GEMM, and how it was chosen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct GemmChoice {
    pub(crate) shape: GemmShape,
    /// Its number among the candidates.
    pub(crate) algorithm: usize,
    /// The effort that was made.
    pub(crate) effort: GemmTuning,
    /// The kind of device on which it was chosen.
    pub(crate) kind: String,
}
