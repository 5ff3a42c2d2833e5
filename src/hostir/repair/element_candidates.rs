//! Candidates about arrays of handles: the element that a Wait names, and the place of the Wait.
//!
//! An array orders more finely than one handle: an access waits for the element whose communication wrote what it reads.
//! That element is mostly the index of the part that the access takes, or that of its loop.

use super::outline::{Outline, Place};
use super::statement_text::NewStatement;
use super::text_change::{Candidate, TextChange};
use super::wait_candidates::{ending_number, waits_of};
use crate::hir2::defaults::is_host_select;
use crate::ir::{AttrKey, TensorId, Value, expr_text};

/// The maximum number of elements that are tried.
const MOST_ELEMENTS: usize = 6;

/// The text of the element that a statement names.
fn element_text(outline: &Outline<'_>, statement: usize) -> Option<String> {
    Some(expr_text(outline.program, outline.op(statement).expr_attr(AttrKey::Element)?))
}

/// The Waits for an element of an array.
fn element_waits<'o>(outline: &'o Outline<'_>, number: u32) -> impl Iterator<Item = usize> + 'o {
    waits_of(outline, number).filter(|&wait| element_text(outline, wait).is_some())
}

/// The numbers of the arrays of handles, in the order of their first starts.
fn array_numbers(outline: &Outline<'_>) -> Vec<u32> {
    let mut numbers: Vec<u32> = Vec::new();
    for at in 0..outline.statements.len() {
        let number = ending_number(outline, at).or_else(|| outline.op(at).number());
        let is_start = element_text(outline, at).is_some() && !outline.kind(at).is_wait();
        numbers.extend(number.filter(|number| is_start && !numbers.contains(number)));
    }
    numbers
}

/// The array whose element a communication or its group starts.
fn array_of_post(outline: &Outline<'_>, post: usize) -> Option<u32> {
    let number = ending_number(outline, post)?;
    array_numbers(outline).contains(&number).then_some(number)
}

/// The indices of the parts of the same memory as `owners` that a statement accesses, then those of its loops: the
/// elements that an access beside it may wait for.
fn likely_elements(outline: &Outline<'_>, access: usize, owners: &[TensorId]) -> Vec<String> {
    let accessed: Vec<TensorId> = outline.op(access).all_tensors().collect();
    let mut found: Vec<String> = Vec::new();
    for at in (0..access).filter(|&at| is_host_select(outline.kind(at))) {
        let is_part = outline.op(at).output_tensors().any(|part| accessed.contains(&part));
        let is_same = outline.op(at).input_tensors().any(|whole| owners.contains(&outline.owner(whole)));
        let index = outline.op(at).expr_attr(AttrKey::Index).filter(|_| is_part && is_same);
        found.extend(index.map(|index| expr_text(outline.program, index)));
    }
    let loops = outline.ancestors(access).filter(|&outer| outline.is_loop(outer));
    found.extend(loops.filter_map(|outer| outline.loop_index(outer)));
    first_elements(found.into_iter())
}

/// The first different ones of some elements.
fn first_elements(found: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = rustc_hash::FxHashSet::default();
    found.filter(|element| seen.insert(element.clone())).take(MOST_ELEMENTS).collect()
}

/// The change of the element that a Wait names.
fn with_other_element<'o, 'a>(
    change: TextChange<'o, 'a>,
    outline: &Outline<'_>,
    wait: usize,
    element: &str,
) -> Option<TextChange<'o, 'a>> {
    let old = element_text(outline, wait).filter(|old| old != element)?;
    change.with_changed(wait, &format!("element={old})"), &format!("element={element})"))
}

/// Candidates that let an access wait for the element of the array that another access belongs to: a Wait of the array
/// that stands elsewhere, or names another element, or a new one.
pub(super) fn await_element(outline: &Outline<'_>, first: usize, second: usize) -> Vec<Candidate> {
    let Some(number) = array_of_post(outline, first) else { return Vec::new() };
    let places: Vec<Place> = outline.up_to_common(second, first).into_iter().map(Place::Before).collect();
    let elements = likely_elements(outline, second, &outline.accessed_owners(first, first));
    let mut found = Vec::new();
    for wait in element_waits(outline, number) {
        let moved = [outline.waiting_branch(wait), outline.guarded(wait), wait];
        let changes = moved.into_iter().flat_map(|moved| places.iter().map(move |&place| (moved, place)));
        found.extend(changes.filter_map(|(moved, place)| TextChange::new(outline).with_moved(moved, place)));
        let others = elements.iter().filter_map(|element| {
            let changed = with_other_element(TextChange::new(outline), outline, wait, element)?;
            // A condition on the iteration belongs to the other element.
            Some([without_condition(outline, wait, element), Some(changed)])
        });
        found.extend(others.flatten().flatten());
    }
    for element in &elements {
        let wait = NewStatement::wait_element(outline, number, element);
        found.extend(places.iter().filter_map(|&place| TextChange::new(outline).with_inserted(&wait, place)));
    }
    found.into_iter().filter_map(TextChange::into_candidate).collect()
}

