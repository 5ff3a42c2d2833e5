//! The error for a program in which some ops are lowered and others move data between devices.

use crate::axes::{axis_text, list_axes, logical_axes, stored_position};
use crate::diag::message;
use crate::diag::{Diag, Message, codes};
use crate::ir::places::with_declaration;
use crate::ir::{
    AttrKey, AxisLink, DeviceMesh, OpId, Program, TensorId, enclosing_ops, is_identifier, op_display_name, quoted_head,
    quoted_op, quoted_statement, short_expr_text, word_of_dtype,
};
use crate::ops::comm::half_lowered_advice;
use crate::ops::expected_types::{declared_type_text, result_advice};

/// The error that `op` moves data between devices, in a program in which `other` is lowered.
pub(super) fn half_lowered_error(program: &Program, op: OpId, other: OpId) -> Diag {
    let what = quoted_head(program.op(other).kind.name());
    let label = Message::advice(
        format!("`{}` occurs only in lowered programs", what.printed()),
        "with this, the program moves data by communications only",
    );
    let reduced = reduction_advice(program, op);
    if reduced.is_none()
        && let Some(diag) = declared_type_error(program, op)
    {
        return diag;
    }
    let select = device_select_error(program, op);
    let sent = if select.is_none() { transfer_advice(program, op) } else { None };
    let special = select.or_else(|| mesh_change_error(program, op));
    let diag = special.unwrap_or_else(|| {
        let name = quoted_op(program, op);
        let message = message!("this `{}` moves data between devices without a Communication, in a program that has communications or loops", name);
        Diag::error(codes::HALF_LOWERED, program.op_span(op), message)
    });
    diag.with_label(program.op_span(other), label).with_note(sent.or(reduced).unwrap_or_else(half_lowered_advice))
}

/// The transfer of an operand that only another rank has.
fn transfer_advice(program: &Program, op: OpId) -> Option<Message> {
    let found = program.op(op);
    let single = |tensor: TensorId| match program.tensor_mesh(tensor)?.devices.as_slice() {
        &[rank] => Some(rank),
        _ => None,
    };
    let result = found.output_tensors().next()?;
    let (operand, from) = found.input_tensors().find_map(|tensor| {
        let rank = single(tensor).filter(|&rank| Some(rank) != single(result))?;
        Some((tensor, rank))
    })?;
    single(result).filter(|_| program.is_hir2())?;
    let dtype = word_of_dtype(program.tensor(operand).dtype);
    let extents: Vec<String> = program
        .domains(operand)
        .iter()
        .filter(|domain| !domain.is_reduction())
        .map(|domain| short_expr_text(program, domain.extent))
        .collect();
    let (name, mesh) = (program.tensor_name(operand), program.mesh_name(program.tensor(result).mesh));
    let new = program.unused_tensor_name();
    Some(
        format!(
            "send it: `{new}: {dtype}[{}] @{mesh} = alloc`, then `wait send_recv({name} -> {new}, root={from})`, and take \
             `{new}` here",
            extents.join(", ")
        )
        .into(),
    )
}

/// The error for an op whose result is declared with another distribution over devices than its operands have, or one
/// of whose operands has.
fn declared_type_error(program: &Program, op: OpId) -> Option<Diag> {
    let found = program.op(op);
    let tensors: Vec<TensorId> = found.input_tensors().chain(found.output_tensors()).collect();
    let has_one_mesh = tensors.windows(2).all(|pair| program.tensor(pair[0]).mesh == program.tensor(pair[1]).mesh);
    if !program.is_hir2() || !has_one_mesh {
        return None;
    }
    let own = own_part_statement(program, op);
    let is_sharded = found.output_tensors().any(|result| is_sharded_result(program, result));
    if let Some(advice) = result_advice(program, op) {
        let (name, [declared, wanted]) = advice.result_types()?;
        let message = message!(
            "`{}` makes `{}` of its operands, but `{}` is declared as `{}`",
            quoted_statement(program, op),
            wanted,
            name,
            declared
        );
        let diag = advice.add_to(Diag::error(codes::HALF_LOWERED, program.op_span(op), message));
        return Some(match own.and_then(|own| own_part_note(program, op, &own, is_sharded)) {
            Some(note) => diag.with_note(note),
            None => diag,
        });
    }
    let own = own?.statement_text();
    let message = message!(
        "this `{}` needs parts of other devices: one operand is whole on each rank, and another is sharded",
        quoted_op(program, op)
    );
    let diag = Diag::error(codes::HALF_LOWERED, program.op_span(op), message);
    let diag = tensors.iter().fold(diag, |diag, tensor| with_declaration(diag, program, *tensor, op));
    Some(diag.with_note(message!("let each rank compute its own part: `{}`", own)))
}

