//! Fused groups and compiled kernels.

use super::result_types::{TensorType, TypeList, is_plain, stored_domains};
use super::spec::{ArgKind, ArgSpec, Infer, Lower, OpSpec};
use super::user_launch::{ARGUMENTS, BLOCK, ENTRY, GRID, SHARED, check_user_launch};
use crate::axes::pairing::{AxisMismatch, LinkResult, LinkSide, has_split_axis, link_pairs};
use crate::diag::message;
use crate::diag::{Diag, Diags, Message, PartKind, Quoted, codes, count_text};
use crate::ir::places::with_declaration;
use crate::ir::{
    AttrKey, AxisLink, ExprId, Op, OpEffect, OpId, OpIdentity, OpKind, OpLayout, OwnForm, Program, TensorId, UnitId,
    Value, quoted_expr, quoted_type, word_of_dtype,
};
use rustc_hash::FxHashMap;

/// `PostOnStream`.
pub const POST_ON_STREAM: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "PostOnStream",
        layout: OpLayout::Own(OwnForm::PostOnStream),
        results: 0,
        effect: OpEffect::Opaque,
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Runs a HostUnit on the current stream: its operands are the unit, then the inputs; its results are the outputs.",
    args: &[],
    relate: Some(link_post_on_stream),
    infer: Infer::Results(infer_posted),
    checks: &[check_post],
    repair: None,
    lower: Lower::Post,
};

/// `LaunchKernel`.
pub const LAUNCH_KERNEL: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "LaunchKernel",
        layout: OpLayout::Own(OwnForm::LaunchKernel),
        results: 0,
        effect: OpEffect::Opaque,
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Launches a compiled kernel: one of the user (`launch` in `hir 2`), or one of nvFuser, which cannot run.",
    args: &[
        ArgSpec::tight("Group ID", AttrKey::GroupId, ArgKind::Int),
        ArgSpec::tight("Kernel", AttrKey::Kernel, ArgKind::Text).optional(),
        ArgSpec::tight("Entry", ENTRY, ArgKind::Name).optional(),
        ArgSpec::tight("Grid", GRID, ArgKind::Exprs).optional(),
        ArgSpec::tight("Block", BLOCK, ArgKind::Exprs).optional(),
        ArgSpec::tight("Shared", SHARED, ArgKind::Expr).optional(),
        ArgSpec::tight("Arguments", ARGUMENTS, ArgKind::Ints).optional(),
        ArgSpec::tight("Reads", AttrKey::Reads, ArgKind::Ints).optional(),
    ],
    relate: None,
    infer: Infer::Written,
    checks: &[check_user_launch],
    repair: None,
    lower: Lower::Launch,
};

/// PostOnStream: operand k with the unit's input k, result k with the unit's output k.
///
/// # Errors
/// If a tensor and the unit's tensor that stands for it have different ranks.
pub fn link_post_on_stream(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    let Some(unit) = program.posted_unit(program.op(op)) else { return Ok(()) };
    let unit = &program.units()[unit];
    let inputs = unit.inputs.iter().filter_map(|value| value.as_tensor());
    let outputs = unit.outputs.iter().filter_map(|value| value.as_tensor());
    let pairs = program.op(op).input_tensors().zip(inputs).chain(program.op(op).output_tensors().zip(outputs));
    for (host, inner) in pairs {
        let (from, to) = (LinkSide::new(program, host), LinkSide::new(program, inner));
        if has_split_axis(&[&from, &to]) {
            continue;
        }
        if from.stored_positions().len() != to.stored_positions().len() {
            return Err(AxisMismatch {
                code: codes::UNIT_TENSOR,
                message: message!(
                    "`{}` has {} axes, but {} declares it as `{}` with {}",
                    program.quoted_tensor(host),
                    from.stored_positions().len(),
                    program.unit_name(unit.number),
                    program.quoted_tensor(inner),
                    to.stored_positions().len()
                ),
                note: Message::default(),
                tensor: Some(inner),
            });
        }
        link_pairs(&from, &to, &from.stored_positions(), &to.stored_positions(), links);
    }
    Ok(())
}

