//! Programs timed in turn on GPUs.

use super::{CudaBackend, Profiler, describe_program, nvtx_ranges};
use crate::launch::LaunchedProcess;
use crate::run::bench::measurement::{BenchEntry, Measurement, Times, check_agreement};
use crate::run::bench::turns::time_turns;
use crate::run::cli::{BenchOptions, Options};
use crate::run::failure::RunFailure;
use crate::run::progress::{ProgressLine, RoundCounter};
use hostir_tool_support::io::ToolIo;
use std::fmt::Write as _;

/// Programs to time, and the progress line on the terminal.
pub(in crate::run) struct GpuTiming<'a> {
    /// The programs.
    pub(in crate::run) entries: &'a [BenchEntry],
    /// The number of runs.
    pub(in crate::run) bench: &'a BenchOptions,
    /// All options.
    pub(in crate::run) options: &'a Options,
    /// The profiler that gets the ranges of instructions.
    pub(in crate::run) profiler: Option<&'a Profiler>,
    /// This process among several.
    pub(in crate::run) here: Option<&'a LaunchedProcess>,
    /// The line on the terminal.
    pub(in crate::run) line: &'a ProgressLine,
    /// Rounds that have begun.
    pub(in crate::run) rounds: &'a RoundCounter,
}

impl CudaBackend {
    /// Loads programs, runs each once, and times them in turn. Adds a line about the devices to `text`.
    ///
    /// # Errors
    /// Those of loading and of running, or if outputs differ.
    pub(in crate::run) fn time_programs(
        &self,
        timing: &GpuTiming<'_>,
        text: &mut String,
        io: &mut ToolIo<'_>,
    ) -> Result<Vec<Measurement>, RunFailure> {
        let mut programs = Vec::new();
        let result = self
            .load_and_run(timing, &mut programs)
            .and_then(|()| timing.announce_device(&programs, text, io))
            .and_then(|()| timing.time_in_turn(&mut programs, io));
        if result.is_err() {
            // As `keep_after_failure`: freeing memory that a device may still use can wait without end.
            std::mem::forget(programs);
        }
        result
    }

    fn load_and_run<'e>(
        &self,
        timing: &GpuTiming<'e>,
        programs: &mut Vec<hostir_cuda::LoadedProgram<'e>>,
    ) -> Result<(), RunFailure> {
        let mut first = None;
        for entry in timing.entries {
            let mut program =
                self.load_program(&entry.prepared, &entry.kernels).map_err(|diags| entry.loaded.to_failure(diags))?;
            nvtx_ranges::name_ranges(&mut program, timing.profiler, &entry.loaded, &entry.prepared);
            let run = program.run_once(&entry.inputs);
            programs.push(program);
            let run = run.map_err(|diags| entry.loaded.to_failure(diags))?;
            let run = match timing.here {
                Some(here) => {
                    here.collect_outputs(&entry.prepared, run).map_err(|diags| entry.loaded.to_failure(diags))?
                }
                None => Some(run),
            };
            if let Some(run) = run {
                check_agreement(entry, run, &mut first, timing.options)?;
            }
        }
        Ok(())
    }
}

impl GpuTiming<'_> {
    fn announce_device(
        &self,
        programs: &[hostir_cuda::LoadedProgram<'_>],
        text: &mut String,
        io: &mut ToolIo<'_>,
    ) -> Result<(), RunFailure> {
        if let Some(program) = programs.first() {
            if !self.options.quiet {
                self.line.clear();
                io.print_message(&format!("hir-run: {}", describe_program(program)));
            }
            let _ = writeln!(text, "on {}", program.platform_summary());
        }
        Ok(())
    }

    fn time_in_turn(
        &self,
        programs: &mut [hostir_cuda::LoadedProgram<'_>],
        io: &mut ToolIo<'_>,
    ) -> Result<Vec<Measurement>, RunFailure> {
        let GpuTiming { entries, bench, rounds, .. } = *self;
        rounds.next(bench.warmup);
        for (program, entry) in programs.iter_mut().zip(entries) {
            program.sample_times(bench.warmup as usize).map_err(|diags| entry.loaded.to_failure(diags))?;
        }
        let times = time_turns(bench, entries.len(), io, |all, times| {
            let mut left = all;
            while left > 0 {
                let count = left.min(IN_A_ROW);
                rounds.next(count as u32);
                for ((program, entry), times) in programs.iter_mut().zip(entries).zip(&mut *times) {
                    times.extend(program.sample_times(count).map_err(|diags| entry.loaded.to_failure(diags))?);
                }
                left -= count;
            }
            Ok(())
        })?;
        let mut all = Vec::new();
        for ((program, entry), times) in programs.iter_mut().zip(entries).zip(times) {
            let issues = program.issue_times(ISSUES).map_err(|diags| entry.loaded.to_failure(diags))?;
            let issue = Some(Times::from_unsorted(issues).percentile(50) * 1e6);
            all.push(Measurement { times: Times::from_unsorted(times), issue, modelled: None });
        }
        Ok(all)
    }
}

/// Runs of one program before another one's turn.
const IN_A_ROW: usize = 5;
/// Timed runs of the host's part alone.
const ISSUES: usize = 11;
