//! Communication: collectives, point to point, groups of them, and waiting.

use super::spec::{ArgKind, ArgSpec, Effect, Layout, Link, OpSpec, Standalone, no_axes, no_checks};
use crate::ir::{AttrKey, RootAs};
use crate::plan::{self, unsupported};
use crate::verify::rules;

/// Types of a Communication.
pub const COMMUNICATION_TYPES: &[&str] = &[
    "Gather",
    "Allgather",
    "Scatter",
    "Reduce",
    "Allreduce",
    "ReduceScatter",
    "Broadcast",
    "SendRecv",
    "AllToAll",
];
/// Types of a P2PCommunication.
pub const P2P_TYPES: &[&str] = &["send", "recv"];
/// Which side of a message copies on the CUDA backend; `get`, the receiver, when left out.
pub const PROTOCOLS: &[&str] = &["get", "put"];
/// Communicator backends.
pub const BACKENDS: &[&str] = &["NCCL", "UCC", "CUDA"];
/// Reduce operations of a Communication; `sum` when left out.
pub const RED_OPS: &[&str] = &["sum", "avg", "product", "min", "max", "band", "bor", "bxor"];
/// Last element of a [`AttrKey::Team`] that nvFuser cut off (it prints 100 devices, then ` ...`).
pub const TEAM_CUT: i64 = -1;

/// `Communication`.
pub const COMMUNICATION: OpSpec = OpSpec {
    name: "Communication",
    spellings: &[],
    summary: "Starts a collective on the queue of its communicator.",
    layout: Layout::Keyed,
    results: 0,
    args: &[
        ArgSpec::tight("type", AttrKey::Type, ArgKind::Word(COMMUNICATION_TYPES)),
        ArgSpec::tight("team", AttrKey::Team, ArgKind::Team),
        ArgSpec::tight("root", AttrKey::Root, ArgKind::Expr).optional(),
        ArgSpec::tight("root_as", AttrKey::RootAs, ArgKind::Word(RootAs::WORDS)).optional(),
        ArgSpec::tight("red_op", AttrKey::RedOp, ArgKind::Word(RED_OPS)).optional(),
        ArgSpec::keyed_operand("input"),
        ArgSpec::keyed_result("output"),
        ArgSpec::tight("backend", AttrKey::Backend, ArgKind::Word(BACKENDS)).optional(),
    ],
    effect: Effect::Communicate,
    standalone: Standalone::Yes,
    axes: rules::communication::axes,
    makes_axes: false,
    verify: rules::communication::verify,
    lower: plan::lower_communication,
};

/// `P2PCommunication`.
pub const P2P_COMMUNICATION: OpSpec = OpSpec {
    name: "P2PCommunication",
    spellings: &[],
    summary: "Starts a send or a receive; the buffer is its operand when it sends and its result when it receives.",
    layout: Layout::Keyed,
    results: 0,
    args: &[
        ArgSpec::tight("type", AttrKey::Type, ArgKind::Word(P2P_TYPES)),
        ArgSpec::keyed_operand("buffer"),
        ArgSpec::tight("peer", AttrKey::Peer, ArgKind::Expr),
        ArgSpec::tight("backend", AttrKey::Backend, ArgKind::Word(BACKENDS)).optional(),
        ArgSpec::tight("protocol", AttrKey::Protocol, ArgKind::Word(PROTOCOLS)).optional(),
    ],
    effect: Effect::Communicate,
    standalone: Standalone::Yes,
    axes: no_axes,
    makes_axes: false,
    verify: rules::p2p::verify,
    lower: plan::lower_p2p,
};

