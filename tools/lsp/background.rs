//! Work that no answer waits for, out of the way of the thread that answers.

use rayon::{ThreadPool, ThreadPoolBuilder};

/// How much later than others a thread of the background gets a processor.
const NICENESS: i32 = 10;

/// The threads of the background: one less than the machine has processors, so that an edit finds one free, and of a
/// low priority.
///
/// # Errors
/// If the system starts no thread.
pub fn start_threads() -> std::io::Result<ThreadPool> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = ThreadPoolBuilder::new().num_threads(processors.saturating_sub(1).max(1));
    let named = threads.thread_name(|number| format!("background {number}"));
    named.start_handler(|_| lower_priority()).build().map_err(std::io::Error::other)
}

/// Gives the calling thread a low priority. Where the system knows only priorities of processes, it keeps its own.
fn lower_priority() {
    #[cfg(target_os = "linux")]
    {
        // A thread that keeps its priority is no failure.
        let _ = rustix::process::setpriority_process(None, NICENESS);
    }
}
