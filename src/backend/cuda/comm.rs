//! Collectives and messages as calls of NCCL.
//!
//! NCCL lacks some of the language's types (Gather, Scatter, AllToAll, a Broadcast that not every member
//! receives): those are groups of sends and receives. What a member has to do may depend on who else
//! sends or receives, which the plans of all ranks tell.

use crate::ir::DType;
use crate::plan::{Collective, CollectiveKind, InstKind, Plan, Prepared, RedOp, View};
use nccl_rs::DataType;
use std::collections::BTreeMap;

/// A team and who of it sends and receives in each collective, in the order of the communicator.
#[derive(Clone, Default, Debug)]
pub(super) struct Team {
    /// Absolute ranks in order.
    pub(super) ranks: Vec<u32>,
    /// By collective and position in the team: whether it sends, whether it receives.
    pub(super) sides: Vec<Vec<(bool, bool)>>,
}

/// All teams of a program with their backends, in a fixed order.
pub(super) fn teams(prepared: &Prepared) -> Vec<(String, Team)> {
    let mut table: BTreeMap<(&[u32], &str), Team> = BTreeMap::new();
    for plan in &prepared.plans {
        for (slot, communicator) in plan.communicators.iter() {
            let key = (communicator.team.as_slice(), communicator.backend.as_str());
            let team = table.entry(key).or_default();
            team.ranks.clone_from(&communicator.team);
            let Some(place) = team.ranks.iter().position(|&rank| rank == plan.rank) else {
                continue;
            };
            let own = plan.iter().filter_map(|inst| match &inst.kind {
                InstKind::Collective(collective) if collective.comm == slot => Some(collective),
                _ => None,
            });
            for (number, collective) in own.enumerate() {
                if team.sides.len() <= number {
                    team.sides.push(vec![(false, false); team.ranks.len()]);
                }
                team.sides[number][place] =
                    (collective.input.is_some(), collective.output.is_some());
            }
        }
    }
    table.into_iter().map(|((_, backend), team)| (backend.to_owned(), team)).collect()
}

/// Where a plan's communicator stands in the table of [`teams`].
pub(super) fn entry(
    teams: &[(String, Team)],
    plan: &Plan,
    slot: crate::plan::CommSlot,
) -> Option<usize> {
    let communicator = &plan.communicators[slot];
    teams.iter().position(|(backend, team)| {
        *backend == communicator.backend && team.ranks == communicator.team
    })
}

/// A run of a view's elements: from where, how many. `None` for whole views.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Part {
    /// The (contiguous) view.
    pub(super) view: View,
    /// First element behind the view's first.
    pub(super) start: usize,
    /// Number of elements.
    pub(super) count: usize,
}

impl Part {
    pub(super) fn whole(view: &View) -> Self {
        Part { start: 0, count: view.len(), view: view.clone() }
    }
    /// Part `index` of `count` equal ones.
    pub(super) fn of(view: &View, index: usize, count: usize) -> Self {
        let length = view.len() / count.max(1);
        Part { view: view.clone(), start: index * length, count: length }
    }
}

/// One call; peers and roots are positions in the team.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Call {
    AllGather {
        send: Part,
        recv: Part,
    },
    AllReduce {
        send: Part,
        recv: Part,
        op: nccl_rs::RedOp,
    },
    Reduce {
        send: Part,
        recv: Option<Part>,
        op: nccl_rs::RedOp,
        root: u32,
    },
    ReduceScatter {
        send: Part,
        recv: Part,
        op: nccl_rs::RedOp,
    },
    Broadcast {
        send: Option<Part>,
        recv: Option<Part>,
        root: u32,
    },
    Send {
        part: Part,
        peer: u32,
    },
    Recv {
        part: Part,
        peer: u32,
    },
    /// Nobody else takes part.
    Copy {
        send: Part,
        recv: Part,
    },
}

/// What a member does in a collective: calls that start together.
pub(super) fn calls(
    collective: &Collective,
    place: usize,
    sides: &[(bool, bool)],
) -> Result<Vec<Call>, String> {
    let (input, output) = (collective.input.as_ref(), collective.output.as_ref());
    if sides.len() == 1 {
        let copy = |(send, recv)| Call::Copy { send: Part::whole(send), recv: Part::whole(recv) };
        return Ok(input.zip(output).map(copy).into_iter().collect());
    }
    if let Some(dtype) = input.or(output).map(|view| view.dtype) {
        data_type(dtype)?;
    }
    match collective.kind {
        CollectiveKind::Allgather | CollectiveKind::Allreduce | CollectiveKind::ReduceScatter => {
            together(collective)
        }
        CollectiveKind::Reduce => reduce(collective, place, sides),
        CollectiveKind::Broadcast | CollectiveKind::SendRecv => broadcast(collective, place, sides),
        CollectiveKind::Gather => Ok(gather(collective, place, sides)),
        CollectiveKind::Scatter => Ok(scatter(collective, place, sides)),
        CollectiveKind::AllToAll => Ok(all_to_all(collective, sides.len())),
    }
}

