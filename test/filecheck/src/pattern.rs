//! Patterns: the text after a directive's colon, and matching it.

use crate::directive::DirectiveKind;
use crate::expression::{Expression, translate_expression};
use crate::options::Options;
use crate::source::is_blank;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The values of variables.
pub(crate) type VariableValues = BTreeMap<String, String>;

/// An error of a pattern, and the byte of the pattern's text that it is at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PatternError {
    /// Byte offset in the text.
    pub(crate) at: usize,
    /// A description.
    pub(crate) message: String,
}

impl PatternError {
    fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }
}

/// A parsed pattern.
#[derive(Debug, Clone)]
pub(crate) enum Pattern {
    /// The end of the input.
    EndOfInput,
    /// An empty line.
    EmptyLine,
    /// A text without blocks.
    Fixed(String),
    /// An expression whose values are all known.
    Compiled(Box<Expression>),
    /// An expression with values of variables to fill in.
    Template(Vec<TemplatePart>),
}

/// A piece of an expression with places where values go.
#[derive(Debug, Clone)]
pub(crate) enum TemplatePart {
    /// A translated regular expression.
    Expression(String),
    /// The value of a variable.
    Value(String),
}

impl Pattern {
    /// Parses the text of a directive.
    ///
    /// # Errors
    /// A pattern that is not well formed, or with a part that is not supported.
    pub(crate) fn parse(
        text: &str,
        kind: DirectiveKind,
        is_literal: bool,
        options: &Options,
    ) -> Result<Self, PatternError> {
        let keeps_blanks = options.strict_whitespace && options.match_full_lines;
        let text = if keeps_blanks { text } else { text.trim_end_matches(is_blank) };
        let is_full_line = options.match_full_lines && kind != DirectiveKind::Not;
        match (kind, text.is_empty()) {
            (DirectiveKind::Empty, true) => return Ok(Pattern::EmptyLine),
            (DirectiveKind::Empty, false) => {
                return Err(PatternError::new(0, "found non-empty check string for empty check"));
            }
            (_, true) => return Err(PatternError::new(0, "found empty check string")),
            (_, false) => {}
        }
        if is_literal || (!is_full_line && !text.contains("{{") && !text.contains("[[")) {
            return Ok(Pattern::Fixed(text.to_owned()));
        }
        let mut builder = TemplateBuilder { text, at: 0, parts: Vec::new(), defined: BTreeSet::new() };
        builder.read_pattern(is_full_line, options.strict_whitespace)?;
        let parts = builder.parts;
        if parts.iter().any(|part| matches!(part, TemplatePart::Value(_))) {
            return Ok(Pattern::Template(parts));
        }
        let compiled = compile_parts(&parts, &VariableValues::new());
        let compiled = compiled.map_err(|message| PatternError::new(0, message))?;
        Ok(Pattern::Compiled(Box::new(compiled)))
    }

    /// Whether the pattern defines or uses a variable.
    pub(crate) fn has_variable(&self) -> bool {
        match self {
            Pattern::Compiled(expression) => expression.defines_variables(),
            Pattern::Template(_) => true,
            Pattern::EndOfInput | Pattern::EmptyLine | Pattern::Fixed(_) => false,
        }
    }

    /// Finds the first match in `text` and takes over the values of variables.
    ///
    /// # Errors
    /// A pattern that cannot be used now, for example with an undefined variable.
    pub(crate) fn find_match(&self, text: &str, values: &mut VariableValues) -> Result<Option<Range<usize>>, String> {
        let substituted;
        let expression = match self {
            Pattern::EndOfInput => return Ok(Some(text.len()..text.len())),
            Pattern::EmptyLine => return Ok(find_empty_line(text)),
            Pattern::Fixed(wanted) => {
                return Ok(text.find(wanted.as_str()).map(|start| start..start + wanted.len()));
            }
            Pattern::Compiled(expression) => expression.as_ref(),
            Pattern::Template(parts) => {
                substituted = compile_parts(parts, values)?;
                &substituted
            }
        };
        let Some(found) = expression.find_match(text)? else { return Ok(None) };
        values.extend(found.values);
        Ok(Some(found.range))
    }

    /// One line for each value that goes into the pattern, as far as it is defined.
    pub(crate) fn describe_values(&self, values: &VariableValues) -> Vec<String> {
        let Pattern::Template(parts) = self else { return Vec::new() };
        let used = parts.iter().filter_map(|part| match part {
            TemplatePart::Value(name) => Some((name, values.get(name)?)),
            TemplatePart::Expression(_) => None,
        });
        used.map(|(name, value)| format!("with \"{name}\" equal to {value:?}")).collect()
    }
}

/// Compiles an expression with the values of the variables that it uses.
fn compile_parts(parts: &[TemplatePart], values: &VariableValues) -> Result<Expression, String> {
    let mut translated = String::new();
    for part in parts {
        match part {
            TemplatePart::Expression(text) => translated.push_str(text),
            TemplatePart::Value(name) => {
                let value = values.get(name).ok_or_else(|| format!("undefined variable: {name}"))?;
                translated.push_str(&regex::escape(value));
            }
        }
    }
    Expression::compile(&translated).map_err(|error| format!("invalid regex: {error}"))
}

