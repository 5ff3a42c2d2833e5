//! The CUDA backend: each rank on a GPU of its own, one thread a rank, all libraries opened at run time.
//!
//! [`Cuda::load`] is the prepare phase. It turns each rank's plan into a list of calls (`schedule`),
//! decides where every buffer lies (`memory`), compiles the kernels ([`codegen`], [`nvrtc`]), loads all
//! modules, asks cuBLASLt for products (`gemm`) and times its proposals, joins the communicators
//! (`comm`) and lets NCCL make all connections (`rank::rehearse`). Each of these steps ends on all ranks
//! before the next begins, so a rank that fails leaves nobody waiting. After it a run (`rank`) only
//! indexes and calls the driver. What copies, launches or frees at an address stays inside:
//!
//! ```compile_fail,E0603
//! use hostir_cuda::sys::driver::Stream;
//! ```
//!
//! Ranks are threads of one process, or, with an [`Exchange`], processes (`joint`).

mod backend;
mod failure;
mod options;
mod profile;
mod runtime;
pub mod session;
mod sys;

pub use crate::backend::Cuda;
pub use crate::options::{ImageStore, NcclFile, Options};
pub use crate::runtime::io_binding::bound_program::Bound;
pub use crate::runtime::io_binding::{DeviceTensor, Side};
pub use crate::runtime::loaded_program::Loaded;
pub use crate::runtime::resource_cache::Pool;
pub use crate::runtime::watchdog::{Place, Watch};
pub use crate::session::Session;
pub use crate::sys::context::CallerStream;
pub use crate::sys::{Error, nvrtc, nvtx};
pub use hostir_gpu::transport::{Route, Routes};

/// Whether NVIDIA's driver can be opened.
pub fn has_driver() -> bool {
    sys::driver::is_present()
}

/// The number of GPUs that this process sees, which may be 0.
///
/// # Errors
/// [`Error::Missing`] without NVIDIA's driver, [`Error::Call`] if the driver finds that it cannot work.
pub fn devices() -> Result<usize, Error> {
    sys::driver::devices()
}
