//! Variables: the names that a check file declares, and their values during a comparison.

use crate::failure::PatternError;
use crate::numeric::NumberFormat;
use num_bigint::BigInt;
use std::collections::{BTreeMap, BTreeSet};

/// The name of the variable that has the line of the directive.
pub(crate) const LINE: &str = "@LINE";

/// A name at the start of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FoundVariable<'a> {
    /// The name, with its `$` or `@`.
    pub(crate) name: &'a str,
    /// True if it starts with `@`.
    pub(crate) is_pseudo: bool,
}

/// Reads the name of a variable from the start of `text`, whose place is `at`.
///
/// # Errors
/// A text that does not start with a name.
pub(crate) fn parse_name(text: &[u8], at: usize) -> Result<FoundVariable<'_>, PatternError> {
    let error = |at: usize, message: &str| Err(PatternError { at, message: message.to_owned() });
    let Some(first) = text.first() else { return error(at, "empty variable name") };
    let is_pseudo = *first == b'@';
    let sign = usize::from(is_pseudo || *first == b'$');
    match text.get(sign) {
        None => {
            let kind = if is_pseudo { "pseudo" } else { "global" };
            return error(at + sign, &format!("empty {kind} variable name"));
        }
        Some(start) if *start == b'_' || start.is_ascii_alphabetic() => {}
        Some(_) => return error(at, "invalid variable name"),
    }
    let length = text[sign..].iter().take_while(|&&byte| byte == b'_' || byte.is_ascii_alphanumeric()).count();
    let name = std::str::from_utf8(&text[..sign + length]).unwrap_or_default();
    Ok(FoundVariable { name, is_pseudo })
}

/// A numeric variable as it is declared first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeclaredNumber {
    /// The format of the definition.
    pub(crate) format: NumberFormat,
    /// The line of the definition; none on the command line, and for a use without a definition before it.
    pub(crate) line: Option<usize>,
}

/// The names that were read so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeclaredNames {
    numbers: BTreeMap<String, DeclaredNumber>,
    strings: BTreeSet<String>,
}

impl DeclaredNames {
    /// Declares a string variable; false if it is a numeric one already.
    pub(crate) fn declare_string(&mut self, name: &str) -> bool {
        let is_free = !self.numbers.contains_key(name);
        if is_free {
            self.strings.insert(name.to_owned());
        }
        is_free
    }

    /// True if the name is that of a string variable.
    pub(crate) fn is_string(&self, name: &str) -> bool {
        self.strings.contains(name)
    }

    /// Declares a numeric variable; false if it has another format already.
    pub(crate) fn declare_number(&mut self, name: &str, format: NumberFormat, line: Option<usize>) -> bool {
        self.numbers.entry(name.to_owned()).or_insert(DeclaredNumber { format, line }).format == format
    }

    /// The declaration of a numeric variable that is used; a new one if there is none.
    pub(crate) fn use_number(&mut self, name: &str) -> DeclaredNumber {
        let unknown = DeclaredNumber { format: NumberFormat::UNSIGNED, line: None };
        *self.numbers.entry(name.to_owned()).or_insert(unknown)
    }
}

/// The values of variables.
#[derive(Debug, Clone, Default)]
pub(crate) struct VariableValues {
    strings: BTreeMap<String, Vec<u8>>,
    numbers: BTreeMap<String, BigInt>,
    line: usize,
}

impl VariableValues {
    /// The value of a string variable.
    pub(crate) fn string(&self, name: &str) -> Option<&[u8]> {
        self.strings.get(name).map(Vec::as_slice)
    }

    /// The value of a numeric variable.
    pub(crate) fn number(&self, name: &str) -> Option<BigInt> {
        if name == LINE { Some(BigInt::from(self.line)) } else { self.numbers.get(name).cloned() }
    }

    /// Gives a string variable a value.
    pub(crate) fn set_string(&mut self, name: &str, value: &[u8]) {
        self.strings.insert(name.to_owned(), value.to_owned());
    }

    /// Gives a numeric variable a value.
    pub(crate) fn set_number(&mut self, name: &str, value: BigInt) {
        self.numbers.insert(name.to_owned(), value);
    }

    /// Sets the line of the directive that is compared.
    pub(crate) fn set_line(&mut self, line: usize) {
        self.line = line;
    }

    /// Removes all values but those of names with a `$`.
    pub(crate) fn clear_local(&mut self) {
        self.strings.retain(|name, _| name.starts_with('$'));
        self.numbers.retain(|name, _| name.starts_with('$'));
    }
}
