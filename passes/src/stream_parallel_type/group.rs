//! Which ops share a loop.

use super::config::{Config, Merge, ReduceScatter};
use super::loops::{Item, Loop, Node, Role, Streamed};
use super::{graph, scatter};
use crate::support::builder::{domain_id, is_stream};
use crate::support::storage::Storage;
use hostir::analysis::{AxisMap, is_resharding, is_standalone};
use hostir::diag::{Diag, Diags};
use hostir::ir::domain_text;
use hostir::ir::name_of;
use hostir::ir::{IterType, OpId, Program, TensorId};

/// stream-parallel-type: an op with several results.
const STREAM_RESULTS: &str = "H0322";
/// stream-parallel-type: a result with two stream-parallel axes.
const STREAM_AXES: &str = "H0323";
/// stream-parallel-type: an op that cannot be spread over streams.
const STREAM_OP: &str = "H0324";
/// stream-parallel-type: a stream-parallel part of a split axis.
const STREAM_SPLIT: &str = "H0325";
/// stream-parallel-type: a stream-parallel axis that is reduced.
const STREAM_REDUCED: &str = "H0326";
/// stream-parallel-type: a stream-parallel axis that is expanded.
const STREAM_EXPANDED: &str = "H0393";

/// Sorts ops into items. Reports all ops that cannot be streamed.
pub(super) fn group(
    program: &Program,
    map: &AxisMap,
    config: &Config,
    ops: &[OpId],
) -> Result<Vec<Item>, Diags> {
    let mut nodes = Vec::with_capacity(ops.len());
    let mut diags = Diags::default();
    for &op in ops {
        match streamed(program, map, config, op) {
            Err(diag) => diags.push(*diag),
            Ok(streamed) => nodes.push(Node { op, streamed }),
        }
    }
    diags.or_value(())?;
    let mut items = Vec::new();
    match config.merge {
        Merge::Adjacent => adjacent(program, &nodes, &mut items),
        Merge::Graph => over_graph(program, &nodes, &mut items),
    }
    Ok(items)
}

/// Ops that follow each other share a loop.
fn adjacent(program: &Program, nodes: &[Node], items: &mut Vec<Item>) {
    for &Node { op, streamed } in nodes {
        let Some(streamed) = streamed else {
            items.push(Item::Op(op));
            continue;
        };
        match items.last_mut() {
            Some(Item::Loop(last)) if last.joins(program, streamed) => last.push(op, streamed),
            _ => items.push(Item::Loop(Loop::open(op, streamed))),
        }
    }
}

/// Between two ops that keep their places, ops change theirs where that saves a loop.
fn over_graph(program: &Program, nodes: &[Node], items: &mut Vec<Item>) {
    let mut storage = Storage::of(program);
    for run in
        nodes.chunk_by(|a, b| graph::may_move(program, a.op) && graph::may_move(program, b.op))
    {
        let mut kept = Vec::new();
        adjacent(program, run, &mut kept);
        if loops(&kept) > 1 {
            let changed = graph::schedule(program, &mut storage, run);
            if loops(&changed) < loops(&kept) {
                items.extend(changed);
                continue;
            }
        }
        adjacent(program, run, items);
    }
}

fn loops(items: &[Item]) -> usize {
    items.iter().filter(|item| matches!(item, Item::Loop(_))).count()
}

/// The source of the data of an op whose loop is over a class.
fn role(program: &Program, map: &AxisMap, op: OpId, class: u32) -> Role {
    for tensor in program.op(op).input_tensors() {
        let domains = program.domains(tensor);
        let mut axes = map.of_class(tensor, class);
        if axes.any(|axis| domains.get(axis.printed as usize).is_some_and(|d| d.is_sharded())) {
            return Role::Gather;
        }
    }
    if is_resharding(program, op) { Role::Collective } else { Role::Local }
}

