//! The processes of a run, connected: a star with rank 0 in the middle.
//!
//! Every process sends its message of a step to rank 0, which sends all of them to everybody once the
//! last is there. Each connection has a reader; a monitor sends signs of life, and looks for connections
//! that are silent and for steps that somebody does not come to. So a process that is killed is noticed
//! when its connection closes, one that is stopped by its silence, and one that is stuck by the step that
//! it does not come to; whatever it is, rank 0 tells everybody. Once a run has failed it stays failed.
//!
//! What a process can make another one keep is bounded by the run's own sizes: a message by [`SMALL`], or by
//! what [`Peers::allow`] was told of the outputs; all of a rank's messages whose steps have not ended by both
//! together; and a result of rank 0's, which comes only when it is waited for, by so many messages as there
//! are ranks.

use super::stream::Stream;
use super::wire::{self, Fault, Kind, Opener, Put, Sealer, Take};
use hostir::backend::exchange::{Exchange, ExchangeError};
use std::collections::BTreeMap;
use std::io::BufReader;
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Most bytes of a message that nothing else was said about.
pub(super) const SMALL: usize = 1 << 20;
/// More unfinished steps than this are a mistake of the sender.
const MOST_STEPS: usize = 64;
/// Most bytes of a step's name.
const MOST_NAME: usize = 256;
/// Failures that are remembered of what a connection tells: a rank's own ones, or rank 0's of all.
const MOST_TOLD: usize = 8;
const MOST_PASSED_ON: usize = 1000;
/// The time that a connection that ends may take to deliver the last messages.
const LINGER: Duration = Duration::from_millis(500);

/// The deadlines of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// A step, from the first process that came to it.
    pub(super) timeout: Duration,
    /// Silence of a connection.
    silence: Duration,
}

impl Pace {
    pub(super) fn new(timeout: Duration) -> Self {
        let silence = (timeout / 2).clamp(Duration::from_secs(1), Duration::from_secs(10));
        Self { timeout, silence }
    }
    /// Between two signs of life.
    fn beat(self) -> Duration {
        self.silence / 8
    }
}

/// A connection to another process.
struct Line {
    rank: u32,
    stream: Stream,
    /// One frame at a time.
    out: Mutex<(Stream, Sealer)>,
    /// One message, of several frames, at a time.
    message: Mutex<()>,
    heard: Mutex<Instant>,
    /// Its end was announced.
    left: AtomicBool,
}

impl Line {
    fn send(&self, kind: Kind, payload: &[u8]) -> std::io::Result<()> {
        let mut out = lock(&self.out);
        let (stream, sealer) = &mut *out;
        sealer.write(&mut &*stream, kind, payload)
    }
    /// A message in parts, then the frame that ends it.
    fn send_message(&self, bytes: &[u8], end: Kind, payload: &[u8]) -> std::io::Result<()> {
        let _whole = lock(&self.message);
        for part in bytes.chunks(wire::PART) {
            self.send(Kind::Part, part)?;
        }
        self.send(end, payload)
    }
}

/// A thread that panicked in between left no half-made value: every change is one assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A step that not every rank has come to.
struct Step {
    what: String,
    since: Instant,
    messages: Vec<Option<Vec<u8>>>,
}

#[derive(Default)]
struct State {
    /// The first failure, from when the others are told of it; `failed` once they have been.
    cause: Option<ExchangeError>,
    failed: Option<ExchangeError>,
    /// Failures of other processes, in the order in which they were heard.
    told: Vec<ExchangeError>,
    /// Steps that ended and that this process has not looked at.
    results: BTreeMap<u64, Vec<Vec<u8>>>,
    /// On other ranks than 0: the step whose messages this process waits for.
    awaited: Option<u64>,
    /// On rank 0: steps that are open.
    steps: BTreeMap<u64, Step>,
    /// Rank 0 said that the run is over.
    over: bool,
    /// On rank 0: steps that have ended and are being told to the others.
    telling: usize,
    /// On rank 0: everything is here, so nobody else is needed.
    settled: bool,
    readers: usize,
}

impl State {
    /// Bytes of a rank's messages whose steps have not ended.
    fn kept(&self, rank: u32) -> usize {
        self.steps
            .values()
            .filter_map(|step: &Step| step.messages.get(rank as usize)?.as_ref().map(Vec::len))
            .sum()
    }
}

