//! The process's symmetric memory: where tensors of which a call's ranks know each other's addresses may lie.

use pyo3::prelude::*;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

/// The ranges of addresses, in order; calls look here, and most processes have none.
static RANGES: RwLock<Vec<Range<u64>>> = RwLock::new(Vec::new());
static HAS_RANGES: AtomicBool = AtomicBool::new(false);

/// Sets all ranges, each by its first address and its bytes.
#[pyfunction]
pub(crate) fn set_symmetric_ranges(ranges: Vec<(u64, u64)>) {
    let mut sorted: Vec<Range<u64>> =
        ranges.into_iter().map(|(start, bytes)| start..start.saturating_add(bytes)).collect();
    sorted.sort_unstable_by_key(|range| range.start);
    let mut held = RANGES.write().unwrap_or_else(PoisonError::into_inner);
    HAS_RANGES.store(!sorted.is_empty(), Ordering::Release);
    *held = sorted;
}

/// Returns true if an address is of symmetric memory.
pub(crate) fn is_symmetric(address: u64) -> bool {
    if !HAS_RANGES.load(Ordering::Acquire) {
        return false;
    }
    let held = RANGES.read().unwrap_or_else(PoisonError::into_inner);
    let behind = held.partition_point(|range| range.start <= address);
    behind.checked_sub(1).is_some_and(|at| held[at].contains(&address))
}

/// The place where a tensor of a prepared call may lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TensorPlace {
    /// Anywhere but in symmetric memory, for which there is a session of its own.
    Ordinary,
    /// Anywhere: peers do not address the tensor.
    Anywhere,
    /// At this address, which other ranks have.
    At(u64),
}

impl TensorPlace {
    /// For a tensor at an address to which the session is not bound: calls with it there need no other session.
    pub(crate) fn now_of(address: u64) -> Self {
        if is_symmetric(address) { TensorPlace::Anywhere } else { TensorPlace::Ordinary }
    }

    /// Returns true if a tensor at an address is there.
    pub(crate) fn holds(self, address: u64) -> bool {
        match self {
            TensorPlace::Ordinary => !is_symmetric(address),
            TensorPlace::Anywhere => true,
            TensorPlace::At(fixed) => fixed == address,
        }
    }

    /// Returns true if memory that is allocated for the call will do.
    pub(crate) fn holds_new(self) -> bool {
        !matches!(self, TensorPlace::At(_))
    }
}
