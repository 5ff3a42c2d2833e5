//! CUDA C++ for the instructions of a plan that no library does: pointwise kernels, copies, fills,
//! reductions, and matrix products that cuBLASLt does not take.
//!
//! Extents, strides and constants stand in the text, offsets do not: kernels that differ only in
//! where their views start share one text. A text is compiled once ([`super::nvrtc`]).

use crate::plan::View;

/// What a kernel's parameter points to. All parameters are pointers.
#[derive(Clone, PartialEq, Debug)]
pub enum Param {
    /// The first element of a view.
    View(View),
    /// A place in the job's scratch memory, in bytes from its start (a multiple of 256).
    Scratch(usize),
}

/// One kernel launch: `extern "C" __global__ void hir(...)` over [`Launch::params`] in order.
#[derive(Clone, PartialEq, Debug)]
pub struct Launch {
    /// CUDA C++.
    pub text: String,
    /// What the parameters point to.
    pub params: Vec<Param>,
    /// Blocks along x, y and z.
    pub grid: [u32; 3],
    /// Threads a block along x, y and z.
    pub block: [u32; 3],
}

/// The launches of one instruction, in order on one stream.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Job {
    /// The launches.
    pub launches: Vec<Launch>,
    /// Bytes of scratch memory they need while they run.
    pub scratch: usize,
}
