//! Reads and sums where an index tensor says.

use super::element_vector::ElementVector;
use super::storage::RankMemory;
use crate::backend::fault::ExecutionFault;
use crate::backend::view_rows::{element_offsets, index_within, taken_offsets};
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

/// `output = base`, plus the rows of the value at the rows that the index names, in the index's order. `half` and
/// narrower floats add in `float` and are rounded once.
pub(super) fn run_accumulate(memory: &mut RankMemory, plan: &Plan, put: &AccumulateInst) -> Result<(), ExecutionFault> {
    let rows = load_indices(memory, &put.index, put.output.dims[0].extent)?;
    let base = ElementVector::load_view(memory, &put.base)?;
    let value = ElementVector::load_view(memory, &put.value)?;
    let result = match (base, value) {
        (ElementVector::F64(a), ElementVector::F64(b)) => ElementVector::F64(add_rows(a, &b, &rows, |x, y| x + y)),
        (ElementVector::F32(a), ElementVector::F32(b)) => ElementVector::F32(add_rows(a, &b, &rows, |x, y| x + y)),
        (ElementVector::I64(a), ElementVector::I64(b)) => ElementVector::I64(add_rows(a, &b, &rows, i64::wrapping_add)),
        (ElementVector::U64(a), ElementVector::U64(b)) => ElementVector::U64(add_rows(a, &b, &rows, u64::wrapping_add)),
        (ElementVector::Complex(a), ElementVector::Complex(b)) => {
            ElementVector::Complex(add_rows(a, &b, &rows, |x, y| x + y))
        }
        _ => {
            return Err(ExecutionFault::Invalid("the value is of another type than its base".into()));
        }
    };
    result.store_view(memory, plan, &put.output)
}

/// Adds row `j` of `value` to row `rows[j]` of `base`.
fn add_rows<T: Copy>(mut base: Vec<T>, value: &[T], rows: &[usize], add: fn(T, T) -> T) -> Vec<T> {
    let width = value.len().checked_div(rows.len()).unwrap_or(0);
    for (j, &row) in rows.iter().enumerate() {
        let from = &value[j * width..(j + 1) * width];
        for (to, &x) in base[row * width..(row + 1) * width].iter_mut().zip(from) {
            *to = add(*to, x);
        }
    }
    base
}
