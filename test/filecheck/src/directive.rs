//! Finding directives in a check file.

use crate::options::Options;
use crate::source::is_blank;
use memchr::memmem;

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
            DirectiveKind::Plain(1) | DirectiveKind::End => "",
            DirectiveKind::Plain(_) => "-COUNT",
            DirectiveKind::Next => "-NEXT",
            DirectiveKind::Same => "-SAME",
            DirectiveKind::Empty => "-EMPTY",
            DirectiveKind::Dag => "-DAG",
            DirectiveKind::Label => "-LABEL",
            DirectiveKind::Not => "-NOT",
        }
    }

    /// The name in the dump of the input.
    pub(crate) fn short_name(self) -> &'static str {
        match self {
            DirectiveKind::Plain(1) => "check",
            DirectiveKind::Plain(_) => "count",
            DirectiveKind::Next => "next",
            DirectiveKind::Same => "same",
            DirectiveKind::Empty => "empty",
            DirectiveKind::Dag => "dag",
            DirectiveKind::Label => "label",
            DirectiveKind::Not => "not",
            DirectiveKind::End => "eof",
        }
    }

    /// The number of matches that it asks for.
    pub(crate) fn match_count(self) -> u32 {
        match self {
            DirectiveKind::Plain(count) => count,
            DirectiveKind::Next
            | DirectiveKind::Same
            | DirectiveKind::Empty
            | DirectiveKind::Dag
            | DirectiveKind::Label
            | DirectiveKind::Not
            | DirectiveKind::End => 1,
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
    text: &'a [u8],
    /// Each prefix, the longest first, and where it occurs next.
    prefixes: Vec<PrefixPlace<'a>>,
    /// The end of the searched text.
    searched: usize,
}

/// A prefix and where it occurs next.
struct PrefixPlace<'a> {
    prefix: &'a str,
    is_comment: bool,
    next: Option<usize>,
}

impl<'a> DirectiveFinder<'a> {
    /// A finder for `text`.
    pub(crate) fn new(text: &'a [u8], options: &'a Options) -> DirectiveFinder<'a> {
        let checks = options.check_prefixes().into_iter().map(|prefix| (prefix, false));
        let comments = options.comment_prefixes().into_iter().map(|prefix| (prefix, true));
        let places = checks.chain(comments).map(|(prefix, is_comment)| {
            let next = memmem::find(text, prefix.as_bytes());
            PrefixPlace { prefix, is_comment, next }
        });
        let mut prefixes: Vec<_> = places.collect();
        prefixes.sort_by_key(|place| std::cmp::Reverse(place.prefix.len()));
        DirectiveFinder { text, prefixes, searched: 0 }
    }

    /// The first directive or comment from `from` on, which must not be before an earlier one.
    pub(crate) fn next_name(&mut self, from: usize) -> Option<FoundName<'a>> {
        let text = self.text;
        self.searched = from;
        loop {
            let (start, prefix, is_comment) = self.first_prefix(self.searched)?;
            // A prefix right where the search starts follows a directive, never a part of a word.
            let inside_word = start > self.searched && is_word_byte(text[start - 1]);
            let after = start + prefix.len();
            if !inside_word && let Some((meaning, length)) = name_meaning(&text[after..], is_comment) {
                return Some(FoundName { prefix, start, end: after + length, meaning });
            }
            let word_end = text[after..].iter().position(|&byte| !is_word_byte(byte));
            self.searched = word_end.map_or(text.len(), |end| after + end);
        }
    }

    /// The end of the text that was searched when no more directive was found.
    pub(crate) fn searched(&self) -> usize {
        self.searched
    }

    /// The earliest prefix from `from` on, and of several there the longest.
    fn first_prefix(&mut self, from: usize) -> Option<(usize, &'a str, bool)> {
        for place in &mut self.prefixes {
            if place.next.is_some_and(|next| next < from) {
                let rest = &self.text[from..];
                place.next = memmem::find(rest, place.prefix.as_bytes()).map(|at| from + at);
            }
        }
        let found = self.prefixes.iter().filter_map(|place| Some((place.next?, place.prefix, place.is_comment)));
        found.min_by_key(|&(start, ..)| start)
    }
}

