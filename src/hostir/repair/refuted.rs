//! Advice that does not work: an edit that was tried and leaves the program wrong is taken back, with the words for it.

use super::lines::line_number;
use crate::diag::fix::apply_edits;
use crate::diag::{Diag, Fix, Message, Notation, codes};

/// Errors about names, whose fixes write another name.
const OF_NAMES: &[&str] = &[codes::UNDEFINED_TENSOR, codes::UNKNOWN_SCALAR, codes::UNKNOWN_HANDLE, codes::OWN_INDEX];

/// Returns true for errors about names, axes and sizes. A word of the language is the meant one even if the statement
/// has another error.
pub(super) fn is_refutable(code: &str) -> bool {
    OF_NAMES.contains(&code) || ["H02", "H04"].iter().any(|stage| code.starts_with(stage))
}

/// Removes fixes of a diagnostic, each with what its notes say of the same code.
pub(super) fn retract_fixes(diag: &mut Diag, refuted: &[usize]) {
    let mut number = 0;
    let mut gone: Vec<Fix> = Vec::new();
    diag.fixes.retain(|fix| {
        let is_kept = !refuted.contains(&number);
        number += 1;
        if !is_kept {
            gone.push(fix.clone());
        }
        is_kept
    });
    let codes: Vec<String> = gone.iter().flat_map(|fix| quoted_codes(&fix.message)).collect();
    let notes = std::mem::take(&mut diag.notes);
    let kept = notes.into_iter().filter_map(|note| without_advice(note, &codes));
    // The other choice is the only one now.
    let other = |note: &Message| note.as_str().strip_prefix("or ").map(str::to_owned);
    diag.notes = kept.map(|note| other(&note).filter(|_| !codes.is_empty()).map_or(note, Message::from)).collect();
}

/// Words of a clause that proposes code.
const PROPOSALS: &[&str] = &["write `", "declare `", "send it", "or gather it", "take `", "would fit with `"];

/// The words of a clause that gives no reason: `send it`.
const LEAST_WORDS: usize = 3;

/// Removes clauses of a diagnostic's notes that propose code which none of these texts has.
pub(super) fn retract_words(diag: &mut Diag, texts: &[String]) {
    let is_proposal = |note: &str| PROPOSALS.iter().any(|words| note.contains(words));
    let notes = std::mem::take(&mut diag.notes).into_iter();
    let kept = notes.filter_map(|note| {
        let note = if is_proposal(note.in_notation(Notation::Hir2).as_str()) {
            note.in_notation(Notation::Hir2)
        } else {
            note
        };
        let codes = if is_proposal(note.as_str()) { quoted_codes(&note) } else { Vec::new() };
        let is_gone = |code: &String| texts.iter().all(|text| !text.contains(code.as_str()));
        let gone: Vec<String> = codes.into_iter().filter(is_gone).collect();
        let is_reason = |note: &Message| note.as_str().split(' ').count() > LEAST_WORDS;
        if gone.is_empty() { Some(note) } else { without_advice(note, &gone).filter(is_reason) }
    });
    diag.notes = kept.collect();
}

/// The code in backquotes of a message.
fn quoted_codes(message: &Message) -> Vec<String> {
    message.as_str().split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// A note without the clause that proposes one of these codes: the reason before or after it stays.
fn without_advice(note: Message, codes: &[String]) -> Option<Message> {
    let text = note.as_str();
    let proposes = |clause: &str| codes.iter().any(|code| clause.contains(&format!("`{code}`")));
    if !proposes(text) {
        return Some(note);
    }
    let (before, after) = split_clauses(text)?;
    let kept = [before, after].into_iter().find(|clause| !proposes(clause))?;
    Some(kept.to_owned().into())
}

/// The clauses before and after the first `: ` that is not in backquotes.
fn split_clauses(text: &str) -> Option<(&str, &str)> {
    let mut is_code = false;
    for (at, letter) in text.char_indices() {
        is_code ^= letter == '`';
        if !is_code && text[at..].starts_with(": ") {
            return Some((&text[..at], &text[at + 2..]));
        }
    }
    None
}

/// Returns true if an error of a changed text may follow from the change: it shows a line with an edit, or names
/// something that such a line names.
pub(super) fn is_of_change(text: &str, fix: &Fix, changed: &str, next: &Diag) -> bool {
    let lines = edited_lines(text, fix);
    let shown = next.primary.iter().chain(&next.labels);
    if shown.into_iter().any(|label| lines.contains(&line_number(changed, label.span.start))) {
        return true;
    }
    let edited = changed.lines().zip(0..).filter(|(_, number)| lines.contains(number));
    let written = fix.edits.iter().flat_map(|edit| words(&edit.text));
    let names: Vec<&str> = edited.flat_map(|(line, _)| tensor_names(line)).chain(written).collect();
    let said = std::iter::once(&next.message).chain(&next.notes);
    said.flat_map(|message| words(message.as_str())).any(|word| names.contains(&word))
}

/// The lines of the changed text in which an edit ends, from 0.
fn edited_lines(text: &str, fix: &Fix) -> Vec<usize> {
    let counts = (0..fix.edits.len()).filter_map(|count| {
        let edit = &fix.edits[count];
        let head = text.get(..edit.span.end.max(edit.span.start) as usize)?;
        let before = apply_edits(head, &fix.edits[..=count])?;
        let last = before.matches('\n').count();
        Some(last - edit.text.matches('\n').count().min(last)..=last)
    });
    counts.flatten().collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// The words of a line that begin with a capital: tensors, mostly.
fn tensor_names(line: &str) -> impl Iterator<Item = &str> {
    let code = line.split("//").next().unwrap_or_default();
    words(code).filter(|word| word.starts_with(|c: char| c.is_ascii_uppercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_stays() {
        let codes = ["G: f32[p, m]".to_owned(), "own".to_owned()];
        let left = |note: &str| without_advice(note.to_owned().into(), &codes).map(|note| note.as_str().to_owned());
        assert_eq!(left("`X` is `f32[m]`: declare `G: f32[p, m]`"), Some("`X` is `f32[m]`".to_owned()));
        assert_eq!(left("write `own`: other parts travel"), Some("other parts travel".to_owned()));
        assert_eq!(left("did you mean `own`?"), None);
        assert_eq!(left("at s=1"), Some("at s=1".to_owned()));
    }
}
