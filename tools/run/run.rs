//! hir-run: runs a host program and checks its results.
//!
//! One path: read, verify, bind sizes, plan, bind inputs, run, assemble outputs, compare, write (`execute`). Each step
//! either passes its result to the next or ends the run with a `Failure`; only the last step writes files, so a run
//! that fails leaves none. Everything that needs CUDA is in `cuda`.

mod all_programs;
mod arguments;
mod backend_choice;
mod backend_names;
mod bench;
mod bench_options;
mod calibrate;
mod cli;
mod command_listing;
mod comparison;
mod completion;
#[cfg(feature = "cuda")]
mod cuda;
#[cfg(not(feature = "cuda"))]
#[path = "run/cuda_absent.rs"]
mod cuda;
mod data_files;
mod ending;
mod exact;
mod execute;
mod failure;
mod fix;
mod gather;
mod inputs;
mod kernel_options;
mod models;
mod option_values;
mod outputs;
mod permuted;
mod plan_json;
mod preconditions;
mod preparation;
mod prints;
mod processes;
mod program;
mod progress;
mod proof;
mod quantities;
mod reference;
mod simulated;
mod summary;
mod tensor_options;
mod time_limits;
mod timeline;
mod tune;
mod tune_options;
mod user_kernels;
mod work_summary;

use cli::Options;
pub use cuda::request_hardware_queues;
use failure::RunFailure;
use hostir::ops::OpRegistry;
use hostir_tool_support::errors;
use hostir_tool_support::events;
use hostir_tool_support::io::ToolIo;
use hostir_tool_support::status::ToolStatus;
use std::ffi::OsString;

/// Runs the tool with these arguments (the program's name first) and returns its exit status.
pub fn main_with(args: &[OsString], io: &mut ToolIo<'_>) -> i32 {
    main_with_ops(args, io, OpRegistry::OURS)
}

/// Runs the tool, as [`main_with`] does, on programs that may name these ops.
pub fn main_with_ops(args: &[OsString], io: &mut ToolIo<'_>, ops: OpRegistry) -> i32 {
    let options = match cli::parse_args(args, ops, io) {
        Ok(options) => options,
        Err(status) => return status.exit_code(),
    };
    events::run_with_events(&options.debug_only, io, |io| match processes::run_processes(args, &options, io) {
        Ok(text) => print_results(&text, &options, io),
        Err(end) => end.report(&options, io),
    })
}

/// Writes the results. A closed reader is no error.
fn print_results(text: &str, options: &Options, io: &mut ToolIo<'_>) -> i32 {
    let written = io.stdout.write_all(text.as_bytes()).and_then(|()| io.stdout.flush());
    match written {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            let diag = errors::cannot_write("standard output", &error);
            let failure = RunFailure::from(diag);
            io.report(options.format, &failure.source, &failure.diags);
            failure.status.exit_code()
        }
        _ => ToolStatus::Ok.exit_code(),
    }
}
