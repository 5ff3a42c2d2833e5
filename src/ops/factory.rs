//! Tensors made from scalars.

use super::spec::{ArgKind, ArgSpec, Lower, OpSpec};
use crate::diag::{Diag, codes};
use crate::ir::{AttrKey, Layout, OpId, OpIdentity};
use crate::plan::{Arg, Function, InstKind, Kernel, PlanBuilder, Scalar, Step};
use smallvec::{SmallVec, smallvec};

/// `full`.
pub const FULL: OpSpec = OpSpec {
    identity: OpIdentity { name: "full", layout: Layout::Factory, ..OpIdentity::TENSOR_OP },
    spellings: &[],
    summary: "Fills a tensor with one value.",
    args: &[
        ArgSpec::positional(AttrKey::Extents, ArgKind::Exprs),
        ArgSpec::positional(AttrKey::Fill, ArgKind::Expr),
    ],
    relate: None,
    checks: &[],
    lower: Lower::Instructions(lower_full),
};

/// `iota`.
pub const IOTA: OpSpec = OpSpec {
    identity: OpIdentity { name: "iota", layout: Layout::Factory, ..OpIdentity::TENSOR_OP },
    spellings: &[],
    summary: "Counts: length, start, step, element type.",
    args: &[
        ArgSpec::positional(AttrKey::Size, ArgKind::Expr),
        ArgSpec::positional(AttrKey::Start, ArgKind::Expr),
        ArgSpec::positional(AttrKey::Step, ArgKind::Expr),
        ArgSpec::positional(AttrKey::OutType, ArgKind::DType),
    ],
    relate: None,
    checks: &[],
    lower: Lower::Instructions(lower_iota),
};

/// `full`: one value everywhere.
pub fn lower_full(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let result = cx.result(op)?;
    let scalar = op.operands.iter().rev().find_map(|value| value.scalar());
    let Some(expr) = op.expr(AttrKey::Fill).or(scalar) else {
        return Err(cx.error(codes::NEEDED, "the value of `full` is not known"));
    };
    let value = cx.scalar(expr)?;
    let dst = cx.output(result)?;
    cx.emit(InstKind::Fill { dst, value })
}

/// `iota`: `start + i * step`.
pub fn lower_iota(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let result = cx.result(op)?;
    let start = op.expr(AttrKey::Start).map_or(Ok(Scalar::Int(0)), |expr| cx.scalar(expr))?;
    let step = op.expr(AttrKey::Step).map_or(Ok(Scalar::Int(1)), |expr| cx.scalar(expr))?;
    let output = cx.output(result)?;
    if output.dims.len() != 1 {
        return Err(cx.error(codes::SHAPES, "the result of `iota` has one axis"));
    }
    let dtype = output.dtype;
    let binary =
        |function, a, b| Step { function, args: smallvec![a, b], compute: dtype, result: dtype };
    let steps = vec![
        binary(Function::Mul, Arg::Index(0), Arg::Const(step)),
        binary(Function::Add, Arg::Step(0), Arg::Const(start)),
    ];
    cx.emit(InstKind::Kernel(Box::new(Kernel { inputs: SmallVec::new(), output, steps })))
}
