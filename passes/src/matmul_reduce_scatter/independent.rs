//! GEMMs after a sum over devices that do not need it: a ring computes them while its sums are in transit.

use super::emit::SumPlan;
use super::region::{SumMethod, is_gemm};
use crate::support::builder::is_stored_stream_domain;
use crate::support::motion::BodyMotion;
use crate::support::slices::is_on_first_stream;
use hostir::analysis::is_resharding;
use hostir::analysis::storage::allocated_tensors;
use hostir::ir::{OpId, Program, TensorId};
use rustc_hash::FxHashSet;

/// Finds them for one region after the other, in the order of the body.
pub(super) struct IndependentGemms<'p> {
    program: &'p Program,
    /// Tensors that an ALLOCATE gives memory.
    bound: FxHashSet<TensorId>,
    /// GEMMs of sums over devices, and those that a ring has.
    taken: FxHashSet<OpId>,
}

impl<'p> IndependentGemms<'p> {
    pub(super) fn new(program: &'p Program, chains: impl IntoIterator<Item = OpId>) -> Self {
        Self { program, bound: allocated_tensors(program), taken: chains.into_iter().collect() }
    }

    /// The GEMMs that may move before a sum, in order; or the reason why there are none.
    ///
    /// If the program has chosen a stream, it could be that of the copies.
    pub(super) fn for_sum(&mut self, plan: &SumPlan, motion: &mut BodyMotion<'p>) -> Result<Vec<OpId>, &'static str> {
        let (program, sum) = (self.program, plan.region.sum);
        if plan.method != SumMethod::RingAccumulate {
            return Err("an exchange has no place for them");
        }
        if plan.chunks != 1 {
            return Err("only a ring of one chunk has them");
        }
        let (before, after) = program.block(program.body()).ops.split_at(motion.place_of(sum) + 1);
        if !is_on_first_stream(program, before) {
            return Err("the program has chosen a stream above the sum");
        }
        let mut found = Vec::new();
        for &op in after {
            if self.is_free_gemm(op) && motion.can_precede(op, &found, sum) {
                found.push(op);
            }
        }
        self.taken.extend(&found);
        if found.is_empty() { Err("no product after the sum can be moved before it") } else { Ok(found) }
    }

    /// True for a GEMM that no later pass has to change because of data of other devices or a loop over streams.
    fn is_free_gemm(&self, op: OpId) -> bool {
        let program = self.program;
        let is_bound = program.op(op).output_tensors().any(|tensor| self.bound.contains(&tensor));
        let mut domains = program.op(op).all_tensors().flat_map(|tensor| program.domains(tensor));
        let is_lowered = !is_resharding(program, op) && !domains.any(is_stored_stream_domain);
        is_gemm(program, op) && is_lowered && !is_bound && !self.taken.contains(&op)
    }
}
