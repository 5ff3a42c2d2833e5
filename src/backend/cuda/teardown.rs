//! How a rank that failed gives up what it has under way.
//!
//! Its device may wait for ranks that will not come: in kernels of NCCL's, for flags of messages, in graphs that
//! hold either. What waits has to be let go before anything can be freed, and a call that frees may itself wait
//! for the device. So a thread of its own does all of it, in this order:
//!
//! 1. Poison the ranks of other processes whose memory is open here, then raise all own flags, without waiting.
//!    What streams do from then on with data that never came is of no consequence here, and elsewhere whoever
//!    meets its effects finds the poison, which was written before ([`Rank::poisoned`](super::rank::Rank)).
//! 2. Give up graphs, beside everything else: `ncclCommAbort` waits until no graph holds its communicator, and
//!    the driver lets go of a graph that runs when it ends.
//! 3. Abort all communicators as one group: NCCL tells all of their kernels to end before it waits for any of
//!    them (`setCommAbortFlags` in `init.cc`).
//! 4. Raise flags until every stream has come to its end.
//!
//! The rank waits for the thread, for a limited time. If that is not enough, the thread goes on by itself, and
//! what its device may still use is never freed ([`Ending::is_over`]).
#![allow(unsafe_code, reason = "flags are words of memory that the estate keeps")]

use super::sys::Error;
use super::sys::driver::{Device, Event, Graph, Memory, Stream};
use super::sys::peer::WordOp;
use nccl_rs::Communicator;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a rank waits until its device has let go.
const PATIENCE: Duration = Duration::from_millis(1500);
/// How long the thread goes on.
const LIMIT: Duration = Duration::from_secs(60);
/// Between two looks at the streams.
const PAUSE: Duration = Duration::from_micros(200);

/// What a rank has under way.
pub(super) struct Estate {
    pub(super) device: Arc<Device>,
    /// Words of other ranks that say that this one gave up.
    pub(super) poison: Vec<WordOp>,
    /// Own flags.
    pub(super) flags: Vec<WordOp>,
    /// The stream that writes both, on which nothing else waits.
    pub(super) aside: Option<Stream>,
    pub(super) graphs: Vec<Graph>,
    pub(super) communicators: Vec<Communicator>,
    /// What they work on.
    pub(super) memory: Option<Memory>,
    /// Where work may be under way.
    pub(super) streams: Vec<Stream>,
}

/// The end of a rank's work, under way or reached.
#[derive(Clone, Default)]
pub(super) struct Ending(Arc<(Mutex<bool>, Condvar)>);

impl Ending {
    /// Whether the device has let go of everything.
    pub(super) fn is_over(&self) -> bool {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }

    /// Waits for the end, for a limited time.
    fn wait(&self, patience: Duration) {
        let over = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.0.1.wait_timeout_while(over, patience, |over| !*over);
    }
}

/// Does work that may not return in a thread, and waits for it for a limited time. A thread that cannot be
/// started leaves the work undone.
fn limited(name: &str, work: impl FnOnce() -> bool + Send + 'static) -> Ending {
    let ending = Ending::default();
    let told = ending.clone();
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        if work() {
            told.set();
        }
    });
    if thread.is_ok() {
        ending.wait(PATIENCE);
    }
    ending
}

/// Ends what a failed rank has under way.
pub(super) fn end(estate: Estate) -> Ending {
    limited("hir-teardown", move || estate.end().is_ok())
}

/// Destroys the communicators of a rank whose work has ended. NCCL may wait for the other members to do the
/// same, who may be processes that do not.
pub(super) fn destroy(device: Arc<Device>, communicators: Vec<Communicator>) {
    if communicators.is_empty() {
        return;
    }
    limited("hir-destroy", move || {
        let _ = device.make_current();
        drop(communicators);
        true
    });
}

impl Estate {
    /// Comes back when every stream is at its end.
    fn end(self) -> Result<(), Error> {
        let Self { device, poison, flags, aside, graphs, communicators, memory, streams } = self;
        device.make_current()?;
        if let Some(aside) = &aside {
            write(aside, &poison)?;
            write(aside, &flags)?;
        }
        let graphs = std::thread::spawn(move || drop(graphs));
        let _ = Communicator::abort_together(communicators);
        let mut release = Release::new(&device, aside, flags)?;
        let ended = release.until_idle(&device, &streams);
        // A graph whose run has ended goes at once; memory that may still be used stays for good.
        match ended {
            Ok(()) => drop((graphs.join(), memory)),
            Err(_) => std::mem::forget(memory),
        }
        ended
    }
}

/// Writes flags: those of a rank that gave up, and the poison of others.
fn write(aside: &Stream, words: &[WordOp]) -> Result<(), Error> {
    // SAFETY: a rank makes an estate of its own flags and of words that others set aside for this, and neither its
    // memory nor what it has open of theirs is given back before the thread is over. Nothing is done any more
    // with data that the flags stand for.
    unsafe { aside.words(words) }
}

/// Raises flags again and again.
struct Release {
    aside: Option<Stream>,
    flags: Vec<WordOp>,
    /// Behind what was raised last.
    raised: Event,
}

impl Release {
    fn new(device: &Arc<Device>, aside: Option<Stream>, flags: Vec<WordOp>) -> Result<Self, Error> {
        Ok(Self { aside, flags, raised: Event::new(device, false)? })
    }

    /// Raises the flags, unless those of the last time are not raised yet.
    fn raise(&self) -> Result<(), Error> {
        let Some(aside) = self.aside.as_ref().filter(|_| !self.flags.is_empty()) else {
            return Ok(());
        };
        if self.raised.is_reached()? {
            write(aside, &self.flags)?;
            aside.record(&self.raised)?;
        }
        Ok(())
    }

    /// Comes back when all streams are at their ends. It asks events rather than streams, as
    /// [`Rank::wait`](super::rank::Rank) does. What a device that is lost says to that is as good as an end.
    fn until_idle(&mut self, device: &Arc<Device>, streams: &[Stream]) -> Result<(), Error> {
        let limit = Instant::now() + LIMIT;
        let mut ends = Vec::with_capacity(streams.len());
        for stream in streams {
            let end = Event::new(device, false)?;
            stream.record(&end)?;
            ends.push(end);
        }
        loop {
            ends.retain(|end| !end.is_reached().unwrap_or(true));
            if ends.is_empty() {
                return Ok(());
            }
            if Instant::now() > limit {
                let status = "streams do not come to their ends".to_owned();
                return Err(Error::Call { call: "the teardown", status });
            }
            self.raise()?;
            std::thread::sleep(PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_returns_is_over() {
        assert!(limited("test", || true).is_over());
        assert!(!limited("test", || false).is_over());
    }

    #[test]
    fn work_that_does_not_return_is_left_alone() {
        let (go_on, wait) = std::sync::mpsc::channel::<()>();
        let start = Instant::now();
        let ending = limited("test", move || wait.recv().is_ok());
        assert!(!ending.is_over() && start.elapsed() >= PATIENCE);
        go_on.send(()).unwrap();
        ending.wait(Duration::from_secs(30));
        assert!(ending.is_over(), "what ends later is known later");
    }
}
