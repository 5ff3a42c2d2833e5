//! Lines that are indented by tabs: one error, whose edit writes blanks.

use crate::error::{Code, SyntaxEdit, SyntaxError};
use crate::span::Span;

/// The blanks of a block's indentation.
const STEP: usize = 2;

/// A block that is open at a line.
struct OpenBlock<'t> {
    /// The indentation in the text.
    written: &'t str,
    /// The blanks that are meant.
    blanks: usize,
}

/// True for the error of a tab in front of a line.
fn is_about_tab(text: &str, error: &SyntaxError) -> bool {
    let found = text.get(error.span.as_usize_range()).unwrap_or_default();
    error.code == Code::Indentation.text() && found.contains('\t')
}

/// Joins the errors about lines with tabs, each of which moves the lines around it.
pub(super) fn answer_tabs(text: &str, errors: &mut Vec<SyntaxError>) {
    let Some(first) = errors.iter().position(|error| is_about_tab(text, error)) else { return };
    let Some(edit) = blanks_for_tabs(text) else { return };
    let start = edit.span.start;
    let mut answer = errors[first].clone();
    answer.edit = Some(edit);
    // Columns are wrong from the first tab on.
    errors.retain(|error| error.code != Code::Indentation.text() || error.span.start < start);
    errors.push(answer);
}

/// The edit that writes blanks for the tabs in front of lines.
fn blanks_for_tabs(text: &str) -> Option<SyntaxEdit> {
    let mut open: Vec<OpenBlock<'_>> = vec![OpenBlock { written: "", blanks: 0 }];
    let (mut is_header, mut at) = (false, 0);
    let (mut start, mut end, mut changed) = (None, 0, String::new());
    for line in text.split_inclusive('\n') {
        let code = line.trim_start();
        let written = &line[..line.len() - code.len()];
        let is_empty = code.trim().is_empty() || code.starts_with("//");
        if !is_empty {
            let known = open.iter().rposition(|block| block.written == written);
            let last = open.last().map_or(0, |block| block.blanks);
            match known {
                Some(found) if !is_header || found + 1 < open.len() => open.truncate(found + 1),
                _ if is_header => open.push(OpenBlock { written, blanks: last + STEP }),
                // Blanks count as they are.
                _ if !written.contains('\t') => {
                    let blanks = written.len();
                    open.retain(|block| block.blanks < blanks);
                    open.push(OpenBlock { written, blanks });
                }
                _ => {}
            }
            is_header = code.split("//").next().unwrap_or_default().trim_end().ends_with(':');
        }
        let blanks = open.last().map_or(0, |block| block.blanks);
        let has_tab = written.contains('\t') && !code.trim().is_empty();
        if has_tab && start.is_none() {
            start = Some(at);
        }
        if start.is_some() {
            let indented = format!("{}{code}", " ".repeat(blanks));
            changed += if has_tab { &indented } else { line };
            if has_tab {
                end = changed.len();
            }
        }
        at += line.len();
    }
    let start = start?;
    changed.truncate(end);
    let length = last_tab_line(text)?.checked_sub(start)?;
    Some(SyntaxEdit { span: Span::new(start, start + length), text: changed })
}

/// The end of the last line that begins with a tab.
fn last_tab_line(text: &str) -> Option<usize> {
    let mut at = 0;
    let mut last = None;
    for line in text.split_inclusive('\n') {
        at += line.len();
        let code = line.trim_start();
        if line[..line.len() - code.len()].contains('\t') && !code.is_empty() {
            last = Some(at);
        }
    }
    last
}