fn is_sharded_result(program: &Program, result: TensorId) -> bool {
    logical_axes(program, result).axes.iter().any(|axis| axis.is_device_index())
}

/// `C[own] = matmul(G[rank], B)`: the statement that computes the rank's own part of a result.
struct OwnPartStatement {
    target: String,
    value: String,
}

impl OwnPartStatement {
    fn statement_text(&self) -> String {
        format!("{} = {}", self.target, self.value)
    }
}

/// The statements by which each rank computes its own part of a declared result; a whole one is gathered then.
fn own_part_note(program: &Program, id: OpId, own: &OwnPartStatement, is_sharded: bool) -> Option<Message> {
    if is_sharded {
        return Some(message!("or let each rank compute its own part: `{}`", own.statement_text()));
    }
    let (name, [_, wanted]) = result_advice(program, id)?.result_types()?;
    let free = program.unused_tensor_name();
    let (_, index) = own.target.split_once('[')?;
    Some(message!(
        "or gather it: `{}: {} = alloc`, `{}[{} = {}`, `{} = alloc` and `wait allgather({} -> {})`",
        free.clone(),
        wanted,
        free.clone(),
        index.replace("rank", "own"),
        own.value.clone(),
        name.clone(),
        free,
        name
    ))
}

/// The statement that computes the rank's own part of the result of an op.
fn own_part_statement(program: &Program, id: OpId) -> Option<OwnPartStatement> {
    let op = program.op(id);
    let mesh = program.mesh(program.tensor(op.output_tensors().next()?).mesh?);
    let is_numbered = mesh.shape.len() == 1 && mesh.devices.iter().copied().eq(0..mesh.devices.len() as u32);
    let is_plain = op.operands.iter().all(|operand| operand.as_tensor().is_some());
    if !is_numbered || !is_plain || !(op.kind.is_pointwise() || op.attrs.is_empty()) {
        return None;
    }
    let mut links: Vec<AxisLink> = Vec::new();
    op.kind.spec().axes(program, id, &mut links);
    let plain = links.iter().filter(|link| !link.broadcast);
    let shared = plain.filter(|link| [link.from, link.to].iter().any(|at| is_device_axis(program, at.0, at.1)));
    let axes: Vec<(TensorId, u32)> = shared.flat_map(|link| [link.from, link.to]).collect();
    let target = own_part_text(program, op.output_tensors().next()?, &axes)?;
    let operands = op.input_tensors().map(|tensor| own_part_text(program, tensor, &axes));
    let operands: Vec<String> = operands.collect::<Option<_>>()?;
    let name = op_display_name(program, id);
    let value = match operands.as_slice() {
        all if is_identifier(name) => format!("{name}({})", all.join(", ")),
        [left, right] => format!("{left} {name} {right}"),
        _ => return None,
    };
    Some(OwnPartStatement { target, value })
}

fn is_device_axis(program: &Program, tensor: TensorId, axis: u32) -> bool {
    logical_axes(program, tensor).axes.get(axis as usize).is_some_and(|axis| axis.is_device_index())
}

/// `A[own]` of a sharded tensor, `G[rank]` of a whole one, `B` of one without such an axis.
fn own_part_text(program: &Program, tensor: TensorId, axes: &[(TensorId, u32)]) -> Option<String> {
    let name = program.tensor_name(tensor);
    let Some(&(_, axis)) = axes.iter().find(|(of, _)| *of == tensor) else { return Some(name) };
    let before = logical_axes(program, tensor).stored_positions().iter().position(|at| *at == axis)?;
    let index = if is_device_axis(program, tensor, axis) { "own" } else { "rank" };
    is_identifier(&name).then(|| format!("{name}[{}{index}]", ":, ".repeat(before)))
}

/// The repair of a reduction over an axis that is sharded over devices.
fn reduction_advice(program: &Program, op: OpId) -> Option<Message> {
    let found = program.op(op);
    let (operand, result) = (found.input_tensors().next()?, found.output_tensors().next()?);
    found.attr(AttrKey::ReduceOp)?;
    let is_summed =
        logical_axes(program, result).axes.iter().any(|axis| axis.is_reduction() && axis.parallel.is_device());
    is_summed.then(|| {
        let name = program.tensor_name(operand);
        Message::advice(
            "reduce the part of each rank by a `reduction`, and the parts of all ranks by a Communication of type \
             Allreduce or ReduceScatter",
            format!(
                "reduce the rank's own part, a slice of `{name}` with `own`, into a local tensor `S`, and then the parts \
                 of all ranks by `wait allreduce(S -> R)` or `reduce_scatter`"
            ),
        )
    })
}

/// The most ranks of a tensor that an error lists.
const MOST_RANKS: usize = 8;

/// A tensor with its devices.
struct PlacedTensor<'a> {
    tensor: TensorId,
    mesh: &'a DeviceMesh,
}

