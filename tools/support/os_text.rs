//! Arguments that are not UTF-8, such as names of files: converts them to text and back.
//!
//! All code that reads the command line reads text. A byte that is not text becomes one character of a private range
//! that nobody writes; [`unescape_text`] turns it into a byte again when a file is opened or a process is started, and
//! [`LossyWriter`] shows it as U+FFFD.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The character of byte 0: private use, the last 256 code points there are.
const FIRST: u32 = 0x0010_FF00;

/// Whether the character stands for a byte.
fn is_byte(c: char) -> bool {
    c as u32 >= FIRST
}

/// An argument as text.
pub fn escape_text(text: &OsStr) -> OsString {
    if text.to_str().is_some_and(|text| !text.contains(is_byte)) {
        return text.to_owned();
    }
    let mut out = String::new();
    for chunk in text.as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            if is_byte(c) {
                out.extend(c.encode_utf8(&mut [0; 4]).as_bytes().iter().map(escape_byte));
            } else {
                out.push(c);
            }
        }
        out.extend(chunk.invalid().iter().map(escape_byte));
    }
    out.into()
}

/// The argument that a text was made from.
pub fn unescape_text(text: &str) -> OsString {
    if !text.contains(is_byte) {
        return text.into();
    }
    let mut bytes = Vec::with_capacity(text.len());
    for c in text.chars() {
        if is_byte(c) {
            bytes.push((c as u32 - FIRST) as u8);
        } else {
            bytes.extend(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    OsString::from_vec(bytes)
}

/// A writer that shows U+FFFD for bytes that are not text.
pub struct LossyWriter<W> {
    inner: W,
    /// True if there are any to show.
    escaped: bool,
}

impl<W: Write> LossyWriter<W> {
    /// Wraps `inner`, for a command line of these arguments.
    pub fn new(inner: W, args: &[OsString]) -> Self {
        let escaped = args.iter().any(|arg| arg.to_str().is_none_or(|arg| arg.contains(is_byte)));
        Self { inner, escaped }
    }
}

impl<W: Write> Write for LossyWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match std::str::from_utf8(bytes) {
            Ok(text) if self.escaped && text.contains(is_byte) => {
                self.inner.write_all(text.replace(is_byte, "\u{fffd}").as_bytes())?;
                Ok(bytes.len())
            }
            _ => self.inner.write(bytes),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// The character in the place of a byte.
fn escape_byte(byte: &u8) -> char {
    char::from_u32(FIRST + u32::from(*byte)).unwrap_or('\u{fffd}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let texts: [&[u8]; 5] = [b"", b"p.hir", b"T0=\xff\xfe.npy", "a\u{fffd}\u{10ff41}b".as_bytes(), b"\xc3"];
        for bytes in texts {
            let text = escape_text(OsStr::from_bytes(bytes));
            assert_eq!(unescape_text(text.to_str().unwrap()).as_bytes(), bytes);
        }
        assert_eq!(escape_text(OsStr::new("p.hir")), "p.hir");
    }

    #[test]
    fn shown_as_replacement_characters() {
        let args = [escape_text(OsStr::from_bytes(b"x\xff"))];
        let mut out = Vec::new();
        write!(LossyWriter::new(&mut out, &args), "`{}`", args[0].to_str().unwrap()).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "`x\u{fffd}`");
    }
}
