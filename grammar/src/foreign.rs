//! Spellings of other languages and their equivalents here: `T1 += T2`, `for i in range(4)`, `a ? b : c`.

use crate::builder::Builder;
use crate::error::{Code, SyntaxError};
use crate::span::Span;
use crate::spelling::shorten_text;
use crate::token::{Tok, Token};

/// The tokens of a statement, and their text.
struct StmtTokens<'t> {
    text: &'t str,
    tokens: &'t [Token],
}

impl<'t> StmtTokens<'t> {
    fn token_text(&self, index: usize) -> Option<&'t str> {
        self.tokens.get(index).map(|token| &self.text[token.span.as_usize_range()])
    }
    /// The text of the tokens from `start` on, before `end` and the end of the statement.
    fn from(&self, start: usize, end: usize) -> Option<&'t str> {
        let tokens = self.tokens.get(start..end.min(self.tokens.len()))?;
        let last = tokens.iter().rposition(|token| !matches!(token.tok, Tok::Semi | Tok::Colon))?;
        let span = tokens[0].span.join(tokens[last].span);
        Some(&self.text[span.as_usize_range()])
    }
    /// The text of the tokens from `start` on, before the end of the statement.
    fn rest(&self, start: usize) -> Option<&'t str> {
        self.from(start, usize::MAX)
    }
    /// The text of a token and of the next one.
    fn pair(&self, index: usize) -> Option<&'t str> {
        let span = self.tokens.get(index)?.span.join(self.tokens.get(index + 1)?.span);
        Some(&self.text[span.as_usize_range()])
    }
    /// Returns true if two neighbours have nothing between them.
    fn are_adjacent(&self, index: usize) -> bool {
        let (Some(a), Some(b)) = (self.tokens.get(index), self.tokens.get(index + 1)) else {
            return false;
        };
        a.span.end == b.span.start
    }
}

/// The error for a statement that another language has, met at token `index`.
pub(crate) fn foreign_syntax_error(b: &Builder<'_>, tokens: &[Token], index: usize) -> Option<SyntaxError> {
    let text = StmtTokens { text: b.text, tokens };
    let (word, note) = explain_assignment(&text, index).or_else(|| explain_loop(&text))?;
    let at = if text.token_text(0) == Some(word) { 0 } else { index };
    let start = tokens.get(at)?.span.start;
    let span = Span { start, end: start + word.len() as u32 };
    let message = match word.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        true => format!("`{word}` does not start a statement"),
        false => format!("no statement uses `{word}`"),
    };
    Some(SyntaxError::new(Code::Foreign, span, message).with_note(note))
}

/// Explains `T1 += T2`, `T1++`, `T1 := T2`, `T1 == T2`, `T1 <- T2` and `T2 -> T1`: the meaning, and the spelling here.
fn explain_assignment<'t>(text: &StmtTokens<'t>, index: usize) -> Option<(&'t str, String)> {
    let left = text.from(0, index).filter(|_| index > 0)?;
    let tok = text.tokens.get(index)?.tok;
    let next = text.tokens.get(index + 1).filter(|_| text.are_adjacent(index)).map(|token| token.tok);
    let first = matches!(text.tokens[0].tok, Tok::Tensor(_) | Tok::Word(_));
    let alone = index == 1 && first;
    match (tok, next) {
        (Tok::Infix(_) | Tok::Both(_), Some(Tok::Equal)) if alone => {
            let (sign, right) = (text.token_text(index)?, text.rest(index + 2)?);
            Some((text.pair(index)?, format!("write `{left} = {left} {sign} {right};`")))
        }
        (Tok::Both(_) | Tok::Infix(_), Some(Tok::Both(_) | Tok::Infix(_) | Tok::Prefix(_)))
            if alone && text.tokens.get(index + 2).is_none_or(|next| next.starts_line() || next.tok == Tok::Semi) =>
        {
            let sign = text.token_text(index).filter(|sign| text.token_text(index + 1) == Some(sign))?;
            Some((text.pair(index)?, format!("write `{left} = {left} {sign} 1;`")))
        }
        (Tok::Colon, Some(Tok::Equal)) if alone => Some((text.pair(index)?, suggest_set(text, left, index + 2)?)),
        (Tok::Infix(_), Some(Tok::Both(_))) if alone && text.pair(index)? == "<-" => {
            Some(("<-", suggest_set(text, left, index + 2)?))
        }
        (Tok::Infix(_), _) if alone && text.token_text(index)? == "==" => {
            Some(("==", suggest_set(text, left, index + 1)?))
        }
        (Tok::Arrow, _) if alone => {
            let to = text.rest(index + 1)?;
            Some((
                "->",
                format!("write `{to} = Set( {left}, cache_op=Streaming )`; `->` only separates inputs from outputs"),
            ))
        }
        _ => None,
    }
}

