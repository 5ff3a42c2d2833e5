//! Repairs: fixes for errors of the reader, the verifier and the proof, each tested before it is shown.
//!
//! A repair is a change of the text: a statement that is inserted, moved or deleted (`candidates`), or the spelling
//! that a diagnostic proposes. `search` tries the candidates in order: it changes the text, and a [`TextJudge`] reads
//! and proves the result. A change that leaves an error, or brings a new one, is not shown. Warnings are repaired
//! only if there are no errors: a wrong program may need its waste elsewhere.

mod agreement_candidates;
mod bound_candidates;
mod candidates;
mod further;
mod group_candidates;
mod judge;
mod layout;
mod memory_candidates;
mod order_candidates;
mod outline;
mod poison;
mod range_candidates;
mod rank_condition;
mod search;
mod skew_candidates;
mod slot_candidates;
mod statement_text;
mod text_change;
mod twin;
mod unwritten_candidates;
mod wait_candidates;
mod weighing;

use crate::diag::{Diag, Fix};
use crate::hir2::{is_hir2, own_text};
use search::RepairSearch;

pub use further::add_further_errors;
pub use judge::{TextJudge, TextVerdict, TextWeight};

/// Adds tested fixes to diagnostics about a text.
pub fn add_tested_fixes(text: &str, diags: &mut [Diag], judge: &mut dyn TextJudge) {
    let own = own_text(text).len();
    if diags.iter().all(|diag| !is_open(diag, own)) {
        return;
    }
    let is_short = is_hir2(text);
    let mut search = RepairSearch::new(text, judge).with_known(diags);
    let mut open: Vec<&mut Diag> = Vec::new();
    for diag in diags.iter_mut().filter(|diag| is_open(diag, own)).take(MOST_DIAGS) {
        if is_short && diag.fixes.iter().all(|fix| fix.edits.is_empty()) {
            open.push(diag);
        } else {
            search.add_fix(diag);
        }
    }
    drop(search);
    if !open.is_empty() {
        let mut copies: Vec<Diag> = open.iter().map(|diag| (**diag).clone()).collect();
        twin::add_twin_fixes(text, &mut copies, judge);
        open.into_iter().zip(copies).for_each(|(diag, copy)| diag.fixes = copy.fixes);
    }
}

/// Returns true if a fix is searched for a diagnostic: not in the texts of other files, which follow after `own` bytes.
fn is_open(diag: &Diag, own: usize) -> bool {
    let is_own = diag.primary.as_ref().is_none_or(|label| label.span.start as usize <= own);
    is_own && candidates::is_repairable(diag)
}

/// The maximum number of diagnostics of one text for which fixes are searched.
const MOST_DIAGS: usize = 20;

/// The maximum number of fixes that are applied to one text.
const MOST_ROUNDS: usize = 100;

/// A text after fixes.
#[derive(Clone, Debug)]
pub struct RepairedText {
    /// The text.
    pub text: String,
    /// The fixes, in the order of their application; places are those of the text at that time.
    pub applied: Vec<Fix>,
}

/// Applies machine-applicable fixes until there are none, each to the text that the previous one produced.
pub fn repair_text(text: &str, judge: &mut dyn TextJudge) -> RepairedText {
    let mut repaired = RepairedText { text: text.to_owned(), applied: Vec::new() };
    while repaired.applied.len() < MOST_ROUNDS {
        let Some((fix, text)) = next_fix(&repaired.text, judge) else { break };
        repaired.applied.push(fix);
        repaired.text = text;
    }
    repaired
}

/// The first fix that a tool may apply, and the text with it; those of errors come first.
fn next_fix(text: &str, judge: &mut dyn TextJudge) -> Option<(Fix, String)> {
    let mut diags = judge.judge_text(text).diags;
    diags.sort_by_key(|diag| !search::is_error(diag));
    if is_hir2(text) {
        add_tested_fixes(text, &mut diags, judge);
        let own = own_text(text).len();
        let fixes = diags.iter().flat_map(|diag| &diag.fixes).filter(|fix| fix.is_machine_applicable());
        let fixes = fixes.filter(|fix| fix.edits.iter().all(|edit| edit.span.start as usize <= own));
        return fixes.cloned().find_map(|fix| fix.apply_to(text).map(|text| (fix, text)));
    }
    let mut search = RepairSearch::new(text, judge);
    let repairable = diags.iter_mut().filter(|diag| candidates::is_repairable(diag)).take(MOST_DIAGS);
    repairable.into_iter().find_map(|diag| {
        search.add_fix(diag);
        let fix = diag.fixes.iter().find(|fix| fix.is_machine_applicable())?;
        Some((fix.clone(), fix.apply_to(text)?))
    })
}
