//! Candidates of a repair: changed texts, the likeliest first.

use super::RepairedSource;
use super::memory_candidates::{delete_waste, free_later, keep_private};
use super::order_candidates::{join_end, order_pair};
use super::outline::{Outline, Place};
use super::statement_text::NewStatement;
use super::wait_candidates::match_waits;
use crate::diag::{Diag, TextEdit, codes};

/// A changed text.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) text: String,
    /// What the change does.
    pub(super) message: String,
}

/// Whether there are candidates for such a diagnostic, or it has fixes that nobody has tried.
pub(super) fn is_repairable(diag: &Diag) -> bool {
    let has_edits = diag.fixes.iter().any(|fix| !fix.edits.is_empty() && !fix.is_machine_applicable());
    has_edits || (REPAIRABLE.contains(&diag.code) && diag.fixes.iter().all(|fix| fix.edits.is_empty()))
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
];

/// The candidates for a diagnostic about a text.
pub(super) fn list_candidates(source: RepairedSource<'_>, diag: &Diag) -> Vec<Candidate> {
    let (programs, _) = crate::load(source.text);
    let Some(program) = programs.get(source.container) else { return Vec::new() };
    let Some(outline) = Outline::new(source.text, program) else { return Vec::new() };
    let Some(primary) = diag.primary.as_ref().and_then(|label| outline.statement_at(label.span)) else {
        return Vec::new();
    };
    let others: Vec<usize> = diag.labels.iter().filter_map(|label| outline.statement_at(label.span)).collect();
    let mut found = match diag.code {
        codes::RACE => order_pair(&outline, others.first().copied().unwrap_or(primary), primary),
        codes::UNJOINED => join_end(&outline, primary),
        codes::REDUNDANT_WAIT => delete_waste(&outline, primary),
        codes::ENDED_NAME | codes::FREED => free_later(&outline, primary, &others),
        codes::KEPT_BUFFER => keep_private(&outline, primary),
        codes::POSTS => match_waits(&outline, primary, &others),
        _ => Vec::new(),
    };
    remove_repeated(&mut found);
    found
}

/// Keeps the first of candidates with one text.
fn remove_repeated(found: &mut Vec<Candidate>) {
    let mut known = rustc_hash::FxHashSet::default();
    found.retain(|candidate| known.insert(candidate.text.clone()));
}

/// A change that is being put together.
#[derive(Clone)]
pub(super) struct TextChange<'o, 'a> {
    outline: &'o Outline<'a>,
    edits: Vec<TextEdit>,
    parts: Vec<String>,
}

impl<'o, 'a> TextChange<'o, 'a> {
    pub(super) fn new(outline: &'o Outline<'a>) -> Self {
        Self { outline, edits: Vec::new(), parts: Vec::new() }
    }

    /// Inserts a statement; `None` if its text cannot stand there.
    pub(super) fn with_inserted(mut self, statement: &NewStatement, place: Place) -> Option<Self> {
        let lines = statement.lines_at(self.outline, place)?;
        self.edits.push(self.outline.insertion(place, lines)?);
        self.parts.push(format!("insert `{}`", statement.text));
        Some(self)
    }

    /// Deletes a statement.
    pub(super) fn with_deleted(mut self, statement: usize) -> Option<Self> {
        self.edits.push(self.outline.deletion(statement)?);
        self.parts.push(format!("delete `{}`", self.outline.short_text(statement)));
        Some(self)
    }

    /// Moves a statement with its lines.
    pub(super) fn with_moved(mut self, statement: usize, place: Place) -> Option<Self> {
        let lines = self.outline.moved_lines(statement, self.outline.place_indentation(place)?)?;
        let lines = if lines.ends_with('\n') { lines } else { lines + "\n" };
        // A comment behind the statement goes with it.
        let deletion = TextEdit { span: self.outline.whole_lines(statement)?, text: String::new() };
        self.edits.push(deletion);
        self.edits.push(self.outline.insertion(place, lines)?);
        self.parts.push(format!("move `{}`", self.outline.short_text(statement)));
        Some(self)
    }

    /// Inserts a word in front of the last bracket of a statement.
    pub(super) fn with_argument(mut self, statement: usize, argument: &str) -> Option<Self> {
        let span = self.outline.statements[statement].span.clone();
        let close = span.start + self.outline.statement_text(statement).rfind(')')?;
        let span = crate::diag::Span::new(close, close);
        self.edits.push(TextEdit { span, text: format!(", {argument}") });
        self.parts.push(format!("add `{argument}` to `{}`", self.outline.op(statement).kind.name()));
        Some(self)
    }

    /// Inserts these lines.
    pub(super) fn with_lines(mut self, lines: String, place: Place) -> Option<Self> {
        self.edits.push(self.outline.insertion(place, lines)?);
        Some(self)
    }

    /// Says something else about the change.
    pub(super) fn described(mut self, message: String) -> Self {
        self.parts = vec![message];
        self
    }

    /// The changed text; `None` if parts of the change touch each other.
    pub(super) fn into_candidate(self) -> Option<Candidate> {
        let text = self.outline.edited_text(self.edits)?;
        Some(Candidate { text, message: self.parts.join(" and ") })
    }
}
