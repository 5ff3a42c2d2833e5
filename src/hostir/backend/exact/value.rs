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
    /// An integer of `uint64_t` beyond 64 bits with a sign.
    Unsigned(u64),
}

impl ExactValue {
    /// As a number of the field.
    pub(super) fn to_number(self) -> FieldElement {
        match self {
            ExactValue::Number(number) => number,
            ExactValue::Integer(value) => FieldElement::from_integer(value),
            ExactValue::Unsigned(value) => FieldElement::from_wide(u128::from(value)),
        }
    }
    /// The 64 bits of the integer, if it is one.
    pub(super) fn as_integer(self) -> Option<i64> {
        match self {
            ExactValue::Number(_) => None,
            ExactValue::Integer(value) => Some(value),
            ExactValue::Unsigned(value) => Some(value.cast_signed()),
        }
    }
    /// The integer, if it is one of 64 bits with a sign.
    pub(super) fn as_signed(self) -> Option<i64> {
        if let ExactValue::Integer(value) = self { Some(value) } else { None }
    }
    /// The integer of a type with these 64 bits, which are not wrapped.
    pub(super) fn from_bits(bits: i64, dtype: DType) -> Self {
        match dtype {
            DType::UInt64 if bits < 0 => ExactValue::Unsigned(bits.cast_unsigned()),
            _ => ExactValue::Integer(bits),
        }
    }
    /// The element of a type that holds an integer; a number stays as it is.
    pub(super) fn stored_as(self, dtype: DType) -> Self {
        match self {
            ExactValue::Integer(value) => stored_integer(value, dtype),
            ExactValue::Unsigned(_) if holds_numbers(dtype) => ExactValue::Number(self.to_number()),
            ExactValue::Unsigned(value) => stored_integer(value.cast_signed(), dtype),
            ExactValue::Number(_) => self,
        }
    }
}

/// Returns true for the types whose elements are numbers of the field. A complex number is one of them: what holds for
/// all numbers of fields holds for complex numbers.
pub(super) fn holds_numbers(dtype: DType) -> bool {
    dtype.is_float() || dtype.is_complex()
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
        dtype if holds_numbers(dtype) => ExactValue::Number(FieldElement::from_integer(value)),
        dtype => ExactValue::from_bits(dtype.wrapped_integer(value), dtype),
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
