//! Records of a rank's computation: hashes for the error bound, and functions without a meaning.

use super::degree::{ErrorCounts, RationalDegree};
use super::extremes::ExtremeSets;
use super::field::FieldElement;
use super::hash::{HashKeys, HashedSubject};
use super::value::ExactValue;
use crate::ir::OpId;
use crate::plan::{Function, RedOp};

/// A use of a function that has no meaning modulo a prime.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct UnknownUse {
    /// The op.
    pub(super) op: OpId,
    /// The function.
    pub(super) subject: HashedSubject,
}

/// The notes of a rank, or of all.
#[derive(Clone, Default, Debug)]
pub(super) struct ExactNotes {
    /// The counts for the error bound.
    pub(super) counts: ErrorCounts,
    /// Functions of which only the operands are known, each once.
    pub(super) subjects: Vec<HashedSubject>,
    /// Uses of functions without a meaning, each once.
    pub(super) unknown: Vec<UnknownUse>,
}

impl ExactNotes {
    /// Adds the notes of another rank.
    pub(super) fn add_notes(&mut self, other: &ExactNotes) {
        self.counts = self.counts.join_counts(other.counts);
        self.subjects.extend(&other.subjects);
        self.subjects.sort_unstable();
        self.subjects.dedup();
        self.unknown.extend(&other.unknown);
        self.unknown.sort_unstable();
        self.unknown.dedup();
    }

    fn add_subject(&mut self, subject: HashedSubject) {
        if !self.subjects.contains(&subject) {
            self.subjects.push(subject);
        }
    }

    fn add_unknown(&mut self, used: UnknownUse) {
        // Elements of one op follow each other.
        if self.unknown.last() != Some(&used) && !self.unknown.contains(&used) {
            self.unknown.push(used);
        }
    }
}

/// Hashes on behalf of an op.
pub(super) struct HashContext<'n> {
    /// The keys of the run.
    pub(super) keys: HashKeys,
    /// The minima and maxima of all ranks.
    pub(super) extremes: &'n ExtremeSets,
    /// The rank's notes.
    pub(super) notes: &'n mut ExactNotes,
    /// The op.
    pub(super) op: OpId,
}

impl HashContext<'_> {
    /// The value of a function of which only the operands are known.
    pub(super) fn hash_operands(&mut self, subject: HashedSubject, operands: &[FieldElement]) -> ExactValue {
        self.notes.counts.hashes += 1;
        self.notes.add_subject(subject);
        let words: smallvec::SmallVec<[u64; 4]> = operands.iter().map(|operand| operand.residue()).collect();
        ExactValue::Number(self.keys.hash_words(subject, &words))
    }
    /// The same of a function without a meaning.
    pub(super) fn hash_unknown(&mut self, subject: HashedSubject, operands: &[FieldElement]) -> ExactValue {
        self.note_unknown(subject);
        self.hash_operands(subject, operands)
    }
    /// The smallest or the largest of operands.
    pub(super) fn extreme_value(&mut self, op: RedOp, operands: &[FieldElement]) -> ExactValue {
        self.note_unknown(HashedSubject::Reduction(op));
        self.notes.counts.hashes += 1;
        ExactValue::Number(self.extremes.extreme_value(op, operands, &self.keys))
    }
    /// Records a use of a function without a meaning.
    pub(super) fn note_unknown(&mut self, subject: HashedSubject) {
        let used = UnknownUse { op: self.op, subject };
        self.notes.add_subject(subject);
        self.notes.add_unknown(used);
    }
    /// Notes the degree of operands of hashes.
    pub(super) fn note_operands(&mut self, degree: RationalDegree) {
        self.notes.counts.operands = self.notes.counts.operands.join_degrees(degree);
    }
    /// `1 / a`.
    pub(super) fn invert_number(&mut self, a: FieldElement) -> FieldElement {
        match a.inverse_element() {
            Some(inverse) => inverse,
            None => self.hash_operands(HashedSubject::ZeroDivision, &[]).to_number(),
        }
    }
    /// A complex constant: its real part if that is all of it, else what is known of `std::complex` of its parts.
    pub(super) fn complex_constant(&mut self, real: f64, imaginary: f64) -> ExactValue {
        let parts = [real, imaginary].map(|part| self.real_constant(part));
        if imaginary == 0.0 {
            return parts[0];
        }
        self.hash_operands(HashedSubject::Function(Function::Complex), &parts.map(ExactValue::to_number))
    }
    /// A real constant.
    pub(super) fn real_constant(&mut self, value: f64) -> ExactValue {
        match FieldElement::from_decimal(value) {
            Some(number) => ExactValue::Number(number),
            None => {
                self.note_unknown(HashedSubject::InfiniteConstant);
                let word = if value.is_nan() { f64::NAN.to_bits() } else { value.to_bits() };
                self.notes.counts.hashes += 1;
                ExactValue::Number(self.keys.hash_words(HashedSubject::InfiniteConstant, &[word]))
            }
        }
    }
}