/// Returns true if a communication writes a tensor.
fn is_received(program: &Program, tensor: TensorId) -> bool {
    program.ops().iter().any(|(_, op)| op.kind.is_communication() && op.output_tensors().any(|output| output == tensor))
}

/// Returns true if a branch is around an op.
fn is_in_branch(program: &Program, op: OpId) -> bool {
    enclosing_ops(program, op).iter().any(|around| !program.op(around.op).kind.is_loop())
}

/// The error for an op whose tensors are on different devices, which the ranks that run it do not change.
fn mesh_change_error(program: &Program, op: OpId) -> Option<Diag> {
    let found = program.op(op);
    let placed = |tensor| Some(PlacedTensor { tensor, mesh: program.tensor_mesh(tensor)? });
    let inputs: Vec<PlacedTensor> = found.input_tensors().filter_map(placed).collect();
    let all = || inputs.iter();
    let result = found.output_tensors().find_map(placed)?;
    // Of several, an operand: the result's mesh may follow from it.
    let few = all().chain([&result]).min_by_key(|at| at.mesh.devices.len())?;
    let many = all().chain([&result]).rev().find(|at| at.mesh.devices != few.mesh.devices)?;
    let [one, other] = [few, many].map(|at| program.quoted_tensor(at.tensor));
    let [one_place, other_place] = [few, many].map(|at| describe_place(program, at));
    let message = message!(
        "this `{}` needs {} and {} on the same devices, but {} is on {} and {} on {}",
        quoted_op(program, op),
        one,
        other,
        one,
        one_place,
        other,
        other_place
    );
    let everywhere = Message::advice("a tensor without a mesh", "a tensor `@all`");
    let is_result = few.tensor == result.tensor;
    let note = match is_result {
        true if is_received(program, many.tensor) => {
            let mesh = program.mesh_name(program.tensor(few.tensor).mesh);
            let (name, ty) = (program.tensor_name(many.tensor), declared_type_text(program, many.tensor));
            message!(
                "a communication brings {} to the ranks of its declaration: declare `{}`",
                other,
                format!("{name}: {ty} @{mesh}")
            )
        }
        true if !is_in_branch(program, op) => message!("declare {} as {}, which fits every mesh", other, everywhere),
        true => {
            message!("a branch does not change where {} is: declare it as {}, which fits every mesh", other, everywhere)
        }
        false => message!(
            "a branch does not change where {} is: copy it, on its ranks, into {}, which fits every mesh",
            one,
            everywhere
        ),
    };
    let diag = Diag::error(codes::HALF_LOWERED, program.op_span(op), message);
    Some(if transfer_advice(program, op).is_some() { diag } else { diag.with_note(note) })
}

/// `first (rank 0)`, or `ranks 0, 1` in the printed form.
fn describe_place(program: &Program, at: &PlacedTensor) -> Message {
    let ranks = match at.mesh.devices.as_slice() {
        [one] => format!("rank {one}"),
        few if few.len() <= MOST_RANKS => {
            let list: Vec<String> = few.iter().map(u32::to_string).collect();
            format!("ranks {}", list.join(", "))
        }
        all => format!("{} ranks", all.len()),
    };
    let mesh = program.quoted_mesh(program.tensor(at.tensor).mesh);
    match program.is_hir2() {
        true => message!("{} ({})", mesh, ranks),
        false => ranks.into(),
    }
}

/// The error for a select on an axis that is sharded over devices.
fn device_select_error(program: &Program, op: OpId) -> Option<Diag> {
    let found = program.op(op);
    let (domain, tensor) = (found.domain_attr(AttrKey::Axis)?, found.input_tensors().next()?);
    let position = stored_position(program, tensor, domain)?;
    let axes = logical_axes(program, tensor).axes;
    let axis = axes.iter().filter(|axis| !axis.is_reduction()).nth(position).filter(|axis| axis.is_sharded())?;
    let name = program.quoted_tensor(tensor);
    let message = message!(
        "this `{}` moves data between devices without a Communication: axis {} of {} is `{}`, of which each \
         rank holds one part, with index 0",
        quoted_op(program, op),
        position,
        name,
        axis_text(program, tensor, axis)
    );
    let list = message!("the axes of {} are {}; reductions do not count", name, list_axes(program, tensor));
    let diag = Diag::error(codes::HALF_LOWERED, program.op_span(op), message).with_note(list);
    // The number counts reductions, perhaps.
    let meant = axes.get(position).filter(|axis| !axis.is_sharded() && !axis.is_reduction());
    Some(match meant {
        Some(_) => {
            let before = axes[..position].iter().filter(|axis| !axis.is_reduction()).count();
            diag.with_note(message!("did you mean `axis = {}`?", before))
        }
        None => diag,
    })
}
