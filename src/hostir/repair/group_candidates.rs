//! Candidates about the order in which a rank starts its communications: together in a group, or another one first.

use super::outline::{Outline, Place};
use super::statement_text::NewStatement;
use super::text_change::{Candidate, TextChange};
use super::wait_candidates::waits_of;
use crate::hir2::defaults::is_host_select;

/// Candidates that start a message together with the next one of its block.
pub(super) fn group_messages(outline: &Outline<'_>, post: usize) -> Vec<Candidate> {
    if !outline.kind(post).is_message() || outline.group_of(post).is_some() {
        return Vec::new();
    }
    let beside: Vec<usize> = outline.statements_beside(post).collect();
    let messages: Vec<usize> =
        beside.iter().copied().filter(|&at| outline.kind(at).is_message() && outline.group_of(at).is_none()).collect();
    let pairs = messages.windows(2).filter(|pair| pair.contains(&post));
    pairs.filter_map(|pair| make_group(outline, pair[0], pair[1])).collect()
}

/// Makes a group of two messages between which there are only waits and slices.
fn make_group(outline: &Outline<'_>, first: usize, second: usize) -> Option<Candidate> {
    let numbers = [outline.op(first).number()?, outline.op(second).number()?];
    let between = first + 1..second;
    let is_clear = between.clone().all(|at| outline.kind(at).is_wait() || is_host_select(outline.kind(at)));
    if !is_clear {
        return None;
    }
    let waits: Vec<usize> = numbers.iter().flat_map(|&number| waits_of(outline, number)).collect();
    let group = free_number(outline);
    let mut change = TextChange::new(outline);
    for select in between.filter(|&at| is_host_select(outline.kind(at))) {
        change = change.with_moved(select, Place::Before(first))?;
    }
    change = change.with_inserted(&NewStatement::start_group(outline), Place::Before(first))?;
    for &wait in &waits {
        change = change.with_deleted(wait)?;
    }
    change = change.with_inserted(&NewStatement::end_group(outline, group), Place::After(second))?;
    let late = waits.iter().copied().filter(|&wait| wait > second).min();
    let place = late.map_or(Place::After(second), Place::Before);
    change.with_inserted(&NewStatement::wait(outline, group), place)?.into_candidate()
}

/// A number that no communication has.
fn free_number(outline: &Outline<'_>) -> u32 {
    let numbers = (0..outline.statements.len()).filter_map(|at| outline.op(at).number());
    numbers.max().map_or(1, |largest| largest.saturating_add(1))
}

/// Candidates that start a later communication of the block first, or this one before an earlier one; each with its
/// slices, without the Wait right after it or with it.
pub(super) fn start_earlier(outline: &Outline<'_>, post: usize) -> Vec<Candidate> {
    let beside: Vec<usize> = outline.statements_beside(post).filter(|&at| outline.kind(at).is_post()).collect();
    let later = beside.iter().copied().find(|&at| at > post).map(|later| (later, post));
    let earlier = beside.iter().copied().rfind(|&at| at < post).map(|earlier| (post, earlier));
    let pairs: Vec<(usize, usize)> = [later, earlier].into_iter().flatten().collect();
    let alone = pairs.iter().filter_map(|&(moved, place)| start_before(outline, moved, place, None));
    let with_wait = pairs.iter().filter_map(|&(moved, place)| {
        let wait = waits_of(outline, outline.op(moved).number()?).find(|&wait| wait == moved + 1)?;
        start_before(outline, moved, place, Some(wait))
    });
    alone.chain(with_wait).collect()
}

/// The candidate that waits for a communication after the next one of its block, which it needs.
pub(super) fn wait_later(outline: &Outline<'_>, post: usize) -> Option<Candidate> {
    let wait = waits_of(outline, outline.op(post).number()?).find(|&wait| wait > post)?;
    let mut beside = outline.statements_beside(post);
    let next = beside.find(|&at| at > wait && outline.kind(at).is_post())?;
    let last = waits_of(outline, outline.op(next).number()?).find(|&last| last == next + 1).unwrap_or(next);
    TextChange::new(outline).with_moved(wait, Place::After(last))?.into_candidate()
}

/// Moves a communication in front of another statement, with its slices and this Wait.
fn start_before(outline: &Outline<'_>, moved: usize, place: usize, wait: Option<usize>) -> Option<Candidate> {
    // Also the slices of which those are made.
    let mut used: Vec<_> = outline.op(moved).all_tensors().collect();
    let mut slices: Vec<usize> = Vec::new();
    for at in (place + 1..moved).rev().filter(|&at| is_host_select(outline.kind(at))) {
        if outline.op(at).output_tensors().all(|part| used.contains(&part)) {
            used.extend(outline.op(at).all_tensors());
            slices.insert(0, at);
        }
    }
    let place = first_own_slice(outline, place);
    slices
        .into_iter()
        .chain([moved])
        .chain(wait)
        .try_fold(TextChange::new(outline), |change, at| change.with_moved_beside(at, Place::Before(place)))?
        .into_candidate()
}

/// The first of the slices without names right in front of a statement that it uses, or the statement: what comes between
/// them would give the slice a statement of its own.
fn first_own_slice(outline: &Outline<'_>, statement: usize) -> usize {
    if outline.group_of(statement).is_some() {
        return statement;
    }
    let used: Vec<_> = outline.op(statement).all_tensors().collect();
    let block = outline.statements[statement].block;
    let before = (0..statement).rev().take_while(|&at| {
        let mut parts = outline.op(at).output_tensors();
        outline.statements[at].block == block
            && is_host_select(outline.kind(at))
            && parts.all(|part| used.contains(&part) && outline.program.tensor(part).name.is_none())
    });
    before.last().unwrap_or(statement)
}
