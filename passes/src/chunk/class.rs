//! The class of axes that are split together, and the check that every tensor and op can work on chunks of them.

use hostir::analysis::AxisMap;
use hostir::axes::{LogicalAxis, logical_axes};
use hostir::diag::message;
use hostir::diag::{Diag, Diags, Message, Quoted};
use hostir::ir::{AttrKey, GemmForm};
use hostir::ir::{
    AxisLink, Id, IdVec, Op, OpEffect, OpId, ParallelType, Program, TensorId, Value, quoted_axis, quoted_op,
};

/// chunk: an op that cannot be split into chunks.
const CHUNK_OP: &str = "H0387";
/// chunk: an extent that the number of chunks does not divide.
const CHUNK_FACTOR: &str = "H0388";
/// chunk: a tensor that cannot be split along the axis.
const CHUNK_TENSOR: &str = "H0389";

/// The options of the pass.
#[derive(Clone, Copy)]
pub(super) struct ChunkOptions {
    /// The number of chunks.
    pub(super) factor: i64,
    /// True if the chunk axis of results is stream-parallel.
    pub(super) stream: bool,
}

/// The axis of a tensor that is cut.
#[derive(Clone, Copy)]
pub(super) struct ChunkedAxis {
    /// Logical position, reductions included.
    pub(super) axis: u32,
    /// True if the axis is reduced, so that the value has no such axis.
    pub(super) reduced: bool,
}

/// By tensor: the axis that is cut.
pub(super) struct ChunkedAxes {
    cuts: IdVec<TensorId, Option<ChunkedAxis>>,
    /// The extent of all of them.
    pub(super) extent: hostir::ir::ExprId,
}

/// Tensors of the host program: inputs, outputs, and those of ops.
pub(super) fn host_tensors(program: &Program) -> impl Iterator<Item = TensorId> + use<> {
    let mut seen = vec![false; program.tensors().len()];
    let interface = program.inputs().iter().chain(program.outputs());
    interface.filter_map(|value| value.as_tensor()).for_each(|tensor| seen[tensor.index()] = true);
    program.walk(program.body(), &mut |id| {
        let op = program.op(id);
        op.all_tensors().for_each(|t| seen[t.index()] = true);
    });
    (0..seen.len()).filter(move |&index| seen[index]).map(TensorId::new)
}

impl ChunkedAxes {
    /// All axes that are the named one.
    pub(super) fn new(program: &Program, named: TensorId, axis: u32, config: ChunkOptions) -> Result<Self, Diags> {
        let mut ops = Vec::new();
        program.walk(program.body(), &mut |op| ops.push(op));
        let map = AxisMap::exact_classes(program, ops.iter().copied());
        let cuts = IdVec::filled(None, program.tensors().len());
        let extent = logical_axes(program, named).axes[axis as usize].extent;
        let mut class = Self { cuts, extent };
        let mut diags = Diags::default();
        if let Some(root) = map.class_of(named, axis) {
            for tensor in host_tensors(program) {
                // The other tensors with the axis would report the same.
                if let Err(diag) = class.add_tensor(program, &map, tensor, root, config) {
                    diags.push(*diag);
                    return Err(diags);
                }
            }
        }
        let mut top = vec![false; program.ops().len()];
        program.block(program.body()).ops.iter().for_each(|op| top[op.index()] = true);
        for &op in &ops {
            diags.keep_error(class.check_op(program, op, top[op.index()]));
        }
        diags.or_value(class)
    }
    /// The axis of a tensor that is cut.
    pub(super) fn chunked_axis(&self, tensor: TensorId) -> Option<ChunkedAxis> {
        self.cuts[tensor]
    }
    /// The axis of a tensor that is split and stored.
    pub(super) fn stored_chunked_axis(&self, tensor: TensorId) -> Option<u32> {
        self.cuts[tensor].filter(|cut| !cut.reduced).map(|cut| cut.axis)
    }
    /// True if an op has to work on chunks: it reads the axis, or its result declares that it reduces it.
    pub(super) fn needs_chunking(&self, op: &Op) -> bool {
        op.input_tensors().any(|tensor| self.stored_chunked_axis(tensor).is_some())
            || op.output_tensors().any(|tensor| self.cuts[tensor].is_some())
    }

