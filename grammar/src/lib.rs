//! Host IR text: bytes to tokens, tokens to statements, statements to a syntax tree.
//!
//! Parsing never fails: [`fn@parse`] returns a tree and the errors it met, one for each bad statement.
//!
//! Parsing has four stages. logos finds tokens (`token`); a whole tensor reference is one token
//! (`lex`, `scan`, `tensor`, `domain`). `layout` splits the tokens into statements. The grammar
//! (`hir.lalrpop`) reads one statement at a time into the arenas of [`SyntaxTree`] (`builder`); most statements are
//! plain, and need less than the grammar (`plain`). `parse` and
//! `file` keep the stack of blocks and the sections of a container. Long texts are split in the body of
//! a container, read by several threads (`parts`) and joined (`merge`).

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod ast;
mod builder;
mod comments;
mod domain;
mod dtype;
pub mod error;
mod file;
mod foreign;
mod hir;
pub mod hir2;
mod layout;
mod lex;
mod limits;
mod log;
mod merge;
mod message;
mod nesting;
mod number;
mod parse;
mod parts;
mod plain;
mod scan;
pub mod span;
mod spelling;
mod tensor;
mod token;
mod unfold;

pub use ast::SyntaxTree;
pub use domain::PARALLELS;
pub use dtype::{DTYPES, is_kernel_type};
pub use error::SyntaxError;
pub use file::VERSION;
pub use limits::{MAX_ERRORS, MAX_NUMBER, MAX_TEXT};
pub use log::{LogText, PlaceMap, containers_in_log, read_log};
pub use number::{holds_number, misfit_of_literal, misfit_of_number, needed_number};
pub use span::Span;
pub use spelling::{nearest_candidate, shorten_text};
pub use tensor::{MEMORIES, MeshGrid, are_positions, parse_mesh_grid};

use error::Code;

/// The result of [`fn@parse`].
#[derive(Debug, Default)]
pub struct ParseOutput {
    /// The tree; statements with errors are [`ast::StmtShape::Error`].
    pub ast: SyntaxTree,
    /// Errors in order of appearance.
    pub errors: Vec<SyntaxError>,
}

/// Reads a text. Spans count bytes of `text`; a byte order mark at its start is skipped.
///
/// A text of more than a megabyte is read by several threads, which end before this returns.
///
/// ```
/// let text = "\
/// %HostIrContainer { () -> () :
///   Wait Communication 1
///   Wait Communication (
///   Synchronize Stream 0
/// } // %HostIrContainer
/// ";
/// let parsed = hostir_grammar::parse(text);
/// // The second statement is wrong; the other two are in the tree.
/// assert_eq!(parsed.errors.len(), 1);
/// assert_eq!(parsed.ast.containers.len(), 1);
/// ```
pub fn parse(text: &str) -> ParseOutput {
    if text.len() > MAX_TEXT {
        let error =
            SyntaxError::new(Code::TooLarge, Span::default(), format!("the text has more than {} MiB", MAX_TEXT >> 20))
                .with_note("split the file: each container is a separate program");
        return ParseOutput { ast: SyntaxTree::default(), errors: vec![error] };
    }
    if let Some(parsed) = parse_in_parts(text, parts::advised_part_count(text.len())) {
        return parsed;
    }
    parse_in_one(text, false)
}

/// Reads a text as [`fn@parse`] does, but all of its statements by the grammar alone, in more time. The results are
/// equal; tests compare them.
pub fn parse_by_grammar(text: &str) -> ParseOutput {
    parse_in_one(text, true)
}

/// Reads a text in one thread.
fn parse_in_one(text: &str, by_grammar: bool) -> ParseOutput {
    let mut parser = parse::TextParser::new(text, Span::new(text_start(text), text.len()));
    parser.b.by_grammar = by_grammar;
    parser.parse_file();
    let (mut ast, mut errors) = (parser.b.ast, parser.b.errors);
    errors.sort_by_key(|error| error.span);
    ast.comments.sort_by_key(|comment| comment.span);
    ParseOutput { ast, errors }
}

/// Reads a text in up to `count` parts, each in a thread of its own, as [`fn@parse`] does with long texts. `None` if
/// the text has an error or cannot be divided.
pub fn parse_in_parts(text: &str, count: usize) -> Option<ParseOutput> {
    let ast = parts::parse_parts(text, text_start(text), count)?;
    Some(ParseOutput { ast, errors: Vec::new() })
}

/// The start of a text after its byte order mark.
fn text_start(text: &str) -> usize {
    if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 }
}

/// Reads bytes; those that are not UTF-8 are an error and become `U+FFFD` in the returned text, to which all spans
/// refer.
pub fn parse_bytes(bytes: &[u8]) -> (String, ParseOutput) {
    let error = match std::str::from_utf8(bytes) {
        Ok(text) => {
            let parsed = parse(text);
            return (text.to_owned(), parsed);
        }
        Err(error) => error,
    };
    let at = error.valid_up_to();
    let line = memchr::memchr_iter(b'\n', &bytes[..at]).count() + 1;
    let text = String::from_utf8_lossy(bytes).into_owned();
    let mut parsed = parse(&text);
    let message = format!("line {line} contains bytes that are not UTF-8, the first at byte {at} of the file");
    let error = SyntaxError::new(Code::NotUtf8, Span::new(at, at + '\u{fffd}'.len_utf8()), message)
        .with_note("save the file as UTF-8");
    let place = parsed.errors.partition_point(|other| other.span < error.span);
    parsed.errors.insert(place, error);
    (text, parsed)
}

/// The parts of a text between lines `// -----`, with the byte offset of each.
pub fn split_input(text: &str) -> Vec<(usize, &str)> {
    let (mut parts, mut start, mut at) = (Vec::new(), 0, 0);
    for line in text.split_inclusive('\n') {
        if line.trim_end() == "// -----" {
            parts.push((start, &text[start..at]));
            start = at + line.len();
        }
        at += line.len();
    }
    parts.push((start, &text[start..]));
    parts
}
