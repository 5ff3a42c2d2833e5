//! Teardown: a failed rank abandons its work in flight.
//!
//! Its device may wait for ranks that will not come: in NCCL kernels, for semaphores of messages, in graphs that
//! contain either. These waits must be released before anything can be freed, and a call that frees may itself wait for
//! the device. A dedicated thread therefore does all of it, in this order:
//!
//! 1. Poison the ranks of other processes whose memory is open here. From then on, work of the streams on data that
//!    never arrived has no consequences here; a process elsewhere that receives such data finds the poison, which was
//!    written before ([`RankRuntime::wait_for_end`](crate::runtime::rank::RankRuntime::wait_for_end)).
//! 2. Abort all communicators as one group: NCCL tells all of their kernels to end before it waits for any of
//!    them (`setCommAbortFlags` in `init.cc`).
//! 3. Signal own semaphores until every stream has ended. They are signalled after the calls of step 2, so that no
//!    NCCL communication carries garbage, and concurrently with the rest of step 2, which may wait for the streams.
//! 4. Concurrently, release graphs: `ncclCommAbort` waits until no graph holds its communicator, and the driver
//!    releases a running graph when it ends.
//!
//! The rank waits for the thread, for a limited time. If that is not enough, the thread continues on its own, and
//! memory that its device may still use is never freed ([`TeardownTask::is_over`]). Resources that are dropped in the
//! end are dropped in such a thread as well ([`drop_in_threads`]).
#![allow(unsafe_code, reason = "flags are words of memory that the estate keeps")]

use crate::runtime::library_access::BackgroundThread;
use crate::sys::Error;
use crate::sys::driver::{CudaDevice, CudaEvent, CudaGraph, CudaStream, DeviceMemory};
use crate::sys::peer::WordOp;
use nccl_rs::NcclCommunicator;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// The time that a rank waits for its device to become idle.
const PATIENCE: Duration = Duration::from_millis(1500);
/// The time that the thread continues.
const LIMIT: Duration = Duration::from_secs(60);
/// The time that NCCL may take to tell its kernels to end.
const TOLD: Duration = Duration::from_millis(300);
/// Between two looks at the streams.
const PAUSE: Duration = Duration::from_micros(200);

/// A graph with the external events that it records, by the event of the schedule that each replaces.
pub(crate) type RecordedGraph = (CudaGraph, BTreeMap<usize, CudaEvent>);

/// Everything that a rank has in flight.
pub(crate) struct TeardownState {
    pub(crate) device: Arc<CudaDevice>,
    /// Words of other ranks that report that this one gave up.
    pub(crate) poison: Vec<WordOp>,
    /// Own flags.
    pub(crate) flags: Vec<WordOp>,
    /// The stream that writes both, on which no other work waits.
    pub(crate) side_stream: Option<CudaStream>,
    /// With the events that they record.
    pub(crate) graphs: Vec<RecordedGraph>,
    pub(crate) communicators: Vec<NcclCommunicator>,
    /// Memory that they work on.
    pub(crate) memory: Option<DeviceMemory>,
    /// Streams with work that may be in flight.
    pub(crate) streams: Vec<CudaStream>,
}

/// Resources to drop once nothing uses them.
pub(crate) type RankResources = Box<dyn Send>;

/// The end of work that may not return, in a thread of its own.
#[derive(Clone)]
pub(crate) struct TeardownTask {
    over: Arc<AtomicBool>,
    /// `None` if no thread could be started.
    thread: Option<BackgroundThread>,
    begun: Instant,
}

impl TeardownTask {
    /// Begins such work, which returns whether it finished. If no thread can start, the work is never done, and what it
    /// owns is leaked.
    fn spawn_task(name: &str, work: impl FnOnce() -> bool + Send + 'static) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let reported = over.clone();
        let begun = Instant::now();
        let thread = BackgroundThread::spawn(name, move || reported.store(work(), Ordering::Release));
        Self { over, thread, begun }
    }

    /// Whether the work came to its end.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Waits for the end, until [`PATIENCE`] has passed since the beginning.
    pub(crate) fn wait(&self) {
        let left = PATIENCE.saturating_sub(self.begun.elapsed());
        if let Some(thread) = &self.thread {
            thread.wait(left);
        }
    }
}

/// Begins to end the work in flight of a failed rank.
pub(crate) fn begin_teardown(estate: TeardownState) -> TeardownTask {
    TeardownTask::spawn_task("hir-teardown", move || estate.tear_down())
}

/// Drops resources of ranks whose work has ended, all at the same time, and waits for that for a limited time. Dropping
/// may wait for work of others: freeing memory waits for the whole device, and NCCL may wait for other members of a
/// communicator.
pub(crate) fn drop_in_threads(all: Vec<RankResources>) {
    let endings = all.into_iter().map(|belongings| {
        TeardownTask::spawn_task("hir-release", move || {
            drop(belongings);
            true
        })
    });
    let endings: Vec<TeardownTask> = endings.collect();
    endings.iter().for_each(TeardownTask::wait);
}

