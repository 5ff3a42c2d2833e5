//! Candidates that order two accesses, or an access and the end of the program.

use super::element_candidates::await_element;
use super::memory_candidates::{make_private, move_scratch};
use super::outline::{Outline, Place, StreamName, stream_text};
use super::slot_candidates::{alternate_slots, other_slots};
use super::statement_text::{NewStatement, bind_caller, plain_stream};
use super::text_change::{Candidate, TextChange};
use super::wait_candidates::{ending_number, waits_of};

/// The end of an access for which a statement is to wait.
#[derive(Clone, PartialEq, Eq, Debug)]
enum AwaitedEnd {
    /// The end of the communication of this number.
    Communication(u32),
    /// The work that the stream got before a statement, in whose text names have their meaning.
    Stream(StreamName, usize),
}

/// Candidates that order one statement's work before another's, as the host issues them.
pub(super) fn order_pair(outline: &Outline<'_>, first: usize, second: usize) -> Vec<Candidate> {
    // Waiting would make the iterations run one after the other.
    let mut found = move_scratch(outline, first, second);
    found.extend(alternate_slots(outline, first, second));
    found.extend(other_slots(outline, first, second));
    found.extend(bind_caller_stream(outline));
    found.extend(await_element(outline, first, second));
    let places = outline.up_to_common(second, first);
    for awaited in awaited_ends(outline, first) {
        found.extend(places.last().and_then(|&outer| move_waiting_branch(outline, &awaited, Place::Before(outer))));
        for &statement in &places {
            add_waiting(outline, &awaited, Place::Before(statement), &mut found);
        }
        if matches!(awaited, AwaitedEnd::Communication(_)) {
            add_waiting(outline, &awaited, Place::After(last_beside(outline, first)), &mut found);
        }
    }
    if first >= second {
        found.extend(order_iterations(outline, first, second));
    }
    found.extend(make_private(outline, first, second));
    found
}

/// Candidates that order an access before the end of the caller's stream.
pub(super) fn join_end(outline: &Outline<'_>, access: usize) -> Vec<Candidate> {
    let last = last_of_body(outline);
    let mut found: Vec<Candidate> = bind_caller_stream(outline).into_iter().collect();
    found.extend(return_from_stream(outline, last));
    for awaited in awaited_ends(outline, access) {
        if outline.last_streams != [StreamName::Caller] {
            found.extend(return_and_wait(outline, &awaited, last));
        }
        add_waiting(outline, &awaited, Place::After(last), &mut found);
        for place in [Place::After(last_beside(outline, access)), Place::After(access)] {
            add_waiting(outline, &awaited, place, &mut found);
        }
    }
    found
}

/// The candidate that binds the number 0 to the caller's stream, in a program that uses it without.
fn bind_caller_stream(outline: &Outline<'_>) -> Option<Candidate> {
    let is_used = (0..outline.statements.len()).any(|at| is_about_stream(outline, at, CALLER));
    if outline.caller.is_some() || !is_used {
        return None;
    }
    TextChange::new(outline)
        .with_inserted(&NewStatement::get_stream(outline, CALLER), Place::Before(0))?
        .into_candidate()
}

/// The candidate that returns at the end from the only stream that the program's own block chooses, and waits for it:
/// a block, `stream 1:`, in which 0 is the caller's stream.
fn return_from_stream(outline: &Outline<'_>, last: usize) -> Option<Candidate> {
    let mut choices = (0..outline.statements.len()).filter(|&at| outline.kind(at).is_stream_choice());
    let choice = choices.next().filter(|&at| outline.statements[at].parent.is_none())?;
    let stream = stream_text(outline.program, outline.op(choice))?;
    if choices.next().is_some() || outline.caller.is_some() || stream == CALLER {
        return None;
    }
    let change =
        TextChange::new(outline).with_inserted(&NewStatement::get_stream(outline, CALLER), Place::Before(choice))?;
    let change = change.with_inserted(&NewStatement::set_stream(outline, CALLER, last), Place::After(last))?;
    change.with_inserted(&NewStatement::synchronize(outline, &stream, choice), Place::After(last))?.into_candidate()
}

fn is_about_stream(outline: &Outline<'_>, at: usize, stream: &str) -> bool {
    stream_text(outline.program, outline.op(at)).is_some_and(|text| text == stream)
}

/// The usual name of the caller's stream.
const CALLER: &str = "Stream 0";

/// The ends whose order may help, likeliest first.
fn awaited_ends(outline: &Outline<'_>, first: usize) -> Vec<AwaitedEnd> {
    let mut ends = Vec::new();
    if let Some(number) = ending_number(outline, first) {
        ends.push(AwaitedEnd::Communication(number));
        for wait in waits_of(outline, number) {
            ends.extend(streams_at(outline, wait));
        }
    }
    ends.extend(streams_at(outline, first));
    for statement in 0..outline.statements.len() {
        ends.extend(streams_at(outline, statement));
    }
    let mut known: Vec<AwaitedEnd> = Vec::new();
    for end in ends {
        let is_known = known.iter().any(|other| match (other, &end) {
            (AwaitedEnd::Stream(other, _), AwaitedEnd::Stream(stream, _)) => other == stream,
            _ => *other == end,
        });
        if !is_known {
            known.push(end);
        }
    }
    known
}

fn streams_at(outline: &Outline<'_>, statement: usize) -> impl Iterator<Item = AwaitedEnd> {
    let streams = outline.statements[statement].streams.iter();
    streams.map(move |stream| AwaitedEnd::Stream(stream.clone(), statement))
}

