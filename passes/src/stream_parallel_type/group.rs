//! The ops that share a loop.

use super::config::{Config, LoopMerging, ReduceScatter};
use super::loops::{BodyItem, DataRole, GraphNode, StreamLoop, StreamedOp};
use super::{graph, scatter};
use crate::support::builder::{is_stored_stream_domain, printed_domain};
use hostir::analysis::storage::StorageClasses;
use hostir::analysis::{AxisMap, is_resharding, is_standalone};
use hostir::diag::message;
use hostir::diag::{Diag, Diags, Message, Quoted};
use hostir::ir::{IterType, OpId, Program, TensorId, quoted_axis, quoted_op};

/// stream-parallel-type: a stream-parallel axis in an op with several results.
const STREAM_RESULTS: &str = "H0322";
/// stream-parallel-type: a result with two stream-parallel axes.
const STREAM_AXES: &str = "H0323";
/// stream-parallel-type: an op that cannot have a stream-parallel result.
const STREAM_OP: &str = "H0324";
/// stream-parallel-type: a stream-parallel part of a split axis.
const STREAM_SPLIT: &str = "H0325";
/// stream-parallel-type: a stream-parallel axis that is reduced.
const STREAM_REDUCED: &str = "H0326";
/// stream-parallel-type: a stream-parallel axis that is expanded.
const STREAM_EXPANDED: &str = "H0393";

/// Sorts ops into items. Reports all ops that cannot be streamed.
pub(super) fn group_ops(
    program: &Program,
    map: &AxisMap,
    config: &Config,
    ops: &[OpId],
) -> Result<Vec<BodyItem>, Diags> {
    let mut nodes = Vec::with_capacity(ops.len());
    let mut diags = Diags::default();
    for &op in ops {
        match streamed_op(program, map, config, op) {
            Err(diag) => diags.push(*diag),
            Ok(streamed) => nodes.push(GraphNode { op, streamed }),
        }
    }
    diags.or_value(())?;
    let mut items = Vec::new();
    match config.merge {
        LoopMerging::Adjacent => group_adjacent(program, &nodes, &mut items),
        LoopMerging::Graph => group_over_graph(program, &nodes, &mut items),
    }
    Ok(items)
}

/// Ops that follow each other share a loop.
fn group_adjacent(program: &Program, nodes: &[GraphNode], items: &mut Vec<BodyItem>) {
    for &GraphNode { op, streamed } in nodes {
        let Some(streamed) = streamed else {
            items.push(BodyItem::Op(op));
            continue;
        };
        match items.last_mut() {
            Some(BodyItem::Loop(last)) if last.can_join(program, streamed) => last.push(op, streamed),
            _ => items.push(BodyItem::Loop(StreamLoop::from_op(op, streamed))),
        }
    }
}

/// Reorders the ops between two that keep their places, if that saves a loop.
fn group_over_graph(program: &Program, nodes: &[GraphNode], items: &mut Vec<BodyItem>) {
    let mut storage = StorageClasses::from_program(program);
    for run in nodes.chunk_by(|a, b| graph::is_movable(program, a.op) && graph::is_movable(program, b.op)) {
        let mut kept = Vec::new();
        group_adjacent(program, run, &mut kept);
        if count_loops(&kept) > 1 {
            let changed = graph::schedule_items(program, &mut storage, run);
            if count_loops(&changed) < count_loops(&kept) {
                items.extend(changed);
                continue;
            }
        }
        group_adjacent(program, run, items);
    }
}

fn count_loops(items: &[BodyItem]) -> usize {
    items.iter().filter(|item| matches!(item, BodyItem::Loop(_))).count()
}

/// The source of the data of an op whose loop is over a class.
fn data_role(program: &Program, map: &AxisMap, op: OpId, class: u32) -> DataRole {
    for tensor in program.op(op).input_tensors() {
        let domains = program.domains(tensor);
        let mut axes = map.axes_of_class(tensor, class);
        if axes.any(|axis| domains.get(axis.printed as usize).is_some_and(|d| d.is_sharded())) {
            return DataRole::Gather;
        }
    }
    if is_resharding(program, op) { DataRole::Collective } else { DataRole::Local }
}

