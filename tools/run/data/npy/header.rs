//! The header of a `.npy` file: a Python dictionary in one line of text.
//!
//! `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`. The scan runs from left to right without recursion,
//! so its time is linear in the header's length and nesting costs nothing.

use super::super::{DataError, ReadError};
use hostir::diag::message;
use std::io::Read;

/// The maximum number of bytes of a header's text. NumPy itself reads no more than 10,000 by default.
pub(super) const MAX_HEADER: usize = 64 << 10;
/// Most axes of an array, as in NumPy.
const MAX_AXES: usize = 64;
/// Characters of a header's text that a message quotes.
const QUOTED: usize = 60;
const MAGIC: &[u8] = b"\x93NUMPY";

/// The contents of a header.
#[derive(Debug)]
pub(super) struct NpyHeader {
    /// The element type as written: `<f4`, or the whole text of one that is not a string.
    pub(super) descr: String,
    pub(super) fortran: bool,
    pub(super) shape: Vec<usize>,
    /// Bytes up to the data.
    pub(super) bytes: usize,
}

impl NpyHeader {
    /// Reads a header and nothing after it.
    ///
    /// # Errors
    /// If the stream cannot be read, or the header is damaged or too long.
    pub(super) fn read_header(input: &mut dyn Read) -> Result<Self, ReadError> {
        let start = up_to(input, MAGIC.len() + 2)?;
        let [major, _] = *start.strip_prefix(MAGIC).unwrap_or_default() else {
            let message = "not a .npy file: it does not start with `\\x93NUMPY` and a version";
            return Err(DataError::new(message).into());
        };
        let width = match major {
            1 => 2,
            2 | 3 => 4,
            _ => {
                let message = message!("version {} of the .npy format is not supported", major);
                return Err(DataError::new(message).with_note("save it as version 1, 2 or 3").into());
            }
        };
        let length = up_to(input, width)?;
        if length.len() < width {
            return Err(DataError::new("the file ends within its header").into());
        }
        let length = length.iter().rev().fold(0usize, |sum, byte| sum << 8 | usize::from(*byte));
        if length > MAX_HEADER {
            let message = message!("its header has {} bytes, but the limit is {}", length, MAX_HEADER);
            return Err(DataError::new(message).into());
        }
        let text = up_to(input, length)?;
        if text.len() < length {
            let found = text.len();
            let message = message!("its header has {} bytes, but only {} follow", length, found);
            return Err(DataError::new(message).into());
        }
        let bytes = start.len() + width + length;
        Ok(Self { bytes, ..parse_header(&text)? })
    }
}

