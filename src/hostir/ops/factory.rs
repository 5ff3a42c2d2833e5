//! Tensors made from scalars.

use super::literals;
use super::spec::{ArgKind, ArgSpec, Infer, Lower, OpSpec};
use crate::diag::{Diag, codes};
use crate::ir::{AttrKey, DType, OpId, OpIdentity, OpLayout};
use crate::plan::{Function, InstKind, KernelStep, PlanBuilder, PointwiseKernel, ScalarValue, StepOperand};
use smallvec::SmallVec;

/// `full`.
pub const FULL: OpSpec = OpSpec {
    identity: OpIdentity { name: "full", layout: OpLayout::Factory, ..OpIdentity::TENSOR_OP },
    spellings: &[],
    summary: "Fills a tensor with one value.",
    args: &[ArgSpec::positional(AttrKey::Extents, ArgKind::Exprs), ArgSpec::positional(AttrKey::Fill, ArgKind::Expr)],
    relate: None,
    infer: Infer::Written,
    checks: &[literals::check_fill_literal],
    lower: Lower::Instructions(lower_full),
};

/// `iota`.
pub const IOTA: OpSpec = OpSpec {
    identity: OpIdentity { name: "iota", layout: OpLayout::Factory, ..OpIdentity::TENSOR_OP },
    spellings: &[],
    summary: "Makes an arithmetic sequence: length, start, step, element type.",
    args: &[
        ArgSpec::positional(AttrKey::Size, ArgKind::Expr),
        ArgSpec::positional(AttrKey::Start, ArgKind::Expr),
        ArgSpec::positional(AttrKey::Step, ArgKind::Expr),
        ArgSpec::positional(AttrKey::OutType, ArgKind::DType),
    ],
    relate: None,
    infer: Infer::Written,
    checks: &[literals::check_iota_literals],
    lower: Lower::Instructions(lower_iota),
};

/// `full`: one value everywhere.
///
/// # Errors
/// If the value is missing or cannot be evaluated, or the result cannot be allocated.
pub fn lower_full(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let result = cx.result_tensor(op)?;
    let scalar = op.operands.iter().rev().find_map(|value| value.as_scalar());
    let Some(expr) = op.expr_attr(AttrKey::Fill).or(scalar) else {
        return Err(cx.error_here(codes::NEEDED, "the value of `full` is unknown"));
    };
    let value = cx.eval_scalar(expr)?;
    let dst = cx.output_view(result)?;
    cx.emit_inst(InstKind::Fill { dst, value })
}

/// `iota`: `start + i * step`.
///
/// # Errors
/// If start or step cannot be evaluated, the result has another number of axes than one, or it cannot be allocated.
pub fn lower_iota(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let result = cx.result_tensor(op)?;
    let start = op.expr_attr(AttrKey::Start).map_or(Ok(ScalarValue::Int(0)), |expr| cx.eval_scalar(expr))?;
    let step = op.expr_attr(AttrKey::Step).map_or(Ok(ScalarValue::Int(1)), |expr| cx.eval_scalar(expr))?;
    let output = cx.output_view(result)?;
    if output.dims.len() != 1 {
        return Err(cx.error_here(codes::SHAPES, "the result of `iota` must have one axis"));
    }
    let dtype = output.dtype;
    let steps = vec![
        binary_step(Function::Mul, dtype, [StepOperand::Index(0), StepOperand::Const(step)]),
        binary_step(Function::Add, dtype, [StepOperand::Step(0), StepOperand::Const(start)]),
    ];
    cx.emit_inst(InstKind::Kernel(Box::new(PointwiseKernel { inputs: SmallVec::new(), output, steps })))
}

fn binary_step(function: Function, dtype: DType, args: [StepOperand; 2]) -> KernelStep {
    KernelStep { function, args: args.into_iter().collect(), compute: dtype, result: dtype }
}