/// Collectives in which everybody sends and receives.
fn together(collective: &Collective) -> Result<Vec<Call>, String> {
    let (Some(input), Some(output)) = (&collective.input, &collective.output) else {
        return Err("a member that does not send or receive".to_owned());
    };
    let (send, recv) = (Part::whole(input), Part::whole(output));
    Ok(vec![match collective.kind {
        CollectiveKind::Allgather => Call::AllGather { send, recv },
        CollectiveKind::Allreduce => Call::AllReduce { send, recv, op: reduction(collective)? },
        _ => Call::ReduceScatter { send, recv, op: reduction(collective)? },
    }])
}

fn root(collective: &Collective) -> usize {
    collective.root.unwrap_or(0)
}

fn reduce(
    collective: &Collective,
    place: usize,
    sides: &[(bool, bool)],
) -> Result<Vec<Call>, String> {
    let Some(input) = collective.input.as_ref().filter(|_| sides.iter().all(|side| side.0)) else {
        return Err("a Reduce whose root is not one of the senders".to_owned());
    };
    let recv = collective.output.as_ref().filter(|_| place == root(collective));
    Ok(vec![Call::Reduce {
        send: Part::whole(input),
        recv: recv.map(Part::whole),
        op: reduction(collective)?,
        root: root(collective) as u32,
    }])
}

fn broadcast(
    collective: &Collective,
    place: usize,
    sides: &[(bool, bool)],
) -> Result<Vec<Call>, String> {
    let root = root(collective);
    let send = collective.input.as_ref().map(Part::whole);
    let recv = collective.output.as_ref().map(Part::whole);
    if sides.iter().enumerate().all(|(member, side)| member == root || side.1) {
        return Ok(vec![Call::Broadcast { send, recv, root: root as u32 }]);
    }
    let mut calls = Vec::new();
    if let Some(part) = send.filter(|_| place == root) {
        let receivers = (0..sides.len()).filter(|&member| sides[member].1);
        calls.extend(receivers.map(|peer| Call::Send { part: part.clone(), peer: peer as u32 }));
    }
    calls.extend(recv.map(|part| Call::Recv { part, peer: root as u32 }));
    Ok(calls)
}

fn gather(collective: &Collective, place: usize, sides: &[(bool, bool)]) -> Vec<Call> {
    let root = root(collective);
    let send = collective.input.as_ref().map(Part::whole);
    let mut calls: Vec<Call> =
        send.map(|part| Call::Send { part, peer: root as u32 }).into_iter().collect();
    if let Some(view) = collective.output.as_ref().filter(|_| place == root) {
        let senders: Vec<usize> = (0..sides.len()).filter(|&member| sides[member].0).collect();
        let count = senders.len();
        calls.extend(senders.into_iter().enumerate().map(|(index, peer)| Call::Recv {
            part: Part::of(view, index, count),
            peer: peer as u32,
        }));
    }
    calls
}

fn scatter(collective: &Collective, place: usize, sides: &[(bool, bool)]) -> Vec<Call> {
    let root = root(collective);
    let mut calls = Vec::new();
    if let Some(view) = collective.input.as_ref().filter(|_| place == root) {
        let receivers: Vec<usize> = (0..sides.len()).filter(|&member| sides[member].1).collect();
        let count = receivers.len();
        calls.extend(receivers.into_iter().enumerate().map(|(index, peer)| Call::Send {
            part: Part::of(view, index, count),
            peer: peer as u32,
        }));
    }
    let recv = collective.output.as_ref().map(Part::whole);
    calls.extend(recv.map(|part| Call::Recv { part, peer: root as u32 }));
    calls
}

fn all_to_all(collective: &Collective, members: usize) -> Vec<Call> {
    let mut calls = Vec::new();
    for peer in 0..members {
        let parts = |view: &View| Part::of(view, peer, members);
        let send = collective.input.as_ref().map(parts);
        let recv = collective.output.as_ref().map(parts);
        calls.extend(send.map(|part| Call::Send { part, peer: peer as u32 }));
        calls.extend(recv.map(|part| Call::Recv { part, peer: peer as u32 }));
    }
    calls
}

/// The operation of a reduction; truth values are bytes of 0 and 1.
fn reduction(collective: &Collective) -> Result<nccl_rs::RedOp, String> {
    let view = collective.input.as_ref().or(collective.output.as_ref());
    let truths = view.is_some_and(|view| view.dtype == DType::Bool);
    Ok(match collective.red_op {
        RedOp::Sum | RedOp::Or if truths => nccl_rs::RedOp::Max,
        RedOp::Product | RedOp::And if truths => nccl_rs::RedOp::Min,
        RedOp::Sum => nccl_rs::RedOp::Sum,
        RedOp::Product => nccl_rs::RedOp::Prod,
        RedOp::Min => nccl_rs::RedOp::Min,
        RedOp::Max => nccl_rs::RedOp::Max,
        RedOp::Avg if !truths => nccl_rs::RedOp::Avg,
        op => return Err(format!("the reduce operation `{}`, which NCCL lacks", op.word())),
    })
}

/// NCCL's name of a type.
pub(super) fn data_type(dtype: DType) -> Result<DataType, String> {
    Ok(match dtype {
        DType::Double => DataType::Float64,
        DType::Float => DataType::Float32,
        DType::Half => DataType::Float16,
        DType::BFloat16 => DataType::Bfloat16,
        DType::Int | DType::Index => DataType::Int64,
        DType::Int32 => DataType::Int32,
        DType::Bool => DataType::Uint8,
        dtype => return Err(format!("a communication of `{}`", dtype.name())),
    })
}
