//! Advice about a proof's errors that needs the program beside the plans: the statement to write.

use super::output_advice::advise_output;
use super::tensor_writers::{base_name, writers_of};
use crate::diag::{Diag, DiagLabel, Message, UnwrittenPlace, codes};
use crate::hir2::defaults::is_host_select;
use crate::ir::{
    AttrKey, BinaryOp, EnclosingOp, Expr, OpId, Program, RankScalars, ShiftedPeer, TensorId, branch_condition,
    enclosing_ops, op_display_name, short_expr_text,
};
use crate::lower::PreparedProgram;

/// Adds advice to the errors of a proof of a program in `hir 2`.
pub(super) fn add_advice(program: &Program, prepared: &PreparedProgram, errors: &mut [Diag]) {
    if !program.is_hir2() {
        return;
    }
    for diag in errors {
        match diag.code {
            codes::DISAGREEMENT => {
                advise_root(program, diag);
                advise_pieces(program, diag);
            }
            codes::DEADLOCK => advise_peers(program, diag),
            // Only an op that overlaps itself has no order that is missing.
            codes::RACE if diag.labels.is_empty() && diag.race().is_none() => advise_in_place(program, diag),
            codes::UNINITIALISED => advise_first_write(program, diag),
            codes::UNWRITTEN_OUTPUT => advise_output(program, prepared, diag),
            _ => {}
        }
    }
}

/// The statement at a place.
fn op_at(program: &Program, start: u32) -> Option<OpId> {
    let mut found = None;
    program.walk(program.body(), &mut |id| {
        let is_there = program.op_span(id).start == start && !is_host_select(program.op(id).kind);
        if is_there && found.is_none() {
            found = Some(id);
        }
    });
    found
}

fn primary_op(program: &Program, diag: &Diag) -> Option<OpId> {
    op_at(program, diag.primary.as_ref()?.span.start)
}

/// The index of the innermost loop around a statement.
fn innermost_index(program: &Program, id: OpId) -> Option<String> {
    let mut around = enclosing_ops(program, id).into_iter();
    let index = around.find_map(|around| {
        let op = program.op(around.op);
        op.expr_attr(AttrKey::Index).filter(|_| op.kind.is_loop())
    });
    index.map(|index| short_expr_text(program, index))
}

/// A root that is another number on each rank.
fn advise_root(program: &Program, diag: &mut Diag) {
    let Some(id) = primary_op(program, diag) else { return };
    let Some(root) = program.op(id).expr_attr(AttrKey::Root) else { return };
    let is_one_statement = diag.labels.iter().all(|label| Some(label.span) == diag.primary.as_ref().map(|at| at.span));
    if !is_one_statement || !RankScalars::new(program).is_dependent(program, root) {
        return;
    }
    let root = short_expr_text(program, root);
    let shared = innermost_index(program, id).unwrap_or_else(|| "0".to_owned());
    diag.notes = vec![
        format!("`root={root}` is another number on each rank: name one root for all of them, such as `root={shared}`")
            .into(),
    ];
}

/// A message that one side transfers at once, and the other one in the pieces of a loop.
fn advise_pieces(program: &Program, diag: &mut Diag) {
    let labels = diag.primary.iter().chain(&diag.labels);
    let ops: Vec<OpId> = labels.filter_map(|label| op_at(program, label.span.start)).collect();
    let &[one, other] = ops.as_slice() else { return };
    if !program.op(one).kind.is_message() || !program.op(other).kind.is_message() {
        return;
    }
    let [first, second] = [one, other].map(|id| innermost_index(program, id));
    let (pieces, whole, index) = match (first, second) {
        (Some(index), None) => (one, other, index),
        (None, Some(index)) => (other, one, index),
        _ => return,
    };
    let names = [pieces, whole].map(|id| program.op(id).all_tensors().next().map(|tensor| program.tensor_name(tensor)));
    let [Some(piece), Some(whole)] = names else { return };
    let base = base_name(&piece);
    diag.notes.push(
        format!(
            "transfer the same on both sides: all of `{base}` without the loop, or `{whole}[{index}]` in one like it"
        )
        .into(),
    );
}

/// A send and a receive whose peers do not answer each other.
fn advise_peers(program: &Program, diag: &mut Diag) {
    let labels = diag.primary.iter().chain(&diag.labels);
    let ops: Vec<OpId> = labels.filter_map(|label| op_at(program, label.span.start)).collect();
    let peers = ops.iter().filter_map(|&id| {
        let op = program.op(id);
        let word = program.name(op.word_attr(AttrKey::Type).filter(|_| op.kind.is_message())?);
        Some((word, ShiftedPeer::of_expr(program, op.expr_attr(AttrKey::Peer)?)?))
    });
    let peers: Vec<(&str, ShiftedPeer)> = peers.collect();
    let Some((_, sent)) = peers.iter().find(|(word, _)| *word == "send") else { return };
    let mut received = peers.iter().filter(|(word, _)| *word == "recv").map(|(_, peer)| *peer);
    let Some(answer) = sent.answering_peer().filter(|answer| received.next().is_some_and(|peer| peer != *answer))
    else {
        return;
    };
    let [to, from] = [*sent, answer].map(|peer| peer.short_text(program));
    diag.notes.push(format!("`to={to}` is answered by `from={from}`").into());
}

