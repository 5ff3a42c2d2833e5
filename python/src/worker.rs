//! Work off the interpreter: the GIL is released, Ctrl-C interrupts, and a panic becomes an exception.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// The time between two looks for signals.
const SIGNALS: Duration = Duration::from_millis(20);

/// The place and words of the last panic of this module's threads.
static PANIC: Mutex<String> = Mutex::new(String::new());

/// Notes panics in the place of writing them: a library writes nothing. The hook is that of this module's own copy of
/// Rust's runtime, so no other extension loses its own.
pub(crate) fn keep_panics_quiet() {
    std::panic::set_hook(Box::new(|info| {
        *PANIC.lock().unwrap_or_else(PoisonError::into_inner) = info.to_string();
    }));
}

/// Does some work in a thread of its own, and gives its result. Meanwhile other Python threads run, and signals are
/// handled: when a handler raises, as that of Ctrl-C does, the exception is passed on at once, and the work, whose
/// result nobody gets, goes on until it ends.
///
/// # Errors
/// What a signal's handler raises, and `RuntimeError` if the work panics.
pub(crate) fn run_aside<T: Send + 'static>(py: Python<'_>, work: impl FnOnce() -> T + Send + 'static) -> PyResult<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let worker = thread::Builder::new().name("hostir".to_owned()).spawn(move || {
        // Nobody sees what the work leaves half done: all that it changes is its own.
        let _ = sender.send(catch_unwind(AssertUnwindSafe(work)));
    });
    let worker = worker.map_err(|error| PyRuntimeError::new_err(format!("cannot start a thread: {error}")))?;
    let receiver = Mutex::new(receiver);
    loop {
        let received = py.detach(|| {
            let receiver = receiver.lock().unwrap_or_else(PoisonError::into_inner);
            receiver.recv_timeout(SIGNALS)
        });
        match received {
            Ok(Ok(result)) => {
                py.detach(|| worker.join()).ok();
                return Ok(result);
            }
            Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => return Err(internal_error()),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
        }
    }
}

/// Does some short work in this thread, without the interpreter.
///
/// # Errors
/// `RuntimeError` if the work panics.
pub(crate) fn run_here<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    // As in `run_aside`.
    py.detach(|| catch_unwind(AssertUnwindSafe(work))).map_err(|_| internal_error())
}

fn internal_error() -> PyErr {
    let panic = PANIC.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let version = hostir_tool_support::VERSION;
    PyRuntimeError::new_err(format!(
        "internal error: {panic}\nThis is a bug in the Host IR toolchain, not in your program. Please report it with \
         the program (version {version})."
    ))
}
