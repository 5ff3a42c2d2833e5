//! Orders of messages that take more rounds than necessary.
//!
//! In a round each rank sends at most one message and receives at most one. Messages of one size whose data does not
//! depend on each other need as many rounds as the busiest rank sends or receives (Kőnig: the edges of a bipartite
//! graph have a colouring with as many colours as the largest degree). A program's order of issue may need more.
//! [`MessageGraph`] holds that order, and gives a lower bound of its rounds: the longest chain, and for each side
//! (sends, receives) the bound of one machine whose jobs have heads and tails (Jackson's rule). A warning needs a lower
//! bound above the number of rounds that suffice. Only the order of one stream counts: programs that issue on several
//! streams hide their messages behind other work.

use crate::diag::message;
use crate::diag::{Diag, codes};
use crate::ir::Id;
use crate::ir::MessageDirection;
use crate::lower::PreparedProgram;
use crate::plan::MessageHeader;
use crate::plan::{
    BufferId, CommSlot, Inst, InstId, InstKind, MatchedMessage, Plan, PlanMatching, RankInst, StreamSlot, WorkSlot,
};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::collections::BinaryHeap;

/// The maximum number of messages whose order is examined.
const MOST_MESSAGES: usize = 1 << 16;

/// The maximum number of messages of a chain that a note lists.
const MOST_SHOWN: usize = 12;

/// The warning for an order of messages that takes more rounds than needed.
pub(super) fn check_exchange_rounds(prepared: &PreparedProgram) -> Option<Diag> {
    let plans = &prepared.plans;
    let matching = PlanMatching::new(plans);
    let messages = &matching.messages;
    let is_small = (2..=MOST_MESSAGES).contains(&messages.len());
    if !is_small || !have_one_size(plans, messages) || plans.iter().any(is_ordered_by_data) {
        return None;
    }
    let graph = MessageGraph::new(plans, messages);
    let rounds = graph.least_rounds(messages)?;
    let enough = most_messages(plans.len(), messages);
    (rounds.count > enough.max(graph.busiest)).then(|| describe_rounds(prepared, messages, &rounds, enough))
}

/// Returns true if all messages have the same number of bytes.
fn have_one_size(plans: &[Plan], messages: &[MatchedMessage]) -> bool {
    let mut sizes = messages.iter().filter_map(|message| {
        let inst = plans.get(message.send.rank as usize)?.inst(message.send.inst);
        inst.kind.read_views().first().map(|view| view.len() * view.dtype.byte_size())
    });
    let first = sizes.next();
    sizes.all(|size| Some(size) == first)
}

/// Returns true if a rank's messages may have to come in their order: one sends data that others have sent, or
/// collectives are between them.
fn is_ordered_by_data(plan: &Plan) -> bool {
    let mut received: FxHashSet<BufferId> = FxHashSet::default();
    let (mut any_message, mut collective_since) = (false, false);
    for (_, inst) in plan.cursor() {
        match &inst.kind {
            InstKind::Message { .. } if collective_since => return true,
            InstKind::Message { header, .. } if header.direction.is_send() => {
                if reads_any(&inst, &received) {
                    return true;
                }
                any_message = true;
            }
            InstKind::Message { view, .. } => {
                any_message = true;
                received.insert(view.buffer);
            }
            InstKind::Collective(collective) => {
                collective_since |= any_message;
                received.extend(collective.output.iter().map(|view| view.buffer));
            }
            kind => {
                if reads_any(&inst, &received) {
                    received.extend(kind.written_views().into_iter().map(|view| view.buffer));
                }
            }
        }
    }
    false
}

fn reads_any(inst: &Inst, buffers: &FxHashSet<BufferId>) -> bool {
    inst.kind.read_views().into_iter().any(|view| buffers.contains(&view.buffer))
}

/// The largest number of messages that a rank sends, or receives.
fn most_messages(ranks: usize, messages: &[MatchedMessage]) -> usize {
    let mut counts = vec![[0usize; 2]; ranks];
    for message in messages {
        counts[message.send.rank as usize][0] += 1;
        counts[message.receive.rank as usize][1] += 1;
    }
    counts.into_iter().flatten().max().unwrap_or(0)
}

