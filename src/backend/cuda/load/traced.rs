//! A run of all ranks with its timeline.

use super::super::Failure;
use super::super::gate::Gate;
use super::Loaded;
use crate::backend::RunResult;
use crate::backend::trace::{Clock, Part, Trace};
use crate::data::HostTensor;
use crate::diag::Diag;
use std::sync::Mutex;
use std::time::Instant;

impl Loaded<'_> {
    /// [`Loaded::run`] with its timeline: once untraced, so that nothing happens for the first time, and
    /// once more with events around every call. All ranks start together. A graph is not replayed: its
    /// calls have no room for events.
    pub fn run_traced(
        &mut self,
        inputs: &[Vec<HostTensor>],
    ) -> Result<(RunResult, Trace), Vec<Diag>> {
        self.run(inputs)?;
        self.upload(inputs)?;
        let (ranks, timeout) = (self.ranks.len(), self.timeout);
        let (gate, zero) = (Gate::new(ranks), Instant::now());
        let found: Mutex<Vec<(usize, Part, u64)>> = Mutex::default();
        self.each(|rank| {
            let mut traced = || -> Result<(Part, u64), Failure> {
                let probes = rank.probes()?;
                let anchor = rank.anchor(&probes, &gate, zero)?;
                gate.wait();
                rank.run_probed(&probes, timeout)?;
                Ok((rank.slices(&probes, anchor)?, anchor.error))
            };
            let (part, error) = traced().inspect_err(|_| gate.open())?;
            if let Ok(mut found) = found.lock() {
                found.push((rank.plan.rank as usize, part, error));
            }
            Ok(())
        })?;
        let mut found = found.into_inner().unwrap_or_default();
        found.sort_by_key(|(rank, ..)| *rank);
        // Two ranks are as far apart as their two errors allow.
        let mut errors: Vec<u64> = found.iter().map(|(.., error)| *error).collect();
        errors.sort_unstable();
        let apart = if ranks > 1 { errors.iter().rev().take(2).sum() } else { 0 };
        let parts = found.into_iter().map(|(_, part, _)| part).collect();
        let trace = Trace { apart_ns: apart, ..Trace::join(Clock::Device, parts) };
        Ok((self.results()?, trace))
    }
}
