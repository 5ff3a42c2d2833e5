//! The connected processes of a run: a star with rank 0 in the middle.
//!
//! Every process sends its message of a step to rank 0, which sends all of them to everybody once the last has arrived.
//! Each connection has a reader; a monitor sends heartbeats, and checks for silent connections and for steps that
//! somebody does not reach. So a killed process is detected when its connection closes, a stopped one by its silence,
//! and a hung one by the step that it does not reach; in any case rank 0 reports to everybody. Once a run has failed it
//! stays failed.
//!
//! The memory that a process can make another one keep is bounded by the run's own sizes: a message by [`SMALL`], or by
//! the size of the outputs that [`SocketControlPlane::allow_bytes`] got; all of a rank's messages whose steps have not
//! ended by both together; and a result of rank 0, which comes only when it is waited for, by as many messages as there
//! are ranks.

use super::liveness::LivenessTimeouts;
use super::payload::{self, Decoder, Encoder, MessageHead, decode_failure, encode_failure, encode_value};
use super::stream::PeerStream;
use super::wire::{self, FrameError, FrameOpener, FrameSealer, FrameType};
use hostir::backend::control_plane::{ControlPlane, ControlPlaneError};
use std::collections::BTreeMap;
use std::io::BufReader;
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// The maximum number of bytes of a message without another limit.
pub(super) const SMALL: usize = 1 << 20;
/// The maximum number of unfinished steps; more are an error of the sender.
const MOST_STEPS: usize = 64;
/// Most bytes of a step's name.
const MOST_NAME: usize = 256;
/// The number of failures that are remembered of a connection's reports: a rank's own ones, or rank 0's of all.
const MOST_TOLD: usize = 8;
const MOST_PASSED_ON: usize = 1000;
/// The time that a connection that ends may take to deliver the last messages.
const LINGER: Duration = Duration::from_millis(500);

/// A connection to another process.
struct PeerConnection {
    rank: u32,
    stream: PeerStream,
    /// One frame at a time.
    out: Mutex<(PeerStream, FrameSealer)>,
    /// One message, of several frames, at a time.
    message: Mutex<()>,
    heard: Mutex<Instant>,
    /// Its end was announced.
    left: AtomicBool,
}

impl PeerConnection {
    fn send_frame(&self, kind: FrameType, payload: &[u8]) -> std::io::Result<()> {
        let mut out = lock_mutex(&self.out);
        let (stream, sealer) = &mut *out;
        sealer.write_frame(&mut &*stream, kind, payload)
    }
    /// A message in parts, then the frame that ends it.
    fn send_message(&self, bytes: &[u8], end: FrameType, payload: &[u8]) -> std::io::Result<()> {
        let _whole = lock_mutex(&self.message);
        for part in bytes.chunks(wire::PART) {
            self.send_frame(FrameType::Part, part)?;
        }
        self.send_frame(end, payload)
    }
}

/// A thread that panicked in between left no partial value: every change is one assignment.
fn lock_mutex<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A step that not every rank has come to.
struct GatherStep {
    what: String,
    since: Instant,
    messages: Vec<Option<Vec<u8>>>,
}

#[derive(Default)]
struct ControlPlaneState {
    /// The first failure, from when it is reported to the others; `failed` once it was.
    cause: Option<ControlPlaneError>,
    failed: Option<ControlPlaneError>,
    /// Failures of other processes, in the order of their arrival.
    reported: Vec<ControlPlaneError>,
    /// Steps that ended and that this process has not read.
    results: BTreeMap<u64, Vec<Vec<u8>>>,
    /// On other ranks than 0: the step whose messages this process waits for.
    awaited: Option<u64>,
    /// On rank 0: steps that are open.
    steps: BTreeMap<u64, GatherStep>,
    /// Rank 0 said that the run is over.
    over: bool,
    /// On rank 0: the number of steps that have ended and are being reported to the others.
    reporting: usize,
    /// On rank 0: true if everything has arrived, so that nobody else is needed.
    complete: bool,
    readers: usize,
}

