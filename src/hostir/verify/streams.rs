//! V49: iterations of a loop on several streams do not write one buffer that all of them keep.
//!
//! Examines each loop whose iterations set a stream that depends on the loop's index. An ALLOCATE in the loop that
//! keeps memory gives all iterations one buffer; if they write it on their streams without synchronization, that is a
//! race. The ordering analysis is approximate and never reports a race in doubt: it skips a loop in which streams of
//! iterations wait for each other, or for a stream that waits for them, and a buffer that is only used between two
//! communications.

use crate::analysis::loop_private::{LoopPrivateTensors, UseCounts};
use crate::diag::message;
use crate::diag::{Diag, Diags, Message, codes};
use crate::ir::scalar_names::loop_index;
use crate::ir::{AttrKey, BlockId, ExprId, IndexDefinitions, Op, OpId, Program, Symbol, TensorId, Value};
use crate::ir::{CommBackend, CommunicationEffect, OpEffect, StreamEffect};
use rustc_hash::{FxHashMap, FxHashSet};

/// Checks all loops of the host program.
pub(super) fn check_streams(program: &Program, diags: &mut Diags) {
    let mut loops = Vec::new();
    let mut position = 0;
    program.walk(program.body(), &mut |id| {
        position += 1;
        let op = program.op(id);
        if op.kind.is_loop() && may_repeat(program, op) && has_kept_stream_memory(program, op) {
            loops.push((id, position));
        }
    });
    if loops.is_empty() {
        return;
    }
    let about = LoopFacts {
        use_counts: UseCounts::from_program(program),
        definitions: IndexDefinitions::new(program),
        made: first_definitions(program),
    };
    for (looped, position) in loops {
        check_loop(program, looped, position, &about, diags);
    }
}

/// Facts of the program that the check of every loop needs.
struct LoopFacts {
    use_counts: UseCounts,
    definitions: IndexDefinitions,
    /// The op that first defines each memory, counted in ops from 1; inputs at 0.
    made: FxHashMap<TensorId, u32>,
}

/// Returns true if a loop sets streams and has ALLOCATEs that keep memory between iterations.
fn has_kept_stream_memory(program: &Program, op: &Op) -> bool {
    let (mut sets, mut keeps) = (false, false);
    for &block in &op.blocks {
        program.walk(block, &mut |id| {
            let op = program.op(id);
            sets |= op.kind.is_stream_choice();
            keeps |= op.kind.is_allocation() && op.keeps_memory();
        });
    }
    sets && keeps
}

/// Returns true if a loop may have more than one iteration.
fn may_repeat(program: &Program, op: &Op) -> bool {
    let literal = |expr: ExprId| program.exprs().as_int(expr);
    let extent = op.domain_attr(AttrKey::Domain).map(|domain| program.domain(domain).extent);
    let (start, stop) = (op.expr_attr(AttrKey::Start), op.expr_attr(AttrKey::Stop).or(extent));
    let (start, stop) = (start.map_or(Some(0), literal), stop.and_then(literal));
    let step = op.expr_attr(AttrKey::Step).map_or(Some(1), literal);
    match (start, stop, step) {
        (Some(start), Some(stop), Some(step)) => start.saturating_add(step.max(1)) < stop,
        _ => true,
    }
}

fn check_loop(program: &Program, looped: OpId, position: u32, about: &LoopFacts, diags: &mut Diags) {
    let op = program.op(looped);
    let (Some(index), Some(&body)) = (loop_index(program, op), op.blocks.first()) else { return };
    let definitions = &about.definitions;
    let mut iteration = IterationWalk::new(program, definitions, index, None);
    iteration.walk_block(body);
    if iteration.stream.is_some() {
        // The next iteration begins on the stream on which this one ends.
        iteration = IterationWalk::new(program, definitions, index, iteration.stream);
        iteration.walk_block(body);
    }
    if iteration.is_ordered() || iteration.kept.is_empty() {
        return;
    }
    let loop_private = LoopPrivateTensors::of_loop(program, looped, &about.use_counts).tensors;
    let loop_private: FxHashSet<TensorId> = loop_private.into_iter().collect();
    for &(tensor, allocate) in &iteration.kept {
        let memory = program.memory_tensor(tensor);
        let before = about.made.get(&memory).is_some_and(|&made| made < position);
        if !before
            && !loop_private.contains(&memory)
            && let Some(used) = iteration.uses.get(&memory)
            && let Some((write, set)) = iteration.find_race(used)
        {
            diags.push(race_error(program, tensor, allocate, [write, set]));
        }
    }
}

