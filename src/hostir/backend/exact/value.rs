//! Elements of tensors: numbers of the field, and integers.

use super::degree::RationalDegree;
use super::field::FieldElement;
use crate::ir::DType;

/// An element. Floats are numbers of the field. Integers and truth values are integers if they do not depend on random
/// inputs, else numbers of the field as well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ExactValue {
    /// A number of the field.
    Number(FieldElement),
    /// An integer, or a truth value as 0 or 1.
    Integer(i64),
}

impl ExactValue {
    /// As a number of the field.
    pub(super) fn to_number(self) -> FieldElement {
        match self {
            ExactValue::Number(number) => number,
            ExactValue::Integer(value) => FieldElement::from_integer(value),
        }
    }
    /// The integer, if it is one.
    pub(super) fn as_integer(self) -> Option<i64> {
        match self {
            ExactValue::Number(_) => None,
            ExactValue::Integer(value) => Some(value),
        }
    }
}

/// Returns true for the types whose elements are numbers of the field.
pub(super) fn holds_numbers(dtype: DType) -> bool {
    dtype.is_float()
}

/// Returns true for the types of inputs that are drawn at random. A truth value is a number of the field, because a
/// selection between two elements is a polynomial of it.
pub(super) fn is_drawn(dtype: DType) -> bool {
    holds_numbers(dtype) || dtype == DType::Bool
}

/// An integer as an element of a type.
pub(super) fn stored_integer(value: i64, dtype: DType) -> ExactValue {
    match dtype {
        DType::Bool => ExactValue::Integer(i64::from(value != 0)),
        DType::Int32 => ExactValue::Integer(i64::from(value as i32)),
        dtype if holds_numbers(dtype) => ExactValue::Number(FieldElement::from_integer(value)),
        _ => ExactValue::Integer(value),
    }
}

/// Elements in row-major order, with a bound on their degrees.
#[derive(Clone, Default, Debug)]
pub(super) struct ExactColumn {
    /// The elements.
    pub(super) values: Vec<ExactValue>,
    /// A bound on the degrees of all of them.
    pub(super) degree: RationalDegree,
}

impl ExactColumn {
    /// As numbers of the field.
    pub(super) fn to_numbers(&self) -> Vec<FieldElement> {
        self.values.iter().map(|value| value.to_number()).collect()
    }
    /// As integers, if all are.
    pub(super) fn as_integers(&self) -> Option<Vec<i64>> {
        self.values.iter().map(|value| value.as_integer()).collect()
    }
}
