//! Coded diagnostics: every module makes them, [`render`] writes them.
//!
//! A diagnostic has a stable code, one sentence (lower case, no full stop; what was found and what is
//! needed, in the user's names), labelled places, notes, and fixes that repair the program. Codes by layer:
//! `H00` syntax, `H01` names and structure, `H02` op constraints, `H03` passes, `H04` sizes and plans,
//! `H05` run time, `H06` environment and files, `H07` proof. `docs/errors.md` lists them all.

pub mod cause;
pub mod codes;
pub mod components;
mod count;
pub mod files;
pub mod fix;
pub mod focus;
pub mod message;
mod panic;
pub mod render;
pub mod visible;

pub use cause::{Cause, CountMismatch, PeerMismatch, Race, SkewPlaces, UnwrittenPlace};
pub use count::count_text;
pub use fix::{Applicability, Fix, TextEdit};
pub use hostir_grammar::Span;
pub use message::{Message, MessageArgument, Notation, PartKind, Quoted, RunOption, message};
pub use panic::panic_text;
use strsim::osa_distance;

/// The severity of a diagnostic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    /// The program is wrong.
    Error,
    /// It may be wrong.
    Warning,
    /// For information.
    Remark,
}

/// A labelled place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiagLabel {
    /// The labelled text.
    pub span: Span,
    /// The label's message; may be empty.
    pub text: Message,
}

/// One diagnostic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diag {
    /// Error, warning or remark.
    pub severity: Severity,
    /// `H0101`.
    pub code: &'static str,
    /// One sentence.
    pub message: Message,
    /// The place of the cause in the text; `None` if it has none.
    pub primary: Option<DiagLabel>,
    /// Other places.
    pub labels: Vec<DiagLabel>,
    /// Further notes.
    pub notes: Vec<Message>,
    /// Repairs.
    pub fixes: Vec<Fix>,
    /// A part of the text at the place that it is about, which is shown in its stead ([`focus`]).
    pub focus: Option<Message>,
    /// The facts that repairs look at.
    pub cause: Option<Box<Cause>>,
}

