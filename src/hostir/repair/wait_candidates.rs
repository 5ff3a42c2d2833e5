//! Candidates about communications and their Waits.

use super::bound_candidates::{bound_waits, wait_in_later_steps, wait_on_starting_ranks};
use super::memory_candidates::delete_waste;
use super::outline::{Outline, Place};
use super::statement_text::NewStatement;
use super::text_change::{Candidate, CandidateIdea, TextChange};
use crate::ir::{AttrKey, OpEffect, TensorId, Value};

/// The number that a Wait for a communication names: its own, or that of its group.
pub(super) fn ending_number(outline: &Outline<'_>, statement: usize) -> Option<u32> {
    let op = outline.op(statement);
    if !op.kind.is_communication() {
        return None;
    }
    let own = op.number()?;
    let block = outline.statements[statement].block;
    let after = (statement + 1..outline.statements.len()).filter(|&other| outline.statements[other].block == block);
    let mut kinds = after.map(|other| (other, outline.kind(other)));
    let bound = kinds.find(|(_, kind)| kind.is_group_start() || kind.is_group_end());
    let group = bound.filter(|(_, kind)| kind.is_group_end()).map(|(other, _)| other);
    Some(group.and_then(|end| outline.op(end).number()).unwrap_or(own))
}

/// The Waits for a communication or group.
pub(super) fn waits_of(outline: &Outline<'_>, number: u32) -> impl Iterator<Item = usize> {
    let waits = (0..outline.statements.len()).filter(|&statement| outline.kind(statement).is_wait());
    waits.filter(move |&statement| outline.op(statement).operands.contains(&Value::Handle(number)))
}

/// The communications that a Wait waits for, or the group.
pub(super) fn posts_of_wait(outline: &Outline<'_>, wait: usize) -> Vec<usize> {
    let operands = &outline.op(wait).operands;
    let posts = (0..outline.statements.len()).filter(|&at| outline.kind(at).is_post());
    let posts =
        posts.filter(|&at| ending_number(outline, at).is_some_and(|number| operands.contains(&Value::Handle(number))));
    posts.collect()
}

/// Returns true if a post is in a branch that does not contain its only Wait: without the branch there is nothing to
/// wait for, and with it the Wait is needed.
fn is_in_other_branch(outline: &Outline<'_>, post: usize, wait: usize) -> bool {
    let mut between = outline.up_to_common(post, wait).into_iter().skip(1);
    let mut waits = outline.op(wait).operands.iter().filter_map(|value| match value {
        Value::Handle(number) => Some(waits_of(outline, *number).count()),
        _ => None,
    });
    between.any(|outer| outline.kind(outer).is_branch()) && waits.all(|count| count == 1)
}

/// Moves a Wait to the end of the block that starts its communication, or directly after the start.
fn move_into_branch(outline: &Outline<'_>, wait: usize, post: usize) -> Vec<Candidate> {
    let block = outline.statements[post].block;
    let last = outline.last_in_block(block).unwrap_or(post);
    let moved = [last, post].map(|place| TextChange::new(outline).with_moved(wait, Place::After(place)));
    let found = moved.into_iter().flatten().filter_map(TextChange::into_candidate);
    // Another loop may lack the iterations that start the communication.
    let is_in_loop = outline.up_to_common(post, wait).into_iter().any(|outer| outline.is_loop(outer));
    match is_in_loop {
        true => found.map(|candidate| candidate.with_idea(CandidateIdea::Doubtful)).collect(),
        false => found.collect(),
    }
}

/// Candidates that make an array of a handle which a loop starts and which statements outside of it wait for: each
/// iteration has an element of its own. A Wait in another loop waits for that loop's element, or for all.
fn make_array(outline: &Outline<'_>, post: usize) -> Vec<Candidate> {
    let Some(around) = outline.ancestors(post).find(|&outer| outline.is_loop(outer)) else { return Vec::new() };
    let (Some(number), Some(index)) = (outline.op(post).number(), outline.loop_index(around)) else {
        return Vec::new();
    };
    let waits: Vec<usize> = waits_of(outline, number).collect();
    let is_waited_inside = waits.iter().any(|&wait| outline.ancestors(wait).any(|outer| outer == around));
    if outline.op(post).attr(AttrKey::Element).is_some() || waits.is_empty() || is_waited_inside {
        return Vec::new();
    }
    let Some(array) = TextChange::new(outline).with_element(post, &index) else { return Vec::new() };
    let each = waits.iter().try_fold(array.clone(), |change, &wait| {
        let inner = outline.ancestors(wait).find(|&outer| outline.is_loop(outer));
        match inner.and_then(|inner| outline.loop_index(inner)) {
            Some(index) => change.with_element(wait, &index),
            None => Some(change),
        }
    });
    each.into_iter().chain([array]).filter_map(TextChange::into_candidate).collect()
}

