//! What is not in its place yet, for a signal that ends the process: Ctrl-C leaves no temporary files.

use crate::launch::children::ignored;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// Temporary files and new folders, in the order in which they were made.
static PENDING: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static WATCH: Once = Once::new();

/// Notes what is about to be made.
pub(super) fn add(path: PathBuf) {
    WATCH.call_once(watch);
    pending().push(path);
}

/// Forgets what was moved or removed, or stays.
pub(super) fn forget(path: &Path) {
    pending().retain(|known| known != path);
}

/// Ends the process at once, without what libraries do at its end: those of the CUDA driver and of NCCL wait
/// for work that may never end.
pub(crate) fn end_process(status: i32) -> ! {
    // Nothing more is noted or moved while this ends the process.
    let pending = pending();
    remove(&pending);
    signal_hook::low_level::exit(status)
}

fn remove(pending: &[PathBuf]) {
    for path in pending.iter().rev() {
        let _ = std::fs::remove_file(path).or_else(|_| std::fs::remove_dir(path));
    }
}

fn pending() -> MutexGuard<'static, Vec<PathBuf>> {
    PENDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Signals that would end the process remove what is pending first. Those that were ignored when the process
/// began stay so. Without a thread for it there is no watch: then signals do what they always do.
fn watch() {
    let ignored = ignored();
    let numbers = [SIGINT, SIGTERM, SIGHUP];
    let numbers = numbers.into_iter().filter(|number| ignored >> (number - 1) & 1 == 0);
    let Ok(mut signals) = Signals::new(numbers.collect::<Vec<_>>()) else { return };
    let _ = std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            // Nothing more is noted or moved while this ends the process.
            let pending = pending();
            remove(&pending);
            let _ = emulate_default_handler(signal);
        }
    });
}