/// Adds a Wait or a Synchronize at a place: a new one, or a moved one from further down.
fn add_waiting(outline: &Outline<'_>, awaited: &AwaitedEnd, place: Place, found: &mut Vec<Candidate>) {
    let change = TextChange::new(outline);
    let Some((change, waiting)) = waiting_statement(outline, awaited, place, change) else { return };
    found.extend(change.clone().with_inserted(&waiting, place).and_then(TextChange::into_candidate));
    let Some(later) = later_waiting(outline, &waiting, place) else { return };
    let moved = [outline.guarded(later), later].map(|moved| change.clone().with_moved(moved, place));
    found.extend(moved.into_iter().flatten().filter_map(TextChange::into_candidate));
}

/// The first statement after a place that waits for the same.
fn later_waiting(outline: &Outline<'_>, waiting: &NewStatement, place: Place) -> Option<usize> {
    let mut waits = (place_number(outline, place)..outline.statements.len())
        .filter(|&statement| outline.kind(statement).is_wait() || outline.kind(statement).is_synchronization());
    waits.find(|&statement| outline.short_text(statement) == waiting.text)
}

/// Moves a branch that waits on some ranks for one access, on others for another, to a place.
fn move_waiting_branch(outline: &Outline<'_>, awaited: &AwaitedEnd, place: Place) -> Option<Candidate> {
    let (change, waiting) = waiting_statement(outline, awaited, place, TextChange::new(outline))?;
    let later = later_waiting(outline, &waiting, place)?;
    let branch = outline.waiting_branch(later);
    let holds_more = outline.statements[branch].next > outline.statements[outline.guarded(later)].next;
    if holds_more { change.with_moved(branch, place)?.into_candidate() } else { None }
}

/// The statement that waits for an end at a place; the change binds the caller's stream if it has no name there.
fn waiting_statement<'o, 'a>(
    outline: &'o Outline<'a>,
    awaited: &AwaitedEnd,
    place: Place,
    change: TextChange<'o, 'a>,
) -> Option<(TextChange<'o, 'a>, NewStatement)> {
    match awaited {
        AwaitedEnd::Communication(number) => Some((change, NewStatement::wait(outline, *number))),
        AwaitedEnd::Stream(stream, from) => match plain_stream(stream) {
            Some(text) => Some((change, NewStatement::synchronize(outline, text, *from))),
            None => {
                let (change, name) = with_caller_name(outline, place, change)?;
                Some((change, NewStatement::synchronize(outline, &name, *from)))
            }
        },
    }
}

/// The name of the caller's stream at a place, which the change binds if nothing does.
fn with_caller_name<'o, 'a>(
    outline: &'o Outline<'a>,
    place: Place,
    change: TextChange<'o, 'a>,
) -> Option<(TextChange<'o, 'a>, String)> {
    let binding = bind_caller(outline, place_number(outline, place));
    if !binding.is_new {
        return Some((change, binding.stream));
    }
    let change = match &outline.caller {
        Some(late) => change.with_moved(late.statement, Place::Before(0))?,
        None => change.with_inserted(&NewStatement::get_stream(outline, &binding.stream), Place::Before(0))?,
    };
    Some((change, binding.stream))
}

/// The first statement after a place.
fn place_number(outline: &Outline<'_>, place: Place) -> usize {
    match place {
        Place::Before(statement) => statement,
        Place::After(statement) => outline.statements[statement].next,
    }
}

/// Returns to the caller's stream at the end, and waits there.
fn return_and_wait(outline: &Outline<'_>, awaited: &AwaitedEnd, last: usize) -> Option<Candidate> {
    let place = Place::After(last);
    let (change, name) = with_caller_name(outline, place, TextChange::new(outline))?;
    let change = change.with_inserted(&NewStatement::set_stream(outline, &name, last), place)?;
    let (change, waiting) = waiting_statement(outline, awaited, place, change)?;
    change.with_inserted(&waiting, place)?.into_candidate()
}

/// Candidates that order one iteration before the next: the end of the loop's body waits, and the next iteration waits
/// for that.
fn order_iterations(outline: &Outline<'_>, first: usize, second: usize) -> Vec<Candidate> {
    let Some(&around) = outline.common_loops(first, second).first() else { return Vec::new() };
    let last = last_inside(outline, around);
    let end = Place::After(last);
    let mut found = Vec::new();
    for awaited in awaited_ends(outline, first).into_iter().take(3) {
        add_waiting(outline, &awaited, end, &mut found);
        let Some((change, name)) = with_caller_name(outline, end, TextChange::new(outline)) else { continue };
        let back = NewStatement::set_stream(outline, &name, last);
        let change = change.with_inserted(&back, end);
        let change = change.and_then(|change| waiting_statement(outline, &awaited, end, change));
        let change = change.and_then(|(change, waiting)| change.with_inserted(&waiting, end));
        let fork = NewStatement::synchronize(outline, &name, second);
        let change = change.and_then(|change| change.with_inserted(&fork, Place::Before(second)));
        found.extend(change.and_then(TextChange::into_candidate));
    }
    found
}

/// The last statement of the program's own block.
fn last_of_body(outline: &Outline<'_>) -> usize {
    let own = outline.statements.iter().rposition(|statement| statement.parent.is_none());
    own.unwrap_or(0)
}

/// The last statement of the block of a loop or branch.
fn last_inside(outline: &Outline<'_>, outer: usize) -> usize {
    let inner = outer + 1..outline.statements[outer].next;
    inner.rev().find(|&statement| outline.statements[statement].parent == Some(outer)).unwrap_or(outer)
}

/// The last statement of the block of a statement.
fn last_beside(outline: &Outline<'_>, statement: usize) -> usize {
    outline.last_in_block(outline.statements[statement].block).unwrap_or(statement)
}
