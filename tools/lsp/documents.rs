//! The open documents and their changes.

use crate::positions::TextPositions;
use lsp_types::{TextDocumentContentChangeEvent, Uri};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A document as the client has it.
#[derive(Clone, Debug)]
pub struct Document {
    /// Its name.
    pub uri: Uri,
    /// The number of its last change.
    pub version: i32,
    /// Its text.
    pub text: Arc<str>,
    /// The lines of the text.
    pub positions: Arc<TextPositions>,
}

impl Document {
    /// A document with this text.
    pub fn new(uri: Uri, version: i32, text: String) -> Self {
        let positions = Arc::new(TextPositions::new(&text));
        Self { uri, version, text: text.into(), positions }
    }

    /// Applies changes in their order; each is about the text that the one before made. The last one gives the version.
    pub fn apply_changes(&mut self, version: i32, changes: Vec<TextDocumentContentChangeEvent>) {
        for change in changes {
            let text = match change.range {
                None => change.text,
                Some(range) => {
                    let span = self.positions.span_of(&self.text, range).as_usize_range();
                    let mut text = String::with_capacity(self.text.len() + change.text.len());
                    text.push_str(&self.text[..span.start]);
                    text.push_str(&change.text);
                    text.push_str(&self.text[span.end..]);
                    text
                }
            };
            self.positions = Arc::new(TextPositions::new(&text));
            self.text = text.into();
        }
        self.version = version;
    }

    /// The folder of its file, from which it imports others; `None` for a document that is no file.
    pub fn folder(&self) -> Option<PathBuf> {
        file_of_uri(&self.uri)?.parent().map(Path::to_owned)
    }
}

/// The file of a URI `file:///..`.
pub fn file_of_uri(uri: &Uri) -> Option<PathBuf> {
    let is_file = uri.scheme().is_some_and(|scheme| scheme.as_str().eq_ignore_ascii_case("file"));
    let path: Cow<'_, str> = uri.path().as_estr().decode().into_string().ok()?;
    is_file.then(|| PathBuf::from(path.as_ref()))
}

/// The URI of a file in the folder of a document.
pub fn uri_beside(document: &Uri, path: &str) -> Option<Uri> {
    let (folder, _) = document.as_str().rsplit_once('/')?;
    let mut uri = format!("{folder}/");
    for byte in path.bytes() {
        match byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'-' | b'_' | b'~') {
            true => uri.push(byte as char),
            false => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri.parse().ok()
}
