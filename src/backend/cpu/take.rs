//! Reads and sums where an index tensor says.

use super::fault::Fault;
use super::lanes::Lanes;
use super::storage::Memory;
use crate::plan::{Accumulate, Plan, Take, View};
use bytemuck::Pod;

/// `output[i] = input[i with i[axis] replaced by index[i]]`; elements are only moved.
pub(super) fn run(memory: &mut Memory, plan: &Plan, take: &Take) -> Result<(), Fault> {
    let axis = take.input.dims[take.axis];
    let index = indices(memory, plan, &take.index, axis.extent)?;
    // Where each element of the output would be read with the index 0.
    let mut first = take.input.clone();
    first.dims[take.axis] = crate::plan::Dim { stride: 0, ..take.output.dims[take.axis] };
    let mut places = offsets(&first);
    for (place, along) in places.iter_mut().zip(index) {
        *place += along * axis.stride;
    }
    match take.output.dtype.size() {
        1 => moved::<u8>(memory, plan, take, &places),
        2 => moved::<u16>(memory, plan, take, &places),
        4 => moved::<u32>(memory, plan, take, &places),
        8 => moved::<u64>(memory, plan, take, &places),
        _ => Err(Fault::Type(take.output.dtype)),
    }
}

fn moved<T: Pod>(
    memory: &mut Memory,
    plan: &Plan,
    take: &Take,
    places: &[usize],
) -> Result<(), Fault> {
    let Some(data) = memory.borrow::<T>(&take.input)? else {
        let tensor = plan.buffers[take.input.buffer].tensor;
        return Err(Fault::Uninitialised { tensor, element: take.input.offset });
    };
    let values: Vec<T> = places.iter().map(|&place| data[place]).collect();
    memory.write(plan, &take.output, &values)
}

/// The elements of an index in row-major order, all of them inside an axis of this extent.
fn indices(memory: &Memory, plan: &Plan, view: &View, extent: usize) -> Result<Vec<usize>, Fault> {
    let Lanes::I64(values) = Lanes::load(memory, plan, view)? else {
        return Err(Fault::Type(view.dtype));
    };
    let inside = |&value: &i64| usize::try_from(value).ok().filter(|&value| value < extent);
    let Some(wrong) = values.iter().position(|value| inside(value).is_none()) else {
        return Ok(values.iter().filter_map(inside).collect());
    };
    let tensor = plan.buffers[view.buffer].tensor;
    let element = offsets(view)[wrong];
    Err(Fault::Index { tensor, element, value: values[wrong], extent })
}

/// The place in its buffer of each element of a view, in row-major order.
fn offsets(view: &View) -> Vec<usize> {
    let mut all = vec![view.offset];
    for dim in &view.dims {
        let along = |from: usize| (0..dim.extent).map(move |index| from + index * dim.stride);
        all = all.into_iter().flat_map(along).collect();
    }
    all
}

/// `output = base`, plus the rows of the value at the rows that the index names, in the index's order.
/// `half` and narrower floats add in `float` and are rounded once.
pub(super) fn accumulate(memory: &mut Memory, plan: &Plan, put: &Accumulate) -> Result<(), Fault> {
    let rows = indices(memory, plan, &put.index, put.output.dims[0].extent)?;
    let base = Lanes::load(memory, plan, &put.base)?;
    let value = Lanes::load(memory, plan, &put.value)?;
    let result = match (base, value) {
        (Lanes::F64(a), Lanes::F64(b)) => Lanes::F64(added(a, &b, &rows, |x, y| x + y)),
        (Lanes::F32(a), Lanes::F32(b)) => Lanes::F32(added(a, &b, &rows, |x, y| x + y)),
        (Lanes::I64(a), Lanes::I64(b)) => Lanes::I64(added(a, &b, &rows, i64::wrapping_add)),
        _ => return Err(Fault::Invalid("the value is of another type than its base".into())),
    };
    result.store(memory, plan, &put.output)
}

/// Adds row `j` of `value` to row `rows[j]` of `base`.
fn added<T: Copy>(mut base: Vec<T>, value: &[T], rows: &[usize], add: fn(T, T) -> T) -> Vec<T> {
    let width = value.len().checked_div(rows.len()).unwrap_or(0);
    for (j, &row) in rows.iter().enumerate() {
        let from = &value[j * width..(j + 1) * width];
        for (to, &x) in base[row * width..(row + 1) * width].iter_mut().zip(from) {
            *to = add(*to, x);
        }
    }
    base
}
