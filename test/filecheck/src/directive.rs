//! Finding directives in a check file.

use crate::Options;
use crate::pattern::Pattern;
use crate::source::is_blank;

/// What a directive asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
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

impl Kind {
    /// What follows the prefix in the directive's name.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Kind::Plain(1) => "",
            Kind::Plain(_) => "-COUNT",
            Kind::Next => "-NEXT",
            Kind::Same => "-SAME",
            Kind::Empty => "-EMPTY",
            Kind::Dag => "-DAG",
            Kind::Label => "-LABEL",
            Kind::Not => "-NOT",
            Kind::End => " (end of input)",
        }
    }
}

/// One directive with its pattern.
#[derive(Debug, Clone)]
pub(crate) struct Directive {
    /// What it asks for.
    pub(crate) kind: Kind,
    /// Its name, for messages.
    pub(crate) name: String,
    /// The pattern.
    pub(crate) pattern: Pattern,
    /// Which of the check file's sources it is in.
    pub(crate) source: usize,
    /// Where its pattern starts in that source.
    pub(crate) offset: usize,
}

/// A directive's name that was found in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found<'a> {
    /// The prefix.
    pub(crate) prefix: &'a str,
    /// Where the prefix starts.
    pub(crate) start: usize,
    /// Where the text after the colon starts.
    pub(crate) end: usize,
    /// What the name says.
    pub(crate) meaning: Meaning,
}

/// What the name of a directive says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// A directive, and whether it has the modifier `{LITERAL}`.
    Directive(Kind, bool),
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
pub(crate) struct Finder<'a> {
    text: &'a str,
    options: &'a Options,
    /// Each prefix, the longest first, and where it occurs next.
    prefixes: Vec<(&'a str, Option<usize>)>,
}

impl<'a> Finder<'a> {
    /// A finder for `text`.
    pub(crate) fn new(text: &'a str, options: &'a Options) -> Finder<'a> {
        let all = options.prefixes.iter().chain(&options.comment_prefixes);
        let mut prefixes: Vec<_> =
            all.map(|prefix| (prefix.as_str(), text.find(prefix.as_str()))).collect();
        prefixes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        Finder { text, options, prefixes }
    }

    /// The first directive or comment from `from` on, which must not be before an earlier one.
    pub(crate) fn find(&mut self, from: usize) -> Option<Found<'a>> {
        let text = self.text;
        let mut at = from;
        loop {
            let (start, prefix) = self.first_prefix(at)?;
            // A prefix right where the search starts follows a directive, never a part of a word.
            let inside_word = start > at && text[..start].ends_with(is_word);
            let after = start + prefix.len();
            if !inside_word
                && let Some((meaning, length)) = meaning(&text[after..], prefix, self.options)
            {
                return Some(Found { prefix, start, end: after + length, meaning });
            }
            at = text[after..].find(|c| !is_word(c)).map_or(text.len(), |end| after + end);
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

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

/// Reads what follows a prefix; gives the meaning and the length up to and with the colon.
fn meaning(text: &str, prefix: &str, options: &Options) -> Option<(Meaning, usize)> {
    if options.comment_prefixes.iter().any(|comment| comment == prefix) {
        return text.starts_with(':').then_some((Meaning::Comment, 1));
    }
    if text.starts_with([':', '{']) {
        return modifiers(text, 0, Kind::Plain(1));
    }
    let misspelled = text.starts_with('_');
    if !misspelled && !text.starts_with('-') {
        return None;
    }
    let (meaning, length) = suffix(text)?;
    Some((if misspelled { Meaning::Misspelled } else { meaning }, length))
}

/// Reads a suffix, whose first character is `-` or `_`.
fn suffix(text: &str) -> Option<(Meaning, usize)> {
    const SUFFIXES: [(&str, Kind); 6] = [
        ("NEXT", Kind::Next),
        ("SAME", Kind::Same),
        ("NOT", Kind::Not),
        ("DAG", Kind::Dag),
        ("LABEL", Kind::Label),
        ("EMPTY", Kind::Empty),
    ];
    let name = &text[1..];
    if let Some(count) = name.strip_prefix("COUNT-") {
        return counted(text, count);
    }
    for combined in ["DAG", "NEXT", "SAME", "EMPTY"] {
        if name.starts_with(&format!("{combined}-NOT:"))
            || name.starts_with(&format!("NOT-{combined}:"))
        {
            return Some((Meaning::BadNot, 1));
        }
    }
    let &(suffix, kind) = SUFFIXES.iter().find(|(suffix, _)| name.starts_with(suffix))?;
    modifiers(text, 1 + suffix.len(), kind)
}

fn counted(text: &str, count: &str) -> Option<(Meaning, usize)> {
    let digits = count.find(|c: char| !c.is_ascii_digit()).unwrap_or(count.len());
    let at = text.len() - count.len() + digits;
    match count[..digits].parse::<u32>() {
        Ok(number @ 1..=0x7fff_ffff) if count[digits..].starts_with([':', '{']) => {
            modifiers(text, at, Kind::Plain(number))
        }
        _ => Some((Meaning::BadCount, at)),
    }
}

/// Reads `:` or `{LITERAL}:` at `at`.
fn modifiers(text: &str, at: usize, kind: Kind) -> Option<(Meaning, usize)> {
    let rest = &text[at..];
    if rest.starts_with(':') {
        return Some((Meaning::Directive(kind, false), at + 1));
    }
    let list = rest.strip_prefix('{')?;
    let end = list.find("}:")?;
    let valid = list[..end].split(',').all(|modifier| modifier.trim() == "LITERAL");
    valid.then_some((Meaning::Directive(kind, true), at + 1 + end + 2))
}

/// The pattern text of a directive: from where to where in `text`.
pub(crate) fn pattern_range(text: &str, from: usize, options: &Options) -> (usize, usize) {
    let keep_blanks = options.strict_whitespace && options.match_full_lines;
    let rest = &text[from..];
    let skipped =
        if keep_blanks { 0 } else { rest.len() - rest.trim_start_matches(is_blank).len() };
    let start = from + skipped;
    let end = text[start..].find(['\n', '\r']).map_or(text.len(), |end| start + end);
    (start, end)
}
