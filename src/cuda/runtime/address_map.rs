//! The addresses of all ranks' memory, as one process sees it.

use crate::runtime::symmetric_buffers::SymmetricBuffers;
use crate::sys::Error;
use crate::sys::peer::PeerMemory;
use hostir::plan::BufferView;
use hostir_gpu::element_range::ViewRange;
use hostir_gpu::memory_layout::MemoryLayout;
use hostir_gpu::p2p::{FLAG, MessagePlan};
use std::sync::OnceLock;

/// The addresses of all ranks' memory; a rank's layout becomes addressable once its base is known.
#[derive(Debug)]
pub(crate) struct AddressMap {
    /// The layouts, by rank.
    pub(crate) layouts: Vec<MemoryLayout>,
    /// The base addresses, by rank; `None` for a rank whose memory this process cannot access.
    pub(crate) bases: Vec<Option<u64>>,
    /// All messages of the program.
    pub(crate) messages: MessagePlan,
    /// The buffers in a caller's symmetric memory; set when the preparation ends.
    pub(crate) symmetric: OnceLock<SymmetricBuffers>,
    /// The mappings that keep other processes' memory open.
    #[allow(dead_code, reason = "held for its Drop only")]
    pub(crate) opened: Vec<PeerMemory>,
}

impl AddressMap {
    fn base_address(&self, rank: u32) -> Result<u64, Error> {
        self.bases.get(rank as usize).copied().flatten().ok_or_else(|| Error::Call {
            call: "an address",
            status: format!("the memory of rank {rank} cannot be reached"),
        })
    }

    /// Address, in the memory of a rank, of an element that is counted from a view's first.
    pub(crate) fn element_address(&self, rank: u32, view: &BufferView, index: usize) -> Result<u64, Error> {
        let bytes = (view.offset + index) * view.dtype.byte_size();
        let symmetric = self.symmetric.get().and_then(|buffers| buffers.address(rank, view.buffer));
        if let Some(base) = symmetric {
            return Ok(base + bytes as u64);
        }
        let layout = self.layouts.get(rank as usize);
        let offsets = layout.map_or(&[][..], |layout| &layout.offsets);
        let offset = offsets.get(view.buffer.0 as usize).copied().flatten().unwrap_or(0);
        Ok(self.base_address(rank)? + (offset + bytes) as u64)
    }

    /// Address of a part's first element.
    pub(crate) fn range_address(&self, rank: u32, part: &ViewRange) -> Result<u64, Error> {
        self.element_address(rank, &part.view, part.start)
    }

    /// The address of a rank's poison word; `None` if its memory is not open.
    pub(crate) fn poison_address(&self, rank: u32) -> Option<u64> {
        self.flag_address(rank, self.messages.poison_word(rank)?).ok()
    }

    /// The address of a semaphore.
    pub(crate) fn flag_address(&self, rank: u32, flag: usize) -> Result<u64, Error> {
        Ok(self.base_address(rank)? + (flag * FLAG) as u64)
    }
}
