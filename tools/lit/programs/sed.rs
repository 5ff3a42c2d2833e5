//! `sed` with one substitution whose POSIX pattern means the same to the crate `regex`. All other scripts are for the
//! system's `sed`.

use super::call::{Finished, Invocation};
use regex::Regex;

/// Carries out `sed s/REGEX/TEXT/[g] [FILE]`, with any character for `/`; `None` if the command line says more than
/// that.
pub(super) fn substitute_lines(args: &[String], invocation: &Invocation<'_>) -> Option<Finished> {
    let (script, files) = args.split_first()?;
    if files.iter().any(|file| file != "-" && file.starts_with('-')) {
        return None;
    }
    let substitution = Substitution::parse(script)?;
    let mut out = Vec::new();
    let input = ["-".to_owned()];
    for file in if files.is_empty() { &input } else { files } {
        match invocation.load(file) {
            Ok(bytes) => out.extend(substitution.replace(std::str::from_utf8(&bytes).ok()?).into_bytes()),
            Err(error) => return Some(Finished::failure(2, &format!("sed: {error}"))),
        }
    }
    Some(Finished::success(out))
}

/// A command `s`.
struct Substitution {
    regex: Regex,
    text: String,
    everywhere: bool,
}

impl Substitution {
    fn parse(script: &str) -> Option<Self> {
        let rest = script.strip_prefix('s')?;
        let separator = rest.chars().next().filter(|c| c.is_ascii_punctuation() && *c != '\\')?;
        let mut parts = rest[1..].split(separator);
        let (pattern, text, flags) = (parts.next()?, parts.next()?, parts.next()?);
        let everywhere = match flags {
            "g" => true,
            "" => false,
            _ => return None,
        };
        // An escaped separator splits too, after its backslash, which then ends a part.
        if parts.next().is_some() || pattern.is_empty() || text.ends_with('\\') {
            return None;
        }
        let regex = Regex::new(&rust_pattern(pattern)?).ok()?;
        Some(Self { regex, text: rust_replacement(text)?, everywhere })
    }

    fn replace(&self, content: &str) -> String {
        content.split_inclusive('\n').map(|line| self.replace_in_line(line)).collect()
    }

    fn replace_in_line(&self, line: &str) -> String {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        let limit = usize::from(!self.everywhere);
        self.regex.replacen(line, limit, self.text.as_str()).into_owned() + end
    }
}

/// A basic regular expression of POSIX in the crate's syntax; `None` for what has another meaning there.
fn rust_pattern(pattern: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '+' | '?' | '|' | '(' | ')' | '{' | '}' => out.extend(['\\', c]),
            '[' => out.push_str(&rust_set(&mut chars)?),
            '\\' => match chars.next()? {
                c @ ('.' | '*' | '[' | ']' | '$' | '^' | '\\' | '/') => out.extend(['\\', c]),
                _ => return None,
            },
            // A star that nothing is in front of, and anchors within a pattern, are characters in POSIX.
            '*' if out.is_empty() || out == "^" => return None,
            '^' if !out.is_empty() => return None,
            '$' if chars.peek().is_some() => return None,
            c => out.push(c),
        }
    }
    Some(out)
}

/// A set of characters, after its `[`; `None` for classes, and for what only one of the two treats specially.
fn rust_set(chars: &mut impl Iterator<Item = char>) -> Option<String> {
    let mut out = "[".to_owned();
    for (at, c) in chars.enumerate() {
        match c {
            ']' if at > 0 && out != "[^" => return Some(out + "]"),
            '^' if at == 0 => out.push('^'),
            '[' | ']' | '\\' | '&' | '~' => return None,
            c if c == '-' || !c.is_ascii_punctuation() => out.push(c),
            c => out.extend(['\\', c]),
        }
    }
    None
}

/// The text of a substitution in the crate's syntax; `None` for groups and escapes.
fn rust_replacement(text: &str) -> Option<String> {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\\' | '\n' => return None,
            '&' => out.push_str("${0}"),
            '$' => out.push_str("$$"),
            c => out.push(c),
        }
    }
    Some(out)
}
