//! Lowering of loops, branches, streams and HostUnits: all of it happens at plan time.

use super::scalar::Locals;
use super::{InstKind, Lowering};
use crate::analysis::names::loop_index;
use crate::analysis::renewed::Renewed;
use crate::diag::Diag;
use crate::diag::codes;
use crate::ir::{AttrKey, BlockId, ExprId, Op, OpId, Program, TensorId, UnitId, Value};

/// `FOR i in domain:`; tensors that the body binds and that depend on the index are unbound when an iteration
/// begins, as in nvFuser's evaluator.
pub fn lower_for(cx: &mut Lowering<'_>, id: OpId) -> Result<(), Diag> {
    cx.check_loop(id)?;
    let fresh = cx.fresh.of(cx.program, id);
    run_loop(cx, cx.program.op(id), &fresh)
}

/// First value, end and step of a loop's index.
pub(super) fn bounds(cx: &Lowering<'_>, op: &Op) -> Result<(i64, i64, i64), Diag> {
    let stop = match (op.expr(AttrKey::Stop), op.domain(AttrKey::Domain)) {
        (Some(stop), _) => stop,
        (None, Some(domain)) => cx.program.domain(domain).extent,
        (None, None) => return Err(cx.error(codes::NEEDED, "the loop has no domain and no `stop`")),
    };
    let start = op.expr(AttrKey::Start).map_or(Ok(0), |expr| cx.int(expr))?;
    let step = op.expr(AttrKey::Step).map_or(Ok(1), |expr| cx.int(expr))?;
    Ok((start, cx.int(stop)?, step))
}

/// `FOR i from a to b:`
pub fn lower_for_range(cx: &mut Lowering<'_>, id: OpId) -> Result<(), Diag> {
    cx.check_loop(id)?;
    let fresh = cx.fresh.of(cx.program, id);
    run_loop(cx, cx.program.op(id), &fresh)
}

/// Runs the iterations; `fresh` tensors that had no memory before the loop have none when one begins.
fn run_loop(cx: &mut Lowering<'_>, op: &Op, fresh: &Renewed) -> Result<(), Diag> {
    let (start, stop, step) = bounds(cx, op)?;
    if step < 1 {
        return Err(cx.error(
            codes::OUT_OF_RANGE,
            format!("the loop's step is {step}; it must be positive"),
        ));
    }
    let (index, Some(&body)) = (loop_index(cx.program, op), op.blocks.first()) else {
        return Ok(());
    };
    let had = |(at, &tensor): (usize, &TensorId)| {
        cx.binding(tensor).is_some() && !(at < fresh.whole && is_left_over(cx, tensor))
    };
    let outside: Vec<bool> = fresh.tensors.iter().enumerate().map(had).collect();
    let renewed = || fresh.tensors.iter().zip(&outside).filter(|(_, had)| !**had);
    let mut value = start;
    let mut before = (!cx.is_in_loop()).then(|| cx.lengths());
    while value < stop {
        cx.check_time()?;
        for (&tensor, _) in renewed() {
            cx.rebind(tensor, None)?;
        }
        cx.run_iteration(index, value, body)?;
        let Some(next) = value.checked_add(step) else { break };
        value = next;
        if let Some(before) = before.take().filter(|_| value < stop) {
            cx.reserve(&before, value.abs_diff(stop).div_ceil(step.unsigned_abs()));
        }
    }
    for (&tensor, _) in renewed() {
        if let Some(buffer) = cx.binding(tensor).map(|view| view.buffer) {
            cx.fresh.left.insert(tensor, buffer);
        }
    }
    Ok(())
}

/// Whether a tensor still has what the last iteration of an earlier loop gave it, and nothing else is bound to
/// a part of that: not memory that it had before, then, and another loop's iterations do not write into it.
fn is_left_over(cx: &Lowering<'_>, tensor: TensorId) -> bool {
    let Some(buffer) = cx.binding(tensor).map(|view| view.buffer) else { return false };
    let owner = cx.plan.buffers[buffer].tensor == tensor;
    cx.fresh.left.get(&tensor) == Some(&buffer) && !(owner && cx.references[buffer] > 1)
}

/// `IF predicate:` with an optional `ELSE:`
pub fn lower_if(cx: &mut Lowering<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let predicate = op
        .operands
        .iter()
        .find_map(|value| value.scalar())
        .or_else(|| op.attrs.iter().find_map(|(key, _)| op.expr(*key)));
    let Some(predicate) = predicate else {
        return Err(cx.error(codes::NEEDED, "the branch has no predicate"));
    };
    let chosen = usize::from(!cx.scalar(predicate)?.as_bool());
    match op.blocks.get(chosen) {
        Some(&block) => cx.run_iteration(None, 0, block),
        None => Ok(()),
    }
}

fn stream_operand(cx: &Lowering<'_>, op: &Op) -> Result<ExprId, Diag> {
    let values = op.operands.iter().chain(&op.results);
    let stream = values.into_iter().find_map(|value| match value {
        Value::Stream(expr) => Some(*expr),
        Value::Tensor(_) | Value::Scalar(_) | Value::Handle(_) | Value::Unit(_) | Value::Op(_) => {
            None
        }
    });
    stream.ok_or_else(|| cx.error(codes::NEEDED, "no stream is named"))
}

/// Binds a stream's name to the current stream, unless it is bound.
pub fn lower_get_current_stream(cx: &mut Lowering<'_>, id: OpId) -> Result<(), Diag> {
    let expr = stream_operand(cx, cx.program.op(id))?;
    let current = cx.stream;
    cx.named_streams.entry(expr).or_insert(current);
    Ok(())
}

