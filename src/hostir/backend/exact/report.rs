//! Diagnostics of exact comparisons.

use super::compare::OutputDifference;
use super::diagnosis::{DifferenceCauses, PartRelation, WrongPart};
use super::hash::HashedSubject;
use super::request::{ExactProof, ExactRequest};
use super::work::UnknownUse;
use crate::backend::view_rows::element_offsets;
use crate::diag::message;
use crate::diag::{Diag, Message, PartKind, Quoted, Span, codes};
use crate::ir::{OpId, bare_head, quoted_type};
use crate::lower::{IoTensor, PreparedProgram};
use crate::plan::{CollectiveKind, Inst, InstKind, Plan, RedOp};
use std::borrow::Cow;

/// The error about outputs of different shapes.
pub(super) fn different_shapes(request: &ExactRequest<'_>) -> Option<Diag> {
    let outputs = request.program.outputs.iter().take(request.program.results).zip(&request.reference.outputs);
    let (own, expected) = outputs.into_iter().find(|(own, expected)| own.whole_shape() != expected.whole_shape())?;
    let message = message!(
        "output {} has shape {}, but that of {} has shape {}",
        own.name,
        format!("{:?}", own.whole_shape()),
        request.name,
        format!("{:?}", expected.whole_shape())
    );
    Some(Diag::error(codes::DIFFERENT_MEANING, request.program.labels.tensor_span(own.tensor), message))
}

/// The error about a bound that the runs do not reach.
pub(super) fn weak_proof(request: &ExactRequest<'_>, proof: ExactProof) -> Diag {
    let message = message!(
        "no proof: the outputs equal those of {} in {} runs modulo a prime, but the probability of an error is only known to be below {}",
        request.name,
        proof.seeds,
        format!("{:.1e}", proof.error)
    );
    Diag::global_error(codes::UNPROVED_MEANING, message)
        .with_note("the bound grows with the degree of the outputs as polynomials of the inputs; use smaller sizes")
}

/// The error about ranks of the reference that hold different values.
pub(super) fn reference_replicas(request: &ExactRequest<'_>, output: usize, index: &[usize]) -> Diag {
    let io_tensor = &request.reference.outputs[output];
    let message = message!(
        "replicas of {} differ: {}{} is another function of the inputs on some ranks",
        io_tensor.name,
        io_tensor.name,
        format!("{index:?}")
    );
    Diag::error(codes::REPLICAS, request.reference.labels.tensor_span(io_tensor.tensor), message)
        .with_note("a tensor without a device axis must have the same elements on every rank of its mesh")
}

/// The warning about an input whose values are given.
pub(super) fn given_values(prepared: &PreparedProgram, io_tensor: &IoTensor) -> Diag {
    let message = message!(
        "the proof holds only for the values of {} in this run: it is `{}`",
        io_tensor.name,
        quoted_type(io_tensor.dtype)
    );
    Diag::error(codes::GIVEN_VALUES, prepared.labels.tensor_span(io_tensor.tensor), message)
        .into_warning()
        .with_note("integers wrap around and select elements, which has no meaning modulo a prime")
}

/// A warning for each op that uses functions without a meaning. With `others`, functions that the other program uses
/// too are left out.
pub(super) fn unknown_functions(
    prepared: &PreparedProgram,
    unknown: &[UnknownUse],
    others: &[UnknownUse],
) -> Vec<Diag> {
    let mut unknown = unknown.to_vec();
    unknown.retain(|used| others.iter().all(|other| other.subject != used.subject));
    let of_ops = unknown.chunk_by(|a, b| a.op == b.op);
    of_ops.map(|uses| unknown_function(prepared, uses[0].op, uses)).collect()
}

fn unknown_function(prepared: &PreparedProgram, op: OpId, uses: &[UnknownUse]) -> Diag {
    let subjects: Vec<HashedSubject> = uses.iter().map(|used| used.subject).collect();
    let words = subject_words(&subjects);
    let verb = if words.len() == 1 { "has" } else { "have" };
    let statement = prepared.labels.quoted_statement(op);
    let is_named = uses.iter().any(|used| is_named_in(used.subject, statement.printed()));
    let list = Message::join(&words, " and ");
    let message = match is_named {
        true => message!("{} {} no meaning modulo a prime", list, verb),
        false => message!("{} in `{}` {} no meaning modulo a prime", list, statement, verb),
    };
    let diag = Diag::error(codes::NO_MEANING, prepared.labels.op_span(op), message).into_warning();
    let mut notes: Vec<&str> = subjects.iter().map(|subject| unknown_note(*subject)).collect();
    notes.dedup();
    notes.into_iter().fold(diag, Diag::with_note)
}

