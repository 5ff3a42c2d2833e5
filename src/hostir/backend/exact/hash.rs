//! Keyed hashes into the field: of inputs, of uninitialised memory, and of functions of which only the operands are
//! known.

use super::field::{FieldElement, MODULUS};
use crate::ir::DType;
use crate::plan::{Function, RedOp};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The subject of a hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum HashedSubject {
    /// An element of a tensor input, by its position.
    Input(usize),
    /// An element of uninitialised memory.
    UninitialisedMemory,
    /// A function of elements.
    Function(Function),
    /// The division by zero.
    ZeroDivision,
    /// Floats to integers of this type, or integers to narrower ones.
    Conversion(DType),
    /// The bits of the first type as an element of the second.
    Reinterpretation(DType, DType),
    /// Sums and products of integers that are computed from floats.
    IntegerArithmetic,
    /// A reduction that is no sum or product.
    Reduction(RedOp),
    /// An element of a function of rows: its name, and the number of the op's result.
    Rows(&'static str, usize),
    /// A constant that is infinite or not a number.
    InfiniteConstant,
}

/// The keys of all hashes of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct HashKeys {
    /// The seed of the run.
    pub(super) seed: u64,
    /// The subject whose key differs from that of other runs of the seed.
    pub(super) altered: Option<HashedSubject>,
}

impl HashKeys {
    /// The hash of words about a subject.
    pub(super) fn hash_words(&self, subject: HashedSubject, words: &[u64]) -> FieldElement {
        self.hasher_of(subject, words).finish_with(&[])
    }
    /// The beginning of hashes about a subject that share their first words.
    pub(super) fn hasher_of(&self, subject: HashedSubject, first_words: &[u64]) -> SharedHasher {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.seed);
        (subject, self.altered == Some(subject)).hash(&mut hasher);
        first_words.iter().for_each(|&word| hasher.write_u64(word));
        SharedHasher(hasher)
    }
}

/// The beginning that hashes share: it is computed once for all elements of a tensor.
#[derive(Clone, Debug)]
pub(super) struct SharedHasher(DefaultHasher);

impl SharedHasher {
    /// The hash of the first words and of more.
    pub(super) fn finish_with(&self, last_words: &[u64]) -> FieldElement {
        let mut hasher = self.0.clone();
        last_words.iter().for_each(|&word| hasher.write_u64(word));
        FieldElement::from_wide(u128::from(hasher.finish() & MODULUS))
    }
}
