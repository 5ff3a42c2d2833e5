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
    /// The stream for semaphores and their release while other streams wait; `None` without semaphores.
    pub(crate) aside: Option<CudaStream>,
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
            aside: semaphores.then(|| CudaStream::new(device, StreamPriority::High)).transpose()?,
        })
    }

    /// The stream on which every run begins and ends.
    pub(crate) fn main(&self) -> &CudaStream {
        &self.all[0]
    }

    /// Fills memory that is not used yet, so that it does not look like results of this program, and lowers its flags.
    pub(crate) fn clear_memory(&self, memory: &RankAllocation) -> Result<(), Error> {
        let start = memory.base_address();
        // SAFETY: the rank's promise: this is all of its memory, which nobody uses yet.
        unsafe { self.main().fill_bytes(start, 0xff, memory.memory_bytes()) }?;
        self.main().synchronize()?;
        if let Some(aside) = &self.aside {
            // A stream that was used once takes no more preparation when it is needed.
            // SAFETY: the rank's promise: flags are the first bytes of its memory.
            unsafe { aside.fill_bytes(start, 0, memory.flags) }?;
            aside.synchronize()?;
        }
        Ok(())
    }

    /// Whether nothing is under way on any stream.
    pub(crate) fn are_done(&self) -> bool {
        self.all.iter().all(|stream| stream.is_done() == Ok(true))
    }

    /// The last word of the semaphores, if there are any.
    pub(crate) fn read_poison(&self, memory: &RankAllocation) -> Result<Option<u32>, Error> {
        let Some(aside) = &self.aside else { return Ok(None) };
        let mut word = [0; 4];
        // SAFETY: the rank's promise: flags are the first bytes of its memory, and there is one if there is `aside`.
        unsafe { aside.download(&mut word, memory.poison_address()) }?;
        Ok(u32::from_le_bytes(word).checked_sub(1))
    }
}
