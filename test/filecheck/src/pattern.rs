//! Patterns: the text after a directive's colon, and matching it.

use std::collections::BTreeMap;

use crate::Options;
use crate::directive::Kind;
use crate::ere::{Ere, escape};
use crate::matcher::{Groups, Matcher};
use crate::numeric::{Expression, Format, SyntaxError, parse_block, parse_name, undefined};
use crate::source::is_blank;
use crate::variables::{Symbols, Variables};

/// POSIX knows the back-references `\1` to `\9`.
const BACK_REFERENCE_LIMIT: usize = 9;

/// A parsed pattern.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    body: Body,
    ignore_case: bool,
    line: Option<usize>,
}

#[derive(Debug, Clone)]
enum Body {
    EndOfInput,
    EmptyLine,
    Fixed(String),
    Regex(Box<Template>),
}

/// An expression with places where values go.
#[derive(Debug, Clone, Default)]
struct Template {
    text: String,
    groups: usize,
    /// Byte offsets in `text`, ascending, and what is inserted there.
    substitutions: Vec<(usize, Substitution)>,
    strings: BTreeMap<String, usize>,
    numerics: BTreeMap<String, (usize, Format)>,
    /// The compiled text, when nothing is inserted.
    compiled: Option<Matcher>,
}

#[derive(Debug, Clone)]
enum Substitution {
    String(String),
    Numeric { text: String, expression: Expression, format: Format },
}

/// A match: byte offset and length in the searched text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Match {
    /// Where it starts.
    pub(crate) start: usize,
    /// How long it is.
    pub(crate) length: usize,
}

impl Pattern {
    /// The pattern that matches the end of the input.
    pub(crate) fn end_of_input() -> Pattern {
        Pattern { body: Body::EndOfInput, ignore_case: false, line: None }
    }

    /// Parses the text of a directive on `line`. Error offsets are bytes of `text`.
    pub(crate) fn parse(
        text: &str,
        kind: Kind,
        literal: bool,
        line: Option<usize>,
        options: &Options,
        symbols: &mut Symbols,
    ) -> Result<Pattern, SyntaxError> {
        let keep_blanks = options.strict_whitespace && options.match_full_lines;
        let text = if keep_blanks { text } else { text.trim_end_matches(is_blank) };
        let full_line = options.match_full_lines && kind != Kind::Not;
        let body = match (kind, text.is_empty()) {
            (Kind::Empty, true) => Body::EmptyLine,
            (Kind::Empty, false) => {
                return Err(SyntaxError::new(0, "found non-empty check string for empty check"));
            }
            (_, true) => return Err(SyntaxError::new(0, "found empty check string")),
            _ if literal => Body::Fixed(text.to_owned()),
            _ if !full_line && !text.contains("{{") && !text.contains("[[") => {
                Body::Fixed(text.to_owned())
            }
            _ => {
                let mut builder =
                    Builder { text, at: 0, line, symbols, template: Template::default() };
                builder.pattern(full_line, options)?;
                Body::Regex(Box::new(builder.template))
            }
        };
        Ok(Pattern { body, ignore_case: options.ignore_case, line })
    }

    /// Whether the pattern defines or uses a variable.
    pub(crate) fn has_variable(&self) -> bool {
        match &self.body {
            Body::Regex(template) => {
                !(template.substitutions.is_empty()
                    && template.strings.is_empty()
                    && template.numerics.is_empty())
            }
            Body::EndOfInput | Body::EmptyLine | Body::Fixed(_) => false,
        }
    }

    /// Finds the first match in `text` and takes over the values of variables. An error means that
    /// the pattern itself cannot be used now, for example with an undefined variable.
    pub(crate) fn find(
        &self,
        text: &str,
        variables: &mut Variables,
    ) -> Result<Option<Match>, String> {
        match &self.body {
            Body::EndOfInput => Ok(Some(Match { start: text.len(), length: 0 })),
            Body::EmptyLine => Ok(find_empty_line(text)),
            Body::Fixed(wanted) => {
                let start = if self.ignore_case {
                    find_ignoring_case(text, wanted)
                } else {
                    text.find(wanted.as_str())
                };
                Ok(start.map(|start| Match { start, length: wanted.len() }))
            }
            Body::Regex(template) => self.find_regex(template, text, variables),
        }
    }

    fn find_regex(
        &self,
        template: &Template,
        text: &str,
        variables: &mut Variables,
    ) -> Result<Option<Match>, String> {
        let substituted;
        let matcher = match &template.compiled {
            Some(compiled) => compiled,
            None => {
                let expression = template.substitute(variables, self.line)?;
                substituted = Matcher::new(&expression, self.ignore_case)
                    .map_err(|error| format!("invalid regex: {error}"))?;
                &substituted
            }
        };
        let Some(groups) = matcher.find(text)? else { return Ok(None) };
        template.capture(&groups, text, variables)?;
        let whole = groups.first().copied().flatten();
        Ok(whole.map(|(start, end)| Match { start, length: end - start }))
    }