impl TeardownState {
    /// Returns when every stream has ended; true if all did. Errors of calls are ignored: a lost device has nothing to
    /// release.
    fn tear_down(self) -> bool {
        let Self { device, poison, flags, side_stream, graphs, communicators, memory, streams } = self;
        let _ = device.make_current();
        if let Some(side_stream) = &side_stream {
            let _ = write_words(side_stream, &poison);
        }
        let graphs = BackgroundThread::spawn("hir-graphs", move || drop(graphs));
        let (reported, heard) = mpsc::channel();
        let communicators = BackgroundThread::spawn("hir-abort", {
            let device = device.clone();
            move || {
                let _ = device.make_current();
                let _ = NcclCommunicator::abort_all(communicators, || {
                    let _ = reported.send(());
                });
            }
        });
        let _ = heard.recv_timeout(TOLD);
        let idle = FlagRelease { device: &device, side_stream, flags }.wait_until_idle(&streams);
        if !idle {
            // Memory that may still be used is never freed.
            std::mem::forget(memory);
            return false;
        }
        // Release graphs and communicators of finished runs.
        let ended = [graphs, communicators].into_iter().flatten().all(|one| one.wait(Duration::MAX));
        drop(memory);
        ended
    }
}

/// Writes semaphores: those of a rank that gave up, and the poison of others.
fn write_words(side_stream: &CudaStream, words: &[WordOp]) -> Result<(), Error> {
    // SAFETY: a rank makes an estate of its own flags and of words that others set aside for this, and neither its
    // memory nor what it has open of theirs is given back before the thread is over. Nothing is done any more
    // with data that the flags stand for.
    unsafe { side_stream.run_word_ops(words) }
}

/// Raises flags again and again.
struct FlagRelease<'a> {
    device: &'a Arc<CudaDevice>,
    side_stream: Option<CudaStream>,
    flags: Vec<WordOp>,
}

impl FlagRelease<'_> {
    /// Signals the semaphores, and records `signalled` after them.
    fn signal_flags(&self, signalled: &CudaEvent) -> Result<(), Error> {
        let Some(side_stream) = &self.side_stream else { return Ok(()) };
        write_words(side_stream, &self.flags)?;
        side_stream.record(signalled)
    }

    /// Records events at the end of all work of these streams. If an event cannot be recorded, its device is lost.
    fn record_stream_ends(&self, streams: &[CudaStream]) -> Vec<CudaEvent> {
        streams.iter().filter_map(|stream| self.record_stream_end(stream)).collect()
    }

    fn record_stream_end(&self, stream: &CudaStream) -> Option<CudaEvent> {
        let end = CudaEvent::new(self.device, false).ok()?;
        stream.record(&end).ok().map(|()| end)
    }

    /// Waits for all streams to finish and returns true if they did. It queries events rather than streams, as
    /// [`RankRuntime::wait_for_end`](crate::runtime::rank::RankRuntime::wait_for_end) does.
    fn wait_until_idle(&self, streams: &[CudaStream]) -> bool {
        let limit = Instant::now() + LIMIT;
        let Ok(signalled) = CudaEvent::new(self.device, false) else { return false };
        // A stream whose queue is full accepts an event only once semaphores are signalled.
        let _ = self.signal_flags(&signalled);
        let mut ends = self.record_stream_ends(streams);
        loop {
            ends.retain(|end| !end.is_reached().unwrap_or(true));
            // The last words are written, also those of others, before their memory is freed.
            if ends.is_empty() && signalled.is_reached().unwrap_or(true) {
                return true;
            }
            if Instant::now() > limit {
                return false;
            }
            if signalled.is_reached().unwrap_or(false) {
                let _ = self.signal_flags(&signalled);
            }
            std::thread::sleep(PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(work: impl FnOnce() -> bool + Send + 'static) -> bool {
        let ending = TeardownTask::spawn_task("test", work);
        ending.wait();
        ending.is_over()
    }

    #[test]
    fn work_that_returns_is_over() {
        assert!(ended(|| true));
        assert!(!ended(|| false));
    }

    #[test]
    fn work_that_does_not_return_is_left_alone() {
        let (go_on, wait) = std::sync::mpsc::channel::<()>();
        let ending = TeardownTask::spawn_task("test", move || wait.recv().is_ok());
        ending.wait();
        assert!(!ending.is_over() && ending.begun.elapsed() >= PATIENCE);
        go_on.send(()).unwrap();
        while !ending.is_over() {
            std::thread::sleep(PAUSE);
        }
    }
}
