//! Reads and writes where an index tensor says.

use super::element_vector::ElementVector;
use super::reduce::combine_at;
use super::storage::RankMemory;
use crate::backend::fault::ExecutionFault;
use crate::backend::view_rows::{element_offsets, index_within, scattered_places, taken_offsets};
use crate::ir::DType;
use crate::plan::{AccumulateInst, BufferView, Plan, TakeInst};
use bytemuck::Pod;

/// `output[i] = input[i with i[axis] replaced by index[i]]`; elements are only moved.
pub(super) fn run_take(memory: &mut RankMemory, plan: &Plan, take: &TakeInst) -> Result<(), ExecutionFault> {
    let index = load_indices(memory, &take.index, take.input.dims[take.axis].extent)?;
    let places = taken_offsets(take, index);
    match take.output.dtype.byte_size() {
        1 => move_elements::<u8>(memory, plan, take, &places),
        2 => move_elements::<u16>(memory, plan, take, &places),
        4 => move_elements::<u32>(memory, plan, take, &places),
        8 => move_elements::<u64>(memory, plan, take, &places),
        16 => move_elements::<[u64; 2]>(memory, plan, take, &places),
        _ => Err(ExecutionFault::Type(take.output.dtype)),
    }
}

fn move_elements<T: Pod>(
    memory: &mut RankMemory,
    plan: &Plan,
    take: &TakeInst,
    places: &[usize],
) -> Result<(), ExecutionFault> {
    let Some(data) = memory.borrow_buffer::<T>(&take.input)? else {
        return Err(ExecutionFault::Uninitialised { buffer: take.input.buffer, element: take.input.offset });
    };
    let values: Vec<T> = places.iter().map(|&place| data[place]).collect();
    memory.write_view(plan, &take.output, &values)
}

/// The elements of an index in row-major order, all of them inside an axis of this extent.
fn load_indices(memory: &RankMemory, view: &BufferView, extent: usize) -> Result<Vec<usize>, ExecutionFault> {
    let ElementVector::I64(values) = ElementVector::load_view(memory, view)? else {
        return Err(ExecutionFault::Type(view.dtype));
    };
    let Some(wrong) = values.iter().position(|&value| index_within(value, extent).is_none()) else {
        return Ok(values.iter().filter_map(|&value| index_within(value, extent)).collect());
    };
    let element = element_offsets(view)[wrong];
    Err(ExecutionFault::Index { buffer: view.buffer, element, value: values[wrong], extent })
}

/// `output = base`, with the elements of the value at the places that the index names, in row-major order. `half` and
/// narrower floats are combined in `float` and rounded once.
pub(super) fn run_accumulate(memory: &mut RankMemory, plan: &Plan, put: &AccumulateInst) -> Result<(), ExecutionFault> {
    let index = load_indices(memory, &put.index, put.output.dims[put.axis].extent)?;
    let places = scattered_places(put, index);
    if let Some(op) = put.combine {
        let base = ElementVector::load_view(memory, &put.base)?;
        let value = ElementVector::load_view(memory, &put.value)?;
        let truths = put.output.dtype == DType::Bool;
        return combine_at(op, truths, base, value, &places)?.store_view(memory, plan, &put.output);
    }
    match put.output.dtype.byte_size() {
        1 => replace_elements::<u8>(memory, plan, put, &places),
        2 => replace_elements::<u16>(memory, plan, put, &places),
        4 => replace_elements::<u32>(memory, plan, put, &places),
        8 => replace_elements::<u64>(memory, plan, put, &places),
        16 => replace_elements::<[u64; 2]>(memory, plan, put, &places),
        _ => Err(ExecutionFault::Type(put.output.dtype)),
    }
}

fn replace_elements<T: Pod>(
    memory: &mut RankMemory,
    plan: &Plan,
    put: &AccumulateInst,
    places: &[usize],
) -> Result<(), ExecutionFault> {
    let mut elements: Vec<T> = memory.read_view(&put.base)?;
    let values: Vec<T> = memory.read_view(&put.value)?;
    for (&place, value) in places.iter().zip(values) {
        elements[place] = value;
    }
    memory.write_view(plan, &put.output, &elements)
}
