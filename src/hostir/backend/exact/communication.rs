//! Carries instructions out, and moves exact elements between the memories of ranks.

use super::executor::ExactRank;
use super::field::FieldElement;
use super::hash::HashedSubject;
use super::reduce::{fold_elements, folded_degree};
use super::value::{ExactColumn, ExactValue, holds_numbers, stored_integer};
use super::work::HashContext;
use crate::backend::fault::ExecutionFault;
use crate::diag::Diag;
use crate::ir::DType;
use crate::lower::PreparedProgram;
use crate::plan::{CollectiveTransfer, Inst, MemberRole, RedOp, TeamTransfers};
use crate::plan_checks::walk::{CollectiveEnd, MessageEnd, RankClock, RankExecutor, StreamStep, WalkRanks};

impl RankExecutor for ExactRank<'_> {
    fn execute_step(&mut self, prepared: &PreparedProgram, step: &StreamStep<'_>) -> Result<(), Diag> {
        if step.inst.kind.is_local() {
            let executed = self.execute_local(step.inst);
            executed.map_err(|fault| fault.into_diag(prepared, self.plan, step.inst.origin))?;
            self.release_views(step.inst);
        }
        Ok(())
    }

    fn release_views(&mut self, inst: &Inst) {
        self.memory.release_views(inst.kind.read_views().into_iter().chain(inst.kind.written_views()));
    }

    fn move_message<C: RankClock>(
        walk: &mut WalkRanks<'_, '_, Self, C>,
        send: &MessageEnd<'_>,
        receive: &MessageEnd<'_>,
    ) -> Result<(), Diag> {
        let sender = &mut walk.ranks[send.rank].executor;
        let column = sender.memory.read_view(sender.plan, &send.view);
        let receiver = &mut walk.ranks[receive.rank].executor;
        receiver.memory.write_view(receiver.plan, &receive.view, &column);
        Ok(())
    }

    fn move_collective<C: RankClock>(
        walk: &mut WalkRanks<'_, '_, Self, C>,
        ends: &[CollectiveEnd<'_>],
    ) -> Result<(), Diag> {
        move_members(walk, ends)
    }
}

/// Reads the elements that the members of a collective send, combines them and writes the elements that they receive.
fn move_members<C: RankClock>(
    walk: &mut WalkRanks<'_, '_, ExactRank<'_>, C>,
    ends: &[CollectiveEnd<'_>],
) -> Result<(), Diag> {
    let prepared = walk.prepared;
    let sent: Vec<Option<ExactColumn>> = ends.iter().map(|end| read_sent(walk, end)).collect();
    let Some(first) = ends.first() else { return Ok(()) };
    let roles = ends.iter().map(|end| MemberRole::of_side(&end.collective));
    let team = TeamTransfers::new(first.collective.kind, roles);
    for (member, end) in ends.iter().enumerate() {
        let Some(view) = &end.collective.output else { continue };
        let transfers: Vec<CollectiveTransfer> = team.incoming_transfers(member).collect();
        let parts: Vec<ExactColumn> = transfers.iter().filter_map(|transfer| source_part(transfer, &sent)).collect();
        let rank = &mut walk.ranks[end.rank].executor;
        let origin = rank.plan.inst(end.inst).origin;
        let received = match end.collective.kind.is_reducing() {
            true => combine_parts(end.collective.red_op, view.dtype, &parts, &mut rank.hash_context(origin.op)),
            false => Ok(join_parts(&parts)),
        };
        let column = received.map_err(|fault| fault.into_diag(prepared, rank.plan, origin))?;
        rank.memory.write_view(rank.plan, view, &column);
    }
    Ok(())
}

fn read_sent<C: RankClock>(
    walk: &mut WalkRanks<'_, '_, ExactRank<'_>, C>,
    end: &CollectiveEnd<'_>,
) -> Option<ExactColumn> {
    let rank = &mut walk.ranks[end.rank].executor;
    end.collective.input.as_ref().map(|view| rank.memory.read_view(rank.plan, view))
}

/// The elements of the sender's input that a transfer reads.
fn source_part(transfer: &CollectiveTransfer, sent: &[Option<ExactColumn>]) -> Option<ExactColumn> {
    let input = sent.get(transfer.from)?.as_ref()?;
    let values = input.values.get(transfer.source.share_range(input.values.len()))?.to_vec();
    Some(ExactColumn { values, degree: input.degree })
}

/// All parts, one after the other.
fn join_parts(parts: &[ExactColumn]) -> ExactColumn {
    let mut joined = ExactColumn::default();
    for part in parts {
        joined.values.extend(&part.values);
        joined.degree = joined.degree.join_degrees(part.degree);
    }
    joined
}

/// Combines the members' parts element by element.
fn combine_parts(
    op: RedOp,
    dtype: DType,
    parts: &[ExactColumn],
    cx: &mut HashContext<'_>,
) -> Result<ExactColumn, ExecutionFault> {
    let joined = join_parts(parts).degree;
    cx.note_operands(joined);
    let elements = parts.iter().map(|part| part.values.len()).min().unwrap_or(0);
    let mut values = Vec::with_capacity(elements);
    for index in 0..elements {
        let members: Vec<ExactValue> = parts.iter().map(|part| part.values[index]).collect();
        let folded = fold_elements(op, dtype, &members, cx)?;
        let value = if op == RedOp::Avg { divide_element(folded, parts.len(), dtype, cx) } else { folded };
        values.push(value.stored_as(dtype));
    }
    Ok(ExactColumn { values, degree: folded_degree(op, joined, parts.len()) })
}

/// An element divided by the number of members; integers truncate.
fn divide_element(value: ExactValue, count: usize, dtype: DType, cx: &mut HashContext<'_>) -> ExactValue {
    match value {
        ExactValue::Integer(sum) => stored_integer(sum / count.max(1) as i64, dtype),
        ExactValue::Unsigned(sum) => stored_integer((sum / count.max(1) as u64).cast_signed(), dtype),
        ExactValue::Number(sum) if holds_numbers(dtype) => {
            let share = cx.invert_number(FieldElement::from_integer(count as i64));
            ExactValue::Number(sum * share)
        }
        ExactValue::Number(sum) => cx.hash_unknown(HashedSubject::Reduction(RedOp::Avg), &[sum]),
    }
}
