//! `--fix`: repairs texts of programs in their files.

use crate::errors;
use crate::io::ToolIo;
use crate::render::DiagFormat;
use crate::source::NamedText;
use crate::staged::replace_file;
use hostir::diag::fix::{line_edits, list_edited};
use hostir::diag::message;
use hostir::diag::{Diag, codes};
use hostir::hir2::own_text;
use hostir::repair::{TextJudge, repair_text};
use hostir_grammar::read_log;

/// The limit of instructions of all ranks for a judge's proofs: a fix takes many of them.
pub const MOST_JUDGED: u64 = 200_000;

/// The text of a file whose statements can be edited in place.
///
/// # Errors
/// [`errors::CONFLICT`] if it is a log, or has a container on one line; `H0019` if it is no text.
pub fn editable_text(source: &NamedText) -> Result<&str, Diag> {
    let name = &source.name;
    let Ok(text) = std::str::from_utf8(&source.bytes) else {
        return Err(
            Diag::global_error("H0019", format!("{name} is not valid UTF-8")).with_note("save the file as UTF-8")
        );
    };
    match read_log(text).places {
        None => Ok(text),
        Some(_) => {
            let message = message!("`--fix` edits programs, but {} is a log or has a program on one line", name);
            Err(Diag::global_error(errors::CONFLICT, message)
                .with_note("write the program to a file first: `hir-opt LOG --container=N -o prog.hir`"))
        }
    }
}

/// Repairs a text as far as possible, and reports the changes.
pub fn repair_source(source: &NamedText, text: &str, judge: &mut dyn TextJudge) -> RepairedSource {
    let repaired = repair_text(text, judge);
    let edits = line_edits(text, &repaired.text);
    let rows = list_edited(text, &edits).into_iter().filter(|row| row.sign != ' ');
    let changes = rows.map(|row| format!("{}:{}: {} {}", source.name, row.number, row.sign, row.line.trim()));
    let changes = changes.collect();
    RepairedSource { text: repaired.text, fixes: repaired.applied.len(), changes }
}

/// A repaired text.
#[derive(Clone, Debug)]
pub struct RepairedSource {
    /// The text.
    pub text: String,
    /// The number of fixes.
    pub fixes: usize,
    /// The changed lines, each with its place.
    changes: Vec<String>,
}

impl RepairedSource {
    /// Lists the changed lines on standard error, unless that has JSON.
    pub fn report_changes(&self, tool: &str, name: &str, format: DiagFormat, io: &mut ToolIo<'_>) {
        if format == DiagFormat::Json {
            return;
        }
        self.changes.iter().for_each(|change| io.print_message(change));
        let count = match self.fixes {
            0 => "no fix can be".to_owned(),
            1 => "1 fix".to_owned(),
            fixes => format!("{fixes} fixes"),
        };
        io.print_message(&format!("{tool}: {count} applied to {name}"));
    }

    /// Writes the text to the file it was read from, if anything changed.
    ///
    /// # Errors
    /// [`errors::WRITE`] or [`errors::FOREIGN`] if that fails, or if the file is read-only.
    pub fn write_back(&self, path: &str, io: &ToolIo<'_>) -> Result<(), Diag> {
        if self.fixes == 0 {
            return Ok(());
        }
        replace_file(path, io.resolve_path(path), own_text(&self.text).as_bytes())
    }
}

/// Returns true if fixes for a list of diagnostics would be about a program's text.
pub fn is_about_text(source: &NamedText, diags: &[Diag]) -> bool {
    let has_places = diags.iter().any(|diag| diag.primary.is_some());
    !source.bytes.is_empty() && has_places && diags.iter().all(|diag| diag.code != codes::TIMEOUT)
}
