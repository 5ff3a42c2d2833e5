//! Changes of a text, put together of statements that are inserted, moved and deleted.

use super::outline::{Outline, Place};
use super::statement_text::NewStatement;
use crate::diag::fix::apply_edits;
use crate::diag::{Span, TextEdit};

/// A changed text.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) text: String,
    /// The edits that make it of the text that it is a candidate for.
    pub(super) edits: Vec<TextEdit>,
    /// The effect of the change.
    pub(super) message: String,
    pub(super) idea: CandidateIdea,
}

/// The thought of a change that matters when it is compared with others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CandidateIdea {
    /// Any other.
    Plain,
    /// A communication goes on beside other work.
    Overlap,
    /// The iterations of a loop alternate between slots of a buffer, which other statements may have meant otherwise.
    Slots,
    /// Another change may have been meant, if it works and the program then computes something else.
    Guess,
    /// One of several that may have been meant, whether the others work or not.
    Doubtful,
}

impl Candidate {
    pub(super) fn with_idea(self, idea: CandidateIdea) -> Self {
        Self { idea, ..self }
    }
}

/// A part of a change in words.
#[derive(Clone)]
struct TextAction {
    /// `insert`.
    verb: &'static str,
    /// The statement, or what is done with a part of it.
    object: String,
}

impl TextAction {
    fn new(verb: &'static str, object: String) -> Self {
        Self { verb, object }
    }
}

/// A change that is being put together.
#[derive(Clone)]
pub(super) struct TextChange<'o, 'a> {
    outline: &'o Outline<'a>,
    edits: Vec<TextEdit>,
    actions: Vec<TextAction>,
    /// Statements that are no longer where they were.
    gone: Vec<usize>,
    /// Statements beside which others are inserted.
    joined: Vec<usize>,
}

impl<'o, 'a> TextChange<'o, 'a> {
    pub(super) fn new(outline: &'o Outline<'a>) -> Self {
        Self { outline, edits: Vec::new(), actions: Vec::new(), gone: Vec::new(), joined: Vec::new() }
    }

    /// The insertion of lines at a place.
    fn insert_lines(&mut self, place: Place, lines: String) -> Option<()> {
        let (Place::Before(beside) | Place::After(beside)) = place;
        self.joined.push(beside);
        self.edits.push(self.outline.insertion(place, lines)?);
        Some(())
    }

    /// Whether a block of statements that are gone, with its header in place, has no other statement.
    fn empties_block(&self) -> bool {
        self.gone.iter().any(|&statement| {
            let mut beside = self.outline.statements_beside(statement);
            self.outline.ancestors(statement).all(|outer| !self.gone.contains(&outer))
                && beside.all(|other| self.gone.contains(&other) && !self.joined.contains(&other))
        })
    }

    /// Inserts a statement; `None` if its text cannot stand there.
    pub(super) fn with_inserted(mut self, statement: &NewStatement, place: Place) -> Option<Self> {
        let place = self.outline.outside_groups(place);
        let lines = statement.lines_at(self.outline, place)?;
        self.insert_lines(place, lines)?;
        self.actions.push(TextAction::new("insert", format!("`{}`", statement.text)));
        Some(self)
    }

    /// Deletes a statement, and the branches and loops that hold nothing else.
    pub(super) fn with_deleted(mut self, statement: usize) -> Option<Self> {
        let whole = self.outline.sole_holder(statement);
        self.edits.push(self.outline.deletion(whole)?);
        self.gone.push(whole);
        self.actions.push(TextAction::new("delete", format!("`{}`", self.outline.short_text(statement))));
        Some(self)
    }

    /// Moves a statement with its lines, to a place outside of groups.
    pub(super) fn with_moved(self, statement: usize, place: Place) -> Option<Self> {
        let place = self.outline.outside_groups(place);
        self.with_moved_lines(statement, place)
    }

    /// Moves a statement beside another one: inside of a group, if both are in it, and slices in front of it.
    pub(super) fn with_moved_beside(self, statement: usize, place: Place) -> Option<Self> {
        let (Place::Before(beside) | Place::After(beside)) = place;
        let group = self.outline.group_of(beside);
        match group.is_some() && group == self.outline.group_of(statement) && self.outline.kind(statement).is_message()
        {
            true => self.with_moved_lines(statement, place),
            false => self.with_moved(statement, place),
        }
    }

    fn with_moved_lines(mut self, statement: usize, place: Place) -> Option<Self> {
        let lines = self.outline.moved_lines(statement, self.outline.place_indentation(place)?)?;
        let lines = if lines.ends_with('\n') { lines } else { lines + "\n" };
        // A branch that holds nothing else goes.
        let emptied = self.outline.sole_holder(statement);
        self.edits.push(TextEdit { span: self.outline.whole_lines(emptied)?, text: String::new() });
        self.gone.push(emptied);
        self.insert_lines(place, lines)?;
        // A branch is named by what it holds.
        let named = if self.outline.kind(statement).is_branch() { statement + 1 } else { statement };
        self.actions.push(TextAction::new("move", format!("`{}`", self.outline.short_text(named))));
        Some(self)
    }

