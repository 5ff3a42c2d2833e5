//! Collectives of tensors that are local to each rank: what is gathered from a rank, or scattered to it, is the rank's
//! part of a tensor that is sharded over the team. An all-to-all has as much on both sides, and may be of local tensors.

use crate::axes::pairing::{AxisMismatch, LinkSide};
use crate::diag::{Message, codes, message};
use crate::ir::{
    MeshId, MeshTextPiece, Op, OpId, ParallelType, Program, is_identifier, quoted_axis, quoted_op, word_of_dtype,
};

/// The mismatch of a collective in `hir 2` whose input or output should be sharded, but has no axis over devices.
pub(super) fn find_local_part(
    program: &Program,
    id: OpId,
    kind: &str,
    from: &LinkSide,
    to: &LinkSide,
) -> Option<AxisMismatch> {
    let op = program.op(id);
    if !program.is_hir2() || program.team_size(op)? < 2 {
        return None;
    }
    let is_local = |side: &LinkSide| !program.domains(side.tensor).iter().any(|domain| domain.parallel.is_device());
    if matches!(kind, "Gather" | "Allgather") && is_local(from) {
        let name = program.tensor_name(from.tensor);
        let message = message!(
            "`{}` takes a rank's part of a sharded tensor, but `{}` is local to each rank",
            quoted_op(program, id),
            program.quoted_tensor(from.tensor)
        );
        let note = match name.split_once('[') {
            Some((whole, items)) => slice_note(whole, items),
            None => {
                let ty = sharded_type(program, op, from);
                message!(
                    "write `{}s: {} = alloc` and `{}s[own] = Set({})`, and give it `{}s`",
                    name,
                    ty,
                    name,
                    name,
                    name
                )
            }
        };
        return Some(AxisMismatch { code: codes::LOCAL_PART, message, note, tensor: Some(from.tensor) });
    }
    if matches!(kind, "Scatter" | "ReduceScatter") && is_local(to) {
        let message = message!(
            "`{}` leaves each rank a part of its result, but `{}` is local to each rank",
            quoted_op(program, id),
            program.quoted_tensor(to.tensor)
        );
        let (name, ty) = (program.tensor_name(to.tensor), sharded_type(program, op, to));
        let note = match name.split_once('[') {
            Some((whole, items)) => slice_note(whole, items),
            None => message!("declare `{}: {}`; the part of a rank is `{}[own]`", name, ty, name),
        };
        return Some(AxisMismatch { code: codes::LOCAL_PART, message, note, tensor: Some(to.tensor) });
    }
    None
}

/// The note for a slice `whole[items`: without `own`, it keeps the axis over the devices.
fn slice_note(whole: &str, items: &str) -> Message {
    let mut items: Vec<&str> = items.trim_end_matches(']').split(", ").collect();
    if !items.contains(&"own") {
        return message!("give it `{}`, if that is sharded over the team", whole);
    }
    items.iter_mut().filter(|item| **item == "own").for_each(|item| *item = ":");
    let kept = items.iter().rposition(|item| *item != ":").map_or(0, |last| last + 1);
    let slice = if kept == 0 { whole.to_owned() } else { format!("{whole}[{}]", items[..kept].join(", ")) };
    message!("write `{}`: `own` takes the rank's part alone, without its axis over the devices", slice)
}

/// `f32[x:4, m, n]`: the type of the tensor whose part on a rank is `side`.
fn sharded_type(program: &Program, op: &Op, side: &LinkSide) -> Message {
    let tensor = program.tensor(side.tensor);
    let (mesh, axis) = match program.team_axis(op) {
        Some((mesh, axis)) => (Some(mesh), axis),
        None => (tensor.mesh.or(program.meshes().ids().next()), ParallelType::DIDx),
    };
    let letter = axis.name().trim_start_matches("deviceIdx.");
    let count = mesh.and_then(|mesh| sized_extent(program, mesh, axis));
    let count = count.unwrap_or_else(|| program.team_size(op).unwrap_or_default().to_string());
    let stored = program.domains(side.tensor).iter().filter(|domain| !domain.is_reduction());
    let axes: Vec<Message> = stored.map(|domain| message!("{}", quoted_axis(program, domain))).collect();
    let first = message!("{}:{}", letter, count);
    let all = Message::join(std::iter::once(&first).chain(&axes), ", ");
    message!("{}[{}]", word_of_dtype(tensor.dtype), all)
}

/// The size that gives a mesh of one axis, `p` of `0..p`.
fn sized_extent(program: &Program, mesh: MeshId, axis: ParallelType) -> Option<String> {
    let pieces = program.given_names().sized.texts.get(&mesh).filter(|_| axis == ParallelType::DIDx)?;
    let texts = pieces.iter().map(|piece| match piece {
        MeshTextPiece::Text(text) => text,
        MeshTextPiece::Name(name) => program.name(*name),
    });
    let text: String = texts.collect();
    text.strip_prefix("0..").filter(|rest| is_identifier(rest)).map(str::to_owned)
}
