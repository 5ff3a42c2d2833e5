//! Statements of other languages that one line of `hir 2` can say: each is one error, whose edit writes that line.
//!
//! The parser meets such a line word by word, and what is left of it after the first word would be further errors. So
//! lines with errors are looked at as a whole afterwards: rules rewrite a line until none applies. The answer is given
//! only if the parser reads the new line without errors.

mod calls;
mod communications;
mod declarations;
mod habit;
mod line;
mod ranges;
mod values;

use super::ast::{FileSyntax, StmtForm};
use super::parser::Parser;
use crate::error::{Code, SyntaxEdit, SyntaxError};
use crate::span::Span;
use habit::Habit;
use line::CodeLine;
use std::ops::Range;

/// The most lines of a text that are looked at.
const MOST_LINES: usize = 100;

/// The most rules that one line may need.
const MOST_REWRITES: usize = 12;

/// The longest line that is looked at.
const MOST_LENGTH: usize = 400;

/// A rule: what it finds in a line of a text.
type Rule = fn(&CodeLine<'_>, &str) -> Option<Habit>;

/// The rules, those first that find what others would take for something else.
const RULES: &[Rule] = &[
    declarations::printed_statement,
    declarations::name_with_sigil,
    declarations::type_at_end,
    declarations::declared_before,
    declarations::walrus_assignment,
    values::conditional,
    values::choice_of_two,
    values::trailing_condition,
    values::several_values,
    values::chained_assignment,
    values::other_comparison,
    communications::library_call,
    calls::stream_manager,
    calls::print_call,
    calls::assertion,
    calls::method_call,
    calls::quoted_word,
    calls::keyword_with_colon,
    ranges::range_of_tensor,
    calls::end_of_statement,
];

/// The lines that are calls of other libraries' communications: the parser reads them as calls.
pub(super) fn library_lines(text: &str, file: &FileSyntax) -> Vec<Range<usize>> {
    let calls = file.stmts.iter().filter(|stmt| matches!(stmt.form, StmtForm::Call(_)));
    let calls = calls.filter(|stmt| {
        let code = text.get(stmt.span.as_usize_range()).unwrap_or_default();
        communications::is_library_call(code)
    });
    calls.map(|stmt| line_around(text, stmt.span.start as usize)).take(MOST_LINES).collect()
}

/// Replaces the errors about lines of other languages by one for each, with the line to write; `lines` are looked at
/// without errors, too.
pub(super) fn answer_habits(
    text: &str,
    mut lines: Vec<Range<usize>>,
    file: &mut FileSyntax,
    errors: &mut Vec<SyntaxError>,
) {
    let library_lines = lines.len();
    for error in errors.iter() {
        let line = line_around(text, error.span.start as usize);
        if !lines.contains(&line) && lines.len() < MOST_LINES {
            lines.push(line);
        }
    }
    for (number, line) in lines.into_iter().enumerate() {
        let (on_line, others): (Vec<SyntaxError>, Vec<SyntaxError>) = errors
            .drain(..)
            .partition(|error| line.contains(&(error.span.start as usize)) || error.span.start as usize == line.end);
        let is_answered =
            number >= library_lines && matches!(on_line.as_slice(), [one] if is_repaired(text, &line, one));
        let answer = if is_answered { None } else { answer_line(text, &line) };
        *errors = others;
        match answer {
            Some(answer) => {
                let inside = |span: Span| line.start <= span.start as usize && span.end as usize <= line.end;
                let stmts = file.stmts.iter_mut().filter(|stmt| inside(stmt.span) && !has_block(&stmt.form));
                stmts.for_each(|stmt| stmt.form = StmtForm::Error);
                errors.push(answer);
            }
            None => errors.extend(on_line),
        }
    }
    errors.sort_by_key(|error| error.span);
}

/// True if the edit of an error makes a line that the parser reads.
fn is_repaired(text: &str, line: &Range<usize>, error: &SyntaxError) -> bool {
    let Some(edit) = &error.edit else { return false };
    let (start, end) = (edit.span.start as usize, edit.span.end as usize);
    if start < line.start || line.end < end {
        return true;
    }
    let parts = (text.get(line.start..start), text.get(end..line.end));
    let (Some(before), Some(after)) = parts else { return true };
    let changed = format!("{before}{}{after}", edit.text);
    let code = changed.trim();
    code.is_empty() || is_read(code)
}

fn has_block(form: &StmtForm) -> bool {
    matches!(form, StmtForm::For { .. } | StmtForm::If { .. } | StmtForm::Define(_) | StmtForm::Stream(_, Some(_)))
}

/// The bytes of the line at a place, without its break.
fn line_around(text: &str, at: usize) -> Range<usize> {
    let at = at.min(text.len());
    let start = text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
    let end = text.get(at..).and_then(|after| after.find('\n')).map_or(text.len(), |after| at + after);
    start..end
}

/// The error for a line, if rules make a statement of it.
fn answer_line(text: &str, place: &Range<usize>) -> Option<SyntaxError> {
    let whole = text.get(place.clone()).filter(|line| line.len() <= MOST_LENGTH)?;
    let indentation = &whole[..whole.len() - whole.trim_start().len()];
    let code = whole[indentation.len()..].split("//").next()?.trim_end();
    if indentation.is_empty() || code.is_empty() {
        // Headers are no statements.
        return None;
    }
    let mut first: Option<Habit> = None;
    let (mut meant, mut above) = (code.to_owned(), Vec::new());
    for _ in 0..MOST_REWRITES {
        let line = CodeLine::new(&meant);
        let Some(found) = RULES.iter().find_map(|rule| rule(&line, text)) else { break };
        let next = found.meant.clone();
        above.extend(found.above.iter().cloned());
        if next == meant {
            break;
        }
        first.get_or_insert(found);
        meant = next;
    }
    let first = first?;
    let lines: Vec<String> = above.into_iter().chain(meant.split('\n').map(str::to_owned)).collect();
    if !lines.iter().all(|line| is_read(line)) {
        return None;
    }
    let start = place.start + indentation.len();
    let span = Span::new(start, start + code.len());
    let shown = Span::new(start + first.place.start.min(code.len()), start + first.place.end.min(code.len()));
    let note = match lines.as_slice() {
        [one] => format!("write `{one}`"),
        several => {
            let quoted: Vec<String> = several.iter().map(|line| format!("`{line}`")).collect();
            format!("write {} on lines of their own", quoted.join(" and "))
        }
    };
    let edit = SyntaxEdit { span, text: lines.join(&format!("\n{indentation}")) };
    Some(SyntaxError::new(Code::Foreign, shown, first.message).with_note(note).with_edit(edit))
}

/// True if the parser reads a line as a statement, or as a header with a block.
fn is_read(line: &str) -> bool {
    let block = if line.ends_with(':') { "\n    wait h" } else { "" };
    let text = format!("hir 2.1\n\nf() -> ():\n  {line}{block}\n");
    let mut parser = Parser::new(&text);
    parser.parse_file();
    parser.errors.items.is_empty()
}
