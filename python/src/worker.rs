//! Work without the interpreter: releases the GIL, lets Ctrl-C interrupt, and turns a panic into an exception.

use hostir_tool_support::process_limits::{build_thread_pool, start_parallel_work};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rayon::ThreadPool;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

/// The time between two looks for signals.
const SIGNALS: Duration = Duration::from_millis(20);

/// The place and words of the last panic of this module's threads.
static PANIC: Mutex<String> = Mutex::new(String::new());

/// The process of rayon's global threads: the first one. A fork does not have them.
static FIRST_PROCESS: OnceLock<u32> = OnceLock::new();

/// Whether rayon's global threads have been started.
static HAS_THREADS: Mutex<bool> = Mutex::new(false);

/// The threads of a forked process.
static FORKED_POOL: Mutex<Option<ProcessPool>> = Mutex::new(None);

/// Threads and the process that has them.
#[derive(Clone, Copy)]
struct ProcessPool {
    process: u32,
    pool: &'static ThreadPool,
}

/// Remembers the process that imports this module.
pub(crate) fn note_process() {
    FIRST_PROCESS.get_or_init(std::process::id);
}

/// The threads for parallel work if this process is a fork, which has none of its parent's; `None` for the global ones,
/// which are started: left to itself, rayon panics where the system does not start all of them.
///
/// # Errors
/// `RuntimeError` if no thread can be started.
fn parallel_threads() -> PyResult<Option<&'static ThreadPool>> {
    let process = std::process::id();
    if FIRST_PROCESS.get().is_none_or(|first| *first == process) {
        let mut has_threads = HAS_THREADS.lock().unwrap_or_else(PoisonError::into_inner);
        if !*has_threads {
            start_parallel_work().map_err(|error| no_thread(&error))?;
            *has_threads = true;
        }
        return Ok(None);
    }
    let mut known = FORKED_POOL.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(own) = known.filter(|own| own.process == process) {
        return Ok(Some(own.pool));
    }
    let pool = build_thread_pool().map_err(|error| no_thread(&error))?;
    // A pool of the parent has no threads here for which its drop could wait.
    let pool = Box::leak(Box::new(pool));
    *known = Some(ProcessPool { process, pool });
    Ok(Some(pool))
}

/// Does work whose parallel parts run on the threads of this process.
fn run_on_threads<T: Send>(pool: Option<&ThreadPool>, work: impl FnOnce() -> T + Send) -> T {
    match pool {
        Some(pool) => pool.install(work),
        None => work(),
    }
}

/// Does parallel work without the interpreter, and waits for it.
///
/// # Errors
/// `RuntimeError` if no thread can be started.
pub(crate) fn run_in_parallel<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    let pool = parallel_threads()?;
    Ok(py.detach(|| run_on_threads(pool, work)))
}

/// Records panics instead of printing them: a library prints nothing. The hook belongs to this module's own copy of
/// Rust's runtime, so no other extension loses its own.
pub(crate) fn record_panics() {
    std::panic::set_hook(Box::new(|info| {
        *PANIC.lock().unwrap_or_else(PoisonError::into_inner) = info.to_string();
    }));
}

/// Does some work in a thread of its own, and gives its result. Meanwhile other Python threads run, and signals are
/// handled: when a handler raises, as that of Ctrl-C does, the exception is passed on at once, and the work, whose
/// result nobody gets, continues until it ends.
///
/// # Errors
/// What a signal's handler raises, and `RuntimeError` if the work panics.
pub(crate) fn run_detached<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let pool = parallel_threads()?;
    let (sender, receiver) = mpsc::sync_channel(1);
    let worker = thread::Builder::new().name("hostir".to_owned()).spawn(move || {
        // Nobody sees a partial result: the work changes only its own data.
        let _ = sender.send(catch_unwind(AssertUnwindSafe(|| run_on_threads(pool, work))));
    });
    let worker = worker.map_err(|error| no_thread(&error))?;
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
    // As in `run_detached`.
    py.detach(|| catch_unwind(AssertUnwindSafe(work))).map_err(|_| internal_error())
}

fn no_thread(error: &dyn Error) -> PyErr {
    PyRuntimeError::new_err(format!("cannot start a thread: {error}"))
}

fn internal_error() -> PyErr {
    let panic = PANIC.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let version = hostir_tool_support::VERSION;
    PyRuntimeError::new_err(format!(
        "internal error: {panic}\nThis is a bug in the Host IR toolchain, not in your program. Please report it with \
         the program (version {version})."
    ))
}
