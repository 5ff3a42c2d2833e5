//! Long blocks in two parts, each by a thread.
//!
//! The writer predicts the state after the first part (declared tensors, the stream of the caller), so that the second
//! can begin at once. If the prediction is wrong, it writes the second part again.

use super::ProgramWriter;
use super::contract::binds_stream_zero;
use super::open_streams::OpenStreams;
use super::statements::BlockShape;
use super::tables::PARALLEL;
use crate::ir::{OpId, Value};

/// The end of the line before the second part, which a blank line may follow.
const LINE_BEFORE: &str = "\n";

impl<'p> ProgramWriter<'p> {
    /// The statements of a body.
    pub(super) fn write_whole_block(&mut self, ops: &[OpId]) {
        let mut shape = BlockShape::default();
        let Some(middle) = self.second_part(ops) else {
            self.write_some_ops(ops, 0..ops.len(), &mut shape);
            return;
        };
        let mut second = self.writer_after(&ops[..middle]);
        let foretold = (second.declared.clone(), second.streams.is_caller_bound, middle);
        let mut second_shape = BlockShape::default();
        let (end, _) = rayon::join(
            || self.write_some_ops(ops, 0..middle, &mut shape),
            || second.write_some_ops(ops, middle..ops.len(), &mut second_shape),
        );
        if (&self.declared, self.streams.is_caller_bound, end) != (&foretold.0, foretold.1, foretold.2) {
            let mut out = std::mem::take(&mut self.out);
            self.out.push_str(LINE_BEFORE);
            self.write_some_ops(ops, end..ops.len(), &mut shape);
            out.push_str(&self.out[LINE_BEFORE.len()..]);
            self.out = out;
            return;
        }
        self.out.push_str(&second.out[LINE_BEFORE.len()..]);
        self.declared = second.declared;
        self.streams.is_caller_bound = second.streams.is_caller_bound;
    }

    /// The place in the middle of a long block where a statement begins.
    fn second_part(&self, ops: &[OpId]) -> Option<usize> {
        if ops.len() < PARALLEL || self.kept.is_some() || self.tables.has_metadata || rayon::current_num_threads() < 2 {
            return None;
        }
        (ops.len() / 2..ops.len()).take(PARALLEL).find(|at| self.begins_statement(ops, *at))
    }

    /// Returns true if an op that is not the first probably begins a statement.
    fn begins_statement(&self, ops: &[OpId], at: usize) -> bool {
        let kind = self.program.op(ops[at]).kind;
        !self.tables.hidden[ops[at - 1].0 as usize]
            && (kind.is_allocation() || kind.is_pointwise() || kind.gemm().is_some() || kind.is_definition())
    }

    /// A writer in its state after these ops, at the end of a line.
    fn writer_after(&self, ops: &[OpId]) -> ProgramWriter<'p> {
        let mut after = ProgramWriter {
            declared: self.declared.clone(),
            streams: OpenStreams::with_caller(self.streams.is_caller_bound),
            out: String::from(LINE_BEFORE),
            ..*self
        };
        for &id in ops {
            after.note_op(id);
            self.program.walk_inside(id, &mut |inner| after.note_op(inner));
        }
        after
    }

    fn note_op(&mut self, id: OpId) {
        let op = self.program.op(id);
        self.streams.is_caller_bound |= binds_stream_zero(self.program, op);
        let named = op.attrs.iter().filter_map(|(_, value)| value.tensor());
        for tensor in op.all_tensors().chain(named) {
            if self.tables.hidden_slices[tensor.0 as usize].is_none() {
                self.declared[self.tables.names.first_of_number(tensor).0 as usize] = true;
            }
        }
        for value in &op.operands {
            if let Value::Op(inner) = value {
                self.note_op(*inner);
            }
        }
    }
}