/// The part of a message that a connection has brought so far.
#[derive(Default)]
struct Open {
    parts: Vec<u8>,
    /// On rank 0: number of the rank's next message.
    next: u64,
    /// Failures that were remembered.
    told: usize,
}

/// The state that all threads of a process share.
pub(super) struct Core {
    rank: u32,
    world: u32,
    pace: Pace,
    lines: RwLock<Vec<Arc<Line>>>,
    state: Mutex<State>,
    changed: Condvar,
    broken: AtomicBool,
    closed: AtomicBool,
    /// Most bytes of a rank's outputs.
    allowed: AtomicUsize,
}

impl Core {
    pub(super) fn start(rank: u32, world: u32, pace: Pace) -> Arc<Self> {
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
        std::thread::spawn(move || monitor.watch());
        core
    }

    /// Adds a connection to a process that has joined.
    ///
    /// # Errors
    /// A connection whose options cannot be set.
    pub(super) fn add(
        self: &Arc<Self>,
        rank: u32,
        stream: Stream,
        sealer: Sealer,
        opener: Opener,
    ) -> std::io::Result<()> {
        stream.set_prompt()?;
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(None)?;
        stream.set_write_timeout(Some(self.pace.silence))?;
        let (out, from) = (stream.try_clone()?, stream.try_clone()?);
        let line = Arc::new(Line {
            rank,
            stream,
            out: Mutex::new((out, sealer)),
            message: Mutex::default(),
            heard: Mutex::new(Instant::now()),
            left: AtomicBool::new(false),
        });
        self.lines.write().unwrap_or_else(PoisonError::into_inner).push(line.clone());
        lock(&self.state).readers += 1;
        let core = self.clone();
        std::thread::spawn(move || {
            core.read(&line, &from, opener);
            lock(&core.state).readers -= 1;
            core.changed.notify_all();
        });
        Ok(())
    }

