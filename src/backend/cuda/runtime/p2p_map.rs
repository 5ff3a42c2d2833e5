//! Where every rank's memory lies, as one process sees it: its own allocations, and those of other
//! processes of the host that it opened.

use crate::runtime::failure;
use crate::runtime::process_group;
use crate::runtime::process_group::Joint;
use crate::runtime::rank::Rank;
use crate::sys::Error;
use crate::sys::peer;
use crate::sys::peer::{Handle, Opened};
use hostir::diag::{Diag, codes};
use hostir::plan::View;
use hostir_gpu::element_range::Part;
use hostir_gpu::memory_layout::Layout;
use hostir_gpu::p2p::{FLAG, Messages};
use std::sync::Arc;

/// The memory of all ranks. A rank's part of it can be addressed once it is known where it starts.
#[derive(Debug)]
pub(crate) struct Peers {
    /// By rank.
    pub(crate) layouts: Vec<Layout>,
    /// First address by rank; `None` for a rank that this one shares no memory with.
    pub(crate) bases: Vec<Option<u64>>,
    /// All messages of the program.
    pub(crate) messages: Messages,
    /// What keeps other processes' memory open.
    #[allow(dead_code, reason = "held for its Drop only")]
    pub(crate) opened: Vec<Opened>,
}

impl Peers {
    fn base(&self, rank: u32) -> Result<u64, Error> {
        self.bases.get(rank as usize).copied().flatten().ok_or_else(|| Error::Call {
            call: "an address",
            status: format!("the memory of rank {rank} cannot be reached"),
        })
    }

    /// Address of an element behind a view's first, in the memory of a rank.
    pub(crate) fn element(&self, rank: u32, view: &View, index: usize) -> Result<u64, Error> {
        let layout = self.layouts.get(rank as usize);
        let offsets = layout.map_or(&[][..], |layout| &layout.offsets);
        let offset = offsets.get(view.buffer.0 as usize).copied().flatten().unwrap_or(0);
        let bytes = offset + (view.offset + index) * view.dtype.size();
        Ok(self.base(rank)? + bytes as u64)
    }

    /// Address of a part's first element.
    pub(crate) fn part(&self, rank: u32, part: &Part) -> Result<u64, Error> {
        self.element(rank, &part.view, part.start)
    }

    /// Address of the word by which a rank is told that another one gave up; `None` if its memory is not open.
    pub(crate) fn poison(&self, rank: u32) -> Option<u64> {
        self.flag(rank, self.messages.poison(rank)?).ok()
    }

    /// Address of a flag.
    pub(crate) fn flag(&self, rank: u32, flag: usize) -> Result<u64, Error> {
        Ok(self.base(rank)? + (flag * FLAG) as u64)
    }
}

/// Finds the memory of all ranks. Devices of one process reach each other directly; what another process
/// allocated is opened by its handle.
pub(crate) fn map(
    ranks: &[Rank<'_>],
    joint: &Joint,
    layouts: Vec<Layout>,
    messages: Messages,
) -> Result<Arc<Peers>, Vec<Diag>> {
    let mut bases = vec![None; layouts.len()];
    let mut opened = Vec::new();
    for rank in ranks {
        bases[rank.plan.rank as usize] = Some(rank.base());
    }
    let failed = |error: Error| vec![failure::global(&error)];
    if joint.is_several() {
        for (rank, memory) in open(ranks, joint, &messages)? {
            bases[rank as usize] = Some(memory.address());
            opened.push(memory);
        }
    } else {
        reach(ranks, &messages).map_err(failed)?;
    }
    Ok(Arc::new(Peers { layouts, bases, messages, opened }))
}

/// Lets every device of the process reach the others that its ranks exchange messages with.
fn reach(ranks: &[Rank<'_>], messages: &Messages) -> Result<(), Error> {
    for rank in ranks {
        rank.device.make_current()?;
        for other in messages.peers(rank.plan.rank) {
            if let Some(other) = ranks.iter().find(|rank| rank.plan.rank == other) {
                peer::reach(&rank.device, &other.device)?;
            }
        }
    }
    Ok(())
}

/// Opens the memory of the ranks that this process's ranks exchange messages with, and of those that these
/// exchange messages with and so on: a rank that gives up tells all of them ([`Peers::poison`]).
fn open(
    ranks: &[Rank<'_>],
    joint: &Joint,
    messages: &Messages,
) -> Result<Vec<(u32, Opened)>, Vec<Diag>> {
    if messages.list.is_empty() {
        return Ok(Vec::new());
    }
    let failed = |error: Error| vec![failure::global(&error)];
    let mut own = Vec::new();
    for rank in ranks {
        rank.device.make_current().map_err(failed)?;
        own.extend(Handle::of(rank.base()).map_err(failed)?.0);
    }
    own.extend(joint.host().as_bytes());
    let all = joint.gather("memory", &own)?;
    let mut opened = Vec::new();
    for rank in ranks {
        let direct = messages.peers(rank.plan.rank);
        for other in messages.reachable(rank.plan.rank) {
            let (handle, host) = all
                .get(other as usize)
                .and_then(|message| message.split_first_chunk::<{ Handle::BYTES }>())
                .ok_or_else(|| vec![process_group::senseless("memory")])?;
            if host != joint.host().as_bytes() {
                return Err(vec![apart(rank.plan.rank, other)]);
            }
            match Opened::new(&rank.device, Handle(*handle)) {
                Ok(memory) => opened.push((other, memory)),
                Err(error) if direct.contains(&other) => return Err(failed(error)),
                // It is told by the ranks in between.
                Err(_) => {}
            }
        }
    }
    Ok(opened)
}

fn apart(rank: u32, other: u32) -> Diag {
    let message =
        format!("ranks {rank} and {other} copy each other's memory, but are on two hosts");
    Diag::global(codes::DEVICE, message)
        .note("`backend=CUDA` works within a host; `backend=NCCL` reaches other hosts")
}
