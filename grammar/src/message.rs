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

/// `a value, `,` or `)``.
fn expected_text(expected: &[String], at_start: bool) -> String {
    if at_start {
        return "a statement".to_owned();
    }
    let mut names: Vec<&str> = Vec::new();
    for text in expected {
        let name = describe_terminal(text.trim_matches('"'));
        if !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    // Where a value is possible, its other beginnings (words that are names as well) add nothing.
    if names.contains(&"a value") {
        names.retain(|name| {
            !matches!(
                *name,
                "a name"
                    | "a number"
                    | "`{`"
                    | "`(`"
                    | "`Stream`"
                    | "a domain"
                    | "an operator"
                    | "`in`"
                    | "`from`"
                    | "`to`"
            )
        });
    }
    // After an expression that may end the statement, only the name of a stream is in braces.
    if names.contains(&"the end of the statement") && names.contains(&"an operator") {
        names.retain(|name| *name != "`{`");
    }
    names.sort_by_key(|name| terminal_order(name));
    names.truncate(MAX_EXPECTED);
    match names.split_last() {
        None => "nothing more".to_owned(),
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

/// A terminal of the grammar in plain words; empty for unimportant ones.
fn describe_terminal(terminal: &str) -> &'static str {
    match terminal {
        "tensor" | "hex" | "float" | "typed" | "cast" | "bool" => "a value",
        "domain" => "a domain",
        "name" => "a name",
        "int" => "a number",
        "infix" | "infix or prefix" => "an operator",
        "Stream" => "`Stream`",
        "(" => "`(`",
        ")" => "`)`",
        "{" => "`{`",
        "}" => "`}`",
        "[" => "`[`",
        "]" => "`]`",
        "," => "`,`",
        ":" => "`:`",
        "=" => "`=`",
        "->" => "`->`",
        "<next>" => "the end of the statement",
        "FOR" => "`FOR`",
        "IF" => "`IF`",
        "in" => "`in`",
        "from" => "`from`",
        "to" => "`to`",
        _ => "",
    }
}

/// Closing brackets and separators first, then values, then the rest.
fn terminal_order(name: &str) -> u8 {
    match name {
        "`)`" | "`}`" | "`]`" => 0,
        "`,`" | "`=`" | "`:`" | "`->`" => 1,
        "a value" | "a domain" => 2,
        "`in`" | "`from`" => 3,
        "`to`" => 4,
        "a name" | "a number" => 5,
        _ => 6,
    }
}
