//! Reading a pattern: fixed text, `{{expression}}`, `[[NAME:expression]]`, `[[NAME]]` and numeric blocks become one regular
//! expression.

use super::{Definition, Pattern, SubstitutedValue, Substitution, Template};
use crate::directive::DirectiveKind;
use crate::failure::PatternError;
use crate::numeric::{BlockPlace, parse_block};
use crate::options::Options;
use crate::posix::{Expression, count_groups, escape_text};
use crate::source::{is_blank, trim_blanks};
use crate::variables::{DeclaredNames, parse_name};
use memchr::memmem;

/// The highest number of a group that can be referred to.
const BACK_REFERENCE_LIMIT: usize = 20;

/// The place of a pattern, and its directive.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PatternPlace<'a> {
    /// The place of its text.
    pub(crate) at: usize,
    /// Its line; none on the command line.
    pub(crate) line: Option<usize>,
    /// The directive's prefix.
    pub(crate) prefix: &'a str,
    /// The directive's kind.
    pub(crate) kind: DirectiveKind,
    /// True if the directive has the modifier `{LITERAL}`.
    pub(crate) is_literal: bool,
}

/// Parses the text of a directive, and declares the variables that it defines and uses.
///
/// # Errors
/// The first place that is not well formed.
pub(crate) fn parse_pattern(
    text: &[u8],
    place: PatternPlace<'_>,
    options: &Options,
    names: &mut DeclaredNames,
) -> Result<Pattern, PatternError> {
    let PatternPlace { prefix, kind, at, .. } = place;
    let text = if options.keeps_outer_blanks() { text } else { trim_blanks(text) };
    let error = |message: &str| Err(PatternError { at, message: format!("{message} with prefix '{prefix}:'") });
    match (kind, text.is_empty()) {
        (DirectiveKind::Empty, true) => return Ok(Pattern::EmptyLine),
        (DirectiveKind::Empty, false) => return error("found non-empty check string for empty check"),
        (_, true) => return error("found empty check string"),
        (_, false) => {}
    }
    let is_full_line = options.match_full_lines && kind != DirectiveKind::Not;
    let has_block = memmem::find(text, b"{{").is_some() || memmem::find(text, b"[[").is_some();
    if place.is_literal || (!is_full_line && !has_block) {
        let ignore_case = options.ignore_case;
        let wanted = if ignore_case { text.to_ascii_lowercase() } else { text.to_owned() };
        return Ok(Pattern::Fixed { wanted, ignore_case });
    }
    let end = at + text.len();
    let mut builder = TemplateBuilder { rest: text, end, place, names, parts: TemplateParts::default() };
    let blanks = if options.strict_whitespace { "" } else { " *" };
    if is_full_line {
        builder.push_expression(format!("^{blanks}").as_bytes());
    }
    builder.read_pattern()?;
    if is_full_line {
        builder.push_expression(format!("{blanks}$").as_bytes());
    }
    Ok(Pattern::Template(Box::new(builder.parts.into_template(place, options.ignore_case))))
}

/// The template so far.
#[derive(Debug, Default)]
struct TemplateParts {
    expression: Vec<u8>,
    substitutions: Vec<Substitution>,
    definitions: Vec<Definition>,
    /// The number of groups of the expression.
    groups: usize,
}

impl TemplateParts {
    fn into_template(self, place: PatternPlace<'_>, ignore_case: bool) -> Template {
        let needs_values = !self.substitutions.is_empty();
        let compiled = if needs_values { None } else { Some(Expression::compile(&self.expression, ignore_case)) };
        Template {
            expression: self.expression,
            substitutions: self.substitutions,
            definitions: self.definitions,
            compiled,
            ignore_case,
            at: place.at,
            line: place.line,
        }
    }
}

/// Reads a pattern and builds its expression.
struct TemplateBuilder<'a, 'n> {
    rest: &'a [u8],
    /// The place of the end of `rest`.
    end: usize,
    place: PatternPlace<'a>,
    names: &'n mut DeclaredNames,
    parts: TemplateParts,
}

