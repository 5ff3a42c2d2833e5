//! Inputs with an expanded broadcast, whose elements repeat along it.
//!
//! A caller provides the whole tensor. A plan stores the first element of each repetition, so the others have to be
//! equal.

use super::{IoTensor, unravel_index};
use crate::data::HostTensor;
use crate::diag::message;
use crate::diag::{Diag, codes};

impl IoTensor {
    /// Whether an axis is an expanded broadcast.
    pub fn has_repeated_axis(&self) -> bool {
        self.axes.iter().any(|axis| axis.expanded)
    }

    /// The position, in row-major order, of the stored element for an element of a whole tensor, or of a shard, of this
    /// shape.
    pub(crate) fn stored_place(&self, shape: &[usize], flat: usize) -> usize {
        if !self.has_repeated_axis() {
            return flat;
        }
        let index = unravel_index(shape, flat);
        let axes = index.iter().zip(&self.axes).zip(shape);
        axes.fold(0, |place, ((&at, axis), &extent)| place * extent + if axis.expanded { 0 } else { at })
    }

    /// Gives all elements along an expanded broadcast the value of the first.
    pub fn repeat_elements(&self, tensor: &mut HostTensor) {
        if !self.has_repeated_axis() {
            return;
        }
        let (shape, size) = (tensor.shape().to_vec(), tensor.dtype().byte_size());
        for flat in 0..tensor.len() {
            let from = self.stored_place(&shape, flat) * size;
            tensor.bytes_mut().copy_within(from..from + size, flat * size);
        }
    }

    /// Refuses a whole tensor, or a shard, whose elements differ along an expanded broadcast.
    ///
    /// # Errors
    /// The first element that differs from its stored one.
    pub fn check_repeated_elements(&self, tensor: &HostTensor) -> Result<(), Diag> {
        if !self.has_repeated_axis() || tensor.shape().len() != self.axes.len() {
            return Ok(());
        }
        let (shape, size) = (tensor.shape(), tensor.dtype().byte_size());
        let elements: Vec<&[u8]> = tensor.bytes().chunks_exact(size.max(1)).collect();
        let places = (0..tensor.len()).map(|flat| (flat, self.stored_place(shape, flat)));
        let Some((flat, stored)) = places.into_iter().find(|&(flat, stored)| elements[flat] != elements[stored]) else {
            return Ok(());
        };
        let [place, first] = [flat, stored].map(|flat| unravel_index(shape, flat));
        let message = message!(
            "input {} has an expanded broadcast, along which all elements are equal, but {} is {} and {} is {}",
            self.name,
            format!("{first:?}"),
            tensor.get_f64(stored),
            format!("{place:?}"),
            tensor.get_f64(flat)
        );
        Err(Diag::global_error(codes::SIZE, message)
            .with_note("give the broadcast's one element in all places, or the axis elements of its own"))
    }
}