/// A point of the order: a message, or the start or end of a unit.
type NodeId = u32;

/// The order of all ranks' messages as a graph without cycles. The first nodes are the messages.
struct MessageGraph {
    /// By node: its rounds.
    rounds: Vec<usize>,
    edges: Vec<(NodeId, NodeId)>,
    /// The largest number of rounds that the units of one rank take, one after another.
    busiest: usize,
}

/// A lower bound of the rounds of an order, and the messages that prove it.
struct LeastRounds {
    count: usize,
    /// A longest chain of messages, by number.
    chain: Vec<usize>,
}

/// A queue's last point.
type LastNode = Option<NodeId>;

/// A group of sends and receives, or one of them alone.
#[derive(Default)]
struct OpenUnit {
    depth: u32,
    messages: Vec<NodeId>,
    sends: usize,
    works: Vec<WorkSlot>,
    /// The streams of the posts.
    streams: SmallVec<[StreamSlot; 2]>,
    /// The points of the streams at the posts.
    after: Vec<NodeId>,
}

/// Adds one rank's order to a graph.
struct RankOrder<'g> {
    graph: &'g mut MessageGraph,
    rank: u32,
    numbers: &'g FxHashMap<RankInst, NodeId>,
    streams: Vec<LastNode>,
    /// By communicator and stream: the end of the last unit that was issued there.
    units: FxHashMap<(CommSlot, StreamSlot), NodeId>,
    works: FxHashMap<WorkSlot, NodeId>,
    group: OpenUnit,
    busy: usize,
}

impl MessageGraph {
    fn new(plans: &[Plan], messages: &[MatchedMessage]) -> Self {
        let mut graph = Self { rounds: vec![1; messages.len()], edges: Vec::new(), busiest: 0 };
        let sides = messages
            .iter()
            .zip(0..)
            .flat_map(|(message, number)| [message.send, message.receive].map(|side| (side, number)));
        let numbers: FxHashMap<RankInst, NodeId> = sides.collect();
        for plan in plans {
            let order = RankOrder {
                rank: plan.rank,
                numbers: &numbers,
                streams: vec![None; plan.streams as usize],
                units: FxHashMap::default(),
                works: FxHashMap::default(),
                group: OpenUnit::default(),
                busy: 0,
                graph: &mut graph,
            };
            let busy = order.add_plan(plan);
            graph.busiest = graph.busiest.max(busy);
        }
        graph
    }

    fn add_node(&mut self, rounds: usize, before: impl IntoIterator<Item = NodeId>) -> NodeId {
        let node = self.rounds.len() as NodeId;
        self.rounds.push(rounds);
        self.edges.extend(before.into_iter().map(|before| (before, node)));
        node
    }

    /// The nodes in an order that respects all edges; `None` if there is none.
    fn sorted_nodes(&self) -> Option<Vec<NodeId>> {
        let mut open = vec![0u32; self.rounds.len()];
        let next = self.successors();
        self.edges.iter().for_each(|&(_, to)| open[to as usize] += 1);
        let mut sorted: Vec<NodeId> =
            (0..self.rounds.len() as NodeId).filter(|&node| open[node as usize] == 0).collect();
        let mut place = 0;
        while let Some(&node) = sorted.get(place) {
            place += 1;
            for &to in &next[node as usize] {
                open[to as usize] -= 1;
                if open[to as usize] == 0 {
                    sorted.push(to);
                }
            }
        }
        (sorted.len() == self.rounds.len()).then_some(sorted)
    }

    fn successors(&self) -> Vec<Vec<NodeId>> {
        let mut next = vec![Vec::new(); self.rounds.len()];
        self.edges.iter().for_each(|&(from, to)| next[from as usize].push(to));
        next
    }