/// Returns true unless a function is a step of an op with another name, as `max` is one of `sdpa`.
fn is_named_in(subject: HashedSubject, statement: &str) -> bool {
    let is_general = ["pointwise", "reduc", "scan"].iter().any(|word| statement.contains(word));
    match subject {
        HashedSubject::Function(function) => is_general || statement.contains(function.name()),
        HashedSubject::Reduction(op) => is_general || statement.contains(op.word()),
        _ => true,
    }
}

/// The note that says how a function without a meaning is treated.
fn unknown_note(subject: HashedSubject) -> &'static str {
    match subject {
        HashedSubject::IntegerArithmetic => "integers that are computed from floats are taken not to wrap around",
        HashedSubject::InfiniteConstant => "it is taken for an unknown number",
        HashedSubject::Reduction(RedOp::Min | RedOp::Max) => {
            "it is taken for an unknown function of the set of its operands, whatever their order and grouping; \
             outputs that are equal so are proved"
        }
        _ => {
            "it is taken for an unknown function: equal where its operands are, and nothing else is known of it; outputs that are equal so are proved"
        }
    }
}

/// The error about an output that differs. `own` are the program's uses of functions without a meaning, `unknown` all
/// such functions.
pub(super) fn different_output(
    request: &ExactRequest<'_>,
    difference: &OutputDifference,
    causes: &DifferenceCauses,
    own: &[UnknownUse],
    unknown: &[HashedSubject],
) -> Diag {
    let prepared = request.program;
    let io_tensor = &prepared.outputs[difference.place.output];
    let through: Vec<HashedSubject> =
        causes.subjects.iter().copied().filter(|subject| unknown.contains(subject)).collect();
    let verdict =
        if through.is_empty() { "is another function of the inputs than in" } else { "is not proved to equal" };
    let message = message!(
        "{} {} {}: {} of {} elements differ",
        io_tensor.name,
        verdict,
        request.name,
        difference.elements,
        difference.of_all
    );
    let writer = find_writer(prepared, difference);
    let (span, label) = written_place(prepared, difference, writer.as_ref());
    // If the difference goes through a function without a meaning, nothing is known.
    let code = if through.is_empty() { codes::DIFFERENT_MEANING } else { codes::UNPROVED_MEANING };
    let mut diag = Diag::error(code, span, message).with_primary_text(label);
    let element = format!("{}{}", io_tensor.name, index_text(&difference.index));
    let rank = if prepared.ranks > 1 { format!(" on rank {}", difference.place.rank) } else { String::new() };
    diag = diag.with_note(message!("the first is {}{}", element, rank));
    for part in &causes.parts {
        diag = diag.with_note(part_text(prepared, part));
    }
    if causes.subjects.contains(&HashedSubject::UninitialisedMemory) {
        diag = diag.with_note("it depends on memory that nothing has written");
    }
    if let Some((_, inst)) = &writer {
        diag = with_exchange_note(diag, &inst.kind);
    }
    for used in own.iter().filter(|used| through.contains(&used.subject)) {
        diag = diag.with_label(prepared.labels.op_span(used.op), "the difference goes through this function");
    }
    function_note(diag, &causes.subjects)
}

/// The plan and the instruction that write the element; `None` if it is an input's.
fn find_writer<'p>(prepared: &'p PreparedProgram, difference: &OutputDifference) -> Option<(&'p Plan, Cow<'p, Inst>)> {
    let place = difference.place;
    let plan = prepared.plans.get(place.rank)?;
    let view = plan.outputs.get(place.output)?.as_ref()?;
    let element = element_offsets(view).get(place.element).copied()?;
    let writer = plan.iter().rev().find(|inst| {
        let written = inst.kind.written_views();
        written.into_iter().any(|to| to.buffer == view.buffer && element_offsets(to).contains(&element))
    })?;
    Some((plan, writer))
}

