//! Plans that differ only by a rotation of the ranks.
//!
//! In many programs all ranks do the same with their neighbours: the work of rank `r` with rank `p` is that of rank 0
//! with rank `p - r`, modulo the number of ranks. The order of such plans is the same on all ranks, so a check of rank
//! 0 is a check of all. The elements that a rank accesses may differ (block `(rank + i) % 8` of a buffer), as long as
//! sets that overlap on one rank overlap on the others.

use super::element_set::ElementSet;
use crate::plan::{
    BufferId, BufferView, CollectiveInst, Inst, InstKind, InstReader, Plan, RepeatedBody, ViewMotion, row_major,
};
use crate::plan::{InstRole, MessageHeader};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::mem::discriminant;

/// Whether the plan of each rank `r` is that of rank 0 with `r` added to all ranks, modulo their number.
pub fn are_rotations(plans: &[Plan]) -> bool {
    let Some((first, others)) = plans.split_first() else { return false };
    let ranks = plans.len() as u32;
    let in_order = plans.iter().zip(0..).all(|(plan, rank)| plan.rank == rank);
    ranks > 1
        && in_order
        && others.iter().all(|plan| has_same_tables(first, plan, ranks))
        && others.par_iter().all(|plan| is_rotation(first, plan, ranks))
}

/// Returns true if two plans have the same buffers, streams and communicators, the latter of all ranks in order.
fn has_same_tables(first: &Plan, plan: &Plan, ranks: u32) -> bool {
    (first.streams, first.events, first.works) == (plan.streams, plan.events, plan.works)
        && first.inst_count() == plan.inst_count()
        && first.buffers == plan.buffers
        && first.communicators == plan.communicators
        && first.communicators.iter().all(|(_, communicator)| communicator.team.iter().copied().eq(0..ranks))
        && first.inputs == plan.inputs
        && first.notes.ended_owners.is_empty() == plan.notes.ended_owners.is_empty()
}

/// Returns true if a plan is that of rank 0, rotated. Loops are compared in their stored form if possible, else
/// unrolled: ranks that visit blocks in another order wrap around in different iterations.
fn is_rotation(first: &Plan, plan: &Plan, ranks: u32) -> bool {
    let has_same_bodies = stored_shape(first) == stored_shape(plan);
    (has_same_bodies && PlanComparison::new(plan.rank, ranks).are_alike_as_stored(first, plan))
        || PlanComparison::new(plan.rank, ranks).are_alike_unrolled(first, plan)
}

/// The length and the number of rounds of each body of a plan.
fn stored_shape(plan: &Plan) -> Vec<(usize, usize)> {
    plan.repeated_bodies().map(|body| (body.len(), body.rounds)).collect()
}

/// Compares the instructions of rank 0 with those of another rank.
struct PlanComparison {
    /// The other rank.
    rotation: u32,
    ranks: u32,
    map: ElementMap,
}

impl PlanComparison {
    fn new(rotation: u32, ranks: u32) -> Self {
        Self { rotation, ranks, map: ElementMap::default() }
    }

    /// Compares plans whose bodies have the same lengths.
    fn are_alike_as_stored(mut self, first: &Plan, plan: &Plan) -> bool {
        let mut pairs = first.repeated_bodies().zip(plan.repeated_bodies());
        pairs.all(|pair| self.are_alike_bodies(pair)) && self.are_alike_outputs(first, plan)
    }

    /// Compares all instructions.
    fn are_alike_unrolled(mut self, first: &Plan, plan: &Plan) -> bool {
        let (mut ours, mut theirs) = (InstReader::default(), InstReader::default());
        let mut pairs = first.stored_cursor().zip(plan.stored_cursor());
        pairs.all(|((_, one), (_, other))| self.matches(ours.read_inst(one), theirs.read_inst(other), ViewMotion::None))
            && self.are_alike_outputs(first, plan)
    }

    /// Returns true if the outputs are counterparts, and all sets of elements that were compared so far.
    fn are_alike_outputs(&mut self, first: &Plan, plan: &Plan) -> bool {
        let mut outputs = first.outputs.iter().zip(&plan.outputs);
        first.outputs.len() == plan.outputs.len()
            && outputs.all(|pair| match pair {
                (Some(one), Some(other)) => self.map.add_views(one, other, ViewMotion::None),
                _ => false,
            })
            && self.map.keeps_overlaps(first)
    }

    /// Returns true if all rounds of two bodies are counterparts.
    fn are_alike_bodies(&mut self, (ours, theirs): (RepeatedBody<'_>, RepeatedBody<'_>)) -> bool {
        let mut insts = ours.first_round().zip(theirs.first_round());
        ours.steps == theirs.steps
            && insts.all(|(one, other)| {
                let motion = if ours.steps.is_empty() { ViewMotion::None } else { one.view_motion() };
                self.matches(&one.unfold_inst(), &other.unfold_inst(), motion)
            })
    }

    /// Returns true if two instructions are counterparts; `motion` is that of their views.
    fn matches(&mut self, one: &Inst, other: &Inst, motion: ViewMotion) -> bool {
        let (reads, others_reads) = (one.kind.read_views(), other.kind.read_views());
        let (writes, others_writes) = (one.kind.written_views(), other.kind.written_views());
        one.stream == other.stream
            && one.origin == other.origin
            && self.are_alike(&one.kind, &other.kind)
            && reads.len() == others_reads.len()
            && writes.len() == others_writes.len()
            && reads
                .into_iter()
                .chain(writes)
                .zip(others_reads.into_iter().chain(others_writes))
                .all(|(one, other)| self.map.add_views(one, other, motion))
    }

