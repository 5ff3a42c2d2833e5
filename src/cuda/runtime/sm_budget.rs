//! The budget of blocks on a device that may wait for other ranks.
//!
//! A kernel that waits for another rank occupies a part of its device. If such kernels occupied all of it, the kernels
//! that the other rank waits for could not start. The waiting blocks of all programs of the process are therefore
//! counted for each device: the count is the only state here that is global to the process.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Blocks by device number.
static TAKEN: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// A reservation of so many blocks on a device, for as long as it lives.
#[derive(Debug)]
pub(crate) struct BlockBudget {
    ordinal: usize,
    blocks: usize,
}

impl BlockBudget {
    /// Reserves blocks on a device for a program: at most half of its SMs. A program that runs `beside` others takes at
    /// most half of what they leave of seven eighths, and so leaves some for the next one.
    pub(crate) fn new(ordinal: usize, sms: u32, beside: bool) -> Self {
        let (all, most) = (sms as usize, Self::max_blocks(sms));
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = taken.entry(ordinal).or_default();
        let left = (all * 7 / 8).saturating_sub(*taken) / 2;
        let blocks = if beside { left.min(most) } else { most };
        *taken += blocks;
        Self { ordinal, blocks }
    }

    /// The most that there is for one program.
    pub(crate) fn max_blocks(sms: u32) -> usize {
        sms as usize / 2
    }

    /// Number of blocks.
    pub(crate) fn block_count(&self) -> usize {
        self.blocks
    }

    /// Gives back all but so many.
    pub(crate) fn shrink_to(&mut self, blocks: usize) {
        let rest = self.blocks.saturating_sub(blocks);
        self.blocks -= rest;
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = taken.get_mut(&self.ordinal) {
            *taken = taken.saturating_sub(rest);
        }
    }
}

impl Drop for BlockBudget {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_beside_each_other_share_a_device() {
        // Devices that no other test has.
        let (device, other) = (1000, 1001);
        let mut first = BlockBudget::new(device, 132, true);
        assert_eq!(first.block_count(), 57);
        let second = BlockBudget::new(device, 132, true);
        assert_eq!(second.block_count(), 29);
        assert_eq!(
            (BlockBudget::new(device, 132, true).block_count(), BlockBudget::new(other, 132, true).block_count()),
            (14, 57)
        );
        first.shrink_to(5);
        drop(second);
        assert_eq!(BlockBudget::new(device, 132, true).block_count(), 55);
        assert_eq!(BlockBudget::new(device, 132, false).block_count(), 66);
        assert_eq!(BlockBudget::new(other, 8, true).block_count(), 3);
    }
}