impl ControlPlaneState {
    /// Bytes of a rank's messages whose steps have not ended.
    fn pending_bytes(&self, rank: u32) -> usize {
        self.steps
            .values()
            .filter_map(|step: &GatherStep| step.messages.get(rank as usize)?.as_ref().map(Vec::len))
            .sum()
    }
}

/// The received part of a message of a connection.
#[derive(Default)]
struct PartialMessage {
    parts: Vec<u8>,
    /// On rank 0: number of the rank's next message.
    next: u64,
    /// Failures that were remembered.
    reported: usize,
}

/// The state that all threads of a process share.
pub(super) struct ControlPlaneCore {
    rank: u32,
    world: u32,
    pace: LivenessTimeouts,
    lines: RwLock<Vec<Arc<PeerConnection>>>,
    state: Mutex<ControlPlaneState>,
    changed: Condvar,
    broken: AtomicBool,
    closed: AtomicBool,
    /// Most bytes of a rank's outputs.
    allowed: AtomicUsize,
}

impl ControlPlaneCore {
    /// # Errors
    /// A thread that cannot be started.
    pub(super) fn start_monitor(rank: u32, world: u32, pace: LivenessTimeouts) -> std::io::Result<Arc<Self>> {
        let core = Arc::new(Self {
            rank,
            world,
            pace,
            lines: RwLock::default(),
            state: Mutex::default(),
            changed: Condvar::new(),
            broken: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            allowed: AtomicUsize::new(0),
        });
        let monitor = core.clone();
        std::thread::Builder::new().spawn(move || monitor.monitor_liveness())?;
        Ok(core)
    }

    /// Adds a connection to a process that has joined.
    ///
    /// # Errors
    /// If options of the connection cannot be set, or a thread cannot start.
    pub(super) fn add_connection(
        self: &Arc<Self>,
        rank: u32,
        stream: PeerStream,
        sealer: FrameSealer,
        opener: FrameOpener,
    ) -> std::io::Result<()> {
        stream.set_prompt()?;
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(None)?;
        stream.set_write_timeout(Some(self.pace.liveness_timeout))?;
        let (out, from) = (stream.try_clone()?, stream.try_clone()?);
        let line = Arc::new(PeerConnection {
            rank,
            stream,
            out: Mutex::new((out, sealer)),
            message: Mutex::default(),
            heard: Mutex::new(Instant::now()),
            left: AtomicBool::new(false),
        });
        self.lines.write().unwrap_or_else(PoisonError::into_inner).push(line.clone());
        lock_mutex(&self.state).readers += 1;
        let (core, read) = (self.clone(), line.clone());
        let reader = std::thread::Builder::new().spawn(move || {
            core.read_frames(&read, &from, opener);
            lock_mutex(&core.state).readers -= 1;
            core.changed.notify_all();
        });
        if let Err(error) = reader {
            lock_mutex(&self.state).readers -= 1;
            self.lines.write().unwrap_or_else(PoisonError::into_inner).retain(|known| !Arc::ptr_eq(known, &line));
            return Err(error);
        }
        Ok(())
    }