/// Checks that a PostOnStream names a unit of the program (V23) and that their inputs and outputs agree (V24).
fn check_post(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let Some(number) = op.posted_number() else { return };
    let Some(unit_id) = program.unit_by_number(number) else {
        let known: Vec<String> = program.units().iter().map(|(_, u)| program.unit_name(u.number)).collect();
        let note = if known.is_empty() {
            format!("add a section `HostUnit{number}: Inputs={{..}} -> Outputs={{..}}` after the body")
        } else {
            format!("the program has {}", known.join(", "))
        };
        let message = format!("PostOnStream of HostUnit{number}, which the program does not define");
        diags.push(Diag::error(codes::UNKNOWN_UNIT, program.op_span(id), message).with_note(note));
        return;
    };
    let unit = &program.units()[unit_id];
    if unit.is_elided {
        return;
    }
    let inputs = op.operands.iter().filter(|value| matches!(value, Value::Tensor(_) | Value::Scalar(_))).count();
    let sides = [("input", inputs, unit.inputs.len()), ("output", op.results.len(), unit.outputs.len())];
    for (what, found, need) in sides {
        if found != need {
            let found = count_text(found, what);
            let message = message!("{} has {}, but {} has {}", call_word(), found, program.unit_name(number), need);
            diags.push(Diag::error(codes::UNIT_COUNT, program.op_span(id), message));
        }
    }
    let passed: Vec<(Value, Value)> = program.posted_inputs(op, unit_id).collect();
    if let Some(diag) = exchanged_arguments(program, id, &passed) {
        diags.push(diag);
        return;
    }
    for (host, inner) in passed {
        check_post_value(program, id, host, inner, diags);
    }
    for (host, inner) in op.results.iter().zip(&unit.outputs) {
        check_post_value(program, id, *host, *inner, diags);
    }
}

/// The error for a scalar and a tensor that are passed in the places of each other.
fn exchanged_arguments(program: &Program, id: OpId, passed: &[(Value, Value)]) -> Option<Diag> {
    let is_wrong = |(host, inner): &(Value, Value)| host.as_tensor().is_some() != inner.as_tensor().is_some();
    let at = passed.iter().position(is_wrong)?;
    let (first, second) = (passed.get(at)?, passed.get(at + 1).filter(|next| is_wrong(next))?);
    let is_exchange = first.0.as_tensor().is_some() != second.0.as_tensor().is_some();
    if !is_exchange || passed.iter().filter(|pair| is_wrong(pair)).count() > 2 {
        return None;
    }
    let [one, other] = [first.0, second.0].map(|value| argument_text(program, value));
    let [inner, outer] = [first.1, second.1].map(|value| argument_text(program, value));
    let unit = Quoted::spelled(PartKind::Word, "unit", "kernel");
    let message = message!("{} and {} are exchanged: the {} has {} before {}", one, other, unit, inner, outer);
    Some(Diag::error(codes::UNIT_PORT, program.op_span(id), message))
}

/// Checks that a tensor is passed for a tensor and a scalar for a scalar.
fn check_post_value(program: &Program, op: OpId, host: Value, inner: Value, diags: &mut Diags) {
    match (host, inner) {
        (Value::Tensor(host), Value::Tensor(inner)) => check_dtype(program, op, host, inner, diags),
        (Value::Tensor(_), Value::Scalar(_)) | (Value::Scalar(_), Value::Tensor(_)) => {
            let [host, inner] = [host, inner].map(|value| argument_text(program, value));
            let message = message!(
                "{} has {} where the {} has {}",
                call_word(),
                host,
                Quoted::spelled(PartKind::Word, "unit", "kernel"),
                inner
            );
            let note = Message::advice(
                "inputs and outputs are matched by position",
                "inputs are matched by position; in a kernel's head an input with a type is a tensor, and one without is \
                 a scalar",
            );
            diags.push(Diag::error(codes::UNIT_PORT, program.op_span(op), message).with_note(note));
        }
        _ => {}
    }
}

