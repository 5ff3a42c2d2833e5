//! The tensors of the scope that is read, by the numbers that the text calls them by.

use crate::ir::{TensorId, UnitId};
use rustc_hash::{FxHashMap, FxHashSet};

/// The tensors of a host program, or of a HostUnit: each has a name space of its own.
#[derive(Default)]
pub(super) struct TensorScope {
    /// The unit; `None` for the host program.
    pub(super) unit: Option<UnitId>,
    /// The last full text of each number, kept only if the file has short references.
    latest: FxHashMap<u32, TensorId>,
    /// The last declaration of each number.
    declared: FxHashMap<u32, TensorId>,
    /// Numbers of the tensors that permuting ops write.
    permuted: FxHashSet<u32>,
}

impl TensorScope {
    /// A scope in which these numbers have tensors.
    pub(super) fn with_tensors(unit: Option<UnitId>, known: &[(u32, TensorId)]) -> Self {
        let tensors: FxHashMap<u32, TensorId> = known.iter().copied().collect();
        Self { unit, latest: tensors.clone(), declared: tensors, permuted: FxHashSet::default() }
    }

    /// The tensor of a short reference.
    pub(super) fn latest_of_number(&self, number: u32) -> Option<TensorId> {
        self.latest.get(&number).copied()
    }

    /// The numbers that short references can use, ascending.
    pub(super) fn numbers(&self) -> Vec<u32> {
        let mut numbers: Vec<u32> = self.latest.keys().copied().collect();
        numbers.sort_unstable();
        numbers
    }

    /// A number stands for this tensor from here on.
    pub(super) fn note_full_text(&mut self, number: u32, tensor: TensorId) {
        self.latest.insert(number, tensor);
    }

    /// Declares a tensor; returns the tensor that its number stood for.
    pub(super) fn declare(&mut self, number: u32, tensor: TensorId) -> Option<TensorId> {
        self.declared.insert(number, tensor)
    }

    /// Replaces the numbers of tensors that permuting ops write.
    pub(super) fn set_permuted(&mut self, permuted: FxHashSet<u32>) {
        self.permuted = permuted;
    }

    /// Returns true if a permuting op writes a tensor of this number.
    pub(super) fn is_permuted(&self, number: u32) -> bool {
        self.permuted.contains(&number)
    }
}
