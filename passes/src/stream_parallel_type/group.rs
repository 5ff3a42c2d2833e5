//! Which ops share a loop.

use super::extent;
use crate::build::{domain_id, is_stream};
use crate::codes;
use hostir::analysis::{AxisMap, is_resharding, is_standalone};
use hostir::diag::{Diag, Diags};
use hostir::ir::{DomainId, IterType, OpId, Program, TensorId};
use hostir::print::domain_text;

/// What the body becomes, in order.
pub(super) enum Item {
    /// An op that stays where it is.
    Op(OpId),
    /// Ops that move into a loop.
    Loop(Loop),
}

/// Ops with one stream-parallel axis.
pub(super) struct Loop {
    /// The axis of the first op's result.
    pub(super) domain: DomainId,
    /// Its class.
    pub(super) class: u32,
    /// The ops in order.
    pub(super) ops: Vec<OpId>,
    /// How its ops move data.
    moves: Option<Move>,
}

/// How an op moves data between devices.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Move {
    /// All ranks together, in each iteration.
    Collective,
    /// Rank r's iteration i with rank i's iteration r.
    Exchange,
}

/// The stream-parallel axis of a tensor: printed position and class.
struct StreamAxis {
    printed: u32,
    class: u32,
}

/// Sorts ops into items. Reports all ops that cannot be streamed.
pub(super) fn group(program: &Program, map: &AxisMap, ops: &[OpId]) -> Result<Vec<Item>, Diags> {
    let mut items = Vec::new();
    let mut diags = Diags::default();
    for &op in ops {
        match result_axis(program, map, op) {
            Err(diag) => diags.push(*diag),
            Ok(None) => items.push(Item::Op(op)),
            Ok(Some((tensor, axis))) => place(program, map, &mut items, op, tensor, &axis),
        }
    }
    if diags.has_errors() { Err(diags) } else { Ok(items) }
}

/// Adds an op to the loop right before it, or opens a new one.
///
/// A loop that exchanges parts takes no collective, nor the other way round: rank 1's first exchange waits
/// for rank 0's second iteration, which would wait for a collective with rank 1's first. (nvFuser merges
/// them, and hangs.)
fn place(
    program: &Program,
    map: &AxisMap,
    items: &mut Vec<Item>,
    op: OpId,
    tensor: TensorId,
    axis: &StreamAxis,
) {
    let moves = how_it_moves(program, map, op, axis.class);
    if let Some(Item::Loop(last)) = items.last_mut()
        && last.class == axis.class
        && program.domain(last.domain).extent == extent(program, tensor, axis.printed)
        && (last.moves.is_none() || moves.is_none() || last.moves == moves)
    {
        last.ops.push(op);
        last.moves = last.moves.or(moves);
        return;
    }
    items.push(Item::Loop(Loop {
        domain: domain_id(program, tensor, axis.printed),
        class: axis.class,
        ops: vec![op],
        moves,
    }));
}

fn how_it_moves(program: &Program, map: &AxisMap, op: OpId, class: u32) -> Option<Move> {
    let across = |tensor: TensorId| {
        let domains = program.domains(tensor);
        let domain =
            map.of_class(tensor, class).filter_map(|axis| domains.get(axis.printed as usize));
        domain.into_iter().any(|domain| domain.is_sharded())
    };
    if program.op(op).input_tensors().any(across) {
        return Some(Move::Exchange);
    }
    is_resharding(program, op).then_some(Move::Collective)
}

/// The result of an op with its stream-parallel axis, if it has one.
fn result_axis(
    program: &Program,
    map: &AxisMap,
    id: OpId,
) -> Result<Option<(TensorId, StreamAxis)>, Box<Diag>> {
    let op = program.op(id);
    let results: Vec<TensorId> = op.output_tensors().collect();
    let error = |code, message: String| Box::new(Diag::error(code, program.op_span(id), message));
    let name = op.kind.spec().name;
    let &[tensor] = results.as_slice() else {
        if results.len() > 1 {
            let message =
                format!("`{name}` has {} results; one at most is supported", results.len());
            let note = "split the HostUnit so that each has one output";
            return Err(Box::new(error(codes::STREAM_RESULTS, message).note(note)));
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
        return Err(Box::new(error(codes::STREAM_AXES, message).note(note)));
    }
    if !is_standalone(program, id) {
        let message =
            format!("`{name}` cannot be spread over streams: it runs inside a HostUnit only");
        let note = format!("write `{}` of {result} without the stream type", text(printed));
        return Err(Box::new(error(codes::STREAM_OP, message).note(note)));
    }
    let axis = map.printed(tensor).position(|at| at == printed).filter(|_| !map.is_split(tensor));
    let class = axis.and_then(|axis| map.class(tensor, axis as u32));
    let Some(class) = class else {
        let message = format!("`{}` of {result} is part of a split or merged axis", text(printed));
        let note = "spread a whole axis over the streams";
        return Err(Box::new(error(codes::STREAM_SPLIT, message).note(note)));
    };
    let iter = program.domains(tensor)[printed as usize].iter;
    if !matches!(iter, IterType::Iteration | IterType::Broadcast) {
        let message =
            format!("`{}` of {result} is reduced; a stream-parallel axis iterates", text(printed));
        let note = "spread an axis over the streams that the result keeps";
        return Err(Box::new(error(codes::STREAM_REDUCED, message).note(note)));
    }
    Ok(Some((tensor, StreamAxis { printed, class })))
}

/// Printed positions of the stream-parallel axes of a tensor.
fn positions(program: &Program, tensor: TensorId) -> Vec<u32> {
    let domains = program.domains(tensor).iter().enumerate();
    domains.filter(|(_, domain)| is_stream(domain)).map(|(k, _)| k as u32).collect()
}
