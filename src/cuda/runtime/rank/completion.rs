//! Completion of a rank's runs: polling while its device works, and giving up.
#![allow(unsafe_code, reason = "only the rank knows that its addresses are right")]

use crate::runtime::active_clock::ActiveClock;
use crate::runtime::failure::{RankFailure, RunProgress};
use crate::runtime::rank::RankRuntime;
use crate::runtime::teardown;
use crate::runtime::teardown::{RankResources, TeardownState};
use crate::sys::driver::CudaStream;
use hostir_gpu::schedule::StreamCommand;
use std::time::Duration;

/// The number of polls, or of issued steps, between two checks of the other ranks.
const LOOKS: u32 = 64;

impl RankRuntime<'_> {
    /// Waits for the end of the issued work, at most for `timeout`.
    ///
    /// It queries an event rather than the stream: for a stream with a recorded run that waits for another device, the
    /// driver does not answer before the run ends.
    pub(crate) fn wait_for_end(&mut self, timeout: Duration) -> Result<(), RankFailure> {
        self.wait_with_progress(timeout, Self::run_progress)?;
        self.check_poison()
    }

    /// Waits as [`RankRuntime::wait_for_end`] does; `reached` attributes a failure to an instruction.
    pub(crate) fn wait_with_progress(
        &mut self,
        timeout: Duration,
        reached: impl Fn(&Self) -> RunProgress,
    ) -> Result<(), RankFailure> {
        let polled = self.poll_end(timeout).map_err(|failure| failure.with_progress(reached(self)));
        polled.inspect_err(|failure| self.tracker.publish_position(failure.inst))
    }

    /// Waits until all other ranks have arrived. The rank issues nothing meanwhile: work that waits on the device would
    /// start all at once, and not in the order of a run.
    pub(crate) fn wait_at_start_barrier(&mut self, timeout: Duration) -> Result<(), RankFailure> {
        let Some(start_barrier) = &mut self.communicators.start_barrier else { return Ok(()) };
        start_barrier.issue_all_reduce(self.streams.main())?;
        self.wait_with_progress(timeout, |_| RunProgress::Before)
    }

    /// Polls the end of the issued work until it is reached or something fails. The end counts only if no rank failed:
    /// a rank that gives up releases others, which continue with data that never came.
    fn poll_end(&mut self, timeout: Duration) -> Result<(), RankFailure> {
        let mut clock = ActiveClock::start_at_zero();
        let mut looks = 0u32;
        self.tracker.publish_position(None);
        self.tracker.publish_run_begin();
        self.streams.follow_caller()?;
        self.streams.main().record(&self.streams.end)?;
        while !self.streams.end.is_reached()? {
            looks += 1;
            if looks.is_multiple_of(LOOKS) {
                self.check_for_failures()?;
                // The run may have ended since the query, above all if the process was suspended in between.
                if clock.elapsed() > timeout && !self.streams.end.is_reached()? {
                    return Err(RankFailure::timed_out());
                }
            }
            std::thread::yield_now();
        }
        self.check_for_failures()?;
        self.tracker.queued = 0;
        self.tracker.publish_run_end();
        Ok(())
    }

    /// Fails if NCCL, another rank of this process or another process failed.
    pub(crate) fn check_for_failures(&self) -> Result<(), RankFailure> {
        self.failures.check_other_ranks(self.plan.rank)?;
        for (_, comm) in &self.communicators.teams {
            comm.in_progress("an NCCL communication")?;
        }
        Ok(())
    }

    /// Fails if a rank of another process gave up before this rank's work ended.
    fn check_poison(&self) -> Result<(), RankFailure> {
        if self.failures.peers.is_none() {
            return Ok(());
        }
        match self.streams.read_poison(&self.memory)? {
            Some(rank) => Err(RankFailure::poisoned_by(rank)),
            None => Ok(()),
        }
    }

    /// Fails, every now and then, if another rank did: issuing a long program takes time. `at` is the next step.
    pub(crate) fn check_while_issuing(&self, at: usize) -> Result<(), RankFailure> {
        if at == 0 || !at.is_multiple_of(LOOKS as usize) {
            return Ok(());
        }
        self.failures.check_other_ranks(self.plan.rank).map_err(|failure| {
            let next = self.commands.step_inst(at);
            failure.with_progress(
                self.tracker.pending_wait(at, &self.streams.events, &self.recorder).unwrap_or(RunProgress::Inst(next)),
            )
        })
    }

    /// The progress of the run that did not end.
    pub(crate) fn run_progress(&self) -> RunProgress {
        if self.tracker.queued > 1 {
            return RunProgress::Queued;
        }
        if let Some(reached) =
            self.tracker.pending_wait(self.commands.schedule.steps.len(), &self.streams.events, &self.recorder)
        {
            return reached;
        }
        if self.recorder.graph.is_some() {
            return RunProgress::Own;
        }
        let open = self.commands.schedule.steps.iter().find(|step| match step.call {
            StreamCommand::Record { event } => !self.streams.events[event].is_reached().unwrap_or(true),
            _ => false,
        });
        open.map_or(RunProgress::Own, |step| RunProgress::Inst(step.inst))
    }

    // ---- giving up ----

    /// Aborts the work in flight, on the device too: see [`teardown`]. Returns in less than two seconds. A second call
    /// does nothing.
    pub(crate) fn abort(&mut self) {
        self.begin_abort();
        if let Some(ending) = &self.failures.ending {
            ending.wait();
        }
        self.tracker.publish_abort();
    }

    /// Begins an abort without waiting for its end.
    pub(crate) fn begin_abort(&mut self) {
        if self.failures.ending.is_some() {
            return;
        }
        self.failures.alarm.set_failed(self.plan.rank);
        self.recorder.retire_graph();
        // If that fails, the device is lost.
        let _ = self.streams.follow_caller();
        // SAFETY: the thread drops these before it says that it is over, and until then the rank, which owns the
        // streams, is not dropped (`Drop` of `LoadedProgram`).
        let lent = |stream: &CudaStream| unsafe { stream.unowned_clone() };
        let (communicators, memory) = self.communicators.take_all();
        let poison = match self.failures.peers {
            // Poisons the ranks of other processes whose memory this one may have written to.
            Some(_) => self.memory.peer_poison_ops(self.plan.rank),
            None => Vec::new(),
        };
        let estate = TeardownState {
            device: self.device.clone(),
            poison,
            flags: self.memory.flag_release_ops(),
            side_stream: self.streams.side_stream.take(),
            graphs: std::mem::take(&mut self.recorder.retired),
            communicators,
            memory,
            streams: self.streams.all.iter().map(lent).collect(),
        };
        self.failures.ending = Some(teardown::begin_teardown(estate));
    }

    /// Returns true if no work of the rank is in flight, on its device and in its communicators. Any other rank must
    /// not be dropped: the driver would free memory that the device may still use, or wait for the device without end.
    pub(crate) fn is_idle(&self) -> bool {
        if let Some(ending) = &self.failures.ending {
            return ending.is_over();
        }
        self.device.make_current().is_ok() && self.streams.are_done() && self.communicators.are_ready()
    }

    /// Returns true if all enqueued work is done; fails if part of it is known to have failed. As `wait_for_end` does,
    /// it queries the event, not the stream, and checks for failures and poison afterwards: work that a rank releases
    /// when it gives up ends with undefined data.
    pub(crate) fn is_run_complete(&self) -> Result<bool, RankFailure> {
        let reached = self.streams.end.is_reached()?;
        self.check_for_failures().map_err(|failure| failure.with_progress(self.run_progress()))?;
        if reached {
            self.check_poison()?;
        }
        Ok(reached)
    }

    /// Returns true if a run has to be captured first.
    pub(crate) fn lacks_graph(&self) -> bool {
        self.recorder.graph.is_none()
    }

    /// All resources of a rank on its device, in the order in which they are dropped. No work of the rank is in flight.
    pub(crate) fn into_resources(mut self) -> RankResources {
        let communicators = self.communicators.take_all();
        let Self { recorder, kernels, commands, streams, memory, device, .. } = self;
        Box::new(((recorder, communicators), (kernels, commands, streams), memory, device))
    }
}