    /// One line for each value that goes into the pattern, as far as it is defined.
    pub(crate) fn describe_substitutions(&self, variables: &Variables) -> Vec<String> {
        let Body::Regex(template) = &self.body else { return Vec::new() };
        let described = template.substitutions.iter().filter_map(|(_, substitution)| {
            let value = substitution.value(variables, self.line).ok()?;
            Some(format!("with \"{}\" equal to {value:?}", substitution.name()))
        });
        described.collect()
    }
}

impl Substitution {
    fn name(&self) -> &str {
        match self {
            Substitution::String(name) => name,
            Substitution::Numeric { text, .. } => text,
        }
    }

    fn value(&self, variables: &Variables, line: Option<usize>) -> Result<String, String> {
        match self {
            Substitution::String(name) => {
                variables.strings.get(name).cloned().ok_or_else(|| undefined(name))
            }
            Substitution::Numeric { expression, format, .. } => {
                format.write(expression.evaluate(variables, line)?)
            }
        }
    }
}

impl Template {
    fn substitute(&self, variables: &Variables, line: Option<usize>) -> Result<String, String> {
        let mut expression = String::new();
        let mut from = 0;
        for (at, substitution) in &self.substitutions {
            expression.push_str(&self.text[from..*at]);
            expression.push_str(&escape(&substitution.value(variables, line)?));
            from = *at;
        }
        expression.push_str(&self.text[from..]);
        Ok(expression)
    }

    fn capture(
        &self,
        groups: &Groups,
        text: &str,
        variables: &mut Variables,
    ) -> Result<(), String> {
        let captured = |group: usize| {
            groups.get(group).copied().flatten().map_or("", |(start, end)| &text[start..end])
        };
        for (name, &group) in &self.strings {
            variables.strings.insert(name.clone(), captured(group).to_owned());
        }
        for (name, &(group, format)) in &self.numerics {
            variables.numerics.insert(name.clone(), format.read(captured(group))?);
        }
        Ok(())
    }
}

/// A line break that is followed by another, or by the end; the match starts after it.
fn find_empty_line(text: &str) -> Option<Match> {
    let bytes = text.as_bytes();
    let mut line_breaks = text.match_indices('\n').map(|(at, _)| at);
    let at = line_breaks.find(|at| bytes.get(at + 1).is_none_or(|&next| next == b'\n'))?;
    Some(Match { start: at + 1, length: 0 })
}

fn find_ignoring_case(text: &str, wanted: &str) -> Option<usize> {
    let (text, wanted) = (text.as_bytes(), wanted.as_bytes());
    text.windows(wanted.len()).position(|window| window.eq_ignore_ascii_case(wanted))
}

/// Reads a pattern and builds its expression.
struct Builder<'a> {
    text: &'a str,
    at: usize,
    line: Option<usize>,
    symbols: &'a mut Symbols,
    template: Template,
}

