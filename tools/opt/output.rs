//! Writes results: all of a file or nothing; reports what concerns no text.

use super::cli::OptArgs;
use hostir::diag::Diag;
use hostir_tool_support::errors;
use hostir_tool_support::io::ToolIo;
use hostir_tool_support::source::NamedText;
use hostir_tool_support::staged::{StagedFiles, write_whole};
use hostir_tool_support::status::ToolStatus;
use std::io;

/// Writes `text` to `path`; `-` is standard output. A file is written completely or not at all.
///
/// # Errors
/// [`errors::WRITE`] or [`errors::FOREIGN`] if that fails.
pub(super) fn write_output(io: &mut ToolIo<'_>, path: &str, text: &str) -> Result<(), Diag> {
    if path == "-" {
        let written = io.stdout.write_all(text.as_bytes()).and_then(|()| io.stdout.flush());
        return match written {
            // A closed reader (`| head`) is no error.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(errors::cannot_write("standard output", &error))
            }
            _ => Ok(()),
        };
    }
    write_whole(path, io.resolve_path(path), text.as_bytes())
}

/// Writes a text that comes in pieces to `path`, as [`write_output`] does; `print` hands them over.
///
/// # Errors
/// [`errors::WRITE`] or [`errors::FOREIGN`] if that fails.
pub(super) fn write_pieces(
    io: &mut ToolIo<'_>,
    path: &str,
    print: impl FnOnce(&mut dyn FnMut(&str)),
) -> Result<(), Diag> {
    if path == "-" {
        let written = write_each(&mut *io.stdout, print);
        return match written {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(errors::cannot_write("standard output", &error))
            }
            _ => Ok(()),
        };
    }
    let mut staged = StagedFiles::default();
    staged.write_file(path, &io.resolve_path(path), |file| write_each(file, print))?;
    staged.commit()
}

/// Writes pieces until one cannot be written.
fn write_each(out: &mut dyn io::Write, print: impl FnOnce(&mut dyn FnMut(&str))) -> io::Result<()> {
    let mut written = Ok(());
    print(&mut |piece| {
        if written.is_ok() {
            written = out.write_all(piece.as_bytes());
        }
    });
    written.and_then(|()| out.flush())
}

/// Reports a diagnostic about no text and gives back the status.
pub(super) fn report_diag(io: &mut ToolIo<'_>, cli: &OptArgs, diag: Diag) -> ToolStatus {
    let status = errors::status_of_code(diag.code);
    io.report(cli.format, &NamedText::default(), &[diag]);
    status
}
