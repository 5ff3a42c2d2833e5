//! Program texts: read from a file or standard input.

use crate::io::Io;
use crate::run::errors;
use hostir::diag::Diag;

/// One text with the name that messages call it by.
#[derive(Clone, Default, Debug)]
pub struct Source {
    /// The path as given, or `<stdin>`.
    pub name: String,
    /// The bytes; the parser reports what is not UTF-8.
    pub bytes: Vec<u8>,
}

impl Source {
    /// Reads `path` (`-` is standard input).
    ///
    /// # Errors
    /// [`errors::READ`] if that fails.
    pub fn read(path: &str, io: &mut Io<'_>) -> Result<Self, Diag> {
        if path == "-" {
            let mut bytes = Vec::new();
            let read = io.stdin.read_to_end(&mut bytes);
            read.map_err(|error| errors::cannot_read("standard input", &error))?;
            return Ok(Self { name: "<stdin>".to_owned(), bytes });
        }
        let bytes =
            std::fs::read(io.path(path)).map_err(|error| errors::cannot_read(path, &error))?;
        Ok(Self { name: path.to_owned(), bytes })
    }
    /// The text, with U+FFFD for bytes that are not UTF-8. Spans of a diagnostic fit it only if
    /// all bytes before them are UTF-8, as they do for the one diagnostic such a text gets.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        match std::str::from_utf8(&self.bytes) {
            Ok(text) => text.into(),
            // Decoding what is damaged is ten times slower than looking whether anything is.
            Err(_) => String::from_utf8_lossy(&self.bytes),
        }
    }
}
