//! V21 to V24: HostUnits and their posts.

use super::places::{count, declared, tensor_span};
use crate::diag::codes;
use crate::diag::{Diag, Diags};
use crate::ir::{OpId, Program, TensorId, Value};
use crate::ops::Effect;
use crate::print::expr_text;
use rustc_hash::FxHashMap;

/// Checks the units themselves: one a number (V21), tensor ops only (V22).
pub(super) fn check(program: &Program, diags: &mut Diags) {
    let mut numbers = FxHashMap::default();
    for (id, unit) in program.units().iter() {
        if numbers.insert(unit.number, id).is_some() {
            let message = format!("two units are called HostUnit{}", unit.number);
            let tensor = unit.outputs.iter().chain(&unit.inputs).find_map(|value| value.tensor());
            let diag = match tensor {
                Some(tensor) => {
                    Diag::error(codes::DUPLICATE_UNIT, tensor_span(program, tensor), message)
                }
                None => Diag::global(codes::DUPLICATE_UNIT, message),
            };
            diags.push(diag.note("give one of them another number"));
        }
        program.walk(unit.body, &mut |id| {
            let spec = program.op(id).kind.spec();
            if spec.effect != Effect::Pure && spec.effect != Effect::Alias {
                let message = format!(
                    "`{}` in HostUnit{}, which only holds tensor ops",
                    spec.name, unit.number
                );
                diags.push(Diag::error(codes::OP_IN_UNIT, program.op_span(id), message));
            }
        });
    }
}

/// A post names a unit of the program (V23) and has its inputs and outputs (V24).
pub(super) fn post(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let Some(number) = op.posted_number() else { return };
    let Some(unit_id) = program.unit_by_number(number) else {
        let known: Vec<String> =
            program.units().iter().map(|(_, u)| format!("HostUnit{}", u.number)).collect();
        let note = if known.is_empty() {
            format!(
                "write a section `HostUnit{number}: Inputs={{..}} -> Outputs={{..}}` behind the body"
            )
        } else {
            format!("the program has {}", known.join(", "))
        };
        let message = format!("PostOnStream of HostUnit{number}, which the program does not have");
        diags.push(Diag::error(codes::UNKNOWN_UNIT, program.op_span(id), message).note(note));
        return;
    };
    let unit = &program.units()[unit_id];
    let inputs = op
        .operands
        .iter()
        .filter(|value| matches!(value, Value::Tensor(_) | Value::Scalar(_)))
        .count();
    let sides =
        [("input", inputs, unit.inputs.len()), ("output", op.results.len(), unit.outputs.len())];
    for (what, found, need) in sides {
        if found != need {
            let found = count(found, what, &format!("{what}s"));
            let message = format!("PostOnStream has {found}, but HostUnit{number} has {need}");
            diags.push(Diag::error(codes::UNIT_COUNT, program.op_span(id), message));
        }
    }
    for (host, inner) in program.posted_inputs(op, unit_id) {
        port(program, id, host, inner, diags);
    }
    for (host, inner) in op.results.iter().zip(&unit.outputs) {
        port(program, id, *host, *inner, diags);
    }
}

/// A tensor is handed over for a tensor and a scalar for a scalar.
fn port(program: &Program, op: OpId, host: Value, inner: Value, diags: &mut Diags) {
    let text = |value: Value| match value {
        Value::Scalar(expr) => format!("the scalar `{}`", expr_text(program, expr)),
        Value::Tensor(tensor) => format!("the tensor `{}`", program.tensor_name(tensor)),
        Value::Stream(_) | Value::Handle(_) | Value::Unit(_) | Value::Op(_) => String::new(),
    };
    match (host, inner) {
        (Value::Tensor(host), Value::Tensor(inner)) => dtype(program, op, host, inner, diags),
        (Value::Tensor(_), Value::Scalar(_)) | (Value::Scalar(_), Value::Tensor(_)) => {
            let message =
                format!("PostOnStream has {} where the unit has {}", text(host), text(inner));
            diags.push(
                Diag::error(codes::UNIT_PORT, program.op_span(op), message)
                    .note("inputs and outputs belong together by their position in the lists"),
            );
        }
        _ => {}
    }
}

fn dtype(program: &Program, op: OpId, host: TensorId, inner: TensorId, diags: &mut Diags) {
    let (a, b) = (program.tensor(host).dtype, program.tensor(inner).dtype);
    if a != b {
        let (name, other) = (program.tensor_name(host), program.tensor_name(inner));
        let message = format!("`{name}` is {}, but the unit's `{other}` is {}", a.name(), b.name());
        let diag = Diag::error(codes::UNIT_TENSOR, program.op_span(op), message);
        diags.push(declared(diag, program, inner, op));
    }
}
