//! Stand-ins for NVIDIA's libraries: a driver with devices that compute on the CPU, an NVRTC that returns the source as
//! its image, a cuBLASLt and an NCCL. With them the CUDA backend runs where there is no GPU.
//!
//! All are one shared object. [`install`] puts it under the libraries' names into a folder; a process finds them if the
//! folder is in its `LD_LIBRARY_PATH` when it starts. Environment variables: `HIR_FAKE_DEVICES=N` is the number of devices
//! (8), `HIR_FAKE_SEED=N` selects the order of operations that may run in several orders (`world`), and
//! `HIR_FAKE_NCCL=FOLDER` connects the processes of a run, one for each rank, in NCCL (`mail`), and `HIR_FAKE_FREE_MS=N`
//! makes calls that free something slow (`exit`).
//!
//! Generated kernels are not run. A comment in their source lists the plan's instructions that they compute, and the CPU backend
//! carries these out on the bytes at the addresses of the launch. So results equal those of the CPU backend bit for bit;
//! other tests check that a source computes what its comment says. An access to memory that is not allocated, or that the
//! device may not reach, fails and is reported on standard error.
//!
//! Kernels of users are run, compiled for the host (`user_kernel`).
//!
//! The unit tests export nothing, so that no more is compiled for them than they use.
#![cfg_attr(test, allow(dead_code, reason = "nothing is exported"))]

mod abi;
mod attention;
mod blas;
mod caller;
mod capture;
mod communicators;
mod compute;
mod driver;
mod elements;
mod exit;
mod mail;
mod member_call;
mod memory;
mod module;
mod nccl;
mod note;
mod nvrtc;
mod shared;
mod task;
mod tiled_gemm;
mod user_kernel;
mod world;

pub use caller::DeviceCaller;

use std::io;
use std::path::Path;

/// The names under which the libraries are opened.
const NAMES: [&str; 4] = ["libcuda.so.1", "libnvrtc.so.13", "libcublasLt.so.13", "libnccl.so.2"];

/// Puts the libraries into a folder.
///
/// # Errors
/// Fails if the shared object was not built beside the program that runs, or the folder cannot be written.
pub fn install(folder: &Path) -> io::Result<()> {
    let program = std::env::current_exe()?;
    let built = program.ancestors().skip(1).map(|folder| folder.join("libhostir_fakes.so"));
    let Some(library) = built.into_iter().find(|file| file.is_file()) else {
        let text = format!("no libhostir_fakes.so lies beside {}", program.display());
        return Err(io::Error::new(io::ErrorKind::NotFound, text));
    };
    NAMES.iter().try_for_each(|name| std::os::unix::fs::symlink(&library, folder.join(name)))
}
