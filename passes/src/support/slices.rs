//! Slices that are made before the op that uses them, and loops and messages around them.

use crate::support::builder::{OpBuilder, printed_domain};
use hostir::axes::logical_axes;
use hostir::ir::{AttrKey, BinaryOp, BlockId, ExprId, IterDomain, MemoryType, OpId, Program, Symbol, TensorId, Value};
use hostir::ir::{CommBackend, MessageDirection};
use hostir::ops::control::loop_over_range_op;

/// A slice of a tensor, not yet in the program.
#[derive(Clone)]
pub(crate) struct Slice {
    tensor: TensorId,
    /// Stored axes by position, each among those that the earlier steps left, and indices.
    steps: Vec<(usize, ExprId)>,
}

impl Slice {
    pub(crate) fn whole(tensor: TensorId) -> Self {
        Self { tensor, steps: Vec::new() }
    }
    pub(crate) fn index_axis(mut self, place: usize, index: ExprId) -> Self {
        self.steps.push((place, index));
        self
    }
    /// Appends the ops that make the slice.
    pub(crate) fn emit_selects(&self, build: &mut OpBuilder<'_, '_>, ops: &mut Vec<OpId>) -> TensorId {
        self.steps.iter().fold(self.tensor, |tensor, &(place, index)| select_slice(build, tensor, place, index, ops))
    }
}

/// Appends a message between GPUs that the sender copies; returns its handle.
pub(crate) fn put_message(
    build: &mut OpBuilder<'_, '_>,
    direction: MessageDirection,
    buffer: &Slice,
    peer: ExprId,
    ops: &mut Vec<OpId>,
) -> u32 {
    let number = get_message(build, direction, buffer, peer, ops);
    ops.last().into_iter().for_each(|&post| build.set_put_protocol(post));
    number
}

/// Appends a message between GPUs that the receiver copies; returns its handle.
pub(crate) fn get_message(
    build: &mut OpBuilder<'_, '_>,
    direction: MessageDirection,
    buffer: &Slice,
    peer: ExprId,
    ops: &mut Vec<OpId>,
) -> u32 {
    let buffer = buffer.emit_selects(build, ops);
    let (post, number) = build.build_p2p(direction, buffer, peer, CommBackend::Cuda);
    ops.push(post);
    number
}

/// `FOR hop from <start> to <stop>:`
pub(crate) fn build_range_loop(build: &mut OpBuilder<'_, '_>, index: ExprId, range: [u32; 2], body: Vec<OpId>) -> OpId {
    let [start, stop] = range.map(|bound| build.int_expr(i64::from(bound)));
    let mut op = loop_over_range_op(index, start, stop);
    op.blocks.push(build.edit.add_block(body));
    build.push(op)
}

/// The slice `at` of a tensor along its stored axis number `place`. Reductions stay.
fn select_slice(
    build: &mut OpBuilder<'_, '_>,
    tensor: TensorId,
    place: usize,
    at: ExprId,
    ops: &mut Vec<OpId>,
) -> TensorId {
    let program = build.program();
    let axes = logical_axes(program, tensor).axes;
    let printed = axes.iter().filter(|axis| !axis.is_reduction()).nth(place).map_or(0, |axis| axis.printed);
    let kept = axes.iter().filter(|axis| axis.printed != printed);
    let domains: Vec<IterDomain> = kept.map(|axis| program.domains(tensor)[axis.printed as usize]).collect();
    let slice = build.new_tensor(tensor, MemoryType::Local, &domains);
    let domain = printed_domain(build.program(), tensor, printed);
    ops.push(build.build_select(slice, tensor, domain, at));
    slice
}

/// A name for the index of loops that the program does not use: `stem`, or `stem` and a number.
pub(crate) fn unused_index_name(program: &Program, stem: &str) -> String {
    let taken: Vec<&str> = (0..program.names().len()).map(|k| program.name(Symbol(k as u32))).collect();
    let names = (0..).map(|number: u32| if number == 0 { stem.to_owned() } else { format!("{stem}{number}") });
    names.into_iter().find(|name| !taken.contains(&name.as_str())).unwrap_or_default()
}

