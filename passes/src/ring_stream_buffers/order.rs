//! Checks that a slot is free when its stream uses it again.
//!
//! One walk over the body of each loop follows the current stream, the writes, and messages in flight, for all buffers
//! that the loop slices.

use super::buffers::{KeepReason, LoopBuffer, TensorUses, is_slot};
use hostir::analysis::storage::{TensorAccess, visit_accesses};
use hostir::diag::Message;
use hostir::diag::message;
use hostir::ir::scalar_names::loop_index;
use hostir::ir::{
    AttrKey, BlockId, CommBackend, CommunicationEffect, ExprId, Op, OpEffect, OpId, Program, Symbol, TensorId, Value,
    quoted_scalar,
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// The state of a slice in an iteration.
#[derive(Clone, Copy, Default)]
struct SliceState {
    /// It is bound to this iteration's slot.
    bound: bool,
    /// All of it is written.
    written: bool,
}

/// A message that nothing has waited for yet.
#[derive(Clone, Copy, PartialEq)]
struct PendingMessage {
    buffer: usize,
    op: OpId,
    /// The number and the element that a Wait names; `None` in a group that is still open.
    handle: Option<(u32, Option<ExprId>)>,
}

/// The changes of the state at the end of a branch.
struct BranchEnd {
    states: Vec<(usize, SliceState)>,
    pending: Vec<PendingMessage>,
    stream: Option<ExprId>,
}

/// A slice of a buffer.
#[derive(Clone, Copy)]
struct LoopSlice {
    buffer: usize,
    /// True if it is the whole slice of an iteration.
    whole: bool,
}

struct SliceOrderWalk<'a> {
    program: &'a Program,
    uses: &'a TensorUses,
    looped: OpId,
    index: Symbol,
    streams: Symbol,
    slices: FxHashMap<TensorId, LoopSlice>,
    states: Vec<SliceState>,
    /// States before each change, so that a branch can be taken back.
    log: Vec<(usize, SliceState)>,
    pending: Vec<PendingMessage>,
    reasons: Vec<Option<KeepReason>>,
    /// The current stream; `None` if it is not known.
    stream: Option<ExprId>,
    /// Between StartCoalescing and EndCoalescing.
    in_group: bool,
}

/// Each buffer with the reason why it has to stay, if there is one.
pub(super) fn check_buffers(
    program: &Program,
    uses: &TensorUses,
    buffers: Vec<LoopBuffer>,
) -> Vec<(LoopBuffer, Option<KeepReason>)> {
    let mut loops: Vec<OpId> = buffers.iter().map(|buffer| buffer.looped).collect();
    loops.sort_unstable();
    loops.dedup();
    let mut by_loop: FxHashMap<OpId, Vec<LoopBuffer>> = FxHashMap::default();
    for buffer in buffers {
        by_loop.entry(buffer.looped).or_default().push(buffer);
    }
    let mut out = Vec::new();
    for looped in loops {
        let buffers = by_loop.remove(&looped).unwrap_or_default();
        let reasons = check_loop_buffers(program, uses, looped, &buffers);
        out.extend(buffers.into_iter().zip(reasons));
    }
    out
}

fn check_loop_buffers(
    program: &Program,
    uses: &TensorUses,
    looped: OpId,
    buffers: &[LoopBuffer],
) -> Vec<Option<KeepReason>> {
    let op = program.op(looped);
    let streams = program.names().find_symbol("numberOfStreams");
    let (Some(index), Some(streams)) = (loop_index(program, op), streams) else {
        let why = message!("the current stream is not `{}`", quoted_scalar("StreamIdx % numberOfStreams".to_owned()));
        return vec![Some((looped, why)); buffers.len()];
    };
    let mut walk = SliceOrderWalk {
        program,
        uses,
        looped,
        index,
        streams,
        slices: FxHashMap::default(),
        states: vec![SliceState::default(); buffers.len()],
        log: Vec::new(),
        pending: Vec::new(),
        reasons: vec![None; buffers.len()],
        stream: None,
        in_group: false,
    };
    for (k, buffer) in buffers.iter().enumerate() {
        walk.slices.insert(buffer.tensor, LoopSlice { buffer: k, whole: true });
    }
    for &block in &op.blocks {
        walk.walk_block(block);
    }
    for message in std::mem::take(&mut walk.pending) {
        let why = "the iteration does not wait for this communication on its own stream";
        walk.reject_buffer(message.buffer, message.op, why);
    }
    walk.reasons
}

