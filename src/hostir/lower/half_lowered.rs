//! The error for a program in which some ops are lowered and others move data between devices.

use crate::axes::{axis_text, list_axes, logical_axes, stored_position};
use crate::diag::message;
use crate::diag::{Diag, Message, codes};
use crate::ir::{AttrKey, DeviceMesh, OpId, Program, TensorId, quoted_head, quoted_op};
use crate::ops::comm::half_lowered_advice;

/// The error that `op` moves data between devices, in a program in which `other` is lowered.
pub(super) fn half_lowered_error(program: &Program, op: OpId, other: OpId) -> Diag {
    let what = quoted_head(program.op(other).kind.name());
    let label = Message::advice(
        format!("`{}` occurs only in lowered programs", what.printed()),
        "with this, the program moves data by communications only",
    );
    let reduced = reduction_advice(program, op);
    let special = device_select_error(program, op).or_else(|| mesh_change_error(program, op));
    let diag = special.unwrap_or_else(|| {
        let name = quoted_op(program, op);
        let message = message!("this `{}` moves data between devices without a Communication, in a program that has communications or loops", name);
        Diag::error(codes::HALF_LOWERED, program.op_span(op), message)
    });
    diag.with_label(program.op_span(other), label).with_note(reduced.unwrap_or_else(half_lowered_advice))
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
    let note = match few.tensor == result.tensor {
        true => {
            message!("a branch does not change where {} is: declare it as {}, which fits every mesh", other, everywhere)
        }
        false => message!(
            "a branch does not change where {} is: copy it, on its ranks, into {}, which fits every mesh",
            one,
            everywhere
        ),
    };
    Some(Diag::error(codes::HALF_LOWERED, program.op_span(op), message).with_note(note))
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
