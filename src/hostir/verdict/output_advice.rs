//! Advice about outputs that are not written as a whole: a loop that is too short, an index that never changes, or a
//! result of another name.

use super::tensor_writers::{base_name, writers_of};
use crate::diag::{Diag, DiagLabel, Message};
use crate::hir2::defaults::is_host_select;
use crate::ir::{
    AttrKey, ExprId, OffsetExpr, OpId, Program, Symbol, TensorId, depends_on_scalar, enclosing_ops, scalar_names,
    short_expr_text,
};
use crate::lower::PreparedProgram;

/// Adds the statement that was probably meant to the error of an output.
pub(super) fn advise_output(program: &Program, prepared: &PreparedProgram, diag: &mut Diag) {
    let start = diag.primary.as_ref().map(|label| label.span.start);
    let mut outputs = program.outputs().iter().filter_map(|output| output.as_tensor());
    let output = outputs.find(|output| Some(program.tensor_span(*output).start) == start);
    let Some(output) = output else { return };
    let name = program.tensor_name(output);
    let writers = writers_of(program, &name);
    if writers.is_empty() {
        return advise_other_name(program, output, diag);
    }
    let note = writers.iter().find_map(|&writer| loop_note(program, writer, &name));
    if note.is_none()
        && let Some(other) = other_ranks_note(program, prepared, output, &writers)
    {
        let text = format!("writes `{name}` here");
        diag.labels.extend(writers.first().map(|&id| DiagLabel { span: program.op_span(id), text: text.into() }));
        diag.notes.push(other);
        return;
    }
    let note = note.or_else(|| root_note(program, &writers));
    diag.notes.extend(note);
}

/// A collective of which only the root has the result.
fn root_note(program: &Program, writers: &[OpId]) -> Option<Message> {
    let &[writer] = writers else { return None };
    rooted_note(program, writer)
}

/// The collective that gives all ranks what a gather or reduce gives its root.
pub(super) fn rooted_note(program: &Program, writer: OpId) -> Option<Message> {
    let op = program.op(writer);
    let (word, meant) = match program.name(op.word_attr(AttrKey::Type).filter(|_| op.kind.is_communication())?) {
        "Gather" => ("gather", "allgather"),
        "Reduce" => ("reduce", "allreduce"),
        _ => return None,
    };
    let [from, to] =
        [op.input_tensors().next()?, op.output_tensors().next()?].map(|tensor| program.tensor_name(tensor));
    Some(
        format!("only the root has the result of a `{word}`: for all ranks write `wait {meant}({from} -> {to})`")
            .into(),
    )
}

/// The only result that nothing reads may have been meant as the output.
fn advise_other_name(program: &Program, output: TensorId, diag: &mut Diag) {
    let (mut read, mut computed): (Vec<TensorId>, Vec<(TensorId, OpId)>) = (Vec::new(), Vec::new());
    program.walk(program.body(), &mut |id| {
        let op = program.op(id);
        read.extend(op.input_tensors());
        let is_result = !op.kind.is_communication() && !op.kind.is_allocation() && !is_host_select(op.kind);
        computed.extend(op.output_tensors().filter(|_| is_result).map(|result| (result, id)));
    });
    let outputs: Vec<TensorId> = program.outputs().iter().filter_map(|output| output.as_tensor()).collect();
    computed.retain(|(result, _)| {
        let name = program.tensor_name(*result);
        !read.contains(result) && !outputs.contains(result) && !name.contains('[')
    });
    let &[(result, id)] = computed.as_slice() else { return };
    let (name, own) = (program.tensor_name(output), own_part_text(program, output));
    let found = program.tensor_name(result);
    diag.labels
        .push(DiagLabel { span: program.op_span(id), text: format!("writes `{found}`, which nothing reads").into() });
    diag.notes.push(format!("write the output `{name}` in the place of `{found}`: `{own} = ..`").into());
}

/// `Y[:, own]`: the rank's own part of a tensor, or its name.
fn own_part_text(program: &Program, tensor: TensorId) -> String {
    let name = program.tensor_name(tensor);
    let across: Vec<bool> = program.domains(tensor).iter().map(|domain| domain.parallel.is_device()).collect();
    match across.iter().rposition(|across| *across) {
        Some(last) => {
            let items: Vec<&str> = across[..=last].iter().map(|across| if *across { "own" } else { ":" }).collect();
            format!("{name}[{}]", items.join(", "))
        }
        None => name,
    }
}

