//! Which ops share a loop.

use super::config::{Allgather, Config, Merge, ReduceScatter};
use super::{graph, scatter};
use crate::build::{domain_id, is_stream};
use crate::codes;
use crate::storage::Storage;
use hostir::analysis::{AxisMap, is_resharding, is_standalone};
use hostir::diag::{Diag, Diags};
use hostir::ir::domain_text;
use hostir::ir::name_of;
use hostir::ir::{DomainId, IterType, OpId, Program, TensorId};

/// What the body becomes, in order.
pub(super) enum Item {
    /// An op that stays where it is.
    Op(OpId),
    /// Ops that move into a loop.
    Loop(Loop),
}

/// Ops with one stream-parallel axis.
pub(super) struct Loop {
    /// The axis that the first op is spread by.
    pub(super) domain: DomainId,
    /// Its class.
    pub(super) class: u32,
    /// The ops in order, and how each gets its data.
    pub(super) ops: Vec<(OpId, Role)>,
    /// What its ops move, if anything.
    moves: Option<Move>,
}

impl Loop {
    /// A loop of one op.
    pub(super) fn open(op: OpId, streamed: Streamed) -> Self {
        let Streamed { domain, class, role } = streamed;
        Self { domain, class, ops: vec![(op, role)], moves: role.moves() }
    }
    /// Whether an op may stand in the loop.
    ///
    /// A loop that exchanges parts takes no collective, nor the other way round: rank 1's first exchange
    /// waits for rank 0's second iteration, which would wait for a collective with rank 1's first.
    /// (nvFuser merges them, and hangs.) What scatters keeps apart from both: its ranks work on other
    /// parts than those of an exchange, and its result is whole behind the loop only.
    pub(super) fn joins(&self, program: &Program, streamed: Streamed) -> bool {
        let extent = |domain: DomainId| program.domain(domain).extent;
        let moves = streamed.role.moves();
        self.class == streamed.class
            && extent(self.domain) == extent(streamed.domain)
            && (self.moves.is_none() || moves.is_none() || self.moves == moves)
    }
    /// Adds an op.
    pub(super) fn push(&mut self, op: OpId, streamed: Streamed) {
        self.ops.push((op, streamed.role));
        self.moves = self.moves.or(streamed.role.moves());
    }
    /// Whether each rank starts at its own part.
    pub(super) fn is_offset(&self, config: &Config) -> bool {
        match self.moves {
            Some(Move::Scatter) => true,
            Some(Move::Reduce) => false,
            _ => config.allgather == Allgather::Ring,
        }
    }
}

/// How an op gets its data in an iteration.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// It has it.
    Local,
    /// From all ranks of a team together.
    Collective,
    /// The part that another rank holds.
    Gather,
    /// Partial results that other ranks have of its own part, one rank's in each iteration.
    Scatter,
    /// All partial results of one rank's part, added up on their way there.
    Reduce,
}

/// What the ops of one loop move between devices.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Move {
    /// All ranks together, in each iteration.
    Collective,
    /// Rank r's iteration i with rank i's iteration r.
    Exchange,
    /// Iteration i of rank r with iteration i of ranks r + i and r - i.
    Scatter,
    /// All ranks together, to rank i in iteration i.
    Reduce,
}

impl Role {
    /// Whether the op becomes a collective here, and not by convert-op-to-communication.
    pub(super) fn is_collective_of_pass(self, config: &Config) -> bool {
        match self {
            Role::Reduce => true,
            Role::Gather => config.allgather == Allgather::Broadcast,
            Role::Local | Role::Collective | Role::Scatter => false,
        }
    }
    fn moves(self) -> Option<Move> {
        match self {
            Role::Local => None,
            Role::Collective => Some(Move::Collective),
            Role::Gather => Some(Move::Exchange),
            Role::Scatter => Some(Move::Scatter),
            Role::Reduce => Some(Move::Reduce),
        }
    }
}

/// An op that moves into a loop.
#[derive(Clone, Copy)]
pub(super) struct Streamed {
    /// The axis that is looped over.
    pub(super) domain: DomainId,
    /// Its class.
    pub(super) class: u32,
    role: Role,
}

/// An op, and the loop it asks for.
#[derive(Clone, Copy)]
pub(super) struct Node {
    pub(super) op: OpId,
    pub(super) streamed: Option<Streamed>,
}

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

/// How an op whose loop is over a class gets its data.
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

/// What loop an op moves into, if its result has a stream-parallel axis.
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
            return Err(Box::new(error(codes::STREAM_RESULTS, message).note(note)));
        }
        return Ok(None);
    };
    if op.kind.effect() == hostir::ir::Effect::Allocate {
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
        return Err(Box::new(error(codes::STREAM_REDUCED, message).note(note)));
    }
    let domain = domain_id(program, tensor, printed);
    Ok(Some(Streamed { domain, class, role: role(program, map, id, class) }))
}

/// What people call an op; of a HostUnit of one op, the op that they wrote.
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
    Diag::error(codes::STREAM_EXPANDED, program.op_span(id), message).note(note)
}

/// Printed positions of the stream-parallel axes of a tensor.
fn positions(program: &Program, tensor: TensorId) -> Vec<u32> {
    let domains = program.domains(tensor).iter().enumerate();
    domains.filter(|(_, domain)| is_stream(domain)).map(|(k, _)| k as u32).collect()
}
