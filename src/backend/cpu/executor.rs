//! One rank of a run: its memory, and the execution of its instructions.

use super::fault::Fault;
use super::lanes::{Lanes, class};
use super::storage::Memory;
use super::{communication, gemm, pointwise, reduce, take};
use crate::backend::Stats;
use crate::data::HostTensor;
use crate::diag::Diag;
use crate::lower::Prepared;
use crate::plan::{Inst, InstKind, Plan, Scalar, View};
use crate::plan_checks::walk::{
    CollectiveEnd, MessageEnd, RankClock, RankExecutor, StreamStep, WalkRanks,
};
use std::sync::atomic::{AtomicU64, Ordering};

/// The memory and the figures of one rank.
pub(super) struct CpuRank<'p> {
    /// Its plan.
    pub(super) plan: &'p Plan,
    /// Its memory.
    pub(super) memory: Memory,
    /// Sums over what it has done.
    pub(super) stats: Stats,
    /// Counts the instructions of streams, for onlookers.
    done: Option<&'p AtomicU64>,
}

impl<'p> CpuRank<'p> {
    /// A rank with its inputs. `done` counts its instructions on streams.
    pub(super) fn new(
        plan: &'p Plan,
        inputs: Vec<HostTensor>,
        done: Option<&'p AtomicU64>,
    ) -> Result<Self, Fault> {
        Ok(Self { plan, memory: Memory::new(plan, inputs)?, stats: Stats::default(), done })
    }

    fn execute_local(&mut self, kind: &InstKind) -> Result<(), Fault> {
        let (memory, plan) = (&mut self.memory, self.plan);
        match kind {
            InstKind::Copy { src, dst } => copy_view(memory, plan, src, dst),
            InstKind::Fill { dst, value } => fill_view(memory, plan, dst, *value),
            InstKind::Gemm(gemm) => gemm::run(memory, plan, gemm),
            InstKind::Kernel(kernel) => pointwise::run(memory, plan, kernel),
            InstKind::Reduce { op, axes, input, output } => {
                reduce::run(memory, plan, *op, axes, input, output)
            }
            InstKind::Take(op) => take::run(memory, plan, op),
            InstKind::Accumulate(op) => take::accumulate(memory, plan, op),
            InstKind::Alloc { .. }
            | InstKind::Free { .. }
            | InstKind::WaitWork { .. }
            | InstKind::Record { .. }
            | InstKind::WaitEvent { .. }
            | InstKind::GroupBegin
            | InstKind::GroupEnd { .. }
            | InstKind::Collective(_)
            | InstKind::Send { .. }
            | InstKind::Recv { .. } => Ok(()),
        }
    }
}

impl RankExecutor for CpuRank<'_> {
    fn execute_step(&mut self, prepared: &Prepared, step: &StreamStep<'_>) -> Result<(), Diag> {
        if step.inst.kind.is_local() {
            let executed = self.execute_local(&step.inst.kind);
            executed.map_err(|fault| fault.at(prepared, self.plan, step.inst.origin))?;
            self.stats.local_bytes += step.inst.kind.bytes();
            self.release_views(step.inst);
        }
        if let Some(done) = self.done {
            done.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn release_views(&mut self, inst: &Inst) {
        self.memory.release(inst.kind.reads().into_iter().chain(inst.kind.writes()));
    }

    fn move_message<C: RankClock>(
        walk: &mut WalkRanks<'_, '_, Self, C>,
        send: MessageEnd<'_>,
        receive: MessageEnd<'_>,
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

fn copy_view(memory: &mut Memory, plan: &Plan, src: &View, dst: &View) -> Result<(), Fault> {
    match src.dtype.size() {
        1 => memory.read::<u8>(plan, src).and_then(|v| memory.write(plan, dst, &v)),
        2 => memory.read::<u16>(plan, src).and_then(|v| memory.write(plan, dst, &v)),
        4 => memory.read::<u32>(plan, src).and_then(|v| memory.write(plan, dst, &v)),
        8 => memory.read::<u64>(plan, src).and_then(|v| memory.write(plan, dst, &v)),
        _ => Err(Fault::Type(src.dtype)),
    }
}

fn fill_view(memory: &mut Memory, plan: &Plan, dst: &View, value: Scalar) -> Result<(), Fault> {
    Lanes::splat(value, class(dst.dtype)?, dst.len()).store(memory, plan, dst)
}