impl Diag {
    /// An error at a place.
    pub fn error(code: &'static str, span: Span, message: impl Into<Message>) -> Self {
        Self {
            severity: Severity::Error,
            code,
            message: message.into(),
            primary: Some(DiagLabel { span, text: Message::default() }),
            labels: Vec::new(),
            notes: Vec::new(),
            fixes: Vec::new(),
            focus: None,
            cause: None,
        }
    }
    /// An error about no place of the text.
    pub fn global_error(code: &'static str, message: impl Into<Message>) -> Self {
        Self {
            severity: Severity::Error,
            code,
            message: message.into(),
            primary: None,
            labels: Vec::new(),
            notes: Vec::new(),
            fixes: Vec::new(),
            focus: None,
            cause: None,
        }
    }
    /// The same in the words of a notation: every diagnostic is made in those of the printed form.
    pub fn in_notation(&self, notation: Notation) -> Self {
        let label = |label: &DiagLabel| DiagLabel { span: label.span, text: label.text.in_notation(notation) };
        let fix = |fix: &Fix| Fix { message: fix.message.in_notation(notation), ..fix.clone() };
        Self {
            severity: self.severity,
            code: self.code,
            message: self.message.in_notation(notation),
            primary: self.primary.as_ref().map(label),
            labels: self.labels.iter().map(label).collect(),
            notes: self.notes.iter().map(|note| note.in_notation(notation)).collect(),
            fixes: self.fixes.iter().map(fix).collect(),
            focus: self.focus.as_ref().map(|part| part.in_notation(notation)),
            cause: self.cause.clone(),
        }
    }
    /// The same as a warning.
    pub fn into_warning(mut self) -> Self {
        self.severity = Severity::Warning;
        self
    }
    /// The same as an error.
    pub fn into_error(mut self) -> Self {
        self.severity = Severity::Error;
        self
    }
    /// The same as a remark.
    pub fn into_remark(mut self) -> Self {
        self.severity = Severity::Remark;
        self
    }
    /// Sets the text under the primary place.
    pub fn with_primary_text(mut self, text: impl Into<Message>) -> Self {
        if let Some(primary) = &mut self.primary {
            primary.text = text.into();
        }
        self
    }
    /// Adds a label at another place.
    pub fn with_label(mut self, span: Span, text: impl Into<Message>) -> Self {
        self.labels.push(DiagLabel { span, text: text.into() });
        self
    }
    /// Adds a note.
    pub fn with_note(mut self, text: impl Into<Message>) -> Self {
        self.notes.push(text.into());
        self
    }
    /// Sets the part of the text at the primary place that is meant.
    pub fn with_focus(mut self, part: impl Into<Message>) -> Self {
        self.focus = Some(part.into());
        self
    }
    /// Sets the facts that repairs look at.
    pub fn with_cause(mut self, cause: Cause) -> Self {
        self.cause = Some(Box::new(cause));
        self
    }
    /// The race that it reports, if it is one of two accesses.
    pub fn race(&self) -> Option<Race> {
        match self.cause.as_deref()? {
            Cause::Race(race) => Some(*race),
            _ => None,
        }
    }
    /// The elements that are read before anything has written them, if it reports such.
    pub fn unwritten_place(&self) -> Option<&UnwrittenPlace> {
        match self.cause.as_deref()? {
            Cause::Unwritten(place) => Some(place),
            _ => None,
        }
    }
    /// The loop that is to be skewed, if it reports one.
    pub fn skew(&self) -> Option<&SkewPlaces> {
        match self.cause.as_deref()? {
            Cause::Skew(skew) => Some(skew),
            _ => None,
        }
    }
    /// The two sides of a message that name other ranks, if it reports such.
    pub fn peer_mismatch(&self) -> Option<PeerMismatch> {
        match self.cause.as_deref()? {
            Cause::Peers(mismatch) => Some(*mismatch),
            _ => None,
        }
    }
    /// The members that start a collective which others never start, if it reports such.
    pub fn started_members(&self) -> Option<&[i64]> {
        match self.cause.as_deref()? {
            Cause::Members(members) => Some(members),
            _ => None,
        }
    }
    /// The names that its notes propose for results of statements that the text does not have.
    pub fn new_names(&self) -> &[String] {
        match self.cause.as_deref() {
            Some(Cause::NewNames(names)) => names,
            _ => &[],
        }
    }
    /// Adds a repair.
    pub fn with_fix(mut self, fix: Fix) -> Self {
        self.fixes.push(fix);
        self
    }
    /// Adds a fix with the name nearest to the one at a place. It may be the name of another thing.
    pub fn with_near_name(self, span: Span, near: &str) -> Self {
        self.with_proposed_name(span, near, Applicability::MaybeIncorrect)
    }
    fn with_proposed_name(self, span: Span, near: &str, applicability: Applicability) -> Self {
        let fix = Fix { applicability, ..Fix::replacement(format!("write `{near}`"), span, near) };
        self.with_note(format!("did you mean `{near}`?")).with_fix(fix)
    }
    /// Adds a fix with the word of the language for the one at a place: tools may write it.
    pub fn with_meant_word(self, span: Span, meant: &str) -> Self {
        self.with_proposed_name(span, meant, Applicability::Untried)
    }
    /// Adds a fix with the word of the language that is nearest to `found` at a place. Other capitals or underscores
    /// make no other word, and neither does one letter of a long word; one of a short word may, as in `gelu` for `relu`.
    pub fn with_near_word(self, span: Span, found: &str, near: &str) -> Self {
        match is_same_word(found, near) || is_slip_in_word(found, near) {
            true => self.with_meant_word(span, near),
            false => self.with_near_name(span, near),
        }
    }
    /// The label of the cause, then the others.
    pub fn labels_mut(&mut self) -> impl Iterator<Item = &mut DiagLabel> {
        self.primary.iter_mut().chain(&mut self.labels)
    }
    /// The places of all labels and of all edits.
    pub fn spans_mut(&mut self) -> impl Iterator<Item = &mut Span> {
        let labels = self.primary.iter_mut().chain(&mut self.labels).map(|label| &mut label.span);
        labels.chain(self.fixes.iter_mut().flat_map(|fix| &mut fix.edits).map(|edit| &mut edit.span))
    }
}

