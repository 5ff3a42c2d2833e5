//! The other ranks of a session, which Python reaches: a control plane of functions of Python's.

use hostir::backend::control_plane::{ControlPlane, ControlPlaneError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// All ranks' messages, and why there are none if there are none.
#[derive(FromPyObject)]
struct Gathered(Vec<Vec<u8>>, Option<PeerTrouble>);

/// Why ranks did not send their message.
#[derive(FromPyObject)]
enum PeerTrouble {
    /// Ranks that did not come, and the seconds for which the others waited.
    Late(Vec<u32>, f64),
    /// A rank that ended: its report if it gave up (true), else what was seen of it.
    Ended(u32, String, bool),
}

/// Functions of Python's, and the first failure that is known of another rank.
pub(crate) struct PythonControlPlane {
    rank: u32,
    world: u32,
    host: String,
    gather: Py<PyAny>,
    report: Py<PyAny>,
    /// True if there is a failure: a look that takes no lock.
    failed: AtomicBool,
    failure: Mutex<Option<ControlPlaneError>>,
}

impl PythonControlPlane {
    fn note(&self, error: ControlPlaneError) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.failed.store(true, Ordering::Release);
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
        // Who cannot be told sees that this process ends.
        let _ = Python::attach(|py| self.report.call1(py, (why,)));
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
    /// seconds)` if these ranks are late, or `(rank, text, gave_up)` if one has ended; `report(text)` tells the other ranks that this one gives up.
    #[new]
    fn new(rank: u32, world: u32, host: String, gather: Py<PyAny>, report: Py<PyAny>) -> Self {
        let (failed, failure) = (AtomicBool::new(false), Mutex::new(None));
        Self { shared: Arc::new(PythonControlPlane { rank, world, host, gather, report, failed, failure }) }
    }

    /// Notes that a rank gave up, with its report.
    fn note_failure(&self, rank: u32, why: String) {
        self.shared.note(ControlPlaneError::Failed { rank, why });
    }

    /// Notes that a rank is gone, and how.
    fn note_loss(&self, rank: u32, how: String) {
        self.shared.note(ControlPlaneError::Lost { rank, how });
    }
}
