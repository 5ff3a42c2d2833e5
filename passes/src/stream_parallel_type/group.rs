//! Which ops share a loop.

use super::config::{Config, Merge, ReduceScatter};
use super::loops::{Item, Loop, Node, Role, Streamed};
use super::{graph, scatter};
use crate::support::builder::{domain_id, is_stream};
use crate::support::storage::Storage;
use hostir::analysis::{AxisMap, is_resharding, is_standalone};
use hostir::diag::{Diag, Diags};
use hostir::ir::{IterType, OpId, Program, TensorId};
use hostir::ops::name_of;
use hostir::print::domain_text;

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
    if diags.has_errors() {
        return Err(diags);
    }
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
    let moves = |node: &Node| graph::may_move(program, node.op);
    for run in nodes.chunk_by(|a, b| moves(a) && moves(b)) {
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
    let across = |tensor: TensorId| {
        let domains = program.domains(tensor);
        let domain =
            map.of_class(tensor, class).filter_map(|axis| domains.get(axis.printed as usize));
        domain.into_iter().any(|domain| domain.is_sharded())
    };
    if program.op(op).input_tensors().any(across) {
        return Role::Gather;
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
    let error = |code, message: String| Box::new(Diag::error(code, program.op_span(id), message));
    let name = spoken(program, id);
    let &[tensor] = results.as_slice() else {
        if results.len() > 1 {
            let names: Vec<String> = results.iter().map(|&t| program.tensor_name(t)).collect();
            let message = format!(
                "`{name}` has {} results, {}; one at most is supported",
                results.len(),
                names.join(", ")
            );
            let note = format!(
                "give each a HostUnit of its own; where segment-host-units made this one, let the other ops read a `Set` of {}, or leave the pass out: --disable-pass=segment-host-units",
                names[0]
            );
            return Err(Box::new(error(STREAM_RESULTS, message).note(note)));
        }
        return Ok(None);
    };
    if op.kind.spec().effect == hostir::ops::Effect::Allocate {
        return Ok(None);
    }
    let streams: Vec<u32> = positions(program, tensor);
    let Some(&printed) = streams.first() else { return Ok(None) };
    let text = |printed: u32| domain_text(program, &program.domains(tensor)[printed as usize]);
    let result = program.tensor_name(tensor);
    if let Some(&second) = streams.get(1) {
        let message = format!(
            "{result} has two stream-parallel axes, `{}` and `{}`",
            text(printed),
            text(second)
        );
        let note = "keep the one to loop over and write the other as `iS`";
        return Err(Box::new(error(STREAM_AXES, message).note(note)));
    }
    if !is_standalone(program, id) {
        let message =
            format!("`{name}` cannot be spread over streams: it runs inside a HostUnit only");
        let note = format!("write `{}` of {result} without the stream type", text(printed));
        return Err(Box::new(error(STREAM_OP, message).note(note)));
    }
    let axis = map.printed(tensor).position(|at| at == printed).filter(|_| !map.is_split(tensor));
    let class = axis.and_then(|axis| map.class(tensor, axis as u32));
    let Some(class) = class else {
        let message = format!("`{}` of {result} is part of a split or merged axis", text(printed));
        let note = "spread a whole axis over the streams";
        return Err(Box::new(error(STREAM_SPLIT, message).note(note)));
    };
    if let Some((domain, class)) = scatter::loop_axis(program, map, config.reduce_scatter, id) {
        let role = match config.reduce_scatter {
            Some(ReduceScatter::Reduce) => Role::Reduce,
            Some(ReduceScatter::P2p) | None => Role::Scatter,
        };
        return Ok(Some(Streamed { domain, class, role }));
    }
    if program.domains(tensor)[printed as usize].expanded.is_some() {
        return Err(Box::new(expanded(program, id, tensor, &text(printed))));
    }
    let iter = program.domains(tensor)[printed as usize].iter;
    if !matches!(iter, IterType::Iteration | IterType::Broadcast) {
        let message =
            format!("`{}` of {result} is reduced; a stream-parallel axis iterates", text(printed));
        let note = "spread an axis over the streams that the result keeps; `matmul_reduce_scatter=reduce` takes a sum of `[device, stream, ..]` to `[reduced stream, device, ..]`";
        return Err(Box::new(error(STREAM_REDUCED, message).note(note)));
    }
    let domain = domain_id(program, tensor, printed);
    Ok(Some(Streamed { domain, class, role: role(program, map, id, class) }))
}

/// The name of an op for people; of a HostUnit of one op, that of the op that they wrote.
fn spoken(program: &Program, id: OpId) -> &str {
    let unit = program.posted_unit(program.op(id)).map(|unit| program.units()[unit].body);
    match unit.map(|body| program.block(body).ops.as_slice()) {
        Some(&[only]) => name_of(program, only),
        _ => name_of(program, id),
    }
}

/// All slices of an expanded axis are one in memory. (nvFuser loops over them.)
fn expanded(program: &Program, id: OpId, tensor: TensorId, axis: &str) -> Diag {
    let result = program.tensor_name(tensor);
    let message = format!("`{axis}` of {result} is expanded: it has one slice, not several");
    let note = "write it without the stream type, or write a result that is not expanded";
    Diag::error(STREAM_EXPANDED, program.op_span(id), message).note(note)
}

/// Printed positions of the stream-parallel axes of a tensor.
fn positions(program: &Program, tensor: TensorId) -> Vec<u32> {
    let domains = program.domains(tensor).iter().enumerate();
    domains.filter(|(_, domain)| is_stream(domain)).map(|(k, _)| k as u32).collect()
}