    fn all_connections(&self) -> Vec<Arc<PeerConnection>> {
        self.lines.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ranks that rank 0 has no connection to.
    pub(super) fn absent_ranks(&self) -> Vec<u32> {
        let joined: Vec<u32> = self.all_connections().iter().map(|line| line.rank).collect();
        (0..self.world).filter(|rank| *rank != self.rank && !joined.contains(rank)).collect()
    }

    // ---- failing ----

    pub(super) fn first_failure(&self) -> Option<ControlPlaneError> {
        if !self.broken.load(Ordering::Acquire) {
            return None;
        }
        lock_mutex(&self.state).failed.clone()
    }

    /// Fails the run; rank 0 reports it to everybody, the others to rank 0.
    pub(super) fn fail_run(&self, error: ControlPlaneError) {
        let first = lock_mutex(&self.state).cause.get_or_insert_with(|| error.clone()).clone();
        if first != error && !matches!(error, ControlPlaneError::Failed { .. }) {
            // After the run failed, processes that end are no news.
            return;
        }
        // The others first: this process may end as soon as it knows.
        let payload = encode_failure(&error);
        for line in self.all_connections() {
            let _ = line.send_frame(FrameType::Error, &payload);
        }
        self.record_failure(first);
    }

    /// From here on this process knows.
    fn record_failure(&self, error: ControlPlaneError) {
        lock_mutex(&self.state).failed.get_or_insert(error);
        self.broken.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    /// A connection is gone that should not be.
    fn connection_lost(&self, line: &PeerConnection, how: String) {
        let unneeded = line.left.load(Ordering::Acquire)
            || self.closed.load(Ordering::Acquire)
            || lock_mutex(&self.state).complete;
        if !unneeded {
            self.fail_run(ControlPlaneError::Lost { rank: line.rank, how });
        }
        let _ = line.stream.shutdown(Shutdown::Both);
    }

    // ---- receiving ----

    fn read_frames(&self, line: &PeerConnection, from: &PeerStream, mut opener: FrameOpener) {
        let mut from = BufReader::new(from);
        let mut open = PartialMessage::default();
        let how = loop {
            match opener.read_frame(&mut from) {
                Ok(Some((kind, payload))) => {
                    *lock_mutex(&line.heard) = Instant::now();
                    if let Err(what) = self.handle_frame(line, kind, payload, &mut open) {
                        break format!("it sent {what}");
                    }
                }
                Ok(None) => break "its connection closed".to_owned(),
                Err(FrameError::Broken(error)) => break format!("its connection failed ({error})"),
                Err(FrameError::Altered(how)) => {
                    self.fail_run(ControlPlaneError::Altered { rank: line.rank, how });
                    let _ = line.stream.shutdown(Shutdown::Both);
                    return;
                }
            }
        };
        self.connection_lost(line, how);
    }

    /// Handles a frame; the error says why it is invalid.
    fn handle_frame(
        &self,
        line: &PeerConnection,
        kind: FrameType,
        payload: Vec<u8>,
        open: &mut PartialMessage,
    ) -> Result<(), &'static str> {
        match kind {
            FrameType::Alive => {}
            FrameType::Part => {
                if open.parts.len() + payload.len() > self.max_message_bytes() {
                    return Err("a message that is too long");
                }
                open.parts.extend(payload);
            }
            FrameType::Message if self.rank == 0 => self.take_message(line, &payload, open)?,
            FrameType::Result if self.rank != 0 => self.take_result(&payload, open)?,
            FrameType::Error => {
                let error = decode_failure(&payload).ok_or("a malformed reason")?;
                self.fail_from(error, open);
            }
            FrameType::Bye => {
                line.left.store(true, Ordering::Release);
                lock_mutex(&self.state).over |= self.rank != 0;
                self.changed.notify_all();
            }
            FrameType::Message | FrameType::Result | FrameType::Hello | FrameType::Verdict => {
                return Err("a message that only the other end sends");
            }
        }
        Ok(())
    }

    /// The maximum number of bytes of one received message: on rank 0 a rank's message, elsewhere those of all.
    fn max_message_bytes(&self) -> usize {
        match self.rank {
            0 => self.allowed.load(Ordering::Acquire).saturating_add(SMALL),
            _ => (SMALL + payload::NUMBER_BYTES).saturating_mul(self.world as usize),
        }
    }

    fn take_message(
        &self,
        line: &PeerConnection,
        payload: &[u8],
        open: &mut PartialMessage,
    ) -> Result<(), &'static str> {
        let head = Decoder::new(payload).take::<MessageHead<'_>>();
        let head = head.ok_or("a message without its step")?;
        let MessageHead { number, step: what, is_first_only } = head;
        if number != open.next || what.len() > MOST_NAME {
            return Err("a message of an unexpected step");
        }
        open.next += 1;
        let message = std::mem::take(&mut open.parts);
        if !is_first_only && message.len() > SMALL {
            return Err("a message that is too long");
        }
        let kept = lock_mutex(&self.state).pending_bytes(line.rank);
        if kept.saturating_add(message.len()) > self.max_message_bytes() {
            return Err("more messages than may be in flight");
        }
        self.deposit_message(line.rank, number, what, is_first_only, message);
        Ok(())
    }

