//! A rank's traced run: events with times around its calls.

use crate::profile::probe_points;
use crate::profile::probe_points::{Anchor, Bracket, Probe};
use crate::runtime::failure::Failure;
use crate::runtime::rank::Rank;
use crate::runtime::sequencer::Gate;
use crate::sys::Error;
use crate::sys::driver::Event;
use hostir::backend::clocks::now;
use hostir::backend::trace::Part;
use std::time::Duration;

/// How often the device's clock is compared with the host's.
const ROUNDS: usize = 16;

/// The events of a traced run.
pub(crate) struct Probes {
    /// Moments that the host's clock knows.
    bases: Vec<Event>,
    /// By step: what is recorded before and after it.
    steps: Vec<(Option<Event>, Option<Event>)>,
}

impl Rank<'_> {
    /// Makes all events, so that the run makes none.
    pub(crate) fn probes(&self) -> Result<Probes, Error> {
        let event = || Event::new(&self.device, true);
        let bases = (0..ROUNDS).map(|_| event()).collect::<Result<_, _>>()?;
        let steps = probe_points::probes(self.plan, &self.schedule).into_iter().map(|probe| {
            Ok(match probe {
                Probe::None => (None, None),
                Probe::Point => (None, Some(event()?)),
                Probe::Pair => (Some(event()?), Some(event()?)),
            })
        });
        Ok(Probes { bases, steps: steps.collect::<Result<_, Error>>()? })
    }

    /// Finds moments of the device on the host's clock. All ranks do so at the same time, so that they find
    /// the host equally busy.
    pub(crate) fn anchor(&self, probes: &Probes, gate: &Gate) -> Result<Anchor, Error> {
        let mut brackets = Vec::new();
        for base in &probes.bases {
            gate.wait();
            let before = now();
            self.streams[0].record(base)?;
            self.streams[0].synchronize()?;
            brackets.push(Bracket { before, after: now() });
        }
        Ok(probe_points::anchor(&brackets))
    }

    /// Issues the program once, call by call and never as a graph, and waits for its end.
    pub(crate) fn run_probed(&mut self, probes: &Probes, timeout: Duration) -> Result<(), Failure> {
        self.begin();
        self.in_turn(|rank, at| {
            let stream = rank.ready[at].1;
            let (before, after) =
                probes.steps.get(at).map_or((None, None), |(a, b)| (a.as_ref(), b.as_ref()));
            if let Some(event) = before {
                rank.streams[stream].record(event)?;
            }
            rank.step(at)?;
            if let Some(event) = after {
                rank.streams[stream].record(event)?;
            }
            Ok(())
        })?;
        self.wait(timeout)
    }

    /// What the events say, on the host's clock.
    pub(crate) fn slices(&self, probes: &Probes, anchor: Anchor) -> Result<Part, Error> {
        let base = &probes.bases[anchor.round];
        let at = |event: &Event| -> Result<u64, Error> {
            Ok(probe_points::on_host(anchor, event.since(base)?))
        };
        let times = probes.steps.iter().map(|(before, after)| {
            let Some(after) = after else { return Ok::<_, Error>(None) };
            let end = at(after)?;
            Ok(Some((before.as_ref().map_or(Ok(end), at)?, end)))
        });
        let times: Vec<Option<(u64, u64)>> = times.collect::<Result<_, Error>>()?;
        Ok(probe_points::part(self.plan, &self.schedule, &times))
    }
}
