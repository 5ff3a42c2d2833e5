//! Minima and maxima: hashes of their sets of operands, so that order and grouping do not matter.

use super::field::FieldElement;
use super::hash::{HashKeys, HashedSubject};
use crate::plan::RedOp;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A minimum or maximum that was computed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct KnownExtreme {
    op: RedOp,
    value: FieldElement,
}

/// The operand sets of all minima and maxima of a run.
#[derive(Clone, Default, Debug)]
pub(super) struct ExtremeSets {
    sets: Arc<Mutex<FxHashMap<KnownExtreme, Arc<[FieldElement]>>>>,
}

impl ExtremeSets {
    /// The minimum or maximum of operands, some of which may be such values themselves.
    pub(super) fn extreme_value(&self, op: RedOp, operands: &[FieldElement], keys: &HashKeys) -> FieldElement {
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        let mut members: Vec<FieldElement> = Vec::with_capacity(operands.len());
        for &value in operands {
            match sets.get(&KnownExtreme { op, value }) {
                Some(known) => members.extend(known.iter()),
                None => members.push(value),
            }
        }
        members.sort_unstable();
        members.dedup();
        if let [single] = members[..] {
            return single;
        }
        let words: Vec<u64> = members.iter().map(|member| member.residue()).collect();
        let value = keys.hash_words(HashedSubject::Reduction(op), &words);
        sets.entry(KnownExtreme { op, value }).or_insert_with(|| members.into());
        value
    }
}

#[cfg(test)]
mod tests {
    use super::{ExtremeSets, FieldElement, HashKeys, RedOp};

    #[test]
    fn groups_and_orders_do_not_matter() {
        let keys = HashKeys { seed: 1, altered: None };
        let sets = ExtremeSets::default();
        let [a, b, c] = [3, 5, 8].map(FieldElement::from_integer);
        let all = sets.extreme_value(RedOp::Max, &[a, b, c], &keys);
        let first = sets.extreme_value(RedOp::Max, &[c, a], &keys);
        assert_eq!(sets.extreme_value(RedOp::Max, &[b, first], &keys), all);
        assert_eq!(sets.extreme_value(RedOp::Max, &[first, all], &keys), all);
        assert_eq!(sets.extreme_value(RedOp::Max, &[a, a], &keys), a);
        assert_ne!(sets.extreme_value(RedOp::Min, &[a, b, c], &keys), all);
        assert_ne!(sets.extreme_value(RedOp::Max, &[a, b], &keys), first);
    }
}