    fn take_result(&self, payload: &[u8], open: &mut PartialMessage) -> Result<(), &'static str> {
        let number = Decoder::new(payload).take::<u64>().ok_or("a result without its step")?;
        let parts = std::mem::take(&mut open.parts);
        let mut decoder = Decoder::new(&parts);
        let all = (0..self.world).map(|_| decoder.take::<&[u8]>().map(<[u8]>::to_vec));
        let all: Option<Vec<Vec<u8>>> = all.collect();
        let all = all.filter(|_| decoder.is_finished()).ok_or("an incomplete result")?;
        let mut state = lock_mutex(&self.state);
        if state.awaited != Some(number) {
            return Err("an unexpected result");
        }
        state.awaited = None;
        state.results.insert(number, all);
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Fails because of a report by another process: rank 0 forwards it, others must not send it back.
    fn fail_from(&self, error: ControlPlaneError, open: &mut PartialMessage) {
        let most = if self.rank == 0 { MOST_TOLD } else { MOST_PASSED_ON };
        let mut state = lock_mutex(&self.state);
        if open.reported < most && !state.reported.contains(&error) {
            open.reported += 1;
            state.reported.push(error.clone());
        }
        drop(state);
        if self.rank == 0 {
            self.fail_run(error);
        } else {
            self.record_failure(error);
        }
    }

    /// On rank 0: stores a rank's message. The last of a step ends it for everybody.
    fn deposit_message(&self, rank: u32, number: u64, what: &str, first_only: bool, message: Vec<u8>) {
        let mut state = lock_mutex(&self.state);
        let open = state.steps.len();
        let step = state.steps.entry(number).or_insert_with(|| GatherStep {
            what: what.to_owned(),
            since: Instant::now(),
            messages: vec![None; self.world as usize],
        });
        if step.what != what || open > MOST_STEPS {
            let why = format!("rank {rank} is at the step `{what}`, but other ranks are at `{}`", step.what);
            drop(state);
            return self.fail_run(ControlPlaneError::Broken { why });
        }
        if let Some(place) = step.messages.get_mut(rank as usize) {
            *place = Some(message);
        }
        if step.messages.iter().any(Option::is_none) {
            return;
        }
        let ended = state.steps.remove(&number).map_or_else(Vec::new, |step| step.messages);
        let all: Vec<Vec<u8>> = ended.into_iter().flatten().collect();
        state.reporting += 1;
        drop(state);
        // The others first: this process may say goodbye as soon as it knows.
        if !first_only {
            self.send_results(number, &all);
        }
        let mut state = lock_mutex(&self.state);
        state.reporting -= 1;
        state.results.insert(number, all);
        drop(state);
        self.changed.notify_all();
    }

    fn send_results(&self, number: u64, all: &[Vec<u8>]) {
        let mut encoder = Encoder::default();
        all.iter().for_each(|message| encoder.push_bytes(message));
        let (bytes, head) = (encoder.into_bytes(), encode_value(&number));
        for line in self.all_connections() {
            if let Err(error) = line.send_message(&bytes, FrameType::Result, &head) {
                self.connection_lost(&line, format!("it does not accept messages ({error})"));
            }
        }
    }

    // ---- watching ----

    /// Monitors heartbeats, silence, and steps that take too long, until the end.
    fn monitor_liveness(&self) {
        let beat = self.pace.heartbeat_interval();
        let mut last = Instant::now();
        while !self.closed.load(Ordering::Acquire) {
            std::thread::sleep(beat);
            let lines = self.all_connections();
            let slept = last.elapsed();
            last = Instant::now();
            if slept > self.pace.liveness_timeout / 2 {
                self.restart_clocks(&lines, last);
            }
            for line in &lines {
                let _ = line.send_frame(FrameType::Alive, &[]);
                let silent = lock_mutex(&line.heard).elapsed();
                if silent > self.pace.liveness_timeout && !line.left.load(Ordering::Acquire) {
                    let how = format!("it sent no heartbeat for {} ms", silent.as_millis());
                    self.connection_lost(line, how);
                }
            }
            if let Some(error) = self.late_step_error() {
                self.fail_run(error);
            }
        }
    }

