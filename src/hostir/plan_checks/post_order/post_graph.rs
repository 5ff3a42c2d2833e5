//! The graph of the orders in which ranks post, and its cycles.
//!
//! A collective is a node: it starts on no member before all have reached it. A send, a receive or a group starts at
//! one node and ends at a second one, which comes after the start of the other side of each of its messages. On each
//! rank every communication comes after the previous post of the rank. Time and memory are proportional to the number
//! of posts.

use super::RankPost;
use crate::ir::Id;
use crate::plan::{CommSlot, InstId, InstKind, Plan, PlanMatching, QueueAction, RankInst};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, VecDeque};

/// An order that makes each of its ranks wait for the next.
#[derive(Clone, Debug)]
pub(super) struct OrderCircle {
    /// For each rank, its first post and the later one that the next rank posts first.
    pub(super) steps: Vec<CircleStep>,
    /// The communicators, by their indices in the matching.
    pub(super) communicators: BTreeSet<usize>,
}

/// The part of one rank in a circle.
#[derive(Clone, Copy, Debug)]
pub(super) struct CircleStep {
    pub(super) first: RankPost,
    pub(super) second: RankPost,
}

/// The reason why a node comes after another one.
#[derive(Clone, Copy, Debug)]
enum PostLink {
    /// A rank posts the second communication next.
    Order(CircleStep),
    /// One communication: its end is after its start.
    Inside,
    /// A message between two ranks: its end on the second is after its start on the first.
    Message { from: RankPost, to: RankPost },
}

#[derive(Clone, Copy, Debug)]
struct PostEdge {
    from: u32,
    to: u32,
    link: PostLink,
}

/// The nodes of a communication of one rank.
#[derive(Clone, Copy)]
struct PostNodes {
    start: u32,
    end: u32,
}

/// The communications of all ranks as a graph.
#[derive(Default)]
pub(super) struct PostGraph {
    /// By node: the communicator.
    places: Vec<usize>,
    /// In the order of their first nodes, once the graph is complete.
    edges: Vec<PostEdge>,
    /// By node: its first edge; one entry more than nodes.
    outgoing: Vec<usize>,
}

impl PostGraph {
    /// The graph of these plans; empty if no rank posts on two communicators.
    pub(super) fn of_plans(plans: &[Plan], matching: &PlanMatching<'_>) -> Self {
        if plans.iter().all(|plan| plan.communicators.len() < 2) {
            return Self::default();
        }
        let mut builder = GraphBuilder::new(matching);
        let sides: Vec<Vec<(InstId, PostNodes)>> = plans.iter().map(|plan| builder.add_rank(plan)).collect();
        builder.add_messages(matching, &sides);
        let mut graph = builder.graph;
        graph.edges.sort_by_key(|edge| edge.from);
        graph.outgoing = vec![0; graph.places.len() + 1];
        graph.edges.iter().for_each(|edge| graph.outgoing[edge.from as usize + 1] += 1);
        for node in 0..graph.places.len() {
            graph.outgoing[node + 1] += graph.outgoing[node];
        }
        graph
    }

    fn edges_from(&self, node: u32) -> &[PostEdge] {
        &self.edges[self.outgoing[node as usize]..self.outgoing[node as usize + 1]]
    }

    /// A cycle for each set of communicators with one.
    pub(super) fn find_circles(&self) -> Vec<OrderCircle> {
        let mut known: FxHashSet<BTreeSet<usize>> = FxHashSet::default();
        let mut circles = Vec::new();
        for component in self.circular_components() {
            let path = self.shortest_circle(&component);
            let communicators: BTreeSet<usize> = path.iter().map(|edge| self.places[edge.from as usize]).collect();
            if communicators.len() > 1 && known.insert(communicators.clone()) {
                circles.push(OrderCircle { steps: circle_steps(&path), communicators });
            }
        }
        circles
    }

    /// The nodes without an order: those that remain when nodes without open predecessors are removed repeatedly.
    fn unordered_nodes(&self) -> Vec<bool> {
        let mut open = vec![0u32; self.places.len()];
        self.edges.iter().for_each(|edge| open[edge.to as usize] += 1);
        let mut ready: Vec<u32> = (0..open.len() as u32).filter(|&node| open[node as usize] == 0).collect();
        let mut left = vec![true; open.len()];
        while let Some(node) = ready.pop() {
            left[node as usize] = false;
            for edge in self.edges_from(node) {
                open[edge.to as usize] -= 1;
                if open[edge.to as usize] == 0 {
                    ready.push(edge.to);
                }
            }
        }
        left
    }

    /// The strongly connected components of more than one node, in the order of their first nodes (Tarjan, "Depth-first
    /// search and linear graph algorithms", 1972).
    fn circular_components(&self) -> Vec<Vec<u32>> {
        let left = self.unordered_nodes();
        let mut search = ComponentSearch::new(left);
        for node in 0..self.places.len() as u32 {
            search.visit_from(self, node);
        }
        let mut found = search.components;
        found.iter_mut().for_each(|component| component.sort_unstable());
        found.sort_unstable();
        found
    }

