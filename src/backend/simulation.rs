//! Simulated runs: timelines from the cost model, without data.

use super::recorder::{RankRecorder, TimeSource, recorded_parts};
use super::trace::{Trace, TraceClock};
use crate::diag::Diag;
use crate::lower::PreparedProgram;
use crate::plan::cost::CostModel;
use crate::plan_checks::walk::{OrderOnly, PlanWalk};

/// Simulates a run on the machine of a cost model, without data, memory or arithmetic. Equal programs give equal
/// timelines.
///
/// # Errors
/// If the ranks deadlock, or the sides of a communication do not agree, as
/// [`crate::plan_checks::check_plans`] finds it.
pub fn simulate_run(prepared: &PreparedProgram, model: &CostModel) -> Result<Trace, Vec<Diag>> {
    let time = TimeSource::Model(*model);
    let plans = prepared.plans.iter();
    let ranks = plans.map(|plan| (OrderOnly, RankRecorder::new(plan, time))).collect();
    let mut walk = PlanWalk::new(prepared, ranks);
    walk.run_in_time_order()?;
    let recorders = walk.ranks.into_iter().map(|rank| rank.clock);
    Ok(Trace::join_parts(TraceClock::Model, recorded_parts(recorders)))
}
