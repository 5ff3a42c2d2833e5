//! The extension module `hostir._native`: host programs as Python objects.
//!
//! Python's side (`hostir/*.py`) has the documented functions and types; this module has what they call: programs
//! (`program`), proofs (`check`), fixes (`judge`), runs on the CPU (`run`, `ranks`), sizes that a caller (`settings`)
//! or a rank's tensors (`parts`) fix, a caller's axes beside a shard's (`shard_shape`), sessions on a GPU of this
//! process (`session`, `control_plane`), calls of ops by these (`dispatcher`, `exchange_api`), where the process has
//! symmetric memory (`symmetric`), tensors and their exchange by DLPack (`tensor`, `dlpack`), and the two tools as
//! functions (`tools`). Work happens off the interpreter (`worker`), and everything that is wrong becomes one exception
//! with diagnostics (`failure`).

mod check;
mod control_plane;
mod dispatcher;
mod dlpack;
mod exchange_api;
mod failure;
mod judge;
mod parts;
mod program;
mod ranks;
mod run;
mod session;
mod settings;
mod shard_shape;
mod symmetric;
mod tensor;
mod tools;
mod worker;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    worker::record_panics();
    worker::note_process();
    module.add("VERSION", hostir_tool_support::VERSION)?;
    module.add("RULES_VERSION", hostir::verdict::RULES_VERSION)?;
    module.add_class::<program::NativeProgram>()?;
    module.add_class::<tensor::Tensor>()?;
    module.add_class::<control_plane::GroupControlPlane>()?;
    module.add_class::<session::DeviceSession>()?;
    module.add_class::<dispatcher::Dispatcher>()?;
    module.add_function(wrap_pyfunction!(session::count_devices, module)?)?;
    module.add_function(wrap_pyfunction!(symmetric::set_symmetric_ranges, module)?)?;
    module.add_function(wrap_pyfunction!(program::parse_text, module)?)?;
    module.add_function(wrap_pyfunction!(check::prove_for_python, module)?)?;
    module.add_function(wrap_pyfunction!(run::run_for_python, module)?)?;
    module.add_function(wrap_pyfunction!(ranks::run_ranks, module)?)?;
    module.add_function(wrap_pyfunction!(parts::sizes_of_parts, module)?)?;
    module.add_function(wrap_pyfunction!(parts::check_parts, module)?)?;
    module.add_function(wrap_pyfunction!(program::raise_error, module)?)?;
    module.add_function(wrap_pyfunction!(tools::hir_opt, module)?)?;
    module.add_function(wrap_pyfunction!(tools::hir_run, module)?)?;
    Ok(())
}
