//! Writes results: all of a file or nothing.

use crate::io::Io;
use crate::run::errors;
use hostir::diag::Diag;
use std::fs;
use std::io;
use std::path::Path;

/// Writes `text` to `path`; `-` is standard output. A file appears whole or not at all.
///
/// # Errors
/// [`errors::WRITE`] if that fails.
pub(super) fn write(io: &mut Io<'_>, path: &str, text: &str) -> Result<(), Diag> {
    if path == "-" {
        let written = io.stdout.write_all(text.as_bytes()).and_then(|()| io.stdout.flush());
        return match written {
            // A reader that went away (`| head`) is no error.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(errors::cannot_write("standard output", &error))
            }
            _ => Ok(()),
        };
    }
    replace(&io.path(path), text).map_err(|error| errors::cannot_write(path, &error))
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    // What is no plain file (`/dev/null`, a pipe) cannot be renamed onto.
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return fs::write(path, text);
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let result = fs::write(&temporary, text).and_then(|()| fs::rename(&temporary, path));
    if result.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    result
}
