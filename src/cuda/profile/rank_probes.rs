//! A rank's traced run: events with times around its calls.

use crate::profile::probe_points;
use crate::profile::probe_points::{ClockAnchor, ClockBracket, StepProbe};
use crate::runtime::failure::RankFailure;
use crate::runtime::rank::RankRuntime;
use crate::runtime::sequencer::RankBarrier;
use crate::sys::Error;
use crate::sys::driver::CudaEvent;
use hostir::backend::clocks::monotonic_ns;
use hostir::backend::trace::PartialTrace;
use std::time::Duration;

/// The number of comparisons of the device's clock with the host's.
const ROUNDS: usize = 16;

/// The events of a traced run.
pub(crate) struct ProbeEvents {
    /// Moments that the host's clock knows.
    bases: Vec<CudaEvent>,
    /// By step: the events that are recorded before and after it.
    steps: Vec<(Option<CudaEvent>, Option<CudaEvent>)>,
}

impl RankRuntime<'_> {
    /// Makes all events, so that the run makes none.
    pub(crate) fn create_probes(&self) -> Result<ProbeEvents, Error> {
        let event = || CudaEvent::new(&self.device, true);
        let bases = (0..ROUNDS).map(|_| event()).collect::<Result<_, _>>()?;
        let steps = probe_points::step_probes(self.plan, &self.commands.schedule).into_iter().map(|probe| {
            Ok(match probe {
                StepProbe::None => (None, None),
                StepProbe::Point => (None, Some(event()?)),
                StepProbe::Pair => (Some(event()?), Some(event()?)),
            })
        });
        Ok(ProbeEvents { bases, steps: steps.collect::<Result<_, Error>>()? })
    }

    /// Measures times of the device on the host's clock. All ranks do so at the same time, so that the host is equally
    /// busy for all.
    pub(crate) fn anchor_clock(&self, probes: &ProbeEvents, barrier: &RankBarrier) -> Result<ClockAnchor, Error> {
        let mut brackets = Vec::new();
        for base in &probes.bases {
            barrier.wait();
            let before = monotonic_ns();
            self.streams.main().record(base)?;
            self.streams.main().synchronize()?;
            brackets.push(ClockBracket { before, after: monotonic_ns() });
        }
        Ok(probe_points::tightest_anchor(&brackets))
    }

    /// Issues the program once, call by call and never as a graph, and waits for its end.
    pub(crate) fn run_probed(&mut self, probes: &ProbeEvents, timeout: Duration) -> Result<(), RankFailure> {
        self.tracker.publish_run_begin();
        self.issue_in_turn(|rank, at| {
            let stream = rank.commands.ready[at].1;
            let (before, after) = probes.steps.get(at).map_or((None, None), |(a, b)| (a.as_ref(), b.as_ref()));
            if let Some(event) = before {
                rank.streams.all[stream].record(event)?;
            }
            rank.issue_step(at)?;
            if let Some(event) = after {
                rank.streams.all[stream].record(event)?;
            }
            Ok(())
        })?;
        self.wait_for_end(timeout)
    }

    /// Converts the recorded events to spans on the host's clock.
    pub(crate) fn collect_spans(&self, probes: &ProbeEvents, anchor: ClockAnchor) -> Result<PartialTrace, Error> {
        let base = &probes.bases[anchor.round];
        let at = |event: &CudaEvent| -> Result<u64, Error> {
            Ok(probe_points::to_host_time(anchor, event.elapsed_since(base)?))
        };
        let times = probes.steps.iter().map(|(before, after)| {
            let Some(after) = after else { return Ok::<_, Error>(None) };
            let end = at(after)?;
            Ok(Some((before.as_ref().map_or(Ok(end), at)?, end)))
        });
        let times: Vec<Option<(u64, u64)>> = times.collect::<Result<_, Error>>()?;
        Ok(probe_points::trace_part(self.plan, &self.commands.schedule, &times))
    }
}
