//! The extension module `hostir._native`: host programs as Python objects.
//!
//! Python's side (`hostir/*.py`) has the documented functions and types; this module has what they call: programs
//! (`program`), proofs (`check`), runs on the CPU (`run`, `ranks`), tensors and their exchange by DLPack (`tensor`, `dlpack`), and
//! the two tools as functions (`tools`). Work happens off the interpreter (`worker`), and everything that is wrong becomes
//! one exception with diagnostics (`failure`).

mod check;
mod dlpack;
mod failure;
mod judge;
mod program;
mod ranks;
mod run;
mod settings;
mod tensor;
mod tools;
mod worker;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    worker::keep_panics_quiet();
    module.add("VERSION", hostir_tool_support::VERSION)?;
    module.add("RULES_VERSION", hostir::plan_checks::RULES_VERSION)?;
    module.add("CUDA", cfg!(feature = "cuda"))?;
    module.add_class::<program::NativeProgram>()?;
    module.add_class::<tensor::Tensor>()?;
    module.add_function(wrap_pyfunction!(program::parse_text, module)?)?;
    module.add_function(wrap_pyfunction!(check::prove_for_python, module)?)?;
    module.add_function(wrap_pyfunction!(run::run_for_python, module)?)?;
    module.add_function(wrap_pyfunction!(ranks::run_ranks, module)?)?;
    module.add_function(wrap_pyfunction!(program::raise_error, module)?)?;
    module.add_function(wrap_pyfunction!(tools::hir_opt, module)?)?;
    module.add_function(wrap_pyfunction!(tools::hir_run, module)?)?;
    Ok(())
}