    fn lines(&self) -> Vec<Arc<Line>> {
        self.lines.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ranks that rank 0 has no connection to.
    pub(super) fn absent(&self) -> Vec<u32> {
        let joined: Vec<u32> = self.lines().iter().map(|line| line.rank).collect();
        (0..self.world).filter(|rank| *rank != self.rank && !joined.contains(rank)).collect()
    }

    // ---- failing ----

    pub(super) fn failed(&self) -> Option<ExchangeError> {
        if !self.broken.load(Ordering::Acquire) {
            return None;
        }
        lock(&self.state).failed.clone()
    }

    /// The run cannot go on; rank 0 tells everybody, the others tell rank 0.
    pub(super) fn fail(&self, error: ExchangeError) {
        let first = lock(&self.state).cause.get_or_insert_with(|| error.clone()).clone();
        if first != error && !matches!(error, ExchangeError::Failed { .. }) {
            // Processes that end since the run failed are no news.
            return;
        }
        // First the others: this process may end as soon as it knows.
        let payload = wire::put_error(&error);
        for line in self.lines() {
            let _ = line.send(Kind::Error, &payload);
        }
        self.note(first);
    }

    /// From here on this process knows.
    fn note(&self, error: ExchangeError) {
        lock(&self.state).failed.get_or_insert(error);
        self.broken.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    /// A connection is gone that should not be.
    fn lost(&self, line: &Line, how: String) {
        let unneeded = line.left.load(Ordering::Acquire)
            || self.closed.load(Ordering::Acquire)
            || lock(&self.state).settled;
        if !unneeded {
            self.fail(ExchangeError::Lost { rank: line.rank, how });
        }
        let _ = line.stream.shutdown(Shutdown::Both);
    }

    // ---- receiving ----

    fn read(&self, line: &Line, from: &Stream, mut opener: Opener) {
        let mut from = BufReader::new(from);
        let mut open = Open::default();
        let how = loop {
            match opener.read(&mut from) {
                Ok(Some((kind, payload))) => {
                    *lock(&line.heard) = Instant::now();
                    if let Err(what) = self.take(line, kind, payload, &mut open) {
                        break format!("it sent {what}");
                    }
                }
                Ok(None) => break "its connection closed".to_owned(),
                Err(Fault::Broken(error)) => break format!("its connection broke ({error})"),
                Err(Fault::Altered(how)) => {
                    self.fail(ExchangeError::Altered { rank: line.rank, how });
                    let _ = line.stream.shutdown(Shutdown::Both);
                    return;
                }
            }
        };
        self.lost(line, how);
    }

    /// Does what a frame says; an error is what is wrong with it.
    fn take(
        &self,
        line: &Line,
        kind: Kind,
        payload: Vec<u8>,
        open: &mut Open,
    ) -> Result<(), &'static str> {
        match kind {
            Kind::Alive => {}
            Kind::Part => {
                if open.parts.len() + payload.len() > self.largest() {
                    return Err("a message that is too long");
                }
                open.parts.extend(payload);
            }
            Kind::Message if self.rank == 0 => self.take_message(line, &payload, open)?,
            Kind::Result if self.rank != 0 => self.take_result(&payload, open)?,
            Kind::Error => {
                let error = wire::take_error(&payload).ok_or("a reason that is none")?;
                self.fail_from(error, open);
            }
            Kind::Bye => {
                line.left.store(true, Ordering::Release);
                lock(&self.state).over |= self.rank != 0;
                self.changed.notify_all();
            }
            Kind::Message | Kind::Result | Kind::Hello | Kind::Verdict => {
                return Err("what only the other end sends");
            }
        }
        Ok(())
    }

    /// Most bytes of what may arrive as one: on rank 0 a rank's message, elsewhere those of all.
    fn largest(&self) -> usize {
        match self.rank {
            0 => self.allowed.load(Ordering::Acquire).saturating_add(SMALL),
            _ => (SMALL + 8).saturating_mul(self.world as usize),
        }
    }

    fn take_message(
        &self,
        line: &Line,
        payload: &[u8],
        open: &mut Open,
    ) -> Result<(), &'static str> {
        let mut take = Take(payload);
        let head = (take.number(), take.text(), take.number());
        let (Some(number), Some(what), Some(first)) = head else {
            return Err("a message without its step");
        };
        if number != open.next || what.len() > MOST_NAME {
            return Err("a message of a step that is not its next");
        }
        open.next += 1;
        let message = std::mem::take(&mut open.parts);
        if first != 1 && message.len() > SMALL {
            return Err("a message that is too long");
        }
        let kept = lock(&self.state).kept(line.rank);
        if kept.saturating_add(message.len()) > self.largest() {
            return Err("more messages than it may have on the way");
        }
        self.deposit(line.rank, number, &what, first == 1, message);
        Ok(())
    }

    fn take_result(&self, payload: &[u8], open: &mut Open) -> Result<(), &'static str> {
        let number = Take(payload).number().ok_or("a result without its step")?;
        let parts = std::mem::take(&mut open.parts);
        let mut take = Take(&parts);
        let all = (0..self.world).map(|_| take.bytes().map(<[u8]>::to_vec));
        let all: Option<Vec<Vec<u8>>> = all.collect();
        let all = all.filter(|_| take.0.is_empty()).ok_or("a result in pieces")?;
        let mut state = lock(&self.state);
        if state.awaited != Some(number) {
            return Err("a result that nobody waits for");
        }
        state.awaited = None;
        state.results.insert(number, all);
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// A failure that another process told of: rank 0 passes it on, others must not send it back.
    fn fail_from(&self, error: ExchangeError, open: &mut Open) {
        let most = if self.rank == 0 { MOST_TOLD } else { MOST_PASSED_ON };
        let mut state = lock(&self.state);
        if open.told < most && !state.told.contains(&error) {
            open.told += 1;
            state.told.push(error.clone());
        }
        drop(state);
        if self.rank == 0 {
            self.fail(error);
        } else {
            self.note(error);
        }
    }

    /// On rank 0: a rank's message. The last of a step ends it for everybody.
    fn deposit(&self, rank: u32, number: u64, what: &str, first_only: bool, message: Vec<u8>) {
        let mut state = lock(&self.state);
        let open = state.steps.len();
        let step = state.steps.entry(number).or_insert_with(|| Step {
            what: what.to_owned(),
            since: Instant::now(),
            messages: vec![None; self.world as usize],
        });
        if step.what != what || open > MOST_STEPS {
            let why = format!("rank {rank} is at `{what}`, others are at `{}`", step.what);
            drop(state);
            return self.fail(ExchangeError::Broken { why });
        }
        if let Some(place) = step.messages.get_mut(rank as usize) {
            *place = Some(message);
        }
        if step.messages.iter().any(Option::is_none) {
            return;
        }
        let ended = state.steps.remove(&number).map_or_else(Vec::new, |step| step.messages);
        let all: Vec<Vec<u8>> = ended.into_iter().flatten().collect();
        state.telling += 1;
        drop(state);
        // First the others: this process may say goodbye as soon as it knows.
        if !first_only {
            self.send_results(number, &all);
        }
        let mut state = lock(&self.state);
        state.telling -= 1;
        state.results.insert(number, all);
        drop(state);
        self.changed.notify_all();
    }