/// So many bytes, or as many as there are.
fn up_to(input: &mut dyn Read, length: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(length as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A header's text.
fn parse_header(text: &[u8]) -> Result<NpyHeader, DataError> {
    let mut scan = HeaderScanner { text, at: 0 };
    let (mut descr, mut fortran, mut shape) = (None, None, None);
    scan.expect_byte(b'{')?;
    while scan.peek() != Some(b'}') {
        let key = scan.take_string()?;
        scan.expect_byte(b':')?;
        let twice = match key.as_slice() {
            b"descr" => descr.replace(scan.take_descr()?).is_some(),
            b"fortran_order" => fortran.replace(scan.take_bool()?).is_some(),
            b"shape" => shape.replace(scan.take_shape()?).is_some(),
            _ => {
                let message = message!("its header has the unknown key `{}`", quote_text(&key));
                return Err(DataError::new(message));
            }
        };
        if twice {
            let message = message!("its header has `{}` twice", quote_text(&key));
            return Err(DataError::new(message));
        }
        if scan.peek() != Some(b'}') {
            scan.expect_byte(b',')?;
        }
    }
    scan.expect_byte(b'}')?;
    if scan.peek().is_some() {
        return Err(scan.unexpected_error("the end of the header"));
    }
    Ok(NpyHeader {
        descr: descr.ok_or_else(|| missing_key("descr"))?,
        fortran: fortran.ok_or_else(|| missing_key("fortran_order"))?,
        shape: shape.ok_or_else(|| missing_key("shape"))?,
        bytes: 0,
    })
}

fn missing_key(key: &str) -> DataError {
    DataError::new(format!("its header lacks `{key}`"))
}

/// A text as a message quotes it.
fn quote_text(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut short: String = text.chars().take(QUOTED).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// A text and how far it is read.
struct HeaderScanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> HeaderScanner<'a> {
    /// The next byte that is no blank.
    fn peek(&mut self) -> Option<u8> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        self.at += rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'\x0c')).count();
        self.text.get(self.at).copied()
    }

    fn expect_byte(&mut self, wanted: u8) -> Result<(), DataError> {
        if self.peek() != Some(wanted) {
            return Err(self.unexpected_error(&format!("`{}`", char::from(wanted))));
        }
        self.at += 1;
        Ok(())
    }

    fn unexpected_error(&self, wanted: &str) -> DataError {
        let found = match self.text.get(self.at) {
            Some(byte) => format!("`{}`", byte.escape_ascii()),
            None => "its end".to_owned(),
        };
        let at = self.at + 1;
        DataError::new(format!("its header needs {wanted} at character {at}, but has {found}"))
    }

    /// Takes the bytes of a word or number.
    fn take_word(&mut self) -> &'a [u8] {
        self.peek();
        let rest = self.text.get(self.at..).unwrap_or_default();
        let length = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        self.at += length;
        &rest[..length]
    }

    /// Takes `'text'` or `"text"`. Escapes stay as they are: no known value needs one.
    fn take_string(&mut self) -> Result<Vec<u8>, DataError> {
        let Some(quote @ (b'\'' | b'"')) = self.peek() else {
            return Err(self.unexpected_error("a string"));
        };
        let start = self.at + 1;
        let mut end = start;
        while let Some(byte) = self.text.get(end).filter(|byte| **byte != quote) {
            end += if *byte == b'\\' { 2 } else { 1 };
        }
        self.at = end.min(self.text.len());
        self.expect_byte(quote)?;
        Ok(self.text[start..end].to_vec())
    }

    /// Takes an element type: a string, or all text up to the next comma outside of brackets.
    fn take_descr(&mut self) -> Result<String, DataError> {
        if matches!(self.peek(), Some(b'\'' | b'"')) {
            return Ok(quote_text(&self.take_string()?));
        }
        let start = self.at;
        let mut depth = 0usize;
        loop {
            match self.peek() {
                None => return Err(self.unexpected_error("the end of the element type")),
                Some(b'\'' | b'"') => {
                    self.take_string()?;
                    continue;
                }
                Some(b',' | b'}') if depth == 0 => break,
                Some(b'(' | b'[' | b'{') => depth += 1,
                Some(b')' | b']' | b'}') if depth == 0 => return Err(self.unexpected_error("`,`")),
                Some(b')' | b']' | b'}') => depth -= 1,
                Some(_) => {}
            }
            self.at += 1;
        }
        Ok(quote_text(self.text[start..self.at].trim_ascii_end()))
    }

    fn take_bool(&mut self) -> Result<bool, DataError> {
        let start = self.at;
        match self.take_word() {
            b"True" => Ok(true),
            b"False" => Ok(false),
            _ => {
                self.at = start;
                self.peek();
                Err(self.unexpected_error("True or False"))
            }
        }
    }

    /// Takes `()`, `(3,)` or `(3, 4)`. One number in brackets without a comma is no tuple.
    fn take_shape(&mut self) -> Result<Vec<usize>, DataError> {
        self.expect_byte(b'(')?;
        let mut shape = Vec::new();
        while self.peek() != Some(b')') {
            shape.push(self.take_extent()?);
            if shape.len() > MAX_AXES {
                return Err(DataError::new(format!("its shape has more than {MAX_AXES} axes")));
            }
            if shape.len() == 1 || self.peek() != Some(b')') {
                self.expect_byte(b',')?;
            }
        }
        self.expect_byte(b')')?;
        Ok(shape)
    }

    /// Takes `3`, or `3L` as Python 2 writes it.
    fn take_extent(&mut self) -> Result<usize, DataError> {
        self.peek();
        let start = self.at;
        let word = self.take_word();
        let digits = word.strip_suffix(b"L").unwrap_or(word);
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            self.at = start;
            return Err(self.unexpected_error("an extent"));
        }
        let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
        number.ok_or_else(|| DataError::new("its shape is too large"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(text: &str) -> Vec<usize> {
        let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {text}}}");
        parse_header(header.as_bytes()).unwrap().shape
    }

    /// The first is NumPy 2's own, byte for byte; Python takes the others for the same.
    #[test]
    fn one_header_in_many_spellings() {
        let spellings = [
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }            \n",
            "{\"shape\":(3,4),\"descr\":\"<f4\",\"fortran_order\":False}",
            " {'shape': (3L, 4L), 'fortran_order': False, 'descr': '<f4'}\n",
            "\t{ 'fortran_order' : False ,\n 'shape' : ( 3 , 4 , ) , 'descr' : '<f4' , }\r\n",
        ];
        for text in spellings {
            let header = parse_header(text.as_bytes()).unwrap();
            assert_eq!((&header.descr[..], header.fortran, header.shape), ("<f4", false, vec![3, 4]));
        }
        assert_eq!((shape("()"), shape("(3,)"), shape("(3, )")), (vec![], vec![3], vec![3]));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let whole = |rest: &str| format!("{{'descr': '<f4', 'fortran_order': False, {rest}}}");
        let cases = [
            (String::new(), "its header needs `{` at character 1, but has its end"),
            ("{".to_owned(), "its header needs a string at character 2, but has its end"),
            (whole("'shape': (3)"), "its header needs `,` at character 53, but has `)`"),
            (whole("'shape': (-3,)"), "its header needs an extent at character 52, but has `-`"),
            (whole("'shape': [3]"), "its header needs `(` at character 51, but has `[`"),
            (whole("'shape': (3.0,)"), "its header needs `,` at character 53, but has `.`"),
            (whole("'shape': (0x3,)"), "its header needs an extent at character 52, but has `0`"),
            (whole("'shape': (99999999999999999999,)"), "its shape is too large"),
            (whole("'shape': (), 'shape': ()"), "its header has `shape` twice"),
            (whole("'shapes': ()"), "its header has the unknown key `shapes`"),
            (whole(""), "its header lacks `shape`"),
            (whole("'shape': ()") + "}", "its header needs the end of the header at character 54, but has `}`"),
            ("{'fortran_order': 1}".to_owned(), "its header needs True or False at character 19, but has `1`"),
            ("{'descr".to_owned(), "its header needs `'` at character 8, but has its end"),
            ("{'descr\\".to_owned(), "its header needs `'` at character 9, but has its end"),
        ];
        for (text, message) in cases {
            assert_eq!(parse_header(text.as_bytes()).unwrap_err().message, message, "{text}");
        }
        let axes = whole(&format!("'shape': ({})", "1,".repeat(65)));
        assert_eq!(parse_header(axes.as_bytes()).unwrap_err().message, "its shape has more than 64 axes");
    }

    #[test]
    fn element_types_that_are_no_strings_are_text() {
        let descr = |descr: &str| {
            let text = format!("{{'descr': {descr} , 'fortran_order': True, 'shape': ()}}");
            parse_header(text.as_bytes()).map(|header| header.descr)
        };
        assert_eq!(descr("[('a', '<f4'), ('b', '}')]").unwrap(), "[('a', '<f4'), ('b', '}')]");
        assert_eq!(descr("'<f4'").unwrap(), "<f4");
        assert!(descr("[('a'").is_err() && descr("]").is_err());
    }
}
