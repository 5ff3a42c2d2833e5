//! Candidates about the ranges of loops: two sides of a communication run equally often, and a loop writes all of an
//! output.

use super::outline::Outline;
use super::text_change::{Candidate, TextChange};
use crate::hir2::defaults::is_host_select;
use crate::ir::{AttrKey, ExprId, expr_text};

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
            let taken = op.expr_attr(AttrKey::Index).map(|index| expr_text(outline.program, index));
            if taken != outline.loop_index(around) {
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
    let [old, new] = [loop_end(outline, around)?, end].map(|end| format!(" to {}", expr_text(outline.program, end)));
    if old == new {
        return None;
    }
    TextChange::new(outline).with_changed(around, &old, &new)?.into_candidate()
}
