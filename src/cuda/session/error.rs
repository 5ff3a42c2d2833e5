//! The error type of sessions.

use hostir::diag::{Diag, render};
use std::sync::Arc;

/// The text that source locations of diagnostics refer to.
#[derive(Debug)]
pub(super) struct DiagSource {
    pub(super) name: String,
    /// `None` if the caller gave a program without its text.
    pub(super) text: Option<String>,
}

/// One or more diagnostics, with the text they refer to. Its `Display` form is that of the command-line tools,
/// without colour.
#[derive(Clone)]
pub struct Error {
    diags: Vec<Diag>,
    source: Arc<DiagSource>,
}

impl Error {
    pub(super) fn new(source: &Arc<DiagSource>, diags: Vec<Diag>) -> Self {
        Self { diags, source: source.clone() }
    }

    /// The diagnostics; never empty.
    pub fn diags(&self) -> &[Diag] {
        &self.diags
    }

    /// The code of the first diagnostic, `H0524`.
    pub fn code(&self) -> &'static str {
        self.diags.first().map_or("", |diag| diag.code)
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = match &self.source.text {
            Some(text) => render::to_string(&self.source.name, text, &self.diags),
            None => {
                let bare = self.diags.iter().map(|diag| Diag { primary: None, labels: Vec::new(), ..diag.clone() });
                let diags: Vec<Diag> = bare.collect();
                render::to_string(&self.source.name, "", &diags)
            }
        };
        f.write_str(text.trim_end())
    }
}

impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // `main` prints this form of an error that it returns.
        write!(f, "\n{self}")
    }
}

impl std::error::Error for Error {}
