//! POSIX extended regular expressions, translated for the `regex` crate.

use regex_automata::hybrid::dfa::DFA;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, MatchKind};
use std::iter::Peekable;
use std::ops::Range;
use std::str::Chars;

/// The largest count that a `{m,n}` repetition may name.
const REPEAT_LIMIT: u32 = 255;

/// The names that `[:name:]` may have.
const CLASS_NAMES: [&str; 12] =
    ["alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "xdigit"];

/// A compiled expression.
#[derive(Debug, Clone)]
pub(crate) struct Expression {
    regex: regex::Regex,
    /// Finds the longest match at a given start.
    longest: DFA,
    defines_variables: bool,
}

/// A match and the values of the variables that it defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExpressionMatch {
    /// The bytes that it covers.
    pub(crate) range: Range<usize>,
    /// Variables and their values.
    pub(crate) values: Vec<(String, String)>,
}

impl Expression {
    /// Compiles a translated expression, whose named groups are variables.
    ///
    /// # Errors
    /// A description of what is wrong, such as an expression that is too large.
    pub(crate) fn compile(translated: &str) -> Result<Self, String> {
        let regex = regex::RegexBuilder::new(translated).multi_line(true).build();
        let regex = regex.map_err(|error| error.to_string())?;
        let longest = DFA::builder()
            .configure(DFA::config().match_kind(MatchKind::All))
            .syntax(syntax::Config::new().multi_line(true))
            .build(translated)
            .map_err(|error| error.to_string())?;
        let defines_variables = regex.capture_names().flatten().next().is_some();
        Ok(Self { regex, longest, defines_variables })
    }

    /// Whether a match gives variables values.
    pub(crate) fn defines_variables(&self) -> bool {
        self.defines_variables
    }

    /// Finds the leftmost longest match.
    ///
    /// # Errors
    /// A match whose variables are in doubt, or a search that takes too much memory.
    pub(crate) fn find_match(&self, text: &str) -> Result<Option<ExpressionMatch>, String> {
        let Some(captures) = self.regex.captures(text) else { return Ok(None) };
        let preferred = captures.get_match().range();
        let end = self.longest_end(text, preferred.start)?.unwrap_or(preferred.end);
        if end != preferred.end && self.defines_variables {
            return Err(format!(
                "the longest match is {:?}, but the regex prefers {:?}: put longer alternatives first",
                &text[preferred.start..end],
                &text[preferred]
            ));
        }
        let names = self.regex.capture_names().flatten();
        let values = names.map(|name| {
            let value = captures.name(name).map_or("", |group| group.as_str());
            (name.to_owned(), value.to_owned())
        });
        Ok(Some(ExpressionMatch { range: preferred.start..end, values: values.collect() }))
    }

    /// The end of the longest match that begins at `start`.
    fn longest_end(&self, text: &str, start: usize) -> Result<Option<usize>, String> {
        let input = Input::new(text).range(start..).anchored(Anchored::Yes);
        let found = self.longest.try_search_fwd(&mut self.longest.create_cache(), &input);
        Ok(found.map_err(|error| error.to_string())?.map(|half| half.offset()))
    }
}

/// Translates an extended regular expression.
///
/// # Errors
/// An expression that is not well formed, or with a part that is not supported.
pub(crate) fn translate_expression(text: &str) -> Result<String, String> {
    let mut translator = Translator {
        rest: text.chars().peekable(),
        translated: String::new(),
        depth: 0,
        is_empty_branch: true,
        is_repeatable: false,
    };
    while let Some(first) = translator.rest.next() {
        translator.translate_piece(first)?;
    }
    match translator {
        Translator { depth: 1.., .. } => Err(UNBALANCED.to_owned()),
        Translator { is_empty_branch: true, .. } => Err(EMPTY.to_owned()),
        Translator { translated, .. } => Ok(translated),
    }
}

const UNBALANCED: &str = "parentheses not balanced";
const EMPTY: &str = "empty (sub)expression";
const NOT_REPEATABLE: &str = "repetition-operator operand invalid";
const OPEN_BRACKET: &str = "brackets ([ ]) not balanced";

/// Reads an expression from its start to its end.
struct Translator<'a> {
    rest: Peekable<Chars<'a>>,
    translated: String,
    /// Groups that are open.
    depth: usize,
    /// Whether nothing stands before this place in its branch.
    is_empty_branch: bool,
    /// Whether a repetition may follow.
    is_repeatable: bool,
}