    /// Restarts the timeouts after this process itself was suspended: messages of others are still to be read.
    fn restart_clocks(&self, lines: &[Arc<PeerConnection>], now: Instant) {
        lines.iter().for_each(|line| *lock_mutex(&line.heard) = now);
        lock_mutex(&self.state).steps.values_mut().for_each(|step| step.since = now);
    }

    /// A step that somebody does not come to.
    fn late_step_error(&self) -> Option<ControlPlaneError> {
        // As long as somebody has not joined, the lobby watches the time, and knows who.
        let joining = !self.absent_ranks().is_empty();
        let state = lock_mutex(&self.state);
        if state.cause.is_some() || state.complete || joining {
            return None;
        }
        let timeout = self.pace.timeout;
        let step = state.steps.values().find(|step| step.since.elapsed() > timeout)?;
        let absent = step.messages.iter().enumerate().filter(|(_, message)| message.is_none());
        let ranks = absent.map(|(rank, _)| rank as u32).collect();
        Some(ControlPlaneError::Late { ranks, what: step.what.clone(), timeout })
    }

    /// Waits until `found` returns something; without a deadline, since the monitor ensures an end. The time that rank
    /// 0 needs to report it comes on top.
    fn wait_until_found<T>(
        &self,
        mut found: impl FnMut(&mut ControlPlaneState) -> Option<T>,
    ) -> Result<T, ControlPlaneError> {
        let mut state = lock_mutex(&self.state);
        loop {
            if let Some(value) = found(&mut state) {
                return Ok(value);
            }
            // A step that has ended counts, also if another process fails after it before this process knows: rank 0
            // reports errors that all of them find.
            if let Some(error) = state.failed.as_ref().filter(|_| state.reporting == 0) {
                return Err(error.clone());
            }
            if state.over {
                let how = "it exited before the others".to_owned();
                return Err(ControlPlaneError::Lost { rank: 0, how });
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Closes the connections; the last messages still arrive, as far as the others read them.
    fn close_connections(&self) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        let lines = self.all_connections();
        lines.iter().for_each(|line| {
            let _ = line.stream.shutdown(Shutdown::Write);
        });
        let state = lock_mutex(&self.state);
        let _ = self.changed.wait_timeout_while(state, LINGER, |state| state.readers > 0);
        lines.iter().for_each(|line| {
            let _ = line.stream.shutdown(Shutdown::Both);
        });
    }
}

/// This process among those of its run.
pub(crate) struct SocketControlPlane {
    core: Arc<ControlPlaneCore>,
    host: String,
    /// Number of the next step.
    next: Mutex<u64>,
}

impl std::fmt::Debug for SocketControlPlane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (rank, world) = (self.core.rank, self.core.world);
        f.debug_struct("Peers").field("rank", &rank).field("world", &world).finish_non_exhaustive()
    }
}

impl SocketControlPlane {
    pub(super) fn new(core: Arc<ControlPlaneCore>, host: String) -> Self {
        Self { core, host, next: Mutex::new(0) }
    }

