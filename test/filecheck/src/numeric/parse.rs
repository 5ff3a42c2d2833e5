//! Reading a numeric block: `[[#%x,NAME:==EXPRESSION]]` without its brackets and `#`.

use super::expression::{NumericExpression, Operation, Operator};
use super::format::{Notation, NumberFormat};
use crate::failure::PatternError;
use crate::source::trim_blanks;
use crate::variables::{DeclaredNames, parse_name};
use num_bigint::BigInt;

/// The deepest nesting of an expression.
const DEPTH_LIMIT: usize = 100;

/// The most operations of an expression.
const OPERATION_LIMIT: usize = 500;

/// A parsed block.
#[derive(Debug, Clone)]
pub(crate) struct NumericBlock {
    /// The variable that the block defines.
    pub(crate) defined: Option<String>,
    /// The value that the text must have; without one any number matches.
    pub(crate) expression: Option<NumericExpression>,
    /// The format of the text.
    pub(crate) format: NumberFormat,
}

/// The purpose and place of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockPlace {
    /// The place of the block's text, for errors.
    pub(crate) at: usize,
    /// The line of the check file; none on the command line.
    pub(crate) line: Option<usize>,
    /// True if it is `[[@LINE+1]]`, which may only add a literal.
    pub(crate) is_legacy: bool,
}

/// The operands that a place allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AllowedOperand {
    Any,
    /// The first one of `[[@LINE+1]]`.
    LineVariable,
    /// The second one of `[[@LINE+1]]`.
    DecimalLiteral,
}

/// Reads a block, and declares the variables that it defines and uses.
///
/// # Errors
/// The first place that is not well formed.
pub(crate) fn parse_block(
    text: &[u8],
    place: BlockPlace,
    names: &mut DeclaredNames,
) -> Result<NumericBlock, PatternError> {
    let mut parser = BlockParser { rest: text, end: place.at + text.len(), place, names, depth: 0, operations: 0 };
    let explicit = parser.parse_format()?;
    let definition = parser.split_definition();
    parser.skip_blanks();
    let has_constraint = parser.take_text("==");
    parser.skip_blanks();
    let expression = parser.parse_whole(has_constraint)?;
    let implicit = match &expression {
        Some(expression) if explicit.format.is_none() => {
            expression.implicit_format().map_err(|(at, message)| PatternError { at, message })?
        }
        _ => None,
    };
    let default = NumberFormat { precision: explicit.precision, ..NumberFormat::UNSIGNED };
    let format = explicit.format.or(implicit).unwrap_or(default);
    let defined = match definition {
        Some((text, at)) => Some(parser.define_variable(text, at, format)?),
        None => None,
    };
    Ok(NumericBlock { defined, expression, format })
}

/// The format before the comma.
#[derive(Debug, Clone, Copy, Default)]
struct ExplicitFormat {
    format: Option<NumberFormat>,
    precision: u32,
}

struct BlockParser<'a, 'n> {
    rest: &'a [u8],
    /// The place of the end of `rest`.
    end: usize,
    place: BlockPlace,
    names: &'n mut DeclaredNames,
    depth: usize,
    operations: usize,
}

