//! The types of both sides of a collective in `hir 2`: what the operand of a rank gives its result, axes over devices
//! among them.

use super::team_axis::{TeamAxis, divided_extent};
use super::written_type::{ExpectedTypes, WrittenType, axis_word};
use crate::diag::{Message, message};
use crate::ir::{AttrKey, IterDomain, OpId, ParallelType, Program, TensorId, collective_word, short_expr_text};
use crate::ops::result_types::stored_domains;

/// A collective with its operand and the axis of its team.
struct Collective<'p> {
    program: &'p Program,
    operand: TensorId,
    domains: Vec<IterDomain>,
    team: TeamAxis,
    /// The position of the operand's axis over the team.
    across: Option<usize>,
}

/// The types of both sides.
struct SideTypes {
    operand: Option<WrittenType>,
    result: WrittenType,
}

/// The types that the operand and the result of a collective have to have, and the collective that fits the declared
/// ones.
pub(super) fn collective_types(program: &Program, id: OpId) -> Option<ExpectedTypes> {
    let op = program.op(id);
    let kind = program.name(op.word_attr(AttrKey::Type)?);
    let (operand, result) = (op.input_tensors().next()?, op.output_tensors().next()?);
    collective_word(kind)?;
    let collective = Collective::new(program, id, operand)?;
    let declared = WrittenType::of_stored(program, result);
    let other_call = collective.other_call(id, kind, &declared);
    let is_local = collective.across.is_none() && matches!(kind, "Gather" | "Allgather");
    let types = match is_local {
        // A gather of what each rank has by itself has no type; the declared one stands for it.
        true => SideTypes { operand: None, result: collective.gathered_local() },
        false => collective.types_of(kind, &declared)?,
    };
    let reason = collective.reason_text(kind, &types);
    Some(ExpectedTypes {
        operand: types.operand.map(|ty| (operand, ty)),
        result: (result, types.result),
        reason,
        needs_other_call: is_local && other_call.is_some(),
        other_call,
    })
}

impl<'p> Collective<'p> {
    fn new(program: &'p Program, id: OpId, operand: TensorId) -> Option<Self> {
        let op = program.op(id);
        let team = TeamAxis::of_tensor(program, op, operand);
        if program.team_size(op)? < 2 {
            return None;
        }
        let domains = stored_domains(program, operand).to_vec();
        let across = domains.iter().position(|domain| domain.parallel.is_device() && domain.parallel == team.parallel);
        Some(Self { program, operand, domains, team, across })
    }

    fn written_type(&self, axes: Vec<String>) -> WrittenType {
        WrittenType { dtype: self.program.tensor(self.operand).dtype, axes }
    }

    fn axes(&self) -> Vec<String> {
        self.domains.iter().map(|domain| axis_word(self.program, domain)).collect()
    }

    /// The axes of a rank's own part.
    fn own_axes(&self) -> Vec<String> {
        let mut axes = self.axes();
        if let Some(at) = self.across {
            axes.remove(at);
        }
        axes
    }

    /// `x:p`
    fn team_axis(&self) -> String {
        format!("{}:{}", self.team.letter, self.team.count)
    }

    /// The result of a gather of local tensors, were they parts of a sharded one.
    fn gathered_local(&self) -> WrittenType {
        self.written_type([vec![self.team.count.clone()], self.axes()].concat())
    }

    /// The types of a collective of this kind; `None` if several fit.
    fn types_of(&self, kind: &str, declared: &WrittenType) -> Option<SideTypes> {
        let result = match kind {
            "Gather" | "Allgather" => {
                let at = self.across?;
                let mut axes = self.axes();
                axes[at] = short_expr_text(self.program, self.domains[at].extent);
                axes
            }
            "Allreduce" | "Reduce" => self.own_axes(),
            "Broadcast" | "SendRecv" if self.across.is_none() => self.axes(),
            "Broadcast" | "SendRecv" => {
                let plain = IterDomain { parallel: ParallelType::Serial, ..self.domains[self.across?] };
                let mut whole = self.axes();
                whole[self.across?] = axis_word(self.program, &plain);
                if declared.axes.len() == whole.len() { whole } else { self.own_axes() }
            }
            "ReduceScatter" | "Scatter" => return self.scattered_types(),
            "AllToAll" => return self.exchanged_types(),
            _ => return None,
        };
        Some(SideTypes { operand: None, result: self.written_type(result) })
    }

