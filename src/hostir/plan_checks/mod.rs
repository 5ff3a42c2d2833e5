//! Checks of plans: properties of all ranks' plans together, independent of any backend.
//!
//! [`check_plans`] needs no backend, data or memory. It follows the plans' queues (`walk`) and finds
//! deadlocks (`deadlock`) and communications whose sides do not agree (`agreement`). Backends call it before they
//! schedule or run anything.
//!
//! [`prove_program`] does that and more: it orders all instructions by vector clocks (`happens_before`), compares
//! accesses to memory by them (`races`), and compares the order of posts (`post_order`). [`prove_program`] calls
//! further checks, which belong beside these.
//!
//! The CPU backend's runs and the cost model's simulated runs use the same walk: they provide a `RankExecutor` and a
//! `RankClock`; the simulation steps it in the order of time.

pub(crate) mod agreement;
mod deadlock;
mod deadlock_cause;
mod element_set;
mod ended_memory;
mod exchange_rounds;
mod hang_report;
mod happens_before;
mod in_place;
mod lost_writes;
mod post_order;
pub(crate) mod queues;
mod races;
mod rank_rotation;
mod rank_text;
mod serial_loops;
mod set_index;
pub(crate) mod stream_count;
pub(crate) mod walk;
mod waste;
mod written_elements;

use crate::diag::components::{PROOF, codes_of};
use crate::diag::{Diag, Severity};
use crate::ir::OpId;
use crate::lower::PreparedProgram;
use crate::plan::{Plan, PlanMatching};
use happens_before::WalkOutcome;
use races::{MemoryObserver, report_findings};
use walk::{NoClock, OrderOnly, PlanWalk};

pub use hang_report::{RankPosition, RankProgress, report_hang};
pub use lost_writes::{LostWrite, find_lost_writes};
pub use rank_rotation::are_rotations;

/// Checks the plans of all ranks.
///
/// # Errors
/// If the ranks deadlock, if the sides of a communication do not agree, or if the plans exceed their time.
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

/// The findings of a proof.
#[derive(Clone, Default, Debug)]
pub struct ProofReport {
    /// The reasons why the program is wrong for these sizes, ranks and streams; empty if it is proved right.
    pub errors: Vec<Diag>,
    /// Statements that cost time without effect, and uses that are allowed but doubtful.
    pub warnings: Vec<Diag>,
    /// The Synchronize and Wait ops that order nothing: without them the order of everything else is the same.
    pub redundant: Vec<OpId>,
}

impl ProofReport {
    /// The errors as a result.
    ///
    /// # Errors
    /// If there are any.
    pub fn into_result(self) -> Result<(), Vec<Diag>> {
        if self.errors.is_empty() { Ok(()) } else { Err(self.errors) }
    }
}

/// Proves that a program is free of deadlocks, of communications whose sides do not agree, of races, and of
/// uninitialised reads and outputs: for its sizes, ranks and streams, and for every order in which queues may run.
pub fn prove_program(prepared: &PreparedProgram) -> ProofReport {
    let plans = &prepared.plans;
    let insts = total_insts(plans);
    let is_rotated = insts >= LARGE_PLANS && rank_rotation::are_rotations(plans);
    tracing::debug!(target: PROOF, ranks = plans.len(), instructions = insts, one_rank_for_all = is_rotated, "proving");
    if is_rotated {
        let matching = PlanMatching::of_rotated_plans(plans);
        match prove_memory(prepared, &matching, true) {
            // Errors name the ranks on which they are found first.
            Ok(report) if report.errors.is_empty() || insts > MOST_WALKED_TWICE => return report,
            _ => {}
        }
    }
    match prove_memory(prepared, &PlanMatching::new(plans), false) {
        Ok(report) => report,
        Err(races) => {
            // A walk with messages about queues reports why the ranks do not continue.
            let mut errors = check_plans(prepared).err().unwrap_or_default();
            errors.extend(races);
            ProofReport { errors, ..ProofReport::default() }
        }
    }
}

/// The warnings for time that a right program wastes: iterations that serialise without need, and orders of messages
/// that take more rounds than needed.
pub(crate) fn check_wasted_time(prepared: &PreparedProgram) -> Vec<Diag> {
    if total_insts(&prepared.plans) > MOST_EXAMINED {
        return Vec::new();
    }
    let mut warnings = serial_loops::check_serial_loops(prepared);
    warnings.extend(exchange_rounds::check_exchange_rounds(prepared));
    warnings
}

/// The maximum number of instructions of all ranks that are examined for wasted time.
const MOST_EXAMINED: usize = 1 << 18;

fn total_insts(plans: &[Plan]) -> usize {
    plans.iter().map(Plan::inst_count).sum()
}

/// The number of instructions from which on a walk over one rank instead of all pays.
const LARGE_PLANS: usize = 4096;

/// The number of instructions up to which all ranks are walked if a walk over one of them finds errors.
const MOST_WALKED_TWICE: usize = 1_000_000;

/// Searches races, and uninitialised reads and outputs. For plans that differ by a rotation, rank 0 stands for all.
///
/// # Errors
/// Fails if the plans deadlock, or the sides of a communication do not agree: the error has the races before a
/// deadlock.
fn prove_memory(
    prepared: &PreparedProgram,
    matching: &PlanMatching<'_>,
    rotated: bool,
) -> Result<ProofReport, Vec<Diag>> {
    let plans = &prepared.plans;
    if agreement::check_all_sides(prepared, matching).is_err() {
        tracing::debug!(target: PROOF, "the sides of a communication do not agree, or there is no other side");
        return Err(Vec::new());
    }
    let walked = if rotated { &plans[..1] } else { &plans[..] };
    let mut observer = MemoryObserver::new(walked);
    let outcome = match rotated {
        true => happens_before::walk_rotated_order(plans, matching, &mut observer),
        false => happens_before::walk_order(plans, matching, &mut observer),
    };
    if outcome == WalkOutcome::Blocked {
        tracing::debug!(target: PROOF, findings = observer.findings.len(), "a queue cannot continue");
        observer.keep_races();
        return Err(report_findings(prepared, &observer.findings));
    }
    observer.drop_explained();
    observer.check_outputs(&prepared.outputs[..prepared.results]);
    let mut errors = report_step("post orders", post_order::check_post_orders(prepared, matching, rotated));
    errors.extend(report_step("races and reads", report_findings(prepared, &observer.findings)));
    errors.extend(report_step("memory in place", in_place::check_in_place(prepared)));
    let ended = report_step("memory that ended", ended_memory::check_ended_memory(prepared));
    let (uses, mut warnings): (Vec<Diag>, Vec<Diag>) =
        ended.into_iter().partition(|diag| diag.severity == Severity::Error);
    errors.extend(uses);
    let redundant = waste::redundant_waits(&observer.waits);
    tracing::debug!(target: PROOF, waits = observer.waits.len(), redundant = redundant.len(), "compared waits");
    // In a wrong program a wait without effect may be one at the wrong place.
    if errors.is_empty() {
        warnings.extend(waste::report_waste(prepared, &redundant));
    }
    Ok(ProofReport { errors, warnings, redundant })
}

/// Tells who debugs the proof what a step found.
fn report_step(step: &str, found: Vec<Diag>) -> Vec<Diag> {
    tracing::debug!(target: PROOF, step, findings = ?codes_of(&found), "checked");
    found
}