/// Makes a stream the current one.
pub fn lower_set_current_stream(cx: &mut Lowering<'_>, id: OpId) -> Result<(), Diag> {
    let expr = stream_operand(cx, cx.program.op(id))?;
    cx.stream = cx.stream_of(expr)?;
    Ok(())
}

/// The current stream waits for what was issued on another one.
pub fn lower_synchronize(cx: &mut Lowering<'_>, id: OpId) -> Result<(), Diag> {
    let expr = stream_operand(cx, cx.program.op(id))?;
    let other = cx.stream_of(expr)?;
    if other == cx.stream {
        return Ok(());
    }
    let event = cx.event();
    let current = std::mem::replace(&mut cx.stream, other);
    let recorded = cx.emit(InstKind::Record { event });
    cx.stream = current;
    recorded?;
    cx.emit(InstKind::WaitEvent { event })
}

/// What a PostOnStream calls.
pub struct LaunchCall {
    /// The unit.
    pub unit: UnitId,
    /// Operands for the unit's inputs, in order.
    pub inputs: Vec<TensorId>,
    /// Results for the unit's outputs, in order.
    pub outputs: Vec<TensorId>,
}

/// The unit and tensors of a PostOnStream; `None` if it names no unit of the program.
pub fn launch_call(program: &Program, id: OpId) -> Option<LaunchCall> {
    let op = program.op(id);
    let unit = program.posted_unit(op)?;
    Some(LaunchCall {
        unit,
        inputs: op.input_tensors().collect(),
        outputs: op.output_tensors().collect(),
    })
}

/// Runs a HostUnit's body in place, on the unit's own tensors.
pub fn lower_post_on_stream(cx: &mut Lowering<'_>, id: OpId) -> Result<(), Diag> {
    let Some(call) = launch_call(cx.program, id) else {
        return Err(
            cx.error(codes::CANNOT_RUN, "the HostUnit that is posted is not in the program")
        );
    };
    if cx.unit.is_some() {
        return Err(cx.error(codes::CANNOT_RUN, "a HostUnit cannot post another one"));
    }
    let unit = &cx.program.units()[call.unit];
    let inputs: Vec<TensorId> = unit.inputs.iter().filter_map(|value| value.tensor()).collect();
    let outputs: Vec<TensorId> = unit.outputs.iter().filter_map(|value| value.tensor()).collect();
    if (inputs.len(), outputs.len()) != (call.inputs.len(), call.outputs.len()) {
        let message = format!(
            "HostUnit{} has {} inputs and {} outputs, but {} and {} are given",
            unit.number,
            inputs.len(),
            outputs.len(),
            call.inputs.len(),
            call.outputs.len()
        );
        return Err(cx.error(codes::SHAPES, message));
    }
    // What is in the unit's name space: from here on names mean the unit's scalars.
    let scalars = unit_scalars(cx, id, call.unit)?;
    let outside = std::mem::replace(&mut cx.locals, scalars);
    run_unit(cx, &call, unit.body, &inputs, &outputs)?;
    cx.locals = outside;
    Ok(())
}

/// The values of a unit's scalar inputs where it is posted.
fn unit_scalars(cx: &Lowering<'_>, id: OpId, unit: UnitId) -> Result<Locals, Diag> {
    let mut locals = Locals::default();
    for (outer, inner) in cx.program.posted_inputs(cx.program.op(id), unit) {
        if let (Value::Scalar(given), Value::Scalar(name)) = (outer, inner)
            && let Some(name) = cx.program.exprs().as_name(name)
        {
            locals.push(name, cx.scalar(given)?);
        }
    }
    Ok(locals)
}

/// Binds the tensors of a unit, runs its body, and binds what the post names to what came out.
fn run_unit(
    cx: &mut Lowering<'_>,
    call: &LaunchCall,
    body: BlockId,
    inputs: &[TensorId],
    outputs: &[TensorId],
) -> Result<(), Diag> {
    for (&outer, &inner) in call.inputs.iter().zip(inputs) {
        let view = cx.input(outer)?;
        let shape = cx.local_shape(inner)?;
        if shape != view.shape() {
            return Err(cx.shape_error(outer, &view.shape(), inner, &shape));
        }
        cx.rebind(inner, Some(view))?;
    }
    for (&outer, &inner) in call.outputs.iter().zip(outputs) {
        if let Some(view) = cx.binding(outer).cloned() {
            cx.rebind(inner, Some(view))?;
        }
    }
    check_bound(cx, &call.outputs)?;
    cx.unit = Some(call.unit);
    let result = cx.run_block(body);
    cx.unit = None;
    result?;
    for (&outer, &inner) in call.outputs.iter().zip(outputs) {
        let view = cx.input(inner)?;
        cx.rebind(outer, Some(view))?;
    }
    cx.end_unit(call.unit)
}

/// Either all outputs of a unit have memory when it is posted, or none.
fn check_bound(cx: &Lowering<'_>, outputs: &[TensorId]) -> Result<(), Diag> {
    let bound = |tensor: &&TensorId| cx.binding(**tensor).is_some();
    match (outputs.iter().find(bound), outputs.iter().find(|tensor| !bound(tensor))) {
        (Some(&with), Some(&without)) => {
            let (with, without) = (cx.name(with), cx.name(without));
            let message = format!("{with} has memory and {without} has none");
            Err(cx
                .error(codes::NO_MEMORY_HERE, message)
                .note("allocate all outputs of a HostUnit before it is posted, or none"))
        }
        _ => Ok(()),
    }
}
