//! Program texts: read from a file or standard input, alone or in a log.

use crate::errors;
use hostir::diag::{Applicability, Diag};
use hostir_grammar::{LogText, MAX_TEXT, PlaceMap};
use std::borrow::Cow;
use std::io::Read;
use std::sync::Arc;

/// One text with the name that messages call it by.
#[derive(Clone, Default, Debug)]
pub struct NamedText {
    /// The path as given, or `<stdin>`.
    pub name: String,
    /// The bytes; the parser reports what is not UTF-8.
    pub bytes: Vec<u8>,
    /// The log that the text was found in.
    pub log: Option<Arc<LogOrigin>>,
}

/// The log that a text was found in.
#[derive(Debug)]
pub struct LogOrigin {
    /// The whole log.
    pub text: String,
    /// The places in the log of the parts of the text.
    pub places: PlaceMap,
}

/// Moves a diagnostic about a text that was found in a log to its place in the log.
pub fn move_into_log(diag: &mut Diag, places: &PlaceMap) {
    let labels = diag.primary.iter_mut().chain(&mut diag.labels).map(|label| &mut label.span);
    let edits = diag.fixes.iter_mut().flat_map(|fix| &mut fix.edits).map(|edit| &mut edit.span);
    for span in labels.chain(edits) {
        *span = places.span(*span);
    }
    // The lines that come would lack the tag.
    let edited = diag.fixes.iter_mut().filter(|fix| !fix.edits.is_empty());
    edited.for_each(|fix| fix.applicability = Applicability::MaybeIncorrect);
}

impl NamedText {
    /// A text of no log.
    pub fn new(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { name: name.into(), bytes: bytes.into(), log: None }
    }

    /// The programs that were found in a text.
    pub fn from_log(name: String, raw: &str, found: LogText<'_>) -> Self {
        let LogText { text, places, .. } = found;
        let log = places.map(|places| Arc::new(LogOrigin { text: raw.to_owned(), places }));
        Self { name, bytes: text.into_owned().into_bytes(), log }
    }

    /// The text that people know, which diagnostics are moved to with [`move_into_log`].
    pub fn shown_text(&self) -> Cow<'_, str> {
        match &self.log {
            Some(log) => Cow::Borrowed(&log.text),
            None => self.decoded_text(),
        }
    }

    /// Reads a text that errors of reading call `place` and messages about it `name`.
    ///
    /// # Errors
    /// [`errors::READ`] if that fails, [`errors::LARGE`] if it is longer than any text that is read, `H0019` if
    /// it is long and no text.
    pub fn read_path(place: &str, name: &str, reader: impl Read) -> Result<Self, Diag> {
        Ok(Self::new(name, read_bounded(place, reader)?))
    }

    /// The text, with U+FFFD for bytes that are not UTF-8. Spans of a diagnostic fit it only if
    /// all bytes before them are UTF-8, as they do for the one diagnostic such a text gets.
    pub fn decoded_text(&self) -> Cow<'_, str> {
        match std::str::from_utf8(&self.bytes) {
            Ok(text) => text.into(),
            // Decoding what is damaged is ten times slower than looking whether anything is.
            Err(_) => String::from_utf8_lossy(&self.bytes),
        }
    }
}

/// The longest input that is decoded, and looked at, though it is not UTF-8. What is longer is no text.
const DECODED: usize = 1 << 20;

fn not_utf8(name: &str, at: usize) -> Diag {
    let message = format!("{name} is not valid UTF-8, from byte {at} on");
    Diag::global_error("H0019", message).with_note("save the file as UTF-8")
}

/// All that a reader gives, if it is not too much; of more, no more is read.
fn read_bounded(name: &str, reader: impl Read) -> Result<Vec<u8>, Diag> {
    let mut bytes = Vec::new();
    let read = reader.take(MAX_TEXT as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| errors::cannot_read(name, &error))?;
    if bytes.len() <= MAX_TEXT {
        return match std::str::from_utf8(&bytes) {
            Err(error) if bytes.len() > DECODED => Err(not_utf8(name, error.valid_up_to())),
            _ => Ok(bytes),
        };
    }
    let message = format!("{name} is larger than {} MiB", MAX_TEXT >> 20);
    Err(Diag::global_error(errors::LARGE, message)
        .with_note("shorten the file: of a log, only the lines of the containers are needed"))
}
