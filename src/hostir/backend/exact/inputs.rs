//! Random inputs of exact runs, and changes of them.

use super::hash::{HashKeys, HashedSubject};
use super::value::{ExactValue, is_drawn, stored_integer};
use crate::data::HostTensor;
use crate::lower::{IoTensor, unravel_index};
use std::ops::Range;

/// A change of a part of an input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct InputChange {
    /// The position of the input.
    pub(super) input: usize,
    /// By axis: the indices that the part has.
    pub(super) part: Vec<Vec<usize>>,
    /// The new elements.
    pub(super) elements: ChangedElements,
}

/// The new elements of a part of an input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ChangedElements {
    /// Other random numbers.
    Redrawn,
    /// Zeros.
    Zero,
}

impl InputChange {
    fn holds_element(&self, shape: &[usize], flat: usize) -> bool {
        let index = unravel_index(shape, flat);
        index.iter().zip(&self.part).all(|(at, part)| part.binary_search(at).is_ok())
    }
}

/// The elements of a whole input: random numbers, or integers as they are given.
pub(super) fn input_elements(
    keys: HashKeys,
    io_tensor: &IoTensor,
    position: usize,
    given: Option<&HostTensor>,
    change: Option<&InputChange>,
) -> Vec<ExactValue> {
    let shape = io_tensor.whole_shape();
    let count: usize = shape.iter().product();
    if !is_drawn(io_tensor.dtype) {
        let integers = given.map(integer_elements).unwrap_or_default();
        let values = (0..count).map(|flat| integers.get(flat).copied().unwrap_or(0));
        return values.map(|value| stored_integer(value, io_tensor.dtype)).collect();
    }
    let change = change.filter(|change| change.input == position);
    let hasher = keys.hasher_of(HashedSubject::Input(position), &[]);
    let elements = (0..count).map(|flat| {
        let word = match change.filter(|change| change.holds_element(&shape, flat)).map(|change| change.elements) {
            None => 0,
            Some(ChangedElements::Redrawn) => 1,
            Some(ChangedElements::Zero) => return stored_integer(0, io_tensor.dtype),
        };
        let place = io_tensor.stored_place(&shape, flat) as u64;
        ExactValue::Number(hasher.finish_with(&[place, word]))
    });
    elements.collect()
}

/// The 64 bits of the elements of a tensor of integers.
fn integer_elements(tensor: &HostTensor) -> Vec<i64> {
    let dtype = tensor.dtype();
    if !dtype.is_integer() {
        return Vec::new();
    }
    let elements = tensor.bytes().chunks_exact(dtype.byte_size());
    elements
        .map(|bytes| {
            let mut bits = [0; 8];
            bits[..bytes.len()].copy_from_slice(bytes);
            dtype.wrapped_integer(i64::from_le_bytes(bits))
        })
        .collect()
}

/// The places in the whole tensor of the elements of a rank's shard, in the shard's order; `None` off the mesh.
pub(super) fn shard_places(io_tensor: &IoTensor, rank: u32) -> Option<Vec<usize>> {
    let origin = io_tensor.shard_origin(rank)?;
    let axes = origin.into_iter().zip(io_tensor.local_shape()).map(|(start, extent)| start..start + extent);
    let axes: Vec<Range<usize>> = axes.collect();
    let mut places = vec![0];
    for (axis, extent) in axes.into_iter().zip(io_tensor.whole_shape()) {
        places = places.into_iter().flat_map(|outer| axis.clone().map(move |at| outer * extent + at)).collect();
    }
    Some(places)
}