/// The right spelling of an assignment of the expression at token `start`: a tensor alone is copied.
fn suggest_set(text: &StmtTokens<'_>, left: &str, start: usize) -> Option<String> {
    let right = text.rest(start)?;
    let copied = matches!(text.tokens.get(start)?.tok, Tok::Tensor(_))
        && text.tokens.get(start + 1).is_none_or(|token| token.tok == Tok::Semi);
    let end = if right.ends_with(')') { "" } else { ";" };
    Some(match copied {
        true => format!("write `{left} = Set( {right}, cache_op=Streaming )`"),
        false => format!("write `{left} = {right}{end}`"),
    })
}

/// `for i in range(4):`, `for (int i = 0; ..`, `while`.
fn explain_loop<'t>(text: &StmtTokens<'t>) -> Option<(&'t str, String)> {
    let word = text.token_text(0)?;
    match word {
        "for" | "For" | "foreach" => {
            let counted = suggest_range_loop(text).or_else(|| suggest_extent_loop(text));
            let note = counted.unwrap_or_else(|| "write `FOR i from 0 to 4:` or `FOR i in iS0{i0}:`".to_owned());
            Some((word, note))
        }
        "while" | "WHILE" | "While" => {
            Some((word, "only counting loops are supported: write `FOR i from 0 to 4:`".to_owned()))
        }
        _ => None,
    }
}

/// `.. i in range(4)` and its kin.
fn suggest_range_loop(text: &StmtTokens<'_>) -> Option<String> {
    let name = text.token_text(1)?;
    text.token_text(3).filter(|word| *word == "range")?;
    Some(match (range_argument(text, 5), range_argument(text, 7), range_argument(text, 9)) {
        (Some(stop), ..) if text.token_text(6) == Some(")") => {
            format!("write `FOR {name} from 0 to {stop}:`")
        }
        (Some(start), Some(stop), _) if text.token_text(8) == Some(")") => {
            format!("write `FOR {name} from {start} to {stop}:`")
        }
        (Some(start), Some(stop), Some(step)) if text.token_text(10) == Some(")") => {
            format!("write `FOR {name} from {start} to {stop} step {step}:`")
        }
        _ => format!("write `FOR {name} from 0 to 4:`, or `FOR {name} in iS0{{i0}}:`"),
    })
}

/// The token at a position, if an argument of a call ends there.
fn range_argument<'t>(text: &'t StmtTokens<'_>, at: usize) -> Option<&'t str> {
    text.token_text(at).filter(|_| text.token_text(at + 1).is_some_and(|next| next == ")" || next == ","))
}

/// `.. i in 4`, `.. i in i0`.
fn suggest_extent_loop(text: &StmtTokens<'_>) -> Option<String> {
    let name = text.token_text(1)?;
    text.token_text(2).filter(|word| *word == "in")?;
    let end = text.tokens.iter().position(|token| matches!(token.tok, Tok::Colon | Tok::LBrace));
    let stop = text.from(3, end.unwrap_or(usize::MAX))?;
    match text.tokens.get(3)?.tok {
        Tok::Domain(_) => Some(format!("write `FOR {name} in {stop}:`")),
        Tok::Int(_) | Tok::Word(_) => Some(format!("write `FOR {name} from 0 to {stop}:`")),
        _ => None,
    }
}

/// The right spelling of the text at token `index`, which is right in another language.
pub(crate) fn foreign_syntax_note(b: &Builder<'_>, tokens: &[Token], index: usize) -> Option<String> {
    let text = StmtTokens { text: b.text, tokens };
    let token = tokens.get(index)?;
    if text.token_text(0) == Some("FOR") && index == 3 {
        return suggest_range_loop(&text).or_else(|| suggest_extent_loop(&text));
    }
    // The kinds of predicates begin with a capital letter.
    let lacks_kind = |word: &str| index == 1 || word.starts_with(|c: char| c.is_ascii_lowercase());
    if text.token_text(0) == Some("IF") && text.token_text(1).is_some_and(lacks_kind) {
        return Some(format!("write the kind of the predicate before it: {}", suggest_condition(&text)));
    }
    match token.tok {
        Tok::LBracket if index > 0 && matches!(tokens[index - 1].tok, Tok::Tensor(_)) => suggest_slice(&text, index),
        Tok::Tensor(_) if index == 1 && text.token_text(0) == Some("Deallocate") => {
            Some(format!("write `Deallocate {{ {} }}`", text.rest(1)?))
        }
        Tok::LBracket => Some(suggest_team_list(&text, index)),
        Tok::Arrow => Some("`->` separates the inputs from the outputs of a container or a HostUnit".to_owned()),
        _ => explain_word(&text, index),
    }
}

/// The right spelling of `if ( i == 0 ):`.
pub(crate) fn suggest_branch(b: &Builder<'_>, tokens: &[Token]) -> String {
    format!("write {}", suggest_condition(&StmtTokens { text: b.text, tokens }))
}

