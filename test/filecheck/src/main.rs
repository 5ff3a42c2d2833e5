//! The command `filecheck`: compares an input with the directives of a check file.

use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::process::ExitCode;

use filecheck_rs::{run_command, split_arguments};

fn main() -> ExitCode {
    let variable = std::env::var_os("FILECHECK_OPTS").unwrap_or_default();
    let mut args = split_arguments(&variable.to_string_lossy());
    if io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        args.insert(0, "--color".to_owned());
    }
    args.extend(std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()));
    let finished = run_command(&args, &mut read_file);
    // If nobody reads it, the exit status still counts.
    let _closed = io::stdout().write_all(finished.stdout.as_bytes());
    let _closed = io::stderr().write_all(finished.stderr.as_bytes());
    ExitCode::from(finished.status)
}

/// Reads a file, or standard input for `-`.
fn read_file(path: &str) -> io::Result<Vec<u8>> {
    if path != "-" {
        return std::fs::read(path);
    }
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes)?;
    Ok(bytes)
}
