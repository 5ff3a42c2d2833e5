//! Traced runs of all ranks.

use crate::runtime::failure::RankFailure;
use crate::runtime::loaded_program::LoadedProgram;
use hostir::backend::RunResult;
use hostir::backend::clocks::{ClockDrift, ClockOffset, monotonic_ns};
use hostir::backend::trace;
use hostir::backend::trace::{PartialTrace, Trace, TraceClock};
use hostir::data::HostTensor;
use hostir::diag::Diag;
use std::sync::Mutex;

/// A rank's position, its partial trace, and the error bound of its times in nanoseconds.
type RankTrace = (usize, PartialTrace, u64);

/// The offsets of the ranks' clocks at a time of the host's clock.
struct ClockSample {
    offsets: Vec<ClockOffset>,
    at_ns: u64,
}

impl LoadedProgram<'_> {
    /// [`LoadedProgram::run_once`] with its timeline. It runs once untraced, so that no first-time work is measured,
    /// and once more with events around every call. All ranks start together. It does not replay a graph, whose calls
    /// have no room for events. If the ranks are processes, each gets the spans of its own rank, on rank 0's clock;
    /// [`Trace::join_parts`] joins them.
    ///
    /// # Errors
    /// As [`LoadedProgram::run_once`]; also if the clocks of the processes cannot be compared.
    pub fn run_traced(&mut self, inputs: &[Vec<HostTensor>]) -> Result<(RunResult, Trace), Vec<Diag>> {
        self.run_once(inputs)?;
        self.upload_inputs(inputs)?;
        let start = ClockSample { offsets: self.process_group.clock_offsets()?, at_ns: monotonic_ns() };
        let mut found = self.run_with_probes()?;
        let end = ClockSample { offsets: self.process_group.clock_offsets()?, at_ns: monotonic_ns() };
        for (rank, part, error) in &mut found {
            if let Some(drift) = clock_drift(&start, &end, *rank) {
                for span in &mut part.spans {
                    span.start_ns = drift.to_rank_zero(span.start_ns);
                    span.end_ns = drift.to_rank_zero(span.end_ns).max(span.start_ns);
                }
                *error = error.saturating_add(drift.error_ns());
            }
        }
        let trace = self.merge_traces(found)?;
        Ok((self.download_results()?, trace))
    }

    /// Runs once with events; returns the spans of each rank of this process, on the host's clock.
    fn run_with_probes(&mut self) -> Result<Vec<RankTrace>, Vec<Diag>> {
        let (barrier, timeout) = (self.rank_barrier(), self.timeout);
        let process_group = self.process_group.clone();
        let found: Mutex<Vec<RankTrace>> = Mutex::default();
        self.for_each_rank(|rank| {
            let mut traced = || -> Result<(PartialTrace, u64), RankFailure> {
                let probes = rank.create_probes()?;
                process_group.wait_for_all().map_err(RankFailure::peer_failed)?;
                let anchor = rank.anchor_clock(&probes, &barrier)?;
                barrier.wait();
                process_group.wait_for_all().map_err(RankFailure::peer_failed)?;
                rank.wait_at_start_barrier(timeout)?;
                rank.run_probed(&probes, timeout)?;
                Ok((rank.collect_spans(&probes, anchor)?, anchor.error))
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

    /// The timeline of this process's ranks, with the largest clock difference between two ranks of the run.
    fn merge_traces(&self, found: Vec<RankTrace>) -> Result<Trace, Vec<Diag>> {
        let own: Vec<u8> = found.iter().flat_map(|(.., error)| error.to_le_bytes()).collect();
        let all = self.process_group.all_gather("clock errors", &own)?;
        let errors = all.iter().flat_map(|bytes| bytes.as_chunks().0);
        let clock_skew_ns = max_clock_skew(errors.map(|bytes| u64::from_le_bytes(*bytes)).collect());
        if !self.process_group.is_multi_process() {
            let parts = found.into_iter().map(|(_, part, _)| part).collect();
            return Ok(Trace { clock_skew_ns, ..Trace::join_parts(TraceClock::Device, parts) });
        }
        let ranks = self.prepared.plans.iter().map(trace::plan_tracks).collect();
        let (mut spans, mut flow_events) = (Vec::new(), Vec::new());
        for (_, part, _) in found {
            spans.extend(part.spans);
            flow_events.extend(part.flow_events);
        }
        Ok(Trace { clock: TraceClock::Device, machine: None, ranks, spans, flow_events, clock_skew_ns })
    }
}

/// A rank's clock, if the processes compared theirs.
fn clock_drift(start: &ClockSample, end: &ClockSample, rank: usize) -> Option<ClockDrift> {
    let (first, second) = (start.offsets.get(rank)?, end.offsets.get(rank)?);
    Some(ClockDrift { start: (start.at_ns, *first), end: (end.at_ns, *second) })
}

/// The largest clock difference of two ranks: the sum of the two largest errors.
fn max_clock_skew(mut errors: Vec<u64>) -> u64 {
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
        assert_eq!([max_clock_skew(vec![]), max_clock_skew(vec![9]), max_clock_skew(vec![3, 9, 5])], [0, 0, 14]);
    }

    #[test]
    fn a_process_alone_has_one_clock() {
        let empty = |at_ns| ClockSample { offsets: vec![], at_ns };
        assert_eq!(clock_drift(&empty(0), &empty(9), 0), None);
        let at = |at_ns, ahead_ns| ClockSample {
            offsets: vec![ClockOffset::default(), ClockOffset { ahead_ns, error_ns: 1 }],
            at_ns,
        };
        let drift = clock_drift(&at(100, 10), &at(200, 20), 1).unwrap();
        assert_eq!(drift.to_rank_zero(150), 135);
    }
}
