//! The line `hir 2`: finds out whether a text has it, or should have it.

use super::ast::FileHead;
use crate::error::{Code, SyntaxEdit, SyntaxError};
use crate::span::Span;
use memchr::memmem;

/// An error of the head of a text in `hir 2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeadFault {
    /// The first line is another spelling of `hir 2`.
    Misspelt(Span),
    /// The first line is `hir 2` with a second number that is larger than [`NEWEST_MINOR`].
    Newer(Span),
    /// The first line is that of a mesh or a program; it starts at this offset.
    Missing(usize),
}

/// The largest second number of a version that the parser reads: that of `hir 2.1`.
const NEWEST_MINOR: u32 = 1;

impl HeadFault {
    /// The error for it, which adds the line or repairs it.
    pub(super) fn to_error(self, text: &str) -> SyntaxError {
        let (span, message, edit) = match self {
            HeadFault::Newer(span) => return newer_error(&text[span.as_usize_range()], span),
            HeadFault::Misspelt(span) => {
                let found = &text[span.as_usize_range()];
                (span, format!("the first line is `{found}`, but a text of this notation begins with `hir 2`"), "hir 2")
            }
            HeadFault::Missing(start) => {
                let line = text[start..].lines().next().unwrap_or("").trim_end();
                let message = "the line `hir 2` is missing at the start of the text".to_owned();
                (Span::new(start, start + line.len()), message, "hir 2\n")
            }
        };
        let place = match self {
            HeadFault::Misspelt(span) | HeadFault::Newer(span) => span,
            HeadFault::Missing(start) => Span::new(start, start),
        };
        SyntaxError::new(Code::Version, span, message)
            .with_note("write `hir 2`, alone on its line, above meshes and programs")
            .with_edit(SyntaxEdit { span: place, text: edit.to_owned() })
    }
}

fn newer_error(found: &str, span: Span) -> SyntaxError {
    let newest = format!("hir 2.{NEWEST_MINOR}");
    let message = format!("this text is in `{found}`, but this tool reads no version after `{newest}`");
    SyntaxError::new(Code::Version, span, message)
        .with_note(format!("use a newer tool, or write the text for `{newest}`: `hir 2` and `{newest}` are versions"))
}

impl FileHead {
    /// True if an error said that the text needs a later version, so that later constructs are no errors.
    pub(super) fn has_asked_version(&self, text: &str) -> bool {
        self.minor > 0 && text.get(self.version.as_usize_range()).is_some_and(|line| line.ends_with(" 2"))
    }

    /// The error for a construct of `hir 2.1` in a text of `hir 2`, at a place; `None` if the text is in `hir 2.1`, or
    /// has no first line, which is an error of its own.
    pub fn minor_version_error(&self, text: &str, span: Span, construct: &str) -> Option<SyntaxError> {
        let line = self.version;
        let is_plain = self.minor == 0 && line.start < line.end;
        if !is_plain || text.get(line.as_usize_range())?.split_whitespace().last() != Some("2") {
            return None;
        }
        let error = SyntaxError::new(Code::Version, span, format!("{construct} needs `hir 2.1`"))
            .with_note("write `hir 2.1` as the first line")
            .with_edit(SyntaxEdit { span: line, text: "hir 2.1".to_owned() });
        Some(error)
    }
}

/// Returns true if the first line of a text that is neither blank nor a comment is `hir 2`, or was evidently meant to
/// be.
pub fn is_hir2(text: &str) -> bool {
    let Some((start, line)) = first_line(text) else { return false };
    has_head(line) || find_fault_at(text, start, line).is_some()
}

/// Finds the error of the head of a text for which [`is_hir2`] holds.
pub(super) fn find_head_fault(text: &str) -> Option<HeadFault> {
    let (start, line) = first_line(text)?;
    if has_head(line) { None } else { find_fault_at(text, start, line) }
}

fn has_head(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.next() == Some("hir") && words.next().is_some_and(|version| minor_version(version).is_some())
}

/// The second number of a version that the parser reads: 0 of `2`, 1 of `2.1`.
pub fn minor_version(version: &str) -> Option<u32> {
    match version.strip_prefix('2')? {
        "" => Some(0),
        rest => rest
            .strip_prefix('.')?
            .parse()
            .ok()
            .filter(|minor| rest == format!(".{minor}") && *minor > 0 && *minor <= NEWEST_MINOR),
    }
}

/// The first line that is neither blank nor a comment, without white space around it, and where it starts.
fn first_line(text: &str) -> Option<(usize, &str)> {
    let mut start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    for line in text[start..].split_inclusive('\n') {
        let own = line.trim();
        if !own.is_empty() && !own.starts_with("//") {
            return Some((start + (line.len() - line.trim_start().len()), own));
        }
        start += line.len();
    }
    None
}

fn find_fault_at(text: &str, start: usize, line: &str) -> Option<HeadFault> {
    let own = line.split("//").next().unwrap_or(line).trim_end();
    if is_newer(own) {
        return Some(HeadFault::Newer(Span::new(start, start + own.len())));
    }
    if is_misspelt(own) {
        return Some(HeadFault::Misspelt(Span::new(start, start + own.len())));
    }
    let begins_item =
        ["mesh ", "sizes ", "streams ", "names ", "style ", "kernel "].iter().any(|word| own.starts_with(word));
    let is_evident = (begins_item || is_program_header(own))
        && memmem::find(text.as_bytes(), b"%HostIrContainer").is_none()
        && text[start..].lines().any(is_program_header);
    is_evident.then_some(HeadFault::Missing(start))
}

/// `hir 2.2` and later ones.
fn is_newer(line: &str) -> bool {
    let version = line.strip_prefix("hir 2.").unwrap_or_default();
    let is_number = !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit());
    is_number && !version.starts_with('0') && version.parse::<u32>().is_ok_and(|minor| minor > NEWEST_MINOR)
}

/// `hir2`, `HIR 2`, `hir v2`, `hir 2.0`, `hir-2`, `hir: 2`, `#hir 2` and their like; `hir 2.1` has a second number.
fn is_misspelt(line: &str) -> bool {
    let line = line.trim_start_matches(['#', '!', '@', '%', ' ']).to_ascii_lowercase();
    let Some(rest) = line.strip_prefix("hir").or_else(|| line.strip_prefix("host ir")) else { return false };
    let separators = [' ', '\t', '-', '_', ':', '=', '.', '"', '\'', '(', '/'];
    let rest = rest.trim_start_matches(separators);
    let rest = rest.strip_prefix("version").or_else(|| rest.strip_prefix("ver.")).unwrap_or(rest);
    let rest = rest.trim_start_matches(separators).trim_start_matches('v').trim_start_matches(separators);
    let Some(mut rest) = rest.strip_prefix('2') else { return false };
    while let Some(part) = rest.strip_prefix('.').filter(|part| part.starts_with(|c: char| c.is_ascii_digit())) {
        rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    rest.chars().all(|c| c.is_whitespace() || ".;:,\"')".contains(c))
}

/// Returns true if a line is the header of a program, `name(A: f32[n]) -> (B: f32[n]):`, or the first of its lines.
fn is_program_header(line: &str) -> bool {
    let line = line.split("//").next().unwrap_or(line).trim_end();
    let name = line.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
    let begins = line.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && line[name..].starts_with('(');
    begins && (line.contains("->") && line.ends_with(':') || line.ends_with(['(', ',']) && line.contains(": "))
}