/// Diagnostics in the order they were found.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Diags {
    /// The diagnostics.
    pub items: Vec<Diag>,
}

impl Diags {
    /// Adds one.
    pub fn push(&mut self, diag: Diag) {
        self.items.push(diag);
    }
    /// Adds the error of a result, or returns its value.
    pub fn keep_error<T>(&mut self, result: Result<T, impl Into<Box<Diag>>>) -> Option<T> {
        result.map_err(|diag| self.push(*diag.into())).ok()
    }
    /// The value, if there is no error.
    ///
    /// # Errors
    /// Returns all diagnostics if one of them is an error.
    pub fn or_value<T>(self, value: T) -> Result<T, Self> {
        if self.has_errors() { Err(self) } else { Ok(value) }
    }
    /// Whether any is an error.
    pub fn has_errors(&self) -> bool {
        self.items.iter().any(|diag| diag.severity == Severity::Error)
    }
    /// The places that the diagnostics are about.
    pub fn primary_spans(&self) -> impl Iterator<Item = Span> + '_ {
        self.items.iter().filter_map(|diag| Some(diag.primary.as_ref()?.span))
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    /// Sorts the diagnostics by place (those without one last); diagnostics of one place keep their order.
    pub fn sort_by_place(&mut self) {
        self.items.sort_by_key(|diag| diag.primary.as_ref().map_or(u32::MAX, |l| l.span.start));
    }
}

/// Maximum length of a name that is compared with others; the work grows with its square.
const MOST_NEAR: usize = 256;

/// The nearest of `candidates` to `text`, if it is near enough to be a misspelling: at most a third of the letters
/// differ (Damerau-Levenshtein distance), whatever their case. A text longer than names has none.
pub fn nearest_candidate<'a>(text: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = text.chars().take(MOST_NEAR + 1).count();
    if length > MOST_NEAR {
        return None;
    }
    // Names of one letter may differ in case only: each would be near to all others otherwise.
    let limit = if length < 2 { 0 } else { (length / 3).max(1) };
    // Letters that only one of the two has cost an edit each, so a long text need not be counted to its end.
    let counted = length + limit + 1;
    candidates
        .into_iter()
        .filter(|candidate| !(is_numbered(text) && is_numbered(candidate)) || text.eq_ignore_ascii_case(candidate))
        .filter(|candidate| candidate.chars().take(counted).count().abs_diff(length) <= limit)
        .map(|candidate| {
            let loose = osa_distance(&text.to_ascii_lowercase(), &candidate.to_ascii_lowercase());
            ((loose, osa_distance(text, candidate)), candidate)
        })
        .filter(|((loose, _), _)| *loose <= limit)
        .min_by_key(|(found, _)| *found)
        .map(|(_, candidate)| candidate)
}

/// Functions of other languages that host programs do not have: none of them is a misspelling of one that they have.
const OTHER_FUNCTIONS: &[&str] = &[
    "add", "all", "and", "any", "cast", "cbrt", "celu", "cot", "csc", "diag", "div", "dot", "elu", "eq", "exp10",
    "flip", "fma", "ge", "gelu", "gt", "hypot", "inv", "le", "len", "load", "logit", "lt", "mean", "mish", "mod",
    "mul", "ne", "neg", "norm", "not", "or", "pad", "prod", "rint", "roll", "round", "sec", "selu", "sgn", "sign",
    "sinc", "sort", "sqr", "std", "store", "sub", "sum", "take", "topk", "tril", "triu", "var", "xor",
];