    /// Allows so many bytes more to be collected in this run, from each process.
    pub(crate) fn allow_bytes(&self, bytes: usize) {
        let _ = self
            .core
            .allowed
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |allowed: usize| Some(allowed.saturating_add(bytes)));
    }

    /// Sends a message of a step; its number.
    fn send_step_message(&self, what: &str, message: &[u8], first_only: bool) -> Result<u64, ControlPlaneError> {
        let mut next = lock_mutex(&self.next);
        let number = *next;
        *next += 1;
        if let Some(error) = self.core.first_failure() {
            return Err(error);
        }
        if !first_only && message.len() > SMALL {
            let why = format!("the message of the step `{what}` has {} bytes, but the limit is {SMALL}", message.len());
            self.core.fail_run(ControlPlaneError::Broken { why: why.clone() });
            return Err(ControlPlaneError::Broken { why });
        }
        lock_mutex(&self.core.state).awaited = Some(number).filter(|_| !first_only);
        if self.core.rank == 0 {
            self.core.deposit_message(0, number, what, first_only, message.to_vec());
            return Ok(number);
        }
        let head = MessageHead { number, step: what, is_first_only: first_only };
        let head = encode_value(&head);
        for line in self.core.all_connections() {
            if let Err(error) = line.send_message(message, FrameType::Message, &head) {
                self.core.connection_lost(&line, format!("it does not accept messages ({error})"));
            }
        }
        Ok(number)
    }

    /// Rank 0 gets the messages of all ranks in rank order; the others continue at once.
    ///
    /// # Errors
    /// Those of [`ControlPlane::all_gather`].
    pub(crate) fn collect_messages(
        &self,
        what: &str,
        message: &[u8],
    ) -> Result<Option<Vec<Vec<u8>>>, ControlPlaneError> {
        let number = self.send_step_message(what, message, true)?;
        if self.core.rank != 0 {
            return Ok(None);
        }
        self.core.wait_until_found(|state| state.results.remove(&number)).map(Some)
    }

    /// On rank 0: marks that everything from the others has arrived; one that ends now is no failure.
    pub(crate) fn mark_complete(&self) {
        lock_mutex(&self.core.state).complete = true;
    }

    /// Whether rank 0 has everything.
    pub(crate) fn is_complete(&self) -> bool {
        lock_mutex(&self.core.state).complete
    }

    /// Returns true if a rank reports a failure with these words; waits a moment for it.
    pub(crate) fn is_failure_reported(&self, rank: u32, why: &str) -> bool {
        let why = payload::cut_text(why);
        let reported = |state: &ControlPlaneState| {
            state.reported.iter().any(|error: &ControlPlaneError| matches!(error, ControlPlaneError::Failed { rank: other, why: words } if *other == rank && words == why))
        };
        let state = lock_mutex(&self.core.state);
        let waited = self.core.changed.wait_timeout_while(state, LINGER, |state| !reported(state) && state.readers > 0);
        reported(&waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    /// The failures that other ranks have reported, once there are enough or a moment has passed.
    #[cfg(feature = "cuda")]
    pub(super) fn reported_failures(&self, enough: impl Fn(&[ControlPlaneError]) -> bool) -> Vec<ControlPlaneError> {
        let state = lock_mutex(&self.core.state);
        let goes_on = |state: &mut ControlPlaneState| !enough(&state.reported) && state.readers > 0;
        let waited = self.core.changed.wait_timeout_while(state, LINGER, goes_on);
        waited.unwrap_or_else(PoisonError::into_inner).0.reported.clone()
    }

    /// Ends a successful run: rank 0 reports its end, and the others wait for that without a limit, as long as rank 0
    /// is alive.
    ///
    /// # Errors
    /// A failure of rank 0.
    pub(crate) fn finish_run(&self) -> Result<(), ControlPlaneError> {
        let result = if self.core.rank == 0 {
            self.mark_complete();
            Ok(())
        } else {
            self.core.wait_until_found(|state| state.over.then_some(()))
        };
        for line in self.core.all_connections() {
            let _ = line.send_frame(FrameType::Bye, &[]);
        }
        self.core.close_connections();
        result
    }
}

impl ControlPlane for SocketControlPlane {
    fn rank(&self) -> u32 {
        self.core.rank
    }
    fn world_size(&self) -> u32 {
        self.core.world
    }
    fn host_name(&self) -> String {
        self.host.clone()
    }
    fn all_gather(&self, what: &str, message: &[u8]) -> Result<Vec<Vec<u8>>, ControlPlaneError> {
        let number = self.send_step_message(what, message, false)?;
        self.core.wait_until_found(|state| state.results.remove(&number))
    }
    fn report_failure(&self, why: &str) {
        self.core.fail_run(ControlPlaneError::Failed { rank: self.core.rank, why: why.to_owned() });
    }
    fn peer_failure(&self) -> Option<ControlPlaneError> {
        self.core.first_failure()
    }
}

impl Drop for SocketControlPlane {
    fn drop(&mut self) {
        self.core.close_connections();
    }
}

#[cfg(test)]
#[path = "peers/tests.rs"]
mod tests;
