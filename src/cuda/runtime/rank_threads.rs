//! Results of the threads that work for ranks.

use hostir::diag::{Diag, codes};
use std::thread::ScopedJoinHandle;

/// The result of a rank's thread; one that panicked is a failure like any other.
pub(crate) fn join_rank_thread<T, E: From<Diag>>(thread: ScopedJoinHandle<'_, Result<T, E>>) -> Result<T, E> {
    thread.join().unwrap_or_else(|_| {
        let message = "the thread of a rank stopped with an internal error";
        Err(Diag::global_error(codes::DEVICE_CALL, message).into())
    })
}

/// All results, or the distinct failures.
pub(crate) fn collect_results<T>(results: Vec<Result<T, Diag>>) -> Result<Vec<T>, Vec<Diag>> {
    let (mut good, mut bad): (Vec<T>, Vec<Diag>) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(value) => good.push(value),
            Err(diag) => {
                if !bad.iter().any(|old| old.code == diag.code && old.primary == diag.primary) {
                    bad.push(diag);
                }
            }
        }
    }
    if bad.is_empty() { Ok(good) } else { Err(bad) }
}