    /// A lower bound of the rounds that the messages take in this order.
    fn least_rounds(&self, messages: &[MatchedMessage]) -> Option<LeastRounds> {
        let sorted = self.sorted_nodes()?;
        let next = self.successors();
        let mut heads = vec![0usize; self.rounds.len()];
        let mut through: Vec<LastNode> = vec![None; self.rounds.len()];
        for &node in &sorted {
            let end = heads[node as usize] + self.rounds[node as usize];
            for &to in &next[node as usize] {
                if heads[to as usize] < end {
                    heads[to as usize] = end;
                    through[to as usize] = Some(node);
                }
            }
        }
        let mut tails = vec![0usize; self.rounds.len()];
        for &node in sorted.iter().rev() {
            let after = next[node as usize].iter().map(|&to| self.rounds[to as usize] + tails[to as usize]);
            tails[node as usize] = after.max().unwrap_or(0);
        }
        let last = (0..messages.len()).max_by_key(|&number| heads[number])?;
        let count = side_rounds(messages, &heads, &tails).max(heads[last] + 1);
        let mut chain = vec![last];
        let mut node = through[last];
        while let Some(before) = node {
            chain.extend(Some(before as usize).filter(|&number| number < messages.len()));
            node = through[before as usize];
        }
        chain.reverse();
        Some(LeastRounds { count, chain })
    }
}

/// The largest bound of a side: its messages in turn, each after its head, the one with the longest tail first.
fn side_rounds(messages: &[MatchedMessage], heads: &[usize], tails: &[usize]) -> usize {
    let mut sides: FxHashMap<(u32, bool), Vec<usize>> = FxHashMap::default();
    for (number, message) in messages.iter().enumerate() {
        sides.entry((message.send.rank, true)).or_default().push(number);
        sides.entry((message.receive.rank, false)).or_default().push(number);
    }
    let bounds = sides.into_values().map(|mut jobs| {
        jobs.sort_unstable_by_key(|&number| heads[number]);
        let mut ready: BinaryHeap<usize> = BinaryHeap::new();
        let (mut place, mut time, mut bound) = (0, 0, 0);
        while place < jobs.len() || !ready.is_empty() {
            if ready.is_empty() {
                time = time.max(heads[jobs[place]]);
            }
            while let Some(&number) = jobs.get(place).filter(|&&number| heads[number] <= time) {
                ready.push(tails[number]);
                place += 1;
            }
            if let Some(tail) = ready.pop() {
                time += 1;
                bound = bound.max(time + tail);
            }
        }
        bound
    });
    bounds.max().unwrap_or(0)
}