impl<'a> Builder<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn pattern(&mut self, full_line: bool, options: &Options) -> Result<(), SyntaxError> {
        let blanks = if options.strict_whitespace { "" } else { " *" };
        if full_line {
            self.template.text.push('^');
            self.template.text.push_str(blanks);
        }
        while !self.rest().is_empty() {
            let rest = self.rest();
            if rest.starts_with("{{") {
                self.regex_block()?;
            } else if rest.starts_with("[[") && !rest.starts_with("[[[") {
                self.substitution_block()?;
            } else {
                self.fixed();
            }
        }
        if full_line {
            self.template.text.push_str(blanks);
            self.template.text.push('$');
        }
        if self.template.substitutions.is_empty() {
            let compiled = Matcher::new(&self.template.text, options.ignore_case);
            let compiled = compiled.map_err(|error| invalid_regex(0, &error))?;
            self.template.compiled = Some(compiled);
        }
        Ok(())
    }

    fn fixed(&mut self) {
        let rest = self.rest();
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let tail = &rest[first..];
        let end = ["{{", "[["].iter().filter_map(|open| tail.find(open)).min();
        let end = end.map_or(rest.len(), |end| first + end);
        self.template.text.push_str(&escape(&rest[..end]));
        self.at += end;
    }

    fn regex_block(&mut self) -> Result<(), SyntaxError> {
        let rest = self.rest();
        let Some(end) = rest.find("}}") else {
            return Err(SyntaxError::new(self.at, "found start of regex string with no end '}}'"));
        };
        // Without an alternation in sight the parentheses would only use up group numbers.
        let parenthesise = rest.contains('|');
        if parenthesise {
            self.template.text.push('(');
            self.template.groups += 1;
        }
        self.expression(&rest[2..end], self.at + 2)?;
        if parenthesise {
            self.template.text.push(')');
        }
        self.at += end + 2;
        Ok(())
    }

    fn expression(&mut self, text: &str, at: usize) -> Result<(), SyntaxError> {
        let ere = Ere::parse(text).map_err(|error| invalid_regex(at, error))?;
        self.template.text.push_str(text);
        self.template.groups += ere.groups;
        Ok(())
    }

    fn substitution_block(&mut self) -> Result<(), SyntaxError> {
        let start = self.at + 2;
        let end = self.block_end(start)?;
        let block = &self.text[start..end];
        self.at = end + 2;
        if let Some(numeric) = block.strip_prefix('#') {
            return self.numeric_block(numeric, false).map_err(|error| error.moved(start + 1));
        }
        self.string_block(block, start)
    }

    fn block_end(&self, start: usize) -> Result<usize, SyntaxError> {
        let mut depth = 0usize;
        let mut chars = self.text[start..].char_indices();
        while let Some((at, c)) = chars.next() {
            if depth == 0 && self.text[start + at..].starts_with("]]") {
                return Ok(start + at);
            }
            match c {
                '\\' => {
                    chars.next();
                }
                '[' => depth += 1,
                ']' if depth == 0 => {
                    return Err(SyntaxError::new(
                        start + at,
                        "missing closing \"]\" for regex variable",
                    ));
                }
                ']' => depth -= 1,
                _ => {}
            }
        }
        Err(SyntaxError::new(start - 2, "invalid substitution block, no ]] found"))
    }

    fn string_block(&mut self, block: &str, start: usize) -> Result<(), SyntaxError> {
        let colon = block.find(':');
        let head = &block[..colon.unwrap_or(block.len())];
        if let Some(blank) = head.find(is_blank) {
            return Err(SyntaxError::new(start + blank, "unexpected whitespace"));
        }
        let length = parse_name(block).map_err(|error| error.moved(start))?;
        let pseudo = block.starts_with('@');
        let name = &block[..length];
        match colon {
            Some(colon) if pseudo || colon != length => {
                Err(SyntaxError::new(start, "invalid name in string variable definition"))
            }
            Some(colon) => self.define_string(name, &block[colon + 1..], start),
            None if pseudo => self.numeric_block(block, true).map_err(|error| error.moved(start)),
            None if length != block.len() => {
                Err(SyntaxError::new(start, "invalid name in string variable use"))
            }
            None => self.use_string(name, start),
        }
    }

    fn define_string(&mut self, name: &str, regex: &str, start: usize) -> Result<(), SyntaxError> {
        if self.symbols.numerics.contains_key(name) {
            let message = format!("numeric variable with name '{name}' already exists");
            return Err(SyntaxError::new(start, message));
        }
        self.template.groups += 1;
        self.template.strings.insert(name.to_owned(), self.template.groups);
        self.symbols.strings.insert(name.to_owned());
        self.template.text.push('(');
        if !regex.is_empty() {
            self.expression(regex, start + name.len() + 1)?;
        }
        self.template.text.push(')');
        Ok(())
    }

    fn use_string(&mut self, name: &str, start: usize) -> Result<(), SyntaxError> {
        match self.template.strings.get(name) {
            Some(&group) if group > BACK_REFERENCE_LIMIT => Err(SyntaxError::new(
                start,
                format!("can't back-reference more than {BACK_REFERENCE_LIMIT} variables"),
            )),
            Some(&group) => {
                self.template.text.push_str(&format!("\\{group}"));
                Ok(())
            }
            None => {
                self.substitute(Substitution::String(name.to_owned()));
                Ok(())
            }
        }
    }

    fn substitute(&mut self, substitution: Substitution) {
        self.template.substitutions.push((self.template.text.len(), substitution));
    }

    fn numeric_block(&mut self, text: &str, legacy: bool) -> Result<(), SyntaxError> {
        let block = parse_block(text, legacy, self.line, self.symbols)?;
        let defines = block.defines.is_some();
        if let Some(name) = block.defines {
            self.template.groups += 1;
            self.template.numerics.insert(name, (self.template.groups, block.format));
            self.template.text.push('(');
        }
        match block.expression {
            Some(expression) => self.substitute(Substitution::Numeric {
                text: text.to_owned(),
                expression,
                format: block.format,
            }),
            None => self.expression(&block.format.wildcard(), 0)?,
        }
        if defines {
            self.template.text.push(')');
        }
        Ok(())
    }
}

fn invalid_regex(at: usize, error: &str) -> SyntaxError {
    SyntaxError::new(at, format!("invalid regex: {error}"))
}
