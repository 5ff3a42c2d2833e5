//! The first tensor of each number.

use super::ids::{TensorId, UnitId};
use rustc_hash::FxHashMap;

/// A number that no tensor had so far.
const NONE: TensorId = TensorId(u32::MAX);

/// For each number in each scope, the tensor that had it first.
pub struct TensorNumbers {
    /// By number: tensors of the host program, whose numbers are small as a rule.
    host: Vec<TensorId>,
    /// All others.
    others: FxHashMap<(Option<UnitId>, u32), TensorId>,
}

impl TensorNumbers {
    /// A table for a program with so many tensors.
    pub fn with_tensors(count: usize) -> Self {
        Self { host: vec![NONE; count.saturating_mul(2)], others: FxHashMap::default() }
    }

    /// The first tensor with a number in a scope; `id` if there was none.
    pub fn first_tensor(&mut self, unit: Option<UnitId>, number: u32, id: TensorId) -> TensorId {
        match self.host.get_mut(number as usize) {
            Some(known) if unit.is_none() => {
                if *known == NONE {
                    *known = id;
                }
                *known
            }
            _ => *self.others.entry((unit, number)).or_insert(id),
        }
    }
}