impl RankOrder<'_> {
    /// Adds all instructions; returns the number of rounds of the rank's own units one after another.
    fn add_plan(mut self, plan: &Plan) -> usize {
        for (id, inst) in plan.cursor() {
            self.add_inst(id, &inst);
        }
        self.busy
    }

    fn add_inst(&mut self, id: InstId, inst: &Inst) {
        let stream = inst.stream.index();
        match &inst.kind {
            InstKind::WaitWork { work } => {
                let node = self.works.get(work).copied();
                self.join_node(stream, node);
            }
            InstKind::GroupBegin => self.group.depth += 1,
            InstKind::GroupEnd { comm, work } => {
                self.group.depth = self.group.depth.saturating_sub(1);
                self.group.works.push(*work);
                if self.group.depth == 0 {
                    self.add_unit(*comm);
                }
            }
            InstKind::Message { header: MessageHeader { comm, work, .. }, .. } => {
                let side = RankInst { rank: self.rank, inst: id };
                let Some(&message) = self.numbers.get(&side) else { return };
                match comm {
                    Some(comm) => self.add_post(message, *comm, inst, *work),
                    None => self.add_stream_message(stream, message, inst, *work),
                }
            }
            _ => {}
        }
    }

    /// A stream goes on after a point.
    fn join_node(&mut self, stream: usize, node: LastNode) {
        let own = self.streams[stream];
        self.streams[stream] = match (own, node) {
            (Some(one), Some(other)) if one != other => Some(self.graph.add_node(0, [one, other])),
            _ => own.or(node),
        };
    }

    fn add_post(&mut self, message: NodeId, comm: CommSlot, inst: &Inst, work: WorkSlot) {
        self.group.after.extend(self.streams[inst.stream.index()]);
        self.group.streams.push(inst.stream);
        self.group.messages.push(message);
        self.group.works.push(work);
        self.group.sends += usize::from(inst.kind.is_message(MessageDirection::Send));
        if self.group.depth == 0 {
            self.add_unit(comm);
        }
    }

    /// Adds a unit: it starts after its posts and the last unit of their streams, and ends after its messages.
    fn add_unit(&mut self, comm: CommSlot) {
        let unit = std::mem::take(&mut self.group);
        let last: Vec<NodeId> =
            unit.streams.iter().filter_map(|&stream| self.units.get(&(comm, stream)).copied()).collect();
        let start = self.graph.add_node(0, unit.after.into_iter().chain(last));
        let rounds = unit.sends.max(unit.messages.len() - unit.sends);
        let several = (rounds > 1).then(|| self.graph.add_node(rounds, [start]));
        self.graph.edges.extend(unit.messages.iter().map(|&message| (start, message)));
        let end = self.graph.add_node(0, unit.messages.into_iter().chain(several));
        self.units.extend(unit.streams.into_iter().map(|stream| ((comm, stream), end)));
        self.works.extend(unit.works.into_iter().map(|work| (work, end)));
        self.busy += rounds;
    }

    /// Adds a message on a stream: it starts after both sides, and the initiator's stream continues after it.
    fn add_stream_message(&mut self, stream: usize, message: NodeId, inst: &Inst, work: WorkSlot) {
        self.graph.edges.extend(self.streams[stream].map(|before| (before, message)));
        self.works.insert(work, message);
        if inst.kind.initiates_transfer() {
            self.streams[stream] = Some(message);
            self.busy += 1;
        }
    }
}

/// The warning for an order that takes more rounds than needed.
fn describe_rounds(
    prepared: &PreparedProgram,
    messages: &[MatchedMessage],
    rounds: &LeastRounds,
    enough: usize,
) -> Diag {
    let labels = &prepared.labels;
    let text = format!("the order of these messages takes {} rounds, and {enough} suffice", rounds.count);
    let last = rounds.chain.last().and_then(|&number| messages.get(number));
    let Some(last) = last else { return Diag::global_error(codes::EXCHANGE_ROUNDS, text).into_warning() };
    let sides = [last.send, last.receive].map(|side| {
        let plan = &prepared.plans[side.rank as usize];
        (plan, plan.inst(side.inst).origin)
    });
    let [(sender, send), (receiver, receive)] = sides;
    let mut diag = Diag::error(codes::EXCHANGE_ROUNDS, labels.op_span(send.op), text)
        .into_warning()
        .with_primary_text(message!("rank {} sends its last message here", sender.rank));
    if receive.op != send.op {
        diag = diag.with_label(labels.op_span(receive.op), message!("rank {} receives it here", receiver.rank));
    }
    if let Some(end) = group_end(sender, last.send.inst) {
        let text = "and the next messages wait until all of this group are done";
        diag = diag.with_label(labels.op_span(end.origin.op), text);
    }
    let shown = rounds.chain.iter().filter_map(|&number| messages.get(number)).take(MOST_SHOWN);
    let chain: Vec<String> =
        shown.map(|message| format!("{} -> {}", message.send.rank, message.receive.rank)).collect();
    let more = if rounds.chain.len() > MOST_SHOWN { ", ..." } else { "" };
    diag.with_note(message!("in a round each rank sends one message and receives one; these come one after another (ranks): {}{}", chain.join(", "), more))
        .with_note("let all ranks be busy in each step: in step s, rank r sends to `( rank + s ) % n` and receives from `( rank + n - s ) % n`, both in one group")
}

/// The end of the group that contains a message.
fn group_end(plan: &Plan, id: InstId) -> Option<Cow<'_, Inst>> {
    let mut later = plan.cursor_after(id).map(|(_, inst)| inst);
    let bound = later.find(|inst| inst.kind.is_group_bound());
    bound.filter(|inst| matches!(inst.kind, InstKind::GroupEnd { .. }))
}
