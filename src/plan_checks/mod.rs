//! Checks of plans: properties of all ranks' plans together, independent of any backend.
//!
//! [`check_plans`] needs no backend, data or memory. It follows the plans' queues (`walk`) and finds
//! deadlocks (`deadlock`) and communications whose sides do not agree (`agreement`). Further checks
//! belong beside these two, and [`check_plans`] calls them.
//!
//! The CPU backend's runs and the cost model's simulated runs use the same walk: they provide a
//! `RankExecutor` and a `RankClock`, and have no order of their own.

pub(crate) mod agreement;
mod deadlock;
pub(crate) mod queues;
pub(crate) mod walk;

use crate::diag::Diag;
use crate::lower::PreparedProgram;
use walk::{NoClock, OrderOnly, PlanWalk};

/// Checks the plans of all ranks.
///
/// # Errors
/// If the ranks deadlock, if the sides of a communication do not agree, or if the time that the plans
/// may take is over.
///
/// ```
/// use hostir::lower::{SizeSettings, prepare_program};
/// use hostir::plan_checks::check_plans;
///
/// // Both ranks receive, and none sends.
/// let text = "\
/// %HostIrContainer { (T0_g_float[iS0{4}] (DeviceMesh{0 1})) -> (T0_g_float[iS0{4}] (DeviceMesh{0 1})) :
///   P2PCommunication 1 (type=recv, buffer=T0, peer=( ( rank + 1 ) % 2 ), backend=NCCL)
///   Wait Communication 1
/// } // %HostIrContainer
/// ";
/// let (programs, _) = hostir::load(text);
/// let prepared = prepare_program(&programs[0], &SizeSettings::default()).expect("all extents are constant");
/// let errors = check_plans(&prepared).expect_err("nobody sends");
/// assert_eq!(errors[0].code, "H0510");
/// ```
pub fn check_plans(prepared: &PreparedProgram) -> Result<(), Vec<Diag>> {
    let ranks = prepared.plans.iter().map(|_| (OrderOnly, NoClock)).collect();
    PlanWalk::new(prepared, ranks).run_to_end()
}