    /// The shortest cycle through the first node of a component.
    fn shortest_circle(&self, component: &[u32]) -> Vec<PostEdge> {
        let inside: FxHashSet<u32> = component.iter().copied().collect();
        let Some(&start) = component.first() else { return Vec::new() };
        let mut reached: FxHashMap<u32, PostEdge> = FxHashMap::default();
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            for edge in self.edges_from(node).iter().filter(|edge| inside.contains(&edge.to)) {
                if let Entry::Vacant(place) = reached.entry(edge.to) {
                    place.insert(*edge);
                    queue.push_back(edge.to);
                }
            }
            if reached.contains_key(&start) {
                break;
            }
        }
        let mut path = Vec::new();
        let mut at = start;
        while let Some(edge) = reached.get(&at) {
            path.push(*edge);
            at = edge.from;
            if at == start {
                break;
            }
        }
        path.reverse();
        path
    }
}

/// The ranks' parts of a circle of edges.
fn circle_steps(path: &[PostEdge]) -> Vec<CircleStep> {
    let mut steps: Vec<CircleStep> = Vec::new();
    // True while the last step continues; the side at which the next one begins, if a message leads to it.
    let (mut goes_on, mut begins) = (false, None);
    for edge in path {
        match edge.link {
            PostLink::Inside => {}
            PostLink::Order(step) => {
                match steps.last_mut() {
                    Some(last) if goes_on && last.first.rank == step.first.rank => last.second = step.second,
                    _ => steps.push(CircleStep { first: begins.take().unwrap_or(step.first), ..step }),
                }
                goes_on = true;
            }
            PostLink::Message { from, to } => {
                if let Some(last) = steps.last_mut().filter(|last| goes_on && last.second.rank == from.rank) {
                    last.second = from;
                }
                (goes_on, begins) = (false, Some(to));
            }
        }
    }
    if let (Some(to), Some(first)) = (begins, steps.first_mut()) {
        first.first = to;
    }
    // The cycle may begin inside of a rank's step.
    if let (true, [first, .., last]) = (goes_on, &mut steps[..])
        && first.first.rank == last.first.rank
    {
        first.first = last.first;
        steps.pop();
    }
    steps
}

/// A graph that is being built.
struct GraphBuilder {
    graph: PostGraph,
    /// By rank and slot: the communicator among the matched ones.
    slots: FxHashMap<(u32, CommSlot), usize>,
    /// The nodes of collectives, by communicator and number.
    collectives: FxHashMap<(usize, usize), u32>,
}

impl GraphBuilder {
    fn new(matching: &PlanMatching<'_>) -> Self {
        let mut slots = FxHashMap::default();
        for (place, of_all) in matching.communicators.iter().enumerate() {
            let members = of_all.communicator.team.iter().zip(&of_all.slots);
            slots.extend(members.filter_map(|(&rank, slot)| Some(((rank, (*slot)?), place))));
        }
        Self { graph: PostGraph::default(), slots, collectives: FxHashMap::default() }
    }

    fn add_node(&mut self, place: usize) -> u32 {
        self.graph.places.push(place);
        self.graph.places.len() as u32 - 1
    }

    fn add_edge(&mut self, from: u32, to: u32, link: PostLink) {
        self.graph.edges.push(PostEdge { from, to, link });
    }

    /// Adds the communications of a rank; returns the nodes of its messages, in order.
    fn add_rank(&mut self, plan: &Plan) -> Vec<(InstId, PostNodes)> {
        let mut rank = RankPostOrder { plan, last: None, posted: vec![0; plan.communicators.len()], sides: Vec::new() };
        let (mut open, mut group) = (0u32, Vec::new());
        plan.visit_stored(is_post, |inst, stored| match stored.queue_action() {
            QueueAction::GroupBegin => open += 1,
            QueueAction::GroupEnd(comm, _) => {
                open = open.saturating_sub(1);
                if open == 0 {
                    rank.add_messages(self, comm, &std::mem::take(&mut group));
                }
            }
            QueueAction::Collective(comm, _) => rank.add_collective(self, comm, inst),
            QueueAction::Message(message) => match message.comm {
                Some(_) if open > 0 => group.push(inst),
                Some(comm) => rank.add_messages(self, comm, &[inst]),
                None => {}
            },
            _ => {}
        });
        rank.sides
    }

    /// Joins the two sides of each message.
    fn add_messages(&mut self, matching: &PlanMatching<'_>, sides: &[Vec<(InstId, PostNodes)>]) {
        for message in &matching.messages {
            let [send, receive] = [message.send, message.receive].map(|side| side_nodes(sides, side));
            let (Some(send), Some(receive)) = (send, receive) else { continue };
            let [from, to] = [message.send, message.receive].map(|side| RankPost { rank: side.rank, inst: side.inst });
            self.add_edge(send.start, receive.end, PostLink::Message { from, to });
            self.add_edge(receive.start, send.end, PostLink::Message { from: to, to: from });
        }
    }
}

/// Returns true if an instruction posts a communication, or is an end of a group.
fn is_post(kind: &InstKind) -> bool {
    kind.is_communication() || kind.is_group_bound()
}

