//! A rank's streams and events.
#![allow(unsafe_code, reason = "only the rank knows that its addresses are right")]

use crate::runtime::rank::allocation::RankAllocation;
use crate::sys::Error;
use crate::sys::driver::{CudaDevice, CudaEvent, CudaStream, StreamPriority};
use hostir_gpu::schedule::RankSchedule;
use std::sync::Arc;

/// The streams and events of a schedule, and those for the end and the time of a run.
pub(crate) struct RankStreams {
    // Dropped in this order.
    pub(crate) events: Vec<CudaEvent>,
    pub(crate) timers: [CudaEvent; 2],
    /// The event at the end of the issued work.
    pub(crate) end: CudaEvent,
    pub(crate) all: Vec<CudaStream>,
    /// The side stream for semaphores and their release while other streams wait; `None` without semaphores.
    pub(crate) side_stream: Option<CudaStream>,
    /// The caller's stream, which replaces the first one while a run is issued on it.
    pub(crate) front: Option<CudaStream>,
    /// True if the last run was issued on a caller's stream, and the first stream has not waited for it.
    trails: bool,
    /// True if the first stream fills memory before a run on another stream may use it.
    fills: bool,
}

impl RankStreams {
    /// Creates the streams and events of a schedule, of which the first `own` streams are the program's.
    pub(crate) fn new(
        device: &Arc<CudaDevice>,
        schedule: &RankSchedule,
        own: usize,
        semaphores: bool,
    ) -> Result<Self, Error> {
        let priority = |stream| if stream < own { StreamPriority::Normal } else { StreamPriority::High };
        let all = (0..schedule.streams).map(|stream| CudaStream::new(device, priority(stream)));
        let events = (0..schedule.events).map(|_| CudaEvent::new(device, false));
        Ok(Self {
            all: all.collect::<Result<_, _>>()?,
            events: events.collect::<Result<_, _>>()?,
            timers: [CudaEvent::new(device, true)?, CudaEvent::new(device, true)?],
            end: CudaEvent::new(device, false)?,
            side_stream: semaphores.then(|| CudaStream::new(device, StreamPriority::High)).transpose()?,
            front: None,
            trails: false,
            fills: false,
        })
    }

    /// The stream of a number, as a run is issued.
    pub(crate) fn issuing(&self, number: usize) -> &CudaStream {
        self.front.as_ref().filter(|_| number == 0).unwrap_or(&self.all[number])
    }

    /// Fills memory on the first stream, for later runs.
    ///
    /// # Safety
    /// As of [`CudaStream::fill_bytes`].
    pub(crate) unsafe fn fill_for_runs(&mut self, to: u64, byte: u8, bytes: usize) -> Result<(), Error> {
        self.fills = true;
        // SAFETY: as the caller promises.
        unsafe { self.main().fill_bytes(to, byte, bytes) }
    }

    /// Issues the next run on a caller's stream instead of the first one: after the earlier run, unless that is known
    /// to be complete, and after the fills of the first stream, which record `event`.
    pub(crate) fn begin_on_caller(
        &mut self,
        caller: CudaStream,
        complete: bool,
        event: &CudaEvent,
    ) -> Result<(), Error> {
        if !complete {
            caller.wait(&self.end)?;
        }
        if self.fills {
            self.main().record(event)?;
            caller.wait(event)?;
            self.fills = false;
        }
        self.front = Some(caller);
        Ok(())
    }

    /// Records the end of a run on the caller's stream, and returns the stream to the caller.
    pub(crate) fn end_on_caller(&mut self) -> Result<(), Error> {
        self.trails = true;
        self.front.take().map_or(Ok(()), |caller| caller.record(&self.end))
    }

    /// Makes the first stream wait for a run that was issued on a caller's stream.
    pub(crate) fn follow_caller(&mut self) -> Result<(), Error> {
        if std::mem::take(&mut self.trails) { self.main().wait(&self.end) } else { Ok(()) }
    }

    /// The stream on which every run begins and ends.
    pub(crate) fn main(&self) -> &CudaStream {
        &self.all[0]
    }

    /// Fills memory that is not used yet, so that it does not look like results of this program, and resets its
    /// semaphores.
    pub(crate) fn clear_memory(&self, memory: &RankAllocation) -> Result<(), Error> {
        let start = memory.base_address();
        // SAFETY: the rank's promise: this is all of its memory, which nobody uses yet.
        unsafe { self.main().fill_bytes(start, 0xff, memory.memory_bytes()) }?;
        self.main().synchronize()?;
        if let Some(side_stream) = &self.side_stream {
            // A stream that was used once takes no more preparation when it is needed.
            // SAFETY: the rank's promise: flags are the first bytes of its memory.
            unsafe { side_stream.fill_bytes(start, 0, memory.flags) }?;
            side_stream.synchronize()?;
        }
        Ok(())
    }

    /// Whether nothing is in flight on any stream.
    pub(crate) fn are_done(&self) -> bool {
        let own = self.all.iter().all(|stream| stream.is_done() == Ok(true));
        own && (!self.trails || self.end.is_reached() == Ok(true))
    }

    /// Reads the last word of the semaphores, if there are any.
    pub(crate) fn read_poison(&self, memory: &RankAllocation) -> Result<Option<u32>, Error> {
        let Some(side_stream) = &self.side_stream else { return Ok(None) };
        let mut word = [0; 4];
        // SAFETY: the rank's promise: flags are the first bytes of its memory, and there is one if there is `side_stream`.
        unsafe { side_stream.download(&mut word, memory.poison_address()) }?;
        Ok(u32::from_le_bytes(word).checked_sub(1))
    }
}
