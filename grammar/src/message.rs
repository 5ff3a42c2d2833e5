//! Turns a failure of the grammar into a message for users.

use crate::builder::Builder;
use crate::error::{Code, SyntaxError};
use crate::foreign;
use crate::span::Span;
use crate::spelling::{nearest_candidate, shorten_text};
use crate::token::{Tok, Token};
use lalrpop_util::ParseError;

/// The largest number of expectations that a message lists.
const MAX_EXPECTED: usize = 4;

/// The message for `error`, met in the statement of `tokens`. `whole` is used when there are none.
pub(crate) fn describe_error(
    b: &Builder<'_>,
    error: ParseError<u32, Tok, ()>,
    tokens: &[Token],
    whole: Span,
) -> SyntaxError {
    let (at, expected) = match error {
        ParseError::UnrecognizedToken { token: (start, _, _), expected } => (Some(start), expected),
        ParseError::UnrecognizedEof { expected, .. } => (None, expected),
        ParseError::ExtraToken { token: (start, _, _) } => (Some(start), Vec::new()),
        ParseError::InvalidToken { location } => (Some(location), Vec::new()),
        ParseError::User { .. } => (None, Vec::new()),
    };
    let index = at.map_or(tokens.len(), |at| tokens.partition_point(|token| token.span.start < at));
    let error = foreign::foreign_syntax_error(b, tokens, index).or_else(|| no_statement_error(b, tokens, index));
    if let Some(error) = error {
        return error;
    }
    let header = is_only_choice(&expected, "->") || index == 0 && is_only_choice(&expected, "(");
    let wanted = expected_text(&expected, index == 0 && !header);
    let Some(found) = tokens.get(index) else { return early_end_error(tokens, whole, &wanted) };
    let before = index.checked_sub(1).map(|at| tokens[at]);
    if let Some(before) = before.filter(|_| found.starts_line()) {
        let span = Span { start: before.span.end, end: before.span.end };
        let message = format!("expected {wanted} at the end of this line");
        return SyntaxError::new(Code::Unexpected, span, message)
            .with_second_label(found.span, "the statement continues here")
            .with_note(format!("write {wanted}, or start the next statement in the same column as this one"));
    }
    let text = shorten_text(&b.text[found.span.as_usize_range()]);
    let note = header
        .then(|| "write the header as `%HostIrContainer { (inputs) -> (outputs) :`".to_owned())
        .or_else(|| foreign::foreign_syntax_note(b, tokens, index))
        .unwrap_or_else(|| repair_hint(found.tok, before.map(|token| token.tok), index));
    let error = SyntaxError::new(Code::Unexpected, found.span, format!("expected {wanted}, found `{text}`"));
    error.with_note(note)
}

/// Returns true if the grammar allows one token only, and it is this one.
fn is_only_choice(expected: &[String], tok: &str) -> bool {
    matches!(expected, [only] if only.trim_matches('"') == tok)
}

/// Reports two words without a number after them, which start no statement. If they are nearly FOR, IF or ELSE, the
/// answer proposes these.
fn no_statement_error(b: &Builder<'_>, tokens: &[Token], index: usize) -> Option<SyntaxError> {
    let first = tokens.first().filter(|token| matches!(token.tok, Tok::Word(_)))?;
    let word = &b.text[first.span.as_usize_range()];
    let near = nearest_keyword(word);
    let second = tokens.get(1).map(|token| token.tok);
    let handle = tokens.get(1).is_some_and(|token| &b.text[token.span.as_usize_range()] == "Communication");
    let words = index == 2 && matches!(second, Some(Tok::Word(_))) && !handle;
    let block = tokens.last().is_some_and(|token| token.tok == Tok::Colon);
    // `if (a == b):` reads like a call up to its colon.
    let branch = block && word.eq_ignore_ascii_case("if");
    if !branch && (index > 2 || index == 0 || !(words || block || near.is_some())) {
        return None;
    }
    let message = format!("`{word}` does not start a statement");
    let error = SyntaxError::new(Code::Unexpected, first.span, message);
    Some(match near {
        _ if branch => error.with_note(foreign::suggest_branch(b, tokens)),
        Some(near) => error.with_note(format!("did you mean `{near}`?")),
        None => error.with_note(STATEMENTS),
    })
}

/// `FOR` for `for` and `FORR`.
fn nearest_keyword(word: &str) -> Option<&'static str> {
    let near = nearest_candidate(word, &["FOR", "IF", "ELSE"])?;
    let same = near.eq_ignore_ascii_case(word);
    (same || near.len() > 2 && word.len() > near.len()).then_some(near)
}

const STATEMENTS: &str = "write a statement as `name( ... )`, `T1 = name( ... )`, `T1 = a + b;`, FOR or IF";

fn early_end_error(tokens: &[Token], whole: Span, wanted: &str) -> SyntaxError {
    let end = tokens.last().map_or(whole.end, |token| token.span.end);
    let span = Span { start: end, end };
    SyntaxError::new(Code::Unexpected, span, format!("expected {wanted} at the end of this statement"))
        .with_note(format!("write {wanted}; a statement continues on the next line if a bracket is open or the line ends in `=`, an operator or `,`"))
}

