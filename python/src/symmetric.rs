//! The process's symmetric memory: the addresses at which the ranks of a call know each other's tensors.

use pyo3::prelude::*;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

/// An allocation: its addresses, and the names of the groups for which it is registered.
type SymmetricRange = (Range<u64>, Vec<String>);

/// The allocations in the order of their addresses; calls search here, and most processes have none.
static RANGES: RwLock<Vec<SymmetricRange>> = RwLock::new(Vec::new());
static HAS_RANGES: AtomicBool = AtomicBool::new(false);

/// Sets all ranges, each by its first address, its bytes, and the names of its groups. None overlaps another.
#[pyfunction]
pub(crate) fn set_symmetric_ranges(ranges: Vec<(u64, u64, Vec<String>)>) {
    let mut sorted: Vec<SymmetricRange> =
        ranges.into_iter().map(|(start, bytes, groups)| (start..start.saturating_add(bytes), groups)).collect();
    sorted.sort_unstable_by_key(|(range, _)| range.start);
    let mut held = RANGES.write().unwrap_or_else(PoisonError::into_inner);
    HAS_RANGES.store(!sorted.is_empty(), Ordering::Release);
    *held = sorted;
}

/// Returns true if an address is of symmetric memory of one of these groups.
fn is_symmetric(address: u64, groups: &[String]) -> bool {
    if !HAS_RANGES.load(Ordering::Acquire) {
        return false;
    }
    let held = RANGES.read().unwrap_or_else(PoisonError::into_inner);
    let after = held.partition_point(|(range, _)| range.start <= address);
    let Some((range, of)) = after.checked_sub(1).map(|at| &held[at]) else { return false };
    range.contains(&address) && of.iter().any(|group| groups.contains(group))
}

/// The place where a tensor of a prepared call may be. Memory that is registered for other groups than the call's is
/// ordinary: the other ranks of the call may have none there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TensorPlace {
    /// Anywhere except in symmetric memory, which has a session of its own.
    Ordinary,
    /// Anywhere: peers do not address the tensor.
    Anywhere,
    /// At this address, which other ranks have.
    At(u64),
}

impl TensorPlace {
    /// For a tensor at an address to which the session is not bound: calls with it there need no other session.
    pub(crate) fn now_of(address: u64, groups: &[String]) -> Self {
        if is_symmetric(address, groups) { TensorPlace::Anywhere } else { TensorPlace::Ordinary }
    }

    /// Returns true if a tensor at an address is there.
    pub(crate) fn holds(self, address: u64, groups: &[String]) -> bool {
        match self {
            TensorPlace::Ordinary => !is_symmetric(address, groups),
            TensorPlace::Anywhere => true,
            TensorPlace::At(fixed) => fixed == address,
        }
    }

    /// Returns true if newly allocated memory may be used.
    pub(crate) fn holds_new(self) -> bool {
        !matches!(self, TensorPlace::At(_))
    }
}