/// A line break that is followed by another, or by the end; the match starts after it.
fn find_empty_line(text: &str) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let mut line_breaks = text.match_indices('\n').map(|(at, _)| at);
    let at = line_breaks.find(|at| bytes.get(at + 1).is_none_or(|&next| next == b'\n'))?;
    Some(at + 1..at + 1)
}

/// Reads a pattern and builds its expression.
struct TemplateBuilder<'a> {
    text: &'a str,
    at: usize,
    parts: Vec<TemplatePart>,
    /// Variables that the pattern defines.
    defined: BTreeSet<&'a str>,
}

impl<'a> TemplateBuilder<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn push_expression(&mut self, translated: String) {
        self.parts.push(TemplatePart::Expression(translated));
    }

    fn read_pattern(&mut self, is_full_line: bool, is_strict: bool) -> Result<(), PatternError> {
        let blanks = if is_strict { "" } else { " *" };
        if is_full_line {
            self.push_expression(format!("^{blanks}"));
        }
        while !self.rest().is_empty() {
            let rest = self.rest();
            if rest.starts_with("{{") {
                self.read_regex_block()?;
            } else if rest.starts_with("[[") && !rest.starts_with("[[[") {
                self.read_variable_block()?;
            } else {
                self.read_fixed_text();
            }
        }
        if is_full_line {
            self.push_expression(format!("{blanks}$"));
        }
        Ok(())
    }

    fn read_fixed_text(&mut self) {
        let rest = self.rest();
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let tail = &rest[first..];
        let end = ["{{", "[["].iter().filter_map(|open| tail.find(open)).min();
        let end = end.map_or(rest.len(), |end| first + end);
        self.push_expression(regex::escape(&rest[..end]));
        self.at += end;
    }

    fn read_regex_block(&mut self) -> Result<(), PatternError> {
        let rest = self.rest();
        let Some(end) = rest.find("}}") else {
            return Err(PatternError::new(self.at, "found start of regex string with no end '}}'"));
        };
        let translated = translate_at(&rest[2..end], self.at + 2)?;
        self.push_expression(format!("(?:{translated})"));
        self.at += end + 2;
        Ok(())
    }

    fn read_variable_block(&mut self) -> Result<(), PatternError> {
        let start = self.at + 2;
        let end = self.block_end(start)?;
        let block = &self.text[start..end];
        self.at = end + 2;
        if block.starts_with('#') {
            return Err(PatternError::new(start, "numeric blocks ([[#...]]) are not supported"));
        }
        if block.starts_with(['@', '$']) {
            let message = format!("variables as `{block}` are not supported");
            return Err(PatternError::new(start, message));
        }
        let (name, regex) = match block.split_once(':') {
            Some((name, regex)) => (name, Some(regex)),
            None => (block, None),
        };
        if !is_variable_name(name) {
            return Err(PatternError::new(start, "invalid name of a string variable"));
        }
        match regex {
            Some(regex) => self.define_variable(name, regex, start),
            None => self.use_variable(name, start),
        }
    }

    /// Finds the `]]` of a block; brackets within it come in pairs.
    fn block_end(&self, start: usize) -> Result<usize, PatternError> {
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
                    let message = "missing closing \"]\" for regex variable";
                    return Err(PatternError::new(start + at, message));
                }
                ']' => depth -= 1,
                _ => {}
            }
        }
        Err(PatternError::new(start - 2, "invalid substitution block, no ]] found"))
    }

    fn define_variable(&mut self, name: &'a str, regex: &str, start: usize) -> Result<(), PatternError> {
        if !self.defined.insert(name) {
            let message = format!("`{name}` is defined twice in one directive");
            return Err(PatternError::new(start, message));
        }
        let translated = match regex {
            "" => String::new(),
            regex => translate_at(regex, start + name.len() + 1)?,
        };
        self.push_expression(format!("(?P<{name}>{translated})"));
        Ok(())
    }

    fn use_variable(&mut self, name: &str, start: usize) -> Result<(), PatternError> {
        if self.defined.contains(name) {
            let message = format!(
                "`{name}` is used in the directive that defines it, which is not supported: \
                 use it in a -SAME directive"
            );
            return Err(PatternError::new(start, message));
        }
        self.parts.push(TemplatePart::Value(name.to_owned()));
        Ok(())
    }
}

fn translate_at(text: &str, at: usize) -> Result<String, PatternError> {
    translate_expression(text).map_err(|error| PatternError::new(at, format!("invalid regex: {error}")))
}

fn is_variable_name(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|first| first == '_' || first.is_ascii_alphabetic())
        && chars.all(|c| c == '_' || c.is_ascii_alphanumeric())
}
