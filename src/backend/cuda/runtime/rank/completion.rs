//! Completion of a rank's runs: what the rank polls while its device works, and how it gives up.
#![allow(unsafe_code, reason = "only the rank knows that its addresses are right")]

use crate::runtime::failure::{RankFailure, RunProgress};
use crate::runtime::rank::RankRuntime;
use crate::runtime::teardown;
use crate::runtime::teardown::{RankResources, TeardownState};
use crate::sys::Error;
use crate::sys::driver::{CudaEvent, CudaStream, DeviceMemory};
use crate::sys::peer::WordOp;
use hostir::plan::InstId;
use hostir_gpu::p2p::FLAG;
use hostir_gpu::schedule::StreamCommand;
use nccl_rs::NcclCommunicator;
use std::time::{Duration, Instant};

/// Between so many looks at the end of a run, or steps that are issued, the rank looks at the other ranks.
const LOOKS: u32 = 64;

impl RankRuntime<'_> {
    /// Waits for the end of what was issued, at most for `timeout`.
    ///
    /// It asks an event rather than the stream: asked about a stream with a recorded run that waits for
    /// another device, the driver does not answer before the run ends.
    pub(crate) fn wait_for_end(&mut self, timeout: Duration) -> Result<(), RankFailure> {
        self.wait_with_progress(timeout, Self::run_progress)?;
        self.check_poison()
    }

    /// [`Rank::wait`], where `reached` says what a failure belongs to.
    pub(crate) fn wait_with_progress(
        &mut self,
        timeout: Duration,
        reached: impl Fn(&Self) -> RunProgress,
    ) -> Result<(), RankFailure> {
        let polled = self.poll_end(timeout).map_err(|failure| failure.with_progress(reached(self)));
        polled.inspect_err(|failure| self.publish_position(failure.inst))
    }

    /// Looks at the end of what was issued until it is there or something failed. An end that is there is one
    /// only if nobody failed: a rank that gives up lets others go on with data that never came.
    fn poll_end(&mut self, timeout: Duration) -> Result<(), RankFailure> {
        let deadline = Instant::now() + timeout;
        let mut looks = 0u32;
        self.publish_position(None);
        self.publish_run_begin();
        self.streams[0].record(&self.end)?;
        while !self.end.is_reached()? {
            looks += 1;
            if looks.is_multiple_of(LOOKS) {
                self.check_for_failures()?;
                if Instant::now() > deadline {
                    return Err(RankFailure::timed_out());
                }
            }
            std::thread::yield_now();
        }
        self.check_for_failures()?;
        self.queued = 0;
        self.publish_run_end();
        Ok(())
    }

    /// Fails if NCCL, another rank of this process or another process did.
    pub(crate) fn check_for_failures(&self) -> Result<(), RankFailure> {
        self.check_other_ranks()?;
        for (_, comm) in &self.comms {
            comm.in_progress("an NCCL communication")?;
        }
        Ok(())
    }

    /// Fails if another rank of this process or another process did. NCCL is not asked: its answer may take much
    /// longer than a step.
    fn check_other_ranks(&self) -> Result<(), RankFailure> {
        if let Some(rank) = self.alarm.first_failed().filter(|rank| *rank != self.plan.rank) {
            return Err(RankFailure::sibling_failed(rank));
        }
        if let Some(error) = self.peers.as_ref().and_then(|peers| peers.peer_failure()) {
            return Err(RankFailure::peer_failed(error));
        }
        Ok(())
    }

    /// Fails if a rank of another process gave up before this rank's work ended.
    fn check_poison(&self) -> Result<(), RankFailure> {
        let (Some(aside), Some(_)) = (&self.aside, &self.peers) else { return Ok(()) };
        let mut word = [0; 4];
        let last = self.memory.address() + (self.flags - FLAG) as u64;
        // SAFETY: the rank's promise: flags are the first bytes of its memory, and there is one if there is `aside`.
        unsafe { aside.download(&mut word, last) }?;
        match u32::from_le_bytes(word).checked_sub(1) {
            Some(rank) => Err(RankFailure::poisoned_by(rank)),
            None => Ok(()),
        }
    }

    /// Lets others see that no run is under way.
    pub(crate) fn publish_run_end(&self) {
        if let Some(watched) = &self.watched {
            watched.end_runs();
        }
    }

    /// Lets others see that a run begins.
    pub(crate) fn publish_run_begin(&self) {
        if let Some(watched) = &self.watched {
            watched.begin_run();
        }
    }

    /// Lets others see where the run is.
    pub(crate) fn publish_position(&self, inst: Option<InstId>) {
        if let Some(watched) = &self.watched {
            watched.set_inst(inst);
        }
    }

    /// Fails, every now and then, if another rank did: issuing a long program takes time. `at` is the step that
    /// comes next.
    pub(crate) fn check_while_issuing(&self, at: usize) -> Result<(), RankFailure> {
        if at == 0 || !at.is_multiple_of(LOOKS as usize) {
            return Ok(());
        }
        self.check_other_ranks().map_err(|failure| {
            let next = self.schedule.steps[at].inst;
            failure.with_progress(self.pending_wait(at).unwrap_or(RunProgress::Inst(next)))
        })
    }

    /// The progress of the run that did not end.
    pub(crate) fn run_progress(&self) -> RunProgress {
        if self.queued > 1 {
            return RunProgress::Queued;
        }
        if let Some(reached) = self.pending_wait(self.schedule.steps.len()) {
            return reached;
        }
        if self.graph.is_some() {
            return RunProgress::Own;
        }
        let open = self.schedule.steps.iter().find(|step| match step.call {
            StreamCommand::Record { event } => !self.events[event].is_reached().unwrap_or(true),
            _ => false,
        });
        open.map_or(RunProgress::Own, |step| RunProgress::Inst(step.inst))
    }

    /// The first instruction among these first steps that waits for other ranks and whose wait is not known to be
    /// over, with the last one that may be meant as well.
    fn pending_wait(&self, issued: usize) -> Option<RunProgress> {
        let recorded = self.graph.is_some();
        let mark = |event| if recorded { self.outside.get(&event) } else { self.events.get(event) };
        let mut issued = self.waits.iter().filter(|wait| wait.last < issued);
        let open = issued.find(|wait| {
            let mark = wait.event.and_then(mark);
            mark.is_none_or(|mark| !mark.is_reached().unwrap_or(true))
        })?;
        // What shares its mark is of its stream.
        let behind = issued.rfind(|wait| wait.event == open.event);
        Some(behind.map_or(RunProgress::Inst(open.inst), |last| RunProgress::Among(open.inst, last.inst)))
    }

    /// Makes the marks of a run that is recorded: those within it order its streams, and cannot be asked.
    pub(crate) fn create_external_events(&mut self) -> Result<(), Error> {
        for event in self.waits.iter().filter_map(|wait| wait.event) {
            self.outside.insert(event, CudaEvent::new(&self.device, false)?);
        }
        Ok(())
    }

    /// Sets the mark for what waits for others, in a run that is being recorded. It costs each replay 0.05 us on
    /// the device and 0.2 us on the host (H200, CUDA 13.0).
    pub(crate) fn record_external_event(&self, event: usize, stream: &CudaStream) -> Result<(), Error> {
        self.outside.get(&event).map_or(Ok(()), |mark| stream.record_external(mark))
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
            watched.end_failed_run();
        }
    }

    /// [`Rank::abort`] that waits for nothing.
    pub(crate) fn begin_abort(&mut self) {
        if self.ending.is_some() {
            return;
        }
        self.alarm.set_failed(self.plan.rank);
        self.retire_graph();
        // SAFETY: the thread drops these before it says that it is over, and until then the rank, which owns the
        // streams, is not dropped (`Drop` of `Loaded`).
        let lent = |stream: &CudaStream| unsafe { stream.unowned_clone() };
        let (communicators, memory) = self.take_communicators();
        let estate = TeardownState {
            device: self.device.clone(),
            poison: self.peer_poison_ops(),
            flags: self.flag_release_ops(),
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
    fn take_communicators(&mut self) -> (Vec<NcclCommunicator>, Option<DeviceMemory>) {
        let (together, memory) = self.take_start_barrier();
        let mut world = self.world.take();
        if self.lent {
            std::mem::forget(world.take());
        }
        let own = self.comms.drain(..).map(|(_, comm)| comm);
        (own.chain(together).chain(world).collect(), memory)
    }

    /// Raises all own flags. The words that kernels count in are set too, which nothing waits for; the last one
    /// is the poison.
    fn flag_release_ops(&self) -> Vec<WordOp> {
        let flags = (0..self.flags.saturating_sub(FLAG)).step_by(FLAG);
        flags.map(|offset| WordOp::write_word(self.memory.address() + offset as u64, 1)).collect()
    }

    /// Tells the ranks of other processes whose memory this one may have written to.
    fn peer_poison_ops(&self) -> Vec<WordOp> {
        let (Some(map), Some(_)) = (&self.map, &self.peers) else { return Vec::new() };
        let others = (0..map.bases.len() as u32).filter(|rank| *rank != self.plan.rank);
        let word = |rank| Some(WordOp::write_word(map.poison_address(rank)?, self.plan.rank + 1));
        others.filter_map(word).collect()
    }

    /// Whether nothing of it is under way any more, on its device and in its communicators. A rank of which
    /// that is not known must not be dropped: the driver would free what the device may still use, or wait for
    /// the device without end.
    pub(crate) fn is_idle(&self) -> bool {
        if let Some(ending) = &self.ending {
            return ending.is_over();
        }
        let ready = |comm: &NcclCommunicator| comm.in_progress("ncclCommGetAsyncError") == Ok(false);
        self.device.make_current().is_ok()
            && self.streams.iter().all(|stream| stream.is_done() == Ok(true))
            && self.comms.iter().all(|(_, comm)| ready(comm))
    }

    /// All that a rank has on its device, in the order in which it goes. Nothing of the rank is under way any more.
    pub(crate) fn into_resources(mut self) -> RankResources {
        let (communicators, number) = self.take_communicators();
        let Self { graph, retired, outside, products, ready, functions, .. } = self;
        let Self { events, timers, end, streams, aside, blas, memory, spare, map, device, .. } = self;
        let runs = (graph, retired, outside, communicators, number);
        let calls = (products, ready, functions, events, timers, end, streams, aside, blas);
        Box::new((runs, calls, memory, spare, map, device))
    }
}