    /// A collective that leaves each rank one of the parts along the outermost axis of what it is given.
    fn scattered_types(&self) -> Option<SideTypes> {
        let own = self.own_axes();
        let (first, rest) = own.split_first()?;
        let across: Vec<String> = self.across.iter().map(|_| self.team_axis()).collect();
        if *first == self.team.count {
            let result = [vec![self.team_axis()], rest.to_vec()].concat();
            return Some(SideTypes { operand: None, result: self.written_type(result) });
        }
        let parts = [vec![divided_extent(first, &self.team.count)?], rest.to_vec()].concat();
        let operand = [across, vec![self.team.count.clone()], parts.clone()].concat();
        let result = [vec![self.team_axis()], parts].concat();
        Some(SideTypes { operand: Some(self.written_type(operand)), result: self.written_type(result) })
    }

    /// An exchange of parts: the outermost axis of a rank's operand has a part for each rank.
    fn exchanged_types(&self) -> Option<SideTypes> {
        let own = self.own_axes();
        let (first, rest) = own.split_first()?;
        let front = self.across.is_none_or(|at| at == 0);
        if !front {
            return None;
        }
        let is_sharded = self.across.is_some();
        let (count, axis) = (self.team.count.clone(), self.team_axis());
        let (operand, rest) = match *first == count {
            true => (None, rest.to_vec()),
            false => {
                let parts = [vec![divided_extent(first, &count)?], rest.to_vec()].concat();
                let shard = if is_sharded { vec![axis.clone()] } else { Vec::new() };
                (Some(self.written_type([shard, vec![count.clone()], parts.clone()].concat())), parts)
            }
        };
        let result = match is_sharded {
            true => [vec![count, axis], rest].concat(),
            false => [vec![count], rest].concat(),
        };
        Some(SideTypes { operand, result: self.written_type(result) })
    }

    /// The reason for the result's type.
    fn reason_text(&self, kind: &str, types: &SideTypes) -> Option<Message> {
        let name = self.program.tensor_name(self.operand);
        let (count, given) = (&self.team.count, self.written_type(self.axes()).type_text());
        Some(match kind {
            "Gather" | "Allgather" if self.across.is_some() => {
                message!(
                    "the result has the {} parts of `{}: {}` along an axis that is not sharded",
                    count,
                    name,
                    given
                )
            }
            "Allreduce" | "Reduce" if self.across.is_some() => {
                message!("the reduction over the ranks of `{}: {}` has the axes of one part", name, given)
            }
            "AllToAll" if types.operand.is_some() => {
                message!("a rank's operand has one of {} parts for each rank along its outermost axis", count)
            }
            "ReduceScatter" | "Scatter" => message!("a rank gets one of {} parts of its operand", count),
            "AllToAll" => message!("the axis of {} parts and the axis over devices change places", count),
            _ => message!("`{}` is `{}`", name, given),
        })
    }

    /// The call of another collective, with the same operand, whose result has the declared type.
    fn other_call(&self, id: OpId, kind: &str, declared: &WrittenType) -> Option<String> {
        let op = self.program.op(id);
        let result = op.output_tensors().next()?;
        let candidates: &[&str] = match kind {
            "Gather" | "Reduce" => &["Gather", "Reduce"],
            "Allgather" | "Allreduce" | "ReduceScatter" | "AllToAll" => {
                &["Allgather", "Allreduce", "ReduceScatter", "AllToAll"]
            }
            "Broadcast" if self.across.is_some() => &["Allgather"],
            _ => &[],
        };
        let fits = candidates.iter().copied().filter(|other| *other != kind).find(|other| {
            self.types_of(other, declared).is_some_and(|types| types.operand.is_none() && types.result == *declared)
        })?;
        let root = op.expr_attr(AttrKey::Root).filter(|_| matches!(fits, "Gather" | "Reduce"));
        let root = root.map(|root| format!(", root={}", short_expr_text(self.program, root))).unwrap_or_default();
        let [from, to] = [self.operand, result].map(|tensor| self.program.tensor_name(tensor));
        Some(format!("{}({from} -> {to}{root})", collective_word(fits)?))
    }
}
