//! The kernels of a program that its text imports from other files.

use super::ids::UnitId;

/// A line `import a, b from "file.hir"`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportLine {
    /// The path, as the text writes it.
    pub path: Box<str>,
    /// The imported names.
    pub names: Vec<Box<str>>,
}

/// The imports of a text. A program that an edit has changed imports nothing: its kernels are its own, since the files
/// may not have what it has now.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Imports {
    /// The lines of the text, for all its programs.
    pub lines: Vec<ImportLine>,
    /// The units of this program that are imported.
    pub units: Vec<UnitId>,
}
