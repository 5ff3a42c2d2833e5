//! Candidates of a repair: changed texts, the likeliest first.

use super::agreement_candidates::{has_other_path, make_agree, team_of_members};
use super::element_candidates::match_elements;
use super::memory_candidates::{clear_sum, delete_waste, free_after_loops, free_later, keep_private};
use super::order_candidates::{join_end, order_pair};
use super::outline::Outline;
use super::range_candidates::whole_ranges;
use super::skew_candidates::skew_loop_at;
use super::text_change::Candidate;
use super::unwritten_candidates::{allocate_output, write_first};
use super::wait_candidates::match_waits;
use crate::ReadOptions;
use crate::diag::{Applicability, Diag, Fix, Span, codes};
use crate::ops::OpRegistry;

/// Returns true if there are candidates for such a diagnostic, or it has fixes that were not tried yet.
pub(super) fn is_repairable(diag: &Diag) -> bool {
    let is_open = |fix: &Fix| match fix.applicability {
        Applicability::Untried => true,
        Applicability::MaybeIncorrect => !fix.edits.is_empty(),
        Applicability::MachineApplicable | Applicability::InWords => false,
    };
    let has_untried = diag.fixes.iter().any(is_open);
    let has_candidates = REPAIRABLE.contains(&diag.code) || diag.skew().is_some();
    has_untried || (has_candidates && diag.fixes.iter().all(|fix| fix.edits.is_empty()))
}

/// Codes with candidates.
const REPAIRABLE: &[&str] = &[
    codes::RACE,
    codes::UNJOINED,
    codes::REDUNDANT_WAIT,
    codes::ENDED_NAME,
    codes::FREED,
    codes::KEPT_BUFFER,
    codes::POSTS,
    codes::UNINITIALISED,
    codes::UNWRITTEN_OUTPUT,
    codes::NO_MEMORY_HERE,
    codes::DEADLOCK,
    codes::DISAGREEMENT,
    codes::POST_ORDER,
    codes::ELEMENT_NOT_STARTED,
    codes::ELEMENT_AGAIN,
];

/// The candidates for a diagnostic about a text, which may name these ops.
pub(super) fn list_candidates(text: &str, diag: &Diag, ops: OpRegistry) -> Vec<Candidate> {
    if let Some(places) = diag.skew() {
        return skew_loop_at(text, places, ops).into_iter().collect();
    }
    let Some(label) = &diag.primary else { return Vec::new() };
    let (programs, _) = crate::load_with_options(text, &ReadOptions::with_ops(ops));
    let outlines = programs.iter().filter_map(|program| Outline::new(text, program));
    let spans: Vec<Span> = std::iter::once(label).chain(&diag.labels).map(|label| label.span).collect();
    let mut holding = outlines.filter(|outline| spans.iter().any(|&span| !outline.statements_at(span).is_empty()));
    let Some(outline) = holding.next() else { return Vec::new() };
    let others: Vec<usize> = diag.labels.iter().flat_map(|label| outline.statements_at(label.span)).collect();
    let mut found = Vec::new();
    // The place of an error about an output is its declaration.
    let mut primaries = outline.statements_at(label.span);
    if primaries.is_empty() {
        primaries.clone_from(&others);
    }
    for primary in primaries {
        let members = diag.started_members().unwrap_or_default();
        let team = team_of_members(&outline, primary, members);
        // Ranks that do something else instead are hardly members.
        let (team, other_team) = if has_other_path(&outline, primary) { (team, None) } else { (None, team) };
        found.extend(team);
        found.extend(statement_candidates(&outline, diag.code, primary, &others));
        found.extend(other_team);
    }
    remove_repeated(&mut found);
    found
}

/// The candidates for a diagnostic about one statement and others.
fn statement_candidates(outline: &Outline<'_>, code: &str, primary: usize, others: &[usize]) -> Vec<Candidate> {
    match code {
        codes::RACE if others.is_empty() => order_pair(outline, primary, primary),
        codes::RACE => others.iter().flat_map(|&first| order_pair(outline, first, primary)).collect(),
        codes::UNJOINED => join_end(outline, primary),
        codes::REDUNDANT_WAIT => delete_waste(outline, primary),
        codes::ENDED_NAME | codes::FREED => free_later(outline, primary, others),
        codes::KEPT_BUFFER => keep_private(outline, primary),
        codes::POSTS => match_waits(outline, primary, others),
        codes::ELEMENT_NOT_STARTED | codes::ELEMENT_AGAIN => match_elements(outline, primary),
        codes::UNINITIALISED => {
            let mut found = write_first(outline, primary);
            found.extend(clear_sum(outline, primary));
            found
        }
        codes::UNWRITTEN_OUTPUT if outline.kind(primary).is_deallocation() => delete_waste(outline, primary),
        codes::UNWRITTEN_OUTPUT => whole_ranges(outline, primary),
        codes::NO_MEMORY_HERE => {
            let mut found = free_after_loops(outline, primary, others);
            found.extend(allocate_output(outline, primary));
            found
        }
        codes::DEADLOCK | codes::DISAGREEMENT | codes::POST_ORDER => make_agree(outline, primary, others),
        _ => Vec::new(),
    }
}

/// Returns true if the missing order of a race would make the first of two writes useless: the program then has a
/// meaning, but hardly the intended one.
pub(super) fn is_lost_write(text: &str, diag: &Diag, ops: OpRegistry) -> bool {
    let Some(race) = diag.race().filter(|race| race.first_writes && race.second_writes && !race.is_one_op) else {
        return false;
    };
    let (programs, _) = crate::load_with_options(text, &ReadOptions::with_ops(ops));
    let outlines = programs.iter().filter_map(|program| Outline::new(text, program));
    let mut found = outlines.filter_map(|outline| {
        let (first, second) = (outline.statements_at(race.first), outline.statements_at(race.second));
        Some(!outline.is_read_between(*first.first()?, *second.first()?))
    });
    found.next().unwrap_or(false)
}

/// Keeps the first of candidates with equal texts.
fn remove_repeated(found: &mut Vec<Candidate>) {
    let mut known = rustc_hash::FxHashSet::default();
    found.retain(|candidate| known.insert(candidate.text.clone()));
}
