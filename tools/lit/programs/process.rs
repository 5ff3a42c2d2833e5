//! Programs as processes.

use super::call::{CRASHED, Finished, Invocation, NOT_FOUND};
use crate::interrupts::end_group;
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The status with which a program in Rust ends that panicked.
const PANICKED: i32 = 101;
/// The longest pause between two looks at a process whose time is limited.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// Runs the program in `path`, with nothing in its environment but what the test says.
pub(super) fn run_file(path: &Path, name: &str, args: &[String], invocation: Invocation<'_>) -> Finished {
    let mut command = Command::new(path);
    command.args(args).current_dir(&invocation.cwd).stdin(Stdio::piped());
    command.env_clear().envs(invocation.env.iter());
    let merge = invocation.merge;
    let own = super::OWN_TOOLS.contains(&name);
    match run_command(command, invocation) {
        Ok(mut finished) => {
            let panicked = own && finished.code == PANICKED;
            finished.code = if panicked { CRASHED } else { finished.code };
            finished
        }
        Err(error) => Finished::failure(NOT_FOUND, &format!("{}: {error}", path.display())).merged(merge),
    }
}

fn run_command(mut command: Command, invocation: Invocation<'_>) -> io::Result<Finished> {
    let deadline = invocation.context.deadline;
    if deadline.is_some() {
        // The processes that it starts can be ended with it.
        command.process_group(0);
    }
    let (reader, writer) = io::pipe()?;
    command.stderr(if invocation.merge { Stdio::from(writer.try_clone()?) } else { Stdio::piped() });
    command.stdout(writer);
    let mut child = command.spawn()?;
    drop(command);
    let groups = deadline.map(|_| &invocation.context.groups);
    if let Some(groups) = groups {
        groups.insert(child.id());
    }
    let feeder = child.stdin.take().map(|mut pipe| {
        let bytes = invocation.stdin;
        std::thread::spawn(move || pipe.write_all(&bytes))
    });
    let output = read_all(reader);
    let errors = child.stderr.take().map(read_all);
    let status = wait(&mut child, deadline);
    if let Some(groups) = groups {
        groups.remove(child.id());
    }
    let status = status?;
    let out = join(Some(output))?;
    // A program may end without reading all of its input; that is its own affair.
    let _ = feeder.map(JoinHandle::join);
    let mut err = join(errors)?;
    let code = status.unwrap_or_else(|| {
        let finished = Finished::timed_out();
        err.extend(finished.err);
        finished.code
    });
    Ok(Finished { code, out, err })
}

fn read_all(mut stream: impl Read + Send + 'static) -> JoinHandle<io::Result<Vec<u8>>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).map(|_| bytes)
    })
}

fn join(thread: Option<JoinHandle<io::Result<Vec<u8>>>>) -> io::Result<Vec<u8>> {
    Ok(thread.and_then(|thread| thread.join().ok()).transpose()?.unwrap_or_default())
}

/// The exit status, that of a signal below 0; `None` if the process was ended at the deadline.
fn wait(child: &mut Child, deadline: Option<Instant>) -> io::Result<Option<i32>> {
    let mut pause = Duration::from_millis(1);
    let status = loop {
        let Some(deadline) = deadline else { break child.wait()? };
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() >= deadline {
            if end_group(child.id()).is_err() {
                child.kill()?;
            }
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    };
    Ok(Some(status.code().or_else(|| status.signal().map(|signal| -signal)).unwrap_or(CRASHED)))
}
