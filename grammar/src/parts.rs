//! Reads a long text in parts, one a thread.
//!
//! A text is divided before lines that look like a statement of a container's body: at its column, and starting with a
//! tensor. Each part is read on that assumption, which is checked afterwards: the part before has to end, without an
//! error, in the body of a container with that column and without a waiting comment. If any part does not fit, or has
//! an error, the result is dropped and one thread reads the text from its start. So the result never depends on the
//! division.

use crate::ast::SyntaxTree;
use crate::builder::Builder;
use crate::limits::MAX_TOKENS;
use crate::merge;
use crate::parse::{PartEnd, TextParser};
use crate::span::Span;

/// Parts are at least this long, in bytes: a thread costs less than a hundredth of that.
const MIN_PART: usize = 1 << 20;
/// The maximum number of parts: more gain nothing, since they are joined one after the other.
const MAX_PARTS: usize = 8;
/// The distance after the intended place within which a line to divide at is searched.
const MAX_SEARCH: usize = 1 << 18;

/// The best number of parts for a text of `size` bytes on this machine.
pub(crate) fn advised_part_count(size: usize) -> usize {
    let most = (size / MIN_PART).min(MAX_PARTS);
    if most < 2 {
        return 1;
    }
    std::thread::available_parallelism().map_or(1, usize::from).min(most)
}

/// The tree of a text from `start` on, read in at most `count` parts.
pub(crate) fn parse_parts(text: &str, start: usize, count: usize) -> Option<SyntaxTree> {
    if count < 2 {
        return None;
    }
    let column = body_column(text)?;
    let cuts = find_cuts(text, start, column, count);
    let &first = cuts.first()?;
    let ends = cuts[1..].iter().copied().map(Some).chain([None]);
    let jobs: Vec<_> = cuts.iter().copied().zip(ends).collect();
    std::thread::scope(|scope| {
        let others: Vec<_> = jobs
            .iter()
            .map(|&(from, end)| {
                std::thread::Builder::new()
                    .spawn_scoped(scope, move || parse_part(text, from, end, Some(column), column))
            })
            .collect();
        let mut whole = parse_part(text, start, Some(first), None, column);
        for other in others {
            let other = other.ok()?.join().ok()?;
            if let (Some(whole), Some(other)) = (&mut whole, other) {
                whole.tokens += other.tokens;
                merge::append_tree(whole, other);
            } else {
                whole = None;
            }
        }
        // A text with too many is read again, to find the place.
        let mut ast = whole.filter(|whole| whole.tokens <= MAX_TOKENS)?.ast;
        ast.comments.sort_by_key(|comment| comment.span);
        Some(ast)
    })
}

/// Reads `text[from..end]` in one thread, up to the text's end if there is no `end`.
fn parse_part(text: &str, from: usize, end: Option<usize>, resume: Option<u32>, column: u32) -> Option<Builder<'_>> {
    // The trees of the other parts are appended to that of the first.
    let room = if resume.is_none() { text.len() } else { end.unwrap_or(text.len()) } - from;
    let mut parser = TextParser::with_room(text, Span::new(from, end.unwrap_or(text.len())), room);
    if end.is_some() {
        parser.cut = PartEnd::Follows(column);
    }
    match resume {
        Some(column) => parser.parse_rest(column),
        None => parser.parse_file(),
    }
    let fits = end.is_none() || parser.cut == PartEnd::Reached;
    (fits && parser.b.errors.is_empty()).then_some(parser.b)
}

/// The indentation of the first container's body, by its first line.
fn body_column(text: &str) -> Option<u32> {
    let header = memchr::memmem::find(text.as_bytes(), b"%HostIrContainer")?;
    let line = text[header..].lines().skip(1).find(|line| !line.trim().is_empty())?;
    let blanks = line.len() - line.trim_start_matches(' ').len();
    (blanks > 0).then_some(blanks as u32)
}

/// The starts of the second part and of later ones; fewer than requested if there is no good place.
fn find_cuts(text: &str, start: usize, column: u32, count: usize) -> Vec<usize> {
    let size = (text.len() - start) / count;
    let mut cuts: Vec<usize> =
        (1..count).filter_map(|number| find_cut(text.as_bytes(), start + number * size, column as usize)).collect();
    cuts.dedup();
    cuts
}

/// The first line after `from` that starts with `column` blanks and a tensor, and is not commented
/// by the line above it.
fn find_cut(text: &[u8], from: usize, column: usize) -> Option<usize> {
    let end = text.len().min(from + MAX_SEARCH);
    let first = from + memchr::memchr(b'\n', &text[from..end])? + 1;
    let mut above = first;
    memchr::memchr_iter(b'\n', &text[first..end]).map(|at| at + first).find_map(|at| {
        let (before, line) = (&text[above..at], at + 1);
        above = line;
        let (blanks, rest) = text[line..].split_at_checked(column)?;
        let fits = matches!(rest, [b'T', b'0'..=b'9', ..])
            && !before.get(column..).is_some_and(|before| before.starts_with(b"//"));
        (fits && blanks.iter().all(|&byte| byte == b' ')).then_some(line)
    })
}
