//! Candidates about memory, and about removable statements.

use super::outline::{Outline, Place, stream_text};
use super::text_change::{Candidate, CandidateIdea, TextChange};
use crate::ir::{AttrKey, BlockId, TensorId, Value};

/// Deletes a statement that orders nothing.
pub(super) fn delete_waste(outline: &Outline<'_>, statement: usize) -> Vec<Candidate> {
    let deleted = TextChange::new(outline).with_deleted(statement);
    let alone = deleted.and_then(TextChange::into_candidate);
    delete_emptied_block(outline, statement).into_iter().chain(alone).collect()
}

/// Deletes a statement with the change of the stream before it and the way back after it, if they contain nothing else;
/// and the name of the caller's stream, if nothing else uses it.
fn delete_emptied_block(outline: &Outline<'_>, statement: usize) -> Option<Candidate> {
    let (choice, back) = (statement.checked_sub(1)?, statement + 1);
    let block = outline.statements[statement].block;
    if !chooses_stream(outline, choice, block) || !chooses_stream(outline, back, block) {
        return None;
    }
    let before = outline.named_stream(outline.op(back));
    if outline.statements[choice].streams != [before] {
        return None;
    }
    let mut change = TextChange::new(outline).with_deleted(choice)?.with_deleted(statement)?.with_deleted(back)?;
    let caller = outline.caller.as_ref().filter(|caller| {
        let mut others = (0..outline.statements.len()).filter(|&at| at != back && at != caller.statement);
        !others.any(|at| stream_text(outline.program, outline.op(at)).is_some_and(|text| text == caller.stream))
    });
    if let Some(caller) = caller {
        change = change.with_deleted(caller.statement)?;
    }
    change.into_candidate()
}

/// Returns true for a statement of a block that chooses a stream.
fn chooses_stream(outline: &Outline<'_>, statement: usize, block: BlockId) -> bool {
    outline.statements.get(statement).is_some_and(|found| found.block == block)
        && outline.kind(statement).is_stream_choice()
}

/// Candidates for a use after a Deallocate: the Deallocate moves or is deleted.
pub(super) fn free_later(outline: &Outline<'_>, user: usize, others: &[usize]) -> Vec<Candidate> {
    if outline.kind(user).is_deallocation() {
        return delete_waste(outline, user);
    }
    let mut found = Vec::new();
    let frees = others.iter().copied().filter(|&other| outline.kind(other).is_deallocation());
    for free in frees.filter(|&free| outline.op(free).all_tensors().count() == 1) {
        let block = outline.statements[free].block;
        let mut around = std::iter::once(user).chain(outline.ancestors(user));
        let beside = around.find(|&statement| outline.statements[statement].block == block);
        let last = outline.last_in_block(block).filter(|&last| last > free);
        for place in beside.into_iter().chain(last).map(Place::After) {
            let moved = TextChange::new(outline).with_moved(free, place);
            found.extend(moved.and_then(TextChange::into_candidate));
        }
        found.extend(delete_waste(outline, free));
    }
    found
}

/// Candidates for a use of what a Deallocate of an earlier iteration has ended: it moves after the loop, or is deleted.
pub(super) fn free_after_loops(outline: &Outline<'_>, user: usize, others: &[usize]) -> Vec<Candidate> {
    let mut found = Vec::new();
    for &free in others.iter().filter(|&&other| outline.kind(other).is_deallocation()) {
        for around in outline.common_loops(user, free) {
            let moved = TextChange::new(outline).with_moved(free, Place::After(around));
            found.extend(moved.and_then(TextChange::into_candidate));
        }
        found.extend(delete_waste(outline, free));
    }
    found
}

/// Gives each iteration memory of its own.
pub(super) fn keep_private(outline: &Outline<'_>, allocation: usize) -> Vec<Candidate> {
    let text = outline.statement_text(allocation);
    if !outline.kind(allocation).is_allocation() || text.contains("keep=false") {
        return Vec::new();
    }
    let change = TextChange::new(outline);
    let change = match text.contains("keep=true") {
        true => change.with_changed(allocation, "keep=true", "keep=false"),
        false => change.with_argument(allocation, "keep=false"),
    };
    change.and_then(TextChange::into_candidate).into_iter().collect()
}

/// Returns true if memory starts as zeros: it may hold a sum of all iterations.
fn is_cleared(outline: &Outline<'_>, allocation: usize) -> bool {
    outline.statement_text(allocation).contains("zero_init=true")
}

/// Returns true if memory is that of an output: the caller gets it, so no iteration may have another one.
fn is_of_output(outline: &Outline<'_>, allocation: usize) -> bool {
    let outputs = outline.program.outputs();
    outline.op(allocation).output_tensors().any(|tensor| outputs.contains(&Value::Tensor(tensor)))
}

/// Candidates that give each iteration of a loop around both accesses a buffer of its own.
pub(super) fn make_private(outline: &Outline<'_>, first: usize, second: usize) -> Vec<Candidate> {
    let owners = outline.accessed_owners(first, second);
    let allocations = (0..outline.statements.len()).filter(|&at| outline.kind(at).is_allocation());
    let allocations = allocations.filter(|&at| outline.op(at).output_tensors().any(|tensor| owners.contains(&tensor)));
    let loops = outline.common_loops(first, second);
    let mut found = Vec::new();
    for allocation in allocations.filter(|&at| !is_cleared(outline, at) && !is_of_output(outline, at)) {
        let (around, others): (Vec<usize>, Vec<usize>) =
            loops.iter().partition(|&&outer| outline.ancestors(allocation).any(|ancestor| ancestor == outer));
        if !around.is_empty() {
            found.extend(keep_private(outline, allocation));
        }
        found.extend(others.into_iter().filter_map(|outer| move_inside(outline, allocation, outer)));
    }
    found
}

