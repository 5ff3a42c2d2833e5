//! Exchanges between the processes of a run outside of the program: options, outputs, timelines.

use super::cli::{GpuOptions, KeyedValues, Options};
use super::data_files::DataFile;
use super::failure::RunFailure;
use super::program::SourceProgram;
use crate::launch::LaunchedProcess;
use hostir::backend::RunResult;
use hostir::backend::trace::Trace;
use hostir::diag::Diag;
use hostir::lower::PreparedProgram;
use hostir_gpu::user_kernel::{KernelFile, KernelFiles};

/// Compares the inputs of the processes of a run, and announces the size of their outputs.
///
/// # Errors
/// If a process has another program, other options, or other kernels in its files.
pub(super) fn compare_processes(
    here: Option<&LaunchedProcess>,
    programs: &[&SourceProgram],
    prepared: &[&PreparedProgram],
    kernels: &[&KernelFiles],
    options: &Options,
) -> Result<(), RunFailure> {
    let Some(here) = here else { return Ok(()) };
    prepared.iter().for_each(|prepared| here.announce_output_sizes(prepared));
    let texts: Vec<u8> = programs.iter().flat_map(|program| program.source.bytes.clone()).collect();
    let (shared, version) = (options.shared_options(), env!("CARGO_PKG_VERSION"));
    let files: Vec<u8> = kernels.iter().flat_map(|files| kernel_bytes(files)).collect();
    let mut parts: Vec<(&str, &[u8])> =
        vec![("version of hir-run", version.as_bytes()), ("program", &texts), ("file of a kernel", &files)];
    parts.extend(shared.iter().map(|(name, value)| (*name, value.as_bytes())));
    Ok(here.check_same_inputs(&parts)?)
}

/// All contents of files with kernels, each after its length.
pub(super) fn kernel_bytes(files: &KernelFiles) -> Vec<u8> {
    let parts = files.values().flat_map(KernelFile::contents);
    parts.flat_map(|part| [&(part.len() as u64).to_le_bytes()[..], part].concat()).collect()
}

/// All ranks' outputs; `None` on processes that have sent theirs.
///
/// # Errors
/// Another process's failure.
pub(super) fn gather_outputs(
    here: Option<&LaunchedProcess>,
    prepared: &PreparedProgram,
    run: RunResult,
) -> Result<Option<RunResult>, Vec<Diag>> {
    let Some(here) = here else { return Ok(Some(run)) };
    let run = here.collect_outputs(prepared, run)?;
    if run.is_some() {
        here.peers.mark_complete();
    }
    Ok(run)
}

/// The timeline of all ranks, if there is one; `None` on processes that have sent theirs.
///
/// # Errors
/// Another process's failure.
pub(super) fn gather_timeline(
    here: Option<&LaunchedProcess>,
    prepared: &PreparedProgram,
    trace: Option<Trace>,
) -> Result<Option<Trace>, Vec<Diag>> {
    match (here, trace) {
        (Some(here), Some(trace)) => here.collect_timeline(prepared, &trace),
        (_, trace) => Ok(trace),
    }
}

impl Options {
    /// Options that have to be equal on all processes of a run, with their values.
    fn shared_options(&self) -> Vec<(&'static str, String)> {
        let Options {
            container,
            element_type,
            streams,
            shapes,
            set,
            every,
            inputs,
            seed,
            gpu,
            permuted,
            poison,
            kernels,
            ..
        } = self;
        // The time limit is each process's own.
        let GpuOptions { transports, tf32, fp8_fast_accumulation, tunes_sustained, gemm_kernels, graph, timeout_ms: _ } =
            gpu;
        let bench = self.bench.as_ref().map(|bench| (bench.iterations, bench.warmup));
        vec![
            ("list of files", format!("{:?}", self.others)),
            ("`--container`", format!("{container:?}")),
            ("`--element-type`", format!("{element_type:?}")),
            ("`--backend`", format!("{:?}", self.backend)),
            ("`--streams`", format!("{streams:?}")),
            ("`--shape`", format!("{shapes:?}")),
            ("`--set`", format!("{set:?} {every:?}")),
            ("`--input`", format!("{inputs:?}")),
            ("`--seed`", seed.to_string()),
            ("`--map-backend`", format!("{transports:?}")),
            ("`--tf32`", tf32.to_string()),
            ("`--fp8-fast-accumulation`", fp8_fast_accumulation.to_string()),
            ("`--tuning`", tunes_sustained.to_string()),
            ("`--gemm-kernels`", gemm_kernels.to_string()),
            ("`--graph`", graph.to_string()),
            ("`--output`", format!("{:?}", key_names(&self.outputs))),
            ("`--expect`", format!("{:?}", key_names(&self.expects))),
            ("`--check-only`", self.check_only.to_string()),
            ("`--exact`", self.exact.to_string()),
            ("`--permute-schedule`", format!("{permuted:?}")),
            ("`--poison`", poison.to_string()),
            ("`--print-plan`", format!("{:?}", self.print_plan)),
            ("`--allow-kernels`", kernels.are_allowed.to_string()),
            ("`--check-launches`", kernels.are_checked.to_string()),
            ("`--trace` or `--timeline`", self.traced.is_any().to_string()),
            ("`--bench`, `--iters` or `--warmup`", format!("{bench:?}")),
        ]
    }
}

fn key_names(keyed: &KeyedValues<DataFile>) -> Vec<&String> {
    keyed.iter().map(|(name, _)| name).collect()
}
