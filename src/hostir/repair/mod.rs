//! Repairs: fixes for errors of the reader, the verifier and the proof, each tested before it is shown.
//!
//! A repair is a change of the text: a statement that is inserted, moved or deleted (`candidates`), or the spelling
//! that a diagnostic proposes. `search` tries the candidates in order: it changes the text, and a [`TextJudge`] reads
//! and proves the result. A change that leaves an error, or brings a new one, is not shown. Warnings are repaired
//! only if there are no errors: a wrong program may need its waste elsewhere.

mod added_names;
mod agreement_candidates;
mod bound_candidates;
mod candidates;
mod consistency;
mod context;
mod element_candidates;
mod further;
mod group_candidates;
mod judge;
mod layout;
mod lines;
mod memory_candidates;
mod message_edits;
mod missing_memory;
mod missing_parts;
mod near_edits;
mod order_candidates;
mod outline;
mod own_handles;
mod part_change;
mod poison;
mod posts;
mod range_candidates;
mod rank_condition;
mod refuted;
mod related;
mod search;
mod skew_candidates;
mod slips;
mod slot_candidates;
mod slot_edits;
mod statement_slips;
mod statement_text;
mod text_change;
mod twin;
mod type_slips;
mod unwritten_candidates;
mod usage;
mod wait_candidates;
mod weighing;

use crate::diag::{Diag, Fix};
use crate::hir2::{is_hir2, own_text};
use context::TextContext;
use refuted::retract_fixes;
use related::{join_equal, join_related};
use search::RepairSearch;

pub use further::add_further_errors;
pub use judge::{TextJudge, TextVerdict, TextWeight};

/// Adds tested fixes to diagnostics about a text, and labels that show where an error comes from. Errors that the fix of
/// another one repairs, because both are about one cause, become a part of that.
pub fn add_tested_fixes(text: &str, diags: &mut Vec<Diag>, judge: &mut dyn TextJudge) {
    let context = TextContext::for_diags(text, diags, &judge.read_options());
    if let Some(context) = &context {
        diags.iter_mut().take(MOST_DIAGS).for_each(|diag| context.propose_names(diag));
    }
    if is_hir2(text) {
        search_slots(text, diags, judge);
    }
    search_fixes(text, diags, judge);
    join_related(text, diags, judge);
    if is_hir2(text) {
        search_near_edits(text, diags, judge);
        join_equal(diags);
    }
    if let Some(context) = &context {
        consistency::explain_by_slip(text, diags, context, judge);
        diags.iter_mut().take(MOST_DIAGS).for_each(|diag| context.add_labels(diag));
    }
    diags.iter_mut().for_each(|diag| remove_equal_fixes(text, diag));
}

/// Keeps the first of the edits of a diagnostic that give the same text; it is sure if one of them is.
fn remove_equal_fixes(text: &str, diag: &mut Diag) {
    if diag.fixes.iter().filter(|fix| !fix.edits.is_empty()).count() < 2 {
        return;
    }
    let mut kept: Vec<(Option<String>, Fix)> = Vec::new();
    for fix in std::mem::take(&mut diag.fixes) {
        let changed = fix.apply_to(text).filter(|_| !fix.edits.is_empty());
        match kept.iter_mut().find(|(known, _)| changed.is_some() && *known == changed) {
            Some((_, known)) if fix.is_machine_applicable() => known.applicability = fix.applicability,
            Some(_) => {}
            None => kept.push((changed, fix)),
        }
    }
    diag.fixes = kept.into_iter().map(|(_, fix)| fix).collect();
}

/// Tries the slots of races before orders: an order alone may leave a wrong slot.
fn search_slots(text: &str, diags: &mut [Diag], judge: &mut dyn TextJudge) {
    let edits: Vec<Vec<Fix>> = diags.iter().map(|diag| near_edits::slot_edits(text, diag)).collect();
    if edits.iter().all(Vec::is_empty) {
        return;
    }
    let mut search = RepairSearch::new(text, judge).with_known(diags);
    for (diag, edits) in diags.iter_mut().zip(edits).filter(|(_, edits)| !edits.is_empty()).take(MOST_NEAR) {
        if let Some(found) = search.first_repair(diag, edits) {
            diag.fixes = vec![found];
        }
    }
}

/// Tries changes by one for the first errors that have no fix.
fn search_near_edits(text: &str, diags: &mut [Diag], judge: &mut dyn TextJudge) {
    let own = own_text(text).len();
    let is_open = |diag: &Diag| {
        let is_own = diag.primary.as_ref().is_some_and(|label| label.span.start as usize <= own);
        is_own && search::is_error(diag) && near_edits::may_be_near(diag)
    };
    if !diags.iter().any(is_open) {
        return;
    }
    let mut search = RepairSearch::new(text, judge).with_known(diags);
    for diag in diags.iter_mut().filter(|diag| is_open(diag)).take(MOST_NEAR) {
        let Some(found) = search.first_repair(diag, near_edits::near_edits(text, diag)) else { continue };
        // It mends all that is wrong: other proposals may not.
        let others: Vec<usize> = (0..diag.fixes.len()).filter(|&at| !diag.fixes[at].edits.is_empty()).collect();
        retract_fixes(diag, &others);
        // The edit is a repair of its own: that in words is another one.
        diag.fixes.retain(|fix| !fix.edits.is_empty());
        diag.fixes.push(found);
    }
}

/// Searches fixes for the first diagnostics that may have one.
fn search_fixes(text: &str, diags: &mut [Diag], judge: &mut dyn TextJudge) {
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

/// The maximum number of errors of one text for which changes by one are tried.
const MOST_NEAR: usize = 2;

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
