//! Numeric substitution blocks: `[[#%x,NAME:==EXPRESSION]]`, their parser and their values.

use crate::source::is_blank;
use crate::variables::{Declared, Symbols, Variables};

/// What is wrong in a pattern, and at which byte of the text that was being read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    /// Byte offset in the text.
    pub(crate) at: usize,
    /// What is wrong.
    pub(crate) message: String,
}

impl SyntaxError {
    /// An error at the byte `at`.
    pub(crate) fn new(at: usize, message: impl Into<String>) -> SyntaxError {
        SyntaxError { at, message: message.into() }
    }

    /// The same error for a text in which this one's text starts at `base`.
    pub(crate) fn moved(self, base: usize) -> SyntaxError {
        SyntaxError { at: self.at + base, message: self.message }
    }
}

/// The digits of a numeric value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notation {
    /// `%u`
    Unsigned,
    /// `%d`
    Signed,
    /// `%x`
    HexLower,
    /// `%X`
    HexUpper,
}

/// How a numeric value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Format {
    notation: Notation,
    precision: usize,
    alternate: bool,
}

impl Format {
    const UNSIGNED: Format =
        Format { notation: Notation::Unsigned, precision: 0, alternate: false };

    /// The extended regular expression for any value in this format.
    pub(crate) fn wildcard(self) -> String {
        let prefix = if self.alternate { "0x" } else { "" };
        let (sign, first, digit) = match self.notation {
            Notation::Unsigned => ("", "1-9", "0-9"),
            Notation::Signed => ("-?", "1-9", "0-9"),
            Notation::HexLower => ("", "1-9a-f", "0-9a-f"),
            Notation::HexUpper => ("", "1-9A-F", "0-9A-F"),
        };
        match self.precision {
            0 => format!("{sign}{prefix}[{digit}]+"),
            precision => {
                format!("{prefix}{sign}([{first}][{digit}]*)?[{digit}]{{{precision}}}")
            }
        }
    }

    /// `value` written in this format.
    pub(crate) fn write(self, value: i128) -> Result<String, String> {
        if value < 0 && self.notation != Notation::Signed {
            return Err(OVERFLOW.to_owned());
        }
        let magnitude = value.unsigned_abs();
        let digits = match self.notation {
            Notation::Unsigned | Notation::Signed => magnitude.to_string(),
            Notation::HexLower => format!("{magnitude:x}"),
            Notation::HexUpper => format!("{magnitude:X}"),
        };
        let sign = if value < 0 { "-" } else { "" };
        let prefix = if self.alternate { "0x" } else { "" };
        Ok(format!("{sign}{prefix}{digits:0>width$}", width = self.precision))
    }

    /// The value of a text that [`Format::wildcard`] matches.
    pub(crate) fn read(self, text: &str) -> Result<i128, String> {
        let (negative, text) = match text.strip_prefix('-') {
            Some(text) => (true, text),
            None => (false, text),
        };
        let text = text.strip_prefix("0x").filter(|_| self.alternate).unwrap_or(text);
        let radix = match self.notation {
            Notation::Unsigned | Notation::Signed => 10,
            Notation::HexLower | Notation::HexUpper => 16,
        };
        let magnitude = i128::from_str_radix(text, radix)
            .map_err(|_| format!("unable to represent numeric value '{text}'"))?;
        Ok(if negative { -magnitude } else { magnitude })
    }

    fn describe(self) -> &'static str {
        match self.notation {
            Notation::Unsigned => "%u",
            Notation::Signed => "%d",
            Notation::HexLower => "%x",
            Notation::HexUpper => "%X",
        }
    }
}

const OVERFLOW: &str = "unable to substitute variable or numeric expression: overflow error";

/// An operation on two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// `+` and `add`
    Add,
    /// `-` and `sub`
    Sub,
    /// `mul`
    Mul,
    /// `div`
    Div,
    /// `max`
    Max,
    /// `min`
    Min,
}

impl Operation {
    fn named(name: &str) -> Option<Operation> {
        Some(match name {
            "add" => Operation::Add,
            "sub" => Operation::Sub,
            "mul" => Operation::Mul,
            "div" => Operation::Div,
            "max" => Operation::Max,
            "min" => Operation::Min,
            _ => return None,
        })
    }

    fn apply(self, left: i128, right: i128) -> Result<i128, String> {
        let result = match self {
            Operation::Add => left.checked_add(right),
            Operation::Sub => left.checked_sub(right),
            Operation::Mul => left.checked_mul(right),
            Operation::Div => left.checked_div(right),
            Operation::Max => Some(left.max(right)),
            Operation::Min => Some(left.min(right)),
        };
        result.ok_or_else(|| OVERFLOW.to_owned())
    }
}