impl Translator<'_> {
    fn translate_piece(&mut self, first: char) -> Result<(), String> {
        match first {
            '(' => return self.open_group(),
            '|' => return self.end_branch(),
            ')' => self.close_group()?,
            '*' | '+' | '?' => return self.repeat_piece(&first.to_string()),
            '{' if self.rest.peek().is_some_and(char::is_ascii_digit) => {
                let count = self.repetition_count()?;
                return self.repeat_piece(&count);
            }
            '[' => {
                let set = bracket_expression(&mut self.rest)?;
                self.translated.push_str(&set);
            }
            '\\' => match self.rest.next() {
                None => return Err("trailing backslash (\\)".to_owned()),
                Some('1'..='9') => return Err("back-references are not supported".to_owned()),
                Some(escaped) => self.push_literal(escaped),
            },
            '.' | '^' | '$' => self.translated.push(first),
            other => self.push_literal(other),
        }
        self.is_empty_branch = false;
        self.is_repeatable = first != '^';
        Ok(())
    }

    fn push_literal(&mut self, literal: char) {
        self.translated.push_str(&regex::escape(&literal.to_string()));
    }

    fn open_group(&mut self) -> Result<(), String> {
        self.depth += 1;
        self.translated.push_str("(?:");
        self.is_repeatable = false;
        // `()` is a group, `(|a)` is none.
        self.is_empty_branch = self.rest.peek() != Some(&')');
        Ok(())
    }

    fn close_group(&mut self) -> Result<(), String> {
        if self.is_empty_branch && self.depth > 0 {
            return Err(EMPTY.to_owned());
        }
        self.depth = self.depth.checked_sub(1).ok_or(UNBALANCED)?;
        self.translated.push(')');
        Ok(())
    }

    fn end_branch(&mut self) -> Result<(), String> {
        if self.is_empty_branch {
            return Err(EMPTY.to_owned());
        }
        self.translated.push('|');
        self.is_empty_branch = true;
        self.is_repeatable = false;
        Ok(())
    }

    fn repeat_piece(&mut self, operator: &str) -> Result<(), String> {
        if !self.is_repeatable {
            return Err(NOT_REPEATABLE.to_owned());
        }
        self.translated.push_str(operator);
        self.is_repeatable = false;
        Ok(())
    }

    /// Reads the rest of `{m}`, `{m,}` or `{m,n}`.
    fn repetition_count(&mut self) -> Result<String, String> {
        let mut inner = String::new();
        loop {
            match self.rest.next() {
                Some('}') => break,
                Some(next) => inner.push(next),
                None => return Err("braces not balanced".to_owned()),
            }
        }
        let (low, high) = inner.split_once(',').unwrap_or((&inner, &inner));
        let low = repetition_limit(low)?;
        let high = if high.is_empty() { REPEAT_LIMIT } else { repetition_limit(high)? };
        if low > high {
            return Err(BAD_COUNT.to_owned());
        }
        Ok(format!("{{{inner}}}"))
    }
}

const BAD_COUNT: &str = "invalid repetition count(s)";

fn repetition_limit(digits: &str) -> Result<u32, String> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.parse().ok().filter(|number| is_number && *number <= REPEAT_LIMIT);
    number.ok_or_else(|| BAD_COUNT.to_owned())
}

/// Reads and translates a bracket expression after its `[`.
fn bracket_expression(rest: &mut Peekable<Chars<'_>>) -> Result<String, String> {
    let is_complement = rest.next_if_eq(&'^').is_some();
    // A complement does not match a newline.
    let mut set = if is_complement { "[^\\n".to_owned() } else { "[".to_owned() };
    let mut is_first = true;
    loop {
        let first = rest.next().ok_or(OPEN_BRACKET)?;
        match first {
            ']' if !is_first => break,
            '[' if rest.peek() == Some(&':') => set.push_str(&class_name(rest)?),
            '[' if matches!(rest.peek(), Some('.' | '=')) => {
                return Err("collating elements are not supported".to_owned());
            }
            '-' if !is_first && rest.peek() != Some(&']') => return Err(BAD_RANGE.to_owned()),
            first => {
                push_member(&mut set, first);
                if let Some(last) = range_end(rest)? {
                    if last < first {
                        return Err(BAD_RANGE.to_owned());
                    }
                    set.push('-');
                    push_member(&mut set, last);
                }
            }
        }
        is_first = false;
    }
    set.push(']');
    Ok(set)
}

const BAD_RANGE: &str = "invalid character range";

/// Reads `-z` of a range, if one follows.
fn range_end(rest: &mut Peekable<Chars<'_>>) -> Result<Option<char>, String> {
    let mut ahead = rest.clone();
    if ahead.next() != Some('-') || matches!(ahead.peek(), Some(']') | None) {
        return Ok(None);
    }
    rest.next();
    match rest.next() {
        Some('[') if matches!(rest.peek(), Some('.' | '=' | ':')) => Err(BAD_RANGE.to_owned()),
        end => Ok(end),
    }
}

/// Reads `:name:]` after a `[`.
fn class_name(rest: &mut Peekable<Chars<'_>>) -> Result<String, String> {
    rest.next();
    let mut name = String::new();
    while let Some(next) = rest.next_if(|next| *next != ':' && *next != ']') {
        name.push(next);
    }
    match (rest.next(), rest.next()) {
        (Some(':'), Some(']')) if CLASS_NAMES.contains(&name.as_str()) => Ok(format!("[:{name}:]")),
        _ => Err(format!("the character class `[:{name}:]` is not supported")),
    }
}

fn push_member(set: &mut String, member: char) {
    if matches!(member, '\\' | '[' | ']' | '^' | '-' | '&' | '~') {
        set.push('\\');
    }
    set.push(member);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matched<'t>(pattern: &str, text: &'t str) -> Option<&'t str> {
        let expression = Expression::compile(&translate_expression(pattern).unwrap()).unwrap();
        expression.find_match(text).unwrap().map(|found| &text[found.range])
    }

    #[test]
    fn the_longest_match_counts() {
        assert_eq!(matched("a|ab", "xab"), Some("ab"));
        assert_eq!(matched("a?(ab)?", "ab"), Some("ab"));
        assert_eq!(matched("(a|ab)(c|bcd)", "abcd"), Some("abcd"));
        assert_eq!(matched("a*", "baa"), Some(""));
        assert_eq!(matched("[^a]", "aaa\n"), None);
        assert_eq!(matched("^b$", "a\nb\nc"), Some("b"));
    }

    #[test]
    fn a_variable_in_doubt_is_an_error() {
        let expression = Expression::compile("(?P<X>a|ab)").unwrap();
        let error = expression.find_match("ab").unwrap_err();
        assert!(error.contains("put longer alternatives first"), "{error}");
        let values = expression.find_match("ac").unwrap().unwrap().values;
        assert_eq!(values, [("X".to_owned(), "a".to_owned())]);
    }
}
