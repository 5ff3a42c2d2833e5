//! Questions about instructions: the part that each plays in a run, and the memory and handles that it uses.
//!
//! Readers of plans ask these instead of listing the variants of [`InstKind`], unless they carry each of them out.

use super::inst::{CollectiveInst, CommSlot, EventId, InstKind, MessageHeader, WorkSlot};
use super::view::BufferView;
use crate::ir::MessageDirection;
use smallvec::SmallVec;

/// The part that an instruction plays in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InstRole {
    /// It starts or ends the lifetime of a buffer.
    Memory,
    /// It computes or copies on its stream.
    Compute,
    /// It starts a collective, a send or a receive.
    Communication,
    /// It orders others: groups, events and waits.
    Order,
}

impl InstKind {
    /// The part that the instruction plays in a run.
    pub fn role(&self) -> InstRole {
        match self {
            InstKind::Alloc { .. } | InstKind::Free { .. } => InstRole::Memory,
            InstKind::Copy { .. }
            | InstKind::Fill { .. }
            | InstKind::Gemm(_)
            | InstKind::Kernel(_)
            | InstKind::Reduce(_)
            | InstKind::Take(_)
            | InstKind::Accumulate(_)
            | InstKind::Rows(_)
            | InstKind::Attention(_)
            | InstKind::Launch(_) => InstRole::Compute,
            InstKind::Collective(_) | InstKind::Message { .. } => InstRole::Communication,
            InstKind::GroupBegin
            | InstKind::GroupEnd { .. }
            | InstKind::WaitWork { .. }
            | InstKind::Record { .. }
            | InstKind::WaitEvent { .. } => InstRole::Order,
        }
    }
    /// Whether it computes, copies or communicates: the others bring order, or memory.
    pub fn is_work(&self) -> bool {
        matches!(self.role(), InstRole::Compute | InstRole::Communication)
    }
    /// Whether it only does something on its stream: it neither communicates nor orders streams.
    pub fn is_local(&self) -> bool {
        matches!(self.role(), InstRole::Memory | InstRole::Compute)
    }
    /// Returns true if it starts or ends the lifetime of a buffer.
    pub fn is_lifetime(&self) -> bool {
        self.role() == InstRole::Memory
    }
    /// Returns true if it starts a collective, a send or a receive.
    pub fn is_communication(&self) -> bool {
        self.role() == InstRole::Communication
    }
    /// Returns true if it opens or closes a group.
    pub fn is_group_bound(&self) -> bool {
        matches!(self, InstKind::GroupBegin | InstKind::GroupEnd { .. })
    }
    /// Returns true if its stream waits for an event or a communication.
    pub fn is_wait(&self) -> bool {
        matches!(self, InstKind::WaitWork { .. } | InstKind::WaitEvent { .. })
    }
    /// The collective that it starts.
    pub fn collective(&self) -> Option<&CollectiveInst> {
        match self {
            InstKind::Collective(collective) => Some(collective),
            _ => None,
        }
    }
    /// The send or receive, without its data.
    pub fn message(&self) -> Option<&MessageHeader> {
        match self {
            InstKind::Message { header, .. } => Some(header),
            _ => None,
        }
    }
    /// The data of a send, or the destination of a receive.
    pub fn message_view(&self) -> Option<&BufferView> {
        match self {
            InstKind::Message { view, .. } => Some(view),
            _ => None,
        }
    }
    /// Returns true if it sends or receives in this direction.
    pub fn is_message(&self, direction: MessageDirection) -> bool {
        self.message().is_some_and(|message| message.direction == direction)
    }
    /// Returns true for the initiator of a message on streams (the sender with `put`, the receiver with `get`), which
    /// waits until the target is ready.
    pub fn initiates_transfer(&self) -> bool {
        self.message().is_some_and(MessageHeader::initiates_transfer)
    }
    /// The communicator whose queue carries the instruction out: that of a collective, of a message that is not on the
    /// stream, or of a group.
    pub fn communicator(&self) -> Option<CommSlot> {
        match self {
            InstKind::Collective(collective) => Some(collective.comm),
            InstKind::Message { header, .. } => header.comm,
            InstKind::GroupEnd { comm, .. } => Some(*comm),
            _ => None,
        }
    }
    /// The completion handle of a collective, a message or a group.
    pub fn issued_work(&self) -> Option<WorkSlot> {
        match self {
            InstKind::Collective(collective) => Some(collective.work),
            InstKind::Message { header, .. } => Some(header.work),
            InstKind::GroupEnd { work, .. } => Some(*work),
            _ => None,
        }
    }
    /// The completion handle that its stream waits for.
    pub fn awaited_work(&self) -> Option<WorkSlot> {
        match self {
            InstKind::WaitWork { work } => Some(*work),
            _ => None,
        }
    }
    /// The event that it records.
    pub fn recorded_event(&self) -> Option<EventId> {
        match self {
            InstKind::Record { event } => Some(*event),
            _ => None,
        }
    }
    /// The event that its stream waits for.
    pub fn awaited_event(&self) -> Option<EventId> {
        match self {
            InstKind::WaitEvent { event } => Some(*event),
            _ => None,
        }
    }
    /// The views that the instruction reads.
    pub fn read_views(&self) -> SmallVec<[&BufferView; 3]> {
        match self {
            InstKind::Copy { src, .. } => SmallVec::from_slice(&[&**src]),
            InstKind::Gemm(gemm) => gemm.read_views().collect(),
            InstKind::Kernel(kernel) => kernel.inputs.iter().collect(),
            InstKind::Reduce(fold) => SmallVec::from_slice(&[&fold.input]),
            InstKind::Take(take) => SmallVec::from_slice(&[&take.input, &take.index]),
            InstKind::Accumulate(put) => SmallVec::from([&put.base, &put.index, &put.value]),
            InstKind::Rows(rows) => rows.inputs.iter().collect(),
            InstKind::Attention(attention) => SmallVec::from(attention.factors()),
            InstKind::Launch(launch) => launch.reads.iter().collect(),
            InstKind::Collective(collective) => collective.input.iter().collect(),
            InstKind::Message { header, view } if header.direction.is_send() => SmallVec::from_slice(&[&**view]),
            InstKind::Alloc { .. }
            | InstKind::Free { .. }
            | InstKind::Fill { .. }
            | InstKind::Message { .. }
            | InstKind::GroupBegin
            | InstKind::GroupEnd { .. }
            | InstKind::WaitWork { .. }
            | InstKind::Record { .. }
            | InstKind::WaitEvent { .. } => SmallVec::new(),
        }
    }
    /// The views that the instruction writes: one at most, but for attention and kernels of the user.
    pub fn written_views(&self) -> SmallVec<[&BufferView; 1]> {
        match self {
            InstKind::Attention(attention) => attention.results().into_iter().collect(),
            InstKind::Launch(launch) => launch.writes.iter().collect(),
            kind => kind.written_view().into_iter().collect(),
        }
    }
    /// The view that the instruction writes; `None` for those that may write several.
    pub fn written_view(&self) -> Option<&BufferView> {
        match self {
            InstKind::Copy { dst, .. } | InstKind::Fill { dst, .. } => Some(dst),
            InstKind::Gemm(gemm) => Some(&gemm.out),
            InstKind::Kernel(kernel) => Some(&kernel.output),
            InstKind::Reduce(fold) => Some(&fold.output),
            InstKind::Take(take) => Some(&take.output),
            InstKind::Accumulate(put) => Some(&put.output),
            InstKind::Rows(rows) => Some(&rows.output),
            InstKind::Collective(collective) => collective.output.as_ref(),
            InstKind::Message { header, view } if !header.direction.is_send() => Some(view),
            InstKind::Alloc { .. }
            | InstKind::Free { .. }
            | InstKind::Attention(_)
            | InstKind::Launch(_)
            | InstKind::Message { .. }
            | InstKind::GroupBegin
            | InstKind::GroupEnd { .. }
            | InstKind::WaitWork { .. }
            | InstKind::Record { .. }
            | InstKind::WaitEvent { .. } => None,
        }
    }
    /// The bytes that the instruction reads and writes at least.
    pub fn traffic_bytes(&self) -> u64 {
        if let InstKind::Take(take) = self {
            return take.traffic_bytes();
        }
        if let InstKind::Gemm(gemm) = self {
            let whole = [&gemm.a, &gemm.b, &gemm.out]
                .into_iter()
                .chain(&gemm.bias)
                .map(|view| view.len() * view.dtype.byte_size());
            let scales = gemm.scale_views().iter().map(|view| view.distinct_len() * view.dtype.byte_size());
            return whole.chain(scales).sum::<usize>() as u64;
        }
        let views = self.read_views().into_iter().chain(self.written_views());
        views.map(|view| (view.len() * view.dtype.byte_size()) as u64).sum()
    }
}
