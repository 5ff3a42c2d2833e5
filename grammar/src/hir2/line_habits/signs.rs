//! Slips of the pen: wrong signs, missing commas, misspelt words of statements.

use super::context::LineContext;
use super::habit::Habit;
use super::line::CodeLine;
use crate::hir2::habits::foreign_statement_note;
use crate::spelling::nearest_candidate;

/// Words that begin statements.
const FIRST_WORDS: &[&str] =
    &["for", "if", "else", "wait", "free", "sync", "stream", "share", "alias", "assert", "print"];

/// The nearest of some words, of which hardly a letter differs.
pub(super) fn near_word<'c>(word: &str, words: &[&'c str]) -> Option<&'c str> {
    let near = nearest_candidate(word, words)?;
    (strsim::osa_distance(word, near) <= (word.len() / 4).max(1)).then_some(near)
}

/// Words between operands that are no operands.
const JOINING: &[&str] = &["ex", "if", "else", "for", "in", "not", "and", "or", "step", "on", "is"];

/// The bracket around a piece.
fn bracket_around<'a>(line: &CodeLine<'a>, at: usize) -> &'a str {
    let depth = line.pieces.get(at).map_or(0, |piece| piece.depth);
    let mut before = (0..at).rev();
    let open =
        before.find(|&open| line.pieces[open].depth + 1 == depth && matches!(line.piece_text(open), "(" | "[" | "{"));
    open.map_or("", |open| line.piece_text(open))
}

/// `P => S`.
pub(super) fn double_arrow(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let at = (0..line.pieces.len()).find(|&at| matches!(line.piece_text(at), "=>" | "→" | "⇒"))?;
    let found = line.piece_text(at);
    Some(Habit::replace_part(line, line.pieces[at].place.clone(), "->", format!("the arrow is `->`, not `{found}`")))
}

/// `f(A; B)`.
pub(super) fn semicolon_between(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let at = (0..line.pieces.len())
        .find(|&at| line.piece_text(at) == ";" && matches!(bracket_around(line, at), "(" | "["))?;
    let message = "items in brackets are separated by `,`, not by `;`";
    Some(Habit::replace_part(line, line.pieces[at].place.clone(), ",", message).into_slip())
}

/// `a = 1; b = 2`.
pub(super) fn several_statements(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let at = line.find_outside(";").filter(|&at| at > 0 && at + 1 < line.pieces.len())?;
    let place = line.pieces[at].place.clone();
    let (first, rest) = (line.code[..place.start].trim_end(), line.code[place.end..].trim_start());
    Some(Habit::rewrite_line(place, format!("{first}\n{rest}"), "a line has one statement").into_slip())
}

/// `S = f32[m, n] = alloc`, `S = f32[m, n]`.
pub(super) fn equals_before_type(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let is_type = crate::hir2::element_types::is_element_type(line.piece_text(2));
    if !(line.is_name(0) && line.piece_text(1) == "=" && is_type && line.piece_text(3) == "[") {
        return None;
    }
    let shown = line.pieces[1].place.clone();
    let place = line.pieces[0].place.end..line.pieces[2].place.start;
    let changed = Habit::replace_part(line, place, ": ", "a type stands after the name and a `:`");
    Some(Habit { place: shown, ..changed })
}

/// `f(X op=add)`.
pub(super) fn missing_comma(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let at = (1..line.pieces.len()).find(|&at| {
        let (last, next) = (line.piece_text(at - 1), line.piece_text(at));
        let ends = line.is_name(at - 1) || is_number(last) || matches!(last, ")" | "]");
        let begins = line.is_name(at) || is_number(next);
        let are_values = !JOINING.contains(&last) && !JOINING.contains(&next);
        ends && begins && are_values && matches!(bracket_around(line, at), "(" | "[")
    })?;
    let (last, next) = (line.piece_text(at - 1), line.piece_text(at));
    let end = line.pieces[at - 1].place.end;
    let message = format!("a `,` is missing between `{last}` and `{next}`");
    let shown = line.pieces[at].place.clone();
    Some(Habit { place: shown, ..Habit::replace_part(line, end..end, ",", message) }.into_slip())
}

fn is_number(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

/// `esle:`, `fro i in p:`, `wiat h`.
pub(super) fn misspelt_word(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let (word, next) = (line.piece_text(0), line.piece_text(1));
    let is_header = next == ":" && line.pieces.len() == 2;
    let is_before = line.is_name(1) || is_number(next) || matches!(next, "{" | "!" | "-");
    let is_known = FIRST_WORDS.contains(&word) || foreign_statement_note(word).is_some();
    if !line.is_name(0) || is_known || !(is_header || is_before) {
        return misspelt_in_loop(line);
    }
    let near = near_word(word, FIRST_WORDS)?;
    let message = format!("`{word}` begins no statement: did you mean `{near}`?");
    Some(Habit::replace_part(line, line.pieces[0].place.clone(), near, message).into_slip())
}

/// `for i im p:`, `for i in p on stream:`.
fn misspelt_in_loop(line: &CodeLine<'_>) -> Option<Habit> {
    if line.piece_text(0) != "for" || !line.is_name(1) {
        return None;
    }
    let between = line.piece_text(2);
    if matches!(between, "of" | "im" | "ni" | "inn" | "i" | "=" | ":") {
        let message = format!("expected `in`, found `{between}`");
        let place = line.pieces[1].place.end..line.pieces.get(3)?.place.start;
        let shown = line.pieces[2].place.clone();
        return Some(Habit { place: shown, ..Habit::replace_part(line, place, " in ", message) }.into_slip());
    }
    let at = (3..line.pieces.len()).find(|&at| line.piece_text(at - 1) == "on" && line.pieces[at].depth == 0)?;
    let found = line.piece_text(at);
    let is_near = found != "streams" && near_word(found, &["streams"]).is_some();
    let message = format!("the iterations of a loop are on `streams`, not on `{found}`");
    is_near.then(|| Habit::replace_part(line, line.pieces[at].place.clone(), "streams", message).into_slip())
}

/// `not rank == 0`.
pub(super) fn negation(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let at = (0..line.pieces.len()).find(|&at| line.piece_text(at) == "not")?;
    let depth = line.pieces[at].depth;
    let end = (at + 1..line.pieces.len()).find(|&next| {
        line.pieces[next].depth < depth
            || line.pieces[next].depth == depth
                && matches!(line.piece_text(next), "and" | "or" | "&&" | "||" | "," | ":" | ")" | "]" | ";")
    });
    let end = end.map_or(line.code_end(), |end| line.pieces[end].place.start);
    let start = line.pieces[at].place.start;
    let operand = line.code.get(line.pieces[at].place.end..end)?.trim();
    let is_plain = super::line::is_name(operand) || operand.starts_with('(') && operand.ends_with(')');
    let meant = if is_plain { format!("!{operand}") } else { format!("!({operand})") };
    let kept = line.code[start..end].trim_end().len();
    let shown = line.pieces[at].place.clone();
    (!operand.is_empty()).then(|| Habit {
        place: shown,
        ..Habit::replace_part(line, start..start + kept, &meant, "`not` is no operator")
    })
}
