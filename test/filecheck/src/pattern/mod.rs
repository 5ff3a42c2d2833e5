//! Patterns: the text after a directive's colon, and matching it.

mod parse;

use crate::failure::PatternError;
use crate::numeric::{NoValue, NumberFormat, NumericExpression};
use crate::posix::{Expression, Groups, escape_text};
use crate::variables::VariableValues;
use memchr::memmem;
use std::borrow::Cow;
use std::ops::Range;

pub(crate) use parse::{PatternPlace, parse_pattern};

/// A parsed pattern.
#[derive(Debug, Clone)]
pub(crate) enum Pattern {
    /// The end of the input.
    EndOfInput,
    /// An empty line.
    EmptyLine,
    /// A text without blocks.
    Fixed {
        /// The text, in small letters if case is ignored.
        wanted: Vec<u8>,
        /// True if case is ignored.
        ignore_case: bool,
    },
    /// An expression, with values of variables to fill in.
    Template(Box<Template>),
}

/// An expression with places where values go.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    /// The expression without the values.
    expression: Vec<u8>,
    /// The values, by their place in the expression.
    substitutions: Vec<Substitution>,
    definitions: Vec<Definition>,
    /// The compiled expression, if it needs no values.
    compiled: Option<Result<Expression, String>>,
    ignore_case: bool,
    /// The place of the pattern.
    at: usize,
    /// The line of the pattern; none on the command line.
    line: Option<usize>,
}

/// A value in an expression.
#[derive(Debug, Clone)]
struct Substitution {
    /// Its place in the expression.
    insert_at: usize,
    /// Its text.
    text: String,
    /// The place of its text.
    at: usize,
    value: SubstitutedValue,
}

/// The value that is substituted.
#[derive(Debug, Clone)]
enum SubstitutedValue {
    Text(String),
    Number(NumericExpression, NumberFormat),
}

/// A variable that a match gives a value.
#[derive(Debug, Clone)]
struct Definition {
    name: String,
    group: usize,
    /// The format of a numeric variable.
    format: Option<NumberFormat>,
}

/// A match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PatternMatch {
    /// The bytes that it covers.
    pub(crate) range: Range<usize>,
    /// The variables that it gives values, in the order of the text.
    pub(crate) captured: Vec<CapturedVariable>,
}

/// A variable and the text that it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CapturedVariable {
    /// The name.
    pub(crate) name: String,
    /// The bytes of the text.
    pub(crate) range: Range<usize>,
}

impl PatternMatch {
    /// The match in a text that has `offset` more bytes before it.
    pub(crate) fn moved_by(mut self, offset: usize) -> PatternMatch {
        for range in self.captured.iter_mut().map(|variable| &mut variable.range).chain([&mut self.range]) {
            *range = range.start + offset..range.end + offset;
        }
        self
    }
}

impl Pattern {
    /// True if the pattern defines a string variable, or uses any variable.
    pub(crate) fn has_variable(&self) -> bool {
        match self {
            Pattern::Template(template) => {
                !template.substitutions.is_empty() || template.definitions.iter().any(|one| one.format.is_none())
            }
            Pattern::EndOfInput | Pattern::EmptyLine | Pattern::Fixed { .. } => false,
        }
    }

    /// Finds the first match in `text` and gives variables their values.
    ///
    /// # Errors
    /// All reasons why the pattern cannot be used now, such as undefined variables.
    pub(crate) fn find_match(
        &self,
        text: &[u8],
        values: &mut VariableValues,
    ) -> Result<Option<PatternMatch>, Vec<PatternError>> {
        let range = match self {
            Pattern::EndOfInput => Some(text.len()..text.len()),
            Pattern::EmptyLine => find_empty_line(text),
            Pattern::Fixed { wanted, ignore_case } => find_fixed(text, wanted, *ignore_case),
            Pattern::Template(template) => return template.find_match(text, values),
        };
        Ok(range.map(|range| PatternMatch { range, captured: Vec::new() }))
    }

    /// A sentence for each value that goes into the pattern, as far as there is one.
    pub(crate) fn describe_values(&self, values: &mut VariableValues) -> Vec<String> {
        let Pattern::Template(template) = self else { return Vec::new() };
        template.set_line(values);
        let described = template.substitutions.iter().filter_map(|substitution| {
            let value = substitution.value_text(values).ok()?;
            Some(format!(
                "with \"{}\" equal to \"{}\"",
                escape_quoted(substitution.text.as_bytes()),
                escape_quoted(&value)
            ))
        });
        described.collect()
    }

    /// A text that looks like what the pattern is meant to match.
    pub(crate) fn example(&self) -> &[u8] {
        match self {
            Pattern::EndOfInput => b"",
            Pattern::EmptyLine => b"(\n$)",
            Pattern::Fixed { wanted, .. } => wanted,
            Pattern::Template(template) => &template.expression,
        }
    }
}

