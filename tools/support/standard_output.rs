//! The standard output of the process, which may have been closed when it began (`>&-` in a shell).
//!
//! Rust's runtime opens `/dev/null` in the place of a closed standard stream, so that no file that is opened later gets
//! its number. Code that runs after that cannot distinguish it from a `/dev/null` of the user, and writes to it seem to
//! succeed. So a function checks before the runtime starts.

use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};

static STDOUT: AtomicBool = AtomicBool::new(false);

/// Runs before `main`, with the other initializers of the C library.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "there is no other way to run before Rust's runtime")]
// SAFETY: the C library calls what stands in this section once, before `main`, with arguments that a C function may
// leave alone. The function makes one system call and stores a flag: it needs nothing of the runtime.
#[unsafe(link_section = ".init_array")]
#[used]
static LOOK: extern "C" fn() = check_stdout;

#[cfg(target_os = "linux")]
extern "C" fn check_stdout() {
    let found = rustix::fs::access("/proc/self/fd/1", rustix::fs::Access::EXISTS);
    // Links to closed or unnamed ends exist too; without `/proc` nothing is known.
    let has_proc = rustix::fs::access("/proc/self/fd", rustix::fs::Access::EXISTS).is_ok();
    STDOUT.store(has_proc && found == Err(rustix::io::Errno::NOENT), Ordering::Relaxed);
}

/// Whether standard output was closed.
pub fn is_stdout_closed() -> bool {
    STDOUT.load(Ordering::Relaxed)
}

/// The error of writing to a closed stream.
pub fn closed_error() -> io::Error {
    rustix::io::Errno::BADF.into()
}

/// A stream that is closed.
pub struct ClosedStream;

impl Write for ClosedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() { Ok(0) } else { Err(closed_error()) }
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A copy of the process's standard output.
///
/// # Errors
/// If it was closed when the process began.
pub fn duplicate_stdout() -> io::Result<std::fs::File> {
    if is_stdout_closed() {
        return Err(closed_error());
    }
    Ok(io::stdout().as_fd().try_clone_to_owned()?.into())
}
