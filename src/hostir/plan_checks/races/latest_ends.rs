//! The latest ends of accesses on each queue.

use crate::plan_checks::happens_before::{AccessEnd, ChainPoint, VectorClock, WalkedEnds};
use smallvec::SmallVec;

/// The maximum number of queues whose ends are followed.
const MOST_QUEUES: usize = 64;

/// The latest end of some accesses on each queue: what is after these is after all.
#[derive(Default, Debug)]
pub(super) struct LatestEnds {
    /// In no order, one for each queue.
    points: SmallVec<[ChainPoint; 4]>,
    /// Ends of messages that the walk had not reached.
    messages: Vec<AccessEnd>,
    /// True if there are accesses on more queues.
    has_more: bool,
}

impl LatestEnds {
    /// Adds the end of an access.
    pub(super) fn add_end(&mut self, end: AccessEnd) {
        match end {
            AccessEnd::Point(point) => self.add_point(point),
            AccessEnd::Message(_) => self.messages.push(end),
        }
    }

    fn add_point(&mut self, point: ChainPoint) {
        if let Some(known) = self.points.iter_mut().find(|known| known.chain == point.chain) {
            known.count = known.count.max(point.count);
        } else if self.points.len() < MOST_QUEUES {
            self.points.push(point);
        } else {
            self.has_more = true;
        }
    }

    /// Returns true if a clock has reached all ends. False may also mean that this is not known.
    pub(super) fn are_before(&mut self, ends: &WalkedEnds, clock: &VectorClock) -> bool {
        while let Some(&message) = self.messages.last() {
            let Some(point) = ends.end_point(message) else { return false };
            self.add_point(point);
            self.messages.pop();
        }
        !self.has_more && self.points.iter().all(|&point| clock.has_reached(point))
    }
}
