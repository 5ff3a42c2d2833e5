//! Slices that are made in front of the op that uses them, and loops and messages around them.

use crate::support::builder::{OpBuilder, printed_domain};
use hostir::axes::logical_axes;
use hostir::ir::{
    AttrKey, AttrValue, BinaryOp, ExprId, IterDomain, MemoryType, Op, OpId, OpKind, Program, Symbol, TensorId, Value,
};

/// A slice of a tensor, not yet in the program.
#[derive(Clone)]
pub(crate) struct Slice {
    tensor: TensorId,
    /// Stored axes by their places, each among those that the steps before left, and indices.
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

/// Appends a message between GPUs that the sender copies; its handle.
pub(crate) fn put_message(
    build: &mut OpBuilder<'_, '_>,
    receive: bool,
    buffer: &Slice,
    peer: ExprId,
    ops: &mut Vec<OpId>,
) -> u32 {
    let number = get_message(build, receive, buffer, peer, ops);
    ops.last().into_iter().for_each(|&post| build.set_put_protocol(post));
    number
}

/// Appends a message between GPUs that the receiver copies; its handle.
pub(crate) fn get_message(
    build: &mut OpBuilder<'_, '_>,
    receive: bool,
    buffer: &Slice,
    peer: ExprId,
    ops: &mut Vec<OpId>,
) -> u32 {
    let buffer = buffer.emit_selects(build, ops);
    let (post, number) = build.build_p2p(receive, buffer, peer, "CUDA");
    ops.push(post);
    number
}

/// `FOR hop from <start> to <stop>:`
pub(crate) fn build_range_loop(build: &mut OpBuilder<'_, '_>, index: ExprId, range: [u32; 2], body: Vec<OpId>) -> OpId {
    let [start, stop] = range.map(|bound| build.int_expr(i64::from(bound)));
    let mut op = Op::new(OpKind::ForRange);
    op.attrs = vec![
        (AttrKey::Index, AttrValue::Expr(index)),
        (AttrKey::Start, AttrValue::Expr(start)),
        (AttrKey::Stop, AttrValue::Expr(stop)),
    ];
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

/// Appends a loop whose iterations run on streams of their own, behind the caller's work and in front of it: what
/// `hir 2` writes as `for index in count on streams:`.
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

/// The name of the caller's stream: one that the program binds above, or a new one.
pub(crate) fn bind_caller_stream(build: &mut OpBuilder<'_, '_>, above: &mut Vec<OpId>) -> ExprId {
    let program = build.program();
    let stays = above.iter().take_while(|&&op| program.op(op).kind != OpKind::SetCurrentStream);
    let bound = stays.filter(|&&op| program.op(op).kind == OpKind::GetCurrentStream).find_map(|&op| {
        let results = program.op(op).results.iter();
        results.copied().find_map(|value| if let Value::Stream(name) = value { Some(name) } else { None })
    });
    bound.unwrap_or_else(|| {
        let name = build.new_stream_name();
        above.push(build.build_get_current_stream(name));
        name
    })
}
