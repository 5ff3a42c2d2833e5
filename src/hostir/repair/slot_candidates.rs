//! Candidates that let the iterations of a loop alternate between the slots of a buffer.

use super::outline::Outline;
use super::text_change::{Candidate, CandidateIdea, TextChange};
use crate::hir2::defaults::is_host_select;
use crate::ir::{AttrKey, TensorId, expr_text};

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

/// Candidates for two accesses of a loop to parts of a buffer by an index: the one that reads takes a part that another
/// statement of the loop takes, now or in the step before; and parts by a constant index become those of the step.
pub(super) fn other_slots(outline: &Outline<'_>, first: usize, second: usize) -> Vec<Candidate> {
    let Some(&around) = outline.common_loops(first, second).first() else { return Vec::new() };
    let Some(step) = outline.loop_index(around) else { return Vec::new() };
    let moving: Vec<IndexedSlot> =
        all_slots(outline, around).filter(|slot| outline.depends_on_step(slot.statement, &step)).collect();
    let mut found = Vec::new();
    let pairs = [(first, second), (second, first)];
    for (writer, reader) in pairs.into_iter().take(if first == second { 1 } else { 2 }) {
        let (written, read) = (written_slots(outline, around, writer), read_slots(outline, around, reader));
        for (one, other) in written.iter().flat_map(|one| read.iter().map(move |other| (one, other))) {
            if !outline.is_same_memory(one.statement, other.statement) {
                continue;
            }
            let beside = moving.iter().filter(|slot| outline.is_same_memory(slot.statement, other.statement));
            for index in beside.flat_map(|slot| [slot.index.clone(), with_earlier_step(&slot.index, &step)]) {
                found.extend(with_index(outline, other, &index));
            }
            if one.is_fixed() {
                found.extend(with_index(outline, one, &with_later_step(&other.index, &step)));
            }
        }
    }
    for slot in written_slots(outline, around, second).iter().filter(|slot| slot.is_fixed()) {
        found.extend(with_index(outline, slot, &step));
    }
    found
}

/// A part of a buffer that a statement accesses by an index.
struct IndexedSlot {
    /// The statement that takes it.
    statement: usize,
    index: String,
}

fn written_slots(outline: &Outline<'_>, around: usize, access: usize) -> Vec<IndexedSlot> {
    indexed_slots(outline, around, &outline.op(access).output_tensors().collect::<Vec<_>>())
}

fn read_slots(outline: &Outline<'_>, around: usize, access: usize) -> Vec<IndexedSlot> {
    indexed_slots(outline, around, &outline.op(access).input_tensors().collect::<Vec<_>>())
}

/// All parts that statements of a loop take by an index.
fn all_slots<'o>(outline: &'o Outline<'_>, around: usize) -> impl Iterator<Item = IndexedSlot> + 'o {
    let inside = around + 1..outline.statements[around].next;
    inside.filter(|&at| is_host_select(outline.kind(at))).filter_map(|at| IndexedSlot::of_select(outline, at))
}

impl IndexedSlot {
    fn of_select(outline: &Outline<'_>, statement: usize) -> Option<Self> {
        let index = outline.op(statement).expr_attr(AttrKey::Index)?;
        Some(Self { statement, index: expr_text(outline.program, index) })
    }

    /// True for an index that is a number.
    fn is_fixed(&self) -> bool {
        self.index.parse::<i64>().is_ok()
    }
}

/// The statements of a loop that take these tensors as parts of others.
fn indexed_slots(outline: &Outline<'_>, around: usize, parts: &[TensorId]) -> Vec<IndexedSlot> {
    let inside = around + 1..outline.statements[around].next;
    let taken = inside.filter(|&at| {
        is_host_select(outline.kind(at)) && outline.op(at).output_tensors().any(|part| parts.contains(&part))
    });
    taken.filter_map(|at| IndexedSlot::of_select(outline, at)).collect()
}

/// An index of the iteration before.
fn with_earlier_step(index: &str, step: &str) -> String {
    let words = index.split(' ').map(|word| if word == step { format!("( {step} - 1 )") } else { word.to_owned() });
    words.collect::<Vec<_>>().join(" ")
}

/// The index of the iteration after: `( s - 1 )` becomes `s`.
fn with_later_step(index: &str, step: &str) -> String {
    let earlier = format!("( {step} - 1 )");
    index.replace(&earlier, step)
}

/// The change of a part's index.
fn with_index(outline: &Outline<'_>, slot: &IndexedSlot, index: &str) -> Option<Candidate> {
    if slot.index == index {
        return None;
    }
    let [old, new] = [slot.index.as_str(), index].map(|index| format!("index = {index}"));
    let change = TextChange::new(outline).with_changed(slot.statement, &old, &new)?;
    Some(change.into_candidate()?.with_idea(CandidateIdea::Slots))
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
