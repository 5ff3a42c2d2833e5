//! The end of a process that does not notice that its run has failed.
//!
//! A call of a library may wait for a process that is gone, and cannot be told to stop; other work on this
//! host (inputs, a comparison) does not look either. Whoever is still alive some time after the run failed
//! is ended here.

use super::peers::Peers;
use hostir::backend::exchange::Exchange as _;
use std::io::Write as _;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How long a process may take to notice that its run has failed: longer than what watches runs on GPUs and
/// can tell more of them.
const GRACE: Duration = Duration::from_secs(4);
const PAUSE: Duration = Duration::from_millis(100);

/// Watches until the connections are gone. `status` is what the process exits with.
pub(super) fn watch(peers: &Arc<Peers>, status: i32) {
    let peers = Arc::downgrade(peers);
    std::thread::spawn(move || {
        while let Some(error) = next_failure(&peers) {
            let since = Instant::now();
            while since.elapsed() < GRACE && peers.strong_count() > 0 {
                std::thread::sleep(PAUSE);
            }
            if let Some(peers) = peers.upgrade() {
                let rank = peers.rank();
                let message = error.diag().message;
                let _ = writeln!(
                    std::io::stderr(),
                    "hir-run: rank {rank} does not stop and is ended: {message}"
                );
                crate::staged::end_process(status);
            }
        }
    });
}

/// Waits for a failure; `None` when the run is over.
fn next_failure(peers: &Weak<Peers>) -> Option<hostir::backend::exchange::ExchangeError> {
    loop {
        if let Some(error) = peers.upgrade()?.failed() {
            return Some(error);
        }
        std::thread::sleep(PAUSE);
    }
}