/// The loop around a writer: it has too few steps for the axis whose slices it writes, or always writes the same slice.
fn loop_note(program: &Program, writer: OpId, output: &str) -> Option<Message> {
    let enclosing = enclosing_ops(program, writer);
    let inner = enclosing.iter().position(|around| program.op(around.op).kind.is_loop())?;
    let around = enclosing[inner];
    let op = program.op(around.op);
    let index = scalar_names::loop_index(program, op)?;
    let stop = op.expr_attr(AttrKey::Stop)?;
    let written =
        program.op(writer).output_tensors().find(|tensor| base_name(&program.tensor_name(*tensor)) == output)?;
    let mut selects = Vec::new();
    program.walk_inside(around.op, &mut |id| {
        let select = program.op(id);
        if is_host_select(select.kind) && select.output_tensors().any(|part| part == written) {
            selects.push(id);
        }
    });
    let select = program.op(*selects.first()?);
    let taken = select.expr_attr(AttrKey::Index)?;
    let extent = program.domain(select.domain_attr(AttrKey::Axis)?).extent;
    let (name, end) = (program.name(index), short_expr_text(program, extent));
    let part = program.tensor_name(written);
    if !depends_on_scalar(program, taken, index) {
        // A branch may choose one step.
        if inner > 0 {
            return None;
        }
        let meant = part.replacen(&short_expr_text(program, taken), name, 1);
        if meant == part {
            // A scalar that is computed in the loop stands there.
            return None;
        }
        return Some(
            format!("each step of the loop writes the same slice, `{part}`: `{meant}` is another one in each step")
                .into(),
        );
    }
    let loop_end = short_expr_text(program, stop);
    if loop_end == end {
        return shifted_note(program, taken, index, &part, &end);
    }
    Some(
        format!(
            "the loop ends at {loop_end}, and the axis of `{output}` whose slices it writes has {end}: write \
             `for {name} in {end}`"
        )
        .into(),
    )
}

/// Slices that are left because each step writes that of the step before, or after.
fn shifted_note(program: &Program, taken: ExprId, index: Symbol, part: &str, end: &str) -> Option<Message> {
    let shifted = OffsetExpr::of_sum(program, taken, 0);
    let is_index = shifted.base.is_some_and(|base| program.exprs().as_name(base) == Some(index));
    let (left, place) = match shifted.offset {
        -1 if is_index => (format!("{end} - 1"), "after"),
        1 if is_index => ("0".to_owned(), "before"),
        _ => return None,
    };
    let left = part.replacen(&short_expr_text(program, taken), &left, 1);
    Some(
        format!("the steps of the loop write `{part}`, so `{left}` is left: write `{left} = ..` {place} the loop")
            .into(),
    )
}

/// Statements that write an output on ranks which are not in its mesh.
fn other_ranks_note(
    program: &Program,
    prepared: &PreparedProgram,
    output: TensorId,
    writers: &[OpId],
) -> Option<Message> {
    let mesh = program.tensor_mesh(output)?;
    let writer = *writers.first()?;
    let running: Vec<u32> = prepared
        .plans
        .iter()
        .filter(|plan| plan.iter().any(|inst| inst.origin.op == writer && inst.kind.is_work()))
        .map(|plan| plan.rank)
        .collect();
    if running.is_empty() || running.iter().any(|rank| mesh.devices.contains(rank)) {
        return None;
    }
    let ids = program.meshes().ids();
    let fitting = ids.filter(|id| program.mesh(*id).devices.iter().all(|device| running.contains(device)));
    let fitting = fitting.map(|id| program.mesh_name(Some(id))).find(|name| !name.contains('{'));
    let name = program.tensor_name(output);
    let own = program.mesh_name(program.tensor(output).mesh);
    let ranks: Vec<String> = running.iter().map(u32::to_string).collect();
    let ranks = if ranks.len() == 1 { format!("rank {}", ranks[0]) } else { format!("ranks {}", ranks.join(", ")) };
    let meant = match (fitting, running.as_slice()) {
        (Some(fitting), _) => format!(": declare it `@{fitting}`, or send it"),
        (None, &[rank]) => {
            let size = prepared.labels.rank_count().filter(|_| rank > 0 && rank as usize + 1 == prepared.plans.len());
            let range = size.map_or_else(|| format!("{rank}..{}", rank + 1), |size| format!("{size} - 1..{size}"));
            format!(": declare it `@last`, with `mesh last = {range}`, or send it")
        }
        _ => String::new(),
    };
    Some(format!("`{name}` is of the mesh `{own}`, but it is written on {ranks} only{meant}").into())
}