    fn is_peer(&self, one: u32, other: u32) -> bool {
        (one + self.rotation) % self.ranks == other
    }

    /// Returns true if two instructions are counterparts except for the elements of their views.
    fn are_alike(&self, one: &InstKind, other: &InstKind) -> bool {
        match (one, other) {
            (InstKind::Message { header: one, .. }, InstKind::Message { header: other, .. }) => {
                *one == MessageHeader { peer: one.peer, ..*other } && self.is_peer(one.peer, other.peer)
            }
            (InstKind::Collective(one), InstKind::Collective(other)) => are_alike_collectives(one, other),
            _ if one.role() == InstRole::Compute => discriminant(one) == discriminant(other),
            _ => one == other,
        }
    }
}

/// Returns true if two members start the same collective, in which all members have the same role.
fn are_alike_collectives(one: &CollectiveInst, other: &CollectiveInst) -> bool {
    (one.comm, one.kind, one.red_op, one.work) == (other.comm, other.kind, other.red_op, other.work)
        && !one.kind.has_root()
        && one.root.is_none()
        && other.root.is_none()
        && [one, other].iter().all(|side| side.input.is_some() && side.output.is_some())
}

/// The sets of elements of rank 0 and their counterparts on another rank.
#[derive(Default)]
struct ElementMap {
    /// True if views are in another buffer in each round of a loop. Only the first round's are in the map.
    has_moving_buffers: bool,
    buffers: FxHashMap<BufferId, BufferMap>,
}

/// The sets of one buffer.
#[derive(Default)]
struct BufferMap {
    forward: FxHashMap<ElementSet, ElementSet>,
    backward: FxHashMap<ElementSet, ElementSet>,
    /// True if sets move in each round of a loop. Only the first round's are in the map.
    has_moving: bool,
    /// True if a set has another position on the other rank.
    has_different: bool,
}

impl ElementMap {
    /// Adds two views that are counterparts; returns false if that contradicts an earlier pair.
    fn add_views(&mut self, one: &BufferView, other: &BufferView, motion: ViewMotion) -> bool {
        if one.buffer != other.buffer || one.dtype != other.dtype || one.len() != other.len() {
            return false;
        }
        let (Some(ours), Some(theirs)) = (ElementSet::of_view(one), ElementSet::of_view(other)) else {
            return one.is_empty() && other.is_empty();
        };
        let map = self.buffers.entry(one.buffer).or_default();
        self.has_moving_buffers |= motion == ViewMotion::Buffers;
        map.has_moving |= motion != ViewMotion::None;
        map.has_different |= ours != theirs;
        if map.forward.get(&ours).is_some_and(|known| *known == theirs) {
            return true;
        }
        let is_new = !map.forward.contains_key(&ours) && !map.backward.contains_key(&theirs);
        map.forward.insert(ours.clone(), theirs.clone());
        map.backward.insert(theirs, ours);
        is_new
    }

    /// Returns true if sets overlap on the other rank iff they do on rank 0, in as many elements.
    fn keeps_overlaps(&self, first: &Plan) -> bool {
        self.buffers.iter().filter(|(_, map)| map.has_different).all(|(&buffer, map)| {
            let whole = &first.buffers[buffer];
            let view = BufferView { buffer, offset: 0, dims: row_major(&[whole.elements]), dtype: whole.dtype };
            let whole = ElementSet::of_view(&view);
            let whole_is_whole = whole.is_none_or(|whole| map.forward.get(&whole).is_none_or(|other| *other == whole));
            !self.has_moving_buffers && !map.has_moving && whole_is_whole && map.keeps_nesting()
        })
    }
}

impl BufferMap {
    /// Returns true if the sets are ranges that are nested or disjoint, in the same way on both ranks.
    fn keeps_nesting(&self) -> bool {
        let pairs: Vec<(&ElementSet, &ElementSet)> = self.forward.iter().collect();
        let (ours, theirs): (Vec<&ElementSet>, Vec<&ElementSet>) = pairs.into_iter().unzip();
        match (enclosing_sets(&ours), enclosing_sets(&theirs)) {
            (Some(one), Some(other)) => {
                one == other && ours.iter().zip(&theirs).all(|(a, b)| a.bounds().len() == b.bounds().len())
            }
            _ => false,
        }
    }
}

/// By set: the smallest other set that encloses it; `None` if sets are not ranges, or overlap in part.
fn enclosing_sets(sets: &[&ElementSet]) -> Option<Vec<Option<usize>>> {
    if !sets.iter().all(|set| set.is_interval()) {
        return None;
    }
    let mut order: Vec<usize> = (0..sets.len()).collect();
    order.sort_by_key(|&at| (sets[at].bounds().start, std::cmp::Reverse(sets[at].bounds().end)));
    let mut enclosing = vec![None; sets.len()];
    let mut open: Vec<usize> = Vec::new();
    for at in order {
        let bounds = sets[at].bounds();
        while open.last().is_some_and(|&outer| sets[outer].bounds().end <= bounds.start) {
            open.pop();
        }
        if let Some(&outer) = open.last() {
            if sets[outer].bounds().end < bounds.end {
                return None;
            }
            enclosing[at] = Some(outer);
        }
        open.push(at);
    }
    Some(enclosing)
}