/// The statement that writes the element, with a label; the output's declaration if it is an input.
fn written_place(
    prepared: &PreparedProgram,
    difference: &OutputDifference,
    writer: Option<&(&Plan, Cow<'_, Inst>)>,
) -> (Span, String) {
    match writer {
        Some((plan, inst)) => {
            let iteration = prepared.labels.iteration_text(plan.iteration_of(inst.origin));
            let at = if iteration.is_empty() { String::new() } else { format!(" at {iteration}") };
            (prepared.labels.op_span(inst.origin.op), format!("writes the first element that differs{at}"))
        }
        None => (prepared.labels.tensor_span(prepared.outputs[difference.place.output].tensor), String::new()),
    }
}

/// Adds to a difference that an AllToAll writes how it selects elements.
fn with_exchange_note(diag: Diag, kind: &InstKind) -> Diag {
    match kind {
        InstKind::Collective(inst) if inst.kind == CollectiveKind::AllToAll => diag.with_note(message!(
            "{} exchanges equal pieces of memory, whatever the axes: the axis that it splits and the one that it gathers \
             are the outermost ones on a rank, so permute other axes before and after it (`Set.Permute`)",
            bare_head(CollectiveKind::AllToAll.name())
        )),
        _ => diag,
    }
}

/// Adds a note that nothing is known of the functions through which a difference goes.
fn function_note(diag: Diag, subjects: &[HashedSubject]) -> Diag {
    let functions: Vec<HashedSubject> =
        subjects.iter().copied().filter(|subject| *subject != HashedSubject::UninitialisedMemory).collect();
    if functions.is_empty() {
        return diag;
    }
    let list = Message::join(&subject_words(&functions), " and ");
    diag.with_note(message!(
        "the difference goes through {}: only operands are compared, and no identities are known",
        list
    ))
}

/// `[1, 0]`; nothing for a tensor without axes.
fn index_text(index: &[usize]) -> String {
    if index.is_empty() { String::new() } else { format!("{index:?}") }
}

fn part_text(prepared: &PreparedProgram, wrong: &WrongPart) -> String {
    let io_tensor = &prepared.inputs[wrong.input];
    let shape = io_tensor.whole_shape();
    let axes = wrong.part.iter().zip(&shape).map(|(indices, &extent)| match indices.len() == extent {
        true => ":".to_owned(),
        false => indices_text(indices),
    });
    let axes: Vec<String> = axes.collect();
    let part =
        if axes.is_empty() { io_tensor.name.clone() } else { format!("{}[{}]", io_tensor.name, axes.join(", ")) };
    let part = part + &shard_text(prepared, io_tensor, &wrong.part);
    match wrong.relation {
        PartRelation::Missing => format!("missing: {part}; only the reference's element depends on it"),
        PartRelation::Surplus => format!("too much: {part}; only this program's element depends on it"),
        PartRelation::Weight(over, 1) => format!("counted {over} times as much as in the reference: {part}"),
        PartRelation::Weight(over, under) => {
            format!("counted {over}/{under} times as much as in the reference: {part}")
        }
        PartRelation::Otherwise => format!("used in another way than in the reference: {part}"),
    }
}

/// `1`, `4..8`, `{0, 2..4}`.
fn indices_text(indices: &[usize]) -> String {
    let ranges: Vec<String> = indices
        .chunk_by(|a, b| a + 1 == *b)
        .map(|range| match *range {
            [first, .., last] => format!("{first}..{}", last + 1),
            _ => range.first().map_or_else(String::new, usize::to_string),
        })
        .collect();
    if ranges.len() == 1 { ranges.concat() } else { format!("{{{}}}", ranges.join(", ")) }
}

/// ` (the shard of rank 1)`, if the part belongs to some ranks.
fn shard_text(prepared: &PreparedProgram, io_tensor: &IoTensor, part: &[Vec<usize>]) -> String {
    let sharded: Vec<usize> = (0..part.len()).filter(|&axis| io_tensor.axes[axis].device.is_some()).collect();
    let of_some = sharded.iter().any(|&axis| part[axis].len() < io_tensor.axes[axis].extent);
    if !of_some {
        return String::new();
    }
    let mut ranks: Vec<u32> = (0..prepared.ranks).collect();
    ranks.retain(|rank| {
        let origin = io_tensor.shard_origin(*rank);
        origin.is_some_and(|origin| sharded.iter().all(|&axis| part[axis].contains(&origin[axis])))
    });
    let ranks: Vec<String> = ranks.iter().map(u32::to_string).collect();
    match ranks.as_slice() {
        [] => String::new(),
        [rank] => format!(" (the shard of rank {rank})"),
        ranks => format!(" (the shards of ranks {})", ranks.join(", ")),
    }
}

/// `` `max` ``, `` the conversion to `int` ``, each once.
fn subject_words(subjects: &[HashedSubject]) -> Vec<Message> {
    let mut words: Vec<Message> = subjects.iter().map(|subject| subject_text(*subject)).collect();
    // The values and the positions of `topk` are functions of their own, with one name.
    words.dedup_by(|a, b| a.as_str() == b.as_str());
    words
}

fn subject_text(subject: HashedSubject) -> Message {
    match subject {
        HashedSubject::Function(function) => message!("`{}`", Quoted::new(PartKind::Op, function.name())),
        HashedSubject::Rows(name, _) => message!("`{}`", Quoted::new(PartKind::Op, name)),
        HashedSubject::Reduction(op @ (RedOp::Min | RedOp::Max)) => message!("`{}`", op.word()),
        HashedSubject::Reduction(op) => message!("the reduction `{}`", op.word()),
        HashedSubject::Conversion(dtype) => message!("the conversion to `{}`", quoted_type(dtype)),
        HashedSubject::Reinterpretation(_, dtype) => message!("the bits as `{}`", quoted_type(dtype)),
        HashedSubject::IntegerArithmetic => "arithmetic of integers".into(),
        HashedSubject::ZeroDivision => "a division by zero".into(),
        HashedSubject::InfiniteConstant => "a constant that is not finite".into(),
        HashedSubject::Input(_) | HashedSubject::UninitialisedMemory => "memory".into(),
    }
}