/// True if the byte may be a part of a directive's name.
pub(crate) fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

/// Reads what follows a prefix; gives the meaning and the length up to and with the colon.
fn name_meaning(text: &[u8], is_comment: bool) -> Option<(NameMeaning, usize)> {
    match text.first()? {
        b':' if is_comment => Some((NameMeaning::Comment, 1)),
        _ if is_comment => None,
        b':' | b'{' => read_modifiers(text, 0, DirectiveKind::Plain(1)),
        b'-' => suffix_meaning(text),
        b'_' => suffix_meaning(text).map(|(_, length)| (NameMeaning::Misspelled, length)),
        _ => None,
    }
}

/// The suffixes of directives, apart from `COUNT-<n>`.
pub(crate) const SUFFIXES: [(&str, DirectiveKind); 6] = [
    ("NEXT", DirectiveKind::Next),
    ("SAME", DirectiveKind::Same),
    ("NOT", DirectiveKind::Not),
    ("DAG", DirectiveKind::Dag),
    ("LABEL", DirectiveKind::Label),
    ("EMPTY", DirectiveKind::Empty),
];

/// Reads a suffix, whose first character is `-` or `_`.
fn suffix_meaning(text: &[u8]) -> Option<(NameMeaning, usize)> {
    let name = &text[1..];
    if let Some(count) = name.strip_prefix(b"COUNT-") {
        return count_meaning(text, count);
    }
    for combined in ["DAG", "NEXT", "SAME", "EMPTY"] {
        let (first, second) = (format!("{combined}-NOT:"), format!("NOT-{combined}:"));
        if name.starts_with(first.as_bytes()) || name.starts_with(second.as_bytes()) {
            return Some((NameMeaning::BadNot, 1));
        }
    }
    let &(suffix, kind) = SUFFIXES.iter().find(|(suffix, _)| name.starts_with(suffix.as_bytes()))?;
    read_modifiers(text, 1 + suffix.len(), kind)
}

fn count_meaning(text: &[u8], count: &[u8]) -> Option<(NameMeaning, usize)> {
    let length = count.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let at = text.len() - count.len() + length;
    let digits = std::str::from_utf8(&count[..length]).unwrap_or_default();
    match digits.parse::<u32>() {
        Ok(number @ 1..=0x7fff_ffff) if matches!(count.get(length), Some(b':' | b'{')) => {
            read_modifiers(text, at, DirectiveKind::Plain(number))
        }
        _ => Some((NameMeaning::BadCount, at)),
    }
}

/// Reads `:` or `{LITERAL}:` at `at`.
fn read_modifiers(text: &[u8], at: usize, kind: DirectiveKind) -> Option<(NameMeaning, usize)> {
    let rest = &text[at..];
    if rest.starts_with(b":") {
        return Some((NameMeaning::Directive(kind, false), at + 1));
    }
    let list = rest.strip_prefix(b"{")?;
    let end = memmem::find(list, b"}:")?;
    let valid = list[..end].split(|&byte| byte == b',').all(|modifier| modifier.trim_ascii() == b"LITERAL");
    valid.then_some((NameMeaning::Directive(kind, true), at + 1 + end + 2))
}

/// The pattern text of a directive: from where to where in `text`.
pub(crate) fn pattern_range(text: &[u8], from: usize, options: &Options) -> (usize, usize) {
    let rest = &text[from..];
    let blanks = rest.iter().take_while(|&&byte| is_blank(byte)).count();
    let start = from + if options.keeps_outer_blanks() { 0 } else { blanks };
    let end = memchr::memchr2(b'\n', b'\r', &text[start..]).map_or(text.len(), |end| start + end);
    (start, end)
}
