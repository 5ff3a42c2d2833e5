//! Writes results: all of a file or nothing.

use hostir::diag::Diag;
use hostir_tool_support::errors;
use hostir_tool_support::io::ToolIo;
use hostir_tool_support::staged::write_whole;
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
