//! Program texts: reads them from a file or standard input, alone or in a log.

use crate::errors;
use hostir::diag::message;
use hostir::diag::{Applicability, Diag};
use hostir_grammar::{LogText, MAX_TEXT, PlaceMap};
use std::borrow::Cow;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// One text with its name in messages.
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
    diag.spans_mut().for_each(|span| *span = places.span(*span));
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

    /// The text known to users, to which [`move_into_log`] moves diagnostics.
    pub fn shown_text(&self) -> Cow<'_, str> {
        match &self.log {
            Some(log) => Cow::Borrowed(&log.text),
            None => self.decoded_text(),
        }
    }

    /// Reads a text that errors of reading call `place` and messages about it `name`. `length` is its length as far as
    /// that is known.
    ///
    /// # Errors
    /// [`errors::READ`] if that fails, [`errors::LARGE`] for a text above the length limit, `H0019` for a long file
    /// that is no text.
    pub fn read_path(place: &str, name: &str, reader: impl Read, length: u64) -> Result<Self, Diag> {
        Ok(Self::new(name, read_bounded(place, reader, length)?))
    }

    /// The text with those of the files that it imports; `folder` is that of its file.
    #[must_use]
    pub fn link_imports(self, folder: &Path) -> Self {
        let Ok(text) = std::str::from_utf8(&self.bytes) else { return self };
        match hostir::hir2::link_imports(text, &mut |path| read_imported(folder, path)) {
            Some(bundle) => Self { bytes: bundle.into_bytes(), ..self },
            None => self,
        }
    }

    /// The text with those of the files that it imports, if its name is that of a file.
    #[must_use]
    pub fn link_beside_file(self) -> Self {
        let file = Path::new(&self.name).to_owned();
        match file.parent().filter(|_| file.is_file()) {
            Some(folder) => self.link_imports(folder),
            None => self,
        }
    }

    /// The text, with U+FFFD for bytes that are not UTF-8. Spans of a diagnostic fit it only if
    /// all bytes before them are UTF-8, as they do for the one diagnostic such a text gets.
    pub fn decoded_text(&self) -> Cow<'_, str> {
        match std::str::from_utf8(&self.bytes) {
            Ok(text) => text.into(),
            // Decoding a damaged text is ten times slower than checking whether it is damaged.
            Err(_) => String::from_utf8_lossy(&self.bytes),
        }
    }
}

/// The text of an imported file, or the reason why there is none.
fn read_imported(folder: &Path, path: &str) -> Result<String, String> {
    let place = folder.join(path);
    let is_file = std::fs::metadata(&place).map(|found| found.is_file());
    let file = is_file.and_then(|is_file| match is_file {
        true => std::fs::File::open(&place),
        false => Err(std::io::Error::other("it is no plain file")),
    });
    let file = file.map_err(|error| errors::system_message(&error))?;
    let bytes = read_bounded(path, file, 0).map_err(|diag| diag.message.as_str().to_owned())?;
    String::from_utf8(bytes).map_err(|_| "it is not valid UTF-8".to_owned())
}

/// The length limit of an input that is decoded, and examined, although it is not UTF-8. A longer one is no text.
const DECODED: usize = 1 << 20;

fn not_utf8(name: &str, at: usize) -> Diag {
    let message = message!("{} is not valid UTF-8, from byte {} on", name, at);
    Diag::global_error("H0019", message).with_note("save the file as UTF-8")
}

/// All data of a reader, up to the limit; stops reading beyond it. `length` is the expected length.
fn read_bounded(name: &str, reader: impl Read, length: u64) -> Result<Vec<u8>, Diag> {
    // One byte more, so that the end is found without more room.
    let mut bytes = Vec::with_capacity(length.min(MAX_TEXT as u64) as usize + 1);
    let read = reader.take(MAX_TEXT as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| errors::cannot_read(name, &error))?;
    if bytes.len() <= MAX_TEXT {
        return match std::str::from_utf8(&bytes) {
            Err(error) if bytes.len() > DECODED => Err(not_utf8(name, error.valid_up_to())),
            _ => Ok(bytes),
        };
    }
    let message = message!("{} is larger than {} MiB", name, MAX_TEXT >> 20);
    Err(Diag::global_error(errors::LARGE, message)
        .with_note("shorten the file: of a log, only the lines of the containers are needed"))
}
