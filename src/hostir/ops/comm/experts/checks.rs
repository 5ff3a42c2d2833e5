//! Checks of Dispatch and Combine: the number of experts, element types, meshes.

use super::words::{OUT_EXPERTS, OUT_RECEIVED, OUT_SENT, OUT_SOURCES, OUT_WEIGHTS};
use crate::diag::message;
use crate::diag::{Diag, Diags, Message, codes};
use crate::ir::places::with_declaration;
use crate::ir::{AttrKey, OpId, Program, TensorId, Value, quoted_op, quoted_type};
use crate::ops::tensor_checks;

/// The tensor of an argument.
fn argument_tensor(program: &Program, id: OpId, word: &str) -> Option<TensorId> {
    let op = program.op(id);
    let spec = op.kind.spec();
    let value = spec.named_operand(op, word).or_else(|| spec.named_result(op, word));
    value.and_then(Value::as_tensor)
}

/// Dispatch: experts that the ranks divide, integers and weights, one mesh.
pub(super) fn check_dispatch(program: &Program, id: OpId, diags: &mut Diags) {
    check_expert_count(program, id, diags);
    if report_exchanged(program, id, ["topk_idx", "topk_weights"], diags) {
        return;
    }
    for word in ["topk_idx", OUT_EXPERTS, OUT_SOURCES, OUT_SENT, OUT_RECEIVED] {
        require_integers(program, id, word, diags);
    }
    for word in ["topk_weights", OUT_WEIGHTS] {
        require_floats(program, id, word, diags);
    }
    check_pairs(program, id, &[("in", "out"), ("topk_idx", OUT_EXPERTS), ("topk_weights", OUT_WEIGHTS)], diags);
    check_mesh(program, id, diags);
}

/// Combine: rows of one type, integers and weights, one mesh.
pub(super) fn check_combine(program: &Program, id: OpId, diags: &mut Diags) {
    require_integers(program, id, "src_idx", diags);
    require_floats(program, id, "topk_weights", diags);
    check_pairs(program, id, &[("in", "out")], diags);
    check_mesh(program, id, diags);
}

/// The message about a number of experts that the ranks do not divide evenly.
pub(super) fn expert_count_message(count: i64, ranks: usize) -> Message {
    match count {
        ..=0 => message!("`num_experts` is {}, but must be positive", count),
        _ => message!("{} experts cannot be divided evenly among {} ranks", count, ranks),
    }
}

fn check_expert_count(program: &Program, id: OpId, diags: &mut Diags) {
    let count = program.op(id).expr_attr(AttrKey::NumExperts).and_then(|count| program.exprs().as_int(count));
    let Some(count) = count else { return };
    let mesh = argument_tensor(program, id, "in").and_then(|tensor| program.tensor_mesh(tensor));
    let ranks = mesh.map_or(1, |mesh| mesh.devices.len().max(1));
    if count <= 0 || count % ranks as i64 != 0 {
        let note = "each rank has the same number of experts: choose a multiple of the number of ranks";
        let diag = Diag::error(codes::EXPERTS, program.op_span(id), expert_count_message(count, ranks));
        diags.push(diag.with_note(note));
    }
}

/// Reports experts and weights in the place of each other, as one error. Returns false if they are not.
fn report_exchanged(program: &Program, id: OpId, [experts, weights]: [&str; 2], diags: &mut Diags) -> bool {
    let [Some(first), Some(second)] = [experts, weights].map(|word| argument_tensor(program, id, word)) else {
        return false;
    };
    let are_exchanged = program.tensor(first).dtype.is_float() && program.tensor(second).dtype.is_index();
    if are_exchanged {
        let names = [first, second].map(|tensor| program.quoted_tensor(tensor));
        let types = [first, second].map(|tensor| quoted_type(program.tensor(tensor).dtype));
        let ([one, two], [one_type, two_type]) = (names, types);
        let message = message!(
            "`{}` needs integers in `{}=` and reals in `{}=`, but `{}` is {} and `{}` is {}",
            quoted_op(program, id),
            experts,
            weights,
            one,
            one_type,
            two,
            two_type
        );
        let note = message!(
            "are they exchanged? write `{}={}, {}={}`",
            experts,
            program.quoted_tensor(second),
            weights,
            program.quoted_tensor(first)
        );
        diags.push(Diag::error(codes::DTYPE, program.op_span(id), message).with_note(note));
    }
    are_exchanged
}

fn require_integers(program: &Program, id: OpId, word: &str, diags: &mut Diags) {
    if let Some(tensor) = argument_tensor(program, id, word)
        && !program.tensor(tensor).dtype.is_index()
    {
        report_type(program, id, word, tensor, "integers", diags);
    }
}

fn require_floats(program: &Program, id: OpId, word: &str, diags: &mut Diags) {
    if let Some(tensor) = argument_tensor(program, id, word)
        && !program.tensor(tensor).dtype.is_float()
    {
        report_type(program, id, word, tensor, "reals", diags);
    }
}

fn report_type(program: &Program, id: OpId, word: &str, tensor: TensorId, need: &str, diags: &mut Diags) {
    let (name, found) = (program.quoted_tensor(tensor), quoted_type(program.tensor(tensor).dtype));
    let op = quoted_op(program, id);
    let message = message!("`{}` needs {} in `{}=`, but `{}` is {}", op, need, word, name, found);
    let diag = Diag::error(codes::DTYPE, program.op_span(id), message);
    diags.push(with_declaration(diag, program, tensor, id));
}

/// Elements move without a change of type.
fn check_pairs(program: &Program, id: OpId, pairs: &[(&str, &str)], diags: &mut Diags) {
    for (from, to) in pairs {
        if let (Some(from), Some(to)) = (argument_tensor(program, id, from), argument_tensor(program, id, to)) {
            tensor_checks::check_equal_dtypes(program, id, from, to, diags);
        }
    }
}

/// All tensors are on the ranks of the first, which are the team.
fn check_mesh(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let mut tensors = op.input_tensors().chain(op.output_tensors());
    let Some(first) = tensors.next() else { return };
    let team = program.tensor_mesh(first).map(|mesh| &mesh.devices);
    if let Some(other) = tensors.find(|&tensor| program.tensor_mesh(tensor).map(|mesh| &mesh.devices) != team) {
        let name = quoted_op(program, id);
        let [one, two] = [first, other].map(|tensor| program.quoted_tensor(tensor));
        let message = message!("`{}` needs tensors on the same devices, but `{}` and `{}` are not", name, one, two);
        let diag = Diag::error(codes::TEAM_MESH, program.op_span(id), message);
        diags.push(with_declaration(with_declaration(diag, program, first, id), program, other, id));
    }
}

/// The tensors that a Combine needs.
pub(super) fn combine_repair(_program: &Program, _id: OpId) -> Option<Message> {
    Some("`topk_weights` and `src_idx` are what `Dispatch` wrote to `out_topk_weights` and `out_src_idx`".into())
}