/// A numeric expression.
#[derive(Debug, Clone)]
pub(crate) enum Expression {
    /// A number.
    Literal(i128),
    /// A variable, or `@LINE`.
    Variable(String),
    /// An operation.
    Binary(Operation, Box<Expression>, Box<Expression>),
}

impl Expression {
    /// The value, for a directive on `line`.
    pub(crate) fn evaluate(
        &self,
        variables: &Variables,
        line: Option<usize>,
    ) -> Result<i128, String> {
        match self {
            &Expression::Literal(value) => Ok(value),
            Expression::Variable(name) if name == "@LINE" => {
                line.and_then(|line| i128::try_from(line).ok()).ok_or_else(|| undefined(name))
            }
            Expression::Variable(name) => {
                variables.numerics.get(name).copied().ok_or_else(|| undefined(name))
            }
            Expression::Binary(operation, left, right) => {
                operation.apply(left.evaluate(variables, line)?, right.evaluate(variables, line)?)
            }
        }
    }

    fn implicit_format(&self, symbols: &Symbols) -> Result<Option<Format>, String> {
        match self {
            Expression::Literal(_) => Ok(None),
            Expression::Variable(name) => {
                Ok(Some(symbols.numerics.get(name).map_or(Format::UNSIGNED, |v| v.format)))
            }
            Expression::Binary(_, left, right) => {
                let left = left.implicit_format(symbols)?;
                let right = right.implicit_format(symbols)?;
                match (left, right) {
                    (Some(left), Some(right)) if left != right => Err(format!(
                        "implicit format conflict between {} and {}, need an explicit format \
                         specifier",
                        left.describe(),
                        right.describe()
                    )),
                    (left, right) => Ok(left.or(right)),
                }
            }
        }
    }
}

/// The message for a variable that has no value.
pub(crate) fn undefined(name: &str) -> String {
    format!("undefined variable: {name}")
}

/// What one numeric substitution block says.
#[derive(Debug, Clone)]
pub(crate) struct NumericBlock {
    /// How the value is written.
    pub(crate) format: Format,
    /// The value; without one, any value matches.
    pub(crate) expression: Option<Expression>,
    /// The variable that takes the matched value.
    pub(crate) defines: Option<String>,
}

/// The length of the variable name at the start of `text`, with its `$` or `@`.
pub(crate) fn parse_name(text: &str) -> Result<usize, SyntaxError> {
    let sigil = usize::from(text.starts_with(['$', '@']));
    let name = &text[sigil..];
    match name.chars().next() {
        None => return Err(SyntaxError::new(sigil, "empty variable name")),
        Some(c) if c == '_' || c.is_ascii_alphabetic() => {}
        Some(_) => return Err(SyntaxError::new(sigil, "invalid variable name")),
    }
    let end = name.find(|c: char| c != '_' && !c.is_ascii_alphanumeric()).unwrap_or(name.len());
    Ok(sigil + end)
}

/// Parses the text between `[[#` and `]]`, or all of the block for the older `[[@LINE+N]]`.
pub(crate) fn parse_block(
    text: &str,
    legacy: bool,
    line: Option<usize>,
    symbols: &mut Symbols,
) -> Result<NumericBlock, SyntaxError> {
    let mut at = 0;
    let mut explicit = ExplicitFormat::default();
    if let Some(comma) = text.find(',')
        && text.find('(').is_none_or(|paren| comma < paren)
    {
        explicit = parse_format(&text[..comma])?;
        at = comma + 1;
    }
    let definition = text[at..].find(':').map(|colon| at..at + colon);
    if let Some(definition) = &definition {
        at = definition.end + 1;
    }
    let mut parser = ExpressionParser { text, at, operands: 0, line, symbols };
    let expression = parser.constraint(legacy)?;
    let implicit = match &expression {
        Some(expression) if explicit.format.is_none() => {
            expression.implicit_format(symbols).map_err(|message| SyntaxError::new(at, message))?
        }
        _ => None,
    };
    let fallback = Format { precision: explicit.precision, ..Format::UNSIGNED };
    let format = explicit.format.or(implicit).unwrap_or(fallback);
    let defines = match definition {
        Some(range) => Some(
            parse_definition(&text[range.clone()], format, line, symbols)
                .map_err(|error| error.moved(range.start))?,
        ),
        None => None,
    };
    Ok(NumericBlock { format, expression, defines })
}

#[derive(Default)]
struct ExplicitFormat {
    format: Option<Format>,
    precision: usize,
}