/// The statements for an op that cannot work in place.
fn advise_in_place(program: &Program, diag: &mut Diag) {
    let Some(id) = primary_op(program, diag) else { return };
    let op = program.op(id);
    let operands: Option<Vec<String>> =
        op.operands.iter().map(|operand| operand.as_tensor().map(|tensor| program.tensor_name(tensor))).collect();
    let (Some(operands), Some(result)) = (operands, op.output_tensors().next()) else { return };
    if op.kind.is_communication() || op.attr(AttrKey::Perm).is_some() {
        return;
    }
    let (name, word, result) =
        (program.unused_tensor_name(), op_display_name(program, id), program.tensor_name(result));
    let first = match (BinaryOp::parse(word), operands.as_slice()) {
        (Some(sign), [a, b]) => format!("{name} = {a} {} {b}", sign.symbol()),
        _ => format!("{name} = {word}({})", operands.join(", ")),
    };
    diag.notes.push(format!("write `{first}`, and then `{result} = Set({name})`").into());
}

/// Memory that is read before anything has written it.
fn advise_first_write(program: &Program, diag: &mut Diag) {
    let Some(reader) = primary_op(program, diag) else { return };
    let inputs: Vec<TensorId> = program.op(reader).input_tensors().collect();
    let names: Vec<String> = inputs.iter().map(|tensor| program.tensor_name(*tensor)).collect();
    let Some(place) = diag.unwritten_place().cloned() else { return };
    let Some(read) = names.iter().find(|name| base_name(name) == place.tensor) else { return };
    let base = base_name(read);
    let writers = writers_of(program, base);
    let Some(&writer) = writers.first() else {
        let note =
            format!("no statement writes `{base}`: fill it, or give it the memory that is meant, `alloc(share=..)`");
        diag.notes.push(note.into());
        return;
    };
    let note = own_slice_note(program, read, &place)
        .or_else(|| other_path_note(program, [reader, writer], base).filter(|_| writers.len() == 1));
    diag.notes.extend(note);
    if diag.labels.is_empty() && writer != reader {
        let span = program.op_span(writer);
        diag.labels.push(DiagLabel { span, text: format!("`{base}` is written here").into() });
    }
}

/// The slice of the rank's own number, which no message brings.
fn own_slice_note(program: &Program, read: &str, place: &UnwrittenPlace) -> Option<Message> {
    let (base, items) = read.split_once('[')?;
    let item = items.trim_end_matches(']').split(", ").next()?;
    let index = program.names().find_symbol(item);
    let scalar = index.and_then(|index| program.exprs().find_expr(&Expr::Name(index)));
    let scalars = RankScalars::new(program);
    let is_rank = item == "rank" || scalar.is_some_and(|scalar| scalars.is_dependent(program, scalar));
    let own = format!("{base}[{}", place.rank);
    let is_own = place.first.strip_prefix(&own).is_some_and(|rest| rest.starts_with([',', ']']));
    if !is_rank || !is_own {
        return None;
    }
    let source = unread_input(program).map_or_else(|| "..".to_owned(), |input| format!("{input}[own]"));
    Some(
        format!(
            "it is the slice of the rank's own number, which no other rank sends: copy it there first, \
             `{base}[rank] = Set({source})`"
        )
        .into(),
    )
}

/// The only input with an axis over devices that no statement reads.
fn unread_input(program: &Program) -> Option<String> {
    let mut read: Vec<TensorId> = Vec::new();
    program.walk(program.body(), &mut |id| read.extend(program.op(id).input_tensors()));
    let inputs = program.inputs().iter().filter_map(|input| input.as_tensor());
    let mut unread = inputs.filter(|input| {
        !read.contains(input) && program.domains(*input).first().is_some_and(|domain| domain.parallel.is_device())
    });
    let input = unread.next()?;
    unread.next().is_none().then(|| program.tensor_name(input))
}

/// A tensor that only one path of a branch writes.
fn other_path_note(program: &Program, [reader, writer]: [OpId; 2], base: &str) -> Option<Message> {
    let of_reader: Vec<EnclosingOp> = enclosing_ops(program, reader);
    let around = enclosing_ops(program, writer).into_iter();
    let mut only = around.filter(|around| !of_reader.contains(around) && program.op(around.op).kind.is_branch());
    let branch = only.next().or_else(|| {
        // Both are on one path: the other one leaves the tensor as it was.
        let mut shared = of_reader.iter().copied();
        shared.rfind(|around| program.op(around.op).kind.is_branch())
    })?;
    let condition = branch_condition(program, EnclosingOp { block: 0, ..branch })?;
    let condition = short_expr_text(program, condition);
    let path = if branch.block == 0 { "where" } else { "in the `else` of" };
    Some(format!("`{base}` is written only {path} `{condition}`: write it on the other path, too").into())
}
