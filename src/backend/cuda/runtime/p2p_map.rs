//! The addresses of every rank's memory as one process sees them: its own allocations, and those of other processes of
//! the host that it opened.

use crate::runtime::failure;
use crate::runtime::process_group;
use crate::runtime::process_group::ProcessGroup;
use crate::runtime::rank::RankRuntime;
use crate::sys::Error;
use crate::sys::peer;
use crate::sys::peer::{MemoryHandle, PeerMemory};
use hostir::diag::{Diag, codes};
use hostir::plan::BufferView;
use hostir_gpu::element_range::ViewRange;
use hostir_gpu::memory_layout::MemoryLayout;
use hostir_gpu::p2p::{FLAG, MessagePlan};
use std::sync::Arc;

/// The addresses of all ranks' memory; a rank's layout becomes addressable once its base is known.
#[derive(Debug)]
pub(crate) struct AddressMap {
    /// The layouts, by rank.
    pub(crate) layouts: Vec<MemoryLayout>,
    /// The base addresses, by rank; `None` for a rank with which this one shares no memory.
    pub(crate) bases: Vec<Option<u64>>,
    /// All messages of the program.
    pub(crate) messages: MessagePlan,
    /// The mappings that keep other processes' memory open.
    #[allow(dead_code, reason = "held for its Drop only")]
    pub(crate) opened: Vec<PeerMemory>,
}

impl AddressMap {
    fn base_address(&self, rank: u32) -> Result<u64, Error> {
        self.bases.get(rank as usize).copied().flatten().ok_or_else(|| Error::Call {
            call: "an address",
            status: format!("the memory of rank {rank} is not accessible"),
        })
    }

    /// Address of an element behind a view's first, in the memory of a rank.
    pub(crate) fn element_address(&self, rank: u32, view: &BufferView, index: usize) -> Result<u64, Error> {
        let layout = self.layouts.get(rank as usize);
        let offsets = layout.map_or(&[][..], |layout| &layout.offsets);
        let offset = offsets.get(view.buffer.0 as usize).copied().flatten().unwrap_or(0);
        let bytes = offset + (view.offset + index) * view.dtype.byte_size();
        Ok(self.base_address(rank)? + bytes as u64)
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

/// Finds the memory of all ranks. Devices of one process reach each other directly; what another process
/// allocated is opened by its handle.
pub(crate) fn map_memory(
    ranks: &[RankRuntime<'_>],
    joint: &ProcessGroup,
    layouts: Vec<MemoryLayout>,
    messages: MessagePlan,
) -> Result<Arc<AddressMap>, Vec<Diag>> {
    let mut bases = vec![None; layouts.len()];
    let mut opened = Vec::new();
    for rank in ranks {
        bases[rank.plan.rank as usize] = Some(rank.base_address());
    }
    let failed = |error: Error| vec![failure::global_diag(&error)];
    if joint.is_multi_process() {
        for (rank, memory) in open_peer_memory(ranks, joint, &messages)? {
            bases[rank as usize] = Some(memory.address());
            opened.push(memory);
        }
    } else {
        enable_peer_access(ranks, &messages).map_err(failed)?;
    }
    Ok(Arc::new(AddressMap { layouts, bases, messages, opened }))
}

/// Lets every device of the process reach the others that its ranks exchange messages with.
fn enable_peer_access(ranks: &[RankRuntime<'_>], messages: &MessagePlan) -> Result<(), Error> {
    for rank in ranks {
        rank.device.make_current()?;
        for other in messages.peer_ranks(rank.plan.rank) {
            if let Some(other) = ranks.iter().find(|rank| rank.plan.rank == other) {
                peer::enable_peer_access(&rank.device, &other.device)?;
            }
        }
    }
    Ok(())
}

/// Opens the memory of the ranks that this process's ranks exchange messages with, and of those that these
/// exchange messages with and so on: a rank that gives up tells all of them ([`Peers::poison`]).
fn open_peer_memory(
    ranks: &[RankRuntime<'_>],
    joint: &ProcessGroup,
    messages: &MessagePlan,
) -> Result<Vec<(u32, PeerMemory)>, Vec<Diag>> {
    if messages.list.is_empty() {
        return Ok(Vec::new());
    }
    let failed = |error: Error| vec![failure::global_diag(&error)];
    let mut own = Vec::new();
    for rank in ranks {
        rank.device.make_current().map_err(failed)?;
        own.extend(MemoryHandle::for_allocation(rank.base_address()).map_err(failed)?.0);
    }
    own.extend(joint.host_name().as_bytes());
    let all = joint.all_gather("memory", &own)?;
    let mut opened = Vec::new();
    for rank in ranks {
        let direct = messages.peer_ranks(rank.plan.rank);
        for other in messages.reachable_ranks(rank.plan.rank) {
            let (handle, host) = all
                .get(other as usize)
                .and_then(|message| message.split_first_chunk::<{ MemoryHandle::BYTES }>())
                .ok_or_else(|| vec![process_group::malformed_message("memory")])?;
            if host != joint.host_name().as_bytes() {
                return Err(vec![cross_host_error(rank.plan.rank, other)]);
            }
            match PeerMemory::new(&rank.device, MemoryHandle(*handle)) {
                Ok(memory) => opened.push((other, memory)),
                Err(error) if direct.contains(&other) => return Err(failed(error)),
                // It is told by the ranks in between.
                Err(_) => {}
            }
        }
    }
    Ok(opened)
}

fn cross_host_error(rank: u32, other: u32) -> Diag {
    let message = format!("ranks {rank} and {other} use peer-to-peer copies, but are on different hosts");
    Diag::global_error(codes::DEVICE, message)
        .with_note("`backend=CUDA` works within one host; use `backend=NCCL` between hosts")
}
