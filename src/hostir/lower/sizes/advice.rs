//! Proposals of the errors about sizes: the repair of mistakes that are made often.

use super::SizeSolver;
use super::classes::SizeConflict;
use super::joins::{AxisOf, JoinPath, OpJoin};
use crate::diag::{Message, message};
use crate::ir::{AttrKey, AttrValue, CommunicationEffect, ExprId, OpEffect, OpId, TensorId, Value};
use crate::ops::expected_types::{ResultAdvice, result_advice};
use crate::ops::launch::one_shape_advice;

impl SizeSolver<'_> {
    /// The repair of a conflict that the ops of a path make.
    pub(super) fn conflict_advice(&self, conflict: &SizeConflict, path: &JoinPath) -> Option<Message> {
        match path.ops.as_slice() {
            [join] => self
                .expert_advice(join)
                .or_else(|| self.accumulator_advice(join.op))
                .or_else(|| self.own_parts_advice(join.op))
                .or_else(|| self.gathered_advice(join.op))
                .or_else(|| self.misfit_advice(join))
                .or_else(|| self.flags_advice(join.op))
                .or_else(|| self.repetition_advice(conflict, join)),
            _ => self.kernel_advice(path).or_else(|| path.ops.iter().find_map(|join| self.misfit_advice(join))),
        }
    }

    /// The declaration that one statement needs if a conflict is between its result and its operand.
    pub(super) fn declaration_advice(&self, path: &JoinPath) -> Option<ResultAdvice> {
        let [join] = path.ops.as_slice() else { return None };
        let op = self.program.op(join.op);
        let is_of_result = op.output_tensors().any(|result| [join.first.0, join.second.0].contains(&result));
        let is_known = !op.kind.is_pointwise() || self.short_operand(join).is_none();
        (is_of_result && is_known).then(|| result_advice(self.program, join.op)).flatten()
    }

    /// The operand of a pointwise function that has fewer axes than the result, if a join is about one of its axes: these
    /// are taken for the last ones of the result.
    pub(super) fn short_operand(&self, join: &OpJoin) -> Option<TensorId> {
        let op = self.program.op(join.op);
        let result = op.output_tensors().next().filter(|_| op.kind.is_pointwise())?;
        let mut joined = [join.first, join.second].into_iter().map(|(tensor, _)| self.written_operand(tensor));
        joined.find(|&tensor| self.stored_count(tensor) < self.stored_count(result))
    }

    fn misfit_advice(&self, join: &OpJoin) -> Option<Message> {
        let result = self.program.op(join.op).output_tensors().next()?;
        Some(self.missing_axis_advice(self.short_operand(join)?, result))
    }

    /// A kernel that two statements of a path call has the sizes of both.
    fn kernel_advice(&self, path: &JoinPath) -> Option<Message> {
        let unit_of = |op: OpId| self.program.posted_unit(self.program.op(op));
        let mut calls = path.ops.iter().filter_map(|join| Some((join.op, unit_of(join.op)?)));
        let (first, unit) = calls.next()?;
        calls.any(|(op, other)| op != first && other == unit).then(|| one_shape_advice(self.program, unit))
    }

    /// A GEMM whose first operand has the shape of its result, and the others fit each other: the accumulator is last.
    fn accumulator_advice(&self, op: OpId) -> Option<Message> {
        let found = self.program.op(op);
        found.kind.gemm().filter(|form| form.accumulates)?;
        let operands: Vec<TensorId> = found.input_tensors().take(3).collect();
        let [sum, left, right] = operands[..] else { return None };
        let [of_sum, of_left, of_right] = [self.last_axes(sum)?, self.last_axes(left)?, self.last_axes(right)?];
        let fits = self.are_alike(of_left[1], of_right[0])
            && self.are_alike(of_sum[0], of_left[0])
            && self.are_alike(of_sum[1], of_right[1]);
        let [sum, left, right] = [sum, left, right].map(|tensor| self.program.tensor_name(tensor));
        let name = found.kind.name();
        fits.then(|| {
            format!("the tensor that the product is added to is the last operand: `{name}({left}, {right}, {sum})`")
                .into()
        })
    }

    /// The rows of a Dispatch and a Combine.
    fn expert_advice(&self, join: &OpJoin) -> Option<Message> {
        let op = self.program.op(join.op);
        if op.kind.effect() != OpEffect::Communicate(CommunicationEffect::ExpertExchange) {
            return None;
        }
        let is_operand = |(tensor, _): AxisOf| op.input_tensors().any(|input| input == tensor);
        let advice = match is_operand(join.first) && is_operand(join.second) {
            true => {
                "an operand has an element for each row of the first one on each rank: `[x:p, t]` for `[x:p, t, h]`"
            }
            false => {
                "a rank has a row for each slot, as many slots for each rank that sends to it: `p * c` rows for `c` \
                 slots on `p` ranks"
            }
        };
        Some(advice.into())
    }

    /// An axis of extent 1 that does not repeat, or an operand whose missing axis is not the first one.
    fn repetition_advice(&self, conflict: &SizeConflict, join: &OpJoin) -> Option<Message> {
        if !self.program.op(join.op).kind.is_pointwise() {
            return None;
        }
        let sides = [(join.first, conflict.old.value), (join.second, conflict.new.value)];
        if let Some((axis, _)) = sides.into_iter().find(|(_, size)| *size == 1) {
            let text = Message::advice("as a broadcast, `bS{1}`", "`b.1`");
            return Some(message!("an extent of 1 does not repeat: declare {} {}", self.axis_text(axis), text));
        }
        let result = self.program.op(join.op).output_tensors().next()?;
        let mut operands = sides.into_iter().map(|((tensor, _), _)| self.written_operand(tensor));
        let short = operands.find(|&tensor| self.stored_count(tensor) < self.stored_count(result))?;
        Some(self.missing_axis_advice(short, result))
    }

    /// The operand that the text has in the place of a tensor without a name: `hir 2` adds missing axes by a broadcast.
    fn written_operand(&self, tensor: TensorId) -> TensorId {
        if self.program.tensor(tensor).name.is_some() {
            return tensor;
        }
        let mut writers = self.program.ops().iter().map(|(_, op)| op);
        let writer = writers.find(|op| op.output_tensors().any(|output| output == tensor));
        writer.and_then(|op| op.input_tensors().next()).unwrap_or(tensor)
    }

    fn missing_axis_advice(&self, short: TensorId, result: TensorId) -> Message {
        let name = self.program.quoted_tensor(short);
        let axes = self.axes.axes_of(short);
        let flags: Vec<&str> = axes.iter().map(|axis| if axis.is_reduction() { "true" } else { "false" }).collect();
        let is_reduced = axes.len() == self.stored_count(result);
        let meant = if is_reduced { Some(flags) } else { self.flags_between(short, result) };
        let advice = match &meant {
            Some(flags) => {
                let list = flags.join(", ");
                Message::advice(
                    format!("`broadcast( {name}, flags = {{{list}}} )`", name = name.printed()),
                    format!("broadcast({name}, flags=[{list}])", name = name.printed()),
                )
            }
            None => "a `broadcast`".into(),
        };
        if !self.program.is_hir2() || meant.is_none() {
            return message!(
                "axes that {} does not have are repeated in front of those that it has: {} adds one elsewhere",
                name,
                advice
            );
        }
        let free = self.program.unused_tensor_name();
        message!(
            "axes that {} does not have are added in front of those that it has: write `{} = {}` on the line above, and \
             `{}` here in the place of `{}`",
            name,
            free,
            advice,
            free,
            name
        )
    }

    /// The flags of the broadcast that makes an operand of a pointwise function, if others give it the result's axes.
    fn flags_advice(&self, id: OpId) -> Option<Message> {
        let op = self.program.op(id);
        let result = op.output_tensors().next().filter(|_| op.kind.is_pointwise())?;
        let made = |tensor: TensorId| {
            let mut ops = self.program.ops().iter().map(|(_, made)| made);
            ops.find(|made| made.output_tensors().any(|output| output == tensor))
        };
        op.input_tensors().find_map(|operand| {
            let broadcast = made(operand)?;
            let source = broadcast.input_tensors().next()?;
            let AttrValue::Bools(flags) = broadcast.attr(AttrKey::Flags)? else { return None };
            let written: Vec<&str> = flags.iter().map(|flag| if *flag { "true" } else { "false" }).collect();
            let meant = self.flags_between(source, result).filter(|meant| *meant != written)?;
            let [written, meant] = [written, meant].map(|flags| flags.join(", "));
            Some(message!(
                "`{}` gets its axes from `broadcast({}, flags=[{}])`: they would fit with `flags=[{}]` there",
                self.program.quoted_tensor(operand),
                self.program.quoted_tensor(source),
                written,
                meant
            ))
        })
    }

    /// The flags of a broadcast that adds to a tensor the axes of a result whose extents it does not have.
    fn flags_between(&self, short: TensorId, result: TensorId) -> Option<Vec<&'static str>> {
        let mut own = self.axes.stored_axes(short).peekable();
        let flags = self.axes.stored_axes(result).map(|axis| match own.peek() {
            Some(next) if next.extent == axis.extent => {
                own.next();
                "false"
            }
            _ => "true",
        });
        let flags: Vec<&'static str> = flags.collect();
        own.next().is_none().then_some(flags)
    }

    fn stored_count(&self, tensor: TensorId) -> usize {
        self.axes.stored_axes(tensor).count()
    }

    /// Returns true if a scalar is an operand of a computation in reals.
    pub(super) fn is_real_scalar(&self, scalar: ExprId) -> bool {
        self.program.ops().iter().any(|(_, op)| {
            let mut results = op.output_tensors();
            op.operands.contains(&Value::Scalar(scalar))
                && results.any(|tensor| self.program.tensor(tensor).dtype.is_float())
        })
    }

    /// As [`axis_place`](crate::axes::axis_place) says it, with the kernel of a tensor that is a kernel's.
    pub(super) fn axis_text(&self, (tensor, index): AxisOf) -> Message {
        // A tensor without a name is an operand of the text with axes in front, which that does not have.
        let written = self.written_operand(tensor);
        let added = self.stored_count(tensor).saturating_sub(self.stored_count(written)) as u32;
        let (shown, index) = if index >= added && added > 0 { (written, index - added) } else { (tensor, index) };
        let place = crate::axes::axis_place(self.program, shown, self.axes.axes_of(shown), index);
        match self.program.tensor(tensor).unit {
            Some(unit) => message!("{} in `{}`", place, self.program.unit_name(self.program.units()[unit].number)),
            None => place,
        }
    }
}
