//! Candidates about the ranges of loops: two sides of a communication run equally often, and a loop writes all of an
//! output.

use super::outline::Outline;
use super::text_change::{Candidate, TextChange};
use crate::hir2::defaults::is_host_select;
use crate::ir::{AttrKey, ExprId, depends_on_scalar, expr_text};

/// Candidates that give the loops around two statements the same end.
pub(super) fn equal_ranges(outline: &Outline<'_>, first: usize, second: usize) -> Vec<Candidate> {
    let loops = [first, second].map(|at| outline.ancestors(at).find(|&outer| outline.is_loop(outer)));
    let [Some(one), Some(other)] = loops else { return Vec::new() };
    if one == other {
        return Vec::new();
    }
    let pairs = [(one, other), (other, one)];
    pairs.into_iter().filter_map(|(changed, like)| with_end(outline, changed, loop_end(outline, like)?)).collect()
}

/// Candidates that let the loops around a statement run to the ends of the axes whose slices it accesses there.
pub(super) fn whole_ranges(outline: &Outline<'_>, access: usize) -> Vec<Candidate> {
    let mut found = Vec::new();
    for around in outline.ancestors(access).filter(|&outer| outline.is_loop(outer)) {
        let inside = around + 1..outline.statements[around].next;
        for select in inside.filter(|&at| is_host_select(outline.kind(at))) {
            let op = outline.op(select);
            let name = outline.loop_index(around).and_then(|name| outline.program.names().find_symbol(&name));
            let index = op.expr_attr(AttrKey::Index);
            if !index.zip(name).is_some_and(|(index, name)| depends_on_scalar(outline.program, index, name)) {
                continue;
            }
            let axis = op.domain_attr(AttrKey::Axis).map(|axis| outline.program.domain(axis).extent);
            found.extend(axis.and_then(|extent| with_end(outline, around, extent)));
        }
    }
    found
}

/// The end of a loop's range.
fn loop_end(outline: &Outline<'_>, around: usize) -> Option<ExprId> {
    outline.op(around).expr_attr(AttrKey::Stop)
}

/// A loop with another end.
fn with_end(outline: &Outline<'_>, around: usize, end: ExprId) -> Option<Candidate> {
    with_end_text(outline, around, &expr_text(outline.program, end))
}

/// A loop with another end, given as text.
pub(super) fn with_end_text(outline: &Outline<'_>, around: usize, end: &str) -> Option<Candidate> {
    let old = format!(" to {}", expr_text(outline.program, loop_end(outline, around)?));
    let new = format!(" to {end}");
    if old == new {
        return None;
    }
    // A loop on streams is two loops of the printed form: the first one only forks the streams.
    let header = outline.statement_text(around);
    let beside = outline.statements_beside(around).filter(|&at| at < around && outline.is_loop(at));
    let fork = beside.last().filter(|&at| {
        let mut inside = at + 1..outline.statements[at].next;
        outline.statement_text(at) == header && inside.all(|inner| outline.kind(inner).is_stream_op())
    });
    let change = TextChange::new(outline).with_changed(around, &old, &new)?;
    match fork {
        Some(fork) => change.with_changed(fork, &old, &new)?.into_candidate(),
        None => change.into_candidate(),
    }
}
