//! Finds the programs of a raw log.
//!
//! A launcher or a service puts a tag in front of every line (`[1,0]<stdout>:`, `[rank0]: `, a time), several processes
//! write in turns, a test runner prints around the programs, a terminal colours and wraps lines, a page puts a whole
//! program on one line. `markup` removes what terminals and pages add, `streams` splits the lines by their tags and
//! finds the programs of each process, `ranks` compares these, `wraps` joins lines. The programs come in the order of
//! their first lines. A line that belongs to no program becomes a mark ([`DROPPED`]), which distinguishes it from the
//! blank lines of a program.

mod lines;
mod markup;
mod places;
mod ranks;
mod streams;
mod tags;
mod wraps;

use crate::error::SyntaxError;
use crate::unfold::{self, CLOSE, OPEN};
use lines::{LogLine, split_log_lines};
use memchr::memmem;
use places::PiecedText;
pub use places::PlaceMap;
use std::borrow::Cow;
use streams::{LogContents, LogItem, LoggedProgram};
use wraps::LinePart;

/// The mark for a line that belongs to no program: white space to a reader.
pub(crate) const DROPPED: &str = "\u{b}";
/// The maximum length of a text without a log's lines whose lines may have been wrapped.
const MAX_WRAPPED: usize = 1 << 22;

/// The programs of a log.
#[derive(Debug)]
pub struct LogText<'t> {
    /// The programs, each as if it were alone.
    pub text: Cow<'t, str>,
    /// The places in the log of the parts of `text`; `None` if the log is a plain program.
    pub places: Option<PlaceMap>,
    /// Warnings about the log, with places in `text`.
    pub notices: Vec<SyntaxError>,
    /// For each program the tag of its lines, which is empty if they have none.
    pub tags: Vec<String>,
    /// True if the log has the same program of several processes, and no other one.
    pub is_one_program: bool,
}

impl<'t> LogText<'t> {
    /// A text that is no log.
    pub fn plain(text: &'t str) -> Self {
        let text = Cow::Borrowed(text);
        Self { text, places: None, notices: Vec::new(), tags: Vec::new(), is_one_program: false }
    }
}

/// The programs of a log, each as if it were alone; a plain program, or a text in `hir 2`, is returned as it is.
pub fn containers_in_log(text: &str) -> Cow<'_, str> {
    read_log(text).text
}

/// Finds the programs of a log. A plain program, and a text in `hir 2`, are returned as they are.
pub fn read_log(text: &str) -> LogText<'_> {
    // Comments may contain text that would be markup elsewhere.
    let cleaned = markup::strip_markup(text).filter(|_| !is_readable(text));
    let body = cleaned.as_ref().map_or(text, |cleaned| &cleaned.text);
    let found = match () {
        () if is_plain(body) => None,
        () if is_program(body) && !holds_folded(body) => read_wrapped(body),
        () => read_programs(body),
    };
    let mut log = found.unwrap_or_else(|| LogText::plain(body));
    let Some(cleaned) = &cleaned else {
        let LogText { text: found, places, notices, tags, is_one_program } = log;
        let found = if places.is_some() { Cow::Owned(found.into_owned()) } else { Cow::Borrowed(text) };
        return LogText { text: found, places, notices, tags, is_one_program };
    };
    log.places.get_or_insert_default().add_earlier(cleaned);
    let LogText { text: found, places, notices, tags, is_one_program } = log;
    LogText { text: Cow::Owned(found.into_owned()), places, notices, tags, is_one_program }
}

/// Returns true if a text is no log, and has no errors of syntax.
fn is_readable(text: &str) -> bool {
    crate::hir2::is_hir2(text) || is_program(text) && crate::parse(text).errors.is_empty()
}

