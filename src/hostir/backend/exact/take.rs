//! Exact elements that an index tensor selects.

use super::memory::ExactMemory;
use super::reduce::add_elements;
use super::value::ExactColumn;
use crate::backend::fault::ExecutionFault;
use crate::backend::view_rows::{element_offsets, index_within, taken_offsets};
use crate::plan::{AccumulateInst, BufferView, Plan, TakeInst};

/// `output[i] = input[i with i[axis] replaced by index[i]]`.
pub(super) fn run_take(memory: &mut ExactMemory, plan: &Plan, take: &TakeInst) -> Result<(), ExecutionFault> {
    let index = load_indices(memory, plan, &take.index, take.input.dims[take.axis].extent)?;
    let places = taken_offsets(take, index).into_iter();
    let buffer = memory.read_buffer(plan, &take.input);
    let values = places.map(|place| buffer.values[place]).collect();
    let column = ExactColumn { values, degree: buffer.degree };
    memory.write_view(plan, &take.output, &column);
    Ok(())
}

/// The elements of an index in row-major order, all of them inside an axis of this extent.
fn load_indices(
    memory: &mut ExactMemory,
    plan: &Plan,
    view: &BufferView,
    extent: usize,
) -> Result<Vec<usize>, ExecutionFault> {
    let column = memory.read_view(plan, view);
    let mut indices = Vec::with_capacity(column.values.len());
    for (place, value) in column.values.iter().enumerate() {
        let Some(value) = value.as_integer() else {
            let text = "an index that is computed from floats, or that nothing wrote, has no value modulo a prime";
            return Err(ExecutionFault::NoMeaning(text.into()));
        };
        let Some(index) = index_within(value, extent) else {
            return Err(ExecutionFault::Index {
                buffer: view.buffer,
                element: element_offsets(view)[place],
                value,
                extent,
            });
        };
        indices.push(index);
    }
    Ok(indices)
}

/// `output = base`, plus the rows of the value at the rows that the index names.
pub(super) fn run_accumulate(
    memory: &mut ExactMemory,
    plan: &Plan,
    put: &AccumulateInst,
) -> Result<(), ExecutionFault> {
    let rows = load_indices(memory, plan, &put.index, put.output.dims[0].extent)?;
    let mut base = memory.read_view(plan, &put.base);
    let value = memory.read_view(plan, &put.value);
    let width = value.values.len().checked_div(rows.len()).unwrap_or(0);
    for (from, &row) in value.values.chunks_exact(width.max(1)).zip(&rows) {
        for (to, &term) in base.values[row * width..(row + 1) * width].iter_mut().zip(from) {
            *to = add_elements(*to, term, put.output.dtype);
        }
    }
    base.degree = base.degree.sum_degree(value.degree.sum_of(rows.len()));
    memory.write_view(plan, &put.output, &base);
    Ok(())
}