    fn send_results(&self, number: u64, all: &[Vec<u8>]) {
        let bytes = all.iter().fold(Put::default(), |put, message| put.bytes(message)).0;
        let head = Put::default().number(number).0;
        for line in self.lines() {
            if let Err(error) = line.send_message(&bytes, Kind::Result, &head) {
                self.lost(&line, format!("it does not take messages ({error})"));
            }
        }
    }

    // ---- watching ----

    /// Until the end: signs of life, silence, steps that take too long.
    fn watch(&self) {
        let beat = self.pace.beat();
        let mut last = Instant::now();
        while !self.closed.load(Ordering::Acquire) {
            std::thread::sleep(beat);
            let lines = self.lines();
            let slept = last.elapsed();
            last = Instant::now();
            if slept > self.pace.silence / 2 {
                // This process itself was stopped: what others sent is still to be read.
                lines.iter().for_each(|line| *lock(&line.heard) = last);
            }
            for line in &lines {
                let _ = line.send(Kind::Alive, &[]);
                let silent = lock(&line.heard).elapsed();
                if silent > self.pace.silence && !line.left.load(Ordering::Acquire) {
                    let how = format!("nothing was heard of it for {} ms", silent.as_millis());
                    self.lost(line, how);
                }
            }
            if let Some(error) = self.late() {
                self.fail(error);
            }
        }
    }

    /// A step that somebody does not come to.
    fn late(&self) -> Option<ExchangeError> {
        // As long as somebody has not joined the lobby looks at the clock, and knows who.
        let joining = !self.absent().is_empty();
        let state = lock(&self.state);
        if state.cause.is_some() || state.settled || joining {
            return None;
        }
        let timeout = self.pace.timeout;
        let step = state.steps.values().find(|step| step.since.elapsed() > timeout)?;
        let absent = step.messages.iter().enumerate().filter(|(_, message)| message.is_none());
        let ranks = absent.map(|(rank, _)| rank as u32).collect();
        Some(ExchangeError::Late { ranks, what: step.what.clone(), timeout })
    }

    /// Waits until `found` is something; without a deadline, since the monitor sees to an end. The time
    /// that rank 0 needs to say so comes on top.
    fn wait<T>(&self, mut found: impl FnMut(&mut State) -> Option<T>) -> Result<T, ExchangeError> {
        let mut state = lock(&self.state);
        loop {
            if let Some(value) = found(&mut state) {
                return Ok(value);
            }
            // A step that has ended counts, also if somebody who was told so fails before this process
            // knows: what all of them find wrong is rank 0's to say.
            if let Some(error) = state.failed.as_ref().filter(|_| state.telling == 0) {
                return Err(error.clone());
            }
            if state.over {
                let how = "it ended before the others".to_owned();
                return Err(ExchangeError::Lost { rank: 0, how });
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Closes the connections; what was sent last still arrives, as far as the others take it.
    fn close(&self) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        let lines = self.lines();
        lines.iter().for_each(|line| {
            let _ = line.stream.shutdown(Shutdown::Write);
        });
        let state = lock(&self.state);
        let _ = self.changed.wait_timeout_while(state, LINGER, |state| state.readers > 0);
        lines.iter().for_each(|line| {
            let _ = line.stream.shutdown(Shutdown::Both);
        });
    }
}

/// This process among those of its run.
pub(crate) struct Peers {
    core: Arc<Core>,
    host: String,
    /// Number of the next step.
    next: Mutex<u64>,
}

impl std::fmt::Debug for Peers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (rank, world) = (self.core.rank, self.core.world);
        f.debug_struct("Peers").field("rank", &rank).field("world", &world).finish_non_exhaustive()
    }
}