/// The loop that an op moves into, if its result has a stream-parallel axis.
fn streamed(
    program: &Program,
    map: &AxisMap,
    config: &Config,
    id: OpId,
) -> Result<Option<Streamed>, Box<Diag>> {
    let op = program.op(id);
    let results: Vec<TensorId> = op.output_tensors().collect();
    let &[tensor] = results.as_slice() else {
        return if results.is_empty() { Ok(None) } else { Err(several(program, id, &results)) };
    };
    if op.kind.effect() == hostir::ir::Effect::Allocate {
        return Ok(None);
    }
    let Some(printed) = stream_axis(program, id, tensor)? else { return Ok(None) };
    let axis = map.printed(tensor).position(|at| at == printed).filter(|_| !map.is_split(tensor));
    let class = axis.and_then(|axis| map.class(tensor, axis as u32));
    let (result, text) = (program.tensor_name(tensor), axis_text(program, tensor, printed));
    let Some(class) = class else {
        let message = format!("`{text}` of {result} is part of a split or merged axis");
        let note = "spread a whole axis over the streams";
        return Err(refusal(program, id, STREAM_SPLIT, message, note));
    };
    if let Some((domain, class)) = scatter::loop_axis(program, map, config.reduce_scatter, id) {
        let role = match config.reduce_scatter {
            Some(ReduceScatter::Reduce) => Role::Reduce,
            Some(ReduceScatter::P2p) | None => Role::Scatter,
        };
        return Ok(Some(Streamed { domain, class, role }));
    }
    let domain = &program.domains(tensor)[printed as usize];
    if domain.expanded.is_some() {
        // All its slices are one in memory. (nvFuser loops over them.)
        let message = format!("`{text}` of {result} is expanded: it has one slice, not several");
        let note = "write it without the stream type, or write a result that is not expanded";
        return Err(refusal(program, id, STREAM_EXPANDED, message, note));
    }
    if !matches!(domain.iter, IterType::Iteration | IterType::Broadcast) {
        let message = format!("`{text}` of {result} is reduced; a stream-parallel axis iterates");
        let note = "spread an axis over the streams that the result keeps; `matmul_reduce_scatter=reduce` takes a sum of `[device, stream, ..]` to `[reduced stream, device, ..]`";
        return Err(refusal(program, id, STREAM_REDUCED, message, note));
    }
    let domain = domain_id(program, tensor, printed);
    Ok(Some(Streamed { domain, class, role: role(program, map, id, class) }))
}

/// The printed position of the one stream-parallel axis of an op's result.
fn stream_axis(program: &Program, id: OpId, tensor: TensorId) -> Result<Option<u32>, Box<Diag>> {
    let domains = program.domains(tensor).iter().zip(0..);
    let mut streams = domains.filter(|(domain, _)| is_stream(domain)).map(|(_, at)| at);
    let Some(printed) = streams.next() else { return Ok(None) };
    let (result, text) = (program.tensor_name(tensor), axis_text(program, tensor, printed));
    if let Some(second) = streams.next() {
        let second = axis_text(program, tensor, second);
        let message = format!("{result} has two stream-parallel axes, `{text}` and `{second}`");
        let note = "keep the one to loop over and write the other as `iS`";
        return Err(refusal(program, id, STREAM_AXES, message, note));
    }
    if !is_standalone(program, id) {
        let name = spoken(program, id);
        let message =
            format!("`{name}` cannot be spread over streams: it runs inside a HostUnit only");
        let note = format!("write `{text}` of {result} without the stream type");
        return Err(refusal(program, id, STREAM_OP, message, note));
    }
    Ok(Some(printed))
}

fn axis_text(program: &Program, tensor: TensorId, printed: u32) -> String {
    domain_text(program, &program.domains(tensor)[printed as usize])
}

fn refusal(
    program: &Program,
    id: OpId,
    code: &'static str,
    message: String,
    note: impl Into<String>,
) -> Box<Diag> {
    Box::new(Diag::error(code, program.op_span(id), message).note(note))
}

/// The error for an op with several results.
fn several(program: &Program, id: OpId, results: &[TensorId]) -> Box<Diag> {
    let names: Vec<String> = results.iter().map(|&tensor| program.tensor_name(tensor)).collect();
    let message = format!(
        "`{}` has {} results, {}; one at most is supported",
        spoken(program, id),
        results.len(),
        names.join(", ")
    );
    let note = format!(
        "give each a HostUnit of its own; where segment-host-units made this one, let the other ops read a `Set` of {}, or leave the pass out: --disable-pass=segment-host-units",
        names[0]
    );
    refusal(program, id, STREAM_RESULTS, message, note)
}

/// The name of an op for people; of a HostUnit of one op, that of the op that they wrote.
fn spoken(program: &Program, id: OpId) -> &str {
    let unit = program.posted_unit(program.op(id)).map(|unit| program.units()[unit].body);
    match unit.map(|body| program.block(body).ops.as_slice()) {
        Some(&[only]) => name_of(program, only),
        _ => name_of(program, id),
    }
}
