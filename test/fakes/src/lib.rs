//! Libraries that stand for NVIDIA's: a driver with devices that compute on the CPU, an NVRTC that gives sources
//! back, a cuBLASLt and an NCCL. With them the CUDA backend runs where there is no GPU.
//!
//! All are one shared object. [`install`] puts it under the libraries' names into a folder, which a process that is
//! to find them has in `LD_LIBRARY_PATH` when it starts. In its environment, `HIR_FAKE_DEVICES=N` says how many devices
//! there are (8), `HIR_FAKE_SEED=N` which order operations run in where several can go on
//! (`world`), and `HIR_FAKE_NCCL=FOLDER` lets processes of a run, one a rank, meet in NCCL (`mail`).
//!
//! Kernels are not run. Their texts say in a comment what they compute, in instructions of a plan, which the CPU
//! backend carries out on the bytes at the addresses that they were launched with. So results are equal to those of
//! the CPU backend bit for bit; whether a text computes what its comment says is what other tests look at. An access
//! to memory that is not allocated, or that the device was not let reach, fails and is told on standard error.

mod abi;
mod blas;
mod caller;
mod capture;
mod compute;
mod driver;
mod mail;
mod memory;
mod module;
mod nccl;
mod note;
mod nvrtc;
mod shared;
mod task;
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
