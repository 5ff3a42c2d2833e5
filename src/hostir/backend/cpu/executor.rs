//! One rank of a run: its memory, and the execution of its instructions.

use super::element_vector::{ElementVector, require_vector_class};
use super::storage::RankMemory;
use super::{communication, gemm, pointwise, reduce, rows, take};
use crate::backend::RunStats;
use crate::backend::fault::ExecutionFault;
use crate::data::HostTensor;
use crate::diag::Diag;
use crate::lower::PreparedProgram;
use crate::plan::{BufferView, Inst, InstKind, LaunchInst, Plan, ScalarValue};
use crate::plan_checks::walk::{CollectiveEnd, MessageEnd, RankClock, RankExecutor, StreamStep, WalkRanks};
use std::sync::atomic::{AtomicU64, Ordering};

/// The memory and the figures of one rank.
pub(super) struct CpuRank<'p> {
    /// Its plan.
    pub(super) plan: &'p Plan,
    /// Its memory.
    pub(super) memory: RankMemory,
    /// Sums over what it has done.
    pub(super) stats: RunStats,
    /// Counts the instructions of streams, for other threads.
    pub(super) done: Option<&'p AtomicU64>,
}

impl<'p> CpuRank<'p> {
    /// A rank with its inputs, and with patterns in new memory if it is poisoned. `done` counts its instructions on
    /// streams.
    pub(super) fn new(
        plan: &'p Plan,
        inputs: Vec<HostTensor>,
        poison: bool,
        done: Option<&'p AtomicU64>,
    ) -> Result<Self, ExecutionFault> {
        Ok(Self { plan, memory: RankMemory::new(plan, inputs, poison)?, stats: RunStats::default(), done })
    }

    /// Carries out an instruction that accesses memory of its rank only.
    pub(super) fn execute_local(&mut self, kind: &InstKind) -> Result<(), ExecutionFault> {
        let (memory, plan) = (&mut self.memory, self.plan);
        match kind {
            InstKind::Copy { src, dst } => copy_view(memory, plan, src, dst),
            InstKind::Fill { dst, value } => fill_view(memory, plan, dst, *value),
            InstKind::Gemm(gemm) => gemm::run_gemm(memory, plan, gemm),
            InstKind::Kernel(kernel) => pointwise::run_kernel(memory, plan, kernel),
            InstKind::Reduce(fold) => {
                reduce::run_reduction(memory, plan, fold.op, &fold.axes, &fold.input, &fold.output)
            }
            InstKind::Take(op) => take::run_take(memory, plan, op),
            InstKind::Accumulate(op) => take::run_accumulate(memory, plan, op),
            InstKind::Rows(op) => rows::run_rows(memory, plan, op),
            InstKind::Attention(attention) => self.run_composition(&attention.composition),
            InstKind::Launch(launch) => self.run_reference(launch),
            InstKind::Alloc { .. }
            | InstKind::Free { .. }
            | InstKind::WaitWork { .. }
            | InstKind::Record { .. }
            | InstKind::WaitEvent { .. }
            | InstKind::GroupBegin
            | InstKind::GroupEnd { .. }
            | InstKind::Collective(_)
            | InstKind::Message { .. } => Ok(()),
        }
    }

    /// Runs the reference of a kernel in its place.
    fn run_reference(&mut self, launch: &LaunchInst) -> Result<(), ExecutionFault> {
        let Some(reference) = &launch.reference else {
            return Err(ExecutionFault::Kernel(launch.kernel.clone()));
        };
        self.run_composition(reference)
    }

    /// Runs instructions in the place of one that they are parts of, and gives back the memory that only they had.
    fn run_composition(&mut self, kinds: &[InstKind]) -> Result<(), ExecutionFault> {
        kinds.iter().try_for_each(|kind| self.execute_local(kind))?;
        for kind in kinds {
            if let InstKind::Alloc { buffer } = kind {
                self.memory.drop_buffer(*buffer);
            }
        }
        Ok(())
    }
}

impl RankExecutor for CpuRank<'_> {
    fn execute_step(&mut self, prepared: &PreparedProgram, step: &StreamStep<'_>) -> Result<(), Diag> {
        if step.inst.kind.is_local() {
            let executed = self.execute_local(&step.inst.kind);
            executed.map_err(|fault| fault.into_diag(prepared, self.plan, step.inst.origin))?;
            self.stats.local_bytes += step.inst.kind.traffic_bytes();
            self.release_views(step.inst);
        }
        if let Some(done) = self.done {
            done.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn release_views(&mut self, inst: &Inst) {
        self.memory.release_views(inst.kind.read_views().into_iter().chain(inst.kind.written_views()));
    }

    fn move_message<C: RankClock>(
        walk: &mut WalkRanks<'_, '_, Self, C>,
        send: &MessageEnd<'_>,
        receive: &MessageEnd<'_>,
    ) -> Result<(), Diag> {
        communication::move_message(walk, send, receive)
    }

    fn move_collective<C: RankClock>(
        walk: &mut WalkRanks<'_, '_, Self, C>,
        ends: &[CollectiveEnd<'_>],
    ) -> Result<(), Diag> {
        communication::move_collective(walk, ends)
    }
}

fn copy_view(memory: &mut RankMemory, plan: &Plan, src: &BufferView, dst: &BufferView) -> Result<(), ExecutionFault> {
    match src.dtype.byte_size() {
        1 => memory.read_view::<u8>(src).and_then(|v| memory.write_view(plan, dst, &v)),
        2 => memory.read_view::<u16>(src).and_then(|v| memory.write_view(plan, dst, &v)),
        4 => memory.read_view::<u32>(src).and_then(|v| memory.write_view(plan, dst, &v)),
        8 => memory.read_view::<u64>(src).and_then(|v| memory.write_view(plan, dst, &v)),
        16 => memory.read_view::<[u64; 2]>(src).and_then(|v| memory.write_view(plan, dst, &v)),
        _ => Err(ExecutionFault::Type(src.dtype)),
    }
}

fn fill_view(memory: &mut RankMemory, plan: &Plan, dst: &BufferView, value: ScalarValue) -> Result<(), ExecutionFault> {
    ElementVector::splat(value, require_vector_class(dst.dtype)?, dst.len()).store_view(memory, plan, dst)
}