/// `CollectivePermute`.
pub const COLLECTIVE_PERMUTE: OpSpec = OpSpec {
    name: "CollectivePermute",
    spellings: &[],
    summary: "Sends to one peer and receives from another.",
    layout: Layout::Keyed,
    results: 0,
    args: &[
        ArgSpec::tight("team", AttrKey::Team, ArgKind::Team),
        ArgSpec::tight("send_peer", AttrKey::SendPeer, ArgKind::Expr),
        ArgSpec::tight("recv_peer", AttrKey::RecvPeer, ArgKind::Expr),
        ArgSpec::keyed_operand("input"),
        ArgSpec::keyed_result("output"),
        ArgSpec::tight("backend", AttrKey::Backend, ArgKind::Word(BACKENDS)).optional(),
    ],
    effect: Effect::Communicate,
    standalone: Standalone::No,
    axes: rules::collective_permute::axes,
    makes_axes: false,
    verify: rules::collective_permute::verify,
    lower: plan::lower_collective_permute,
};

/// `StartCoalescing`.
pub const START_COALESCING: OpSpec = OpSpec {
    name: "StartCoalescing",
    spellings: &[],
    summary: "Opens a group of point-to-point operations that start together.",
    layout: Layout::Words(Link::None),
    results: 0,
    args: &[],
    effect: Effect::Communicate,
    standalone: Standalone::No,
    axes: no_axes,
    makes_axes: false,
    verify: no_checks,
    lower: plan::lower_start_coalescing,
};

/// `EndCoalescing`.
pub const END_COALESCING: OpSpec = OpSpec {
    name: "EndCoalescing",
    spellings: &[],
    summary: "Starts the group; its number is what a Wait names.",
    layout: Layout::Words(Link::Number),
    results: 0,
    args: &[],
    effect: Effect::Communicate,
    standalone: Standalone::No,
    axes: no_axes,
    makes_axes: false,
    verify: no_checks,
    lower: plan::lower_end_coalescing,
};

/// `Wait`.
pub const WAIT: OpSpec = OpSpec {
    name: "Wait",
    spellings: &[],
    summary: "Makes the current stream wait for a communication.",
    layout: Layout::Words(Link::None),
    results: 0,
    args: &[ArgSpec::operand(ArgKind::Handle)],
    effect: Effect::Communicate,
    standalone: Standalone::No,
    axes: no_axes,
    makes_axes: false,
    verify: no_checks,
    lower: plan::lower_wait,
};

/// `ShareMemHandles`.
pub const SHARE_MEM_HANDLES: OpSpec = OpSpec {
    name: "ShareMemHandles",
    spellings: &[],
    summary: "Exchanges memory handles for the point-to-point operations it lists.",
    layout: Layout::Own,
    results: 0,
    args: &[],
    effect: Effect::Communicate,
    standalone: Standalone::No,
    axes: no_axes,
    makes_axes: false,
    verify: no_checks,
    lower: plan::lower_share_mem_handles,
};

/// `Dispatch`.
pub const DISPATCH: OpSpec = OpSpec {
    name: "Dispatch",
    spellings: &[],
    summary: "Sends tokens to their experts.",
    layout: Layout::Keyed,
    results: 0,
    args: &[
        ArgSpec::tight("num_experts", AttrKey::NumExperts, ArgKind::Int),
        ArgSpec::tight("backend", AttrKey::Backend, ArgKind::Word(BACKENDS)).optional(),
        ArgSpec::keyed_operand("in"),
        ArgSpec::keyed_operand("topk_idx"),
        ArgSpec::keyed_operand("topk_weights"),
        ArgSpec::keyed_result("out"),
    ],
    effect: Effect::Communicate,
    standalone: Standalone::No,
    axes: no_axes,
    makes_axes: false,
    verify: no_checks,
    lower: unsupported,
};

/// `Combine`.
pub const COMBINE: OpSpec = OpSpec {
    name: "Combine",
    spellings: &[],
    summary: "Brings tokens back from their experts.",
    layout: Layout::Keyed,
    results: 0,
    args: &[
        ArgSpec::tight("backend", AttrKey::Backend, ArgKind::Word(BACKENDS)).optional(),
        ArgSpec::keyed_operand("in"),
        ArgSpec::keyed_operand("topk_weights"),
        ArgSpec::keyed_operand("src_idx"),
        ArgSpec::keyed_result("out"),
    ],
    effect: Effect::Communicate,
    standalone: Standalone::No,
    axes: no_axes,
    makes_axes: false,
    verify: no_checks,
    lower: unsupported,
};
