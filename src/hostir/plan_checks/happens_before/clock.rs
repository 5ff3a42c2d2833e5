//! Vector clocks over the queues of all ranks.

use crate::plan::{CommSlot, Plan, StreamSlot};
use std::rc::Rc;

/// A queue of a rank as an axis of the clocks: a stream or a communicator's queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct ChainId(u32);

/// A point of a queue: the number of its items that are done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ChainPoint {
    /// The queue.
    pub(crate) chain: ChainId,
    /// The number of items.
    pub(crate) count: u32,
}

/// Plans that differ only by a rotation of the ranks: a point of one rank has a counterpart on each other rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RankRotation {
    /// Number of ranks.
    ranks: u32,
    /// Number of chains of each rank.
    chains: u32,
}

impl RankRotation {
    /// The distance of a rank's chains from those of rank 0.
    fn offset_of(self, rank: u32) -> usize {
        (rank % self.ranks * self.chains) as usize
    }
    /// The counterpart of a point of rank 0 on another rank.
    pub(crate) fn rotate_point(self, point: ChainPoint, rank: u32) -> ChainPoint {
        let all = self.ranks * self.chains;
        ChainPoint { chain: ChainId((point.chain.0 + self.offset_of(rank) as u32) % all), ..point }
    }
    /// The rank on which rank 0 has the role that the given rank has here.
    pub(crate) fn opposite_of(self, rank: u32) -> u32 {
        (self.ranks - rank % self.ranks) % self.ranks
    }
}

/// The chains of all ranks.
#[derive(Clone, Debug)]
pub(crate) struct ChainTable {
    /// By rank: the chain of its first stream; the other streams follow, then the communicators.
    first: Vec<u32>,
    /// By rank: the number of its streams.
    streams: Vec<u32>,
    count: usize,
}

impl ChainTable {
    /// The chains of these plans.
    pub(crate) fn new(plans: &[Plan]) -> Self {
        let mut count = 0u32;
        let mut first = Vec::new();
        for plan in plans {
            first.push(count);
            count += plan.streams + plan.communicators.len() as u32;
        }
        Self { first, streams: plans.iter().map(|plan| plan.streams).collect(), count: count as usize }
    }
    /// The rotation of ranks that have equally many chains.
    pub(crate) fn rank_rotation(&self) -> RankRotation {
        let ranks = self.first.len().max(1) as u32;
        RankRotation { ranks, chains: self.count as u32 / ranks }
    }
    /// The chain of a rank's stream.
    pub(crate) fn stream_chain(&self, rank: usize, stream: StreamSlot) -> ChainId {
        ChainId(self.first[rank] + stream.0)
    }
    /// The chain of a rank's communicator.
    pub(crate) fn communicator_chain(&self, rank: usize, comm: CommSlot) -> ChainId {
        ChainId(self.first[rank] + self.streams[rank] + comm.0)
    }
    /// The clock before anything.
    pub(crate) fn initial_clock(&self) -> VectorClock {
        VectorClock { counts: std::iter::repeat_n(0, self.count).collect() }
    }
}

/// The part of each queue that is known to be done at some point (Mattern, "Virtual Time and Global States of
/// Distributed Systems", 1989): point `a` happens before point `b` iff `b`'s clock has reached `a`.
///
/// Clones share their counts until one of them changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct VectorClock {
    counts: Rc<[u32]>,
}

impl VectorClock {
    /// Merges another clock into this one; returns true if it had anything new.
    pub(crate) fn join_clock(&mut self, other: &VectorClock) -> bool {
        if Rc::ptr_eq(&self.counts, &other.counts) {
            return false;
        }
        let (mut is_after, mut is_ahead) = (false, false);
        for (&own, &other) in self.counts.iter().zip(&*other.counts) {
            is_after |= own < other;
            is_ahead |= own > other;
        }
        if is_after && is_ahead {
            let counts = Rc::make_mut(&mut self.counts);
            counts.iter_mut().zip(&*other.counts).for_each(|(own, &other)| *own = other.max(*own));
        } else if is_after {
            self.counts = Rc::clone(&other.counts);
        }
        is_after
    }
    /// Whether it knows of nothing.
    pub(crate) fn is_initial(&self) -> bool {
        self.counts.iter().all(|&count| count == 0)
    }
    /// Adds one point.
    pub(crate) fn join_point(&mut self, point: ChainPoint) {
        let own = &mut Rc::make_mut(&mut self.counts)[point.chain.0 as usize];
        *own = (*own).max(point.count);
    }
    /// The point after a queue's next item.
    pub(crate) fn next_point(&self, chain: ChainId) -> ChainPoint {
        ChainPoint { chain, count: self.counts[chain.0 as usize] + 1 }
    }
    /// Adds an item to a queue.
    pub(crate) fn advance_chain(&mut self, chain: ChainId) {
        Rc::make_mut(&mut self.counts)[chain.0 as usize] += 1;
    }
    /// The clock at the counterpart of its point on another rank, for plans that differ by a rotation.
    pub(crate) fn rotated_by(&self, rotation: RankRotation, rank: u32) -> Self {
        let mut rotated = self.clone();
        let offset = rotation.offset_of(rank);
        if offset > 0 {
            Rc::make_mut(&mut rotated.counts).rotate_right(offset);
        }
        rotated
    }
    /// Merges the counterparts of a clock on all ranks into this one.
    pub(crate) fn join_rotations(&mut self, other: &VectorClock, rotation: RankRotation) {
        let mut most = vec![0; rotation.chains as usize];
        for counts in other.counts.chunks_exact(most.len()) {
            most.iter_mut().zip(counts).for_each(|(most, &count)| *most = count.max(*most));
        }
        for counts in Rc::make_mut(&mut self.counts).chunks_exact_mut(most.len()) {
            counts.iter_mut().zip(&most).for_each(|(own, &most)| *own = most.max(*own));
        }
    }
    /// Returns true if a point has passed: every step with this clock happens after it.
    pub(crate) fn has_reached(&self, point: ChainPoint) -> bool {
        self.counts[point.chain.0 as usize] >= point.count
    }
}
