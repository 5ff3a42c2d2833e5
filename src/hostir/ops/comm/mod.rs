//! Communication ops: collectives, point-to-point messages, groups, and waits.

mod checks;
mod experts;
mod handles;
pub(crate) mod links;
mod local_parts;
mod lowering;
mod root_advice;

pub use experts::{COMBINE, DISPATCH};
pub(super) use lowering::emit_mesh_allgather;

use super::spec::{ArgKind, ArgSpec, Infer, Lower, OpSpec};
use super::tensor_checks;
use crate::diag::Message;
use crate::ir::{
    AttrKey, AttrValue, CommBackend, CommunicationEffect, ExprId, MessageDirection, MessageProtocol, Op, OpEffect,
    OpIdentity, OpKind, OpLayout, OwnForm, RootAs, RunsOn, StandaloneRule, Symbol, TensorId, Value, WordLink,
};

/// Types of a Communication.
pub const COMMUNICATION_TYPES: &[&str] =
    &["Gather", "Allgather", "Scatter", "Reduce", "Allreduce", "ReduceScatter", "Broadcast", "SendRecv", "AllToAll"];
/// Types of a P2PCommunication.
pub const P2P_TYPES: &[&str] = MessageDirection::WORDS;
/// The initiator of a message on the CUDA backend; `get`, the receiver, by default.
pub const PROTOCOLS: &[&str] = MessageProtocol::WORDS;
/// Communicator backends.
pub const BACKENDS: &[&str] = CommBackend::WORDS;
/// Reduce operations of a Communication; `sum` by default.
pub const RED_OPS: &[&str] = &["sum", "avg", "product", "min", "max", "band", "bor", "bxor"];

/// `element=`: the element of an array of handles.
const ELEMENT: ArgSpec = ArgSpec::tight("element", AttrKey::Element, ArgKind::Expr).optional();

/// `Communication`.
pub const COMMUNICATION: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "Communication",
        layout: OpLayout::Keyed,
        results: 0,
        effect: OpEffect::Communicate(CommunicationEffect::Collective),
        standalone: StandaloneRule::Yes,
        runs_on: RunsOn::Team,
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Starts a collective on the queue of its communicator.",
    args: &[
        ArgSpec::tight("type", AttrKey::Type, ArgKind::Word(COMMUNICATION_TYPES)),
        ArgSpec::tight("team", AttrKey::Team, ArgKind::Team).optional(),
        ArgSpec::tight("over", AttrKey::Over, ArgKind::Expr).optional(),
        ArgSpec::tight("root", AttrKey::Root, ArgKind::Expr).optional(),
        ArgSpec::tight("root_as", AttrKey::RootAs, ArgKind::Word(RootAs::WORDS)).optional(),
        ArgSpec::tight("red_op", AttrKey::RedOp, ArgKind::Word(RED_OPS)).optional(),
        ArgSpec::keyed_operand("input"),
        ArgSpec::keyed_result("output"),
        ArgSpec::tight("backend", AttrKey::Backend, ArgKind::Word(BACKENDS)).optional(),
        ArgSpec::tight("comm", AttrKey::Comm, ArgKind::Name).optional(),
        ELEMENT,
    ],
    relate: Some(links::link_communication),
    infer: Infer::Written,
    checks: &[tensor_checks::check_one_dtype, checks::check_communication],
    repair: None,
    lower: Lower::Instructions(lowering::lower_communication),
};

/// `P2PCommunication`.
pub const P2P_COMMUNICATION: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "P2PCommunication",
        layout: OpLayout::Keyed,
        results: 0,
        effect: OpEffect::Communicate(CommunicationEffect::Message),
        standalone: StandaloneRule::Yes,
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Starts a send or a receive; the buffer is its operand when it sends and its result when it receives.",
    args: &[
        ArgSpec::tight("type", AttrKey::Type, ArgKind::Word(P2P_TYPES)),
        ArgSpec::keyed_operand("buffer"),
        ArgSpec::tight("peer", AttrKey::Peer, ArgKind::Expr),
        ArgSpec::tight("backend", AttrKey::Backend, ArgKind::Word(BACKENDS)).optional(),
        ArgSpec::tight("protocol", AttrKey::Protocol, ArgKind::Word(PROTOCOLS)).optional(),
        ArgSpec::tight("comm", AttrKey::Comm, ArgKind::Name).optional(),
        ELEMENT,
    ],
    relate: None,
    infer: Infer::Written,
    checks: &[checks::check_p2p],
    repair: None,
    lower: Lower::Instructions(lowering::lower_p2p),
};

