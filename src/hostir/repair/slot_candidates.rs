//! Candidates that let the iterations of a loop alternate between the slots of a buffer.

use super::outline::Outline;
use super::text_change::{Candidate, CandidateIdea, TextChange};
use crate::hir2::defaults::is_host_select;
use crate::ir::{AttrKey, TensorId};

/// The maximum number of parts of a buffer whose index changes.
const MOST_PARTS: usize = 8;

/// A part of a buffer that a loop takes by a constant index: always the same slot.
struct FixedSlot {
    /// The statement that takes it.
    statement: usize,
    slots: i64,
    /// `index = 0`
    old: String,
    is_written: bool,
}

/// Candidates for two accesses of a loop to one slot of a buffer that has several: an iteration writes the slot of its
/// own, and reads that of the iteration before, or its own.
pub(super) fn alternate_slots(outline: &Outline<'_>, first: usize, second: usize) -> Vec<Candidate> {
    let mut owners = outline.accessed_owners(first, second);
    owners.sort_unstable();
    owners.dedup();
    let mut found = Vec::new();
    for around in outline.common_loops(first, second) {
        let Some(index) = outline.loop_index(around) else { continue };
        for &owner in &owners {
            let fixed = fixed_slots(outline, around, owner);
            let is_used_both_ways =
                fixed.iter().any(|slot| slot.is_written) && fixed.iter().any(|slot| !slot.is_written);
            if !is_used_both_ways || fixed.len() > MOST_PARTS {
                continue;
            }
            found.extend([1, 0].into_iter().filter_map(|lag| alternate(outline, &fixed, &index, lag)));
        }
    }
    found
}

/// The parts of a buffer that a loop takes by a constant index.
fn fixed_slots(outline: &Outline<'_>, around: usize, owner: TensorId) -> Vec<FixedSlot> {
    let inside = around + 1..outline.statements[around].next;
    let taken = inside.clone().filter(|&at| is_host_select(outline.kind(at)));
    taken.filter_map(|at| fixed_slot(outline, at, owner, inside.end)).collect()
}

fn fixed_slot(outline: &Outline<'_>, statement: usize, owner: TensorId, end: usize) -> Option<FixedSlot> {
    let (op, program) = (outline.op(statement), outline.program);
    if op.input_tensors().next() != Some(owner) {
        return None;
    }
    let index = program.exprs().as_int(op.expr_attr(AttrKey::Index)?)?;
    let slots = program.exprs().as_int(program.domain(op.domain_attr(AttrKey::Axis)?).extent)?;
    let part = op.output_tensors().next()?;
    let is_written = (statement + 1..end).any(|at| outline.op(at).output_tensors().any(|tensor| tensor == part));
    (slots > 1).then(|| FixedSlot { statement, slots, old: format!("index = {index}"), is_written })
}

/// The change of all parts: those that are read are of the iteration so many before.
fn alternate(outline: &Outline<'_>, fixed: &[FixedSlot], index: &str, lag: i64) -> Option<Candidate> {
    let changed = fixed.iter().try_fold(TextChange::new(outline), |change, slot| {
        let turn = match lag {
            0 => index.to_owned(),
            _ if slot.is_written => index.to_owned(),
            _ => format!("( {index} - {lag} )"),
        };
        change.with_changed(slot.statement, &slot.old, &format!("index = ( {turn} % {} )", slot.slots))
    })?;
    Some(changed.into_candidate()?.with_idea(CandidateIdea::Slots))
}
