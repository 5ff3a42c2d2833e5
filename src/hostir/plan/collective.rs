//! The semantics of collectives: the range that each member sends to each other, and its destination.
//!
//! This is the only definition. The plan builder uses it for a member's role and to check element counts, the CPU
//! backend to move bytes, and the CUDA backend to derive messages and NCCL calls.

use super::inst::{CollectiveInst, CollectiveKind};
use std::ops::Range;

/// The role of a team member: whether it sends, and whether it receives.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct MemberRole {
    /// True if the member contributes its input.
    pub sends: bool,
    /// True if the member gets an output.
    pub receives: bool,
}

impl MemberRole {
    /// The role of a member, by its side of a collective.
    pub fn of_side(side: &CollectiveInst) -> Self {
        Self { sends: side.input.is_some(), receives: side.output.is_some() }
    }
}

/// A member's position in a team and in the meshes of the tensors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemberSeat {
    /// True for the root.
    pub is_root: bool,
    /// True if the team has no other member.
    pub is_alone: bool,
    /// True if the member holds a shard of the input.
    pub in_input_mesh: bool,
    /// True if the member holds a shard of the output.
    pub in_output_mesh: bool,
}

/// The tensor of a collective that holds the shards of all members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WholeTensor {
    /// The input, which is divided.
    Input,
    /// The output, which is concatenated.
    Output,
}

impl CollectiveKind {
    /// The role of a member.
    pub fn member_role(self, seat: MemberSeat) -> MemberRole {
        let (sends, receives) = match self {
            CollectiveKind::Gather | CollectiveKind::Reduce => (seat.in_input_mesh, seat.is_root),
            CollectiveKind::Scatter | CollectiveKind::Broadcast => (seat.is_root, seat.in_output_mesh),
            CollectiveKind::SendRecv => (seat.is_root, seat.is_alone || !seat.is_root),
            CollectiveKind::Allgather
            | CollectiveKind::Allreduce
            | CollectiveKind::ReduceScatter
            | CollectiveKind::AllToAll => (true, true),
        };
        MemberRole { sends, receives }
    }

    /// The tensor that is divided or concatenated along one axis, if there is one.
    pub fn whole_tensor(self) -> Option<WholeTensor> {
        match self {
            CollectiveKind::Allgather | CollectiveKind::Gather => Some(WholeTensor::Output),
            CollectiveKind::Scatter | CollectiveKind::ReduceScatter => Some(WholeTensor::Input),
            CollectiveKind::Reduce
            | CollectiveKind::Allreduce
            | CollectiveKind::Broadcast
            | CollectiveKind::SendRecv
            | CollectiveKind::AllToAll => None,
        }
    }

    /// Returns true if a member may send and receive so many elements, as far as the member can tell alone.
    pub fn counts_fit(self, members: usize, sent: usize, received: usize) -> bool {
        match self {
            CollectiveKind::Allgather => Some(received) == sent.checked_mul(members),
            CollectiveKind::ReduceScatter => Some(sent) == received.checked_mul(members),
            CollectiveKind::Gather => sent != 0 && received.is_multiple_of(sent),
            CollectiveKind::Scatter => received != 0 && sent.is_multiple_of(received),
            CollectiveKind::Reduce
            | CollectiveKind::Allreduce
            | CollectiveKind::Broadcast
            | CollectiveKind::SendRecv
            | CollectiveKind::AllToAll => sent == received,
        }
    }

    /// Returns true if the amounts that all members send fit the amount that each receiver gets. All senders send equal
    /// amounts, and all receivers get equal amounts.
    pub fn totals_fit(self, sent: &[usize], receivers: usize, received: usize) -> bool {
        let total: usize = sent.iter().sum();
        match self {
            CollectiveKind::Gather | CollectiveKind::Broadcast | CollectiveKind::SendRecv => total == received,
            CollectiveKind::Scatter => total == received * receivers,
            CollectiveKind::Reduce => sent.iter().all(|&one| one == received),
            CollectiveKind::Allgather
            | CollectiveKind::Allreduce
            | CollectiveKind::ReduceScatter
            | CollectiveKind::AllToAll => true,
        }
    }
}

