//! Signals that a test inherits, and its children do not.

use std::sync::{Arc, Once};

/// Lets children begin with the signals of a process that a person starts. They ignore what their parent ignores:
/// SIGINT in the background of a script, SIGHUP under `nohup`. A handler is not in force in a new program, so one
/// that does nothing keeps this process as it was and its children free of it.
pub(crate) fn children_heed_signals() {
    static DONE: Once = Once::new();
    DONE.call_once(|| {
        use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
        let ignored = inherited_ignored_signals();
        for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGCHLD] {
            if ignored >> (signal - 1) & 1 == 1 {
                signal_hook::flag::register(signal, Arc::default()).unwrap();
            }
        }
    });
}

/// A bit for each signal, from 1 up, that this process ignores.
fn inherited_ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