/// Candidates that give each iteration of a loop on streams scratch memory of its own: an ALLOCATE before the loop,
/// whose tensor only the loop uses, moves into it, and one in the loop no longer keeps its memory. Cleared memory
/// stays.
pub(super) fn move_scratch(outline: &Outline<'_>, first: usize, second: usize) -> Vec<Candidate> {
    let owners = outline.accessed_owners(first, second);
    let loops = outline.common_loops(first, second).into_iter().filter(|&around| switches_stream(outline, around));
    let mut found = Vec::new();
    for around in loops {
        let scratch = (0..outline.statements[around].next).filter(|&at| outline.kind(at).is_allocation());
        let scratch = scratch.filter(|&at| !is_cleared(outline, at)).filter(|&at| {
            let mut owned = outline.op(at).output_tensors();
            owned.all(|tensor| owners.contains(&tensor) && is_only_used_in(outline, tensor, around))
        });
        for allocation in scratch {
            match allocation < around {
                true => found.extend(move_inside(outline, allocation, around)),
                false => found.extend(keep_private(outline, allocation)),
            }
        }
    }
    found
}

/// Returns true if iterations of a loop choose their stream.
fn switches_stream(outline: &Outline<'_>, around: usize) -> bool {
    outline.is_loop(around)
        && outline.op(around).blocks.iter().all(|&block| {
            let ops = &outline.program.block(block).ops;
            ops.iter().any(|&op| outline.program.op(op).kind.is_stream_choice())
        })
}

/// Returns true if only a loop uses a tensor or its name, except for its ALLOCATE and Deallocate.
fn is_only_used_in(outline: &Outline<'_>, tensor: TensorId, around: usize) -> bool {
    let program = outline.program;
    let memory = program.memory_tensor(tensor);
    let inside = around..outline.statements[around].next;
    let mut outside = (0..outline.statements.len()).filter(|at| !inside.contains(at));
    let is_port =
        program.inputs().iter().chain(program.outputs()).any(
            |io_tensor| matches!(io_tensor, Value::Tensor(io_tensor) if program.memory_tensor(*io_tensor) == memory),
        );
    !is_port
        && outside.all(|at| {
            let kind = outline.kind(at);
            kind.is_allocation()
                || kind.is_deallocation()
                || outline.op(at).all_tensors().all(|other| program.memory_tensor(other) != memory)
        })
}

/// Moves an ALLOCATE to the start of a loop's body, after the choice of its stream; deletes the Deallocate of its
/// tensor outside of the loop.
fn move_inside(outline: &Outline<'_>, allocation: usize, around: usize) -> Option<Candidate> {
    let place = match outline.kind(around + 1).is_stream_choice() {
        true => Place::After(around + 1),
        false => Place::Before(around + 1),
    };
    let lines = outline.moved_lines(allocation, outline.place_indentation(place)?)?;
    let is_kept = lines.contains("buffer=") && !lines.contains("keep=");
    let lines = match lines.rfind(')') {
        Some(close) if is_kept => format!("{}, keep=false{}", &lines[..close], &lines[close..]),
        _ => lines.replace("keep=true", "keep=false"),
    };
    let tensor = outline.op(allocation).output_tensors().next()?;
    let name = outline.program.tensor_name(tensor);
    let mut change = TextChange::new(outline).with_replaced(allocation, lines, place)?;
    let inside = around..outline.statements[around].next;
    let frees = (0..outline.statements.len()).filter(|at| !inside.contains(at));
    for free in frees.filter(|&at| outline.kind(at).is_deallocation()) {
        let mut freed = outline.op(free).all_tensors();
        if freed.next() == Some(tensor) && freed.next().is_none() {
            change = change.with_deleted(free)?;
        }
    }
    change.described("move", format!("the ALLOCATE of {name} into the loop")).into_candidate()
}

/// Candidates for a sum with uninitialised memory: the memory starts as zeros. Another first value may be meant, which
/// the text lacks.
pub(super) fn clear_sum(outline: &Outline<'_>, reader: usize) -> Vec<Candidate> {
    let added: Vec<TensorId> = added_tensors(outline, reader).into_iter().map(|tensor| outline.owner(tensor)).collect();
    let mut sums = outline.op(reader).output_tensors().map(|tensor| outline.owner(tensor));
    let Some(sum) = sums.find(|tensor| added.contains(tensor)) else { return Vec::new() };
    let allocations = (0..outline.statements.len()).filter(|&at| outline.kind(at).is_allocation());
    let of_sum = allocations.filter(|&at| outline.op(at).output_tensors().any(|tensor| tensor == sum));
    let changes =
        of_sum.filter_map(|at| TextChange::new(outline).with_changed(at, "zero_init=false", "zero_init=true"));
    let changed = changes.filter_map(TextChange::into_candidate);
    changed.map(|candidate| candidate.with_idea(CandidateIdea::Doubtful)).collect()
}

/// The operands of a statement whose elements are added.
fn added_tensors(outline: &Outline<'_>, reader: usize) -> Vec<TensorId> {
    let op = outline.op(reader);
    let function = op.word_attr(AttrKey::Function).map(|word| outline.program.name(word));
    match op.kind.gemm() {
        // The accumulator.
        Some(form) if form.accumulates => op.input_tensors().skip(2).collect(),
        None if function == Some("+") => op.input_tensors().collect(),
        _ => Vec::new(),
    }
}