impl<'a> TemplateBuilder<'a, '_> {
    fn at(&self) -> usize {
        self.end - self.rest.len()
    }

    fn error_at<T>(&self, at: usize, message: impl Into<String>) -> Result<T, PatternError> {
        Err(PatternError { at, message: message.into() })
    }

    fn push_expression(&mut self, text: &[u8]) {
        self.parts.expression.extend_from_slice(text);
    }

    fn read_pattern(&mut self) -> Result<(), PatternError> {
        while !self.rest.is_empty() {
            if self.rest.starts_with(b"{{") {
                self.read_regex_block()?;
            } else if self.rest.starts_with(b"[[") && !self.rest.starts_with(b"[[[") {
                self.read_variable_block()?;
            } else {
                self.read_fixed_text();
            }
        }
        Ok(())
    }

    fn read_fixed_text(&mut self) {
        let tail = &self.rest[1..];
        let end = [b"{{", b"[["].iter().filter_map(|open| memmem::find(tail, *open)).min();
        let (fixed, rest) = self.rest.split_at(end.map_or(self.rest.len(), |end| end + 1));
        self.rest = rest;
        self.push_expression(&escape_text(fixed));
    }

    fn read_regex_block(&mut self) -> Result<(), PatternError> {
        let at = self.at();
        let Some(end) = memmem::find(self.rest, b"}}") else {
            return self.error_at(at, "found start of regex string with no end '}}'");
        };
        // `a{{x|z}}b` is `a(x|z)b`; the parentheses are a group, which counts for back-references.
        let needs_group = self.rest.contains(&b'|');
        let text = &self.rest[2..end];
        self.rest = &self.rest[end + 2..];
        if needs_group {
            self.open_group();
        }
        self.push_user_expression(text, at + 2)?;
        if needs_group {
            self.push_expression(b")");
        }
        Ok(())
    }

    /// Opens a group and gives its number.
    fn open_group(&mut self) -> usize {
        self.push_expression(b"(");
        self.parts.groups += 1;
        self.parts.groups
    }

    /// Adds an expression that must be valid by itself.
    fn push_user_expression(&mut self, text: &[u8], at: usize) -> Result<(), PatternError> {
        match count_groups(text) {
            Ok(groups) => {
                self.parts.groups += groups;
                self.push_expression(text);
                Ok(())
            }
            Err(message) => self.error_at(at, format!("invalid regex: {message}")),
        }
    }

    fn read_variable_block(&mut self) -> Result<(), PatternError> {
        let at = self.at() + 2;
        let length = self.block_length(at)?;
        let block = &self.rest[2..2 + length];
        self.rest = &self.rest[length + 4..];
        match block {
            [b'#', block @ ..] => self.read_numeric_block(block, at + 1, false),
            [b'@', ..] if !block.contains(&b':') => {
                self.reject_blanks(block, at)?;
                parse_name(block, at)?;
                self.read_numeric_block(block, at, true)
            }
            block => self.read_string_block(block, at),
        }
    }

    /// The length of a block up to its `]]`; brackets within it come in pairs.
    fn block_length(&self, start: usize) -> Result<usize, PatternError> {
        let text = &self.rest[2..];
        let mut depth = 0usize;
        let mut at = 0;
        while at < text.len() {
            if depth == 0 && text[at..].starts_with(b"]]") {
                return Ok(at);
            }
            match text[at] {
                b'\\' => at += 1,
                b'[' => depth += 1,
                b']' if depth == 0 => {
                    return self.error_at(start + at, "missing closing \"]\" for regex variable");
                }
                b']' => depth -= 1,
                _ => {}
            }
            at += 1;
        }
        self.error_at(start - 2, "Invalid substitution block, no ]] found")
    }

    fn reject_blanks(&self, name: &[u8], at: usize) -> Result<(), PatternError> {
        match name.iter().position(|&byte| is_blank(byte)) {
            Some(blank) => self.error_at(at + blank, "unexpected whitespace"),
            None => Ok(()),
        }
    }

    /// `NAME:expression` or `NAME`.
    fn read_string_block(&mut self, block: &'a [u8], at: usize) -> Result<(), PatternError> {
        let colon = block.iter().position(|&byte| byte == b':');
        self.reject_blanks(&block[..colon.unwrap_or(block.len())], at)?;
        let found = parse_name(block, at)?;
        let after = &block[found.name.len()..];
        let Some(colon) = colon else {
            if !after.is_empty() {
                return self.error_at(at, "invalid name in string variable use");
            }
            return self.use_string(found.name, at);
        };
        if found.is_pseudo || !after.starts_with(b":") {
            return self.error_at(at, "invalid name in string variable definition");
        }
        if !self.names.declare_string(found.name) {
            let message = format!("numeric variable with name '{}' already exists", found.name);
            return self.error_at(at, message);
        }
        let group = self.open_group();
        // A name that is defined twice in a directive has its last text.
        self.parts.definitions.retain(|definition| definition.name != found.name);
        self.parts.definitions.push(Definition { name: found.name.to_owned(), group, format: None });
        if colon + 1 < block.len() {
            self.push_user_expression(&block[colon + 1..], at + colon + 1)?;
        }
        self.push_expression(b")");
        Ok(())
    }

    /// A value from an earlier directive, or a back-reference if this one defines it.
    fn use_string(&mut self, name: &str, at: usize) -> Result<(), PatternError> {
        let defined = self.parts.definitions.iter().find(|one| one.name == name && one.format.is_none());
        match defined.map(|definition| definition.group) {
            Some(group @ ..=9) => self.push_expression(format!("\\{group}").as_bytes()),
            Some(group @ ..=BACK_REFERENCE_LIMIT) => self.push_expression(format!("\\g{{{group}}}").as_bytes()),
            Some(_) => {
                let message = format!("Can't back-reference more than {BACK_REFERENCE_LIMIT} variables");
                return self.error_at(at, message);
            }
            None => {
                let value = SubstitutedValue::Text(name.to_owned());
                self.push_substitution(name.as_bytes(), at, value, self.parts.expression.len());
            }
        }
        Ok(())
    }

    fn push_substitution(&mut self, text: &[u8], at: usize, value: SubstitutedValue, insert_at: usize) {
        let text = String::from_utf8_lossy(text).into_owned();
        self.parts.substitutions.push(Substitution { insert_at, text, at, value });
    }

    fn read_numeric_block(&mut self, block: &[u8], at: usize, is_legacy: bool) -> Result<(), PatternError> {
        let parsed = parse_block(block, BlockPlace { at, line: self.place.line, is_legacy }, self.names)?;
        if let Some(name) = &parsed.defined {
            let group = self.open_group();
            self.parts.definitions.retain(|definition| definition.name != *name);
            self.parts.definitions.push(Definition { name: name.clone(), group, format: Some(parsed.format) });
        }
        match parsed.expression {
            Some(expression) => {
                let value = SubstitutedValue::Number(expression, parsed.format);
                self.push_substitution(block, at, value, self.parts.expression.len());
            }
            None => self.push_user_expression(parsed.format.wildcard().as_bytes(), at)?,
        }
        if parsed.defined.is_some() {
            self.push_expression(b")");
        }
        Ok(())
    }
}
