//! Numbers: finds the end of a float, and checks that a literal is a value of its type.

use crate::error::{Code, SyntaxError};
use crate::span::Span;
use crate::spelling::shorten_text;

/// The text directly after the digits of an integer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NumberTail {
    /// Nothing: the number is an integer.
    None,
    /// So many bytes of a float: `.`, `.e5`.
    Float(usize),
    /// A tail of so many bytes that no number has: `.e`, `.size`.
    Broken(usize),
}

impl NumberTail {
    /// Reads the text after the digits. Two points are those of a range or an ellipsis.
    pub(crate) fn of_text(rest: &str) -> Self {
        let bytes = rest.as_bytes();
        if bytes.first() != Some(&b'.') || bytes.get(1) == Some(&b'.') {
            return NumberTail::None;
        }
        let word = bytes[1..].iter().take_while(|byte| crate::scan::is_word(**byte)).count();
        if word == 0 {
            return NumberTail::Float(1);
        }
        match exponent_length(&bytes[1..]) {
            Some(length) if bytes.get(1 + length).is_none_or(|byte| !crate::scan::is_word(*byte)) => {
                NumberTail::Float(1 + length)
            }
            _ => NumberTail::Broken(1 + word),
        }
    }
}

/// The bytes of `e5`, `E-3`.
fn exponent_length(bytes: &[u8]) -> Option<usize> {
    if !matches!(bytes.first(), Some(b'e' | b'E')) {
        return None;
    }
    let sign = usize::from(matches!(bytes.get(1), Some(b'+' | b'-')));
    let digits = bytes[1 + sign..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    (digits > 0).then_some(1 + sign + digits)
}

/// The error for a text that begins as a number and continues as a name, `1.size`.
pub(crate) fn broken_number(text: &str, span: Span) -> SyntaxError {
    let message = format!("`{}` is no number", shorten_text(text));
    SyntaxError::new(Code::Number, span, message)
        .with_note("a float has digits, a point and an exponent at most: `1.0`, `1.`, `1.e5`")
}

/// The error of a float without a type that 64 bits cannot hold; `word` is the type of 64 bits in the file's notation.
pub(crate) fn misfit_of_float(text: &str, word: &str, span: Span) -> Option<SyntaxError> {
    text.parse::<f64>().ok().filter(|value| value.is_infinite())?;
    let message = format!("the number `{}` does not fit a float of 64 bits", shorten_text(text));
    let largest = FloatRange::of_type("double").map_or("", |range| range.largest);
    let note = format!("the largest is {largest}; an infinity is a literal with a type, such as `{word}(inf)`");
    Some(SyntaxError::new(Code::Number, span, message).with_note(note))
}

/// The error of a literal, `text` between its parentheses, that is no value of an element type; `word` is the type's
/// name in the file's notation.
pub fn misfit_of_literal(dtype: &str, word: &str, text: &str, span: Span) -> Option<SyntaxError> {
    let (needed, repair) = literal_need(dtype, word, text)?;
    let literal = format!("{word}({text})");
    let message = format!("`{}` is not a value of type `{word}`: expected {needed}", shorten_text(&literal));
    Some(SyntaxError::new(Code::Number, span, message).with_note(repair))
}

/// The requirement of a literal's type that a text does not meet, and the repair.
fn literal_need(dtype: &str, word: &str, text: &str) -> Option<(String, String)> {
    let truth = matches!(text, "true" | "false");
    if dtype == "bool" {
        let fits = truth || matches!(text, "0" | "1");
        let needed = "`true` or `false`".to_owned();
        return (!fits).then(|| (needed, format!("write `{word}(true)` or `{word}(false)`")));
    }
    if let Some((low, high)) = integer_range(dtype) {
        let fits = text.parse::<i128>().is_ok_and(|value| (low..=high).contains(&value));
        let needed = format!("an integer from {low} to {high}");
        return (!fits).then(|| (needed, format!("write `{word}(0)`, or use a type that can represent the number")));
    }
    if truth {
        return Some(("a number".to_owned(), format!("write `{word}(0)` or `{word}(1)`")));
    }
    let range = FloatRange::of_type(dtype)?;
    let mut parts = text.trim_start_matches('(').trim_end_matches(')').split(',').map(str::trim);
    let fits = parts.all(|part| match part.parse::<f64>() {
        Ok(value) if value.is_infinite() => range.has_infinity && part.trim_start_matches('-') == "inf",
        Ok(value) => range.holds(value),
        Err(_) => true,
    });
    let repair = match range.has_infinity && !dtype.starts_with("std::complex") {
        true => format!("write `{word}(inf)` for an infinity, or use a type that can represent the number"),
        false => "use a type that can represent the number".to_owned(),
    };
    (!fits).then(|| (range.describe(), repair))
}

/// Returns true if a number is a value of an element type after rounding: an integer within the range of an integer
/// type, a real that a float type does not round to an infinity or a NaN. Other types hold every number.
pub fn holds_number(dtype: &str, value: f64) -> bool {
    if let Some((low, high)) = integer_range(dtype) {
        // A fraction is cut off. The largest integers of 64 bits are rounded here.
        return (low as f64..=high as f64).contains(&value.trunc());
    }
    FloatRange::of_type(dtype).is_none_or(|range| range.holds(value))
}

/// The error for a number, written as `text`, that would become a value of an element type but is none; `word` is the
/// type's name in the file's notation.
pub fn misfit_of_number(dtype: &str, word: &str, text: &str, span: Span) -> SyntaxError {
    let needed = needed_number(dtype);
    let message = format!("`{}` does not fit `{word}`, to which it is converted{needed}", shorten_text(text));
    SyntaxError::new(Code::Number, span, message).with_note("use a type that can represent the number")
}

/// `: expected a number from 0 to 255`: the numbers of a type as the end of a sentence; empty if they are unknown.
pub fn needed_number(dtype: &str) -> String {
    let integers = integer_range(dtype).map(|(low, high)| format!("a number from {low} to {high}"));
    let needed = integers.or_else(|| FloatRange::of_type(dtype).map(FloatRange::describe));
    needed.map_or_else(String::new, |needed| format!(": expected {needed}"))
}

/// The numbers of a float type.
#[derive(Clone, Copy)]
struct FloatRange {
    /// The largest, as messages write it.
    largest: &'static str,
    /// The first number that is rounded to one beyond the largest.
    beyond: f64,
    has_infinity: bool,
    has_sign: bool,
}

impl FloatRange {
    /// The numbers of a type; a complex one has those of its parts. The first number beyond is half a unit in the last
    /// place above the largest, and a tie goes to the even one of its neighbours: only for `__e4m3` that is the largest
    /// itself.
    fn of_type(dtype: &str) -> Option<Self> {
        let half_beyond = |largest, beyond| Self { largest, beyond, has_infinity: true, has_sign: true };
        Some(match dtype {
            "double" | "std::complex<double>" => half_beyond("1.7976931348623157e308", f64::INFINITY),
            "float" | "std::complex<float>" => half_beyond("3.4028235e38", f64::from(f32::MAX) + 2f64.powi(103)),
            "__half" => half_beyond("65504", 65520.0),
            "__bfloat" => half_beyond("3.3895314e38", (2.0 - 2f64.powi(-8)) * 2f64.powi(127)),
            "__e5m2" => half_beyond("57344", 61440.0),
            "__e4m3" => Self { has_infinity: false, ..half_beyond("448", 464f64.next_up()) },
            "__e8m0" => Self {
                has_infinity: false,
                has_sign: false,
                ..half_beyond("1.7014118e38", (1.5 * 2f64.powi(127)).next_up())
            },
            "__e2m1" | "__e2m1_x2" => Self { has_infinity: false, ..half_beyond("6", 7.0) },
            _ => return None,
        })
    }

    fn holds(self, value: f64) -> bool {
        if value.is_infinite() {
            return self.has_infinity;
        }
        value.is_nan() || (value.abs() < self.beyond && (self.has_sign || value >= 0.0))
    }

    fn describe(self) -> String {
        let low = if self.has_sign { format!("-{}", self.largest) } else { "0".to_owned() };
        let infinity = if self.has_infinity { ", or an infinity" } else { "" };
        format!("a number from {low} to {}{infinity}", self.largest)
    }
}

/// The smallest and the largest number of an integer type.
fn integer_range(dtype: &str) -> Option<(i128, i128)> {
    Some(match dtype {
        "int8_t" => signed_range(8),
        "int16_t" => signed_range(16),
        "int" | "int32_t" => signed_range(32),
        "int64_t" | "nvfuser_index_t" => signed_range(64),
        "uint8_t" => (0, (1 << 8) - 1),
        "uint16_t" => (0, (1 << 16) - 1),
        "uint32_t" => (0, (1 << 32) - 1),
        "uint64_t" => (0, (1 << 64) - 1),
        _ => return None,
    })
}

/// The smallest and the largest integer of a width in two's complement.
fn signed_range(bits: u32) -> (i128, i128) {
    (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
}
