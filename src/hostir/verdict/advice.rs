//! Advice about a proof's errors that needs the program beside the plans: the statement to write.

use super::output_advice::{advise_output, rooted_note};
use super::tensor_writers::{base_name, writers_of};
use crate::diag::{Cause, CountMismatch, Diag, DiagLabel, Message, Span, UnwrittenPlace, codes};
use crate::hir2::defaults::is_host_select;
use crate::ir::{
    AttrKey, BinaryOp, ChildPeer, EnclosingOp, Expr, ExprId, NeighbourTeam, OpId, Program, RankScalars, ShiftedPeer,
    TensorId, Value, branch_condition, enclosing_ops, op_display_name, short_expr_text,
};
use crate::lower::PreparedProgram;

/// The length of the word that a label of a branch marks.
const IF_WORD: u32 = 2;

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
            codes::DEADLOCK => {
                advise_peers(program, diag);
                advise_team(program, prepared, diag);
                advise_counts(program, diag);
                label_path(program, diag);
            }
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
    let Some(mismatch) = diag.peer_mismatch() else { return };
    let sides = [mismatch.posted, mismatch.answered].map(|span| {
        let op = program.op(op_at(program, span.start)?);
        let word = program.name(op.word_attr(AttrKey::Type)?);
        Some((if word == "send" { "to" } else { "from" }, op.expr_attr(AttrKey::Peer)?))
    });
    let [Some((word, peer)), Some((other_word, other))] = sides else { return };
    let [text, other_text] = [peer, other].map(|peer| short_expr_text(program, peer));
    let [rank, second] = mismatch.ranks;
    let note = match answer_text(program, peer).filter(|answer| *answer != other_text) {
        Some(answer) => {
            format!("`{word}={text}` is answered by `{other_word}={answer}`, not `{other_word}={other_text}`")
        }
        None => format!(
            "`{word}={text}` is {second} on rank {rank}, so `{other_word}={other_text}` has to be {rank} on rank {second}, \
             and is {}",
            mismatch.found
        ),
    };
    diag.notes.insert(1.min(diag.notes.len()), note.into());
}

/// Messages of which one side has fewer: the branch or the loop that leaves some out.
fn advise_counts(program: &Program, diag: &mut Diag) {
    let Some(Cause::Counts(mismatch)) = diag.cause.as_deref() else { return };
    let note = match mismatch.answered.map(|span| op_at(program, span.start)) {
        Some(answer) => {
            answer.and_then(|answer| left_out_note(program, answer, op_at(program, mismatch.posted.start)?))
        }
        None => other_path_message(program, *mismatch),
    };
    if let Some(note) = note {
        diag.notes.insert(1.min(diag.notes.len()), note);
    }
}

/// `recv(G[j], from=rank + 1)` of a message, as `hir 2` writes it.
fn message_text(program: &Program, id: OpId) -> Option<String> {
    let op = program.op(id);
    let word = program.name(op.word_attr(AttrKey::Type).filter(|_| op.kind.is_message())?);
    let peer = short_expr_text(program, op.expr_attr(AttrKey::Peer)?);
    let tensor = program.tensor_name(op.all_tensors().next()?);
    let side = if word == "send" { "to" } else { "from" };
    Some(format!("{word}({tensor}, {side}={peer})"))
}

/// The branch that leaves out a message in some steps of a loop, or the loop in which the other side is missing.
fn left_out_note(program: &Program, answer: OpId, posted: OpId) -> Option<Message> {
    let text = message_text(program, answer)?;
    let scalars = RankScalars::new(program);
    let mut conditions = enclosing_ops(program, answer).into_iter().filter_map(|at| branch_condition(program, at));
    let indices: Vec<String> = [answer, posted].iter().filter_map(|&id| innermost_index(program, id)).collect();
    let in_step = conditions.find(|&condition| {
        let condition_text = short_expr_text(program, condition);
        let mut words = condition_text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        !scalars.is_dependent(program, condition) && words.any(|word| indices.iter().any(|index| index == word))
    });
    if let Some(condition) = in_step {
        let condition = short_expr_text(program, condition);
        return Some(format!("`{text}` is in `if {condition}`, which leaves steps out that the other side has").into());
    }
    match indices.as_slice() {
        [own, other] if own != other => Some(
            format!(
                "`{text}` is in the loop of `{own}` only, and the other side in that of `{other}`: write one like it where \
                 this rank does the same step, in one group with its own message there"
            )
            .into(),
        ),
        _ => None,
    }
}

/// The statement that a rank without any message of the other side does not run.
fn other_path_message(program: &Program, mismatch: CountMismatch) -> Option<Message> {
    let missing = if mismatch.sends { "recv" } else { "send" };
    let scalars = RankScalars::new(program);
    let mut found = None;
    program.walk(program.body(), &mut |id| {
        let op = program.op(id);
        let is_side =
            op.kind.is_message() && op.word_attr(AttrKey::Type).is_some_and(|word| program.name(word) == missing);
        let mut around = enclosing_ops(program, id).into_iter().filter_map(|at| branch_condition(program, at));
        let condition = around.find(|&condition| scalars.is_dependent(program, condition));
        if let Some(condition) = condition.filter(|_| is_side && found.is_none()) {
            found = Some((id, condition));
        }
    });
    let (id, condition) = found?;
    let (text, condition) = (message_text(program, id)?, short_expr_text(program, condition));
    let [rank, peer] = mismatch.ranks;
    let verb = if mismatch.sends { "receive" } else { "send" };
    Some(
        format!(
            "rank {peer} does not take `if {condition}`, which has `{text}`: let it {verb} there, too, or leave this \
             message out on rank {rank}"
        )
        .into(),
    )
}