/// `CollectivePermute`.
pub const COLLECTIVE_PERMUTE: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "CollectivePermute",
        layout: OpLayout::Keyed,
        results: 0,
        effect: OpEffect::Communicate(CommunicationEffect::Permute),
        runs_on: RunsOn::Team,
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Sends to one peer and receives from another.",
    args: &[
        ArgSpec::tight("team", AttrKey::Team, ArgKind::Team).optional(),
        ArgSpec::tight("over", AttrKey::Over, ArgKind::Expr).optional(),
        ArgSpec::tight("send_peer", AttrKey::SendPeer, ArgKind::Expr),
        ArgSpec::tight("recv_peer", AttrKey::RecvPeer, ArgKind::Expr),
        ArgSpec::keyed_operand("input"),
        ArgSpec::keyed_result("output"),
        ArgSpec::tight("backend", AttrKey::Backend, ArgKind::Word(BACKENDS)).optional(),
        ArgSpec::tight("comm", AttrKey::Comm, ArgKind::Name).optional(),
        ELEMENT,
    ],
    relate: Some(links::link_collective_permute),
    infer: Infer::Written,
    checks: &[tensor_checks::check_one_dtype, checks::check_collective_permute],
    repair: None,
    lower: Lower::Instructions(lowering::lower_collective_permute),
};

/// `StartCoalescing`.
pub const START_COALESCING: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "StartCoalescing",
        layout: OpLayout::Words(WordLink::None),
        results: 0,
        effect: OpEffect::Communicate(CommunicationEffect::StartGroup),
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Opens a group of point-to-point operations that start together.",
    args: &[],
    relate: None,
    infer: Infer::Written,
    checks: &[],
    repair: None,
    lower: Lower::Instructions(lowering::lower_start_coalescing),
};

/// `EndCoalescing`.
pub const END_COALESCING: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "EndCoalescing",
        layout: OpLayout::Words(WordLink::Number),
        results: 0,
        effect: OpEffect::Communicate(CommunicationEffect::EndGroup),
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Starts the group; a Wait names its number.",
    args: &[ELEMENT],
    relate: None,
    infer: Infer::Written,
    checks: &[],
    repair: None,
    lower: Lower::Instructions(lowering::lower_end_coalescing),
};

/// `Wait`.
pub const WAIT: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "Wait",
        layout: OpLayout::Words(WordLink::None),
        results: 0,
        effect: OpEffect::Communicate(CommunicationEffect::Wait),
        runs_on: RunsOn::Handle,
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Makes the current stream wait for a communication, for an element of an array of handles, or for all of its elements.",
    args: &[ArgSpec::operand(ArgKind::Handle), ELEMENT],
    relate: None,
    infer: Infer::Written,
    checks: &[],
    repair: None,
    lower: Lower::Instructions(handles::lower_wait),
};

/// `ShareMemHandles`.
pub const SHARE_MEM_HANDLES: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "ShareMemHandles",
        layout: OpLayout::Own(OwnForm::ShareMemHandles),
        results: 0,
        effect: OpEffect::Communicate(CommunicationEffect::ShareMemory),
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Exchanges memory handles for the point-to-point operations that it lists.",
    args: &[],
    relate: None,
    infer: Infer::Written,
    checks: &[],
    repair: None,
    lower: Lower::Instructions(lowering::lower_share_mem_handles),
};

/// `Communication (input=.., output=..)`, without attributes and number.
pub fn collective_op(input: TensorId, output: TensorId) -> Op {
    transfer_op(OpKind::Communication, input, output)
}

/// `CollectivePermute (input=.., output=..)`, without attributes and number.
pub fn collective_permute_op(input: TensorId, output: TensorId) -> Op {
    transfer_op(OpKind::CollectivePermute, input, output)
}

fn transfer_op(kind: OpKind, input: TensorId, output: TensorId) -> Op {
    Op::new(kind).with_operand(Value::Tensor(input)).with_result(Value::Tensor(output))
}

/// `P2PCommunication (type=send, peer=.., backend=..)`, without its number and its buffer, which is the operand of a send
/// and the result of a receive.
pub fn message_op(kind: Symbol, peer: ExprId, backend: AttrValue) -> Op {
    let attrs = vec![
        (AttrKey::Type, AttrValue::Word(kind)),
        (AttrKey::Peer, AttrValue::Expr(peer)),
        (AttrKey::Backend, backend),
    ];
    Op { attrs, ..Op::new(OpKind::P2PCommunication) }
}

/// `StartCoalescing`
pub fn group_start_op() -> Op {
    Op::new(OpKind::StartCoalescing)
}

/// `EndCoalescing 32`
pub fn group_end_op(number: u32) -> Op {
    Op { number: Some(number), ..Op::new(OpKind::EndCoalescing) }
}

/// `Wait Communication 39`
pub fn wait_op(number: u32) -> Op {
    Op::new(OpKind::Wait).with_operand(Value::Handle(number))
}

/// `ShareMemHandles()`; its operands are messages ([`Value::Op`]).
pub fn memory_exchange_op() -> Op {
    Op::new(OpKind::ShareMemHandles)
}

/// The repair where some of a program's data moves by communications, and some does not.
pub(crate) fn half_lowered_advice() -> Message {
    Message::advice(
        "lower either the whole program or no part of it",
        "communicate, as in `wait allgather(A -> G)`, or give both tensors one mesh and the same axes on it; plain math \
         has no loops and no communications",
    )
}