/// Returns true if a text need not be examined as a log.
fn is_plain(text: &str) -> bool {
    if crate::hir2::is_hir2(text) || memmem::find(text.as_bytes(), OPEN.as_bytes()).is_none() {
        return true;
    }
    let is_wrapped = text.len() <= MAX_WRAPPED && wraps::may_be_wrapped(text.lines());
    is_program(text) && !is_wrapped && !holds_folded(text)
}

/// A program whose lines were wrapped; `None` for one that is as readable without a change.
fn read_wrapped(text: &str) -> Option<LogText<'_>> {
    let lines = split_log_lines(text);
    let parts: Vec<LinePart> = lines.iter().map(|line| LinePart { start: line.start, end: line.end }).collect();
    let joined = wraps::join_wrapped(text, &parts)?;
    let mut out = PiecedText::default();
    push_joined(text, &joined, &mut out);
    let mut log = LogText::plain("");
    log.text = Cow::Owned(std::mem::take(&mut out.text));
    log.places.get_or_insert_default().add_earlier(&out);
    Some(log)
}

/// The programs of a text that is no plain program; `None` if it contains nothing else.
fn read_programs(text: &str) -> Option<LogText<'_>> {
    let lines = split_log_lines(text);
    let contents = streams::read_streams(text, &lines);
    let compared = ranks::compare_ranks(text, &contents);
    let mut out = PiecedText::default();
    let mut tags = Vec::new();
    for item in &contents.items {
        match item {
            LogItem::Program(program) => {
                push_program(text, &lines, program, &mut out);
                tags.extend(program_tags(text, &contents, program));
            }
            LogItem::Other(number) => push_other(text, &lines[*number], &mut out),
        }
    }
    if out.text == text.trim_start_matches('\u{feff}') {
        return None;
    }
    let mut notices = compared.notices;
    for notice in &mut notices {
        notice.span = out.find_span(notice.span);
        notice.others.iter_mut().for_each(|label| label.span = out.find_span(label.span));
    }
    let mut places = PlaceMap::default();
    places.add_earlier(&out);
    Some(LogText {
        text: Cow::Owned(out.text),
        places: Some(places),
        notices,
        tags,
        is_one_program: compared.is_one_program,
    })
}

/// The tag of a program, once for each header that its lines have.
fn program_tags<'a>(
    text: &'a str,
    contents: &'a LogContents,
    program: &'a LoggedProgram,
) -> impl Iterator<Item = String> + 'a {
    let headers = program.lines.iter().filter(|line| text[line.start..line.end].starts_with(OPEN));
    headers.map(|_| contents.tags[program.stream].text.clone())
}

/// Appends the mark for a line that belongs to no program.
fn push_other(text: &str, line: &LogLine, out: &mut PiecedText) {
    start_line(line.start, out);
    if !line.line_text(text).trim().is_empty() {
        out.push(DROPPED, line.start);
    }
    out.push(line.ending(text), line.end);
}

/// Begins a line, if the one before has no line break.
fn start_line(there: usize, out: &mut PiecedText) {
    if !out.text.is_empty() && !out.text.ends_with('\n') {
        out.push("\n", there);
    }
}

fn push_program(text: &str, lines: &[LogLine], program: &LoggedProgram, out: &mut PiecedText) {
    let own = |line: &streams::OwnLine| LinePart { start: line.start, end: line.end };
    let mut parts: Vec<LinePart> = program.lines.iter().map(own).collect();
    if program.is_folded
        && let Some(folded) = parts.first().copied()
        && let Some(unfolded) = unfold_line(&text[folded.start..folded.end])
    {
        start_line(folded.start, out);
        out.push_reflowed(&unfolded, &text[folded.start..folded.end], folded.start);
        out.push("\n", folded.end);
        parts.remove(0);
    }
    let is_wrapped = wraps::may_be_wrapped(parts.iter().map(|part| &text[part.start..part.end]));
    let joined = if is_wrapped { wraps::join_wrapped(text, &parts) } else { None };
    if let Some(joined) = joined {
        return push_joined(text, &joined, out);
    }
    let skipped = program.lines.len() - parts.len();
    for (part, own) in parts.iter().zip(&program.lines[skipped..]) {
        start_line(part.start, out);
        out.push(&text[part.start..part.end], part.start);
        let line = &lines[own.line];
        out.push(line.ending(text), line.end);
    }
}

