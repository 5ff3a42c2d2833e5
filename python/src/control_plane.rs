//! The other ranks of a session, reached through Python: a control plane of Python functions.

use hostir::backend::control_plane::{ControlPlane, ControlPlaneError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// All ranks' messages, and the reason if there are none.
#[derive(FromPyObject)]
struct Gathered(Vec<Vec<u8>>, Option<PeerTrouble>);

/// The reason why ranks did not send their message.
#[derive(FromPyObject)]
enum PeerTrouble {
    /// Ranks that did not come, and the seconds for which the others waited.
    Late(Vec<u32>, f64),
    /// A rank that ended: its report if it gave up (true), else the observation of its end.
    Ended(u32, String, bool),
}

thread_local! {
    /// True while this thread holds a session's lock.
    static DEFERS: Cell<bool> = const { Cell::new(false) };
}

/// Does some work under a session's lock. Reports of the thread to other ranks wait meanwhile for
/// [`PythonControlPlane::send_deferred_reports`]: sending them takes the interpreter, whose holder may want the lock.
pub(crate) fn deferring_reports<T>(work: impl FnOnce() -> T) -> T {
    /// The mark goes also if the work panics.
    struct Deferring;
    impl Drop for Deferring {
        fn drop(&mut self) {
            DEFERS.set(false);
        }
    }
    DEFERS.set(true);
    let _deferring = Deferring;
    work()
}

/// Python functions, and the first known failure of another rank.
pub(crate) struct PythonControlPlane {
    rank: u32,
    world: u32,
    host: String,
    gather: Py<PyAny>,
    report: Py<PyAny>,
    /// True if there is a failure, to be read without a lock.
    failed: AtomicBool,
    failure: Mutex<Option<ControlPlaneError>>,
    /// The report for the other ranks, which is sent as soon as no lock is held.
    deferred: Mutex<Vec<String>>,
    process: u32,
}

impl PythonControlPlane {
    fn note(&self, error: ControlPlaneError) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.failed.store(true, Ordering::Release);
    }

    /// Sends the other ranks the reports that were made under a lock.
    pub(crate) fn send_deferred_reports(&self) {
        let reports = std::mem::take(&mut *self.deferred.lock().unwrap_or_else(PoisonError::into_inner));
        reports.iter().for_each(|why| self.call_report(why));
    }

    /// A rank that the report does not reach sees that this process ends. A fork of it reports nothing.
    fn call_report(&self, why: &str) {
        if std::process::id() == self.process {
            let _ = Python::try_attach(|py| self.report.call1(py, (why,)));
        }
    }

    fn call_gather(&self, what: &str, message: &[u8]) -> PyResult<Gathered> {
        Python::attach(|py| {
            let given = (what, PyBytes::new(py, message));
            self.gather.bind(py).call1(given)?.extract()
        })
    }
}

impl ControlPlane for PythonControlPlane {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn world_size(&self) -> u32 {
        self.world
    }

    fn host_name(&self) -> String {
        self.host.clone()
    }

    fn all_gather(&self, what: &str, message: &[u8]) -> Result<Vec<Vec<u8>>, ControlPlaneError> {
        match self.call_gather(what, message) {
            Ok(Gathered(messages, None)) => Ok(messages),
            Ok(Gathered(_, Some(PeerTrouble::Late(ranks, seconds)))) => {
                let timeout = Duration::try_from_secs_f64(seconds).unwrap_or_default();
                Err(ControlPlaneError::Late { ranks, what: what.to_owned(), timeout })
            }
            Ok(Gathered(_, Some(PeerTrouble::Ended(rank, why, true)))) => Err(ControlPlaneError::Failed { rank, why }),
            Ok(Gathered(_, Some(PeerTrouble::Ended(rank, how, false)))) => Err(ControlPlaneError::Lost { rank, how }),
            Err(error) => Err(ControlPlaneError::Broken { why: format!("the step `{what}` failed: {error}") }),
        }
    }

    fn report_failure(&self, why: &str) {
        if DEFERS.get() {
            self.deferred.lock().unwrap_or_else(PoisonError::into_inner).push(why.to_owned());
        } else {
            self.call_report(why);
        }
    }

    fn peer_failure(&self) -> Option<ControlPlaneError> {
        if !self.failed.load(Ordering::Acquire) {
            return None;
        }
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The ranks of a group, one of which is this process.
#[pyclass(frozen, name = "ControlPlane", module = "hostir._native")]
pub(crate) struct GroupControlPlane {
    pub(crate) shared: Arc<PythonControlPlane>,
}

#[pymethods]
impl GroupControlPlane {
    /// `gather(what, message)` gives all messages in the order of the ranks and None, or no messages and `(ranks,
    /// seconds)` if these ranks are late, or `(rank, text, gave_up)` if one has ended; `report(text)` tells the other
    /// ranks that this one gives up.
    #[new]
    fn new(rank: u32, world: u32, host: String, gather: Py<PyAny>, report: Py<PyAny>) -> Self {
        let shared = PythonControlPlane {
            rank,
            world,
            host,
            gather,
            report,
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
            deferred: Mutex::default(),
            process: std::process::id(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Notes that a rank gave up, with its report.
    fn note_failure(&self, py: Python<'_>, rank: u32, why: String) {
        py.detach(|| self.shared.note(ControlPlaneError::Failed { rank, why }));
    }

    /// Notes that a rank is gone, and how.
    fn note_loss(&self, py: Python<'_>, rank: u32, how: String) {
        py.detach(|| self.shared.note(ControlPlaneError::Lost { rank, how }));
    }
}
