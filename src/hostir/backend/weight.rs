//! Weighs a program against others that repair the same text.

use super::simulation::simulate_run;
use crate::lower::PreparedProgram;
use crate::plan::cost::CostModel;
use crate::plan_checks::find_lost_writes;
use crate::repair::TextWeight;

/// Weighs a program on the machine of a model; `None` if its ranks deadlock, or if it is too large.
pub fn weigh_program(prepared: &PreparedProgram, model: &CostModel) -> Option<TextWeight> {
    let lost_writes = find_lost_writes(prepared)?;
    let time_ns = simulate_run(prepared, model).ok()?.end_ns();
    Some(TextWeight { time_ns, lost_writes })
}
