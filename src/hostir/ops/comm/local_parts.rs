//! Collectives of tensors that are local to each rank: what is gathered from a rank, or scattered to it, is the rank's
//! part of a tensor that is sharded over the team. An all-to-all has as much on both sides, and may be of local tensors.

use crate::axes::pairing::{AxisMismatch, LinkSide};
use crate::diag::{Message, codes, message};
use crate::ir::{
    MeshCoordinate, Op, OpId, ParallelType, Program, quoted_axis, quoted_op, short_expr_text, word_of_dtype,
};
use crate::ops::expected_types::team_axis::{TeamAxis, divided_extent};

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
    if let Some(mismatch) = other_mesh_axis(program, id, kind, from, to) {
        return Some(mismatch);
    }
    if matches!(kind, "Gather" | "Allgather") && is_local(from) {
        let name = program.tensor_name(from.tensor);
        let message = message!(
            "`{}` takes a rank's part of a sharded tensor, but `{}` is local to each rank",
            quoted_op(program, id),
            program.quoted_tensor(from.tensor)
        );
        let note = match name.split_once('[') {
            Some((whole, _)) if program.tensor_name(to.tensor) == whole => gathered_note(program, to),
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
        let name = program.tensor_name(to.tensor);
        let note = match name.split_once('[') {
            Some((whole, items)) => slice_note(whole, items),
            None => scattered_note(program, op, from, to).unwrap_or_else(|| {
                message!("declare `{}: {}`; the part of a rank is `{}[own]`", name, sharded_type(program, op, to), name)
            }),
        };
        return Some(AxisMismatch { code: codes::LOCAL_PART, message, note, tensor: Some(to.tensor) });
    }
    None
}

/// The mismatch of a collective whose teams are along one axis of a mesh, while the tensor that has a part for each
/// member lies along another one: its members all have the same part.
fn other_mesh_axis(program: &Program, id: OpId, kind: &str, from: &LinkSide, to: &LinkSide) -> Option<AxisMismatch> {
    let (mesh, along) = program.team_axis(program.op(id))?;
    let side = match kind {
        "Gather" | "Allgather" => from,
        "Scatter" | "ReduceScatter" => to,
        _ => return None,
    };
    let across: Vec<ParallelType> = program.domains(side.tensor).iter().map(|domain| domain.parallel).collect();
    let own = *across.iter().find(|axis| axis.is_device())?;
    let declared = program.tensor(side.tensor).mesh;
    if across.contains(&along) || declared.is_some_and(|declared| declared != mesh) {
        return None;
    }
    let [team, meant] = [along, own].map(|axis| program.mesh_coordinate_name(mesh, MeshCoordinate::Along(axis)));
    let message = message!(
        "the ranks of a team along `{}` all have the same part of `{}`, which lies along `{}`",
        team,
        program.quoted_tensor(side.tensor),
        meant
    );
    let name = program.quoted_tensor(side.tensor);
    let note = message!("write `over={}`, or declare `{}` with an axis along `{}`", meant, name, team);
    Some(AxisMismatch { code: codes::LOCAL_PART, message, note, tensor: Some(side.tensor) })
}

/// The note for a collective that takes a slice of its own result: the inputs that are sharded.
fn gathered_note(program: &Program, to: &LinkSide) -> Message {
    let inputs = program.inputs().iter().filter_map(|input| input.as_tensor());
    let rank = to.stored_positions().len();
    let sharded = inputs.filter(|input| {
        let domains = program.domains(*input);
        domains.len() == rank && domains.iter().any(|domain| domain.parallel.is_device())
    });
    let names: Vec<String> = sharded.map(|input| format!("`{}`", program.tensor_name(input))).collect();
    match names.is_empty() {
        true => "give it a tensor that is sharded over the team".into(),
        false => message!("give it a tensor that is sharded over the team: {}", names.join(" or ")),
    }
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
    let TeamAxis { letter, count, .. } = TeamAxis::of_tensor(program, op, side.tensor);
    let stored = program.domains(side.tensor).iter().filter(|domain| !domain.is_reduction());
    let axes: Vec<Message> = stored.map(|domain| message!("{}", quoted_axis(program, domain))).collect();
    let first = message!("{}:{}", letter, count);
    let all = Message::join(std::iter::once(&first).chain(&axes), ", ");
    message!("{}[{}]", word_of_dtype(program.tensor(side.tensor).dtype), all)
}

/// The types of both sides of a collective that leaves each rank a part of what it is given: the outermost axis of a
/// rank's operand has a part for each member.
pub(super) fn scattered_note(program: &Program, op: &Op, from: &LinkSide, to: &LinkSide) -> Option<Message> {
    let TeamAxis { letter, count, .. } = TeamAxis::of_tensor(program, op, to.tensor);
    let stored = from.stored_positions();
    let axes = stored.iter().map(|&at| &from.axes.axes[at as usize]).filter(|axis| !axis.is_device_index());
    let extents: Vec<String> = axes.map(|axis| short_expr_text(program, axis.extent)).collect();
    let (first, rest) = extents.split_first()?;
    let (operand, result) = (program.tensor_name(from.tensor), program.tensor_name(to.tensor));
    if result.contains('[') || !program.is_hir2() {
        return None;
    }
    let dtype = word_of_dtype(program.tensor(to.tensor).dtype);
    if *first == count {
        let axes = [vec![format!("{letter}:{count}")], rest.to_vec()].concat().join(", ");
        return Some(message!(
            "axis 0 of a rank's operand has a part for each rank: declare `{}: {}[{}]`; the part of a rank is `{}[own]`",
            result,
            dtype,
            axes,
            result
        ));
    }
    let part = divided_extent(first, &count)?;
    let parts = [vec![part], rest.to_vec()].concat().join(", ");
    let (declared, is_own) = match operand.split_once('[') {
        Some((whole, "own]")) => (whole.to_owned(), true),
        Some(_) => return None,
        None => (operand, stored.len() > extents.len()),
    };
    let across = if is_own { format!("{letter}:{count}, ") } else { String::new() };
    Some(message!(
        "a rank gets one of {} parts of its operand: declare `{}: {}[{}{}, {}]` and `{}: {}[{}:{}, {}]`",
        count,
        declared,
        dtype,
        across,
        count,
        parts,
        result,
        dtype,
        letter,
        count,
        parts
    ))
}