impl<'a> BlockParser<'a, '_> {
    fn at(&self) -> usize {
        self.end - self.rest.len()
    }

    fn error_here<T>(&self, message: impl Into<String>) -> Result<T, PatternError> {
        Err(PatternError { at: self.at(), message: message.into() })
    }

    fn skip_blanks(&mut self) {
        while let [b' ' | b'\t', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    fn take_text(&mut self, text: &str) -> bool {
        let after = self.rest.strip_prefix(text.as_bytes());
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    /// Reads `%#.4x,` if the text starts with a format.
    fn parse_format(&mut self) -> Result<ExplicitFormat, PatternError> {
        let Some(comma) = self.rest.iter().position(|&byte| byte == b',') else { return Ok(ExplicitFormat::default()) };
        if self.rest[..comma].contains(&b'(') {
            return Ok(ExplicitFormat::default());
        }
        let after = &self.rest[comma + 1..];
        let whole_end = self.end;
        self.end -= after.len() + 1;
        self.rest = &self.rest[..comma];
        let format = self.parse_format_text()?;
        (self.rest, self.end) = (after, whole_end);
        Ok(format)
    }

    fn parse_format_text(&mut self) -> Result<ExplicitFormat, PatternError> {
        const INVALID: &str = "invalid matching format specification in expression";
        self.skip_blanks();
        let trimmed = trim_blanks(self.rest);
        self.end -= self.rest.len() - trimmed.len();
        self.rest = trimmed;
        if !self.take_text("%") {
            return self.error_here(INVALID);
        }
        let prefix_at = self.at();
        let has_prefix = self.take_text("#");
        let mut precision = 0;
        if self.take_text(".") {
            precision = match self.parse_digits().and_then(|digits| digits.parse().ok()) {
                Some(precision) => precision,
                None => return self.error_here("invalid precision in format specifier"),
            };
        }
        let notation = match self.rest.first() {
            None => None,
            Some(b'u') => Some(Notation::Unsigned),
            Some(b'd') => Some(Notation::Signed),
            Some(b'x') => Some(Notation::HexLower),
            Some(b'X') => Some(Notation::HexUpper),
            Some(_) => return self.error_here("invalid format specifier in expression"),
        };
        if has_prefix && !matches!(notation, Some(Notation::HexLower | Notation::HexUpper)) {
            let message = "alternate form only supported for hex values".to_owned();
            return Err(PatternError { at: prefix_at, message });
        }
        self.rest = self.rest.get(1..).unwrap_or_default();
        self.skip_blanks();
        if !self.rest.is_empty() {
            return self.error_here(INVALID);
        }
        let format = notation.map(|notation| NumberFormat { notation, precision, has_prefix });
        Ok(ExplicitFormat { format, precision })
    }

    fn parse_digits(&mut self) -> Option<&'a str> {
        let length = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.rest.split_at(length);
        self.rest = rest;
        std::str::from_utf8(digits).ok().filter(|digits| !digits.is_empty())
    }

    /// The text before the colon with its place.
    fn split_definition(&mut self) -> Option<(&'a [u8], usize)> {
        let colon = self.rest.iter().position(|&byte| byte == b':')?;
        let (text, at) = (&self.rest[..colon], self.at());
        self.rest = &self.rest[colon + 1..];
        Some((text, at))
    }

    fn define_variable(&mut self, text: &'a [u8], at: usize, format: NumberFormat) -> Result<String, PatternError> {
        let skipped = text.len() - text.trim_ascii_start().len();
        let (text, at) = (&text[skipped..], at + skipped);
        let found = parse_name(text, at)?;
        let after = text[found.name.len()..].trim_ascii_start();
        let problem = if found.is_pseudo {
            Some((at, "definition of pseudo numeric variable unsupported".to_owned()))
        } else if self.names.is_string(found.name) {
            Some((at, format!("string variable with name '{}' already exists", found.name)))
        } else if !after.is_empty() {
            Some((at + text.len() - after.len(), "unexpected characters after numeric variable name".to_owned()))
        } else if !self.names.declare_number(found.name, format, self.place.line) {
            Some((at + text.len(), "format different from previous variable definition".to_owned()))
        } else {
            None
        };
        match problem {
            Some((at, message)) => Err(PatternError { at, message }),
            None => Ok(found.name.to_owned()),
        }
    }

    /// The expression up to the end of the block.
    fn parse_whole(&mut self, has_constraint: bool) -> Result<Option<NumericExpression>, PatternError> {
        if self.rest.is_empty() {
            return match has_constraint {
                true => self.error_here("empty numeric expression should not have a constraint"),
                false => Ok(None),
            };
        }
        let trimmed = trim_blanks(self.rest);
        self.end -= self.rest.len() - trimmed.len();
        self.rest = trimmed;
        let start = self.rest;
        let allowed = if self.place.is_legacy { AllowedOperand::LineVariable } else { AllowedOperand::Any };
        let mut expression = self.parse_operand(allowed, !has_constraint)?;
        while !self.rest.is_empty() {
            expression = self.parse_operation(expression, start)?;
            if self.place.is_legacy && !self.rest.is_empty() {
                let rest = String::from_utf8_lossy(self.rest);
                return self.error_here(format!("unexpected characters at end of expression '{rest}'"));
            }
        }
        Ok(Some(expression))
    }

    /// An operator and the operand after it. `start` is the text from the start of the left operand on.
    fn parse_operation(&mut self, left: NumericExpression, start: &'a [u8]) -> Result<NumericExpression, PatternError> {
        self.skip_blanks();
        let operator = match self.rest {
            [] => return Ok(left),
            [b'+', ..] => Operator::Add,
            [b'-', ..] => Operator::Subtract,
            [other, ..] => {
                return self.error_here(format!("unsupported operation '{}'", char::from(*other)));
            }
        };
        self.rest = &self.rest[1..];
        self.skip_blanks();
        if self.rest.is_empty() {
            return self.error_here("missing operand in expression");
        }
        let allowed = if self.place.is_legacy { AllowedOperand::DecimalLiteral } else { AllowedOperand::Any };
        let right = self.parse_operand(allowed, false)?;
        self.add_operation(operator, [left, right], start)
    }

    /// The operation whose text starts with `start` and ends here.
    fn add_operation(
        &mut self,
        operator: Operator,
        operands: [NumericExpression; 2],
        start: &[u8],
    ) -> Result<NumericExpression, PatternError> {
        self.operations += 1;
        if self.operations > OPERATION_LIMIT {
            return self.error_here(format!("an expression has more than {OPERATION_LIMIT} operations"));
        }
        let [left, right] = operands;
        let text = String::from_utf8_lossy(&start[..start.len() - self.rest.len()]).into_owned();
        let at = self.end - start.len();
        Ok(NumericExpression::Operation(Box::new(Operation { operator, left, right, text, at })))
    }

    fn parse_operand(&mut self, allowed: AllowedOperand, first: bool) -> Result<NumericExpression, PatternError> {
        if self.rest.starts_with(b"(") {
            if allowed != AllowedOperand::Any {
                return self.error_here("parenthesized expression not permitted here");
            }
            return self.nested(Self::parse_parentheses);
        }
        if allowed != AllowedOperand::DecimalLiteral {
            match parse_name(self.rest, self.at()) {
                Ok(found) => return self.parse_named(found.name, found.is_pseudo, allowed),
                Err(error) if allowed == AllowedOperand::LineVariable => return Err(error),
                Err(_) => {}
            }
        }
        match take_literal(self.rest, allowed == AllowedOperand::DecimalLiteral) {
            Some((value, rest)) => {
                self.rest = rest;
                Ok(NumericExpression::Literal(value))
            }
            None => {
                let constraint = if first { "matching constraint or " } else { "" };
                self.error_here(format!("invalid {constraint}operand format"))
            }
        }
    }

    fn nested(
        &mut self,
        parse: fn(&mut Self) -> Result<NumericExpression, PatternError>,
    ) -> Result<NumericExpression, PatternError> {
        self.depth += 1;
        if self.depth > DEPTH_LIMIT {
            return self.error_here(format!("an expression is nested more than {DEPTH_LIMIT} deep"));
        }
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn parse_parentheses(&mut self) -> Result<NumericExpression, PatternError> {
        self.take_text("(");
        self.skip_blanks();
        if self.rest.is_empty() {
            return self.error_here("missing operand in expression");
        }
        let start = self.rest;
        let mut inner = self.parse_operand(AllowedOperand::Any, false)?;
        self.skip_blanks();
        while !matches!(self.rest, [] | [b')', ..]) {
            inner = self.parse_operation(inner, start)?;
            self.skip_blanks();
        }
        match self.take_text(")") {
            true => Ok(inner),
            false => self.error_here("missing ')' at end of nested expression"),
        }
    }

    /// A variable or a call.
    fn parse_named(
        &mut self,
        name: &'a str,
        is_pseudo: bool,
        allowed: AllowedOperand,
    ) -> Result<NumericExpression, PatternError> {
        let at = self.at();
        let start = self.rest;
        self.rest = &self.rest[name.len()..];
        if self.rest.trim_ascii_start().starts_with(b"(") {
            if allowed != AllowedOperand::Any {
                return Err(PatternError { at, message: "unexpected function call".to_owned() });
            }
            let Some(operator) = Operator::from_name(name) else {
                return Err(PatternError { at, message: format!("call to undefined function '{name}'") });
            };
            self.skip_blanks();
            return self.parse_call(operator, name, start);
        }
        if is_pseudo && name != "@LINE" {
            return Err(PatternError { at, message: format!("invalid pseudo numeric variable '{name}'") });
        }
        let declared = self.names.use_number(name);
        if declared.line.is_some() && declared.line == self.place.line {
            let message = format!("numeric variable '{name}' defined earlier in the same CHECK directive");
            return Err(PatternError { at, message });
        }
        let format = Some(declared.format);
        Ok(NumericExpression::Variable { name: name.to_owned(), at, format })
    }

    fn parse_call(
        &mut self,
        operator: Operator,
        name: &str,
        start: &'a [u8],
    ) -> Result<NumericExpression, PatternError> {
        let at = self.end - start.len();
        let arguments = self.parse_arguments()?;
        if !self.take_text(")") {
            return self.error_here("missing ')' at end of call expression");
        }
        let given = arguments.len();
        match <[NumericExpression; 2]>::try_from(arguments) {
            Ok(operands) => self.add_operation(operator, operands, start),
            Err(_) => {
                let message = format!("function '{name}' takes 2 arguments but {given} given");
                Err(PatternError { at, message })
            }
        }
    }

    fn parse_arguments(&mut self) -> Result<Vec<NumericExpression>, PatternError> {
        self.take_text("(");
        self.skip_blanks();
        let mut arguments = Vec::new();
        while !matches!(self.rest, [] | [b')', ..]) {
            if self.rest.starts_with(b",") {
                return self.error_here("missing argument");
            }
            arguments.push(self.nested(Self::parse_argument)?);
            self.skip_blanks();
            if !self.take_text(",") {
                break;
            }
            self.skip_blanks();
            if self.rest.starts_with(b")") {
                return self.error_here("missing argument");
            }
        }
        Ok(arguments)
    }

    fn parse_argument(&mut self) -> Result<NumericExpression, PatternError> {
        let start = self.rest;
        let mut argument = self.parse_operand(AllowedOperand::Any, false)?;
        loop {
            self.skip_blanks();
            if matches!(self.rest, [] | [b',' | b')', ..]) {
                return Ok(argument);
            }
            argument = self.parse_operation(argument, start)?;
        }
    }
}

/// A number at the start of a text, and the rest. Unless it is `decimal`, `0x`, `0b` and `0o` or `0` give its base.
fn take_literal(text: &[u8], decimal: bool) -> Option<(BigInt, &[u8])> {
    let (is_negative, unsigned) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (radix, digits) = match unsigned {
        _ if decimal => (10, unsigned),
        [b'0', b'x' | b'X', digits @ ..] => (16, digits),
        [b'0', b'b' | b'B', digits @ ..] => (2, digits),
        [b'0', b'o', digits @ ..] => (8, digits),
        [b'0', b'0'..=b'9', ..] => (8, &unsigned[1..]),
        digits => (10, digits),
    };
    let length = digits.iter().take_while(|&&byte| char::from(byte).is_digit(radix)).count();
    let value = BigInt::parse_bytes(digits.get(..length).filter(|digits| !digits.is_empty())?, radix)?;
    Some((if is_negative { -value } else { value }, &digits[length..]))
}
