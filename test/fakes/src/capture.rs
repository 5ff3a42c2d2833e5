//! Graphs: calls that are recorded instead of enqueued.

use crate::task::{DeviceWork, StreamTask, WorkNode};
use crate::world::{FakeWorld, INVALID_HANDLE};
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::Arc;

/// `CUDA_ERROR_STREAM_CAPTURE_UNMATCHED`, and for a stream that was forked and not joined.
const UNMATCHED: i32 = 903;
const UNJOINED: i32 = 904;
const ILLEGAL: i32 = 900;
/// `CUDA_ERROR_STREAM_CAPTURE_INVALIDATED`.
const INVALIDATED: i32 = 901;
/// `CU_STREAM_CAPTURE_MODE_GLOBAL`.
const GLOBAL: i32 = 0;

thread_local! {
    /// The mode in which this thread takes part in recordings of others.
    static CAPTURE_MODE: Cell<i32> = const { Cell::new(GLOBAL) };
}

/// Sets this thread's mode and returns the one before.
pub(crate) fn exchange_capture_mode(mode: i32) -> i32 {
    CAPTURE_MODE.replace(mode)
}

/// A value that a graph keeps alive.
#[derive(Debug)]
pub(crate) struct UserObject {
    pub(crate) value: *mut c_void,
    pub(crate) destroy: extern "C" fn(*mut c_void),
}

// SAFETY: whoever made it lets any thread destroy it.
#[allow(unsafe_code, reason = "a value of a caller's")]
unsafe impl Send for UserObject {}
// SAFETY: as above; nobody looks at the value.
#[allow(unsafe_code, reason = "a value of a caller's")]
unsafe impl Sync for UserObject {}

impl Drop for UserObject {
    fn drop(&mut self) {
        (self.destroy)(self.value);
    }
}

/// Recorded operations.
#[derive(Clone, Default, Debug)]
pub(crate) struct RecordedGraph {
    pub(crate) nodes: Vec<WorkNode>,
    /// The stream that the recording began on.
    origin: u64,
    /// `CUstreamCaptureMode`.
    mode: i32,
    /// True if a call has made the recording void.
    spoiled: bool,
    /// Objects that live as long as the graph and its copies.
    pub(crate) kept: Vec<Arc<UserObject>>,
}

impl FakeWorld {
    /// Enqueues a task on a stream, or records it.
    pub(crate) fn enqueue_task(&mut self, stream: u64, device: usize, task: StreamTask) -> i32 {
        if let Some(status) = self.broken {
            return status;
        }
        let own = match self.stream(stream, device) {
            Ok(own) => own,
            Err(status) => return status,
        };
        let Some(id) = own.capture else {
            own.tasks.push_back(task);
            return 0;
        };
        let frontier = std::mem::take(&mut own.frontier);
        let Some(graph) = self.graphs.get_mut(&id) else { return INVALID_HANDLE };
        let next = graph.record(task, &frontier);
        match self.stream(stream, device) {
            Ok(own) => {
                own.frontier = next;
                0
            }
            Err(status) => status,
        }
    }

    /// Records from here on what is issued on a stream.
    pub(crate) fn begin_capture(&mut self, stream: u64, device: usize, mode: i32) -> i32 {
        let id = self.handle();
        let origin = stream;
        match self.stream(stream, device) {
            Ok(stream) if stream.capture.is_some() => return ILLEGAL,
            Ok(stream) => (stream.capture, stream.frontier) = (Some(id), Vec::new()),
            Err(status) => return status,
        }
        self.graphs.insert(id, RecordedGraph { origin, mode, ..RecordedGraph::default() });
        0
    }

    /// Ends a recording; every stream that took part must have been joined.
    pub(crate) fn end_capture(&mut self, stream: u64) -> Result<u64, i32> {
        let id = self.streams.get(&stream).and_then(|stream| stream.capture).ok_or(UNMATCHED)?;
        let Some(graph) = self.graphs.get(&id).filter(|graph| graph.origin == stream) else {
            return Err(UNMATCHED);
        };
        let last = &self.streams[&stream].frontier;
        let joined = graph.before(last);
        let spoiled = graph.spoiled;
        let mut taking = self.streams.values().filter(|other| other.capture == Some(id));
        let all = taking.all(|other| other.frontier.iter().all(|node| joined[*node]));
        for stream in self.streams.values_mut().filter(|stream| stream.capture == Some(id)) {
            (stream.capture, stream.frontier) = (None, Vec::new());
        }
        if spoiled {
            return Err(INVALIDATED);
        }
        if all {
            return Ok(id);
        }
        self.report_failure("a stream that takes part in a recorded run does not end before it");
        Err(UNJOINED)
    }

