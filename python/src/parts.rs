//! Sizes that a rank's shards fix, for a model of a run that knows only a caller's tensors.

use crate::failure::Failure;
use crate::judge::Judged;
use crate::program::NativeProgram;
use crate::ranks::local_sizes;
use crate::run::{input_type_error, is_same_type};
use crate::tensor::dtype_named;
use crate::worker::run_detached;
use hostir::lower::io_names::tensor_ids;
use pyo3::prelude::*;
use std::collections::BTreeMap;

/// The named extents that the shapes of a rank's parts fix: `shapes` has one for each input. A part has all axes of its
/// tensor, or lacks those that are sharded over devices.
#[pyfunction]
pub(crate) fn sizes_of_parts(
    py: Python<'_>,
    program: &NativeProgram,
    shapes: Vec<Vec<usize>>,
) -> PyResult<BTreeMap<String, i64>> {
    let inner = program.inner.clone();
    let result = run_detached(py, move || {
        inner.verify().map_err(|diags| inner.to_failure(diags, Judged::Text))?;
        let shapes: Vec<&[usize]> = shapes.iter().map(Vec::as_slice).collect();
        local_sizes(&inner.program, &shapes).map_err(Failure::from)
    })?;
    result.map_err(|failure| failure.into_exception(py))
}

/// Refuses parts that the program's inputs cannot be: `parts` has the element type of one for each input, and its shape
/// where all shapes are known.
#[pyfunction]
pub(crate) fn check_parts(
    py: Python<'_>,
    program: &NativeProgram,
    parts: Vec<(String, Option<Vec<usize>>)>,
) -> PyResult<()> {
    let inner = &program.inner.program;
    for (tensor, (dtype, _)) in tensor_ids(inner.inputs()).into_iter().zip(&parts) {
        let needed = inner.tensor(tensor).dtype;
        let found = dtype_named(dtype)?;
        if !is_same_type(found, needed) {
            let diag = input_type_error(&inner.tensor_name(tensor), needed, found);
            return Err(Failure::from(diag).into_exception(py));
        }
    }
    let shapes: Option<Vec<&[usize]>> = parts.iter().map(|(_, shape)| shape.as_deref()).collect();
    let Some(shapes) = shapes else { return Ok(()) };
    local_sizes(inner, &shapes).map(drop).map_err(|diag| Failure::from(diag).into_exception(py))
}
