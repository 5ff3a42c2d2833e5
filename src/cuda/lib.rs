//! The CUDA backend: each rank on a GPU of its own, one thread a rank, all libraries opened at run time.
//!
//! [`Session`] runs a program inside another process, on that process's tensors and streams. [`CudaRuntime`] is the
//! backend that `hir-run` uses.
//!
//! [`CudaRuntime::load`] is the prepare phase. `hostir_gpu` turns each rank's plan into a list of commands and places
//! every buffer; the prepare phase compiles the kernels ([`nvrtc`]), loads all modules, asks cuBLASLt for GEMM
//! algorithms and times them (`runtime::autotune`), joins the communicators and lets NCCL make all connections
//! (`runtime::nccl`). Each of these steps ends on all ranks before the next begins, so a rank that fails leaves no
//! other rank waiting. After it a run (`runtime::rank`) only indexes and calls the driver. All functions that copy,
//! launch or free at an address stay inside the crate:
//!
//! ```compile_fail,E0603
//! use hostir_cuda::sys::driver::CudaStream;
//! ```
//!
//! Ranks are threads of one process or, with a [`ControlPlane`](hostir::backend::control_plane::ControlPlane),
//! processes (`runtime::process_group`).

mod backend;
#[cfg(test)]
mod header_values;
mod launch_check;
mod profile;
mod runtime;
pub mod session;
mod sys;

pub use crate::backend::CudaRuntime;
pub use crate::launch_check::{LaunchCheck, LaunchFault, ReferenceResult};
pub use crate::runtime::io_binding::bound_program::BoundProgram;
pub use crate::runtime::io_binding::{DeviceTensor, IoSide};
pub use crate::runtime::kernel_files::UserKernels;
pub use crate::runtime::library_access::finish_library_calls;
pub use crate::runtime::loaded_program::LoadedProgram;
pub use crate::runtime::options::{
    GemmTuning, ImageStore, NcclFile, Options, ParentCommunicator, hardware_queue_count,
};
pub use crate::runtime::resource_cache::ResourceCache;
pub use crate::runtime::watchdog::{RankLocation, RunWatchdog};
pub use crate::session::Session;
pub use crate::sys::context::CallerStream;
pub use crate::sys::{Error, nvrtc, nvtx};
pub use hostir_gpu::gemm_shape::GemmNumerics;
pub use hostir_gpu::transport::{BackendTransports, CommTransport};

/// Whether NVIDIA's driver can be opened.
pub fn has_driver() -> bool {
    sys::driver::is_present()
}

/// Whether NCCL can be opened by its usual names.
pub fn has_nccl() -> bool {
    runtime::nccl::init::is_nccl_present()
}

/// The number of GPUs that this process sees, which may be 0.
///
/// # Errors
/// [`Error::Missing`] without NVIDIA's driver, [`Error::Call`] if the driver finds that it cannot work.
pub fn device_count() -> Result<usize, Error> {
    let _access = runtime::library_access::LibraryAccess::acquire()?;
    sys::driver::device_count()
}

/// The devices of a program of so many ranks in this process, and the versions of libraries, as
/// [`LoadedProgram::platform_summary`] has them.
///
/// # Errors
/// Those of [`device_count`], or if there is no device.
pub fn platform_summary(ranks: usize) -> Result<String, Error> {
    let _access = runtime::library_access::LibraryAccess::acquire()?;
    let count = sys::driver::device_count()?.min(ranks);
    runtime::loaded_program::describe_platform(count, &sys::driver::device_name(0)?)
}