/// The repair of an unexpected token.
fn repair_hint(found: Tok, before: Option<Tok>, index: usize) -> String {
    match (found, before) {
        (Tok::Equal, Some(Tok::Equal)) => "remove one of them".to_owned(),
        (Tok::Equal, _) => "only a name, a tensor or a stream can be assigned to with `=`".to_owned(),
        (_, _) if index == 0 => STATEMENTS.to_owned(),
        (Tok::Comma, Some(Tok::Int(_))) => {
            "separate the devices of a team by blanks, not commas: `team=(0 1 2 3)`".to_owned()
        }
        (Tok::Word(_) | Tok::Tensor(_), Some(Tok::Word(_) | Tok::Tensor(_) | Tok::RParen | Tok::Int(_))) => {
            "a `,` or a line break between two statements may be missing before it".to_owned()
        }
        (_, Some(Tok::If)) if index == 1 => {
            "write the kind of the predicate before it: `IF Manual ( i == rank ):`".to_owned()
        }
        _ => "remove it, or complete the text before it".to_owned(),
    }
}

/// An expectation of the grammar at a place, in the words of messages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expectation {
    Value,
    Domain,
    Name,
    Number,
    Operator,
    StatementEnd,
    /// The word or sign itself, in backquotes.
    Sign(&'static str),
}

impl Expectation {
    /// The expectation of a terminal; `None` for unimportant ones.
    fn of_terminal(terminal: &str) -> Option<Self> {
        Some(match terminal {
            "tensor" | "hex" | "float" | "typed" | "cast" | "bool" => Self::Value,
            "domain" => Self::Domain,
            "name" => Self::Name,
            "int" => Self::Number,
            "infix" | "infix or prefix" => Self::Operator,
            "<next>" => Self::StatementEnd,
            "Stream" => Self::Sign("`Stream`"),
            "(" => Self::Sign("`(`"),
            ")" => Self::Sign("`)`"),
            "{" => Self::Sign("`{`"),
            "}" => Self::Sign("`}`"),
            "[" => Self::Sign("`[`"),
            "]" => Self::Sign("`]`"),
            "," => Self::Sign("`,`"),
            ":" => Self::Sign("`:`"),
            "=" => Self::Sign("`=`"),
            "->" => Self::Sign("`->`"),
            "FOR" => Self::Sign("`FOR`"),
            "IF" => Self::Sign("`IF`"),
            "in" => Self::Sign("`in`"),
            "from" => Self::Sign("`from`"),
            "to" => Self::Sign("`to`"),
            _ => return None,
        })
    }

    fn text(self) -> &'static str {
        match self {
            Self::Value => "a value",
            Self::Domain => "a domain",
            Self::Name => "a name",
            Self::Number => "a number",
            Self::Operator => "an operator",
            Self::StatementEnd => "the end of the statement",
            Self::Sign(text) => text,
        }
    }

    /// Returns true for what a value also begins with: words that are names as well, brackets, domains.
    fn is_part_of_value(self) -> bool {
        match self {
            Self::Name | Self::Number | Self::Domain | Self::Operator => true,
            Self::Sign(text) => matches!(text, "`{`" | "`(`" | "`Stream`" | "`in`" | "`from`" | "`to`"),
            Self::Value | Self::StatementEnd => false,
        }
    }

    /// The place in a list: closing brackets and separators first, then values, then the rest.
    fn list_order(self) -> u8 {
        match self {
            Self::Sign("`)`" | "`}`" | "`]`") => 0,
            Self::Sign("`,`" | "`=`" | "`:`" | "`->`") => 1,
            Self::Value | Self::Domain => 2,
            Self::Sign("`in`" | "`from`") => 3,
            Self::Sign("`to`") => 4,
            Self::Name | Self::Number => 5,
            Self::Operator | Self::StatementEnd | Self::Sign(_) => 6,
        }
    }
}

/// `a value, `,` or `)``.
fn expected_text(expected: &[String], at_start: bool) -> String {
    if at_start {
        return "a statement".to_owned();
    }
    let mut found: Vec<Expectation> = Vec::new();
    for one in expected.iter().filter_map(|text| Expectation::of_terminal(text.trim_matches('"'))) {
        if !found.contains(&one) {
            found.push(one);
        }
    }
    // If a value is possible, its other beginnings add nothing.
    if found.contains(&Expectation::Value) {
        found.retain(|one| !one.is_part_of_value());
    }
    // After an expression that may end the statement, only the name of a stream is in braces.
    if found.contains(&Expectation::StatementEnd) && found.contains(&Expectation::Operator) {
        found.retain(|one| *one != Expectation::Sign("`{`"));
    }
    found.sort_by_key(|one| one.list_order());
    found.truncate(MAX_EXPECTED);
    match found.split_last() {
        None => "nothing more".to_owned(),
        Some((last, [])) => last.text().to_owned(),
        Some((last, rest)) => {
            let rest: Vec<&str> = rest.iter().map(|one| one.text()).collect();
            format!("{} or {}", rest.join(", "), last.text())
        }
    }
}
