//! Collectives of tensors that are local to each rank: what is gathered from a rank, or scattered to it, is the rank's
//! part of a tensor that is sharded over the team. An all-to-all has as much on both sides, and may be of local tensors.

use crate::axes::pairing::{AxisMismatch, LinkSide};
use crate::diag::{Message, codes, message};
use crate::ir::{
    MeshId, MeshTextPiece, Op, OpId, ParallelType, Program, is_identifier, quoted_axis, quoted_op, short_expr_text,
    word_of_dtype,
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

/// The axis over the devices of a team: its letter, and the number of members.
struct TeamAxis {
    letter: &'static str,
    count: String,
}

impl TeamAxis {
    fn of_op(program: &Program, op: &Op, side: &LinkSide) -> Self {
        let (mesh, axis) = match program.team_axis(op) {
            Some((mesh, axis)) => (Some(mesh), axis),
            None => (program.tensor(side.tensor).mesh.or(program.meshes().ids().next()), ParallelType::DIDx),
        };
        let count = mesh.and_then(|mesh| sized_extent(program, mesh, axis));
        Self {
            letter: axis.name().trim_start_matches("deviceIdx."),
            count: count.unwrap_or_else(|| program.team_size(op).unwrap_or_default().to_string()),
        }
    }
}

/// `f32[x:4, m, n]`: the type of the tensor whose part on a rank is `side`.
fn sharded_type(program: &Program, op: &Op, side: &LinkSide) -> Message {
    let TeamAxis { letter, count } = TeamAxis::of_op(program, op, side);
    let stored = program.domains(side.tensor).iter().filter(|domain| !domain.is_reduction());
    let axes: Vec<Message> = stored.map(|domain| message!("{}", quoted_axis(program, domain))).collect();
    let first = message!("{}:{}", letter, count);
    let all = Message::join(std::iter::once(&first).chain(&axes), ", ");
    message!("{}[{}]", word_of_dtype(program.tensor(side.tensor).dtype), all)
}

/// The types of both sides of a collective that leaves each rank a part of what it is given: the outermost axis of a
/// rank's operand has a part for each member.
pub(super) fn scattered_note(program: &Program, op: &Op, from: &LinkSide, to: &LinkSide) -> Option<Message> {
    let TeamAxis { letter, count } = TeamAxis::of_op(program, op, to);
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

/// `n / 4`, or the number; `None` if it is not whole.
fn divided_extent(extent: &str, count: &str) -> Option<String> {
    match (extent.parse::<i64>(), count.parse::<i64>()) {
        (Ok(extent), Ok(count)) => (count > 0 && extent % count == 0).then(|| (extent / count).to_string()),
        _ if is_identifier(extent) => Some(format!("{extent} / {count}")),
        _ => Some(format!("({extent}) / {count}")),
    }
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
