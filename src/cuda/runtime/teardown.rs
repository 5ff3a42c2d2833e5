//! Teardown: a failed rank abandons its work in flight.
//!
//! Its device may wait for ranks that will not come: in NCCL kernels, for semaphores of messages, in graphs that contain
//! either. These waits must be released before anything can be freed, and a call that frees may itself wait for the
//! device. A dedicated thread therefore does all of it, in this order:
//!
//! 1. Poison the ranks of other processes whose memory is open here. Work that streams from now on do with data that
//!    never arrived has no consequences here; a process elsewhere that meets its effects finds the poison, which was
//!    written before ([`RankRuntime::wait_for_end`](crate::runtime::rank::RankRuntime::wait_for_end)).
//! 2. Abort all communicators as one group: NCCL tells all of their kernels to end before it waits for any of
//!    them (`setCommAbortFlags` in `init.cc`).
//! 3. Signal own semaphores until every stream has ended. They are signalled after the calls of step 2, so that no
//!    NCCL communication carries garbage, and concurrently with the rest of step 2, which may wait for the streams.
//! 4. Concurrently, release graphs: `ncclCommAbort` waits until no graph holds its communicator, and the driver
//!    releases a running graph when it ends.
//!
//! The rank waits for the thread, for a limited time. If that is not enough, the thread continues on its own, and
//! memory that its device may still use is never freed ([`TeardownTask::is_over`]). Resources that are dropped in the end are
//! dropped in such a thread as well ([`drop_in_threads`]).
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

/// The time that a rank waits until its device has let go.
const PATIENCE: Duration = Duration::from_millis(1500);
/// The time that the thread goes on.
const LIMIT: Duration = Duration::from_secs(60);
/// The time that NCCL may take until its kernels are told to end.
const TOLD: Duration = Duration::from_millis(300);
/// Between two looks at the streams.
const PAUSE: Duration = Duration::from_micros(200);

/// A graph with the marks that it sets, by the event that they stand for.
pub(crate) type RecordedGraph = (CudaGraph, BTreeMap<usize, CudaEvent>);

/// Everything that a rank has under way.
pub(crate) struct TeardownState {
    pub(crate) device: Arc<CudaDevice>,
    /// Words of other ranks that say that this one gave up.
    pub(crate) poison: Vec<WordOp>,
    /// Own flags.
    pub(crate) flags: Vec<WordOp>,
    /// The stream that writes both, on which nothing else waits.
    pub(crate) aside: Option<CudaStream>,
    /// With the marks that they set.
    pub(crate) graphs: Vec<RecordedGraph>,
    pub(crate) communicators: Vec<NcclCommunicator>,
    /// Memory that they work on.
    pub(crate) memory: Option<DeviceMemory>,
    /// Streams with work that may be under way.
    pub(crate) streams: Vec<CudaStream>,
}

/// Things to drop once nothing uses them any more.
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
    /// Begins such work, which says whether it came to its end. Where no thread can be started the work is left
    /// undone for good, and what it owns stays where it is.
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

/// Begins to end what a failed rank has under way.
pub(crate) fn begin_teardown(estate: TeardownState) -> TeardownTask {
    TeardownTask::spawn_task("hir-teardown", move || estate.tear_down())
}

/// Drops what belongs to ranks whose work has ended, all at the same time, and waits for that for a limited time. It
/// may wait for work of others: to free memory waits for the whole device, and NCCL may wait for other members of a
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
    /// Comes back when every stream is at its end; whether that is so. What a call says here is of no use: where
    /// the device is lost there is nothing to let go of.
    fn tear_down(self) -> bool {
        let Self { device, poison, flags, aside, graphs, communicators, memory, streams } = self;
        let _ = device.make_current();
        if let Some(aside) = &aside {
            let _ = write_words(aside, &poison);
        }
        let graphs = BackgroundThread::spawn("hir-graphs", move || drop(graphs));
        let (told, heard) = mpsc::channel();
        let communicators = BackgroundThread::spawn("hir-abort", {
            let device = device.clone();
            move || {
                let _ = device.make_current();
                let _ = NcclCommunicator::abort_all(communicators, || {
                    let _ = told.send(());
                });
            }
        });
        let _ = heard.recv_timeout(TOLD);
        let idle = FlagRelease { device: &device, aside, flags }.wait_until_idle(&streams);
        if !idle {
            // Memory that may still be used stays for good.
            std::mem::forget(memory);
            return false;
        }
        // Graphs and communicators that runs held are released now that the runs have ended.
        let ended = [graphs, communicators].into_iter().flatten().all(|one| one.wait(Duration::MAX));
        drop(memory);
        ended
    }
}

/// Writes flags: those of a rank that gave up, and the poison of others.
fn write_words(aside: &CudaStream, words: &[WordOp]) -> Result<(), Error> {
    // SAFETY: a rank makes an estate of its own flags and of words that others set aside for this, and neither its
    // memory nor what it has open of theirs is given back before the thread is over. Nothing is done any more
    // with data that the flags stand for.
    unsafe { aside.run_word_ops(words) }
}

/// Raises flags again and again.
struct FlagRelease<'a> {
    device: &'a Arc<CudaDevice>,
    aside: Option<CudaStream>,
    flags: Vec<WordOp>,
}

impl FlagRelease<'_> {
    /// Raises the flags, and marks that with `raised`.
    fn raise_flags(&self, raised: &CudaEvent) -> Result<(), Error> {
        let Some(aside) = &self.aside else { return Ok(()) };
        write_words(aside, &self.flags)?;
        aside.record(raised)
    }

    /// Marks at the end of all that these streams have to do. A mark that cannot be made is of a device that is lost.
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
        let Ok(raised) = CudaEvent::new(self.device, false) else { return false };
        // A stream whose queue is full takes a mark only when flags are raised.
        let _ = self.raise_flags(&raised);
        let mut ends = self.record_stream_ends(streams);
        loop {
            ends.retain(|end| !end.is_reached().unwrap_or(true));
            // What was written last is written: words of others too, before their memory is given back.
            if ends.is_empty() && raised.is_reached().unwrap_or(true) {
                return true;
            }
            if Instant::now() > limit {
                return false;
            }
            if raised.is_reached().unwrap_or(false) {
                let _ = self.raise_flags(&raised);
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
