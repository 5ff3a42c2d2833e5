//! Errors of one cause: several races of the same statements, of which one repair mends all.

use super::judge::TextJudge;
use super::search::{count_words, is_error};
use crate::diag::{Diag, DiagLabel, Fix, Span, codes};

/// The maximum number of places that an error takes over from others.
const MOST_LABELS: usize = 3;

/// Errors about the order of accesses.
const OF_ORDER: &[&str] = &[codes::RACE, codes::UNJOINED];

fn places(diag: &Diag) -> impl Iterator<Item = Span> + '_ {
    diag.primary.iter().chain(&diag.labels).map(|label| label.span)
}

/// Returns true if two errors about the order of accesses show a statement in common.
pub(super) fn are_related(one: &Diag, other: &Diag) -> bool {
    let are_of_order = [one, other].iter().all(|diag| is_error(diag) && OF_ORDER.contains(&diag.code));
    are_of_order && places(one).any(|place| places(other).any(|beside| beside == place))
}

/// Joins errors that the fix of a related one before them repairs, too: that one shows their places.
pub(super) fn join_related(text: &str, diags: &mut Vec<Diag>, judge: &mut dyn TextJudge) {
    let mut at = 0;
    while at < diags.len() {
        let group = related_group(diags, at);
        let fix = diags[at].fixes.iter().find(|fix| fix.is_machine_applicable()).filter(|_| !group.is_empty());
        if let Some(changed) = fix.and_then(|fix: &Fix| fix.apply_to(text)) {
            let after = judge.judge_text(&changed).diags;
            let gone: Vec<usize> = group.into_iter().filter(|&other| count_words(&after, &diags[other]) == 0).collect();
            let taken: Vec<DiagLabel> = gone.iter().flat_map(|&other| shown_places(&diags[other])).collect();
            add_places(&mut diags[at], taken);
            for other in gone.into_iter().rev() {
                diags.remove(other);
            }
        }
        at += 1;
    }
}

/// Joins related errors with the same fix.
pub(super) fn join_equal(diags: &mut Vec<Diag>) {
    let mut at = 0;
    while at < diags.len() {
        let fix = diags[at].fixes.iter().find(|fix| !fix.edits.is_empty()).cloned();
        let mut group = related_group(diags, at);
        group.retain(|&other| fix.as_ref().is_some_and(|fix| diags[other].fixes.contains(fix)));
        let taken: Vec<DiagLabel> = group.iter().flat_map(|&other| shown_places(&diags[other])).collect();
        add_places(&mut diags[at], taken);
        for other in group.into_iter().rev() {
            diags.remove(other);
        }
        at += 1;
    }
}

/// The errors after one that are related to it, or to another one of the group.
fn related_group(diags: &[Diag], at: usize) -> Vec<usize> {
    let mut group = vec![at];
    let mut checked = 0;
    while let Some(&member) = group.get(checked) {
        let others = (at + 1..diags.len()).filter(|other| are_related(&diags[member], &diags[*other]));
        let new: Vec<usize> = others.filter(|other| !group.contains(other)).collect();
        group.extend(new);
        checked += 1;
    }
    group.remove(0);
    group.sort_unstable();
    group
}

/// The places of an error with what is said there.
fn shown_places(diag: &Diag) -> Vec<DiagLabel> {
    let shown = diag.primary.iter().chain(&diag.labels).filter(|label| !label.text.as_str().is_empty());
    shown.cloned().collect()
}

/// Adds places that a diagnostic does not show yet.
fn add_places(diag: &mut Diag, taken: Vec<DiagLabel>) {
    let limit = diag.labels.len() + MOST_LABELS;
    for label in taken {
        if diag.labels.len() < limit && places(diag).all(|place| place != label.span) {
            diag.labels.push(label);
        }
    }
}
