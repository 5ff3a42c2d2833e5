//! Products behind a sum over devices that need nothing of it: a ring multiplies them while its sums travel.

use super::region::{SumRegion, is_product};
use crate::support::motion::BodyMotion;
use crate::support::storage::allocated_tensors;
use hostir::ir::{OpId, Program, TensorId};
use rustc_hash::FxHashSet;

/// Finds them for one region after the other, in the order of the body.
pub(super) struct IndependentProducts<'p> {
    program: &'p Program,
    /// Tensors that an ALLOCATE gives memory.
    bound: FxHashSet<TensorId>,
    /// Products of sums over devices, and those that a ring has.
    taken: FxHashSet<OpId>,
}

impl<'p> IndependentProducts<'p> {
    pub(super) fn new(program: &'p Program, chains: impl IntoIterator<Item = OpId>) -> Self {
        Self { program, bound: allocated_tensors(program), taken: chains.into_iter().collect() }
    }

    /// The products that may stand in front of a region's sum, in their order.
    pub(super) fn behind_region(&mut self, region: &SumRegion, motion: &mut BodyMotion<'p>) -> Vec<OpId> {
        let program = self.program;
        let body = &program.block(program.body()).ops;
        let mut found = Vec::new();
        for &op in &body[motion.place_of(region.sum) + 1..] {
            if self.is_free_product(op) && motion.can_precede(op, &found, region.sum) {
                found.push(op);
            }
        }
        self.taken.extend(&found);
        found
    }

    fn is_free_product(&self, op: OpId) -> bool {
        let is_bound = self.program.op(op).output_tensors().any(|tensor| self.bound.contains(&tensor));
        is_product(self.program, op) && !is_bound && !self.taken.contains(&op)
    }
}
