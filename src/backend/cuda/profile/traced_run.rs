//! A run of all ranks with its timeline.

use crate::runtime::failure::Failure;
use crate::runtime::loaded_program::Loaded;
use hostir::backend::RunResult;
use hostir::backend::clocks::{Drift, Offset, now};
use hostir::backend::trace;
use hostir::backend::trace::{Clock, Part, Trace};
use hostir::data::HostTensor;
use hostir::diag::Diag;
use std::sync::Mutex;

/// What a rank found, and how far off its times may be in nanoseconds.
type Found = (usize, Part, u64);

impl Loaded<'_> {
    /// [`Loaded::run`] with its timeline: once untraced, so that nothing happens for the first time, and
    /// once more with events around every call. All ranks start together. A graph is not replayed: its
    /// calls have no room for events. Where ranks are processes, each gets the slices of its own rank, on
    /// rank 0's clock; [`Trace::join`] puts the parts of all together.
    pub fn run_traced(
        &mut self,
        inputs: &[Vec<HostTensor>],
    ) -> Result<(RunResult, Trace), Vec<Diag>> {
        self.run(inputs)?;
        self.upload(inputs)?;
        let start = (self.joint.clocks()?, now());
        let mut found = self.probed()?;
        let end = (self.joint.clocks()?, now());
        for (rank, part, error) in &mut found {
            if let Some(drift) = drift(&start, &end, *rank) {
                for slice in &mut part.slices {
                    slice.start_ns = drift.on_first(slice.start_ns);
                    slice.end_ns = drift.on_first(slice.end_ns).max(slice.start_ns);
                }
                *error = error.saturating_add(drift.error_ns());
            }
        }
        let trace = self.together(found)?;
        Ok((self.results()?, trace))
    }

    /// Runs once with events; what each rank of this process found, on the host's clock.
    fn probed(&mut self) -> Result<Vec<Found>, Vec<Diag>> {
        let (gate, timeout) = (self.gate(), self.timeout);
        let joint = self.joint.clone();
        let found: Mutex<Vec<Found>> = Mutex::default();
        self.each(|rank| {
            let mut traced = || -> Result<(Part, u64), Failure> {
                let probes = rank.probes()?;
                joint.meet().map_err(Failure::peer)?;
                let anchor = rank.anchor(&probes, &gate)?;
                gate.wait();
                joint.meet().map_err(Failure::peer)?;
                rank.start_together(timeout)?;
                rank.run_probed(&probes, timeout)?;
                Ok((rank.slices(&probes, anchor)?, anchor.error))
            };
            let (part, error) = traced()?;
            if let Ok(mut found) = found.lock() {
                found.push((rank.plan.rank as usize, part, error));
            }
            Ok(())
        })?;
        let mut found = found.into_inner().unwrap_or_default();
        found.sort_by_key(|(rank, ..)| *rank);
        Ok(found)
    }

    /// The timeline of this process's ranks, with how far any two ranks of the run may be apart.
    fn together(&self, found: Vec<Found>) -> Result<Trace, Vec<Diag>> {
        let own: Vec<u8> = found.iter().flat_map(|(.., error)| error.to_le_bytes()).collect();
        let all = self.joint.gather("clock errors", &own)?;
        let errors = all.iter().flat_map(|bytes| bytes.as_chunks().0);
        let apart_ns = apart(errors.map(|bytes| u64::from_le_bytes(*bytes)).collect());
        if !self.joint.is_several() {
            let parts = found.into_iter().map(|(_, part, _)| part).collect();
            return Ok(Trace { apart_ns, ..Trace::join(Clock::Device, parts) });
        }
        let ranks = self.prepared.plans.iter().map(trace::tracks).collect();
        let (mut slices, mut arrows) = (Vec::new(), Vec::new());
        for (_, part, _) in found {
            slices.extend(part.slices);
            arrows.extend(part.arrows);
        }
        Ok(Trace { clock: Clock::Device, ranks, slices, arrows, apart_ns })
    }
}

/// A rank's clock, if the processes compared theirs.
fn drift(start: &(Vec<Offset>, u64), end: &(Vec<Offset>, u64), rank: usize) -> Option<Drift> {
    let (first, second) = (start.0.get(rank)?, end.0.get(rank)?);
    Some(Drift { start: (start.1, *first), end: (end.1, *second) })
}

/// Two ranks are as far apart as their two errors allow.
fn apart(mut errors: Vec<u64>) -> u64 {
    if errors.len() < 2 {
        return 0;
    }
    errors.sort_unstable();
    errors.iter().rev().take(2).fold(0, |sum, error| sum.saturating_add(*error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_largest_errors_count() {
        assert_eq!([apart(vec![]), apart(vec![9]), apart(vec![3, 9, 5])], [0, 0, 14]);
    }

    #[test]
    fn a_process_alone_has_one_clock() {
        assert_eq!(drift(&(vec![], 0), &(vec![], 9), 0), None);
        let at = |ahead_ns| vec![Offset::default(), Offset { ahead_ns, error_ns: 1 }];
        let drift = drift(&(at(10), 100), &(at(20), 200), 1).unwrap();
        assert_eq!(drift.on_first(150), 135);
    }
}
