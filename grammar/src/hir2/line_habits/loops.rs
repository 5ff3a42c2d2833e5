//! Loops over tensors with the number of each slice: `for i, g in enumerate(G):`.

use super::context::LineContext;
use super::line::{CodeLine, is_name};
use super::rewrite::line_at;
use crate::error::{Code, SyntaxEdit, SyntaxError};
use crate::span::Span;
use std::ops::Range;

/// The answer to `for i, g in enumerate(G):`, whose block uses `g`.
pub(super) fn enumerated_loop(text: &str, line: &Range<usize>) -> Option<(Range<usize>, SyntaxError)> {
    let whole = text.get(line.clone())?;
    let column = whole.len() - whole.trim_start().len();
    let code = whole[column..].split("//").next()?.trim_end();
    let (names, range) = code.strip_prefix("for ")?.split_once(" in ")?;
    let (index, item) = names.split_once(',').map(|(index, item)| (index.trim(), item.trim()))?;
    let tensor = range.strip_prefix("enumerate(")?.strip_suffix("):")?.trim();
    if ![index, item, tensor].into_iter().all(is_name) {
        return None;
    }
    let mut meant = format!("for {index} in {tensor}.0:");
    let mut end = line.end;
    while let Some(next) = line_at(text, end + 1) {
        let below = text.get(next.clone())?;
        let is_deeper = below.trim().is_empty() || below.len() - below.trim_start().len() > column;
        if !is_deeper {
            break;
        }
        meant += &format!("\n{}", with_word(below, item, &format!("{tensor}[{index}]")));
        end = next.end;
    }
    let start = line.start + column;
    let shown = code.find("enumerate")?;
    let span = Span::new(start + shown, start + shown + "enumerate".len());
    let error = SyntaxError::new(
        Code::Foreign,
        span,
        format!("a loop has one index, and `{item}` is the slice `{tensor}[{index}]`"),
    );
    let note = format!("write `for {index} in {tensor}.0:`, and `{tensor}[{index}]` for `{item}`");
    let edit = SyntaxEdit { span: Span::new(start, end), text: meant };
    Some((line.start..end, error.with_note(note).with_edit(edit)))
}

/// `P = [f(A[j]) for j in range(p)]`: a list of tensors whose axes the text does not say.
pub(super) fn list_of_tensors(text: &str, line: &Range<usize>) -> Option<(Range<usize>, SyntaxError)> {
    let whole = text.get(line.clone())?;
    let start = line.start + whole.len() - whole.trim_start().len();
    let code = CodeLine::new(whole.trim_start().split("//").next()?.trim_end());
    let equals = code.find_outside("=").filter(|&equals| equals > 0 && code.piece_text(equals + 1) == "[")?;
    let close = code.closing(equals + 1).filter(|&close| close + 1 == code.pieces.len())?;
    let word = (equals + 2..close).find(|&at| code.piece_text(at) == "for" && code.pieces[at].depth == 1)?;
    let target = code.code[..code.pieces[equals].place.start].trim();
    let (index, range) = code.between(word, close).split_once(" in ")?;
    let range = range.strip_prefix("range(").and_then(|rest| rest.strip_suffix(')')).unwrap_or(range);
    let context = LineContext { text, start: line.start, above: &[] };
    if !is_name(target) || !is_name(index) || !is_name(range) || context.is_declared(target) {
        return None;
    }
    let shown = &code.pieces[word].place;
    let span = Span::new(start + shown.start, start + shown.end);
    let message = "there are no lists of tensors: a loop writes the slices of one tensor";
    let note = format!(
        "declare `{target}: f32[{range}, ..] = alloc` with the axes of an item, and write `for {index} in {range}: {target}[{index}] = ..`"
    );
    let error = SyntaxError::new(Code::Foreign, span, message).with_note(note);
    Some((line.clone(), error))
}

/// A line with another text for a word.
fn with_word(line: &str, word: &str, other: &str) -> String {
    let pieces = CodeLine::new(line);
    let mut changed = String::new();
    let mut done = 0;
    for (at, piece) in pieces.pieces.iter().enumerate() {
        let is_word = pieces.piece_text(at) == word && pieces.piece_text(at.wrapping_sub(1)) != ".";
        if is_word {
            changed += &line[done..piece.place.start];
            changed += other;
            done = piece.place.end;
        }
    }
    changed + &line[done..]
}
