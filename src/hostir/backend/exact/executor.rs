//! One rank of an exact run: its memory, and the execution of its instructions.

use super::extremes::ExtremeSets;
use super::hash::HashKeys;
use super::memory::ExactMemory;
use super::pointwise::{run_kernel, scalar_element};
use super::reduce::{run_gemm, run_reduction};
use super::rows::run_rows;
use super::take::{run_accumulate, run_take};
use super::value::ExactColumn;
use super::work::{ExactNotes, HashContext};
use crate::backend::fault::ExecutionFault;
use crate::ir::OpId;
use crate::plan::{Inst, InstKind, LaunchInst, Plan};

/// The memory and the notes of one rank.
pub(super) struct ExactRank<'p> {
    /// Its plan.
    pub(super) plan: &'p Plan,
    /// Its memory.
    pub(super) memory: ExactMemory,
    /// The keys of the run.
    pub(super) keys: HashKeys,
    /// The minima and maxima of all ranks.
    pub(super) extremes: ExtremeSets,
    /// Its notes.
    pub(super) notes: ExactNotes,
}

impl ExactRank<'_> {
    /// Hashes on behalf of an op.
    pub(super) fn hash_context(&mut self, op: OpId) -> HashContext<'_> {
        HashContext { keys: self.keys, extremes: &self.extremes, notes: &mut self.notes, op }
    }

    /// Carries out an instruction that accesses memory of its rank only.
    pub(super) fn execute_local(&mut self, inst: &Inst) -> Result<(), ExecutionFault> {
        self.execute_kind(&inst.kind, inst.origin.op)
    }

    fn execute_kind(&mut self, kind: &InstKind, op: OpId) -> Result<(), ExecutionFault> {
        let (memory, plan) = (&mut self.memory, self.plan);
        let (extremes, notes) = (&self.extremes, &mut self.notes);
        let mut cx = HashContext { keys: self.keys, extremes, notes, op };
        match kind {
            InstKind::Copy { src, dst } => {
                let column = memory.read_view(plan, src);
                memory.write_view(plan, dst, &column);
            }
            InstKind::Fill { dst, value } => {
                let values = vec![scalar_element(*value, dst.dtype, &mut cx); dst.len()];
                memory.write_view(plan, dst, &ExactColumn { values, ..ExactColumn::default() });
            }
            InstKind::Gemm(gemm) => run_gemm(memory, plan, gemm, &mut cx),
            InstKind::Kernel(kernel) => run_kernel(memory, plan, kernel, &mut cx)?,
            InstKind::Reduce(fold) => {
                run_reduction(memory, plan, fold.op, &fold.axes, [&fold.input, &fold.output], &mut cx)?;
            }
            InstKind::Take(take) => run_take(memory, plan, take)?,
            InstKind::Accumulate(put) => run_accumulate(memory, plan, put, &mut cx)?,
            InstKind::Rows(rows) => run_rows(memory, plan, rows, &mut cx)?,
            InstKind::Attention(attention) => return self.run_composition(&attention.composition, op),
            InstKind::Launch(launch) => return self.run_reference(launch, op),
            InstKind::Alloc { .. }
            | InstKind::Free { .. }
            | InstKind::WaitWork { .. }
            | InstKind::Record { .. }
            | InstKind::WaitEvent { .. }
            | InstKind::GroupBegin
            | InstKind::GroupEnd { .. }
            | InstKind::Collective(_)
            | InstKind::Message { .. } => {}
        }
        Ok(())
    }

    /// Runs the reference of a kernel in its place.
    fn run_reference(&mut self, launch: &LaunchInst, op: OpId) -> Result<(), ExecutionFault> {
        let Some(reference) = &launch.reference else {
            return Err(ExecutionFault::Kernel(launch.kernel.clone()));
        };
        self.run_composition(reference, op)
    }

    /// Runs instructions in the place of one that they are parts of, and gives back the memory that only they had.
    fn run_composition(&mut self, kinds: &[InstKind], op: OpId) -> Result<(), ExecutionFault> {
        kinds.iter().try_for_each(|kind| self.execute_kind(kind, op))?;
        for kind in kinds {
            if let InstKind::Alloc { buffer } = kind {
                self.memory.drop_buffer(*buffer);
            }
        }
        Ok(())
    }
}
