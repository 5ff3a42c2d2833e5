//! The work of a plan that takes other time on a device than its instructions say: copies that GEMMs make unnecessary,
//! and messages whose data a GEMM stores in the receiver's memory.
//!
//! The decisions are those of the CUDA backend ([`super::elide_copies`], [`super::direct_store_pairs`]).

use super::Plan;
use super::elided_copies::elide_copies;
use super::gemm_pairs::{GemmPair, WorkItem, direct_store_pairs};
use super::inst::{GemmInst, InstId, InstKind};
use super::library_gemm::is_library_gemm;
use super::view::BufferView;
use rustc_hash::FxHashSet;

/// The instructions of a plan whose work is done elsewhere.
#[derive(Clone, Default, Debug)]
pub struct DeviceWork {
    /// Copies that are not made.
    elided: FxHashSet<InstId>,
    /// GEMMs that store in another rank's memory.
    storing: FxHashSet<InstId>,
    /// Messages whose data such a GEMM has stored.
    stored: FxHashSet<InstId>,
}

impl DeviceWork {
    /// The work of a plan.
    pub fn of_plan(plan: &Plan) -> Self {
        if !has_candidates(plan) {
            return Self::default();
        }
        let copies = elide_copies(plan, |gemm| is_library_gemm(&GemmInst { scales: None, ..gemm.clone() }));
        let mut gemms = copies.gemms;
        let items: Vec<PlanItem> = plan
            .cursor()
            .filter(|(at, _)| !copies.gone.contains(at))
            .map(|(at, _)| PlanItem { at, gemm: gemms.remove(&at).map(|(gemm, _)| Box::new(gemm)) })
            .collect();
        let pairs = direct_store_pairs(plan, &items, |gemm, _| is_library_gemm(gemm));
        let mut work = Self { elided: copies.gone, ..Self::default() };
        for GemmPair { gemm, reader } in pairs {
            work.storing.insert(items[gemm].at);
            work.stored.insert(items[reader].at);
        }
        work
    }

    /// Returns true if a copy is not made.
    pub fn is_elided(&self, inst: InstId) -> bool {
        self.elided.contains(&inst)
    }

    /// Returns true if a GEMM stores its result in another rank's memory.
    pub fn is_storing(&self, inst: InstId) -> bool {
        self.storing.contains(&inst)
    }

    /// Returns true if a GEMM has stored what a message sends.
    pub fn is_stored(&self, inst: InstId) -> bool {
        self.stored.contains(&inst)
    }
}

/// Returns true if a plan has a GEMM, and a copy or a message by which it could save work.
fn has_candidates(plan: &Plan) -> bool {
    let (mut computes, mut moves) = (false, false);
    for inst in plan.insts.templates().template_insts() {
        computes |= matches!(inst.kind, InstKind::Gemm(_));
        moves |= matches!(inst.kind, InstKind::Copy { .. }) || inst.kind.initiates_transfer();
        if computes && moves {
            return true;
        }
    }
    false
}

/// An instruction, or a GEMM whose operands are in other places than in the plan.
struct PlanItem {
    at: InstId,
    gemm: Option<Box<GemmInst>>,
}

impl WorkItem for PlanItem {
    fn plan_position(&self) -> InstId {
        self.at
    }
    fn plain_inst(&self) -> Option<InstId> {
        self.gemm.is_none().then_some(self.at)
    }
    fn own_gemm(&self, plan: &Plan) -> Option<GemmInst> {
        match (&self.gemm, &plan.inst(self.at).kind) {
            (Some(gemm), _) => Some((**gemm).clone()),
            (None, InstKind::Gemm(gemm)) => Some((**gemm).clone()),
            _ => None,
        }
    }
    fn read_views(&self, plan: &Plan) -> Vec<BufferView> {
        match &self.gemm {
            Some(gemm) => gemm.read_views().cloned().collect(),
            None => plan.inst(self.at).kind.read_views().into_iter().cloned().collect(),
        }
    }
}