/// The nodes of a side of a message, among those of each rank's messages.
fn side_nodes(sides: &[Vec<(InstId, PostNodes)>], side: RankInst) -> Option<PostNodes> {
    let all = sides.get(side.rank as usize)?;
    let at = all.binary_search_by_key(&side.inst, |(inst, _)| *inst).ok()?;
    Some(all[at].1)
}

/// The communications of a rank, as far as they are in the graph.
struct RankPostOrder<'p> {
    plan: &'p Plan,
    /// The end of the last one, and its first instruction.
    last: Option<(u32, InstId)>,
    /// By slot: the number of its collectives.
    posted: Vec<usize>,
    sides: Vec<(InstId, PostNodes)>,
}

impl RankPostOrder<'_> {
    fn add_collective(&mut self, builder: &mut GraphBuilder, comm: CommSlot, inst: InstId) {
        let Some(&place) = builder.slots.get(&(self.plan.rank, comm)) else { return };
        let number = self.posted[comm.index()];
        self.posted[comm.index()] += 1;
        let node = match builder.collectives.get(&(place, number)) {
            Some(&node) => node,
            None => {
                let node = builder.add_node(place);
                builder.collectives.insert((place, number), node);
                node
            }
        };
        self.add_unit(builder, inst, PostNodes { start: node, end: node });
    }

    /// Adds messages that start together.
    fn add_messages(&mut self, builder: &mut GraphBuilder, comm: CommSlot, messages: &[InstId]) {
        let (Some(&place), Some(&first)) = (builder.slots.get(&(self.plan.rank, comm)), messages.first()) else {
            return;
        };
        let nodes = PostNodes { start: builder.add_node(place), end: builder.add_node(place) };
        builder.add_edge(nodes.start, nodes.end, PostLink::Inside);
        self.sides.extend(messages.iter().map(|&inst| (inst, nodes)));
        self.add_unit(builder, first, nodes);
    }

    fn add_unit(&mut self, builder: &mut GraphBuilder, inst: InstId, nodes: PostNodes) {
        let second = RankPost { rank: self.plan.rank, inst };
        if let Some((end, before)) = self.last {
            let first = RankPost { inst: before, ..second };
            builder.add_edge(end, nodes.start, PostLink::Order(CircleStep { first, second }));
        }
        self.last = Some((nodes.end, inst));
    }
}

/// Tarjan's search, with an explicit stack instead of recursion.
struct ComponentSearch {
    /// By node: whether it takes part.
    left: Vec<bool>,
    /// By node: its number in the order of the search, from 1; 0 if not visited.
    numbers: Vec<u32>,
    /// By node: the smallest number that it reaches.
    lowest: Vec<u32>,
    on_stack: Vec<bool>,
    stack: Vec<u32>,
    visited: u32,
    components: Vec<Vec<u32>>,
}

impl ComponentSearch {
    fn new(left: Vec<bool>) -> Self {
        let count = left.len();
        Self {
            left,
            numbers: vec![0; count],
            lowest: vec![0; count],
            on_stack: vec![false; count],
            stack: Vec::new(),
            visited: 0,
            components: Vec::new(),
        }
    }

    /// Visits a node and all that it reaches, unless it was visited.
    fn visit_from(&mut self, graph: &PostGraph, root: u32) {
        if !self.left[root as usize] || self.numbers[root as usize] > 0 {
            return;
        }
        // Nodes on the path, each with the number of its followed edges.
        let mut way: Vec<(u32, usize)> = Vec::new();
        self.enter_node(root);
        way.push((root, 0));
        while let Some((node, followed)) = way.last_mut() {
            let node = *node;
            let Some(edge) = graph.edges_from(node).get(*followed) else {
                way.pop();
                self.leave_node(node, way.last().map(|(before, _)| *before));
                continue;
            };
            *followed += 1;
            let to = edge.to as usize;
            if !self.left[to] {
                continue;
            }
            if self.numbers[to] == 0 {
                self.enter_node(edge.to);
                way.push((edge.to, 0));
            } else if self.on_stack[to] {
                self.lowest[node as usize] = self.lowest[node as usize].min(self.numbers[to]);
            }
        }
    }

    fn enter_node(&mut self, node: u32) {
        self.visited += 1;
        self.numbers[node as usize] = self.visited;
        self.lowest[node as usize] = self.visited;
        self.on_stack[node as usize] = true;
        self.stack.push(node);
    }

    /// Ends a node, reached from `before`; collects its component if it is the first of one.
    fn leave_node(&mut self, node: u32, before: Option<u32>) {
        let lowest = self.lowest[node as usize];
        if let Some(before) = before {
            self.lowest[before as usize] = self.lowest[before as usize].min(lowest);
        }
        if lowest != self.numbers[node as usize] {
            return;
        }
        let mut component = Vec::new();
        while let Some(member) = self.stack.pop() {
            self.on_stack[member as usize] = false;
            component.push(member);
            if member == node {
                break;
            }
        }
        if component.len() > 1 {
            self.components.push(component);
        }
    }
}