/// `( index % numberOfStreams )`: the stream of an iteration.
pub(crate) fn iteration_stream(build: &mut OpBuilder<'_, '_>, index: ExprId) -> ExprId {
    let streams = build.name_expr("numberOfStreams");
    build.binary_expr(BinaryOp::Mod, index, streams)
}

/// Appends a loop whose iterations run on streams of their own, after the caller's earlier work and before its later
/// work: `hir 2` writes it as `for index in count on streams:`.
pub(crate) fn emit_loop_on_streams(
    build: &mut OpBuilder<'_, '_>,
    index: ExprId,
    count: u32,
    iteration: Vec<OpId>,
    out: &mut Vec<OpId>,
) {
    let (stream, caller) = (iteration_stream(build, index), bind_caller_stream(build, out));
    let fork = vec![build.build_set_current_stream(stream), build.build_synchronize(caller)];
    out.push(build_range_loop(build, index, [0, count], fork));
    let mut body = vec![build.build_set_current_stream(stream)];
    body.extend(iteration);
    body.extend([build.build_set_current_stream(caller), build.build_synchronize(stream)]);
    out.push(build_range_loop(build, index, [0, count], body));
}

/// The name of the caller's stream: one that the program binds above and that is still current, or a new one.
pub(crate) fn bind_caller_stream(build: &mut OpBuilder<'_, '_>, above: &mut Vec<OpId>) -> ExprId {
    let program = build.program();
    let bound = first_bound_stream(program, above).filter(|_| is_on_first_stream(program, above));
    bound.unwrap_or_else(|| {
        let name = build.new_stream_name();
        above.push(build.build_get_current_stream(name));
        name
    })
}

/// The name of the stream that the first `GetCurrentStream` of some ops binds.
fn first_bound_stream(program: &Program, ops: &[OpId]) -> Option<ExprId> {
    let found = ops.iter().filter(|&&op| program.op(op).kind.is_stream_naming());
    found.flat_map(|&op| program.op(op).results.iter()).find_map(stream_name)
}

/// True if a program is on its first stream after some ops of its body: every choice of another one is undone, by the
/// name that the first `GetCurrentStream` binds.
pub(crate) fn is_on_first_stream(program: &Program, ops: &[OpId]) -> bool {
    let Some(first) = first_bound_stream(program, ops) else {
        return ops.iter().all(|&op| last_streams(program, op).iter().all(Option::is_none));
    };
    ops.iter().fold(true, |is_on, &op| {
        let last = last_streams(program, op);
        let stays = last.iter().all(|stream| stream.is_none_or(|stream| stream == first));
        let returns = !last.is_empty() && last.iter().all(|stream| *stream == Some(first)) && surely_runs(program, op);
        returns || is_on && stays
    })
}

/// The name of the stream that an op chooses, or the last choice of each of its blocks; `None` for an op without a
/// choice.
fn last_streams(program: &Program, op: OpId) -> Vec<Option<ExprId>> {
    if program.op(op).blocks.is_empty() {
        return vec![chosen_stream(program, op)];
    }
    let blocks = program.op(op).blocks.iter();
    blocks.map(|&block| last_stream_of_block(program, block)).collect()
}

fn last_stream_of_block(program: &Program, block: BlockId) -> Option<ExprId> {
    let mut last = None;
    program.walk(block, &mut |op| last = chosen_stream(program, op).or(last));
    last
}

fn chosen_stream(program: &Program, op: OpId) -> Option<ExprId> {
    let is_choice = program.op(op).kind.is_stream_choice();
    if is_choice { program.op(op).operands.iter().find_map(stream_name) } else { None }
}

/// False for a loop that may have no iteration.
fn surely_runs(program: &Program, op: OpId) -> bool {
    let op = program.op(op);
    if !op.kind.is_loop() {
        return op.kind.is_stream_choice();
    }
    let bounds = [AttrKey::Start, AttrKey::Stop].map(|key| program.exprs().as_int(op.expr_attr(key)?));
    op.attr(AttrKey::Domain).is_none() && matches!(bounds, [Some(start), Some(stop)] if start < stop)
}

fn stream_name(value: &Value) -> Option<ExprId> {
    if let Value::Stream(name) = value { Some(*name) } else { None }
}
