//! The tools as functions of their arguments: the package's commands `hir-opt` and `hir-run`.

use crate::worker::run_in_parallel;
use hostir_tool_support::io::{ToolFn, run_on_process};
use pyo3::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;

/// hir-opt with these arguments, the program's name first; gives the exit status.
///
/// # Errors
/// `RuntimeError` if no thread can be started.
#[pyfunction]
pub(crate) fn hir_opt(py: Python<'_>, args: Vec<OsString>) -> PyResult<i32> {
    run_tool(py, hostir_opt::main_with, &args)
}

/// hir-run with these arguments, the program's name first; gives the exit status.
///
/// # Errors
/// `RuntimeError` if no thread can be started.
#[pyfunction]
pub(crate) fn hir_run(py: Python<'_>, args: Vec<OsString>) -> PyResult<i32> {
    hostir_run::run::request_hardware_queues();
    run_tool(py, hostir_run::run::main_with, &args)
}

/// Processes of `hir-run --processes` are started from the file that this one was started from.
fn run_tool(py: Python<'_>, tool: ToolFn, args: &[OsString]) -> PyResult<i32> {
    let exe = args.first().map(PathBuf::from).filter(|path| path.is_absolute());
    run_in_parallel(py, || run_on_process(tool, args, exe))
}