    /// Puts what a branch holds in its place.
    pub(super) fn with_unwrapped(mut self, branch: usize) -> Option<Self> {
        let indentation = self.outline.indentation(branch)?;
        let span = self.outline.whole_lines(branch)?;
        let header = self.outline.statements[branch].span.start.checked_sub(indentation.len())?;
        let mut lines = self.outline.text.get(span.start as usize..header)?.to_owned();
        let mut at = branch + 1;
        while at < self.outline.statements[branch].next {
            lines += &self.outline.moved_lines(at, indentation)?;
            at = self.outline.statements[at].next;
        }
        self.edits.push(TextEdit { span, text: lines });
        self.actions.push(TextAction::new("delete", format!("`{}`", self.outline.short_text(branch))));
        Some(self)
    }

    /// Inserts a word in front of the last bracket of a statement.
    pub(super) fn with_argument(mut self, statement: usize, argument: &str) -> Option<Self> {
        let span = self.outline.statements[statement].span.clone();
        let close = span.start + self.outline.statement_text(statement).rfind(')')?;
        let span = Span::new(close, close);
        self.edits.push(TextEdit { span, text: format!(", {argument}") });
        let object = format!("`{argument}` to `{}`", self.outline.op(statement).kind.name());
        self.actions.push(TextAction::new("add", object));
        Some(self)
    }

    /// Gives a statement the element of an array of handles that it starts or waits for.
    pub(super) fn with_element(self, statement: usize, index: &str) -> Option<Self> {
        let argument = format!("element={index}");
        if self.outline.statement_text(statement).contains('(') {
            return self.with_argument(statement, &argument);
        }
        // `EndCoalescing 3 {name=h}`, `Wait Communication 3`
        let text = self.outline.statement_text(statement);
        let end = text.find('{').unwrap_or(text.len());
        let at = self.outline.statements[statement].span.start + text[..end].trim_end().len();
        let mut changed = self;
        changed.edits.push(TextEdit { span: Span::new(at, at), text: format!(" ({argument})") });
        let object = format!("`{argument}` to `{}`", changed.outline.op(statement).kind.name());
        changed.actions.push(TextAction::new("add", object));
        Some(changed)
    }

    /// Changes a word of a statement.
    pub(super) fn with_changed(mut self, statement: usize, from: &str, to: &str) -> Option<Self> {
        let start =
            self.outline.statements[statement].span.start + self.outline.statement_text(statement).find(from)?;
        let span = Span::new(start, start + from.len());
        self.edits.push(TextEdit { span, text: to.to_owned() });
        let object = format!("`{to}` in `{}`", self.outline.op(statement).kind.name());
        self.actions.push(TextAction::new("write", object));
        Some(self)
    }

    /// Moves a statement that other lines take the place of.
    pub(super) fn with_replaced(mut self, statement: usize, lines: String, place: Place) -> Option<Self> {
        self.edits.push(TextEdit { span: self.outline.whole_lines(statement)?, text: String::new() });
        self.gone.push(statement);
        self.insert_lines(place, lines)?;
        Some(self)
    }

    /// Says something else about the change.
    pub(super) fn described(mut self, verb: &'static str, object: String) -> Self {
        self.actions = vec![TextAction::new(verb, object)];
        self
    }

    /// The changed text; `None` if parts of the change touch each other, or if a block would have no statement left.
    pub(super) fn into_candidate(self) -> Option<Candidate> {
        if self.empties_block() {
            return None;
        }
        let mut edits = self.edits;
        edits.sort_by_key(|edit| (edit.span.start, edit.span.end));
        let edits = join_edits(edits);
        let text = apply_edits(self.outline.text, &edits)?;
        Some(Candidate { text, edits, message: describe_actions(&self.actions), idea: CandidateIdea::Plain })
    }
}

/// Edits that touch each other as one; those in one place keep their order.
fn join_edits(edits: Vec<TextEdit>) -> Vec<TextEdit> {
    let mut joined: Vec<TextEdit> = Vec::new();
    for edit in edits {
        match joined.last_mut() {
            Some(last) if last.span.end == edit.span.start => {
                last.span.end = edit.span.end;
                last.text += &edit.text;
            }
            _ => joined.push(edit),
        }
    }
    joined
}

/// ``insert `A` and `B` ``: what is done with several things is said once.
fn describe_actions(actions: &[TextAction]) -> String {
    let mut said = String::new();
    let mut last = "";
    for TextAction { verb, object } in actions {
        said += if said.is_empty() { "" } else { " and " };
        if *verb != last {
            said += &format!("{verb} ");
        }
        said += object;
        last = verb;
    }
    said
}
