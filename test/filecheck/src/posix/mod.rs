//! Extended regular expressions of POSIX over bytes, with LLVM's meaning: of all matches that start leftmost the longest
//! counts, and groups divide it from left to right.
//!
//! The `regex` crate finds where a match starts, since there its rule and POSIX's agree. Sets of positions then say where
//! the longest match ends ([`reach`]) and what each group has ([`captures`]). Only an expression with a back-reference is
//! matched by trying ([`backtrack`]).

mod backtrack;
mod bracket;
mod byte_set;
mod captures;
mod reach;
mod syntax;
mod translate;

use backtrack::{Program, StepsLeft};
use reach::Reach;
use std::ops::Range;
use syntax::{Node, parse_expression};

const TOO_COMPLEX: &str = "the regular expression takes too many steps on this input";

/// The texts of the whole match and of its groups, by number.
pub(crate) type Groups = Vec<Option<Range<usize>>>;

/// A compiled expression.
#[derive(Debug, Clone)]
pub(crate) struct Expression {
    /// Finds where a match may start.
    starts: regex::bytes::Regex,
    /// The expression; with copies of groups in the place of back-references.
    root: Node,
    groups: usize,
    /// The expression with its back-references, if there are any.
    program: Option<Program>,
}

impl Expression {
    /// Compiles an expression; with `ignore_case` letters match in both cases.
    ///
    /// # Errors
    /// A description of what is not well formed, or too large.
    pub(crate) fn compile(text: &[u8], ignore_case: bool) -> Result<Self, String> {
        let syntax = parse_expression(text, ignore_case)?;
        let program = match syntax.has_back_reference {
            true => Some(Program::compile(&syntax.root, syntax.groups)?),
            false => None,
        };
        let root = if program.is_some() { syntax.without_back_references()? } else { syntax.root };
        let translated = translate::translate_node(&root);
        let starts = regex::bytes::RegexBuilder::new(&translated).multi_line(true).unicode(false).build();
        let starts = starts.map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => "the regular expression is too large".to_owned(),
            error => error.to_string(),
        })?;
        Ok(Self { starts, root, groups: syntax.groups, program })
    }

    /// Finds the leftmost longest match; the texts of groups only if they are `wanted`.
    ///
    /// # Errors
    /// A search that takes too many steps.
    pub(crate) fn find_match(&self, text: &[u8], wanted: bool) -> Result<Option<Groups>, String> {
        if let Some(program) = &self.program {
            return self.find_by_trying(program, text);
        }
        let Some(preferred) = self.starts.find(text) else { return Ok(None) };
        let mut reach = Reach::new(text, preferred.start(), text.len());
        let end = reach.ends(&self.root, &[preferred.start()]).pop();
        if reach.is_exhausted() {
            return Err(TOO_COMPLEX.to_owned());
        }
        let whole = preferred.start()..end.unwrap_or(preferred.end());
        if !wanted {
            return Ok(Some(vec![Some(whole)]));
        }
        captures::find_groups(&self.root, text, whole, self.groups).map(Some)
    }

    fn find_by_trying(&self, program: &Program, text: &[u8]) -> Result<Option<Groups>, String> {
        let mut left = StepsLeft::new();
        let mut from = 0;
        while let Some(start) = self.starts.find_at(text, from).map(|found| found.start()) {
            let mut reach = Reach::new(text, start, text.len());
            let ends = reach.ends(&self.root, &[start]);
            if reach.is_exhausted() {
                return Err(TOO_COMPLEX.to_owned());
            }
            for end in ends.into_iter().rev() {
                if let Some(groups) = program.match_range(text, start..end, &mut left)? {
                    return Ok(Some(groups));
                }
            }
            from = start + 1;
            if from > text.len() {
                break;
            }
        }
        Ok(None)
    }
}

/// The number of groups of an expression.
///
/// # Errors
/// A description of the first place that is not well formed.
pub(crate) fn count_groups(text: &[u8]) -> Result<usize, String> {
    parse_expression(text, false).map(|syntax| syntax.groups)
}

/// The expression that matches a text as it is.
pub(crate) fn escape_text(text: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(text.len());
    for &byte in text {
        if b"()^$|*+?.[]\\{}".contains(&byte) {
            escaped.push(b'\\');
        }
        escaped.push(byte);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts of the whole match and its groups, with `-` for a group without one.
    fn matched(pattern: &str, text: &str) -> Option<String> {
        let expression = Expression::compile(pattern.as_bytes(), false).unwrap();
        let groups = expression.find_match(text.as_bytes(), true).unwrap()?;
        let texts: Vec<&str> = groups.into_iter().map(|group| group.map_or("-", |range| &text[range])).collect();
        Some(texts.join(" "))
    }

    #[test]
    fn the_longest_match_counts() {
        for (pattern, text, expected) in [
            ("a|ab", "xab", "ab"),
            ("a?(ab)?", "ab", "ab ab"),
            ("(a|ab)(c|bcd)", "abcd", "abcd a bcd"),
            ("(a|ab)(bc|c)", "abc", "abc ab c"),
            ("a*", "baa", ""),
            ("^b$", "a\nb\nc", "b"),
            ("(a*)(a*b)", "aab", "aab aa b"),
            ("((a)|b)*", "ab", "ab b -"),
            ("(a|ab|bc)+", "abc", "abc bc"),
            ("(.*) = (.*)", "a = b = c", "a = b = c a = b c"),
            ("([a-c]{2}){1,2}x", "aabbccx", "bbccx cc"),
        ] {
            assert_eq!(matched(pattern, text).as_deref(), Some(expected), "{pattern} on {text}");
        }
        assert_eq!(matched("[^a]", "aaa\n"), None);
    }

    #[test]
    fn back_references_repeat_a_text() {
        for (pattern, text, expected) in [
            ("(a|b)\\1", "abba", "bb b"),
            ("(.*)\\1", "abcabcx", "abcabc abc"),
            ("(.)(.)\\2\\1", "xabbay", "abba a b"),
            ("(a*)b\\1$", "aaba", "aba a"),
        ] {
            assert_eq!(matched(pattern, text).as_deref(), Some(expected), "{pattern} on {text}");
        }
        assert_eq!(matched("([a-z])\\1", "abcd"), None);
    }

    #[test]
    fn long_texts_are_divided_in_time() {
        let expression = Expression::compile(b"(.*)=((ab|c)*)(.*)$", false).unwrap();
        let text = "x".repeat(20_000) + "=" + &"abc".repeat(20_000) + "d";
        let groups = expression.find_match(text.as_bytes(), true).unwrap().unwrap();
        let lengths: Vec<usize> = groups.into_iter().flatten().map(|group| group.len()).collect();
        assert_eq!(lengths, [80_002, 20_000, 60_000, 1, 1]);
    }

    #[test]
    fn a_search_of_too_many_steps_is_an_error() {
        let expression = Expression::compile(b"^(a+)(a+)(a+)(a+)\\4\\3\\2\\1ac", false).unwrap();
        let text = "a".repeat(400) + "c";
        assert_eq!(expression.find_match(text.as_bytes(), true), Err(TOO_COMPLEX.to_owned()));
        let text = "a".repeat(17) + "c";
        assert!(expression.find_match(text.as_bytes(), true).unwrap().is_some());
    }
}