    /// Records the axis of a tensor that is split: the one of the class `root`, if there is one.
    fn add_tensor(
        &mut self,
        program: &Program,
        map: &AxisMap,
        tensor: TensorId,
        root: u32,
        config: ChunkOptions,
    ) -> Result<(), Box<Diag>> {
        let mut hits = map.axes_of_class(tensor, root);
        let Some(first) = hits.next() else { return Ok(()) };
        let axes = logical_axes(program, tensor);
        let axis = axes.axes[first.axis as usize];
        let name = program.quoted_tensor(tensor);
        let domain = program.domains(tensor).get(first.printed as usize);
        let Some(domain) = domain.filter(|_| !axes.has_parts()) else {
            let message = message!("the axes of {} result from splits", name);
            let note = "only whole axes can be split into chunks: write the tensor without the split";
            return Err(refusal_diag(program, tensor, CHUNK_TENSOR, message, note));
        };
        let text = quoted_axis(program, domain);
        if let Some(second) = hits.next() {
            let other = program.domains(tensor).get(second.printed as usize);
            let other = other.map(|domain| message!(" and `{}`", quoted_axis(program, domain))).unwrap_or_default();
            let message = message!("the axis to split occurs twice in {}, as `{}`{}", name, text, other);
            let note = "split another axis: chunks of this one would depend on each other";
            return Err(refusal_diag(program, tensor, CHUNK_TENSOR, message, note));
        }
        check_axis(program, tensor, &axis, &text, config)?;
        let literal = program.exprs().as_int(axis.extent);
        if literal.is_some_and(|extent| extent % config.factor != 0) {
            let message = message!("`{}` of {} cannot be divided into {} chunks", text, name, config.factor);
            let note = "use a factor that divides the extent";
            return Err(refusal_diag(program, tensor, CHUNK_FACTOR, message, note));
        }
        self.cuts[tensor] = Some(ChunkedAxis { axis: first.axis, reduced: axis.is_reduction() });
        if literal.is_some() || program.inputs().iter().any(|i| i.as_tensor() == Some(tensor)) {
            // The callers' values say most.
            let known = program.exprs().as_int(self.extent).is_some();
            self.extent = if known { self.extent } else { axis.extent };
        }
        Ok(())
    }

    /// Checks that an op can work on chunks.
    fn check_op(&self, program: &Program, id: OpId, top: bool) -> Result<(), Box<Diag>> {
        let Some((why, note)) = self.obstacle(program, id, top) else { return Ok(()) };
        let name = quoted_op(program, id);
        let message = message!("`{}` cannot be split into chunks: {}", name, why);
        Err(Box::new(Diag::error(CHUNK_OP, program.op_span(id), message).with_note(note)))
    }

    /// The reason why an op cannot work on chunks, and the repair.
    fn obstacle(&self, program: &Program, id: OpId, top: bool) -> Option<(&'static str, &'static str)> {
        let op = program.op(id);
        if !self.needs_chunking(op) {
            return None;
        }
        if let Some(found) = lowered_obstacle(op, top) {
            return Some(found);
        }
        if op.output_tensors().any(|result| program.inputs().contains(&Value::Tensor(result))) {
            return Some(("it writes an input", "write to another tensor"));
        }
        let mut links = Vec::new();
        op.kind.spec().axes(program, id, &mut links);
        if self.has_unlinked_axis(program, id, &links) {
            return Some((
                "it does not preserve the axis",
                "split an axis that it preserves, or rewrite the op for another axis",
            ));
        }
        if op.kind.is_indexed() {
            // A leading chunk axis would be the one whose rows the index names.
            return Some((
                "its index refers to an axis that the chunk axis would shift",
                "split an axis that the op does not index",
            ));
        }
        self.gemm_obstacle(program, id, op.kind.gemm()?)
    }

    /// The reason why a GEMM cannot work on chunks, and the repair.
    fn gemm_obstacle(&self, program: &Program, id: OpId, form: GemmForm) -> Option<(&'static str, &'static str)> {
        if form.transposed {
            // Its weight has to be a matrix.
            let note = "split a leading axis of its first operand, or use a matmul";
            return self.is_weight_chunked(program, id).then_some(("its weight must remain a matrix", note));
        }
        // A vector with a chunk axis would be a matrix.
        if program.op(id).input_tensors().any(|tensor| self.is_vector(program, tensor)) {
            return Some(("a vector operand would become a matrix", "give the operand a second axis of extent 1"));
        }
        let contracted = is_contracted(program, id, self);
        if contracted && form.accumulates {
            let note = "split another axis, or add the accumulator after a matmul";
            return Some(("its accumulator would be added once for each chunk", note));
        }
        (contracted && form.scaled).then_some(("its scales apply to whole rows and columns", "split another axis"))
    }