impl Template {
    fn set_line(&self, values: &mut VariableValues) {
        if let Some(line) = self.line {
            values.set_line(line);
        }
    }

    fn find_match(&self, text: &[u8], values: &mut VariableValues) -> Result<Option<PatternMatch>, Vec<PatternError>> {
        self.set_line(values);
        let expression = match &self.compiled {
            Some(compiled) => Cow::Borrowed(compiled.as_ref().map_err(|message| self.invalid_expression(message))?),
            None => Cow::Owned(self.compile_with(values)?),
        };
        let found = expression.find_match(text, !self.definitions.is_empty());
        let found = found.map_err(|message| vec![PatternError { at: self.at, message }])?;
        let Some(groups) = found else { return Ok(None) };
        let Some(range) = groups.first().cloned().flatten() else { return Ok(None) };
        let captured = self.capture_variables(text, &groups, range.start, values);
        Ok(Some(PatternMatch { range, captured }))
    }

    /// Compiles the expression with the values.
    fn compile_with(&self, values: &VariableValues) -> Result<Expression, Vec<PatternError>> {
        let mut filled = Vec::with_capacity(self.expression.len() + 16);
        let mut copied = 0;
        let mut errors = Vec::new();
        for substitution in &self.substitutions {
            filled.extend_from_slice(&self.expression[copied..substitution.insert_at]);
            copied = substitution.insert_at;
            match substitution.value_text(values) {
                Ok(value) => filled.extend(escape_text(&value)),
                Err(reasons) => errors.extend(reasons),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        filled.extend_from_slice(&self.expression[copied..]);
        Expression::compile(&filled, self.ignore_case).map_err(|message| self.invalid_expression(&message))
    }

    /// The error of an expression whose parts are valid, but not the whole.
    fn invalid_expression(&self, message: &str) -> Vec<PatternError> {
        vec![PatternError { at: self.at, message: format!("invalid regex: {message}") }]
    }

    fn capture_variables(
        &self,
        text: &[u8],
        groups: &Groups,
        start: usize,
        values: &mut VariableValues,
    ) -> Vec<CapturedVariable> {
        let mut captured = Vec::new();
        for definition in &self.definitions {
            let range = groups.get(definition.group).cloned().flatten().unwrap_or(start..start);
            let value = &text[range.clone()];
            match definition.format {
                None => values.set_string(&definition.name, value),
                Some(format) => {
                    if let Some(number) = format.parse_number(value) {
                        values.set_number(&definition.name, number);
                    }
                }
            }
            captured.push(CapturedVariable { name: definition.name.clone(), range });
        }
        captured.sort_by_key(|variable| variable.range.start);
        captured
    }
}

impl Substitution {
    /// The text of the value.
    fn value_text(&self, values: &VariableValues) -> Result<Vec<u8>, Vec<PatternError>> {
        match &self.value {
            SubstitutedValue::Text(name) => match values.string(name) {
                Some(value) => Ok(value.to_owned()),
                None => Err(vec![NoValue::Undefined { name: name.clone(), at: self.at }.describe(self.at)]),
            },
            SubstitutedValue::Number(expression, format) => {
                let number = expression.evaluate(values);
                let number = number.map_err(|reasons| {
                    reasons.into_iter().map(|reason| reason.describe(self.at)).collect::<Vec<_>>()
                })?;
                let printed = format.print_number(&number).map(String::into_bytes);
                printed.ok_or_else(|| vec![NoValue::Overflow.describe(self.at)])
            }
        }
    }
}

fn find_fixed(text: &[u8], wanted: &[u8], ignore_case: bool) -> Option<Range<usize>> {
    let start = match ignore_case {
        false => memmem::find(text, wanted)?,
        true => memmem::find(&text.to_ascii_lowercase(), wanted)?,
    };
    Some(start..start + wanted.len())
}

/// A line break that is followed by another, or by the end; the match starts after it.
fn find_empty_line(text: &[u8]) -> Option<Range<usize>> {
    let mut line_breaks = memchr::memchr_iter(b'\n', text);
    let at = line_breaks.find(|at| text.get(at + 1).is_none_or(|&next| next == b'\n'))?;
    Some(at + 1..at + 1)
}

/// The text for a message in quotes, as LLVM escapes it.
fn escape_quoted(text: &[u8]) -> String {
    let mut out = String::new();
    for &byte in text {
        match byte {
            b'\\' => out.push_str("\\\\"),
            b'\t' => out.push_str("\\t"),
            b'\n' => out.push_str("\\n"),
            b'"' => out.push_str("\\\""),
            b' '..=b'~' => out.push(char::from(byte)),
            other => out.push_str(&format!("\\{other:03o}")),
        }
    }
    out
}
