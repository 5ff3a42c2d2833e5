//! Finding directives in a check file.

use crate::options::{COMMENT_PREFIXES, Options};
use crate::source::is_blank;

/// A kind of directive, by the match that it asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DirectiveKind {
    /// A match anywhere after the last one, so many times.
    Plain(u32),
    /// A match on the next line.
    Next,
    /// A match on the same line.
    Same,
    /// The next line is empty.
    Empty,
    /// A match in any order within its group.
    Dag,
    /// A match that divides the input.
    Label,
    /// No match.
    Not,
    /// The end of the input.
    End,
}

impl DirectiveKind {
    /// The text after the prefix in the directive's name.
    pub(crate) fn name_suffix(self) -> &'static str {
        match self {
            DirectiveKind::Plain(1) => "",
            DirectiveKind::Plain(_) => "-COUNT",
            DirectiveKind::Next => "-NEXT",
            DirectiveKind::Same => "-SAME",
            DirectiveKind::Empty => "-EMPTY",
            DirectiveKind::Dag => "-DAG",
            DirectiveKind::Label => "-LABEL",
            DirectiveKind::Not => "-NOT",
            DirectiveKind::End => " (end of input)",
        }
    }
}

/// A directive's name that was found in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FoundName<'a> {
    /// The prefix.
    pub(crate) prefix: &'a str,
    /// The start of the prefix.
    pub(crate) start: usize,
    /// The start of the text after the colon.
    pub(crate) end: usize,
    /// The meaning of the name.
    pub(crate) meaning: NameMeaning,
}

/// The meaning of a directive's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameMeaning {
    /// A directive, and whether it has the modifier `{LITERAL}`.
    Directive(DirectiveKind, bool),
    /// A comment.
    Comment,
    /// A directive written with `_`.
    Misspelled,
    /// A `-NOT` along with another suffix.
    BadNot,
    /// A `-COUNT-` without a usable number.
    BadCount,
}

/// Finds directives and comments in a text, from its start to its end.
pub(crate) struct DirectiveFinder<'a> {
    text: &'a str,
    /// Each prefix, the longest first, and where it occurs next.
    prefixes: Vec<(&'a str, Option<usize>)>,
}

impl<'a> DirectiveFinder<'a> {
    /// A finder for `text`.
    pub(crate) fn new(text: &'a str, options: &'a Options) -> DirectiveFinder<'a> {
        let all = options.prefixes.iter().map(String::as_str).chain(COMMENT_PREFIXES);
        let mut prefixes: Vec<_> = all.map(|prefix| (prefix, text.find(prefix))).collect();
        prefixes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        DirectiveFinder { text, prefixes }
    }

    /// The first directive or comment from `from` on, which must not be before an earlier one.
    pub(crate) fn next_name(&mut self, from: usize) -> Option<FoundName<'a>> {
        let text = self.text;
        let mut at = from;
        loop {
            let (start, prefix) = self.first_prefix(at)?;
            // A prefix right where the search starts follows a directive, never a part of a word.
            let inside_word = start > at && text[..start].ends_with(is_word_character);
            let after = start + prefix.len();
            if !inside_word && let Some((meaning, length)) = name_meaning(&text[after..], prefix) {
                return Some(FoundName { prefix, start, end: after + length, meaning });
            }
            at = text[after..].find(|c| !is_word_character(c)).map_or(text.len(), |end| after + end);
        }
    }

    /// The earliest prefix from `from` on, and of several there the longest.
    fn first_prefix(&mut self, from: usize) -> Option<(usize, &'a str)> {
        for (prefix, next) in &mut self.prefixes {
            if next.is_some_and(|next| next < from) {
                *next = self.text[from..].find(*prefix).map(|at| from + at);
            }
        }
        let found = self.prefixes.iter().filter_map(|&(prefix, next)| Some((next?, prefix)));
        found.min_by_key(|&(start, _)| start)
    }
}

fn is_word_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

/// Reads what follows a prefix; gives the meaning and the length up to and with the colon.
fn name_meaning(text: &str, prefix: &str) -> Option<(NameMeaning, usize)> {
    if COMMENT_PREFIXES.contains(&prefix) {
        return text.starts_with(':').then_some((NameMeaning::Comment, 1));
    }
    if text.starts_with([':', '{']) {
        return read_modifiers(text, 0, DirectiveKind::Plain(1));
    }
    let misspelled = text.starts_with('_');
    if !misspelled && !text.starts_with('-') {
        return None;
    }
    let (meaning, length) = suffix_meaning(text)?;
    Some((if misspelled { NameMeaning::Misspelled } else { meaning }, length))
}

/// Reads a suffix, whose first character is `-` or `_`.
fn suffix_meaning(text: &str) -> Option<(NameMeaning, usize)> {
    const SUFFIXES: [(&str, DirectiveKind); 6] = [
        ("NEXT", DirectiveKind::Next),
        ("SAME", DirectiveKind::Same),
        ("NOT", DirectiveKind::Not),
        ("DAG", DirectiveKind::Dag),
        ("LABEL", DirectiveKind::Label),
        ("EMPTY", DirectiveKind::Empty),
    ];
    let name = &text[1..];
    if let Some(count) = name.strip_prefix("COUNT-") {
        return count_meaning(text, count);
    }
    for combined in ["DAG", "NEXT", "SAME", "EMPTY"] {
        if name.starts_with(&format!("{combined}-NOT:")) || name.starts_with(&format!("NOT-{combined}:")) {
            return Some((NameMeaning::BadNot, 1));
        }
    }
    let &(suffix, kind) = SUFFIXES.iter().find(|(suffix, _)| name.starts_with(suffix))?;
    read_modifiers(text, 1 + suffix.len(), kind)
}

fn count_meaning(text: &str, count: &str) -> Option<(NameMeaning, usize)> {
    let digits = count.find(|c: char| !c.is_ascii_digit()).unwrap_or(count.len());
    let at = text.len() - count.len() + digits;
    match count[..digits].parse::<u32>() {
        Ok(number @ 1..=0x7fff_ffff) if count[digits..].starts_with([':', '{']) => {
            read_modifiers(text, at, DirectiveKind::Plain(number))
        }
        _ => Some((NameMeaning::BadCount, at)),
    }
}

/// Reads `:` or `{LITERAL}:` at `at`.
fn read_modifiers(text: &str, at: usize, kind: DirectiveKind) -> Option<(NameMeaning, usize)> {
    let rest = &text[at..];
    if rest.starts_with(':') {
        return Some((NameMeaning::Directive(kind, false), at + 1));
    }
    let list = rest.strip_prefix('{')?;
    let end = list.find("}:")?;
    let valid = list[..end].split(',').all(|modifier| modifier.trim() == "LITERAL");
    valid.then_some((NameMeaning::Directive(kind, true), at + 1 + end + 2))
}

/// The pattern text of a directive: from where to where in `text`.
pub(crate) fn pattern_range(text: &str, from: usize, options: &Options) -> (usize, usize) {
    let keep_blanks = options.strict_whitespace && options.match_full_lines;
    let rest = &text[from..];
    let skipped = if keep_blanks { 0 } else { rest.len() - rest.trim_start_matches(is_blank).len() };
    let start = from + skipped;
    let end = text[start..].find(['\n', '\r']).map_or(text.len(), |end| start + end);
    (start, end)
}
