//! The CUDA backend: each rank on a GPU of its own, all libraries opened at run time.

pub mod codegen;
mod sys;

pub use sys::nvrtc;
