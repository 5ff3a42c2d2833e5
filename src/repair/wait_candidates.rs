//! Candidates about communications and their Waits.

use super::candidates::{Candidate, TextChange};
use super::outline::{Outline, Place};
use super::statement_text::NewStatement;
use crate::ir::{OpEffect, OpKind, Value};

/// The number that a Wait for a communication names: its own, or that of its group.
pub(super) fn ending_number(outline: &Outline<'_>, statement: usize) -> Option<u32> {
    let op = outline.op(statement);
    if op.kind.effect() != OpEffect::Communicate {
        return None;
    }
    let own = op.number()?;
    let block = outline.statements[statement].block;
    let behind = (statement + 1..outline.statements.len()).filter(|&other| outline.statements[other].block == block);
    let mut bounds =
        behind.filter(|&other| matches!(outline.kind(other), OpKind::StartCoalescing | OpKind::EndCoalescing));
    let group = bounds.next().filter(|&bound| outline.kind(bound) == OpKind::EndCoalescing);
    Some(group.and_then(|end| outline.op(end).number()).unwrap_or(own))
}

/// The Waits for a communication or group.
pub(super) fn waits_of(outline: &Outline<'_>, number: u32) -> impl Iterator<Item = usize> {
    let waits = (0..outline.statements.len()).filter(|&statement| outline.kind(statement) == OpKind::Wait);
    waits.filter(move |&statement| outline.op(statement).operands.contains(&Value::Handle(number)))
}

/// Candidates for a Wait without a start, or a start before the last Wait.
pub(super) fn match_waits(outline: &Outline<'_>, primary: usize, others: &[usize]) -> Vec<Candidate> {
    let mut found = Vec::new();
    if outline.kind(primary) == OpKind::Wait {
        found.extend(TextChange::new(outline).with_deleted(primary).and_then(TextChange::into_candidate));
        return found;
    }
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
