//! Data files of the command line: `x.npy`, `x.%r.npy`, `w.safetensors:name`.

use crate::data::{DataError, ReadError, npy, safetensors};
use hostir::data::HostTensor;
use hostir::diag::message;
use hostir::diag::{Diag, visible};
use hostir::ir::DType;
use hostir_tool_support::errors;
use hostir_tool_support::io::ToolIo;
use std::path::Path;

/// Kinds of data files, by extension.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DataFormat {
    Npy,
    Safetensors,
}

impl DataFormat {
    /// True if the kind has this element type.
    pub(super) fn can_hold(self, dtype: DType) -> bool {
        match self {
            DataFormat::Npy => npy::can_hold(dtype),
            DataFormat::Safetensors => safetensors::can_hold(dtype),
        }
    }
}

/// A data file as named on the command line; its displayed form is escaped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct DataFile {
    /// The path, perhaps with `%r` for the rank.
    pub(super) path: String,
    /// Entry of a safetensors file.
    pub(super) entry: Option<String>,
    pub(super) kind: DataFormat,
}

impl DataFile {
    /// The file in an option's value; `None` if its extension is not that of a data file.
    pub(super) fn parse_name(text: &str) -> Option<Self> {
        if text.ends_with(".npy") {
            return Some(Self { path: text.to_owned(), entry: None, kind: DataFormat::Npy });
        }
        let (path, entry) = match text.rsplit_once(".safetensors:") {
            Some((stem, entry)) => (format!("{stem}.safetensors"), Some(entry.to_owned())),
            None => (text.to_owned(), None),
        };
        let named = path.ends_with(".safetensors") && entry.as_ref().is_none_or(|entry| !entry.is_empty());
        named.then_some(Self { path, entry, kind: DataFormat::Safetensors })
    }
    /// True if each rank has a file of its own.
    pub(super) fn per_rank(&self) -> bool {
        self.path.contains("%r")
    }
    /// The file of a rank.
    pub(super) fn of_rank(&self, rank: u32) -> Self {
        Self { path: self.path.replace("%r", &rank.to_string()), ..self.clone() }
    }
    /// Reads a tensor of this type. Files have FP4 as pairs, which are taken apart for a tensor of single numbers.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged or lacks the entry.
    pub(super) fn read_tensor(&self, dtype: DType, io: &ToolIo<'_>) -> Result<HostTensor, Diag> {
        let tensor = self.read_stored(io)?;
        Ok(if dtype == DType::Float4E2M1 { tensor.unpack_pairs() } else { tensor })
    }
    fn read_stored(&self, io: &ToolIo<'_>) -> Result<HostTensor, Diag> {
        let (mut file, size) =
            open_file(&io.resolve_path(&self.path)).map_err(|error| errors::cannot_read(&self.path, &error))?;
        let tensor = match self.kind {
            DataFormat::Npy => npy::read_npy(&mut file, size),
            DataFormat::Safetensors => safetensors::read_safetensors(&mut file, size, self.entry.as_deref()),
        };
        tensor.map_err(|error| match error {
            ReadError::Io(error) => errors::cannot_read(&self.path, &error),
            ReadError::Damaged(error) => self.locate_error(errors::DAMAGED, error),
            ReadError::Entry(error) => self.locate_error(errors::ENTRY, error),
        })
    }
    fn locate_error(&self, code: &'static str, error: DataError) -> Diag {
        let diag = Diag::global_error(code, message!("`{}`: {}", self.path, error.message));
        match error.note {
            Some(note) => diag.with_note(note),
            None => diag,
        }
    }
}

/// Opens a file to read; returns its length if it is a plain file. Others, such as pipes and devices, show their length
/// by ending.
fn open_file(path: &Path) -> std::io::Result<(std::fs::File, Option<u64>)> {
    let file = std::fs::File::open(path)?;
    let found = file.metadata()?;
    if found.is_dir() {
        return Err(std::io::ErrorKind::IsADirectory.into());
    }
    Ok((file, found.is_file().then_some(found.len())))
}

impl std::fmt::Display for DataFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = visible::escape_line(&self.path);
        match &self.entry {
            Some(entry) => write!(f, "{path}:{}", visible::escape_line(entry)),
            None => f.write_str(&path),
        }
    }
}