/// Appends lines that were put together.
fn push_joined(text: &str, lines: &[Vec<LinePart>], out: &mut PiecedText) {
    for line in lines {
        start_line(line.first().map_or(0, |part| part.start), out);
        line.iter().for_each(|part| out.push(&text[part.start..part.end], part.start));
        out.push("\n", line.last().map_or(0, |part| part.end));
    }
}

/// The lines of a program on one line, unless it is readable without a change.
fn unfold_line(line: &str) -> Option<String> {
    if crate::parse(line).errors.is_empty() { None } else { unfold::unfold_container(line) }
}

/// True if some line holds a whole container.
fn holds_folded(mut text: &str) -> bool {
    while let Some(at) = memmem::find(text.as_bytes(), OPEN.as_bytes()) {
        let (line, rest) = text[at..].split_once('\n').unwrap_or((&text[at..], ""));
        if unfold::is_folded(line) {
            return true;
        }
        text = rest;
    }
    false
}

/// Returns true if only blank lines, comments and a version line are around the containers.
fn is_program(text: &str) -> bool {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Some(mut rest) = skip_trivia(text) else { return false };
    if !rest.starts_with(OPEN) {
        return false;
    }
    loop {
        let Some(after) = skip_container(rest) else { return true };
        // Another program on the same line would be read as a comment.
        let line = after.lines().next().unwrap_or("").trim_start();
        if !line.is_empty() && !line.starts_with("//") {
            return false;
        }
        let Some(next) = skip_trivia(after) else { return false };
        if next.is_empty() {
            return true;
        }
        rest = next;
        if !next.starts_with('%') {
            let section = memmem::find(next.as_bytes(), OPEN.as_bytes()).unwrap_or(next.len());
            if !is_section(&next[..section]) {
                return false;
            }
            rest = &next[section..];
            if rest.is_empty() {
                return true;
            }
        }
    }
}

/// The text after the container at the start of a text; `None` if nothing closes it.
fn skip_container(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    if streams::is_old_header(text.lines().next().unwrap_or("")) {
        let end = format!("\n{}", streams::OLD_CLOSE);
        if let Some(close) = memmem::find(bytes, end.as_bytes()) {
            return Some(&text[close + end.len()..]);
        }
    }
    let close = memmem::find(bytes, CLOSE.as_bytes())?;
    Some(&text[close + CLOSE.len()..])
}

/// Returns true if every line is blank, indented, a comment, a title or a closing brace.
fn is_section(text: &str) -> bool {
    text.lines().all(|line| {
        line.trim().is_empty()
            || line.starts_with([' ', '\t', '}'])
            || line.starts_with("//")
            || line.starts_with("Aliases:")
            || line.starts_with("Index definitions:")
    })
}

/// The text after blank lines, comments and a version line; `None` if something else comes first.
fn skip_trivia(text: &str) -> Option<&str> {
    let mut rest = text.trim_start();
    loop {
        if rest.starts_with("//") {
            rest = rest.find('\n').map_or("", |at| rest[at..].trim_start());
        } else if let Some(version) = rest.strip_prefix("hir ") {
            let line = version.lines().next().unwrap_or("");
            let number = line.split('{').next().unwrap_or("").split("//").next().unwrap_or("");
            if !number.trim().bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            rest = version[line.len()..].trim_start();
        } else {
            let known = ["%HostIrContainer", "Aliases:", "Index definitions:"];
            let starts = rest.is_empty() || known.iter().any(|word| rest.starts_with(word));
            return starts.then_some(rest);
        }
    }
}
