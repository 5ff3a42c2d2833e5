//! The end of a run by a signal: what tests started is ended, and their files are removed.
//!
//! A process whose time is limited has a process group of its own, so that all of it can be ended; the terminal's
//! signals do not reach it there.

use hostir_tool_support::signals::ignored_signals;
use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// The process groups that tests have started and that go on.
#[derive(Clone, Default, Debug)]
pub struct ProcessGroups(Arc<Mutex<BTreeSet<u32>>>);

impl ProcessGroups {
    /// Takes a group that has started.
    pub(crate) fn insert(&self, group: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(group);
    }

    /// Forgets a group that has ended.
    pub(crate) fn remove(&self, group: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&group);
    }

    /// Ends all processes of all groups.
    fn end_all(&self) {
        for group in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            // It may have ended by itself.
            let _ = end_group(*group);
        }
    }
}

/// Ends all processes of a group.
///
/// # Errors
/// If there is no such group.
pub(crate) fn end_group(group: u32) -> io::Result<()> {
    let group = i32::try_from(group).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::NotFound)?;
    kill_process_group(group, Signal::KILL).map_err(io::Error::from)
}

/// Ends the groups, removes the folder of temporary files and ends this process when a signal asks for its end, unless
/// the signal was ignored when the process began.
///
/// # Errors
/// If the signals cannot be handled.
pub(crate) fn handle_signals(groups: ProcessGroups, scratch: PathBuf) -> io::Result<()> {
    let ignored = ignored_signals();
    let signals = [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    let mut signals = Signals::new(signals)?;
    let thread = std::thread::Builder::new().spawn(move || {
        if let Some(signal) = signals.forever().next() {
            groups.end_all();
            let _ = std::fs::remove_dir_all(&scratch);
            std::process::exit(128 + signal);
        }
    });
    thread.map(drop)
}
