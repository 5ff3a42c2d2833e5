//! Limits that the system sets for a process: few threads, and the size of its files.
//!
//! A process that reaches them reports an ordinary error. Otherwise the library for parallel work would panic if its
//! threads cannot start, and the signal for a file that grows too large would end the process with its temporary files
//! in place.

use crate::errors;
use crate::signals::ignored_signals;
use hostir::diag::Diag;
use hostir::diag::message;
use rayon::{ThreadBuilder, ThreadPool, ThreadPoolBuilder};
use signal_hook::consts::SIGXFSZ;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// If the system allows more threads than this, it is not asked for the exact number.
const MANY: u64 = 4096;

/// Prepares this process for limits, before all other work: writes beyond the limit of a file's size become errors, and
/// parallel work takes as many threads as can start.
pub fn prepare_process() {
    if ignored_signals() >> (SIGXFSZ - 1) & 1 == 0 {
        // With a handler the write itself fails. Without one the process ends as it always did.
        let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
    }
    if are_threads_limited() && start_parallel_work().is_err() {
        // This thread does the work alone. If the library was used before (the caller was late), it has threads.
        let _ = ThreadPoolBuilder::new().num_threads(1).use_current_thread().build_global();
    }
}

/// Starts the threads for parallel work of this process: at most half of those that can start, so that others find
/// some. Does nothing if there are threads already.
///
/// # Errors
/// If no thread can be started; it may be tried again.
pub fn start_parallel_work() -> io::Result<()> {
    let reserve = ThreadReserve::for_parallel_work()?;
    let pool = ThreadPoolBuilder::new().num_threads(reserve.count.div_ceil(2));
    let _ = pool.spawn_handler(|thread| reserve.run(thread)).build_global();
    Ok(())
}

/// The same with threads of their own: a fork has none of its parent's.
///
/// # Errors
/// If no thread can be started.
pub fn build_thread_pool() -> io::Result<ThreadPool> {
    let reserve = ThreadReserve::for_parallel_work()?;
    let pool = ThreadPoolBuilder::new().num_threads(reserve.count.div_ceil(2));
    pool.spawn_handler(|thread| reserve.run(thread)).build().map_err(io::Error::other)
}

/// The error for a thread that the system does not start.
pub fn cannot_start_thread(purpose: &str, error: &io::Error) -> Diag {
    Diag::global_error(errors::START, message!("cannot start a thread {}: {}", purpose, error))
        .with_note("raise the limit of processes and threads (`ulimit -u`, or `pids.max` of the control group)")
}

/// Returns true if the user or the control group may have few threads.
fn are_threads_limited() -> bool {
    let of_user = rustix::process::getrlimit(rustix::process::Resource::Nproc).current;
    let of_group = std::fs::read_to_string("/proc/self/cgroup").ok().and_then(|groups| {
        let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
        let limit = std::fs::read_to_string(format!("/sys/fs/cgroup{path}/pids.max")).ok()?;
        limit.trim().parse::<u64>().ok()
    });
    [of_user, of_group].into_iter().flatten().any(|limit| limit <= MANY)
}

/// The default number of threads of parallel work.
fn rayon_threads() -> usize {
    let set = std::env::var("RAYON_NUM_THREADS").ok().and_then(|number| number.parse().ok());
    set.filter(|number| *number > 0).unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from))
}

/// Threads that wait for work, or for the end of the reserve.
///
/// They start before the library for parallel work gets them: another process of the user may take the free ones at any
/// moment, and threads that the library cannot start are a panic.
struct ThreadReserve {
    count: usize,
    work: Sender<ThreadBuilder>,
    /// The reason that there are not more.
    error: Option<io::Error>,
}

impl ThreadReserve {
    /// Starts as many threads as can start, up to `most`.
    fn start(most: usize) -> Self {
        let (work, waiting) = mpsc::channel::<ThreadBuilder>();
        let waiting = Arc::new(Mutex::new(waiting));
        let mut error = None;
        let started = (0..most).map_while(|_| {
            let waiting = waiting.clone();
            let wait = move || {
                let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
                if let Ok(worker) = next {
                    worker.run();
                }
            };
            thread::Builder::new().spawn(wait).map_err(|failed| error = Some(failed)).ok()
        });
        let count = started.count();
        Self { count, work, error }
    }

    /// Twice the default number of threads of parallel work, or those that can start.
    ///
    /// # Errors
    /// If there is none.
    fn for_parallel_work() -> io::Result<Self> {
        let mut reserve = Self::start(2 * rayon_threads());
        match reserve.error.take().filter(|_| reserve.count == 0) {
            Some(error) => Err(error),
            None => Ok(reserve),
        }
    }

    /// Lets one of the threads be a worker.
    fn run(&self, worker: ThreadBuilder) -> io::Result<()> {
        self.work.send(worker).map_err(|_| io::ErrorKind::WouldBlock.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Unneeded threads end, and those of a pool do its work.
    #[test]
    fn reserved_threads_are_workers() {
        assert_eq!(ThreadReserve::start(0).count, 0);
        let reserve = ThreadReserve::start(4);
        assert_eq!(reserve.count, 4);
        let pool = ThreadPoolBuilder::new().num_threads(2).spawn_handler(|worker| reserve.run(worker)).build().unwrap();
        drop(reserve);
        assert_eq!(pool.install(rayon::current_num_threads), 2);
        assert_eq!(pool.install(|| rayon::join(|| 1, || 2)), (1, 2));
    }
}
