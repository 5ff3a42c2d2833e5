//! Guards access to CUDA's libraries during the life of the process, and ends it before exit.
//!
//! `exit` runs the exit handlers and destructors of all libraries that a process has opened. A thread that is inside of
//! `cublasLtDestroy`, `ncclCommDestroy` or `cuMemFree` meanwhile uses objects that they have destroyed, and crashes. So
//!
//! - every entry of this crate that may call CUDA's libraries holds a [`LibraryAccess`],
//! - work that may outlive the call that began it runs in a [`BackgroundThread`],
//! - [`finish_library_calls`] waits for both, for a limited time, and ends all access. From then on entries return an
//!   error, values that own handles are leaked, and tables of functions call nothing ([`is_closed`]).
//!
//! Programs call [`finish_library_calls`] before they exit. In the process of a caller, an exit handler does
//! ([`register_exit_handler`]). Exit handlers run in the reverse order of their registration: it is registered after a
//! library has been opened, and so runs before the library's own.
//!
//! A forked child has none of its parent's threads, and cannot use the parent's handles: it gets no access.
#![allow(unsafe_code, reason = "registers a C function")]

use crate::sys::Error;
use crate::sys::context::relax_capture_mode;
use crate::sys::library::{close_libraries, is_closed};
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The time that the exit of a caller's process waits for calls that have begun.
const EXIT_LIMIT: Duration = Duration::from_secs(5);
/// The time between two polls of calls that have begun.
const PAUSE: Duration = Duration::from_millis(1);

/// The process that was the first to get access; 0 if none did.
static OWNER: AtomicU32 = AtomicU32::new(0);
/// The number of values of [`LibraryAccess`].
static CALLS: AtomicUsize = AtomicUsize::new(0);
/// True once [`finish_library_calls`] has reached its time limit: it does not wait a second time.
static EXPIRED: AtomicBool = AtomicBool::new(false);
/// Background threads that nobody has joined.
static THREADS: Mutex<Vec<JoinHandle<()>>> = Mutex::new(Vec::new());

/// Permission to call CUDA's libraries. The process does not run exit handlers while one exists, for a limited time.
#[derive(Debug)]
pub(crate) struct LibraryAccess(());

impl LibraryAccess {
    /// Gets access for the current call.
    ///
    /// # Errors
    /// [`Error::NoAccess`] if the process is exiting, or is a fork of the one that used the libraries first.
    pub(crate) fn acquire() -> Result<Self, Error> {
        let process = std::process::id();
        let owner = OWNER.compare_exchange(0, process, Ordering::AcqRel, Ordering::Acquire);
        if owner.is_err_and(|owner| owner != process) {
            return Err(Error::NoAccess(
                "this process is a fork of one that has used CUDA's libraries, which do not work in it",
            ));
        }
        CALLS.fetch_add(1, Ordering::SeqCst);
        let access = Self(());
        // `access` gives its count back.
        if is_closed() { Err(Error::NoAccess("the process is exiting")) } else { Ok(access) }
    }

    /// Does work that calls no library of CUDA and may take long: an exit of the process does not wait for it. The
    /// caller holds access, which its calls after the work may have lost.
    pub(crate) fn suspend<T>(work: impl FnOnce() -> T) -> T {
        let held = CALLS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |calls| calls.checked_sub(1)).is_ok();
        let result = work();
        CALLS.fetch_add(usize::from(held), Ordering::SeqCst);
        result
    }
}

impl Drop for LibraryAccess {
    fn drop(&mut self) {
        CALLS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Returns true in a fork of the process that has used CUDA's libraries.
fn is_forked() -> bool {
    let owner = OWNER.load(Ordering::Acquire);
    owner != 0 && owner != std::process::id()
}

/// A thread that may outlive the call that starts it.
#[derive(Clone, Debug)]
pub(crate) struct BackgroundThread(Arc<ThreadEnd>);

/// The end of a background thread.
#[derive(Debug, Default)]
struct ThreadEnd {
    outcome: Mutex<Option<Outcome>>,
    changed: Condvar,
}

/// The end of a background thread: its work returned, or it panicked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Returned,
    Panicked,
}

impl BackgroundThread {
    /// Starts a thread for work. Returns `None` if the thread cannot start; the work is then leaked, because dropping
    /// what it owns may wait for a device.
    pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Option<Self> {
        static FIRST: Once = Once::new();
        register_exit_handler(&FIRST);
        let work = Arc::new(Mutex::new(Some(work)));
        let (own, end) = (work.clone(), Arc::new(ThreadEnd::default()));
        let reported = EndReport(end.clone());
        let mut threads = lock_threads();
        let started = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let mut reported = reported;
            if let Some(work) = take_work(&own) {
                relax_capture_mode();
                work();
            }
            reported.finish(Outcome::Returned);
        });
        match started {
            Ok(thread) => {
                // Those that have ended need no watch.
                threads.retain(|thread| !thread.is_finished());
                threads.push(thread);
                Some(Self(end))
            }
            Err(_) => {
                drop(threads);
                std::mem::forget(take_work(&work));
                None
            }
        }
    }

    /// Waits for the end, at most for `limit`. Returns true if the work has returned.
    pub(crate) fn wait(&self, limit: Duration) -> bool {
        let outcome = self.0.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.0.changed.wait_timeout_while(outcome, limit, |outcome| outcome.is_none());
        *waited.unwrap_or_else(PoisonError::into_inner).0 == Some(Outcome::Returned)
    }
}

