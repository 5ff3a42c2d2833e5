//! The stand-in for the CUDA backend in a build without the feature `cuda`: it finds no device, and runs nothing.
#![allow(dead_code, reason = "the types have the fields of those that they stand for")]

use super::bench::measurement::{BenchEntry, Measurement};
use super::cli::{BenchOptions, Options};
use super::failure::RunFailure;
use super::program::SourceProgram;
use super::progress::{ProgressLine, RoundCounter};
use crate::data::compare::GivenTolerances;
use crate::launch::LaunchedProcess;
use hostir::backend::RunResult;
use hostir::backend::trace::Trace;
use hostir::data::HostTensor;
use hostir::diag::{Diag, codes};
use hostir::lower::PreparedProgram;
use hostir_gpu::user_kernel::KernelFiles;
use hostir_tool_support::io::ToolIo;
use hostir_tool_support::render::DiagFormat;
use hostir_tool_support::source::NamedText;

/// The backend, which refuses to run.
#[derive(Debug)]
pub(super) struct CudaBackend;

/// A program that is to run on GPUs.
pub(super) struct GpuRun<'a> {
    /// The program.
    pub(super) loaded: &'a SourceProgram,
    /// Its plans.
    pub(super) prepared: &'a PreparedProgram,
    /// Inputs by rank and position.
    pub(super) inputs: &'a [Vec<HostTensor>],
    /// The files of the kernels that it launches.
    pub(super) kernels: &'a KernelFiles,
    /// The profiler that gets the ranges of instructions.
    pub(super) profiler: Option<&'a Profiler>,
    /// A timeline is wanted.
    pub(super) traced: bool,
    /// Kernels of the user are checked, with these tolerances.
    pub(super) checked: Option<GivenTolerances>,
}

/// Programs to time.
pub(super) struct GpuTiming<'a> {
    /// The programs.
    pub(super) entries: &'a [BenchEntry],
    /// The number of runs.
    pub(super) bench: &'a BenchOptions,
    /// All options.
    pub(super) options: &'a Options,
    /// The profiler that gets the ranges of instructions.
    pub(super) profiler: Option<&'a Profiler>,
    /// This process among several.
    pub(super) here: Option<&'a LaunchedProcess>,
    /// The line on the terminal.
    pub(super) line: &'a ProgressLine,
    /// RoundCounter that have begun.
    pub(super) rounds: &'a RoundCounter,
}

/// Work that runs programs, in the order in which they are loaded.
pub(super) struct WatchedRun<'a> {
    /// The programs and their plans.
    pub(super) programs: Vec<(&'a NamedText, &'a PreparedProgram)>,
    /// The form of diagnostics.
    pub(super) format: DiagFormat,
    /// This process among several.
    pub(super) here: Option<&'a LaunchedProcess>,
}

/// A profiler that takes ranges, of which there is none.
#[derive(Debug)]
pub(super) enum Profiler {}

impl CudaBackend {
    /// The backend; [`count_devices`] fails before it could be asked to run.
    pub(super) fn new(_options: &Options, _here: Option<&LaunchedProcess>, _io: &ToolIo<'_>) -> Self {
        Self
    }

    /// Returns no warning.
    pub(super) fn take_warnings(&self) -> Vec<Diag> {
        Vec::new()
    }

    /// Refuses to run.
    ///
    /// # Errors
    /// Fails always.
    pub(super) fn run_program(
        &self,
        _run: &GpuRun<'_>,
        _announce: &mut dyn FnMut(&str),
    ) -> Result<(RunResult, Option<Trace>), Vec<Diag>> {
        Err(vec![missing_backend()])
    }

    /// Refuses to run.
    ///
    /// # Errors
    /// Fails always.
    pub(super) fn time_programs(
        &self,
        _timing: &GpuTiming<'_>,
        _text: &mut String,
        _io: &mut ToolIo<'_>,
    ) -> Result<Vec<Measurement>, RunFailure> {
        Err(missing_backend().into())
    }

    /// Does work that runs programs.
    pub(super) fn run_watched<T>(
        &self,
        _watched: WatchedRun<'_>,
        io: &mut ToolIo<'_>,
        work: impl FnOnce(&mut ToolIo<'_>) -> T,
    ) -> T {
        work(io)
    }
}

/// Returns false: it does not search a driver.
pub(super) fn has_driver() -> bool {
    false
}

/// Counts the devices.
///
/// # Errors
/// Fails always.
pub(super) fn count_devices() -> Result<usize, Diag> {
    Err(missing_backend())
}

/// Describes the devices.
///
/// # Errors
/// Fails always.
pub(super) fn platform_summary(_ranks: u32) -> Result<String, Diag> {
    Err(missing_backend())
}

/// Opens the profiler that started this process.
///
/// # Errors
/// Fails always.
pub(super) fn open_profiler(_io: &ToolIo<'_>) -> Result<Profiler, Diag> {
    Err(missing_backend())
}

/// Asks nothing: there is no driver to ask.
pub fn request_hardware_queues() {}

fn missing_backend() -> Diag {
    let message = "this hir-run was built without the CUDA backend (feature `cuda`)";
    Diag::global_error(codes::DEVICE, message)
        .with_note("use `--backend=cpu` to run the same program on the CPU, with any number of ranks")
}
