//! Candidates for memory that nothing has allocated, or written before it is read.

use super::outline::{Outline, Place};
use super::statement_text::NewStatement;
use super::text_change::{Candidate, TextChange};
use crate::hir2::defaults::is_host_select;
use crate::ir::{TensorId, Value};

/// Candidates that allocate the memory that a communication receives into.
pub(super) fn allocate_output(outline: &Outline<'_>, post: usize) -> Vec<Candidate> {
    let owners: Vec<TensorId> = outline.op(post).output_tensors().map(|tensor| outline.owner(tensor)).collect();
    let outputs = outline.program.outputs();
    let found = owners.into_iter().filter(|&owner| outputs.contains(&Value::Tensor(owner))).filter_map(|owner| {
        let allocation = NewStatement::allocate(outline, owner)?;
        TextChange::new(outline).with_inserted(&allocation, Place::Before(0))?.into_candidate()
    });
    found.collect()
}

/// Candidates that move the only statement that writes a tensor before the one that reads it.
pub(super) fn write_first(outline: &Outline<'_>, reader: usize) -> Vec<Candidate> {
    let read: Vec<TensorId> = outline.op(reader).input_tensors().map(|tensor| outline.owner(tensor)).collect();
    let writers: Vec<usize> = (0..outline.statements.len())
        .filter(|&at| outline.does_work(at) && !is_host_select(outline.kind(at)))
        .filter(|&at| outline.op(at).output_tensors().any(|tensor| read.contains(&outline.owner(tensor))))
        .collect();
    let &[writer] = &writers[..] else { return Vec::new() };
    if writer <= reader {
        return Vec::new();
    }
    let places = outline.up_to_common(reader, writer).into_iter().rev();
    let moved = places.filter_map(|place| move_with_slices(outline, writer, place));
    moved.filter_map(TextChange::into_candidate).collect()
}

/// Moves a statement, with the slices in front of it that it uses and its Wait, before another one.
fn move_with_slices<'o, 'a>(outline: &'o Outline<'a>, moved: usize, place: usize) -> Option<TextChange<'o, 'a>> {
    let used: Vec<TensorId> = outline.op(moved).all_tensors().collect();
    let slices = (place + 1..moved).filter(|&at| {
        is_host_select(outline.kind(at)) && outline.op(at).output_tensors().all(|part| used.contains(&part))
    });
    let wait = outline.op(moved).number().filter(|_| outline.statements.len() > moved + 1);
    let wait = wait.filter(|number| outline.op(moved + 1).operands.contains(&Value::Handle(*number)));
    let moves = slices.chain([moved]).chain(wait.map(|_| moved + 1));
    moves.into_iter().try_fold(TextChange::new(outline), |change, at| change.with_moved(at, Place::Before(place)))
}
