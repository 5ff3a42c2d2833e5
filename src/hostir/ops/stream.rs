//! Streams.

use super::spec::{ArgKind, ArgSpec, Infer, Lower, OpSpec};
use crate::diag::{Diag, codes};
use crate::ir::{ExprId, Op, OpEffect, OpId, OpIdentity, OpKind, OpLayout, OwnForm, StreamEffect, Value, WordLink};
use crate::plan::{InstKind, PlanBuilder};

/// `GetCurrentStream`.
pub const GET_CURRENT_STREAM: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "GetCurrentStream",
        layout: OpLayout::Own(OwnForm::GetCurrentStream),
        results: 0,
        effect: OpEffect::Stream(StreamEffect::Name),
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Binds a name to the current stream.",
    args: &[],
    relate: None,
    infer: Infer::Written,
    checks: &[],
    repair: None,
    lower: Lower::Instructions(lower_get_current_stream),
};

/// `SetCurrentStream`.
pub const SET_CURRENT_STREAM: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "SetCurrentStream",
        layout: OpLayout::Words(WordLink::To),
        results: 0,
        effect: OpEffect::Stream(StreamEffect::Choose),
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Makes a stream the current stream.",
    args: &[ArgSpec::operand(ArgKind::Stream)],
    relate: None,
    infer: Infer::Written,
    checks: &[],
    repair: None,
    lower: Lower::Instructions(lower_set_current_stream),
};

/// `Synchronize`.
pub const SYNCHRONIZE: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "Synchronize",
        layout: OpLayout::Words(WordLink::None),
        results: 0,
        effect: OpEffect::Stream(StreamEffect::Synchronize),
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Makes the current stream wait for the work enqueued on a stream so far.",
    args: &[ArgSpec::operand(ArgKind::Stream)],
    relate: None,
    infer: Infer::Written,
    checks: &[],
    repair: None,
    lower: Lower::Instructions(lower_synchronize),
};

/// `GetCurrentStream into Stream 0`
pub fn stream_naming_op(stream: ExprId) -> Op {
    Op::new(OpKind::GetCurrentStream).with_result(Value::Stream(stream))
}

/// `SetCurrentStream to Stream 1`
pub fn stream_choice_op(stream: ExprId) -> Op {
    Op::new(OpKind::SetCurrentStream).with_operand(Value::Stream(stream))
}

/// `Synchronize Stream 1`
pub fn synchronization_op(stream: ExprId) -> Op {
    Op::new(OpKind::Synchronize).with_operand(Value::Stream(stream))
}

fn stream_operand(cx: &PlanBuilder<'_>, op: &Op) -> Result<ExprId, Diag> {
    let values = op.operands.iter().chain(&op.results);
    let stream = values.into_iter().find_map(|value| match value {
        Value::Stream(expr) => Some(*expr),
        Value::Tensor(_) | Value::Scalar(_) | Value::Handle(_) | Value::Unit(_) | Value::Op(_) => None,
    });
    stream.ok_or_else(|| cx.error_here(codes::NEEDED, "the stream is missing"))
}

/// Binds a stream's name to the current stream, unless it is bound.
///
/// # Errors
/// If the op names no stream, or the stream's index cannot be evaluated or is negative.
pub fn lower_get_current_stream(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let expr = stream_operand(cx, cx.program.op(id))?;
    cx.bind_current_stream(expr)
}

/// Makes a stream the current stream.
pub fn lower_set_current_stream(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let expr = stream_operand(cx, cx.program.op(id))?;
    cx.stream = cx.stream_slot(expr)?;
    Ok(())
}

/// Makes the current stream wait for the work issued on another one.
///
/// # Errors
/// If the op names no stream, the stream's index cannot be evaluated or is negative, no GetCurrentStream has bound its
/// address, or the plan becomes too large.
pub fn lower_synchronize(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let expr = stream_operand(cx, cx.program.op(id))?;
    let other = cx.stream_slot(expr)?;
    if other == cx.stream {
        return Ok(());
    }
    let event = cx.new_event();
    let current = std::mem::replace(&mut cx.stream, other);
    let recorded = cx.emit_inst(InstKind::Record { event });
    cx.stream = current;
    recorded?;
    cx.emit_inst(InstKind::WaitEvent { event })
}
