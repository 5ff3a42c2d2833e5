//! Moves the data of communications between the memories of ranks.

use super::element_vector::{ElementVector, require_vector_class};
use super::executor::CpuRank;
use super::reduce::combine_members;
use crate::backend::fault::ExecutionFault;
use crate::diag::Diag;
use crate::ir::DType;
use crate::lower::PreparedProgram;
use crate::plan::{BufferView, CollectiveTransfer, EqualShare, InstId, MemberRole, TeamTransfers};
use crate::plan_checks::walk::{CollectiveEnd, MessageEnd, RankClock, WalkRanks};

/// Moves one message.
pub(super) fn move_message<C: RankClock>(
    walk: &mut WalkRanks<'_, '_, CpuRank<'_>, C>,
    send: &MessageEnd<'_>,
    receive: &MessageEnd<'_>,
) -> Result<(), Diag> {
    let prepared = walk.prepared;
    let sender = &mut walk.ranks[send.rank].executor;
    let bytes = read_sent(prepared, sender, send.inst, &send.view)?;
    sender.stats.communications += 2;
    sender.stats.bytes += bytes.len() as u64;
    let receiver = &mut walk.ranks[receive.rank].executor;
    write_received(prepared, receiver, receive.inst, &receive.view, &bytes)
}

/// Reads the data that the members of a collective send, combines it and writes the data that they receive.
pub(super) fn move_collective<C: RankClock>(
    walk: &mut WalkRanks<'_, '_, CpuRank<'_>, C>,
    ends: &[CollectiveEnd<'_>],
) -> Result<(), Diag> {
    let prepared = walk.prepared;
    let Some(first) = ends.first() else { return Ok(()) };
    let mut sent = Vec::new();
    for end in ends {
        let rank = &walk.ranks[end.rank].executor;
        let input = end.collective.input.as_ref();
        sent.push(input.map(|view| read_sent(prepared, rank, end.inst, view)).transpose()?);
    }
    let rank = &walk.ranks[first.rank].executor;
    let received = received_bytes(ends, &sent)
        .map_err(|fault| fault.into_diag(prepared, rank.plan, rank.plan.inst(first.inst).origin))?;
    for (end, bytes) in ends.iter().zip(received) {
        let rank = &mut walk.ranks[end.rank].executor;
        rank.stats.communications += 1;
        if let (Some(view), Some(bytes)) = (&end.collective.output, bytes) {
            rank.stats.bytes += bytes.len() as u64;
            write_received(prepared, rank, first.inst, view, &bytes)?;
        }
    }
    Ok(())
}

fn read_sent(prepared: &PreparedProgram, rank: &CpuRank<'_>, inst: InstId, view: &BufferView) -> Result<Vec<u8>, Diag> {
    let bytes = rank.memory.read_bytes(view);
    bytes.map_err(|fault| fault.into_diag(prepared, rank.plan, rank.plan.inst(inst).origin))
}

fn write_received(
    prepared: &PreparedProgram,
    rank: &mut CpuRank<'_>,
    inst: InstId,
    view: &BufferView,
    bytes: &[u8],
) -> Result<(), Diag> {
    let plan = rank.plan;
    let written = rank.memory.write_bytes(plan, view, bytes);
    written.map_err(|fault| fault.into_diag(prepared, plan, plan.inst(inst).origin))
}

/// A result of a reduction, and its share of the inputs.
struct ReducedShare {
    share: EqualShare,
    bytes: Vec<u8>,
}

/// By member: the data that it receives.
pub(super) fn received_bytes(
    ends: &[CollectiveEnd<'_>],
    sent: &[Option<Vec<u8>>],
) -> Result<Vec<Option<Vec<u8>>>, ExecutionFault> {
    let Some(first) = ends.first() else { return Ok(Vec::new()) };
    let kind = first.collective.kind;
    let team = TeamTransfers::new(kind, ends.iter().map(|end| MemberRole::of_side(&end.collective)));
    // Receivers of the same share get the same result, which is computed once.
    let mut known: Option<ReducedShare> = None;
    let mut received = Vec::new();
    for (member, end) in ends.iter().enumerate() {
        if end.collective.output.is_none() {
            received.push(None);
            continue;
        }
        let incoming: Vec<CollectiveTransfer> = team.incoming_transfers(member).collect();
        let parts = incoming.iter().filter_map(|transfer| source_bytes(transfer, sent));
        received.push(Some(match incoming.first() {
            Some(transfer) if kind.is_reducing() => match &known {
                Some(reduced) if reduced.share == transfer.source => reduced.bytes.clone(),
                _ => {
                    let bytes = reduced_bytes(ends, parts)?;
                    known = Some(ReducedShare { share: transfer.source, bytes: bytes.clone() });
                    bytes
                }
            },
            _ => parts.flatten().copied().collect(),
        }));
    }
    Ok(received)
}

/// The bytes of the sender's input that a transfer reads.
fn source_bytes<'s>(transfer: &CollectiveTransfer, sent: &'s [Option<Vec<u8>>]) -> Option<&'s [u8]> {
    let input = sent.get(transfer.from)?.as_deref()?;
    input.get(transfer.source.share_range(input.len()))
}

/// Combines the members' shards in team order, and rounds to their type once.
fn reduced_bytes<'s>(
    ends: &[CollectiveEnd<'_>],
    parts: impl Iterator<Item = &'s [u8]>,
) -> Result<Vec<u8>, ExecutionFault> {
    let side = ends.iter().find_map(|end| Some((&end.collective, end.collective.input.as_ref()?)));
    let Some((collective, input)) = side else { return Ok(Vec::new()) };
    let dtype = input.dtype;
    require_vector_class(dtype)?;
    let members: Result<Vec<ElementVector>, ExecutionFault> =
        parts.map(|bytes| ElementVector::from_bytes(dtype, bytes)).collect();
    match combine_members(collective.red_op, dtype == DType::Bool, members?)? {
        Some(element_vector) => element_vector.into_bytes(dtype),
        None => Ok(Vec::new()),
    }
}