fn parse_format(text: &str) -> Result<ExplicitFormat, SyntaxError> {
    let invalid = || SyntaxError::new(0, "invalid matching format specification in expression");
    let rest = text.trim_matches(is_blank).strip_prefix('%').ok_or_else(invalid)?;
    let (alternate, rest) = match rest.strip_prefix('#') {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let (precision, rest) = match rest.strip_prefix('.') {
        Some(rest) => {
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let precision = rest[..end]
                .parse::<u8>()
                .map_err(|_| SyntaxError::new(0, "invalid precision in format specifier"))?;
            (usize::from(precision), &rest[end..])
        }
        None => (0, rest),
    };
    let mut letters = rest.chars();
    let notation = match letters.next() {
        None => None,
        Some('u') => Some(Notation::Unsigned),
        Some('d') => Some(Notation::Signed),
        Some('x') => Some(Notation::HexLower),
        Some('X') => Some(Notation::HexUpper),
        Some(_) => return Err(SyntaxError::new(0, "invalid format specifier in expression")),
    };
    if alternate && !matches!(notation, Some(Notation::HexLower | Notation::HexUpper)) {
        return Err(SyntaxError::new(0, "alternate form only supported for hex values"));
    }
    if !letters.as_str().trim_start_matches(is_blank).is_empty() {
        return Err(invalid());
    }
    let format = notation.map(|notation| Format { notation, precision, alternate });
    Ok(ExplicitFormat { format, precision })
}

fn parse_definition(
    text: &str,
    format: Format,
    line: Option<usize>,
    symbols: &mut Symbols,
) -> Result<String, SyntaxError> {
    let name = text.trim_start_matches(is_blank);
    let length = parse_name(name)?;
    let (name, rest) = name.split_at(length);
    if name.starts_with('@') {
        return Err(SyntaxError::new(0, "definition of pseudo numeric variable unsupported"));
    }
    if symbols.strings.contains(name) {
        return Err(SyntaxError::new(
            0,
            format!("string variable with name '{name}' already exists"),
        ));
    }
    if !rest.trim_matches(is_blank).is_empty() {
        return Err(SyntaxError::new(length, "unexpected characters after numeric variable name"));
    }
    let declared = symbols.numerics.entry(name.to_owned()).or_insert(Declared { format, line });
    if declared.format != format {
        return Err(SyntaxError::new(0, "format different from previous variable definition"));
    }
    Ok(name.to_owned())
}

/// What an operand may be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Allowed {
    Any,
    /// The first operand of a `[[@LINE+N]]`.
    LineVariable,
    /// The second operand of a `[[@LINE+N]]`.
    Decimal,
}

/// More operands or parentheses than this are refused rather than risking the stack.
const OPERAND_LIMIT: usize = 500;

struct ExpressionParser<'a> {
    text: &'a str,
    at: usize,
    operands: usize,
    line: Option<usize>,
    symbols: &'a mut Symbols,
}