/// The loop that an op moves into, if its result has a stream-parallel axis. An op with several results stays in place
/// if none of them has one.
fn streamed_op(program: &Program, map: &AxisMap, config: &Config, id: OpId) -> Result<Option<StreamedOp>, Box<Diag>> {
    let op = program.op(id);
    let results: Vec<TensorId> = op.output_tensors().collect();
    let &[tensor] = results.as_slice() else {
        let is_streamed = |&tensor: &TensorId| program.domains(tensor).iter().any(is_stored_stream_domain);
        return if results.iter().any(is_streamed) { Err(several(program, id, &results)) } else { Ok(None) };
    };
    if op.kind.effect() == hostir::ir::OpEffect::Allocate {
        return Ok(None);
    }
    let Some(printed) = stream_axis(program, id, tensor)? else { return Ok(None) };
    let axis = map.printed_positions(tensor).position(|at| at == printed).filter(|_| !map.is_split(tensor));
    let class = axis.and_then(|axis| map.class_of(tensor, axis as u32));
    let (result, text) = (program.quoted_tensor(tensor), axis_text(program, tensor, printed));
    let Some(class) = class else {
        let message = message!("`{}` of {} is part of a split or merged axis", text, result);
        let note = "make a whole axis stream-parallel";
        return Err(refusal(program, id, STREAM_SPLIT, message, note));
    };
    if let Some((domain, class)) = scatter::reduce_scatter_axis(program, map, config.reduce_scatter, id) {
        let role = match config.reduce_scatter {
            Some(ReduceScatter::Reduce) => DataRole::Reduce,
            Some(ReduceScatter::P2p) | None => DataRole::Scatter,
        };
        return Ok(Some(StreamedOp { domain, class, role }));
    }
    let domain = &program.domains(tensor)[printed as usize];
    if domain.expanded.is_some() {
        // All its slices share one place in memory. (nvFuser loops over them.)
        let message = message!("`{}` of {} is an expanded broadcast, which has only one slice", text, result);
        let note = "write it without the stream type, or write a result that is not expanded";
        return Err(refusal(program, id, STREAM_EXPANDED, message, note));
    }
    if !matches!(domain.iter, IterType::Iteration | IterType::Broadcast) {
        let message = message!("`{}` of {} is stream-parallel, but is reduced", text, result);
        let note = "make an axis that the result keeps stream-parallel; `matmul_reduce_scatter=reduce` accepts a sum of `[device, stream, ..]` to `[reduced stream, device, ..]`";
        return Err(refusal(program, id, STREAM_REDUCED, message, note));
    }
    let domain = printed_domain(program, tensor, printed);
    Ok(Some(StreamedOp { domain, class, role: data_role(program, map, id, class) }))
}

/// The printed position of the one stream-parallel axis of an op's result.
fn stream_axis(program: &Program, id: OpId, tensor: TensorId) -> Result<Option<u32>, Box<Diag>> {
    let domains = program.domains(tensor).iter().zip(0..);
    let mut streams = domains.filter(|(domain, _)| is_stored_stream_domain(domain)).map(|(_, at)| at);
    let Some(printed) = streams.next() else { return Ok(None) };
    let (result, text) = (program.quoted_tensor(tensor), axis_text(program, tensor, printed));
    if let Some(second) = streams.next() {
        let second = axis_text(program, tensor, second);
        let message = message!("{} has two stream-parallel axes, `{}` and `{}`", result, text, second);
        let note = "keep the axis to loop over, and write the other as `iS`";
        return Err(refusal(program, id, STREAM_AXES, message, note));
    }
    if !is_standalone(program, id) {
        let name = written_op_name(program, id);
        let message = message!("`{}` cannot have a stream-parallel result: it runs only inside a HostUnit", name);
        let note = message!("write `{}` of {} without the stream type", text, result);
        return Err(refusal(program, id, STREAM_OP, message, note));
    }
    Ok(Some(printed))
}

fn axis_text(program: &Program, tensor: TensorId, printed: u32) -> Quoted {
    quoted_axis(program, &program.domains(tensor)[printed as usize])
}

fn refusal(program: &Program, id: OpId, code: &'static str, message: Message, note: impl Into<Message>) -> Box<Diag> {
    Box::new(Diag::error(code, program.op_span(id), message).with_note(note))
}

/// The error for an op with several results, of which one has a stream-parallel axis.
fn several(program: &Program, id: OpId, results: &[TensorId]) -> Box<Diag> {
    let names: Vec<String> = results.iter().map(|&tensor| program.tensor_name(tensor)).collect();
    let message = message!(
        "`{}` has {} results, {}, so none of them can be stream-parallel",
        written_op_name(program, id),
        results.len(),
        names.join(", ")
    );
    let note = "write the results without the stream type, and a `Set` of the one to be streamed, with the stream type, after the op";
    refusal(program, id, STREAM_RESULTS, message, note)
}

/// The name of an op for users; for a HostUnit of one op, the name of that op.
fn written_op_name(program: &Program, id: OpId) -> Quoted {
    let unit = program.posted_unit(program.op(id)).map(|unit| program.units()[unit].body);
    match unit.map(|body| program.block(body).ops.as_slice()) {
        Some(&[only]) => quoted_op(program, only),
        _ => quoted_op(program, id),
    }
}
