//! The memory of a rank: the layout of its buffers, with workspace for GEMMs.

use crate::memory_layout::{self, MemoryLayout};
use crate::schedule::{RankSchedule, StreamCommand};
use hostir::plan::Plan;

/// Bytes of the workspace for one stream's GEMMs, as cuBLAS recommends for Hopper.
pub const WORKSPACE: usize = 32 << 20;

/// Computes the layout of a rank's buffers, which follow its semaphores; `external` marks the buffers that are
/// externally bound. Streams with GEMMs get a workspace.
pub fn layout_memory(plan: &Plan, schedule: &mut RankSchedule, flags: usize, external: &[bool]) -> MemoryLayout {
    let kernels = schedule.scratch.clone();
    for step in &schedule.steps {
        if matches!(step.call, StreamCommand::Gemm { .. } | StreamCommand::StoreGemms(_)) {
            schedule.scratch[step.stream] = kernels[step.stream].next_multiple_of(memory_layout::ALIGNMENT) + WORKSPACE;
        }
    }
    memory_layout::assign_offsets(plan, &schedule.items, &schedule.scratch, flags, external)
}
