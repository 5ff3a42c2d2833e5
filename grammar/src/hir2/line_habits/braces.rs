//! Blocks in braces, as C, MLIR and Rust have them: one error for a block, whose edit writes it as an indented one.

use super::context::LineContext;
use super::line::CodeLine;
use super::rewrite::{ITEM_RULES, LINE_RULES, is_item_read, is_read, rewrite_code};
use crate::error::{Code, SyntaxEdit, SyntaxError};
use crate::span::Span;
use std::ops::Range;

/// The most lines of a block.
const MOST_LINES: usize = 200;

/// Words that begin headers with a block.
const BLOCK_WORDS: &[&str] = &["for", "if", "else", "stream", "FOR", "IF", "ELSE", "while"];

/// A line of a text: its bytes without the line break.
#[derive(Clone, Copy)]
struct TextLine<'t> {
    start: usize,
    text: &'t str,
}

impl<'t> TextLine<'t> {
    fn indentation(&self) -> usize {
        self.text.len() - self.text.trim_start().len()
    }

    /// The code without indentation and comment.
    fn code(&self) -> &'t str {
        self.text.split("//").next().unwrap_or_default().trim()
    }

    /// True for the header of a block with a `{` at its end.
    fn opens_block(&self) -> bool {
        let code = self.code();
        let rest = code.trim_start_matches(['}', ' ']);
        let word = rest.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        let is_header = BLOCK_WORDS.contains(&word) || self.indentation() == 0 && code.contains(')');
        code.ends_with('{') && is_header
    }

    /// The header of a block whose `{` stands on the next line.
    fn is_header(&self) -> bool {
        let word = self.code().split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        BLOCK_WORDS.contains(&word) || self.indentation() == 0 && self.code().contains(')')
    }
}

/// A block in braces, and the error for it.
pub(super) struct BraceBlock {
    /// The bytes of its lines.
    pub(super) place: Range<usize>,
    pub(super) error: SyntaxError,
}

/// The lines of a text from a place on.
fn lines_from(text: &str, start: usize) -> impl Iterator<Item = TextLine<'_>> {
    let mut at = start;
    text.get(start..).unwrap_or_default().split_inclusive('\n').map(move |line| {
        let begin = at;
        at += line.len();
        TextLine { start: begin, text: line.trim_end_matches(['\n', '\r']) }
    })
}

/// The block in braces whose header is the line at a place.
pub(super) fn brace_block(text: &str, line: &Range<usize>) -> Option<BraceBlock> {
    let mut lines = lines_from(text, line.start).take(MOST_LINES).peekable();
    let first = *lines.peek()?;
    let second = lines_from(text, line.start).skip(1).find(|line| !line.code().is_empty());
    let is_below = second.is_some_and(|second| second.code() == "{") && first.is_header();
    if first.code().starts_with('}') || !(first.opens_block() || is_below) {
        return None;
    }
    let mut writer = BlockWriter { text, open: Vec::new(), written: Vec::new(), is_below };
    let mut end = None;
    for line in lines {
        writer.add_line(line, &first)?;
        if writer.open.is_empty() && (!writer.is_below || writer.written.len() > 1) {
            end = Some(line.start + line.text.len());
            break;
        }
    }
    let end = end?;
    let start = first.start + first.indentation();
    let shown = match first.text.find('{') {
        Some(brace) => Span::new(first.start + brace, first.start + brace + 1),
        None => Span::new(start, start + first.code().len()),
    };
    let meant = writer.written.join("\n");
    let header = meant.lines().next().unwrap_or_default().to_owned();
    let edit = SyntaxEdit { span: Span::new(start, end), text: meant };
    let error = SyntaxError::new(Code::Foreign, shown, "blocks are indented, and have no braces");
    let error = error.with_note(format!("write `{header}`, and leave out the `}}`")).with_edit(edit);
    Some(BraceBlock { place: line.start..end, error })
}

/// The bracket that a line opens.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OpenBrace {
    Block,
    Group,
}

/// Writes the lines of a block in braces without them.
struct BlockWriter<'t> {
    text: &'t str,
    open: Vec<OpenBrace>,
    written: Vec<String>,
    /// True if the first `{` stands on a line of its own.
    is_below: bool,
}

impl<'t> BlockWriter<'t> {
    fn add_line(&mut self, line: TextLine<'t>, first: &TextLine<'t>) -> Option<()> {
        let code = line.code();
        let closes = code.starts_with('}');
        let closed = if closes { self.open.pop() } else { None };
        if closes && closed != Some(OpenBrace::Block) {
            self.written.push(line.text.to_owned());
            return closed.map(|_| ());
        }
        let is_first = line.start == first.start;
        if line.opens_block() || is_first && self.is_below {
            self.written.push(self.header(line, is_first)?);
            if !self.is_below || !is_first {
                self.open.push(OpenBrace::Block);
            }
        } else if code == "{" {
            self.open.push(OpenBrace::Block);
        } else if code.ends_with('{') {
            self.open.push(OpenBrace::Group);
            self.written.push(line.text.to_owned());
        } else if !closes {
            let is_inside = code.is_empty() || line.indentation() > first.indentation();
            is_inside.then(|| self.written.push(without_semicolon(line)))?;
        }
        Some(())
    }

    /// The header here for one with a brace.
    fn header(&self, line: TextLine<'t>, is_first: bool) -> Option<String> {
        let code = line.code().trim_start_matches(['}', ' ']).trim_end_matches('{').trim_end();
        let code = format!("{}:", code.trim_end_matches(':').trim_end());
        let context = LineContext { text: self.text, start: line.start, above: &[] };
        let is_item = line.indentation() == 0;
        let rules = if is_item { ITEM_RULES } else { LINE_RULES };
        let rewritten = rewrite_code(&code, rules, &context);
        let meant = rewritten.map_or(code, |rewritten| rewritten.lines.join("\n"));
        let meant = without_brackets(&meant);
        let is_else = meant == "else:";
        if !(is_else || if is_item { is_item_read(&meant) } else { is_read(&meant) }) {
            return None;
        }
        let indentation = if is_first { "" } else { &line.text[..line.indentation()] };
        Some(format!("{indentation}{meant}"))
    }
}

/// `if c:` of `if (c):`.
fn without_brackets(header: &str) -> String {
    let line = CodeLine::new(header);
    let is_whole = line.piece_text(0) == "if"
        && line.piece_text(1) == "("
        && line.closing(1).is_some_and(|close| close + 2 == line.pieces.len());
    match (is_whole, line.closing(1)) {
        (true, Some(close)) => format!("if {}:", line.between(1, close)),
        _ => header.to_owned(),
    }
}

/// A line without the `;` at the end of its code.
fn without_semicolon(line: TextLine<'_>) -> String {
    let end = line.indentation() + line.code().len();
    let (code, rest) = line.text.split_at(end.min(line.text.len()));
    format!("{}{rest}", code.strip_suffix(';').unwrap_or(code))
}