/// Reports the end of a thread, also of one that panics.
struct EndReport(Arc<ThreadEnd>);

impl EndReport {
    fn finish(&mut self, outcome: Outcome) {
        self.0.outcome.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(outcome);
        self.0.changed.notify_all();
    }
}

impl Drop for EndReport {
    fn drop(&mut self) {
        self.finish(Outcome::Panicked);
    }
}

fn take_work<W>(work: &Mutex<Option<W>>) -> Option<W> {
    work.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn lock_threads() -> MutexGuard<'static, Vec<JoinHandle<()>>> {
    THREADS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until all background threads have ended, at most until `deadline`. Returns true if they have.
pub(crate) fn join_background_threads(deadline: Instant) -> bool {
    loop {
        let mut threads = lock_threads();
        let (ended, rest): (Vec<_>, Vec<_>) = threads.drain(..).partition(JoinHandle::is_finished);
        *threads = rest;
        let is_last = threads.is_empty();
        drop(threads);
        // Destructors of a library's thread-local variables run last.
        for thread in ended {
            // [`BackgroundThread::wait`] reports a panic.
            let _ = thread.join();
        }
        if is_last || Instant::now() >= deadline {
            return is_last;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Ends the use of CUDA's libraries by this crate, before the process exits: waits until background work (the release
/// of resources, the teardown of failed runs) and calls of other threads have ended, at most for `limit`, and refuses
/// all calls from then on. Returns true if no thread of this crate is inside of a library. Otherwise the process must
/// not run exit handlers: it ends by `_exit`.
///
/// Does nothing in a process that has not used the libraries, or is a fork of one that has.
pub fn finish_library_calls(limit: Duration) -> bool {
    if OWNER.load(Ordering::Acquire) == 0 || is_forked() {
        return true;
    }
    let limit = if EXPIRED.load(Ordering::SeqCst) { Duration::ZERO } else { limit };
    let deadline = Instant::now() + limit;
    let joined = join_background_threads(deadline);
    close_libraries();
    while CALLS.load(Ordering::SeqCst) > 0 && Instant::now() < deadline {
        std::thread::sleep(PAUSE);
    }
    let finished = joined && CALLS.load(Ordering::SeqCst) == 0;
    EXPIRED.store(!finished, Ordering::SeqCst);
    finished
}

/// Registers the exit handler once for `site`. A handler that is registered after a library was opened, or has made
/// objects with static lifetime, runs before their destructors: so several places of the code register it.
pub(crate) fn register_exit_handler(site: &Once) {
    site.call_once(|| {
        // SAFETY: the handler is a function of this library, which stays loaded as long as threads of it may run.
        // Without memory for one more handler nothing is registered.
        let _ = unsafe { libc::atexit(finish_at_exit) };
    });
}

/// The exit handler. It never ends the process: what the caller's own handlers do is theirs.
extern "C" fn finish_at_exit() {
    let waited_before = EXPIRED.load(Ordering::SeqCst);
    if !finish_library_calls(EXIT_LIMIT) && !waited_before {
        let seconds = EXIT_LIMIT.as_secs();
        // Nobody is left to tell if this fails.
        let _ = writeln!(
            std::io::stderr(),
            "hostir: a call of CUDA's libraries has not returned {seconds} s after the exit of the process began; \
             the exit goes on without it"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_thread_that_returns_has_ended() {
        let thread = BackgroundThread::spawn("test", || {}).unwrap();
        assert!(thread.wait(Duration::from_secs(60)));
        let (go_on, wait) = mpsc::channel::<()>();
        let thread = BackgroundThread::spawn("test", move || wait.recv().unwrap_or_default()).unwrap();
        assert!(!thread.wait(Duration::from_millis(5)));
        drop(go_on);
        assert!(thread.wait(Duration::from_secs(60)));
    }

    #[test]
    fn a_thread_that_panics_has_not_returned() {
        let thread = BackgroundThread::spawn("test", || panic!("on purpose")).unwrap();
        assert!(!thread.wait(Duration::from_secs(60)));
        assert_eq!(*thread.0.outcome.lock().unwrap(), Some(Outcome::Panicked));
    }
}
