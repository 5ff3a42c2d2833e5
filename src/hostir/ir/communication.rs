//! The words of communications as types: the backend, the direction and the initiator of a message.
//!
//! The IR keeps the words, so that they print as they were written; every other layer uses these types.

use super::expr::{Expr, MeshCoordinate};
use super::ids::{ExprId, MeshId};
use super::op::{AttrKey, AttrValue, Op};
use super::program::Program;
use super::types::ParallelType;

/// The library or mechanism that carries a communication.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub enum CommBackend {
    /// Copies between the memories of devices, on the streams of the program.
    Cuda,
    /// NCCL.
    #[default]
    Nccl,
    /// UCC.
    Ucc,
}

impl CommBackend {
    /// The words of `backend=`.
    pub const WORDS: &[&str] = &["NCCL", "UCC", "CUDA"];
    /// The word of `backend=`.
    pub const fn word(self) -> &'static str {
        match self {
            CommBackend::Cuda => "CUDA",
            CommBackend::Nccl => "NCCL",
            CommBackend::Ucc => "UCC",
        }
    }
    /// The backend of a word.
    pub fn parse(word: &str) -> Option<Self> {
        [CommBackend::Cuda, CommBackend::Nccl, CommBackend::Ucc].into_iter().find(|backend| backend.word() == word)
    }
}

impl std::fmt::Display for CommBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}

/// The direction of a point-to-point message, seen from one of its two ranks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MessageDirection {
    /// This rank sends.
    Send,
    /// This rank receives.
    Recv,
}

impl MessageDirection {
    /// The words of `type=`.
    pub const WORDS: &[&str] = &["send", "recv"];
    /// The word of `type=`.
    pub const fn word(self) -> &'static str {
        match self {
            MessageDirection::Send => "send",
            MessageDirection::Recv => "recv",
        }
    }
    /// The direction of a word.
    pub fn parse(word: &str) -> Option<Self> {
        [MessageDirection::Send, MessageDirection::Recv].into_iter().find(|direction| direction.word() == word)
    }
    /// Returns true if this rank sends.
    pub fn is_send(self) -> bool {
        self == MessageDirection::Send
    }
}

/// The side of a message that copies, its initiator; the other side, the target, says when its buffer may be used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub enum MessageProtocol {
    /// The receiver copies.
    #[default]
    Get,
    /// The sender copies.
    Put,
}

impl MessageProtocol {
    /// The words of `protocol=`.
    pub const WORDS: &[&str] = &["get", "put"];
    /// The word of `protocol=`.
    pub const fn word(self) -> &'static str {
        match self {
            MessageProtocol::Get => "get",
            MessageProtocol::Put => "put",
        }
    }
    /// The protocol of a word.
    pub fn parse(word: &str) -> Option<Self> {
        [MessageProtocol::Get, MessageProtocol::Put].into_iter().find(|protocol| protocol.word() == word)
    }
    /// The side that copies.
    pub fn initiator(self) -> MessageDirection {
        match self {
            MessageProtocol::Get => MessageDirection::Recv,
            MessageProtocol::Put => MessageDirection::Send,
        }
    }
}

impl Program {
    /// The backend of a communication: the usual one unless `backend=` names another.
    pub fn comm_backend(&self, op: &Op) -> CommBackend {
        self.parsed_word(op, AttrKey::Backend, CommBackend::parse).unwrap_or_default()
    }
    /// The name of a communication's communicator among those of its team and backend; most have none.
    pub fn comm_name(&self, op: &Op) -> Option<&str> {
        op.word_attr(AttrKey::Comm).map(|word| self.name(word))
    }
    /// The mesh axis along which the teams of a communication are (`over=`).
    pub fn team_axis(&self, op: &Op) -> Option<(MeshId, ParallelType)> {
        match *self.expr(op.expr_attr(AttrKey::Over)?) {
            Expr::MeshCoordinate(mesh, MeshCoordinate::Along(axis)) => Some((mesh, axis)),
            _ => None,
        }
    }
    /// The team of a communication of which a device is a member; for `team=`, whether it is one or not.
    pub fn team_of(&self, op: &Op, device: u32) -> Option<Vec<i64>> {
        let Some((mesh, axis)) = self.team_axis(op) else { return op.ints_attr(AttrKey::Team).map(<[i64]>::to_vec) };
        let line = self.mesh(mesh).line_through(device, axis)?;
        Some(line.into_iter().map(i64::from).collect())
    }
    /// The members of a communication's team, if some of them are computed (from the index of a loop, or the rank).
    pub fn computed_team<'o>(&self, op: &'o Op) -> Option<&'o [ExprId]> {
        match op.attr(AttrKey::Team)? {
            AttrValue::Exprs(members) => Some(members),
            _ => None,
        }
    }
    /// The number of members of each team of a communication.
    pub fn team_size(&self, op: &Op) -> Option<usize> {
        match (self.team_axis(op), self.computed_team(op)) {
            (Some((mesh, axis)), _) => self.mesh(mesh).axis_extent(axis).map(|extent| extent as usize),
            (None, Some(members)) => Some(members.len()),
            (None, None) => op.ints_attr(AttrKey::Team).map(<[i64]>::len),
        }
    }
    /// A team of these members: constants, if all are.
    pub fn team_attr(&self, members: &[ExprId]) -> AttrValue {
        let constants: Option<Box<[i64]>> = members.iter().map(|&member| self.exprs().as_int(member)).collect();
        match constants {
            Some(constants) => AttrValue::Ints(constants),
            None => AttrValue::Exprs(members.into()),
        }
    }
    /// The direction of a `P2PCommunication`, by its `type=`.
    pub fn message_direction(&self, op: &Op) -> Option<MessageDirection> {
        self.parsed_word(op, AttrKey::Type, MessageDirection::parse)
    }
    /// The initiator of a message with `backend=CUDA`: the receiver unless `protocol=` names the sender.
    pub fn message_protocol(&self, op: &Op) -> MessageProtocol {
        self.parsed_word(op, AttrKey::Protocol, MessageProtocol::parse).unwrap_or_default()
    }
    fn parsed_word<T>(&self, op: &Op, key: AttrKey, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        op.word_attr(key).and_then(|word| parse(self.name(word)))
    }
}