    /// The recording that a stream takes part in.
    pub(crate) fn open_capture(&mut self, stream: u64, device: usize) -> Result<Option<u64>, i32> {
        self.stream(stream, device).map(|stream| stream.capture)
    }

    /// A call that waits, or whose effect no graph can have: where a stream is recorded in the global mode, only threads
    /// that said so may make it.
    pub(crate) fn make_unrecordable_call(&mut self) -> Result<(), i32> {
        let open: Vec<u64> = self.streams.values().filter_map(|stream| stream.capture).collect();
        let mut spoiled = false;
        for id in open {
            if let Some(graph) = self.graphs.get_mut(&id).filter(|graph| graph.mode == GLOBAL) {
                let forbidden = CAPTURE_MODE.get() == GLOBAL;
                graph.spoiled |= forbidden;
                spoiled |= forbidden;
            }
        }
        if spoiled { Err(ILLEGAL) } else { Ok(()) }
    }

    /// Enqueues what was recorded. Marks for who asks from outside are new ones.
    pub(crate) fn launch_graph(&mut self, graph: u64, stream: u64, device: usize) -> i32 {
        let Some(RecordedGraph { mut nodes, .. }) = self.graphs.get(&graph).cloned() else {
            return INVALID_HANDLE;
        };
        for node in &mut nodes {
            match &mut node.work {
                DeviceWork::Mark { event, ticket } => {
                    if let Ok(event) = self.event(*event) {
                        event.recorded += 1;
                        *ticket = event.recorded;
                    }
                }
                DeviceWork::Arrive { comm, turn, .. } => *turn = self.communicators.turn(*comm, true),
                DeviceWork::Meet { comm, turn } => *turn = self.communicators.turn(*comm, false),
                _ => {}
            }
        }
        if nodes.is_empty() {
            return 0;
        }
        self.enqueue_task(stream, device, StreamTask::new(nodes))
    }

    /// Marks a point of a stream; `outside` for who asks from outside while a recorded run is replayed.
    pub(crate) fn record(&mut self, event: u64, stream: u64, device: usize, outside: bool) -> i32 {
        let (capture, frontier) = match self.stream(stream, device) {
            Ok(own) => (own.capture, own.frontier.clone()),
            Err(status) => return status,
        };
        let marked = match self.event(event) {
            Ok(marked) => marked,
            Err(status) => return status,
        };
        if let (Some(id), false) = (capture, outside) {
            marked.captured = Some((id, frontier));
            return 0;
        }
        let ticket = match capture {
            Some(_) => 0,
            None => {
                marked.captured = None;
                marked.recorded += 1;
                marked.recorded
            }
        };
        self.enqueue_task(stream, device, StreamTask::in_order([DeviceWork::Mark { event, ticket }]))
    }

    /// Lets a stream wait for an event, or record that it does.
    pub(crate) fn wait_event(&mut self, stream: u64, event: u64, device: usize) -> i32 {
        let (ticket, captured) = match self.event(event) {
            Ok(event) => (event.recorded, event.captured.clone()),
            Err(status) => return status,
        };
        let own = match self.stream(stream, device) {
            Ok(own) => own,
            Err(status) => return status,
        };
        match (own.capture, captured) {
            (None, None) => {
                self.enqueue_task(stream, device, StreamTask::in_order([DeviceWork::Await { event, ticket }]))
            }
            (Some(id), Some((other, _))) if id != other => ILLEGAL,
            (_, Some((id, nodes))) => {
                own.capture = Some(id);
                own.frontier.extend(nodes);
                own.frontier.sort_unstable();
                own.frontier.dedup();
                0
            }
            // What is not recorded cannot be waited for in a recorded run.
            (Some(_), None) => ILLEGAL,
        }
    }
}

impl RecordedGraph {
    /// Appends a task after some nodes; returns its last ones.
    fn record(&mut self, task: StreamTask, frontier: &[usize]) -> Vec<usize> {
        let first = self.nodes.len();
        let mut is_last = vec![true; task.nodes.len()];
        for node in task.nodes {
            node.after.iter().for_each(|before| is_last[*before] = false);
            let mut after: Vec<usize> = node.after.iter().map(|before| before + first).collect();
            if after.is_empty() {
                after = frontier.to_vec();
            }
            self.nodes.push(WorkNode { work: node.work, after });
        }
        (0..is_last.len()).filter(|at| is_last[*at]).map(|at| first + at).collect()
    }

    /// By node: whether it is one of these, or before one.
    fn before(&self, last: &[usize]) -> Vec<bool> {
        let mut found = vec![false; self.nodes.len()];
        last.iter().for_each(|node| found[*node] = true);
        for at in (0..self.nodes.len()).rev() {
            if found[at] {
                self.nodes[at].after.iter().for_each(|before| found[*before] = true);
            }
        }
        found
    }
}
