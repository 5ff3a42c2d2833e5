//! Which backend a run uses, and what it tells about itself.

use super::cli::{Backend, Options};
use super::errors;
use super::store::Kept;
use crate::io::Io;
use hostir::backend::cuda::{self, Cuda, driver};
use hostir::diag::{Diag, codes};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A backend that can run.
#[derive(Debug)]
pub(super) enum Engine {
    Cpu,
    Cuda(Cuda),
}

impl Engine {
    /// The backend that was asked for; `auto` is CUDA where there is a GPU.
    pub(super) fn choose(options: &Options, io: &Io<'_>) -> Result<Self, Diag> {
        match options.backend {
            Backend::Cpu => Ok(Engine::Cpu),
            Backend::Auto if !driver::is_present() => Ok(Engine::Cpu),
            Backend::Auto => match driver::devices() {
                Ok(0) => Ok(Engine::Cpu),
                Ok(_) => Ok(Engine::cuda(options, io)),
                Err(error) => Err(no_device(&error)),
            },
            Backend::Cuda => match driver::devices() {
                Ok(_) => Ok(Engine::cuda(options, io)),
                Err(error) => Err(no_device(&error)),
            },
        }
    }

    fn cuda(options: &Options, io: &Io<'_>) -> Self {
        let defaults = cuda::Options::default();
        let timeout = options.gpu.timeout_ms.map_or(defaults.timeout, Duration::from_millis);
        let store = Kept::open(io.env).map(|store| Arc::new(store) as Arc<dyn cuda::ImageStore>);
        let options = cuda::Options {
            tf32: options.gpu.tf32,
            ucc_is_nccl: options.gpu.ucc_is_nccl,
            graph: options.gpu.graph,
            timeout,
            nccl: (io.env)("HIR_NCCL_LIB").map(PathBuf::from),
            store,
        };
        Engine::Cuda(Cuda { options })
    }

    /// The warning about options that this backend has no use for.
    pub(super) fn unused(&self, options: &Options) -> Option<Diag> {
        let gpu = &options.gpu;
        let given = [
            (gpu.graph, "--graph"),
            (gpu.tf32, "--tf32"),
            (gpu.ucc_is_nccl, "--map-backend"),
            (gpu.timeout_ms.is_some(), "--timeout-ms"),
        ];
        let unused: Vec<&str> =
            given.into_iter().filter(|(given, _)| *given).map(|(_, flag)| flag).collect();
        if unused.is_empty() || matches!(self, Engine::Cuda(_)) {
            return None;
        }
        let verb = if unused.len() == 1 { "has" } else { "have" };
        let message = format!("{} {verb} no effect on the CPU backend", unused.join(", "));
        let note = "they are for runs on GPUs: --backend=cuda";
        Some(Diag::global(errors::UNUSED, message).note(note).warning())
    }

    /// `CPU`, `CUDA`.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Engine::Cpu => "CPU",
            Engine::Cuda(_) => "CUDA",
        }
    }
}

fn no_device(error: &cuda::Error) -> Diag {
    Diag::global(codes::DEVICE, error.to_string())
        .note("`--backend=cpu` runs the same program on the CPU, on as many ranks as it needs")
}
