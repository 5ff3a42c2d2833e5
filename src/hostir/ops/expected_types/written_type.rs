//! Types as texts.

use crate::diag::Message;
use crate::ir::{DType, IterDomain, Program, TensorId, quoted_axis, word_of_dtype};
use crate::ops::result_types::stored_domains;

/// A type as `hir 2` writes it, without its memory and its mesh.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct WrittenType {
    pub(crate) dtype: DType,
    /// The axes, such as `x:p`.
    pub(crate) axes: Vec<String>,
}

impl WrittenType {
    /// The type of axes.
    pub(crate) fn of_domains(program: &Program, dtype: DType, domains: &[IterDomain]) -> Self {
        Self { dtype, axes: domains.iter().map(|domain| axis_word(program, domain)).collect() }
    }

    /// The type of a tensor, with its reductions.
    pub(crate) fn of_tensor(program: &Program, tensor: TensorId) -> Self {
        Self::of_domains(program, program.tensor(tensor).dtype, program.domains(tensor))
    }

    /// The type of what a tensor stores.
    pub(crate) fn of_stored(program: &Program, tensor: TensorId) -> Self {
        Self::of_domains(program, program.tensor(tensor).dtype, &stored_domains(program, tensor))
    }

    /// `f32[x:p, m, n]`
    pub(crate) fn type_text(&self) -> String {
        format!("{}[{}]", word_of_dtype(self.dtype), self.axes.join(", "))
    }

    /// Returns true if two axes are over the devices along one axis of a mesh, which no tensor has.
    pub(crate) fn repeats_device_axis(&self) -> bool {
        let count_of = |letter: &str| self.axes.iter().filter(|axis| axis.starts_with(letter)).count();
        ["x:", "y:", "z:"].into_iter().any(|letter| count_of(letter) > 1)
    }

    /// Returns true if an axis is a reduction.
    pub(crate) fn has_reduction(&self) -> bool {
        self.axes.iter().any(|axis| axis.starts_with("r."))
    }

    /// The type without its reductions.
    pub(crate) fn without_reductions(&self) -> Self {
        let stored = self.axes.iter().filter(|axis| !axis.starts_with("r."));
        Self { dtype: self.dtype, axes: stored.cloned().collect() }
    }
}

/// An axis as `hir 2` writes it.
pub(crate) fn axis_word(program: &Program, domain: &IterDomain) -> String {
    quoted_axis(program, domain).hir2_text().to_owned()
}

/// The types that both sides of an op have to have.
pub(crate) struct ExpectedTypes {
    /// The operand, if its type has to be another one.
    pub(crate) operand: Option<(TensorId, WrittenType)>,
    /// The result.
    pub(crate) result: (TensorId, WrittenType),
    /// The reason for the result's type, as a clause.
    pub(crate) reason: Option<Message>,
    /// A call with the same operands whose result has the type that is declared.
    pub(crate) other_call: Option<String>,
    /// True if no declaration makes this op fit, but another op does.
    pub(crate) needs_other_call: bool,
}

impl ExpectedTypes {
    /// The type of a result.
    pub(crate) fn of_result(result: TensorId, wanted: WrittenType) -> Self {
        Self { operand: None, result: (result, wanted), reason: None, other_call: None, needs_other_call: false }
    }
}
