//! Scalar definitions.

use super::spec::{ArgKind, ArgSpec, Infer, Lower, OpSpec};
use crate::ir::{ExprId, Op, OpIdentity, OpKind, OpLayout, Value};

/// `scalar definition`.
pub const DEFINE: OpSpec = OpSpec {
    identity: OpIdentity { name: "scalar definition", layout: OpLayout::Define, ..OpIdentity::TENSOR_OP },
    spellings: &[],
    summary: "Gives a name to the value of an expression: `i84 = i82 % 8;`.",
    args: &[ArgSpec::operand(ArgKind::Expr)],
    relate: None,
    infer: Infer::Written,
    checks: &[],
    repair: None,
    lower: Lower::Instructions(super::copy::lower_set),
};

/// `i84 = i82 % 8;`
pub fn definition_op(result: Value, value: ExprId) -> Op {
    Op::new(OpKind::Define).with_operand(Value::Scalar(value)).with_result(result)
}