/// The nearest of the names of functions and ops, unless another function is meant.
pub fn nearest_function<'a>(text: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let is_other = OTHER_FUNCTIONS.contains(&text.to_ascii_lowercase().as_str());
    let near = nearest_candidate(text, known.into_iter().filter(|near| *near != text));
    near.filter(|near| !is_other || near.eq_ignore_ascii_case(text))
}

/// True if two words differ only in capitals and underscores.
fn is_same_word(found: &str, known: &str) -> bool {
    found.replace('_', "").eq_ignore_ascii_case(&known.replace('_', ""))
}

/// The least length of words of which one letter is a slip: `erfcx` and `log10` are functions elsewhere.
const LONG_WORD: usize = 6;

/// True if one letter of a long word is missing, too much, another one or exchanged with the next.
fn is_slip_in_word(found: &str, known: &str) -> bool {
    let length = found.len().max(known.len());
    length >= LONG_WORD && known.len() < MOST_NEAR && osa_distance(found, known) == 1
}

/// `T0`, `i12`: a letter and a number. One such name is no likely misspelling of another one.
fn is_numbered(name: &str) -> bool {
    let mut chars = name.chars();
    let letter = chars.next().is_some_and(|first| first.is_ascii_alphabetic());
    let digits = chars.as_str();
    letter && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Converts an error of the grammar to a diagnostic.
pub fn syntax_error(error: hostir_grammar::SyntaxError) -> Diag {
    let labels = error.others.into_iter().map(|other| DiagLabel { span: other.span, text: other.text.into() });
    let mut diag = Diag::error(error.code, error.span, error.message).with_primary_text(error.label);
    diag.labels.extend(labels);
    diag.notes = error.notes.into_iter().map(Message::from).collect();
    diag.fixes.extend(error.edit.map(|edit| {
        let message = match (edit.text.trim(), edit.span.end - edit.span.start) {
            ("", _) => "leave it out".to_owned(),
            (text, _) if text.contains('\n') => "write these lines".to_owned(),
            (text, 0) => format!("insert `{text}`"),
            (text, _) => format!("write `{text}`"),
        };
        let fix = Fix::replacement(message, edit.span, edit.text);
        Fix { applicability: Applicability::Untried, ..fix }
    }));
    match error.new_name {
        Some(name) => diag.with_cause(Cause::NewNames(vec![name.to_owned()])),
        None => diag,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_functions_are_no_slips() {
        let known = ["sin", "relu", "fmax", "tanh", "exp"];
        assert_eq!(nearest_function("relo", known), Some("relu"));
        assert_eq!(nearest_function("Sin", known), Some("sin"));
        assert_eq!(nearest_function("celu", known), None);
        assert_eq!(nearest_function("sign", known), None);
        assert_eq!(nearest_function("fma", known), None);
    }

    #[test]
    fn slips_of_the_pen() {
        assert_eq!(nearest_candidate("streems", ["streams", "seed"]), Some("streams"));
        assert_eq!(nearest_candidate("höhe", ["hohe", "breite"]), Some("hohe"));
        assert_eq!(nearest_candidate("gross", ["größe"]), None);
        assert_eq!(nearest_candidate("grösse", ["größe"]), Some("größe"));
        assert_eq!(nearest_candidate("T1", ["T0", "i1"]), None);
        assert_eq!(nearest_candidate("q", ["m", "k"]), None);
        assert_eq!(nearest_candidate("S", ["m", "s"]), Some("s"));
        // Long names are not compared, whatever their letters are.
        let long = "ü".repeat(2_000_000);
        assert_eq!(nearest_candidate("streams", [long.as_str(), "stream"]), Some("stream"));
        assert_eq!(nearest_candidate(&long, [long.as_str()]), None);
    }
}
