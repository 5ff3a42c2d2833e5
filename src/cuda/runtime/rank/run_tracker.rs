//! Tracks a rank's progress in its runs: publishes it for the watchdog, and finds the open wait for other ranks.

use crate::runtime::failure::RunProgress;
use crate::runtime::rank::graph_recorder::GraphRecorder;
use crate::runtime::watchdog::WatchedRank;
use crate::sys::driver::CudaEvent;
use hostir::plan::InstId;
use hostir_gpu::schedule::wait_events::PeerWait;

/// The progress of a rank's runs.
pub(crate) struct RunTracker {
    /// The number of runs issued since the last wait.
    pub(crate) queued: usize,
    /// Instructions that wait for other ranks.
    pub(crate) waits: Vec<PeerWait>,
    /// The watchdog's entry for this rank's runs.
    pub(crate) watched: Option<WatchedRank>,
}

impl RunTracker {
    /// Lets others see that no run is in flight.
    pub(crate) fn publish_run_end(&self) {
        if let Some(watched) = &self.watched {
            watched.end_runs();
        }
    }

    /// Publishes that a failed run is cleared away.
    pub(crate) fn publish_abort(&self) {
        if let Some(watched) = &self.watched {
            watched.end_failed_run();
        }
    }

    /// Lets others see that a run begins.
    pub(crate) fn publish_run_begin(&self) {
        if let Some(watched) = &self.watched {
            watched.begin_run();
        }
    }

    /// Lets others see where the run is.
    pub(crate) fn publish_position(&self, inst: Option<InstId>) {
        if let Some(watched) = &self.watched {
            watched.set_inst(inst);
        }
    }

    /// The first instruction among these steps whose wait for other ranks is not known to have ended, with the last one
    /// that the event may mean as well.
    pub(crate) fn pending_wait(
        &self,
        issued: usize,
        events: &[CudaEvent],
        recorder: &GraphRecorder,
    ) -> Option<RunProgress> {
        let recorded = recorder.graph.is_some();
        let event = |event| if recorded { recorder.external.get(&event) } else { events.get(event) };
        let mut issued = self.waits.iter().filter(|wait| wait.last < issued);
        let open = issued.find(|wait| {
            let event = wait.event.and_then(event);
            event.is_none_or(|event| !event.is_reached().unwrap_or(true))
        })?;
        // Calls that share its event are of its stream.
        let after = issued.rfind(|wait| wait.event == open.event);
        Some(after.map_or(RunProgress::Inst(open.inst), |last| RunProgress::Among(open.inst, last.inst)))
    }
}
