//! The accesses to one buffer so far: for each set of elements the last write, and the reads since.
//!
//! Most accesses are after all earlier ones to their buffer, which [`LatestEnds`] shows without a look at the elements.
//! So the sets that overlap are searched only once an access is found that is not.

use super::latest_ends::LatestEnds;
use crate::plan::{BufferView, InstId};
use crate::plan_checks::element_set::ElementSet;
use crate::plan_checks::happens_before::{AccessEnd, VectorClock, WalkedEnds};
use crate::plan_checks::set_index::SetIndex;
use crate::plan_checks::written_elements::WrittenElements;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// An access that was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::plan_checks) struct PastAccess {
    /// The instruction.
    pub(in crate::plan_checks) inst: InstId,
    /// Its end.
    pub(in crate::plan_checks) end: AccessEnd,
    /// True if it wrote.
    pub(in crate::plan_checks) is_write: bool,
}

/// The accesses to one set of elements.
#[derive(Clone, Default, Debug)]
struct SetHistory {
    last_write: Option<PastAccess>,
    reads: SmallVec<[PastAccess; 2]>,
    is_written: bool,
}

/// The sets with common elements.
#[derive(Default, Debug)]
struct SetOverlaps {
    index: SetIndex,
    /// By set, of the first sets: those that it overlaps, in order, itself among them.
    lists: Vec<Vec<u32>>,
}

impl SetOverlaps {
    /// Lists the overlaps of all sets.
    fn list_sets(&mut self, sets: &[ElementSet]) {
        for (number, set) in sets.iter().enumerate().skip(self.lists.len()) {
            let bounds = set.bounds();
            let mut overlapping = self.index.find_near(&bounds);
            overlapping.retain(|&other| set.overlaps(&sets[other as usize]));
            self.index.insert_bounds(&bounds, number as u32);
            for &other in &overlapping {
                self.lists[other as usize].push(number as u32);
            }
            overlapping.push(number as u32);
            self.lists.push(overlapping);
        }
    }
}

/// The accesses to a buffer.
#[derive(Default, Debug)]
pub(super) struct BufferHistory {
    numbers: FxHashMap<ElementSet, u32>,
    sets: Vec<ElementSet>,
    overlaps: SetOverlaps,
    /// The latest writes, and the latest reads, whatever their elements.
    writes: LatestEnds,
    reads: LatestEnds,
    histories: Vec<SetHistory>,
    /// The elements that have been written.
    written: WrittenElements,
}

impl BufferHistory {
    /// The history of a buffer of `length` elements that has its values from the start.
    pub(super) fn with_values(length: usize) -> Self {
        Self { written: WrittenElements::all_below(length), ..Self::default() }
    }

    /// The number of a view's set of elements; `None` for an empty view.
    pub(super) fn set_number(&mut self, view: &BufferView) -> Option<u32> {
        let set = ElementSet::of_view(view)?;
        if let Some(&number) = self.numbers.get(&set) {
            return Some(number);
        }
        let number = self.sets.len() as u32;
        self.histories.push(SetHistory::default());
        self.numbers.insert(set.clone(), number);
        self.sets.push(set);
        Some(number)
    }

    /// Returns true if a clock is after all accesses that an access to any set can conflict with. False may also mean
    /// that this is not known.
    pub(super) fn is_after_all(&mut self, ends: &WalkedEnds, clock: &VectorClock, is_write: bool) -> bool {
        self.writes.are_before(ends, clock) && (!is_write || self.reads.are_before(ends, clock))
    }

    /// The accesses that a new access to a set conflicts with: the reads since the last writes, and the last writes.
    pub(super) fn conflicting(&mut self, set: u32, is_write: bool) -> impl Iterator<Item = (u32, PastAccess)> {
        self.overlaps.list_sets(&self.sets);
        let histories = &self.histories;
        self.overlaps.lists[set as usize].iter().flat_map(move |&other| {
            let history = &histories[other as usize];
            let reads = if is_write { &history.reads[..] } else { &[] };
            history.last_write.iter().chain(reads).map(move |&access| (other, access))
        })
    }

    /// Adds an access. An earlier read with the same kind of end on the same queue ends before the new one.
    pub(super) fn add_access(&mut self, set: u32, access: PastAccess) {
        let history = &mut self.histories[set as usize];
        if !access.is_write {
            history.reads.retain(|old| !ends_before(old.end, access.end));
            history.reads.push(access);
            self.reads.add_end(access.end);
            return;
        }
        self.writes.add_end(access.end);
        history.last_write = Some(access);
        history.reads.clear();
        if !history.is_written {
            history.is_written = true;
            self.written.insert_set(&self.sets[set as usize]);
        }
    }

    /// The first uninitialised element of a set, and the number of these.
    pub(super) fn unwritten_elements(&mut self, set: u32) -> Option<UnwrittenElements> {
        let history = &mut self.histories[set as usize];
        if history.is_written {
            return None;
        }
        let elements = &self.sets[set as usize];
        match self.written.first_missing(elements) {
            Some(first) => Some(UnwrittenElements { first, count: self.written.count_missing(elements) }),
            None => {
                history.is_written = true;
                None
            }
        }
    }

    /// Takes a set as written.
    pub(super) fn assume_written(&mut self, set: u32) {
        self.histories[set as usize].is_written = true;
        self.written.insert_set(&self.sets[set as usize]);
    }

    /// An element of two sets that overlap.
    pub(super) fn common_element(&self, one: u32, other: u32) -> Option<usize> {
        self.sets[one as usize].common_element(&self.sets[other as usize])
    }

    /// The last accesses to all sets.
    pub(super) fn last_accesses(&self) -> impl Iterator<Item = PastAccess> {
        self.histories.iter().flat_map(|history| history.last_write.iter().chain(&history.reads).copied())
    }
}

/// Elements that nothing has written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::plan_checks) struct UnwrittenElements {
    /// The first of them.
    pub(in crate::plan_checks) first: usize,
    /// Their number.
    pub(in crate::plan_checks) count: usize,
}

/// Returns true if one end is before another on the same queue.
fn ends_before(one: AccessEnd, other: AccessEnd) -> bool {
    match (one, other) {
        (AccessEnd::Point(one), AccessEnd::Point(other)) => one.chain == other.chain && one.count <= other.count,
        _ => one == other,
    }
}