/// Candidates for a communication that a loop starts again before a Wait for it: the Wait comes before the next start,
/// beside another Wait or in a branch like one of the loop's, or before the first use of what the communication
/// transfers. The communication goes on beside the work in between.
fn wait_late(outline: &Outline<'_>, post: usize) -> Vec<Candidate> {
    let number = ending_number(outline, post).or_else(|| outline.op(post).number());
    let around = outline.ancestors(post).find(|&outer| outline.is_loop(outer));
    let (Some(number), Some(around)) = (number, around) else { return Vec::new() };
    let inside = around + 1..outline.statements[around].next;
    let mut found = Vec::new();
    for wait in waits_of(outline, number).filter(|wait| inside.contains(wait)) {
        for moved in [outline.waiting_branch(wait), wait] {
            let places = outline.up_to_common(post, moved);
            let earlier =
                places.into_iter().rev().map(|outer| TextChange::new(outline).with_moved(moved, Place::Before(outer)));
            found.extend(earlier.flatten());
        }
    }
    let wait = NewStatement::wait(outline, number);
    let waits = inside.clone().filter(|&at| outline.kind(at).is_wait());
    let beside = waits.map(Place::After).chain(use_places(outline, post, around));
    found.extend(beside.filter_map(|place| TextChange::new(outline).with_inserted(&wait, place)));
    let outermost = outline.ancestors(post).take_while(|&outer| outer != around).last().unwrap_or(post);
    let branches =
        inside.filter(|&at| outline.kind(at).is_branch() && !outline.ancestors(post).any(|outer| outer == at));
    let guarded = branches.map(|branch| wait.clone().inside(branch));
    found.extend(guarded.filter_map(|wait| TextChange::new(outline).with_inserted(&wait, Place::Before(outermost))));
    let found = found.into_iter().filter_map(TextChange::into_candidate);
    let found = found.map(|candidate| candidate.with_idea(CandidateIdea::Overlap));
    found.chain(wait_for_step_before(outline, post, around, &wait)).collect()
}

/// Candidates that wait for the start of the step before, which the first step of a loop has not.
fn wait_for_step_before(outline: &Outline<'_>, post: usize, around: usize, wait: &NewStatement) -> Vec<Candidate> {
    let Some(index) = outline.loop_index(around) else { return Vec::new() };
    let later = wait.clone().with_condition(format!("( {index} > 0 )"));
    let outer = outline.ancestors(post).take_while(|&outer| outer != around).chain([post]);
    let found = outer.filter_map(|outer| TextChange::new(outline).with_inserted(&later, Place::Before(outer)));
    let found = found.filter_map(TextChange::into_candidate);
    found.map(|candidate| candidate.with_idea(CandidateIdea::Guess)).collect()
}

/// The owners of the memory that the results of a statement are in.
fn written_owners(outline: &Outline<'_>, statement: usize) -> impl Iterator<Item = TensorId> {
    outline.op(statement).output_tensors().map(|tensor| outline.owner(tensor))
}

/// The places before the first statement of a loop that uses what a communication of it transfers: the innermost first.
fn use_places(outline: &Outline<'_>, post: usize, around: usize) -> Vec<Place> {
    let members = outline.group_of(post).unwrap_or(post..=post);
    let (mut received, mut sent): (Vec<TensorId>, Vec<TensorId>) = Default::default();
    for at in members.clone() {
        received.extend(written_owners(outline, at));
        sent.extend(outline.op(at).input_tensors().map(|tensor| outline.owner(tensor)));
    }
    let mut after = members.end() + 1..outline.statements[around].next;
    let first = after.find(|&at| {
        let uses_received = outline.accessed_owners(at, at).iter().any(|owner| received.contains(owner));
        let is_name = outline.kind(at).effect() == OpEffect::Alias;
        !is_name && (uses_received || written_owners(outline, at).any(|owner| sent.contains(&owner)))
    });
    let Some(first) = first else { return Vec::new() };
    outline.up_to_common(first, post).into_iter().map(Place::Before).collect()
}

/// Candidates that let a Wait for a message of a group wait for the group.
fn wait_for_group(outline: &Outline<'_>, end: usize) -> Vec<Candidate> {
    let (Some(number), Some(members)) = (outline.op(end).number(), outline.group_of(end)) else { return Vec::new() };
    let own = members.filter(|&at| outline.kind(at).is_message()).filter_map(|at| outline.op(at).number());
    let waits = own.flat_map(|own| waits_of(outline, own).map(move |wait| (own, wait)));
    let changes = waits.filter_map(|(own, wait)| {
        let [old, new] = [own, number].map(|number| format!("Communication {number}"));
        TextChange::new(outline).with_changed(wait, &old, &new)?.into_candidate()
    });
    changes.collect()
}

/// Candidates for a Wait without a start, or a start before the last Wait.
pub(super) fn match_waits(outline: &Outline<'_>, primary: usize, others: &[usize]) -> Vec<Candidate> {
    if outline.kind(primary).is_wait() {
        let mut found = wait_in_later_steps(outline, primary, others);
        found.extend(bound_waits(outline, primary, others));
        let guarded = others.iter().filter_map(|&post| wait_on_starting_ranks(outline, primary, post));
        match others.iter().any(|&post| is_in_other_branch(outline, post, primary)) {
            true => {
                found.extend(others.iter().flat_map(|&post| move_into_branch(outline, primary, post)));
                found.extend(guarded);
            }
            false => {
                found.extend(guarded);
                found.extend(delete_waste(outline, primary));
            }
        }
        return found;
    }
    let mut found = wait_for_group(outline, primary);
    found.extend(make_array(outline, primary));
    found.extend(wait_late(outline, primary));
    for &statement in std::iter::once(&primary).chain(others) {
        let Some(number) = ending_number(outline, statement) else { continue };
        let block = outline.statements[statement].block;
        let last = outline.last_in_block(block).unwrap_or(statement);
        for place in [Place::After(last), Place::After(statement)] {
            for wait in waits_of(outline, number) {
                let moved = TextChange::new(outline).with_moved(wait, place);
                found.extend(moved.and_then(TextChange::into_candidate));
            }
            let inserted = TextChange::new(outline).with_inserted(&NewStatement::wait(outline, number), place);
            found.extend(inserted.and_then(TextChange::into_candidate));
        }
    }
    found
}
