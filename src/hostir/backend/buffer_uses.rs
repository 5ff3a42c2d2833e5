//! Counts the uses of a plan's buffers, for backends that free memory after its last use.

use crate::plan::{BufferId, BufferView, InstReader, Plan};

/// By buffer: the number of remaining uses.
#[derive(Clone, Default, Debug)]
pub(super) struct BufferUses {
    counts: Vec<u32>,
}

impl BufferUses {
    /// Counts the uses of a plan's buffers, by its instructions and as its outputs.
    pub(super) fn of_plan(plan: &Plan) -> Self {
        let mut uses = Self { counts: vec![0; plan.buffers.len()] };
        let mut reader = InstReader::default();
        for (_, stored) in plan.stored_cursor() {
            let inst = reader.read_inst(stored);
            for view in inst.kind.read_views().into_iter().chain(inst.kind.written_views()) {
                uses.counts[view.buffer.0 as usize] += 1;
            }
        }
        for output in plan.outputs.iter().flatten() {
            uses.counts[output.buffer.0 as usize] += 1;
        }
        uses
    }

    /// The number of remaining uses of a buffer.
    pub(super) fn count_of(&self, buffer: BufferId) -> u32 {
        self.counts[buffer.0 as usize]
    }

    /// Ends one use of a view's buffer; returns true if it was the last one.
    pub(super) fn end_use(&mut self, view: &BufferView) -> bool {
        let count = &mut self.counts[view.buffer.0 as usize];
        *count = count.saturating_sub(1);
        *count == 0
    }
}