/// The branch with the condition that follows the first token.
fn suggest_condition(text: &StmtTokens<'_>) -> String {
    let end = text.tokens.iter().position(|token| matches!(token.tok, Tok::Colon | Tok::LBrace));
    match text.from(1, end.unwrap_or(usize::MAX)).map(shorten_text) {
        Some(condition) if condition.starts_with('(') => format!("`IF Manual {condition}:`"),
        Some(condition) => format!("`IF Manual ( {condition} ):`"),
        None => "`IF Manual ( i == rank ):`".to_owned(),
    }
}

/// The right spelling of `T2[i]` in front of `=`: the bracket is token `index`.
fn suggest_slice(text: &StmtTokens<'_>, index: usize) -> Option<String> {
    let end = text.tokens.iter().position(|token| token.tok == Tok::RBracket)?;
    let (tensor, at) = (text.token_text(index - 1)?, text.from(index + 1, end)?);
    let tensor = tensor.split('_').next().unwrap_or(tensor);
    Some(format!(
        "write a slice as `T9_l_float[..] = HirAliasSelect( {tensor}, axis = 0, index = {} )`, and T9 here",
        shorten_text(at)
    ))
}

/// `and`, `or`, `not`, and the `if` of `a if b else c`.
fn explain_word(text: &StmtTokens<'_>, index: usize) -> Option<String> {
    let before = index.checked_sub(1).and_then(|before| text.token_text(before));
    match (text.token_text(index)?, before) {
        ("and", _) => Some("write `&&` for `and`".to_owned()),
        ("or", _) => Some("write `||` for `or`".to_owned()),
        ("if", _) => Some("write `where(condition, a, b)` to choose between values".to_owned()),
        (_, Some("not")) => Some("write `!` for `not`".to_owned()),
        _ => None,
    }
}

/// `team=[0, 1]`.
fn suggest_team_list(text: &StmtTokens<'_>, index: usize) -> String {
    let rest = text.tokens.get(index + 1..).unwrap_or_default().iter();
    let numbers: Vec<&str> = rest
        .take_while(|token| token.tok != Tok::RBracket)
        .filter(|token| matches!(token.tok, Tok::Int(_)))
        .map(|token| &text.text[token.span.as_usize_range()])
        .collect();
    if index.checked_sub(2).and_then(|key| text.token_text(key)) == Some("team") {
        let numbers = if numbers.is_empty() { "0 1".to_owned() } else { numbers.join(" ") };
        return format!("write `team=({numbers})`");
    }
    "write a list in braces, such as `{1, 0}`".to_owned()
}

/// The right spelling for a character that starts no token, at byte `at` of a text.
pub(crate) fn character_replacement(text: &str, at: usize, character: char) -> String {
    let note = match character {
        '#' => "start a comment with `//`",
        '@' => return suggest_matmul(text, at),
        '"' | '\'' => "write words and names without quotes, such as `backend=NCCL`",
        '?' => return suggest_conditional(text, at),
        '.' if text[at..].starts_with("..") => "write the bounds of a loop as `from 0 to 4`",
        _ => "names consist of letters, digits and `_`; remove the character",
    };
    note.to_owned()
}

/// The maximum number of characters that are quoted around an operator.
const MOST_OPERAND: usize = 200;

/// `a @ b` around the `@` at byte `at`.
fn suggest_matmul(text: &str, at: usize) -> String {
    // Lines may be long, and have many of these.
    let before = text.get(at.saturating_sub(MOST_OPERAND)..at).unwrap_or("").rsplit('\n').next().unwrap_or("");
    let left = before.rsplit_once('=').map_or(before, |(_, right)| right).trim();
    let rest = text.get(at + 1..text.len().min(at + MOST_OPERAND)).unwrap_or("").lines().next();
    let rest = rest.unwrap_or("");
    let right = rest.split("//").next().unwrap_or(rest).trim().trim_end_matches(';');
    match left.is_empty() || right.is_empty() {
        true => "write `T2 = matmul(T0, T1)` for a matrix product".to_owned(),
        false => format!("write a matrix product as `matmul({}, {})`", shorten_text(left), shorten_text(right)),
    }
}

/// `a ? b : c` around the `?` at byte `at`.
fn suggest_conditional(text: &str, at: usize) -> String {
    let before = text[..at].rsplit('\n').next().unwrap_or("");
    let condition = before.rsplit_once(" = ").map_or(before, |(_, right)| right).trim();
    let rest = text[at + 1..].lines().next().unwrap_or("");
    let branches = rest.split_once(':').map(|(a, b)| (a.trim(), b.trim().trim_end_matches(';')));
    match branches {
        Some((a, b)) if !condition.is_empty() && !a.is_empty() && !b.is_empty() => {
            format!("write `where({condition}, {a}, {b})` to choose between values")
        }
        _ => "write `where(condition, a, b)` to choose between values".to_owned(),
    }
}