/// The name of the statement that runs a HostUnit: a PostOnStream, or a call.
fn call_word() -> Quoted {
    Quoted::spelled(PartKind::Op, "PostOnStream", "the call")
}

fn argument_text(program: &Program, value: Value) -> Message {
    match value {
        Value::Scalar(expr) => message!("the scalar `{}`", quoted_expr(program, expr)),
        Value::Tensor(tensor) => message!("the tensor `{}`", program.quoted_tensor(tensor)),
        Value::Stream(_) | Value::Handle(_) | Value::Unit(_) | Value::Op(_) => Message::default(),
    }
}

fn check_dtype(program: &Program, op: OpId, host: TensorId, inner: TensorId, diags: &mut Diags) {
    let (a, b) = (program.tensor(host).dtype, program.tensor(inner).dtype);
    if a != b {
        let wanted = word_of_dtype(b);
        let (name, other) = (program.quoted_tensor(host), program.quoted_tensor(inner));
        let unit = Quoted::spelled(PartKind::Word, "unit", "kernel");
        let [a, b] = [a, b].map(quoted_type);
        let message = message!("`{}` is {}, but the {} declares `{}` as {}", name, a, unit, other, b);
        let note = Message::advice(
            "give both one element type",
            format!(
                "convert it in front of the call, as in `{} = {wanted}({})`",
                program.unused_tensor_name(),
                program.tensor_name(host)
            ),
        );
        let diag = Diag::error(codes::UNIT_TENSOR, program.op_span(op), message).with_note(note);
        diags.push(with_declaration(diag, program, inner, op));
    }
}

/// The types of a HostUnit's outputs, with the extents of the values that a post passes.
fn infer_posted(program: &Program, op: &Op) -> Option<TypeList> {
    let unit = program.posted_unit(op)?;
    let mut extents: FxHashMap<ExprId, ExprId> = FxHashMap::default();
    for (given, input) in program.posted_inputs(op, unit) {
        match (given, input) {
            (Value::Tensor(given), Value::Tensor(input)) => {
                let pairs = stored_domains(program, input).into_iter().zip(stored_domains(program, given));
                pairs.for_each(|(inner, outer)| {
                    extents.entry(inner.extent).or_insert(outer.extent);
                });
            }
            (Value::Scalar(given), Value::Scalar(input)) => {
                extents.entry(input).or_insert(given);
            }
            _ => return None,
        }
    }
    let outputs = program.units()[unit].outputs.iter().map(|value| {
        let tensor = value.as_tensor().filter(|&tensor| is_plain(program, tensor))?;
        let mut ty = TensorType::of_tensor(program, tensor);
        for domain in &mut ty.domains {
            let known = extents.get(&domain.extent).copied();
            domain.extent = known.or_else(|| program.exprs().as_int(domain.extent).map(|_| domain.extent))?;
        }
        Some(ty)
    });
    outputs.collect()
}

/// The repair for calls of one unit with tensors of different shapes.
pub fn one_shape_advice(program: &Program, unit: UnitId) -> Message {
    let name = program.unit_name(program.units()[unit].number);
    let kernel = Message::advice(name.clone(), format!("the kernel `{name}`"));
    message!("{} has one shape in all its calls: write a second one for other sizes", kernel)
}

/// `PostOnStream (HostUnit0, ..)`, without inputs and outputs.
pub fn post_op(unit: u32) -> Op {
    Op::new(OpKind::PostOnStream).with_operand(Value::Unit(unit))
}

/// The unit that a PostOnStream calls, with operands and results.
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
        inputs: op.passed_values().into_iter().filter_map(Value::as_tensor).collect(),
        outputs: op.output_tensors().collect(),
    })
}
