//! Exact elements that an index tensor selects.

use super::memory::ExactMemory;
use super::reduce::{add_elements, fold_elements, folded_degree};
use super::value::{ExactColumn, ExactValue};
use super::work::HashContext;
use crate::backend::fault::ExecutionFault;
use crate::backend::view_rows::{element_offsets, index_within, scattered_places, taken_offsets};
use crate::ir::DType;
use crate::plan::{AccumulateInst, BufferView, Plan, RedOp, TakeInst};
use std::collections::BTreeMap;

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

/// `output = base`, with the elements of the value at the places that the index names.
pub(super) fn run_accumulate(
    memory: &mut ExactMemory,
    plan: &Plan,
    put: &AccumulateInst,
    cx: &mut HashContext<'_>,
) -> Result<(), ExecutionFault> {
    let index = load_indices(memory, plan, &put.index, put.output.dims[put.axis].extent)?;
    let places = scattered_places(put, index);
    let mut base = memory.read_view(plan, &put.base);
    let value = memory.read_view(plan, &put.value);
    match put.combine {
        None => places.iter().zip(&value.values).for_each(|(&place, &new)| base.values[place] = new),
        Some(RedOp::Sum) => {
            for (&place, &term) in places.iter().zip(&value.values) {
                base.values[place] = add_elements(base.values[place], term, put.output.dtype);
            }
        }
        Some(op) => {
            cx.note_operands(base.degree.join_degrees(value.degree));
            let folded = fold_at(op, put.output.dtype, &base.values, &value.values, &places, cx)?;
            folded.into_iter().for_each(|(place, element)| base.values[place] = element);
        }
    }
    let most = put.value.dims[put.axis].extent;
    base.degree = match put.combine {
        None => base.degree.join_degrees(value.degree),
        Some(RedOp::Sum) => base.degree.sum_degree(value.degree.sum_of(most)),
        Some(op) => folded_degree(op, base.degree.join_degrees(value.degree), most + 1),
    };
    memory.write_view(plan, &put.output, &base);
    Ok(())
}

/// The elements that values are combined with: each with all of its values at once, so that their order has no effect
/// where the operation has no meaning modulo a prime.
fn fold_at(
    op: RedOp,
    dtype: DType,
    base: &[ExactValue],
    values: &[ExactValue],
    places: &[usize],
    cx: &mut HashContext<'_>,
) -> Result<Vec<(usize, ExactValue)>, ExecutionFault> {
    let mut gathered: BTreeMap<usize, Vec<ExactValue>> = BTreeMap::new();
    for (&place, &value) in places.iter().zip(values) {
        gathered.entry(place).or_insert_with(|| vec![base[place]]).push(value);
    }
    let folded = gathered.into_iter().map(|(place, elements)| {
        let element = fold_elements(op, dtype, &elements, cx)?;
        Ok((place, element.stored_as(dtype)))
    });
    folded.collect()
}
