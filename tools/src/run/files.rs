//! Data files of the command line: `x.npy`, `x.%r.npy`, `w.safetensors:name`.

use super::errors;
use crate::data::{DataError, npy, safetensors};
use crate::io::Io;
use hostir::data::HostTensor;
use hostir::diag::Diag;
use hostir::ir::DType;

/// Kinds of data files, by extension.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Npy,
    Safetensors,
}

impl Kind {
    /// Whether the kind has this element type.
    pub(super) fn can_hold(self, dtype: DType) -> bool {
        match self {
            Kind::Npy => npy::can_hold(dtype),
            Kind::Safetensors => safetensors::can_hold(dtype),
        }
    }
}

/// A data file as named on the command line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct DataFile {
    /// The path, perhaps with `%r` for the rank.
    pub(super) path: String,
    /// Entry of a safetensors file.
    pub(super) entry: Option<String>,
    pub(super) kind: Kind,
}

impl DataFile {
    /// The file of an option's value; `None` if its extension is no data file's.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.ends_with(".npy") {
            return Some(Self { path: text.to_owned(), entry: None, kind: Kind::Npy });
        }
        let (path, entry) = match text.rsplit_once(".safetensors:") {
            Some((stem, entry)) => (format!("{stem}.safetensors"), Some(entry.to_owned())),
            None => (text.to_owned(), None),
        };
        let named =
            path.ends_with(".safetensors") && entry.as_ref().is_none_or(|entry| !entry.is_empty());
        named.then_some(Self { path, entry, kind: Kind::Safetensors })
    }
    /// Whether each rank has a file of its own.
    pub(super) fn per_rank(&self) -> bool {
        self.path.contains("%r")
    }
    /// The file of a rank.
    pub(super) fn of_rank(&self, rank: u32) -> Self {
        Self { path: self.path.replace("%r", &rank.to_string()), ..self.clone() }
    }
    /// Reads the tensor.
    pub(super) fn read(&self, io: &Io<'_>) -> Result<HostTensor, Diag> {
        let bytes = std::fs::read(io.path(&self.path))
            .map_err(|error| errors::cannot_read(&self.path, &error))?;
        match self.kind {
            Kind::Npy => npy::read(&bytes).map_err(|error| self.error(errors::DAMAGED, error)),
            Kind::Safetensors => {
                safetensors::read(&bytes, self.entry.as_deref()).map_err(|error| match error {
                    safetensors::ReadError::Damaged(error) => self.error(errors::DAMAGED, error),
                    safetensors::ReadError::Entry(error) => self.error(errors::ENTRY, error),
                })
            }
        }
    }
    fn error(&self, code: &'static str, error: DataError) -> Diag {
        let diag = Diag::global(code, format!("`{}`: {}", self.path, error.message));
        match error.note {
            Some(note) => diag.note(note),
            None => diag,
        }
    }
}

impl std::fmt::Display for DataFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.entry {
            Some(entry) => write!(f, "{}:{entry}", self.path),
            None => f.write_str(&self.path),
        }
    }
}
