//! Programs as processes: the real binaries of this build.

use super::{CRASHED, Finished, Invocation, NOT_FOUND};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Runs the binary `name` that stands beside this test in the build folder.
pub(super) fn run(name: &str, args: &[String], invocation: Invocation<'_>) -> Finished {
    let Some(path) = binary(name) else {
        let message = format!("`{name}` is not built: run `cargo build --workspace` with this profile first");
        return Finished::failure(NOT_FOUND, &message);
    };
    let mut command = Command::new(path);
    command.args(args).current_dir(&invocation.context.scratch).stdin(Stdio::piped());
    // As in process: what a test does not say itself is nowhere.
    command.env_clear();
    for (name, value) in &invocation.env {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    start(command, invocation).unwrap_or_else(|error| Finished::failure(NOT_FOUND, &format!("{name}: {error}")))
}

/// `target/<profile>/name`; this test is `target/<profile>/deps/lit-<hash>`.
fn binary(name: &str) -> Option<PathBuf> {
    let this = std::env::current_exe().ok()?;
    let path = this.parent()?.parent()?.join(name);
    path.exists().then_some(path)
}

fn start(mut command: Command, invocation: Invocation<'_>) -> std::io::Result<Finished> {
    let (mut reader, writer) = std::io::pipe()?;
    command.stderr(if invocation.merge { Stdio::from(writer.try_clone()?) } else { Stdio::piped() });
    command.stdout(writer);
    let mut child = command.spawn()?;
    drop(command);
    let feeder = child.stdin.take().map(|mut pipe| {
        let bytes = invocation.stdin;
        std::thread::spawn(move || pipe.write_all(&bytes))
    });
    let errors = child.stderr.take().map(|mut pipe| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            pipe.read_to_end(&mut bytes).map(|_| bytes)
        })
    });
    let mut out = Vec::new();
    reader.read_to_end(&mut out)?;
    let code = wait(&mut child)?;
    // A program may end without reading all of its input; that is its own affair.
    let _ = feeder.map(std::thread::JoinHandle::join);
    let err = errors.and_then(|thread| thread.join().ok()).transpose()?.unwrap_or_default();
    Ok(Finished { code, out, err })
}

fn wait(child: &mut Child) -> std::io::Result<i32> {
    let status = child.wait()?;
    Ok(match status.code() {
        Some(101) | None => CRASHED,
        Some(code) => code,
    })
}