/// Finds the op that first defines each memory, in one walk for all loops.
fn first_definitions(program: &Program) -> FxHashMap<TensorId, u32> {
    let inputs = program.inputs().iter().filter_map(|value| value.as_tensor());
    let mut made: FxHashMap<TensorId, u32> = inputs.map(|tensor| (program.memory_tensor(tensor), 0)).collect();
    let mut position = 0;
    program.walk(program.body(), &mut |id| {
        position += 1;
        for tensor in program.op(id).output_tensors() {
            made.entry(program.memory_tensor(tensor)).or_insert(position);
        }
    });
    made
}

/// The use of a tensor by an iteration on its stream.
#[derive(Clone, Copy)]
struct StreamUse {
    /// The first op that writes it, and the op that made the stream the current one.
    write: Option<(OpId, OpId)>,
    /// True if the stream itself uses the tensor, and not only communications do.
    on_stream: bool,
    /// The first and last step.
    steps: (u32, u32),
}

/// A walk over one iteration. Tensors that are aliases count as their original, except for those in `kept`.
struct IterationWalk<'p> {
    program: &'p Program,
    definitions: &'p IndexDefinitions,
    /// The loop's index and the names that depend on it.
    names: FxHashSet<Symbol>,
    /// The iteration's own stream while it is current, and the op that made it so.
    stream: Option<(ExprId, OpId)>,
    step: u32,
    /// The first step that waits for a communication, and the last one that starts one.
    waited: Option<u32>,
    posted: u32,
    /// True if the iteration's stream waits for one that all iterations share.
    follows: bool,
    /// True if a stream that all iterations share waits for the iteration's.
    joined: bool,
    /// True if streams of several iterations wait for each other.
    chained: bool,
    /// Tensors that have memory in this iteration.
    bound: FxHashSet<TensorId>,
    /// ALLOCATEs that leave memory to the next iteration.
    kept: Vec<(TensorId, OpId)>,
    /// For each part of a tensor: the tensor it belongs to, or `None` if the part belongs to this iteration.
    parts: FxHashMap<TensorId, Option<TensorId>>,
    uses: FxHashMap<TensorId, StreamUse>,
}

impl<'p> IterationWalk<'p> {
    fn new(
        program: &'p Program,
        definitions: &'p IndexDefinitions,
        index: Symbol,
        stream: Option<(ExprId, OpId)>,
    ) -> Self {
        Self {
            program,
            definitions,
            names: [index].into_iter().collect(),
            stream,
            step: 0,
            waited: None,
            posted: 0,
            follows: false,
            joined: false,
            chained: false,
            bound: FxHashSet::default(),
            kept: Vec::new(),
            parts: FxHashMap::default(),
            uses: FxHashMap::default(),
        }
    }

    /// Whether iterations may wait for each other.
    fn is_ordered(&self) -> bool {
        self.chained || (self.follows && self.joined)
    }

    /// The op that writes a tensor and the one that sets the stream, unless communications order its uses.
    fn find_race(&self, used: &StreamUse) -> Option<(OpId, OpId)> {
        let (first, last) = used.steps;
        let between = self.waited.is_some_and(|waited| waited < first) && last <= self.posted;
        used.write.filter(|_| used.on_stream && !between)
    }

    fn walk_block(&mut self, block: BlockId) {
        for &id in &self.program.block(block).ops {
            self.step += 1;
            self.walk_op(id);
        }
    }

    fn walk_op(&mut self, id: OpId) {
        let op = self.program.op(id);
        match op.kind.effect() {
            _ if op.kind.is_definition() => self.define_scalars(op),
            OpEffect::Stream(StreamEffect::Choose) => {
                let stream = operand_stream(op).filter(|&stream| self.varies_by_iteration(stream));
                self.stream = stream.map(|stream| (stream, id));
            }
            OpEffect::Stream(StreamEffect::Synchronize) => self.walk_synchronize(op),
            OpEffect::Communicate(CommunicationEffect::Wait) if self.stream.is_some() => {
                self.waited.get_or_insert(self.step);
            }
            OpEffect::Communicate(CommunicationEffect::Wait) => self.joined = true,
            _ => self.walk_effect(id, op),
        }
        if !op.blocks.is_empty() {
            self.walk_control(op);
        }
        self.bound.extend(op.output_tensors().map(|tensor| self.program.memory_tensor(tensor)));
    }

