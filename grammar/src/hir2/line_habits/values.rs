//! Values of other languages: conditional expressions, several assignments in one, other comparisons.

use super::context::LineContext;
use super::habit::Habit;
use super::line::{CodeLine, has_word, is_name, split_items};
use std::ops::Range;

/// The bytes of the expression around a piece: from the last `=`, `(`, `,` or `->` outside of its brackets to the next
/// `,`, `)` or the end.
fn expression_around(line: &CodeLine<'_>, at: usize) -> Range<usize> {
    let depth = line.pieces[at].depth;
    let mut start = 0;
    for before in (0..at).rev() {
        let piece = &line.pieces[before];
        let is_border = piece.depth == depth
            && matches!(line.piece_text(before), "=" | "," | "->" | ":" | ";" | "return")
            || piece.depth < depth;
        if is_border {
            start = piece.place.end;
            break;
        }
    }
    let mut end = line.code_end();
    for after in at + 1..line.pieces.len() {
        let piece = &line.pieces[after];
        if piece.depth < depth
            || piece.depth == depth && matches!(line.piece_text(after), "," | ")" | "]" | "}" | ";" | "->")
        {
            end = piece.place.start;
            break;
        }
    }
    let start = start + line.code[start..end].len() - line.code[start..end].trim_start().len();
    start..start + line.code[start..end].trim_end().len()
}

/// The next piece of a word at the depth of another one, inside of a place.
fn word_after(line: &CodeLine<'_>, at: usize, word: &str, place: &Range<usize>) -> Option<usize> {
    let depth = line.pieces[at].depth;
    (at + 1..line.pieces.len())
        .take_while(|&next| line.pieces[next].place.end <= place.end)
        .find(|&next| line.pieces[next].depth == depth && line.piece_text(next) == word)
}

/// `0 if s == 0 else p - 1`.
pub(super) fn conditional_value(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let at = (1..line.pieces.len()).find(|&at| {
        line.piece_text(at) == "if" && line.piece_text(at - 1) != "else" && line.piece_text(at - 1) != ":"
    })?;
    let place = expression_around(line, at);
    let otherwise = word_after(line, at, "else", &place)?;
    let value = line.code[place.start..line.pieces[at].place.start].trim();
    let condition = line.between(at, otherwise);
    let other = line.code[line.pieces[otherwise].place.end..place.end].trim();
    let are_known = [value, condition, other].iter().all(|part| !part.is_empty());
    let message = "a value has no condition after it";
    let shown = line.pieces[at].place.clone();
    are_known.then(|| {
        let meant = Habit::replace_part(line, place.clone(), &format!("where({condition}, {value}, {other})"), message);
        Habit { place: shown, ..meant }
    })
}

/// `s == 0 ? 0 : p - 1`.
pub(super) fn choice_of_two(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let at = (1..line.pieces.len()).find(|&at| line.piece_text(at) == "?")?;
    let place = expression_around(line, at);
    let colon = word_after(line, at, ":", &(place.start..line.code_end()))?;
    let place = place.start..expression_around(line, colon).end;
    let condition = line.code[place.start..line.pieces[at].place.start].trim();
    let condition = condition
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix(')'))
        .filter(|inner| !inner.contains(['(', ')']))
        .unwrap_or(condition);
    let value = line.between(at, colon);
    let other = line.code[line.pieces[colon].place.end..place.end].trim();
    let are_known = [value, condition, other].iter().all(|part| !part.is_empty());
    let shown = line.pieces[at].place.clone();
    are_known.then(|| {
        let meant = format!("where({condition}, {value}, {other})");
        Habit { place: shown, ..Habit::replace_part(line, place.clone(), &meant, "`?` is no operator") }
    })
}

/// `wait h if s > 0`.
pub(super) fn trailing_condition(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let at = line.find_outside("if").filter(|at| *at > 0 && !matches!(line.piece_text(at - 1), "else" | ":"))?;
    let has_more = (at..line.pieces.len()).any(|more| matches!(line.piece_text(more), "else" | ":"));
    let statement = line.code[..line.pieces[at].place.start].trim();
    let condition = line.code[line.pieces[at].place.end..].trim().trim_end_matches(';').trim_end();
    let is_known = !has_more && !condition.is_empty();
    is_known.then(|| {
        let place = line.pieces[at].place.clone();
        Habit::rewrite_line(place, format!("if {condition}: {statement}"), "a statement has no condition after it")
    })
}

/// `right, left = (rank + 1) % p, wrap(rank - 1, p)`.
pub(super) fn several_values(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let equals = line.find_outside("=")?;
    let targets = split_items(
        line.code[..line.pieces[equals].place.start].trim_start_matches('(').trim_end().trim_end_matches(')'),
    );
    let values = split_items(line.code[line.pieces[equals].place.end..].trim().trim_end_matches(';'));
    let are_names = targets.iter().all(|target| is_name(target)) && line.find_outside(":").is_none();
    let is_pairwise =
        targets.len() > 1 && targets.len() == values.len() && values.iter().all(|value| !value.is_empty());
    // Later values may need what an earlier target was before.
    let is_ordered = (0..targets.len())
        .all(|at| values[at.min(values.len() - 1) + 1..].iter().all(|value| !has_word(value, targets[at])));
    (are_names && is_pairwise && is_ordered).then(|| {
        let lines: Vec<String> =
            targets.iter().zip(&values).map(|(target, value)| format!("{target} = {value}")).collect();
        let place = 0..line.pieces[equals].place.start;
        Habit::rewrite_line(
            place.start..line.code[..place.end].trim_end().len(),
            lines.join("\n"),
            "a statement gives one value to one name",
        )
    })
}

/// `a = b = 0`.
pub(super) fn chained_assignment(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let equals: Vec<usize> =
        (0..line.pieces.len()).filter(|&at| line.pieces[at].depth == 0 && line.piece_text(at) == "=").collect();
    let [first, second] = equals[..] else { return None };
    let (target, other) = (line.code[..line.pieces[first].place.start].trim(), line.between(first, second));
    let value = line.code[line.pieces[second].place.end..].trim().trim_end_matches(';');
    (is_name(target) && is_name(other) && !value.is_empty()).then(|| {
        let place = line.pieces[second].place.clone();
        Habit::rewrite_line(
            place,
            format!("{other} = {value}\n{target} = {value}"),
            "a statement gives one value to one name",
        )
    })
}

/// `===`, `<>` and the like.
pub(super) fn other_comparison(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let at = (1..line.pieces.len()).find(|&at| matches!(line.piece_text(at), "===" | "!==" | "<>" | "=<"))?;
    let found = line.piece_text(at);
    let meant = match found {
        "===" => "==",
        "=<" => "<=",
        _ => "!=",
    };
    Some(Habit::replace_part(line, line.pieces[at].place.clone(), meant, format!("`{found}` is no operator")))
}
