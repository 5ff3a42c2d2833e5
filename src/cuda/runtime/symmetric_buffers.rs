//! A caller's inputs and outputs in symmetric memory: an address for each rank, and the buffers of the plans that they
//! replace. This is data alone, so that options, addresses and ranks can hold it; ranks agree on it in
//! [`symmetric_memory`](crate::runtime::symmetric_memory).

use crate::runtime::io_binding::IoSide;
use hostir::lower::PreparedProgram;
use hostir::plan::{BufferId, BufferView, Plan};

/// An input or output in symmetric memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SymmetricTensor {
    pub(crate) side: IoSide,
    pub(crate) position: usize,
    /// By rank.
    pub(crate) addresses: Vec<u64>,
}

#[allow(unsafe_code, reason = "addresses are a promise about memory")]
impl SymmetricTensor {
    /// The input or output at a position, by the address of each rank's shard in this process, in rank order. The
    /// shards are contiguous.
    ///
    /// # Safety
    /// Each shard is memory that this process's devices can read and write, as large as that rank's shard of the input
    /// or output. On all ranks that have the session, it stays mapped until the session is dropped on all of them. Its
    /// owner's promise is that of [`InputHandle::bind`](crate::session::InputHandle::bind); in this time other code of
    /// a peer accesses it only in order with the owner's runs.
    pub unsafe fn new(side: IoSide, position: usize, addresses: Vec<u64>) -> Self {
        Self { side, position, addresses }
    }

    /// The rank's view in the memory of its plan.
    pub(crate) fn view<'p>(&self, plan: &'p Plan) -> Option<&'p BufferView> {
        let views = if self.side == IoSide::Input { &plan.inputs } else { &plan.outputs };
        views.get(self.position).and_then(Option::as_ref)
    }
}

/// The buffers in symmetric memory, and their addresses in this process.
#[derive(Clone, Default, Debug)]
pub(crate) struct SymmetricBuffers {
    slots: Vec<(IoSide, usize)>,
    /// By rank and buffer.
    addresses: Vec<Vec<Option<u64>>>,
}

impl SymmetricBuffers {
    /// The buffers of these tensors.
    pub(crate) fn new(prepared: &PreparedProgram, tensors: &[&SymmetricTensor]) -> Self {
        let slots: Vec<_> = tensors.iter().map(|tensor| (tensor.side, tensor.position)).collect();
        if slots.is_empty() {
            return Self::default();
        }
        let addresses = prepared.plans.iter().map(|plan| {
            let mut found = vec![None; plan.buffers.len()];
            for tensor in tensors {
                if let Some(view) = tensor.view(plan) {
                    found[view.buffer.0 as usize] = tensor.addresses.get(plan.rank as usize).copied();
                }
            }
            found
        });
        Self { slots, addresses: addresses.collect() }
    }

    /// The inputs and outputs.
    pub(crate) fn slots(&self) -> &[(IoSide, usize)] {
        &self.slots
    }

    /// Returns true if there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns true if an input or output is in symmetric memory.
    pub(crate) fn has_slot(&self, side: IoSide, position: usize) -> bool {
        self.slots.contains(&(side, position))
    }

    /// The address of a rank's buffer, if it is in symmetric memory.
    pub(crate) fn address(&self, rank: u32, buffer: BufferId) -> Option<u64> {
        self.addresses.get(rank as usize)?.get(buffer.0 as usize).copied().flatten()
    }

    /// The buffers of a rank that are not in its own memory, by number: those that runs bind, and the symmetric ones.
    pub(crate) fn with_buffers(&self, rank: u32, external: &[bool]) -> Vec<bool> {
        let Some(addresses) = self.addresses.get(rank as usize) else { return external.to_vec() };
        let external = external.iter().copied().chain(std::iter::repeat(false));
        addresses.iter().zip(external).map(|(address, is_external)| address.is_some() || is_external).collect()
    }

    /// The buffers of a rank in symmetric memory, by number.
    pub(crate) fn buffers(&self, rank: u32) -> impl Iterator<Item = usize> {
        let addresses = self.addresses.get(rank as usize).into_iter().flatten().enumerate();
        addresses.filter_map(|(at, address)| address.map(|_| at))
    }

    /// The addresses of a rank's parts.
    pub(crate) fn parts(&self, rank: u32) -> impl Iterator<Item = u64> {
        self.addresses.get(rank as usize).into_iter().flatten().copied().flatten()
    }
}
