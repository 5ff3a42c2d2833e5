//! The format of a number: `%u`, `%d`, `%x` and `%X`, with a least number of digits and `0x` before it.

use num_bigint::{BigInt, Sign};
use std::fmt;

/// The notation of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notation {
    /// `%u`: decimal without a sign.
    Unsigned,
    /// `%d`: decimal with a sign if it is negative.
    Signed,
    /// `%x`: hexadecimal with small letters.
    HexLower,
    /// `%X`: hexadecimal with capital letters.
    HexUpper,
}

impl fmt::Display for Notation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Notation::Unsigned => "%u",
            Notation::Signed => "%d",
            Notation::HexLower => "%x",
            Notation::HexUpper => "%X",
        })
    }
}

/// A notation with its details.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NumberFormat {
    pub(crate) notation: Notation,
    /// The least number of digits, filled with zeros.
    pub(crate) precision: u32,
    /// True if `0x` is written before the digits.
    pub(crate) has_prefix: bool,
}

impl NumberFormat {
    /// Decimal without a sign.
    pub(crate) const UNSIGNED: NumberFormat =
        NumberFormat { notation: Notation::Unsigned, precision: 0, has_prefix: false };

    /// The regular expression of all numbers in this format.
    pub(crate) fn wildcard(self) -> String {
        let (sign, digits, first) = match self.notation {
            Notation::Unsigned => ("", "0-9", "1-9"),
            Notation::Signed => ("-?", "0-9", "1-9"),
            Notation::HexLower => ("", "0-9a-f", "1-9a-f"),
            Notation::HexUpper => ("", "0-9A-F", "1-9A-F"),
        };
        let prefix = if self.has_prefix { "0x" } else { "" };
        match self.precision {
            0 => format!("{prefix}{sign}[{digits}]+"),
            precision => format!("{prefix}{sign}([{first}][{digits}]*)?[{digits}]{{{precision}}}"),
        }
    }

    /// The number in this format; none if it is negative and the format has no sign.
    pub(crate) fn print_number(self, number: &BigInt) -> Option<String> {
        let is_negative = number.sign() == Sign::Minus;
        if is_negative && self.notation != Notation::Signed {
            return None;
        }
        let digits = match self.notation {
            Notation::Unsigned | Notation::Signed => number.magnitude().to_str_radix(10),
            Notation::HexLower => number.magnitude().to_str_radix(16),
            Notation::HexUpper => number.magnitude().to_str_radix(16).to_ascii_uppercase(),
        };
        let sign = if is_negative { "-" } else { "" };
        let prefix = if self.has_prefix { "0x" } else { "" };
        let width = usize::try_from(self.precision).unwrap_or_default();
        Some(format!("{sign}{prefix}{digits:0>width$}"))
    }

    /// The number of a text that [`NumberFormat::wildcard`] matches.
    pub(crate) fn parse_number(self, text: &[u8]) -> Option<BigInt> {
        let (radix, text) = match self.notation {
            Notation::Unsigned | Notation::Signed => (10, text),
            Notation::HexLower | Notation::HexUpper => (16, without_prefix(text)),
        };
        BigInt::parse_bytes(text, radix)
    }
}

fn without_prefix(text: &[u8]) -> &[u8] {
    match text {
        [b'0', b'x' | b'X', digits @ ..] => digits,
        digits => digits,
    }
}
