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
        VectorClock { blocks: shared_blocks(&vec![0; self.count]) }
    }
}

/// The part of each queue that is known to be done at some point (Mattern, "Virtual Time and Global States of
/// Distributed Systems", 1989): point `a` happens before point `b` iff `b`'s clock has reached `a`.
///
/// The counts lie in blocks of [`BLOCK`]. Clones share all blocks until one of them changes, and then those that stay
/// equal: of a thousand ranks' queues most steps change those of one rank.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct VectorClock {
    blocks: Rc<[CountBlock]>,
}

/// Neighbouring counts of a clock.
type CountBlock = Rc<[u32]>;

/// The number of counts of a block.
const BLOCK: usize = 128;

/// The blocks of counts.
fn shared_blocks(counts: &[u32]) -> Rc<[CountBlock]> {
    counts.chunks(BLOCK).map(Rc::from).collect()
}

/// The order of two lists of counts.
#[derive(Clone, Copy, Default)]
struct CountOrder {
    /// The other one is larger somewhere.
    is_after: bool,
    /// The first one is larger somewhere.
    is_ahead: bool,
}

impl CountOrder {
    fn of_counts(own: &[u32], other: &[u32]) -> Self {
        let (mut is_after, mut is_ahead) = (false, false);
        for (&own, &other) in own.iter().zip(other) {
            is_after |= own < other;
            is_ahead |= own > other;
        }
        Self { is_after, is_ahead }
    }
    fn or(self, other: Self) -> Self {
        Self { is_after: self.is_after | other.is_after, is_ahead: self.is_ahead | other.is_ahead }
    }
}

/// Merges a block into another one.
fn join_block(own: &mut CountBlock, other: &CountBlock) {
    if Rc::ptr_eq(own, other) {
        return;
    }
    let order = CountOrder::of_counts(own, other);
    if order.is_after && order.is_ahead {
        Rc::make_mut(own).iter_mut().zip(&**other).for_each(|(own, &other)| *own = other.max(*own));
    } else if order.is_after {
        *own = Rc::clone(other);
    }
}

impl VectorClock {
    /// Merges another clock into this one; returns true if it had anything new.
    pub(crate) fn join_clock(&mut self, other: &VectorClock) -> bool {
        if Rc::ptr_eq(&self.blocks, &other.blocks) {
            return false;
        }
        let pairs = self.blocks.iter().zip(&*other.blocks).filter(|(own, other)| !Rc::ptr_eq(own, other));
        let order =
            pairs.fold(CountOrder::default(), |order, (own, other)| order.or(CountOrder::of_counts(own, other)));
        if order.is_after && order.is_ahead {
            let blocks = Rc::make_mut(&mut self.blocks);
            blocks.iter_mut().zip(&*other.blocks).for_each(|(own, other)| join_block(own, other));
        } else if order.is_after {
            self.blocks = Rc::clone(&other.blocks);
        }
        order.is_after
    }
    /// Whether it knows of nothing.
    pub(crate) fn is_initial(&self) -> bool {
        self.blocks.iter().all(|block| block.iter().all(|&count| count == 0))
    }
    fn count(&self, chain: ChainId) -> u32 {
        self.blocks[chain.0 as usize / BLOCK][chain.0 as usize % BLOCK]
    }
    fn count_mut(&mut self, chain: ChainId) -> &mut u32 {
        let block = &mut Rc::make_mut(&mut self.blocks)[chain.0 as usize / BLOCK];
        &mut Rc::make_mut(block)[chain.0 as usize % BLOCK]
    }
    /// Adds one point.
    pub(crate) fn join_point(&mut self, point: ChainPoint) {
        let own = self.count_mut(point.chain);
        *own = (*own).max(point.count);
    }
    /// The point after a queue's next item.
    pub(crate) fn next_point(&self, chain: ChainId) -> ChainPoint {
        ChainPoint { chain, count: self.count(chain) + 1 }
    }
    /// Adds an item to a queue.
    pub(crate) fn advance_chain(&mut self, chain: ChainId) {
        *self.count_mut(chain) += 1;
    }
    /// All counts in order.
    fn all_counts(&self) -> Vec<u32> {
        self.blocks.iter().flat_map(|block| block.iter().copied()).collect()
    }
    /// The clock at the counterpart of its point on another rank, for plans that differ by a rotation.
    pub(crate) fn rotated_by(&self, rotation: RankRotation, rank: u32) -> Self {
        let offset = rotation.offset_of(rank);
        if offset == 0 {
            return self.clone();
        }
        let mut counts = self.all_counts();
        counts.rotate_right(offset);
        Self { blocks: shared_blocks(&counts) }
    }
    /// Merges the counterparts of a clock on all ranks into this one.
    pub(crate) fn join_rotations(&mut self, other: &VectorClock, rotation: RankRotation) {
        let mut most = vec![0; rotation.chains as usize];
        for counts in other.all_counts().chunks_exact(most.len()) {
            most.iter_mut().zip(counts).for_each(|(most, &count)| *most = count.max(*most));
        }
        let mut all = self.all_counts();
        for counts in all.chunks_exact_mut(most.len()) {
            counts.iter_mut().zip(&most).for_each(|(own, &most)| *own = most.max(*own));
        }
        self.blocks = shared_blocks(&all);
    }
    /// Returns true if a point has passed: every step with this clock happens after it.
    pub(crate) fn has_reached(&self, point: ChainPoint) -> bool {
        self.count(point.chain) >= point.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clocks of many queues beside plain lists of counts.
    #[test]
    fn clocks_are_lists_of_counts() {
        let mut rng = fastrand::Rng::with_seed(5);
        for chains in [1, 127, 128, 300, 1024] {
            let table = ChainTable { first: vec![0], streams: vec![chains as u32], count: chains };
            let mut clocks = vec![table.initial_clock(); 4];
            let mut lists = vec![vec![0; chains]; 4];
            for _ in 0..400 {
                let (one, other, chain) = (rng.usize(0..4), rng.usize(0..4), rng.usize(0..chains));
                let point = ChainPoint { chain: ChainId(chain as u32), count: rng.u32(0..4) };
                if rng.bool() {
                    let (joined, before) = (clocks[other].clone(), lists[one].clone());
                    let with: Vec<u32> = lists[other].clone();
                    lists[one].iter_mut().zip(&with).for_each(|(own, &other)| *own = other.max(*own));
                    assert_eq!(clocks[one].join_clock(&joined), lists[one] != before);
                } else if rng.bool() {
                    clocks[one].advance_chain(point.chain);
                    lists[one][chain] += 1;
                } else {
                    clocks[one].join_point(point);
                    lists[one][chain] = lists[one][chain].max(point.count);
                }
                assert_eq!(clocks[one].all_counts(), lists[one]);
                assert_eq!(clocks[one].has_reached(point), lists[one][chain] >= point.count);
                assert_eq!(clocks[one].is_initial(), lists[one].iter().all(|&count| count == 0));
            }
        }
    }
}
