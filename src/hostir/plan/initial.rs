//! Initial values of reductions, which enter the whole reduction once.

use super::scalar::constant_value;
use super::{RedOp, ScalarValue};
use crate::ir::{AttrKey, DType, OpId, Program};

/// A reduction operation with its initial value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ReductionFold {
    /// The operation that combines two values.
    pub op: RedOp,
    /// The initial value; `None` if it is the identity of the operation.
    pub initial: Option<ScalarValue>,
}

impl From<RedOp> for ReductionFold {
    fn from(op: RedOp) -> Self {
        Self { op, initial: None }
    }
}

impl RedOp {
    /// The identity of the operation for a type.
    pub fn identity_value(self, dtype: DType) -> ScalarValue {
        let [low, high] = type_range(dtype);
        match self {
            RedOp::Product => ScalarValue::Int(1),
            RedOp::Min | RedOp::FMin => high,
            RedOp::Max | RedOp::FMax => low,
            RedOp::And if dtype == DType::Bool => ScalarValue::Bool(true),
            RedOp::And => ScalarValue::Int(-1),
            RedOp::Sum | RedOp::Avg | RedOp::Or | RedOp::Xor => ScalarValue::Int(0),
        }
    }

    /// Returns true if a value leaves every number of a type unchanged. In `fmin` and `fmax` only NaN does that to NaN.
    pub(crate) fn is_identity(self, dtype: DType, value: ScalarValue) -> bool {
        let of = self.identity_value(dtype);
        match self.ignoring_nan() {
            RedOp::Min if dtype.is_float() => value.as_f64() == of.as_f64(),
            RedOp::Max if dtype.is_float() => value.as_f64() == of.as_f64(),
            RedOp::Min => value.as_i128() >= of.as_i128(),
            RedOp::Max => value.as_i128() <= of.as_i128(),
            RedOp::And if dtype == DType::Bool => value.as_bool(),
            RedOp::And => dtype.wrapped_integer(value.as_i64()) == dtype.wrapped_integer(-1),
            RedOp::Sum | RedOp::Product | RedOp::Avg => value.as_complex() == of.as_complex(),
            RedOp::Or | RedOp::Xor | RedOp::FMin | RedOp::FMax => value.as_i64() == of.as_i64(),
        }
    }
}

/// The smallest and the largest value of a type.
pub fn type_range(dtype: DType) -> [ScalarValue; 2] {
    match dtype.integer_limits() {
        Some(limits) => limits.map(integer_scalar),
        None if dtype == DType::Bool => [ScalarValue::Bool(false), ScalarValue::Bool(true)],
        None => [ScalarValue::Float(f64::NEG_INFINITY), ScalarValue::Float(f64::INFINITY)],
    }
}

/// An integer of 64 bits.
fn integer_scalar(value: i128) -> ScalarValue {
    i64::try_from(value).map_or(ScalarValue::Unsigned(value as u64), ScalarValue::Int)
}

/// Returns the operation of a reduction op, and true if its initial value is the identity of that operation, as far as
/// the text alone shows; `None` for a word that is no operation.
pub fn starts_from_identity(program: &Program, id: OpId) -> Option<(RedOp, bool)> {
    let op = program.op(id);
    let word = op.word_attr(AttrKey::ReduceOp).map_or("add", |word| program.name(word));
    let how = RedOp::parse(word)?;
    let dtype = op.input_tensors().next().map_or(DType::Float, |input| program.tensor(input).dtype);
    let Some(expr) = op.expr_attr(AttrKey::Init) else { return Some((how, true)) };
    let value = constant_value(program, expr);
    Some((how, value.is_some_and(|value| how.is_identity(dtype, value))))
}
