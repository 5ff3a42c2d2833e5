//! Maps the memory of every rank into one process: its own allocations, and those of other processes of the host that
//! it opens.

use crate::runtime::address_map::AddressMap;
use crate::runtime::failure;
use crate::runtime::process_group;
use crate::runtime::process_group::ProcessGroup;
use crate::runtime::rank::RankRuntime;
use crate::sys::Error;
use crate::sys::peer;
use crate::sys::peer::{MemoryHandle, PeerMemory};
use hostir::diag::message;
use hostir::diag::{Diag, codes};
use hostir::ir::quoted_argument;
use hostir_gpu::memory_layout::MemoryLayout;
use hostir_gpu::p2p::MessagePlan;
use std::sync::{Arc, OnceLock};

/// Maps the memory of all ranks. Devices of one process access each other directly; the allocations of another process
/// are opened by their handles.
pub(crate) fn map_memory(
    ranks: &[RankRuntime<'_>],
    process_group: &ProcessGroup,
    layouts: Vec<MemoryLayout>,
    messages: MessagePlan,
) -> Result<Arc<AddressMap>, Vec<Diag>> {
    let mut bases = vec![None; layouts.len()];
    let mut opened = Vec::new();
    for rank in ranks {
        bases[rank.plan.rank as usize] = Some(rank.memory.base_address());
    }
    if process_group.is_multi_process() {
        for (rank, memory) in open_peer_memory(ranks, process_group, &messages)? {
            bases[rank as usize] = Some(memory.address());
            opened.push(memory);
        }
    } else {
        enable_peer_access(ranks, &messages).map_err(|error| no_peer_access_diags(&error))?;
    }
    Ok(Arc::new(AddressMap { layouts, bases, messages, symmetric: OnceLock::new(), opened }))
}

/// Enables access from every device of the process to those of the peers of its ranks.
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

/// Opens the memory of the peers of this process's ranks, of the peers of these, and so on: a rank that gives up
/// poisons all of them ([`AddressMap::poison_address`]).
fn open_peer_memory(
    ranks: &[RankRuntime<'_>],
    process_group: &ProcessGroup,
    messages: &MessagePlan,
) -> Result<Vec<(u32, PeerMemory)>, Vec<Diag>> {
    if messages.list.is_empty() {
        return Ok(Vec::new());
    }
    let mut own = Vec::new();
    for rank in ranks {
        rank.device.make_current().map_err(|error| driver_diags(&error))?;
        own.extend(MemoryHandle::for_allocation(rank.memory.base_address()).map_err(|error| driver_diags(&error))?.0);
    }
    own.extend(process_group.host_name().as_bytes());
    let all = process_group.all_gather("memory", &own)?;
    let mut opened = Vec::new();
    for rank in ranks {
        let direct = messages.peer_ranks(rank.plan.rank);
        for other in messages.reachable_ranks(rank.plan.rank) {
            let (handle, host) = all
                .get(other as usize)
                .and_then(|message| message.split_first_chunk::<{ MemoryHandle::BYTES }>())
                .ok_or_else(|| vec![process_group::malformed_message("memory")])?;
            if host != process_group.host_name().as_bytes() {
                return Err(vec![cross_host_error(rank.plan.rank, other)]);
            }
            match PeerMemory::new(&rank.device, MemoryHandle(*handle)) {
                Ok(memory) => opened.push((other, memory)),
                Err(error) if direct.contains(&other) => return Err(no_peer_access_diags(&error)),
                // It is told by the ranks in between.
                Err(_) => {}
            }
        }
    }
    Ok(opened)
}

fn driver_diags(error: &Error) -> Vec<Diag> {
    vec![failure::global_diag(error)]
}

/// The error if the driver refuses a device access to another one's memory.
fn no_peer_access_diags(error: &Error) -> Vec<Diag> {
    let note = message!(
        "copies between GPUs need peer access, by NVLink or PCIe: use `{}`, or \
                `--map-backend=CUDA=NCCL` of hir-run, where GPUs do not have it",
        quoted_argument("backend", "NCCL")
    );
    vec![failure::global_diag(error).with_note(note)]
}

fn cross_host_error(rank: u32, other: u32) -> Diag {
    let message = message!("ranks {} and {} use peer-to-peer copies, but are on different hosts", rank, other);
    Diag::global_error(codes::DEVICE, message).with_note(message!(
        "`{}` works within one host; use `{}` between hosts",
        quoted_argument("backend", "CUDA"),
        quoted_argument("backend", "NCCL")
    ))
}
