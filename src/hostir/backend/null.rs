//! The null backend: runs programs without doing their work.
//!
//! The backend follows plans to their end without data, memory or arithmetic. It finds deadlocks and communications
//! whose sides disagree; there are no outputs. With a [`ControlPlane`] it takes the same steps as processes on GPUs, as
//! a dry run of a launch that needs no GPU.

use super::control_plane::{self, ControlPlane};
use super::simulation::simulate_run;
use super::trace::Trace;
use super::{RunResult, RunStats};
use crate::diag::Diag;
use crate::lower::PreparedProgram;
use crate::plan::cost::CostModel;
use crate::plan_checks::check_plans;
use std::sync::Arc;

/// The null backend.
#[derive(Clone, Default)]
pub struct NullBackend {
    /// The other processes of the run, one for each rank; without it this process has all ranks.
    pub control_plane: Option<Arc<dyn ControlPlane>>,
}

impl std::fmt::Debug for NullBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Null").finish_non_exhaustive()
    }
}

impl NullBackend {
    /// Checks the plans of all ranks; with a control plane, in the steps of a run on GPUs.
    ///
    /// # Errors
    /// If the plans do not pass [`check_plans`], there is not one process for each rank, or another process fails.
    pub fn run_plans(&self, prepared: &PreparedProgram) -> Result<RunResult, Vec<Diag>> {
        self.end_step("load", control_plane::check_process_count(prepared, self.control_plane.as_deref()))?;
        self.end_step("run", check_plans(prepared))?;
        let absent = vec![None; prepared.outputs.len()];
        let outputs = vec![absent; prepared.plans.len()];
        let instructions = prepared.plans.iter().map(|plan| plan.inst_count() as u64).sum();
        Ok(RunResult { outputs, stats: RunStats { instructions, ..RunStats::default() } })
    }

    /// [`NullBackend::run_plans`] with the timeline of a cost model; with a control plane, this process's part of it.
    ///
    /// # Errors
    /// Those of [`NullBackend::run_plans`].
    pub fn run_traced(&self, prepared: &PreparedProgram, model: &CostModel) -> Result<(RunResult, Trace), Vec<Diag>> {
        let result = self.run_plans(prepared)?;
        let mut trace = simulate_run(prepared, model)?;
        if let Some(control_plane) = &self.control_plane {
            let own = trace.partial_trace(control_plane.rank());
            (trace.spans, trace.flow_events) = (own.spans, own.flow_events);
        }
        Ok((result, trace))
    }

    fn end_step<T>(&self, what: &str, result: Result<T, Vec<Diag>>) -> Result<T, Vec<Diag>> {
        control_plane::agree_on_step(self.control_plane.as_deref(), what, result)
    }
}
