//! Where every rank's memory lies, as one process sees it: its own allocations, and those of other
//! processes of the host that it opened.

use super::comm::Part;
use super::memory::Layout;
use super::messages::{FLAG, Messages};
use super::sys::Error;
use super::sys::driver::Device;
use super::sys::peer::{self, Opened};
use crate::plan::View;

/// The memory of all ranks. A rank's part of it can be addressed once it is known where it starts.
#[derive(Debug)]
pub(super) struct Peers {
    /// By rank.
    pub(super) layouts: Vec<Layout>,
    /// First address by rank; `None` for a rank that this one shares no memory with.
    pub(super) bases: Vec<Option<u64>>,
    /// All messages of the program.
    pub(super) messages: Messages,
    /// What keeps other processes' memory open.
    #[allow(dead_code, reason = "held for its Drop only")]
    pub(super) opened: Vec<Opened>,
}

impl Peers {
    fn base(&self, rank: u32) -> Result<u64, Error> {
        self.bases.get(rank as usize).copied().flatten().ok_or_else(|| Error::Call {
            call: "an address",
            status: format!("the memory of rank {rank} cannot be reached"),
        })
    }

    /// Address of an element behind a view's first, in the memory of a rank.
    pub(super) fn element(&self, rank: u32, view: &View, index: usize) -> Result<u64, Error> {
        let layout = self.layouts.get(rank as usize);
        let offsets = layout.map_or(&[][..], |layout| &layout.offsets);
        let offset = offsets.get(view.buffer.0 as usize).copied().flatten().unwrap_or(0);
        let bytes = offset + (view.offset + index) * view.dtype.size();
        Ok(self.base(rank)? + bytes as u64)
    }

    /// Address of a part's first element.
    pub(super) fn part(&self, rank: u32, part: &Part) -> Result<u64, Error> {
        self.element(rank, &part.view, part.start)
    }

    /// Address of a flag.
    pub(super) fn flag(&self, rank: u32, flag: usize) -> Result<u64, Error> {
        Ok(self.base(rank)? + (flag * FLAG) as u64)
    }
}

/// Lets every device of the process reach the others that its ranks exchange messages with. The ranks'
/// devices are given by rank.
pub(super) fn reach(messages: &Messages, devices: &[std::sync::Arc<Device>]) -> Result<(), Error> {
    for (rank, device) in devices.iter().enumerate() {
        device.make_current()?;
        for other in messages.peers(rank as u32) {
            if let Some(other) = devices.get(other as usize) {
                peer::reach(device, other)?;
            }
        }
    }
    Ok(())
}
