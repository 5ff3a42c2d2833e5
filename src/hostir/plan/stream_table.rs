//! The streams of a rank by the names and numbers that the program uses for them.

use super::{Plan, StreamLabel, StreamSlot};
use crate::ir::ExprId;
use rustc_hash::FxHashMap;

/// The streams that the program has named so far.
#[derive(Default)]
pub(super) struct StreamTable {
    /// By expression: streams that a GetCurrentStream has bound.
    named: FxHashMap<ExprId, StreamSlot>,
    /// By number in the pool.
    indexed: FxHashMap<i64, StreamSlot>,
}

impl StreamTable {
    /// The stream that a GetCurrentStream has bound to a name.
    pub(super) fn named_stream(&self, name: ExprId) -> Option<StreamSlot> {
        self.named.get(&name).copied()
    }

    /// The stream of a number, which the plan gets if it is new.
    pub(super) fn indexed_stream(&mut self, index: i64, plan: &mut Plan) -> StreamSlot {
        let next = StreamSlot(plan.streams);
        let slot = *self.indexed.entry(index).or_insert(next);
        if slot == next {
            plan.streams += 1;
            plan.stream_labels.push(StreamLabel::Index(index));
        }
        slot
    }

    /// Binds a label of a stream, unless it is bound. The plan names a stream by its first label.
    pub(super) fn bind_label(&mut self, label: StreamLabel, stream: StreamSlot, plan: &mut Plan) {
        match label {
            StreamLabel::Bound(name) => {
                self.named.entry(name).or_insert(stream);
            }
            StreamLabel::Index(index) => {
                self.indexed.entry(index).or_insert(stream);
            }
            StreamLabel::Unnamed => {}
        }
        let known = &mut plan.stream_labels[stream.0 as usize];
        if *known == StreamLabel::Unnamed {
            *known = label;
        }
    }
}
