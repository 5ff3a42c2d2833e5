//! The end of a rank's runs: what the rank looks at while its device works, and what it does when it gives up.
#![allow(unsafe_code, reason = "only the rank knows that its addresses are right")]

use crate::runtime::failure::{Failure, Reached};
use crate::runtime::rank::Rank;
use crate::runtime::teardown;
use crate::runtime::teardown::{Belongings, Estate};
use crate::sys::Error;
use crate::sys::driver::{Event, Memory, Stream};
use crate::sys::peer::WordOp;
use hostir::plan::InstId;
use hostir_gpu::p2p::FLAG;
use hostir_gpu::schedule::Call;
use nccl_rs::Communicator;
use std::time::{Duration, Instant};

/// Between so many looks at the end of a run, or steps that are issued, the rank looks at the other ranks.
const LOOKS: u32 = 64;

impl Rank<'_> {
    /// Waits for the end of what was issued, at most for `timeout`.
    ///
    /// It asks an event rather than the stream: asked about a stream with a recorded run that waits for
    /// another device, the driver does not answer before the run ends.
    pub(crate) fn wait(&mut self, timeout: Duration) -> Result<(), Failure> {
        self.wait_in(timeout, Self::unfinished)?;
        self.look_for_poison()
    }

    /// [`Rank::wait`], where `reached` says what a failure belongs to.
    pub(crate) fn wait_in(
        &mut self,
        timeout: Duration,
        reached: impl Fn(&Self) -> Reached,
    ) -> Result<(), Failure> {
        let polled = self.poll(timeout).map_err(|failure| failure.within(reached(self)));
        polled.inspect_err(|failure| self.is_at(failure.inst))
    }

    /// Looks at the end of what was issued until it is there or something failed. An end that is there is one
    /// only if nobody failed: a rank that gives up lets others go on with data that never came.
    fn poll(&mut self, timeout: Duration) -> Result<(), Failure> {
        let deadline = Instant::now() + timeout;
        let mut looks = 0u32;
        self.is_at(None);
        self.begin();
        self.streams[0].record(&self.end)?;
        while !self.end.is_reached()? {
            looks += 1;
            if looks.is_multiple_of(LOOKS) {
                self.look_at_others()?;
                if Instant::now() > deadline {
                    return Err(Failure::timeout());
                }
            }
            std::thread::yield_now();
        }
        self.look_at_others()?;
        self.queued = 0;
        self.over();
        Ok(())
    }

    /// Fails if NCCL, another rank of this process or another process did.
    pub(crate) fn look_at_others(&self) -> Result<(), Failure> {
        self.look_at_ranks()?;
        for (_, comm) in &self.comms {
            comm.in_progress("an NCCL communication")?;
        }
        Ok(())
    }

    /// Fails if another rank of this process or another process did. NCCL is not asked: its answer may take much
    /// longer than a step.
    fn look_at_ranks(&self) -> Result<(), Failure> {
        if let Some(rank) = self.alarm.first().filter(|rank| *rank != self.plan.rank) {
            return Err(Failure::sibling(rank));
        }
        if let Some(error) = self.peers.as_ref().and_then(|peers| peers.failed()) {
            return Err(Failure::peer(error));
        }
        Ok(())
    }

    /// Fails if a rank of another process gave up before this rank's work ended.
    fn look_for_poison(&self) -> Result<(), Failure> {
        let (Some(aside), Some(_)) = (&self.aside, &self.peers) else { return Ok(()) };
        let mut word = [0; 4];
        let last = self.memory.address() + (self.flags - FLAG) as u64;
        // SAFETY: the rank's promise: flags are the first bytes of its memory, and there is one if there is `aside`.
        unsafe { aside.download(&mut word, last) }?;
        match u32::from_le_bytes(word).checked_sub(1) {
            Some(rank) => Err(Failure::poisoned(rank)),
            None => Ok(()),
        }
    }

    /// Lets others see that no run is under way.
    pub(crate) fn over(&self) {
        if let Some(watched) = &self.watched {
            watched.end();
        }
    }

    /// Lets others see that a run begins.
    pub(crate) fn begin(&self) {
        if let Some(watched) = &self.watched {
            watched.begin();
        }
    }

    /// Lets others see where the run is.
    pub(crate) fn is_at(&self, inst: Option<InstId>) {
        if let Some(watched) = &self.watched {
            watched.at(inst);
        }
    }

    /// Fails, every now and then, if another rank did: issuing a long program takes time. `at` is the step that
    /// comes next.
    pub(crate) fn look_while_issuing(&self, at: usize) -> Result<(), Failure> {
        if at == 0 || !at.is_multiple_of(LOOKS as usize) {
            return Ok(());
        }
        self.look_at_ranks().map_err(|failure| {
            let next = self.schedule.steps[at].inst;
            failure.within(self.waiting(at).unwrap_or(Reached::Inst(next)))
        })
    }

    /// The progress of the run that did not end.
    pub(crate) fn unfinished(&self) -> Reached {
        if self.queued > 1 {
            return Reached::Queued;
        }
        if let Some(reached) = self.waiting(self.schedule.steps.len()) {
            return reached;
        }
        if self.graph.is_some() {
            return Reached::Own;
        }
        let open = self.schedule.steps.iter().find(|step| match step.call {
            Call::Record { event } => !self.events[event].is_reached().unwrap_or(true),
            _ => false,
        });
        open.map_or(Reached::Own, |step| Reached::Inst(step.inst))
    }

    /// The first instruction among these first steps that waits for other ranks and whose wait is not known to be
    /// over, with the last one that may be meant as well.
    fn waiting(&self, issued: usize) -> Option<Reached> {
        let recorded = self.graph.is_some();
        let mark = |event| if recorded { self.outside.get(&event) } else { self.events.get(event) };
        let mut issued = self.waits.iter().filter(|wait| wait.last < issued);
        let open = issued.find(|wait| {
            let mark = wait.event.and_then(mark);
            mark.is_none_or(|mark| !mark.is_reached().unwrap_or(true))
        })?;
        // What shares its mark is of its stream.
        let behind = issued.rfind(|wait| wait.event == open.event);
        Some(behind.map_or(Reached::Inst(open.inst), |last| Reached::Among(open.inst, last.inst)))
    }

    /// Makes the marks of a run that is recorded: those within it order its streams, and cannot be asked.
    pub(crate) fn make_outside_marks(&mut self) -> Result<(), Error> {
        for event in self.waits.iter().filter_map(|wait| wait.event) {
            self.outside.insert(event, Event::new(&self.device, false)?);
        }
        Ok(())
    }

    /// Sets the mark for what waits for others, in a run that is being recorded. It costs each replay 0.05 us on
    /// the device and 0.2 us on the host (H200, CUDA 13.0).
    pub(crate) fn mark_outside(&self, event: usize, stream: &Stream) -> Result<(), Error> {
        self.outside.get(&event).map_or(Ok(()), |mark| stream.record_outside(mark))
    }

    // ---- giving up ----

    /// Gives up what is under way, on the device too: see [`teardown`]. Comes back in less than two seconds. A second
    /// time does nothing.
    pub(crate) fn abort(&mut self) {
        self.begin_abort();
        if let Some(ending) = &self.ending {
            ending.wait();
        }
        if let Some(watched) = &self.watched {
            watched.give_up();
        }
    }

    /// [`Rank::abort`] that waits for nothing.
    pub(crate) fn begin_abort(&mut self) {
        if self.ending.is_some() {
            return;
        }
        self.alarm.raise(self.plan.rank);
        self.retire_graph();
        // SAFETY: the thread drops these before it says that it is over, and until then the rank, which owns the
        // streams, is not dropped (`Drop` of `Loaded`).
        let lent = |stream: &Stream| unsafe { stream.lent() };
        let (communicators, memory) = self.given_up();
        let estate = Estate {
            device: self.device.clone(),
            poison: self.poison(),
            flags: self.raised(),
            aside: self.aside.take(),
            graphs: std::mem::take(&mut self.retired),
            communicators,
            memory,
            streams: self.streams.iter().map(lent).collect(),
        };
        self.ending = Some(teardown::begin_teardown(estate));
    }

    /// Puts the recorded run aside until it is known to have ended, with the marks that it sets.
    pub(crate) fn retire_graph(&mut self) {
        let marks = std::mem::take(&mut self.outside);
        self.retired.extend(self.graph.take().map(|graph| (graph, marks)));
    }

    /// All communicators, but for those that others were split off of, and the memory of one of them.
    fn given_up(&mut self) -> (Vec<Communicator>, Option<Memory>) {
        let (together, memory) = self.give_up_together();
        let mut world = self.world.take();
        if self.lent {
            std::mem::forget(world.take());
        }
        let own = self.comms.drain(..).map(|(_, comm)| comm);
        (own.chain(together).chain(world).collect(), memory)
    }

    /// Raises all own flags. The words that kernels count in are set too, which nothing waits for; the last one
    /// is the poison.
    fn raised(&self) -> Vec<WordOp> {
        let flags = (0..self.flags.saturating_sub(FLAG)).step_by(FLAG);
        flags.map(|offset| WordOp::write(self.memory.address() + offset as u64, 1)).collect()
    }

    /// Tells the ranks of other processes whose memory this one may have written to.
    fn poison(&self) -> Vec<WordOp> {
        let (Some(map), Some(_)) = (&self.map, &self.peers) else { return Vec::new() };
        let others = (0..map.bases.len() as u32).filter(|rank| *rank != self.plan.rank);
        let word = |rank| Some(WordOp::write(map.poison(rank)?, self.plan.rank + 1));
        others.filter_map(word).collect()
    }

    /// Whether nothing of it is under way any more, on its device and in its communicators. A rank of which
    /// that is not known must not be dropped: the driver would free what the device may still use, or wait for
    /// the device without end.
    pub(crate) fn is_quiet(&self) -> bool {
        if let Some(ending) = &self.ending {
            return ending.is_over();
        }
        let ready = |comm: &Communicator| comm.in_progress("ncclCommGetAsyncError") == Ok(false);
        self.device.make_current().is_ok()
            && self.streams.iter().all(|stream| stream.is_done() == Ok(true))
            && self.comms.iter().all(|(_, comm)| ready(comm))
    }

    /// All that a rank has on its device, in the order in which it goes. Nothing of the rank is under way any more.
    pub(crate) fn belongings(mut self) -> Belongings {
        let (communicators, number) = self.given_up();
        let Self { graph, retired, outside, products, ready, functions, .. } = self;
        let Self { events, timers, end, streams, aside, blas, memory, spare, map, device, .. } =
            self;
        let runs = (graph, retired, outside, communicators, number);
        let calls = (products, ready, functions, events, timers, end, streams, aside, blas);
        Box::new((runs, calls, memory, spare, map, device))
    }
}