impl Peers {
    pub(super) fn new(core: Arc<Core>, host: String) -> Self {
        Self { core, host, next: Mutex::new(0) }
    }

    /// So many bytes more are to be collected in this run, from each process.
    pub(crate) fn allow(&self, bytes: usize) {
        let _ = self.core.allowed.fetch_update(
            Ordering::AcqRel,
            Ordering::Acquire,
            |allowed: usize| Some(allowed.saturating_add(bytes)),
        );
    }

    /// Sends a message of a step; its number.
    fn send(&self, what: &str, message: &[u8], first_only: bool) -> Result<u64, ExchangeError> {
        let mut next = lock(&self.next);
        let number = *next;
        *next += 1;
        if let Some(error) = self.core.failed() {
            return Err(error);
        }
        if !first_only && message.len() > SMALL {
            let why = format!("`{what}` is {} bytes, and may be {SMALL}", message.len());
            self.core.fail(ExchangeError::Broken { why: why.clone() });
            return Err(ExchangeError::Broken { why });
        }
        lock(&self.core.state).awaited = Some(number).filter(|_| !first_only);
        if self.core.rank == 0 {
            self.core.deposit(0, number, what, first_only, message.to_vec());
            return Ok(number);
        }
        let head = Put::default().number(number).bytes(what.as_bytes());
        let head = head.number(u64::from(first_only)).0;
        for line in self.core.lines() {
            if let Err(error) = line.send_message(message, Kind::Message, &head) {
                self.core.lost(&line, format!("it does not take messages ({error})"));
            }
        }
        Ok(number)
    }

    /// Rank 0 gets the messages of all ranks in rank order; the others go on at once.
    ///
    /// # Errors
    /// Those of [`Exchange::gather`].
    pub(crate) fn collect(
        &self,
        what: &str,
        message: &[u8],
    ) -> Result<Option<Vec<Vec<u8>>>, ExchangeError> {
        let number = self.send(what, message, true)?;
        if self.core.rank != 0 {
            return Ok(None);
        }
        self.core.wait(|state| state.results.remove(&number)).map(Some)
    }

    /// On rank 0: everything that the others had to give is here; one that ends now is no failure.
    pub(crate) fn settle(&self) {
        lock(&self.core.state).settled = true;
    }

    /// Whether rank 0 has everything.
    pub(crate) fn is_settled(&self) -> bool {
        lock(&self.core.state).settled
    }

    /// Whether a rank fails with these words; waits a moment for it to say so.
    pub(crate) fn is_told(&self, rank: u32, why: &str) -> bool {
        let why = wire::cut(why);
        let told = |state: &State| {
            state.told.iter().any(|error: &ExchangeError| matches!(error, ExchangeError::Failed { rank: other, why: words } if *other == rank && words == why))
        };
        let state = lock(&self.core.state);
        let waited = self
            .core
            .changed
            .wait_timeout_while(state, LINGER, |state| !told(state) && state.readers > 0);
        told(&waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    /// Ends a run that went well: rank 0 says that it is over, the others wait for that however long it
    /// takes, as long as rank 0 is alive.
    ///
    /// # Errors
    /// A failure of rank 0.
    pub(crate) fn finish(&self) -> Result<(), ExchangeError> {
        let result = if self.core.rank == 0 {
            self.settle();
            Ok(())
        } else {
            self.core.wait(|state| state.over.then_some(()))
        };
        for line in self.core.lines() {
            let _ = line.send(Kind::Bye, &[]);
        }
        self.core.close();
        result
    }
}

impl Exchange for Peers {
    fn rank(&self) -> u32 {
        self.core.rank
    }
    fn world(&self) -> u32 {
        self.core.world
    }
    fn host(&self) -> String {
        self.host.clone()
    }
    fn gather(&self, what: &str, message: &[u8]) -> Result<Vec<Vec<u8>>, ExchangeError> {
        let number = self.send(what, message, false)?;
        self.core.wait(|state| state.results.remove(&number))
    }
    fn fail(&self, why: &str) {
        self.core.fail(ExchangeError::Failed { rank: self.core.rank, why: why.to_owned() });
    }
    fn failed(&self) -> Option<ExchangeError> {
        self.core.failed()
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.core.close();
    }
}

#[cfg(test)]
#[path = "peers/tests.rs"]
mod tests;