impl<'a> ExpressionParser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn error<T>(&self, message: impl Into<String>) -> Result<T, SyntaxError> {
        Err(SyntaxError::new(self.at, message))
    }

    fn skip_blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start_matches(is_blank).len();
    }

    fn eat(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        self.at += if found { token.len() } else { 0 };
        found
    }

    /// `==` and an expression, each optional, up to the end of the text.
    fn constraint(&mut self, legacy: bool) -> Result<Option<Expression>, SyntaxError> {
        self.skip_blanks();
        let constrained = self.eat("==");
        self.skip_blanks();
        if self.rest().is_empty() {
            return if constrained {
                self.error("empty numeric expression should not have a constraint")
            } else {
                Ok(None)
            };
        }
        let (first, next) = if legacy {
            (Allowed::LineVariable, Allowed::Decimal)
        } else {
            (Allowed::Any, Allowed::Any)
        };
        let mut expression = self.operand(first)?;
        self.skip_blanks();
        while !self.rest().is_empty() {
            expression = self.operation(expression, next)?;
            if legacy && !self.rest().is_empty() {
                return self.error("unexpected characters at end of expression");
            }
            self.skip_blanks();
        }
        Ok(Some(expression))
    }

    fn operation(&mut self, left: Expression, next: Allowed) -> Result<Expression, SyntaxError> {
        self.skip_blanks();
        let operation = if self.eat("+") {
            Operation::Add
        } else if self.eat("-") {
            Operation::Sub
        } else {
            let found = self.rest().chars().next().unwrap_or(' ');
            return self.error(format!("unsupported operation '{found}'"));
        };
        self.skip_blanks();
        if self.rest().is_empty() {
            return self.error("missing operand in expression");
        }
        let right = self.operand(next)?;
        Ok(Expression::Binary(operation, Box::new(left), Box::new(right)))
    }

    fn operand(&mut self, allowed: Allowed) -> Result<Expression, SyntaxError> {
        self.operands += 1;
        if self.operands > OPERAND_LIMIT {
            return self.error("expression too long");
        }
        if self.rest().starts_with('(') {
            if allowed != Allowed::Any {
                return self.error("parenthesized expression not permitted here");
            }
            return self.parenthesized();
        }
        if allowed == Allowed::Decimal {
            return self.literal(true);
        }
        match parse_name(self.rest()) {
            Ok(length) => self.named(length, allowed),
            Err(error) if allowed == Allowed::LineVariable => Err(error.moved(self.at)),
            Err(_) => self.literal(false),
        }
    }

    fn named(&mut self, length: usize, allowed: Allowed) -> Result<Expression, SyntaxError> {
        let start = self.at;
        let name = &self.rest()[..length];
        self.at += length;
        if self.rest().trim_start_matches(is_blank).starts_with('(') {
            if allowed != Allowed::Any {
                return Err(SyntaxError::new(start, "unexpected function call"));
            }
            return self.call(name, start);
        }
        if name.starts_with('@') {
            return if name == "@LINE" {
                Ok(Expression::Variable(name.to_owned()))
            } else {
                let message = format!("invalid pseudo numeric variable '{name}'");
                Err(SyntaxError::new(start, message))
            };
        }
        let undeclared = Declared { format: Format::UNSIGNED, line: None };
        let declared = self.symbols.numerics.entry(name.to_owned()).or_insert(undeclared);
        if declared.line.is_some() && declared.line == self.line {
            let message =
                format!("numeric variable '{name}' defined earlier in the same CHECK directive");
            return Err(SyntaxError::new(start, message));
        }
        Ok(Expression::Variable(name.to_owned()))
    }

    fn parenthesized(&mut self) -> Result<Expression, SyntaxError> {
        self.eat("(");
        self.skip_blanks();
        if self.rest().is_empty() {
            return self.error("missing operand in expression");
        }
        let mut expression = self.operand(Allowed::Any)?;
        self.skip_blanks();
        while !self.rest().is_empty() && !self.rest().starts_with(')') {
            expression = self.operation(expression, Allowed::Any)?;
            self.skip_blanks();
        }
        if self.eat(")") {
            Ok(expression)
        } else {
            self.error("missing ')' at end of nested expression")
        }
    }

    fn call(&mut self, name: &str, start: usize) -> Result<Expression, SyntaxError> {
        let Some(operation) = Operation::named(name) else {
            let message = format!("call to undefined function '{name}'");
            return Err(SyntaxError::new(start, message));
        };
        self.skip_blanks();
        self.eat("(");
        self.skip_blanks();
        let arguments = self.arguments()?;
        if !self.eat(")") {
            return self.error("missing ')' at end of call expression");
        }
        match <[Expression; 2]>::try_from(arguments) {
            Ok([left, right]) => Ok(Expression::Binary(operation, Box::new(left), Box::new(right))),
            Err(arguments) => {
                let given = arguments.len();
                let message = format!("function '{name}' takes 2 arguments but {given} given");
                Err(SyntaxError::new(start, message))
            }
        }
    }

    fn arguments(&mut self) -> Result<Vec<Expression>, SyntaxError> {
        let mut arguments = Vec::new();
        while !self.rest().is_empty() && !self.rest().starts_with(')') {
            if self.rest().starts_with(',') {
                return self.error("missing argument");
            }
            let mut argument = self.operand(Allowed::Any)?;
            self.skip_blanks();
            while !self.rest().is_empty() && !self.rest().starts_with([',', ')']) {
                argument = self.operation(argument, Allowed::Any)?;
                self.skip_blanks();
            }
            arguments.push(argument);
            if !self.eat(",") {
                break;
            }
            self.skip_blanks();
            if self.rest().starts_with(')') {
                return self.error("missing argument");
            }
        }
        Ok(arguments)
    }

    fn literal(&mut self, decimal: bool) -> Result<Expression, SyntaxError> {
        let start = self.at;
        let negative = self.eat("-");
        let rest = self.rest();
        let octal = rest.starts_with('0') && rest[1..].starts_with(|c: char| c.is_ascii_digit());
        let (radix, skipped) = match rest.get(..2) {
            _ if decimal => (10, 0),
            Some("0x" | "0X") => (16, 2),
            Some("0b" | "0B") => (2, 2),
            Some("0o") => (8, 2),
            _ if octal => (8, 1),
            _ => (10, 0),
        };
        let digits = &rest[skipped..];
        let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
        let Ok(value) = i128::from_str_radix(&digits[..end], radix) else {
            return Err(SyntaxError::new(start, "invalid operand format"));
        };
        self.at += skipped + end;
        Ok(Expression::Literal(if negative { -value } else { value }))
    }
}