impl SliceOrderWalk<'_> {
    fn walk_block(&mut self, block: BlockId) {
        for &id in &self.program.block(block).ops {
            self.walk_op(id);
        }
    }

    fn reject_buffer(&mut self, buffer: usize, op: OpId, why: impl Into<Message>) {
        self.reasons[buffer].get_or_insert_with(|| (op, why.into()));
    }

    fn walk_op(&mut self, id: OpId) {
        let program = self.program;
        let op = program.op(id);
        match op.kind.effect() {
            OpEffect::Control(_) => self.walk_control(op),
            OpEffect::Stream(_) => self.walk_stream_op(id, op),
            OpEffect::Alias => self.walk_alias(id, op),
            OpEffect::Communicate(_) => self.walk_communication(id, op),
            OpEffect::Allocate => self.walk_allocate(id, op),
            OpEffect::Pure | OpEffect::Opaque | OpEffect::Observe | OpEffect::Free => self.walk_compute(id, op),
        }
    }

    fn set_state(&mut self, buffer: usize, state: SliceState) {
        self.log.push((buffer, self.states[buffer]));
        self.states[buffer] = state;
    }

    /// Walks the branches from one state; the effects of both hold afterwards. A loop may run no iteration.
    fn walk_control(&mut self, op: &Op) {
        let looped = loop_index(self.program, op).is_some();
        let mut ends: Vec<BranchEnd> = op.blocks.iter().map(|&block| self.walk_branch(block)).collect();
        if looped || op.blocks.len() < 2 {
            let (pending, stream) = (self.pending.clone(), self.stream.filter(|_| !looped));
            ends.push(BranchEnd { states: Vec::new(), pending, stream });
        }
        let mut changed: Vec<usize> = ends.iter().flat_map(|end| end.states.iter().map(|(k, _)| *k)).collect();
        changed.sort_unstable();
        changed.dedup();
        for k in changed {
            let mut merged = SliceState { bound: true, written: true };
            for end in &ends {
                let found = end.states.iter().find(|(buffer, _)| *buffer == k);
                let state = found.map_or(self.states[k], |(_, state)| *state);
                merged.bound &= state.bound;
                merged.written &= state.written;
            }
            self.set_state(k, merged);
        }
        self.stream = ends.first().and_then(|end| end.stream);
        self.stream = self.stream.filter(|stream| ends.iter().all(|e| e.stream == Some(*stream)));
        self.pending = Vec::new();
        for message in ends.into_iter().flat_map(|end| end.pending) {
            if !self.pending.contains(&message) {
                self.pending.push(message);
            }
        }
    }

    /// Walks a branch and takes it back.
    fn walk_branch(&mut self, block: BlockId) -> BranchEnd {
        let (length, pending, stream) = (self.log.len(), self.pending.clone(), self.stream);
        self.walk_block(block);
        let mut states: Vec<(usize, SliceState)> = Vec::new();
        while self.log.len() > length {
            let Some((k, before)) = self.log.pop() else { break };
            if !states.iter().any(|(known, _)| *known == k) {
                states.push((k, self.states[k]));
            }
            self.states[k] = before;
        }
        let pending = std::mem::replace(&mut self.pending, pending);
        let stream = std::mem::replace(&mut self.stream, stream);
        BranchEnd { states, pending, stream }
    }

    fn walk_stream_op(&mut self, id: OpId, op: &Op) {
        let stream = op.operands.iter().find_map(|value| match value {
            Value::Stream(stream) => Some(*stream),
            _ => None,
        });
        if op.kind.is_stream_choice() {
            self.stream = stream;
        } else if op.posted_number().is_some() {
            // HostUnits and what else works on streams.
            self.walk_compute(id, op);
        }
    }

    fn walk_alias(&mut self, id: OpId, op: &Op) {
        let from = op.input_tensors().next().and_then(|tensor| self.slices.get(&tensor).copied());
        for result in op.output_tensors() {
            let known = self.slices.get(&result).copied();
            let Some(from) = from else {
                // A name of a slice may mean something else now.
                if let Some(known) = known {
                    self.reject_buffer(known.buffer, id, "its slice is rebound to other memory here");
                }
                continue;
            };
            let base = op.input_tensors().next().is_some_and(|tensor| self.is_buffer(tensor));
            if known.is_some_and(|known| known.buffer != from.buffer || known.whole != base) {
                self.reject_buffer(from.buffer, id, "this name refers to different slices");
            }
            if !self.uses.is_within(result, self.looped) {
                self.reject_buffer(from.buffer, id, "its slice is used outside of the loop");
            }
            self.slices.insert(result, LoopSlice { buffer: from.buffer, whole: base });
            if base {
                let state = SliceState { bound: true, ..self.states[from.buffer] };
                self.set_state(from.buffer, state);
            }
        }
    }

    /// True if a tensor is a buffer itself, not a slice of one.
    fn is_buffer(&self, tensor: TensorId) -> bool {
        self.slices.contains_key(&tensor) && !self.uses.is_within(tensor, self.looped)
    }

    /// Walks an allocation: without effect if there is memory, unless it makes new memory each time.
    fn walk_allocate(&mut self, id: OpId, op: &Op) {
        if op.keeps_memory() {
            return;
        }
        for tensor in op.output_tensors() {
            if let Some(slice) = self.slices.get(&tensor).copied() {
                self.reject_buffer(slice.buffer, id, "its slice is rebound to other memory here");
            }
        }
    }

    fn walk_compute(&mut self, id: OpId, op: &Op) {
        let program = self.program;
        // Nobody knows how much a kernel writes.
        let kernel = op.kind.effect() == OpEffect::Opaque && !op.declares_accesses();
        let results: SmallVec<[TensorId; 2]> = op.output_tensors().filter(|_| !kernel).collect();
        let mut touched: SmallVec<[(TensorId, TensorAccess); 4]> = SmallVec::new();
        visit_accesses(program, id, &mut |tensor, access| touched.push((tensor, access)));
        for (tensor, access) in touched {
            let Some(slice) = self.slices.get(&tensor).copied() else { continue };
            if access == TensorAccess::Free {
                self.reject_buffer(slice.buffer, id, "it is deallocated in the loop");
            } else if access != TensorAccess::Name {
                let writes = results.contains(&tensor);
                self.record_access(id, slice, writes && access != TensorAccess::Read);
            }
        }
    }

    /// Records a read or a write of a slice, or of a part of one.
    fn record_access(&mut self, id: OpId, slice: LoopSlice, writes: bool) {
        let worker = self.stream.is_some_and(|stream| self.is_worker_stream(stream));
        if !worker {
            let stream = quoted_scalar("i % numberOfStreams".to_owned());
            let why = message!("this does not run on stream `{}` of its iteration", stream);
            self.reject_buffer(slice.buffer, id, why);
        }
        let SliceState { bound, written } = self.states[slice.buffer];
        if !bound {
            self.reject_buffer(slice.buffer, id, "this reads the slice of an earlier iteration");
        } else if writes && slice.whole {
            self.set_state(slice.buffer, SliceState { bound, written: true });
        } else if !written {
            self.reject_buffer(slice.buffer, id, "this reads a slice that its iteration has not written");
        }
    }

    fn is_worker_stream(&self, stream: ExprId) -> bool {
        is_slot(self.program, stream, self.index, self.streams)
    }

    fn walk_communication(&mut self, id: OpId, op: &Op) {
        match op.kind.communication() {
            Some(CommunicationEffect::StartGroup) => self.in_group = true,
            Some(CommunicationEffect::EndGroup) => {
                self.in_group = false;
                for message in self.pending.iter_mut().filter(|m| m.handle.is_none()) {
                    message.handle = op.number().map(|number| (number, op.expr_attr(AttrKey::Element)));
                }
            }
            Some(CommunicationEffect::Wait) => self.walk_wait(op),
            _ => {
                let by_copies = self.program.comm_backend(op) == CommBackend::Cuda;
                let shared = by_copies || op.operands.iter().any(|v| matches!(v, Value::Op(_)));
                let mut touched: SmallVec<[(TensorId, TensorAccess); 4]> = SmallVec::new();
                visit_accesses(self.program, id, &mut |tensor, access| touched.push((tensor, access)));
                for (tensor, access) in touched {
                    let Some(slice) = self.slices.get(&tensor).copied() else { continue };
                    if shared {
                        self.reject_buffer(slice.buffer, id, "another rank directly reads or writes its memory");
                    }
                    self.record_access(id, slice, access != TensorAccess::Read);
                    let grouped = op.kind.is_message() && self.in_group;
                    let number = if grouped { None } else { op.number() };
                    let handle = number.map(|number| (number, op.expr_attr(AttrKey::Element)));
                    self.pending.push(PendingMessage { buffer: slice.buffer, op: id, handle });
                }
            }
        }
    }

    fn walk_wait(&mut self, op: &Op) {
        if !self.stream.is_some_and(|stream| self.is_worker_stream(stream)) {
            return;
        }
        let waited = op.expr_attr(AttrKey::Element);
        for handle in &op.operands {
            if let Value::Handle(number) = handle {
                // Without an element, a Wait is for all of an array.
                self.pending.retain(|message| {
                    message
                        .handle
                        .is_none_or(|(other, element)| other != *number || waited.is_some() && waited != element)
                });
            }
        }
    }
}
