//! The program hir-lit.

use std::process::ExitCode;

/// Programs are many small vectors, which this allocator hands out and takes back faster than the system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    hostir_tool_support::process_limits::prepare_process();
    let args: Vec<_> = std::env::args_os().collect();
    ExitCode::from(hostir_lit::command::main_with(&args, hostir_lit::context::built_in_tools()))
}