/// A Wait for another element in every iteration, in the place of a branch that holds nothing else.
fn without_condition<'o, 'a>(outline: &'o Outline<'a>, wait: usize, element: &str) -> Option<TextChange<'o, 'a>> {
    let branch = outline.guarded(wait);
    let number = outline.op(wait).operands.iter().find_map(|operand| match operand {
        Value::Handle(number) => Some(*number),
        _ => None,
    })?;
    let wait = NewStatement::wait_element(outline, number, element);
    let place = Place::After(branch);
    let lines = wait.lines_at(outline, place).filter(|_| outline.kind(branch).is_branch())?;
    let change = TextChange::new(outline).with_replaced(branch, lines, place)?;
    Some(change.described("write", format!("`{}`", wait.text)))
}

/// Candidates for a Wait for an element that was not started, or a start of one that was not waited for: another
/// element, that of another array, a condition, or no Wait.
pub(super) fn match_elements(outline: &Outline<'_>, statement: usize) -> Vec<Candidate> {
    if !outline.kind(statement).is_wait() {
        return wait_before_start(outline, statement);
    }
    let numbers = array_numbers(outline);
    let own = numbers.iter().copied().find(|&number| waits_of(outline, number).any(|wait| wait == statement));
    let Some(own) = own else { return Vec::new() };
    let mut found = Vec::new();
    let posts = (0..outline.statements.len()).filter(|&at| array_of_post(outline, at) == Some(own));
    let mut elements = elements_beside(outline, statement, own);
    elements.extend(posts.clone().filter_map(|post| element_text(outline, post)));
    for element in elements {
        found.extend(with_other_element(TextChange::new(outline), outline, statement, &element));
    }
    for other in numbers.into_iter().filter(|&other| other != own) {
        let [old, new] = [own, other].map(|number| format!("Communication {number}"));
        found.extend(TextChange::new(outline).with_changed(statement, &old, &new));
    }
    found.extend(guard_first(outline, statement));
    found.into_iter().filter_map(TextChange::into_candidate).collect()
}

/// The elements that a Wait of a loop may name: the indices of what the statements after it take.
fn elements_beside(outline: &Outline<'_>, wait: usize, number: u32) -> Vec<String> {
    let posts = (0..outline.statements.len()).filter(|&at| array_of_post(outline, at) == Some(number));
    let owners: Vec<TensorId> = posts.flat_map(|post| outline.accessed_owners(post, post)).collect();
    let end =
        outline.ancestors(wait).find(|&outer| outline.is_loop(outer)).map_or(wait, |at| outline.statements[at].next);
    let after = (wait + 1..end).filter(|&at| outline.does_work(at) && array_of_post(outline, at).is_none());
    let used = after.flat_map(|at| likely_elements(outline, at, &owners));
    let loops = outline.ancestors(wait).filter(|&outer| outline.is_loop(outer));
    first_elements(used.chain(loops.filter_map(|outer| outline.loop_index(outer))))
}

/// A Wait that the first iteration leaves out: nothing has been started before it.
fn guard_first<'o, 'a>(outline: &'o Outline<'a>, wait: usize) -> Option<TextChange<'o, 'a>> {
    let around = outline.ancestors(wait).find(|&outer| outline.is_loop(outer))?;
    let index = outline.loop_index(around).filter(|_| outline.guarded(wait) == wait)?;
    let indentation = outline.place_indentation(Place::Before(wait))?;
    let text = outline.statement_text(wait).trim_end();
    let header = format!("IF Manual ( {index} > 0 ):");
    let lines = format!("{indentation}{header}\n{indentation}  {text}\n");
    let change = TextChange::new(outline).with_replaced(wait, lines, Place::After(wait))?;
    Some(change.described("write", format!("`{header}` around `{text}`")))
}

/// Candidates for an element that is started again: its Wait stands in front of that, or is written there.
fn wait_before_start(outline: &Outline<'_>, post: usize) -> Vec<Candidate> {
    let Some(number) = array_of_post(outline, post) else { return Vec::new() };
    let Some(around) = outline.ancestors(post).find(|&outer| outline.is_loop(outer)) else { return Vec::new() };
    let places: Vec<Place> = outline.up_to_common(post, around).into_iter().map(Place::Before).collect();
    let owners = outline.accessed_owners(post, post);
    let users = (around + 1..outline.statements[around].next).filter(|&at| outline.does_work(at));
    let elements = first_elements(users.flat_map(|at| likely_elements(outline, at, &owners)));
    let mut found = Vec::new();
    for wait in element_waits(outline, number) {
        let moved = [outline.guarded(wait), wait];
        let changes = moved.into_iter().flat_map(|moved| places.iter().map(move |&place| (moved, place)));
        found.extend(changes.filter_map(|(moved, place)| TextChange::new(outline).with_moved(moved, place)));
    }
    for element in &elements {
        let wait = NewStatement::wait_element(outline, number, element);
        found.extend(places.iter().filter_map(|&place| TextChange::new(outline).with_inserted(&wait, place)));
    }
    found.into_iter().filter_map(TextChange::into_candidate).collect()
}