/// One of several equal consecutive shares of a tensor's elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EqualShare {
    /// Its place among the shares.
    pub index: usize,
    /// The number of shares.
    pub count: usize,
}

impl EqualShare {
    /// All elements.
    pub const WHOLE: EqualShare = EqualShare { index: 0, count: 1 };

    /// The range of this share in a tensor of `length` elements (or bytes).
    pub fn share_range(self, length: usize) -> Range<usize> {
        let share = length / self.count.max(1);
        self.index * share..(self.index + 1) * share
    }
}

/// A transfer from one member to another, or to itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CollectiveTransfer {
    /// Position of the sender in the team.
    pub from: usize,
    /// Position of the receiver in the team.
    pub to: usize,
    /// The share of the sender's input that the transfer reads.
    pub source: EqualShare,
    /// The share of the receiver's output that the transfer writes. If the collective reduces, the receiver combines
    /// its incoming transfers there, in team order.
    pub target: EqualShare,
}

/// A member's role, and its index among the senders and among the receivers.
#[derive(Clone, Copy, Debug)]
struct MemberPlace {
    role: MemberRole,
    sender: usize,
    receiver: usize,
}

/// A collective of a whole team: all its transfers.
#[derive(Clone, Debug)]
pub struct TeamTransfers {
    kind: CollectiveKind,
    members: Vec<MemberPlace>,
    senders: usize,
    receivers: usize,
}

impl TeamTransfers {
    /// The transfers of a collective whose members have these roles, in team order.
    pub fn new(kind: CollectiveKind, roles: impl IntoIterator<Item = MemberRole>) -> Self {
        let mut all = Self { kind, members: Vec::new(), senders: 0, receivers: 0 };
        for role in roles {
            all.members.push(MemberPlace { role, sender: all.senders, receiver: all.receivers });
            all.senders += usize::from(role.sends);
            all.receivers += usize::from(role.receives);
        }
        all
    }

    /// Returns the transfer from one member to another; `None` if there is none.
    pub fn transfer_between(&self, from: usize, to: usize) -> Option<CollectiveTransfer> {
        let (sender, receiver) = (self.members.get(from)?, self.members.get(to)?);
        if !sender.role.sends || !receiver.role.receives {
            return None;
        }
        let members = self.members.len();
        let whole = EqualShare::WHOLE;
        let (source, target) = match self.kind {
            CollectiveKind::Gather | CollectiveKind::Allgather => {
                (whole, EqualShare { index: sender.sender, count: self.senders })
            }
            CollectiveKind::Scatter => (EqualShare { index: receiver.receiver, count: self.receivers }, whole),
            CollectiveKind::ReduceScatter => (EqualShare { index: to, count: members }, whole),
            CollectiveKind::AllToAll => {
                (EqualShare { index: to, count: members }, EqualShare { index: from, count: members })
            }
            CollectiveKind::Broadcast
            | CollectiveKind::SendRecv
            | CollectiveKind::Reduce
            | CollectiveKind::Allreduce => (whole, whole),
        };
        Some(CollectiveTransfer { from, to, source, target })
    }

    /// All transfers to a member (including its own), in team order. Unless the collective reduces, their targets are
    /// consecutive and cover the output.
    pub fn incoming_transfers(&self, to: usize) -> impl Iterator<Item = CollectiveTransfer> {
        (0..self.members.len()).filter_map(move |from| self.transfer_between(from, to))
    }

    /// All transfers from a member (including its own), in team order.
    pub fn outgoing_transfers(&self, from: usize) -> impl Iterator<Item = CollectiveTransfer> {
        (0..self.members.len()).filter_map(move |to| self.transfer_between(from, to))
    }
}

#[cfg(test)]
mod tests;
