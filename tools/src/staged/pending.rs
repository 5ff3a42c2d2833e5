//! What is not in its place yet, for a signal that ends the process: Ctrl-C leaves no temporary files.

use crate::launch::children::ignored;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

/// Temporary files and new folders, in the order in which they were made.
static PENDING: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static WATCH: Once = Once::new();
/// How long the exit of a process may take.
const EXIT: Duration = Duration::from_secs(2);

/// Notes what is about to be made.
pub(super) fn add(path: PathBuf) {
    WATCH.call_once(watch);
    pending().push(path);
}

/// Forgets what was moved or removed, or stays.
pub(super) fn forget(path: &Path) {
    pending().retain(|known| known != path);
}

/// Ends the process, whatever its other threads do.
pub(crate) fn end_process(status: i32) -> ! {
    // Nothing more is noted or moved while this ends the process.
    let pending = pending();
    remove(&pending);
    end_soon(status);
    std::process::exit(status)
}

/// Sees to it that a process that is about to exit does. What libraries do at its end has a moment (the driver and
/// NCCL write what they have to say), but may wait for work that never ends.
pub(crate) fn end_soon(status: i32) {
    let end = move || {
        std::thread::sleep(EXIT);
        signal_hook::low_level::exit(status)
    };
    // Without a thread for it the exit is not watched.
    let _ = std::thread::Builder::new().name("exit".to_owned()).spawn(end);
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
