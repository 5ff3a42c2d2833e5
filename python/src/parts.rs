//! Sizes that the parts of a rank fix: what a model of a run needs to know of a caller's tensors.

use crate::failure::Failure;
use crate::judge::Judged;
use crate::program::NativeProgram;
use crate::ranks::local_sizes;
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
    let inner = &program.inner;
    let found = inner.verify().map_err(|diags| inner.to_failure(diags, Judged::Text)).and_then(|_| {
        let shapes: Vec<&[usize]> = shapes.iter().map(Vec::as_slice).collect();
        local_sizes(&inner.program, &shapes).map_err(Failure::from)
    });
    found.map_err(|failure| failure.into_exception(py))
}