    fn walk_effect(&mut self, id: OpId, op: &Op) {
        let program = self.program;
        match op.kind.effect() {
            OpEffect::Alias => self.alias_results(op, op.input_tensors().next()),
            OpEffect::Allocate if op.attr(AttrKey::Alias).is_some() => {
                self.alias_results(op, op.shared_memory());
            }
            OpEffect::Allocate if op.keeps_memory() => {
                let bound = |tensor: &TensorId| self.bound.contains(&program.memory_tensor(*tensor));
                let tensors = op.output_tensors().filter(|tensor| !bound(tensor));
                self.kept.extend(tensors.map(|tensor| (tensor, id)));
            }
            OpEffect::Communicate(_) => {
                let on_stream = op.kind.is_message() && program.comm_backend(op) == CommBackend::Cuda;
                if !on_stream {
                    self.posted = self.step;
                }
                self.record_uses(id, op, on_stream);
            }
            OpEffect::Pure | OpEffect::Stream(_) | OpEffect::Opaque | OpEffect::Observe => {
                self.record_uses(id, op, true)
            }
            OpEffect::Free => {
                let freed: FxHashSet<TensorId> =
                    op.input_tensors().map(|tensor| program.memory_tensor(tensor)).collect();
                self.kept.retain(|(tensor, _)| !freed.contains(&program.memory_tensor(*tensor)));
            }
            OpEffect::Allocate | OpEffect::Control(_) => {}
        }
    }

    /// Defines scalars: those that depend on the index differ between iterations.
    fn define_scalars(&mut self, op: &Op) {
        if op.operands.iter().filter_map(|value| value.as_scalar()).any(|expr| self.varies_by_iteration(expr)) {
            let results = op.results.iter().filter_map(|value| value.as_scalar());
            self.names.extend(results.filter_map(|expr| self.program.exprs().as_name(expr)));
        }
    }

    fn walk_synchronize(&mut self, op: &Op) {
        let Some(other) = operand_stream(op) else { return };
        match self.stream {
            Some((current, _)) if self.varies_by_iteration(other) => {
                let [other, current] = [other, current].map(|expr| self.definitions.expand_expr(self.program, expr));
                self.chained |= other != current;
            }
            Some(_) => self.follows = true,
            None => self.joined |= self.varies_by_iteration(other),
        }
    }

    /// The results of an op are parts of `from`.
    fn alias_results(&mut self, op: &Op, from: Option<TensorId>) {
        let Some(from) = from.map(|tensor| self.program.memory_tensor(tensor)) else { return };
        let index = op.expr_attr(AttrKey::Index).or_else(|| op.expr_attr(AttrKey::StreamIndex));
        let own = index.is_some_and(|index| self.varies_by_iteration(index));
        let whole = self.parts.get(&from).copied().unwrap_or(Some(from)).filter(|_| !own);
        let parts = op.output_tensors().map(|part| self.program.memory_tensor(part));
        self.parts.extend(parts.filter(|&part| part != from).map(|part| (part, whole)));
    }

    /// Records the tensors that an op reads and writes while the iteration's stream is current.
    fn record_uses(&mut self, id: OpId, op: &Op, on_stream: bool) {
        let Some((_, set)) = self.stream else { return };
        let reads = op.input_tensors().map(|tensor| (tensor, false));
        for (tensor, writes) in reads.chain(op.output_tensors().map(|tensor| (tensor, true))) {
            let tensor = self.program.memory_tensor(tensor);
            let Some(whole) = self.parts.get(&tensor).copied().unwrap_or(Some(tensor)) else {
                continue;
            };
            let steps = (self.step, self.step);
            let new = StreamUse { write: None, on_stream: false, steps };
            let used = self.uses.entry(whole).or_insert(new);
            used.steps.1 = self.step;
            used.on_stream |= on_stream;
            if writes {
                used.write.get_or_insert((id, set));
            }
        }
    }

    /// Walks the branches, which start on one stream; of their ends, one on the iteration's stream counts.
    fn walk_control(&mut self, op: &Op) {
        let start = self.stream;
        let mut end = None;
        for &block in &op.blocks {
            self.stream = start;
            self.walk_block(block);
            end = end.or(self.stream);
        }
        self.stream = end;
    }

    /// Returns true if a scalar differs between iterations, directly or through `Index definitions:`.
    fn varies_by_iteration(&self, expr: ExprId) -> bool {
        let mut found = false;
        self.definitions.visit_names(self.program, expr, &mut |name| found |= self.names.contains(&name));
        found
    }
}

fn operand_stream(op: &Op) -> Option<ExprId> {
    op.operands.iter().find_map(|value| match value {
        Value::Stream(stream) => Some(*stream),
        _ => None,
    })
}

fn race_error(program: &Program, tensor: TensorId, allocate: OpId, [write, set]: [OpId; 2]) -> Diag {
    let name = program.quoted_tensor(tensor);
    let message = message!("all iterations write to the same buffer of `{}`, each on its own stream", name);
    Diag::error(codes::KEPT_BUFFER, program.op_span(allocate), message)
        .with_primary_text("the first iteration allocates the buffer, and the others reuse it")
        .with_label(program.op_span(set), "each iteration runs on its own stream")
        .with_label(program.op_span(write), message!("writes `{}`", name))
        .with_note(Message::advice(
            "write `keep=false` in the ALLOCATE to give each iteration its own memory",
            "write `alloc` without `keep` to give each iteration its own memory",
        ))
        .into_warning()
}
