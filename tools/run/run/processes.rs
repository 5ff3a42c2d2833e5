//! A run of one process or of several, and the start of several.

use super::cli::{BackendChoice, Options};
use super::ending::{RunEnd, Verbosity, process_ending};
use super::execute::execute_program;
use super::failure::RunFailure;
use super::program::SourceProgram;
use crate::launch::{self, LaunchedProcess, children};
use hostir::backend::control_plane::is_known_to_all;
use hostir::diag::Diag;
use hostir::lower::{needed_ranks, open_mesh_size};
use hostir_tool_support::errors;
use hostir_tool_support::io::ToolIo;
use hostir_tool_support::status::FOLLOWED;
use std::ffi::OsString;

/// Runs, alone or as one of several processes, or starts several.
///
/// # Errors
/// The end of a run that does not succeed.
pub(super) fn run_processes(args: &[OsString], options: &Options, io: &mut ToolIo<'_>) -> Result<String, RunEnd> {
    launch::check_arguments(&options.launch).map_err(RunFailure::from)?;
    let child = (io.env)("HIR_PARENT").is_some();
    if options.launch.processes && !child {
        check_children(options).map_err(RunFailure::from)?;
        let world = children_needed(options, io).map_err(RunEnd::from)?;
        return match children::run_children(args, world, io) {
            Ok(0) => Ok(String::new()),
            Ok(status) => Err(RunEnd::Reported(status)),
            Err(diag) => Err(RunFailure::from(diag).into()),
        };
    }
    let (launch, timeout) = (&options.launch, options.run_timeout());
    let here = launch::join_launch(launch, options.devices, timeout, options.quiet, io);
    let here = here.map_err(|failed| join_failure_end(failed, child))?;
    let Some(here) = here else { return Ok(execute_program(options, None, io)?) };
    let quiet = options.quiet || !here.is_first();
    let world = Some(here.place.world);
    let launch = launch::LaunchFlags { world, ..launch.clone() };
    let own = Options { devices: world, launch, quiet, ..options.clone() };
    let result = execute_program(&own, Some(&here), io);
    end_run(&here, result)
}

/// The end of a process that could not join, perhaps because another one failed.
fn join_failure_end(failed: launch::JoinFailure, child: bool) -> RunEnd {
    let followed = is_known_to_all(&failed.diag);
    let failure = RunFailure::from(*failed.diag);
    let status = if followed && child { FOLLOWED } else { failure.status.exit_code() };
    // Rank 0 reports all of it, whichever process it is about.
    let verbosity = if followed && !failed.is_first { Verbosity::Line } else { Verbosity::Full };
    RunEnd::Failed(failure, verbosity, status)
}

/// The number of ranks to start processes for: the requested one, else the number that any of the programs needs.
fn children_needed(options: &Options, io: &mut ToolIo<'_>) -> Result<u32, RunFailure> {
    if let Some(devices) = options.devices {
        return Ok(devices);
    }
    let mut most = 1;
    for file in std::iter::once(&options.file).chain(&options.others) {
        let loaded = SourceProgram::read_program(file, options.program_choice(), io)?;
        if let Some(open) = open_mesh_size(&loaded.program) {
            return Err(loaded.to_failure(vec![open]));
        }
        most = most.max(needed_ranks(&loaded.program));
    }
    Ok(most)
}

/// Refuses options that `--processes` cannot pass to children.
fn check_children(options: &Options) -> Result<(), Diag> {
    let files = std::iter::once(&options.file).chain(&options.others).chain(&options.reference);
    if files.into_iter().any(|file| file == "-") {
        return conflict("`--processes` cannot pass standard input to several processes", "pass the program as a file");
    }
    if matches!(options.backend, BackendChoice::Cpu | BackendChoice::Sim) {
        let name = if options.backend == BackendChoice::Cpu { "CPU" } else { "sim" };
        return conflict(
            &format!("`--processes` starts one process per rank, but the {name} backend runs all ranks in one process"),
            "remove `--processes`; `--backend=null` tests a launch without GPUs",
        );
    }
    Ok(())
}

/// Ends the run of this process on all: its failure is everybody's, and the other way round.
fn end_run(here: &LaunchedProcess, result: Result<String, RunFailure>) -> Result<String, RunEnd> {
    let failure = match result {
        Ok(text) => match here.end_run(None) {
            Ok(()) if here.is_first() => return Ok(text),
            Ok(()) => return Ok(String::new()),
            Err(diag) => RunFailure::from(diag),
        },
        Err(failure) => {
            // The result here counts, also if the report did not reach the others.
            let _ = here.end_run(Some(&failure.diags));
            failure
        }
    };
    let (verbosity, status) = process_ending(here, &failure);
    Err(RunEnd::Failed(failure, verbosity, status))
}

fn conflict(message: &str, note: &str) -> Result<(), Diag> {
    Err(Diag::global_error(errors::CONFLICT, message).with_note(note))
}