    /// True if the axis of some operand is no axis of the result, nor contracted, or the other way round.
    fn has_unlinked_axis(&self, program: &Program, id: OpId, links: &[AxisLink]) -> bool {
        let op = program.op(id);
        let makes = op.input_tensors().next().is_none();
        if makes {
            // A `full` declares its extents; other ops that make tensors count.
            return op.attr(AttrKey::Extents).is_none();
        }
        op.all_tensors().any(|tensor| {
            let Some(axis) = self.stored_chunked_axis(tensor) else { return false };
            let at = (tensor, axis);
            links.iter().all(|l| l.broadcast || (l.from != at && l.to != at))
        })
    }

    fn is_weight_chunked(&self, program: &Program, id: OpId) -> bool {
        let op = program.op(id);
        let weights = op.input_tensors().skip(1).any(|tensor| self.stored_chunked_axis(tensor).is_some());
        weights || is_contracted(program, id, self)
    }

    fn is_vector(&self, program: &Program, tensor: TensorId) -> bool {
        self.stored_chunked_axis(tensor).is_some() && logical_axes(program, tensor).stored_positions().len() < 2
    }
}

/// The reason why an op that is not plain math, or that a loop or branch has, cannot work on chunks, and the repair.
fn lowered_obstacle(op: &Op, top: bool) -> Option<(&'static str, &'static str)> {
    match op.kind.effect() {
        OpEffect::Opaque => Some((
            "the pass does not know how the kernel uses the axis",
            "split an axis that it does not have, or write what it computes as ops of the program",
        )),
        OpEffect::Pure if top => None,
        OpEffect::Pure => Some((
            "it is in a loop or a branch",
            "chunks are made of plain math: split the axis before the loop is written",
        )),
        OpEffect::Communicate(_) => Some((
            "it is a communication, which the pass does not split",
            "chunks are made of plain math: split the axis before communications are inserted",
        )),
        _ => Some(("it is part of a lowered program", "split the axis before lowering")),
    }
}

/// True if the axis is contracted: one of an operand, and of no stored axis of the result.
pub(super) fn is_contracted(program: &Program, id: OpId, class: &ChunkedAxes) -> bool {
    let op = program.op(id);
    let gemm = op.kind.gemm().is_some();
    let inside = op.input_tensors().any(|tensor| class.stored_chunked_axis(tensor).is_some());
    gemm && inside && !op.output_tensors().any(|tensor| class.stored_chunked_axis(tensor).is_some())
}

/// Checks that an axis of a tensor, written as `text`, has chunks.
fn check_axis(
    program: &Program,
    tensor: TensorId,
    axis: &LogicalAxis,
    text: &Quoted,
    config: ChunkOptions,
) -> Result<(), Box<Diag>> {
    let name = program.quoted_tensor(tensor);
    let streams = program.domains(tensor).iter().any(|d| d.parallel == ParallelType::Stream);
    let (message, note) = if axis.parallel.is_device() {
        let note = "an axis that is sharded over devices has one slice per device: split another axis";
        (message!("`{}` of {} is sharded over devices", text, name), note)
    } else if axis.is_broadcast() || axis.expanded.is_some() {
        let message = message!("`{}` of {} is a broadcast, which cannot be split", text, name);
        (message, "split an iteration axis")
    } else if config.stream && streams && axis.parallel != ParallelType::Stream {
        let note = "a tensor has at most one stream-parallel axis: omit `parallel=stream`";
        (message!("{} already has a stream-parallel axis", name), note)
    } else {
        return Ok(());
    };
    Err(refusal_diag(program, tensor, CHUNK_TENSOR, message, note))
}

fn refusal_diag(
    program: &Program,
    tensor: TensorId,
    code: &'static str,
    message: impl Into<Message>,
    note: &str,
) -> Box<Diag> {
    Box::new(Diag::error(code, program.tensor_span(tensor), message).with_note(note))
}
