//! Places at which a loop's work can be cut into stages: between two communications of one queue.

use super::loops::{StreamLoop, op_with_inner};
use crate::ir::{AttrKey, AttrValue, CommBackend, ExprId, OpEffect, OpId, Program, Symbol, Value};
use rustc_hash::FxHashSet;

/// A communicator's queue as the text names it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct QueueName {
    backend: CommBackend,
    /// The communicator's name.
    name: Option<Symbol>,
    /// The mesh axis of its teams.
    over: Option<ExprId>,
    /// The team; `None` for the communicator of sends and receives.
    team: Option<AttrValue>,
}

/// A communication of a loop's work.
#[derive(Clone, Debug)]
struct QueuedPost {
    post: OpId,
    /// Its place, or that of the branch or loop that contains it, among the loop's work.
    place: usize,
    queue: QueueName,
}

/// Two communications of one queue that an iteration posts one after the other, and the places between them at which
/// its work can be cut: the first place after the first one, and the last place before the second one.
#[derive(Clone, Debug)]
pub(super) struct CutPair {
    pub(super) first: OpId,
    pub(super) second: OpId,
    pub(super) places: Vec<usize>,
}

/// The pairs of neighbours in a queue between which a loop's work can be cut, one for each pair of places.
pub(super) fn list_cuts(program: &Program, looped: &StreamLoop) -> Vec<CutPair> {
    let posts = list_posts(program, looped);
    let closed = closed_places(program, looped);
    let mut found: Vec<CutPair> = Vec::new();
    let mut known = FxHashSet::default();
    for (number, post) in posts.iter().enumerate() {
        let next = posts[number + 1..].iter().find(|other| other.queue == post.queue && other.place > post.place);
        let Some(next) = next else { continue };
        let places = cut_places(program, looped, &closed, post.place, next.place);
        if !places.is_empty() && known.insert((post.place, next.place)) {
            found.push(CutPair { first: post.post, second: next.post, places });
        }
    }
    found
}

fn list_posts(program: &Program, looped: &StreamLoop) -> Vec<QueuedPost> {
    let mut posts = Vec::new();
    for (place, &op) in looped.work.iter().enumerate() {
        for post in op_with_inner(program, op) {
            posts.extend(queue_name(program, post).map(|queue| QueuedPost { post, place, queue }));
        }
    }
    posts
}

/// The queue of a communication; `None` for messages on streams, which have none.
fn queue_name(program: &Program, id: OpId) -> Option<QueueName> {
    let op = program.op(id);
    let backend = program.comm_backend(op);
    let is_queued = op.kind.is_collective() || backend != CommBackend::Cuda;
    let team = op.attr(AttrKey::Team).cloned();
    let over = op.expr_attr(AttrKey::Over);
    (op.kind.is_post() && is_queued).then_some(QueueName { backend, over, name: op.word_attr(AttrKey::Comm), team })
}

/// By place: true if no communication is under way there, and no group is open. All are false if an iteration waits for
/// an element of an array of handles that another one starts: then iterations depend on each other.
fn closed_places(program: &Program, looped: &StreamLoop) -> Vec<bool> {
    let mut open: FxHashSet<(u32, Option<ExprId>)> = FxHashSet::default();
    let mut is_grouped = false;
    let mut closed = Vec::with_capacity(looped.work.len());
    for &op in &looped.work {
        closed.push(open.is_empty() && !is_grouped);
        for id in op_with_inner(program, op) {
            let op = program.op(id);
            let element = op.expr_attr(AttrKey::Element);
            is_grouped = (is_grouped || op.kind.is_group_start()) && !op.kind.is_group_end();
            if op.kind.is_wait() {
                for value in &op.operands {
                    let Value::Handle(waited) = *value else { continue };
                    if element.is_some() && !open.contains(&(waited, element)) {
                        return vec![false; looped.work.len()];
                    }
                    open.retain(|(number, of)| *number != waited || element.is_some() && *of != element);
                }
            } else if !is_grouped {
                open.extend(op.number().map(|number| (number, element)));
            }
        }
    }
    closed
}

/// The first closed place after one place and the last one up to another, without the slices and allocations that
/// belong to what follows.
fn cut_places(program: &Program, looped: &StreamLoop, closed: &[bool], first: usize, second: usize) -> Vec<usize> {
    let between: Vec<usize> = (first + 1..=second).filter(|&place| closed[place]).collect();
    let (Some(&earliest), Some(&last)) = (between.first(), between.last()) else { return Vec::new() };
    let prepared = (earliest..last).rev().take_while(|&place| {
        let effect = program.op(looped.work[place]).kind.effect();
        matches!(effect, OpEffect::Alias | OpEffect::Allocate)
    });
    let prepared = prepared.last();
    let latest = prepared.unwrap_or(last);
    if latest > earliest { vec![earliest, latest] } else { vec![earliest] }
}
