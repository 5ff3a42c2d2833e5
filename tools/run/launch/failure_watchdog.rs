//! Ends a process that does not notice that its run has failed.
//!
//! A call of a library may wait for a process that is gone, and cannot be told to stop; other work on this host
//! (inputs, a comparison) does not poll either. This watchdog ends a process that is still alive some time after the
//! run failed.

use super::peers::SocketControlPlane;
use crate::library_calls::finish_library_calls;
use hostir::backend::control_plane::{ControlPlane as _, ControlPlaneError};
use hostir_tool_support::errors;
use std::io::Write as _;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The time that a process may take to notice that its run has failed: longer than that of the watchdog for runs on
/// GPUs, which can report more.
const GRACE: Duration = Duration::from_secs(4);
const PAUSE: Duration = Duration::from_millis(100);
/// The time that calls of libraries get to return before the process ends without its exit handlers.
const LIBRARIES: Duration = Duration::from_millis(200);

/// Watches until the connections are gone; the process ends with `status`. If no thread can start, there is no
/// watchdog: the process ends when it notices the failure itself.
pub(super) fn start_failure_watchdog(peers: &Arc<SocketControlPlane>, status: i32) {
    let peers = Arc::downgrade(peers);
    let watch = move || {
        while let Some(error) = next_failure(&peers) {
            // Counts pauses, not time: a process that is suspended meanwhile gets the rest when it continues.
            for _ in 0..GRACE.as_millis() / PAUSE.as_millis() {
                if peers.strong_count() == 0 {
                    break;
                }
                std::thread::sleep(PAUSE);
            }
            if let Some(peers) = peers.upgrade() {
                let rank = peers.rank();
                let message = hostir::diag::visible::escape_line(&error.diag().message).into_owned();
                let _ = writeln!(std::io::stderr(), "hir-run: rank {rank} does not stop; terminating it: {message}");
                let status = own_status(&error, rank).unwrap_or(status);
                hostir_tool_support::staged::end_process(status, || finish_library_calls(LIBRARIES));
            }
        }
    };
    let _ = std::thread::Builder::new().spawn(watch);
}

/// The exit status of a process that failed itself.
fn own_status(error: &ControlPlaneError, own: u32) -> Option<i32> {
    let ControlPlaneError::Failed { rank, why } = error else { return None };
    let code = why.lines().next().filter(|_| *rank == own)?;
    Some(errors::status_of_code(code) as i32)
}

/// Waits for a failure; `None` when the run is over.
fn next_failure(peers: &Weak<SocketControlPlane>) -> Option<ControlPlaneError> {
    loop {
        if let Some(error) = peers.upgrade()?.peer_failure() {
            return Some(error);
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A deadline that passed here determines the exit status; failures elsewhere do not.
    #[test]
    fn statuses() {
        let error = |rank| ControlPlaneError::Failed { rank, why: "H0511\n\nthe run did not end".to_owned() };
        assert_eq!(own_status(&error(2), 2), Some(5));
        assert_eq!(own_status(&error(1), 2), None);
        assert_eq!(own_status(&ControlPlaneError::Lost { rank: 2, how: String::new() }, 2), None);
    }
}