/// Teams of neighbours, of which each rank computes another one.
fn advise_team(program: &Program, prepared: &PreparedProgram, diag: &mut Diag) {
    if diag.cause.as_deref() != Some(&Cause::Teams) {
        return;
    }
    let team = primary_op(program, diag).and_then(|id| NeighbourTeam::of_op(program, program.op(id)));
    let Some(team) = team.filter(|team| team.divides(prepared.ranks)) else { return };
    let note = format!("write `{}` for groups of ranks that follow one another", team.group_text());
    diag.notes.insert(1.min(diag.notes.len()), note.into());
}

/// The branch that only the ranks take which start a collective.
fn label_path(program: &Program, diag: &mut Diag) {
    let Some(started) = diag.started_members() else { return };
    let ranks = match started {
        [rank] => format!("only rank {rank} takes"),
        _ => {
            let numbers: Vec<String> = started.iter().map(i64::to_string).collect();
            format!("only ranks {} take", numbers.join(", "))
        }
    };
    let Some(post) = primary_op(program, diag).and_then(|id| started_by(program, id)) else { return };
    let scalars = RankScalars::new(program);
    let branch = enclosing_ops(program, post).into_iter().find(|&around| {
        let condition = branch_condition(program, EnclosingOp { block: 0, ..around });
        condition.is_some_and(|condition| scalars.is_dependent(program, condition))
    });
    let Some(branch) = branch else { return };
    let path = if branch.block == 0 { "this branch" } else { "the `else` of this" };
    let start = program.op_span(branch.op).start;
    let span = Span { start, end: start + IF_WORD };
    diag.labels.push(DiagLabel { span, text: format!("{ranks} {path}").into() });
}

/// The communication that a statement waits for, or the statement itself.
fn started_by(program: &Program, id: OpId) -> Option<OpId> {
    let op = program.op(id);
    if !op.kind.is_wait() {
        return Some(id);
    }
    let mut found = None;
    program.walk(program.body(), &mut |post| {
        let number = program.op(post).number().map(Value::Handle).filter(|_| !program.op(post).kind.is_wait());
        if found.is_none() && number.is_some_and(|number| op.operands.contains(&number)) {
            found = Some(post);
        }
    });
    found
}

/// The peer of the other side of a message.
fn answer_text(program: &Program, peer: ExprId) -> Option<String> {
    let shifted = ShiftedPeer::of_expr(program, peer).map(|peer| peer.answering_peer().short_text(program));
    shifted.or_else(|| ChildPeer::of_expr(program, peer).map(|child| child.parent_text(program)))
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
    let note = rooted_note(program, writer).filter(|_| writers.len() == 1);
    let note = note
        .or_else(|| own_slice_note(program, read, &place))
        .or_else(|| other_path_note(program, [reader, writer], base).filter(|_| writers.len() == 1))
        .or_else(|| before_loop_note(program, reader, read, &place));
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

/// The part that a loop reads before its first iteration has written one: that of the step before, or a sum.
fn before_loop_note(program: &Program, reader: OpId, read: &str, place: &UnwrittenPlace) -> Option<Message> {
    let base = base_name(read);
    let of_memory = loops_of_memory(program, base);
    let loops = enclosing_ops(program, reader).into_iter().filter(|around| !of_memory.contains(around));
    let is_sum = program.op(reader).output_tensors().any(|tensor| program.tensor_name(tensor) == read);
    let writers = writers_of(program, base).into_iter();
    let mut written = writers.flat_map(|writer| program.op(writer).output_tensors());
    if !is_sum && written.any(|tensor| program.tensor_name(tensor) == read) {
        return None;
    }
    let loops = loops.filter(|around| program.op(around.op).kind.is_loop());
    let indices = loops.filter_map(|around| program.op(around.op).expr_attr(AttrKey::Index));
    let indices: Vec<String> = indices.map(|index| short_expr_text(program, index)).collect();
    if is_sum {
        // The sum goes over the loops whose index it does not have.
        let around = indices.iter().rposition(|index| !has_word(read, index))?;
        let index = &indices[around];
        let part = if indices[..around].iter().any(|inner| has_word(read, inner)) { base } else { read };
        let note =
            format!("`{part}` goes on from step to step of the loop of `{index}`: give it a value before the loop");
        return Some(note.into());
    }
    let index = indices.iter().find(|index| has_word(read, index))?;
    let part = first_part(read, index, &place.first)?;
    Some(format!("the loop of `{index}` reads `{part}` first: write that before the loop").into())
}

/// The loops and branches around the statement that gives a tensor its memory.
fn loops_of_memory(program: &Program, base: &str) -> Vec<EnclosingOp> {
    let mut found = Vec::new();
    program.walk(program.body(), &mut |id| {
        let op = program.op(id);
        let mut allocated = op.output_tensors().filter(|_| op.kind.is_allocation());
        if allocated.any(|tensor| program.tensor_name(tensor) == base) {
            found.extend(enclosing_ops(program, id));
        }
    });
    found
}

/// The part of a tensor in the first step of a loop, `Y[0]` of `Y[i - 1]`, by the place of an element of it.
fn first_part(read: &str, index: &str, element: &str) -> Option<String> {
    let [(base, items), (_, numbers)] = [read.split_once('[')?, element.split_once('[')?];
    let [items, numbers] = [items, numbers].map(|list| list.trim_end_matches(']').split(", "));
    let parts: Vec<&str> =
        items.zip(numbers).map(|(item, number)| if has_word(item, index) { number } else { item }).collect();
    Some(format!("{base}[{}]", parts.join(", ")))
}

/// Returns true if a text has a word.
fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|found| found == word)
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
