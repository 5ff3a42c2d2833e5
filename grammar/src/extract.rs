//! Finds containers in a raw log, with the numbers of the lines kept true.
//!
//! A launcher puts a constant prefix in front of every line (`[1,0]<stdout>:`), a test runner prints
//! around the containers, a page puts a whole container on one line. Of a line that does not belong to a container
//! only a mark is left ([`DROPPED`]), which tells it from the blank lines that a program has of its own.

use crate::unfold::{self, CLOSE, OPEN};
use memchr::memmem;
use std::borrow::Cow;

/// The mark for a line that does not belong to a container: white space to a reader.
pub(crate) const DROPPED: &str = "\u{b}";

/// The containers of a log, each on the lines where it stood; a plain program, or a text in `hir 2`, is returned as it is.
pub fn containers_in_log(text: &str) -> Cow<'_, str> {
    if crate::hir2::is_hir2(text) {
        return Cow::Borrowed(text);
    }
    let folded = holds_folded(text);
    if (is_program(text) && !folded) || memmem::find(text.as_bytes(), OPEN.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    let mut log = LogReader { out: String::with_capacity(text.len()), prefix: "", state: LogState::Outside, inside: 0 };
    for line in text.split_inclusive('\n') {
        log.read_line(line);
    }
    Cow::Owned(log.out)
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

/// Whether only blank lines, comments and a version line stand around the containers.
fn is_program(text: &str) -> bool {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Some(mut rest) = skip_trivia(text) else { return false };
    if !rest.starts_with(OPEN) {
        return false;
    }
    loop {
        let Some(close) = memmem::find(rest.as_bytes(), CLOSE.as_bytes()) else { return true };
        let Some(next) = skip_trivia(&rest[close + CLOSE.len()..]) else { return false };
        if next.is_empty() {
            return true;
        }
        if !["%HostIrContainer", "Aliases:", "Index definitions:"].iter().any(|word| next.starts_with(word)) {
            return false;
        }
        if !next.starts_with('%') {
            let section = memmem::find(next.as_bytes(), OPEN.as_bytes()).unwrap_or(next.len());
            if !is_section(&next[..section]) {
                return false;
            }
            rest = &next[section..];
            if rest.is_empty() {
                return true;
            }
            continue;
        }
        rest = next;
    }
}

/// Whether every line is blank, indented, a comment, a title or a closing brace.
fn is_section(text: &str) -> bool {
    text.lines().all(|line| {
        line.trim().is_empty()
            || line.starts_with([' ', '\t', '}'])
            || line.starts_with("//")
            || line.starts_with("Aliases:")
            || line.starts_with("Index definitions:")
    })
}

/// The text behind blank lines, comments and a version line; `None` if something else comes first.
fn skip_trivia(text: &str) -> Option<&str> {
    let mut rest = text.trim_start();
    loop {
        if rest.starts_with("//") {
            rest = rest.find('\n').map_or("", |at| rest[at..].trim_start());
        } else if let Some(version) = rest.strip_prefix("hir ") {
            let line = version.lines().next().unwrap_or("");
            if !line.trim().bytes().all(|b| b.is_ascii_digit()) {
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

#[derive(Clone, Copy, PartialEq, Eq)]
enum LogState {
    Outside,
    Inside,
    /// Behind a container, where its sections may follow.
    Behind,
    Aliases,
    Index,
}

struct LogReader<'t> {
    out: String,
    prefix: &'t str,
    state: LogState,
    /// Number of programs that have started inside of the current one.
    inside: usize,
}

impl<'t> LogReader<'t> {
    fn read_line(&mut self, line: &'t str) {
        let text = line.trim_end_matches(['\n', '\r']);
        let ending = &line[text.len()..];
        if unfold::is_folded(text)
            && self.state != LogState::Inside
            && !crate::parse(text).errors.is_empty()
            && let Some(lines) = unfold::unfold_container(text)
        {
            self.state = LogState::Outside;
            self.out.push_str(&lines);
            self.out.push_str(ending);
            return;
        }
        let kept = self.keep_container_text(text);
        self.out.push_str(kept);
        self.out.push_str(ending);
    }

    /// The part of the line that belongs to a container.
    fn keep_container_text(&mut self, text: &'t str) -> &'t str {
        if let Some(at) = text.find(OPEN) {
            let inside = self.state == LogState::Inside && text[..at] != *self.prefix;
            if self.state != LogState::Inside {
                self.inside = 0;
            } else if self.own_line_text(text).is_some() {
                self.inside += 1;
            }
            if !inside {
                self.prefix = &text[..at];
                self.state = LogState::Inside;
                return &text[at..];
            }
        }
        // What closes programs inside one another stays, for the reader to see what they are.
        if matches!(self.state, LogState::Outside | LogState::Behind)
            && self.inside > 0
            && let Some(own) = self.own_line_text(text).filter(|own| own.starts_with(CLOSE))
        {
            self.inside -= 1;
            return own;
        }
        if self.state == LogState::Outside {
            return placeholder_for_line(text);
        }
        let Some(own) = self.own_line_text(text) else { return placeholder_for_line(text) };
        match self.state {
            LogState::Inside if own.starts_with(CLOSE) => self.state = LogState::Behind,
            LogState::Behind if own.starts_with("Aliases:") => self.state = LogState::Aliases,
            LogState::Behind if own.starts_with("Index definitions:") => self.state = LogState::Index,
            LogState::Behind if own.trim().is_empty() => {}
            LogState::Behind => {
                self.state = LogState::Outside;
                return placeholder_for_line(text);
            }
            LogState::Aliases if own.starts_with('}') => self.state = LogState::Behind,
            LogState::Index if !own.starts_with([' ', '\t']) => {
                self.state = LogState::Behind;
                return placeholder_for_line(text);
            }
            LogState::Outside | LogState::Inside | LogState::Aliases | LogState::Index => {}
        }
        own
    }

    /// The line without the container's prefix; `None` for a line of somebody else.
    fn own_line_text(&self, text: &'t str) -> Option<&'t str> {
        if let Some(own) = text.strip_prefix(self.prefix) {
            return Some(own);
        }
        (text.trim_end() == self.prefix.trim_end()).then_some("")
    }
}

/// The replacement of a line that belongs to no container.
fn placeholder_for_line(line: &str) -> &'static str {
    if line.trim().is_empty() { "" } else { DROPPED }
}
