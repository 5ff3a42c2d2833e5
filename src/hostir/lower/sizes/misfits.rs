//! Conflicts of sizes that one statement causes, whatever other statements they are between: a view of another number of
//! elements, operands that are joined along the wrong axis, a product that takes whole tensors for the rank's own parts.

use super::SizeSolver;
use super::conflicts::ReportedConflicts;
use super::joins::{AxisOf, JoinPath};
use crate::diag::{Diag, Message, codes, message};
use crate::ir::{AttrKey, BinaryOp, Expr, ExprId, OpId, Symbol, TensorId, UnitId, quoted_statement, short_expr_text};
use rustc_hash::FxHashSet;

/// A statement that joins tensors along one axis, but would fit along another.
pub(super) struct MisjoinedAxes {
    pub(super) op: OpId,
    along: usize,
    fits: usize,
}

impl SizeSolver<'_> {
    /// Reports each view of a tensor with another number of elements. The tensors that follow from its result have no
    /// sizes that are known.
    pub(super) fn report_uneven_views(&mut self, reported: &mut ReportedConflicts) {
        let mut ops = Vec::new();
        self.program.walk_with_units(&mut |op| ops.push(op));
        let mut unknown: FxHashSet<TensorId> = FxHashSet::default();
        for op in ops {
            let found = self.program.op(op);
            let error = if found.kind.is_row_major_view() { self.uneven_view(op) } else { None };
            if error.is_some() || found.input_tensors().any(|input| unknown.contains(&input)) {
                unknown.extend(found.output_tensors());
            }
            self.diags.items.extend(error);
        }
        reported.unknown = unknown;
    }

    fn uneven_view(&self, op: OpId) -> Option<Diag> {
        let found = self.program.op(op);
        let [from, to] = [found.input_tensors().next()?, found.output_tensors().next()?];
        let (has, needs) = (self.element_count(from)?, self.element_count(to)?);
        if has == needs || !self.program.is_hir2() {
            return None;
        }
        let [operand, result] = [from, to].map(|tensor| self.program.quoted_tensor(tensor));
        let message = message!(
            "`{}` needs a result of {} elements, but the type of `{}` has {}",
            quoted_statement(self.program, op),
            has,
            result,
            needs
        );
        let note = message!(
            "`{}` is {} and `{}` is {}: a view has the same elements under other axes",
            operand,
            self.shape_text(from),
            result,
            self.shape_text(to)
        );
        let diag = Diag::error(codes::SIZE_CONFLICT, self.program.op_span(op), message).with_note(note);
        Some(match self.missing_factor(from, to) {
            Some(axes) => diag.with_note(message!("did you mean `{}`?", axes)),
            None => diag,
        })
    }

    /// The axes of a view's result with the one extent of the operand that they lack, joined with the first one.
    fn missing_factor(&self, from: TensorId, to: TensorId) -> Option<String> {
        let [of_operand, of_result] = [from, to].map(|tensor| {
            let stored = self.axes.stored_axes(tensor);
            stored.map(|axis| short_expr_text(self.program, axis.extent)).collect::<Vec<String>>()
        });
        let mut missing = of_operand.clone();
        for extent in &of_result {
            missing.remove(missing.iter().position(|other| other == extent)?);
        }
        let ([factor], Some(first)) = (missing.as_slice(), of_result.first()) else { return None };
        let joined = format!("{factor} * {first}");
        let is_plain = [factor, first].iter().all(|text| text.chars().all(|c| c.is_alphanumeric() || c == '_'));
        let rest = of_result[1..].iter().map(String::as_str);
        let axes: Vec<&str> = std::iter::once(joined.as_str()).chain(rest).collect();
        is_plain.then(|| format!("[{}]", axes.join(", ")))
    }

    fn element_count(&self, tensor: TensorId) -> Option<i64> {
        let unit = self.program.tensor(tensor).unit;
        let mut axes = self.axes.stored_axes(tensor);
        axes.try_fold(1i64, |count, axis| count.checked_mul(self.given_size(unit, axis.extent)?))
    }

    /// The value of an extent by the sizes that its names were given.
    fn given_size(&self, unit: Option<UnitId>, extent: ExprId) -> Option<i64> {
        match self.program.expr(extent) {
            Expr::Int(value) => Some(*value),
            Expr::Name(name) => {
                let node = self.sizes.name_nodes.get(&(unit, *name))?;
                let claim = self.sizes.claims.iter().find(|(claimed, _)| claimed == node);
                claim.map(|(_, known)| known.value).or_else(|| self.size_of_named_axis(unit, *name))
            }
            Expr::Binary(op, a, b) => {
                let (a, b) = (self.given_size(unit, *a)?, self.given_size(unit, *b)?);
                match op {
                    BinaryOp::Add => a.checked_add(b),
                    BinaryOp::Sub => a.checked_sub(b),
                    BinaryOp::Mul => a.checked_mul(b),
                    BinaryOp::Div => a.checked_div(b),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The size that an axis of this extent was given, such as that of an input.
    fn size_of_named_axis(&self, unit: Option<UnitId>, name: Symbol) -> Option<i64> {
        let tensors = self.program.tensors().ids().filter(|tensor| self.program.tensor(*tensor).unit == unit);
        let mut axes =
            tensors.flat_map(|tensor| (0..self.axes.axes_of(tensor).len() as u32).map(move |at| (tensor, at)));
        axes.find_map(|(tensor, at)| {
            let extent = self.axes.axes_of(tensor)[at as usize].extent;
            let is_named = self.program.exprs().as_name(extent) == Some(name);
            is_named.then(|| self.claimed_size((tensor, at)))?.map(|known| known.value)
        })
    }

    /// The statement of a path that joins tensors along an axis, where the extents along the others differ and those
    /// along one other than that do not.
    pub(super) fn misjoined_axes(&self, path: &JoinPath) -> Option<MisjoinedAxes> {
        path.ops.iter().find_map(|join| {
            let op = self.program.op(join.op);
            let along = op.expr_attr(AttrKey::Dim).and_then(|dim| self.program.exprs().as_int(dim))?;
            let along = usize::try_from(along).ok()?;
            let inputs: Vec<TensorId> = op.input_tensors().collect();
            let rank = self.stored_axes_of(*inputs.first()?).len();
            let fits = (0..rank).find(|axis| *axis != along && self.are_joined_along(&inputs, *axis))?;
            (inputs.len() > 1 && !self.are_joined_along(&inputs, along)).then_some(MisjoinedAxes {
                op: join.op,
                along,
                fits,
            })
        })
    }

    /// Returns true if all axes of some tensors but one have one extent.
    fn are_joined_along(&self, tensors: &[TensorId], along: usize) -> bool {
        let all: Vec<Vec<AxisOf>> = tensors.iter().map(|tensor| self.stored_axes_of(*tensor)).collect();
        all.windows(2).all(|pair| {
            pair[0].len() == pair[1].len()
                && pair[0].iter().zip(&pair[1]).enumerate().all(|(at, (a, b))| at == along || self.are_alike(*a, *b))
        })
    }

    fn stored_axes_of(&self, tensor: TensorId) -> Vec<AxisOf> {
        let axes = self.axes.axes_of(tensor).iter().zip(0..);
        axes.filter(|(axis, _)| !axis.is_reduction()).map(|(_, index)| (tensor, index)).collect()
    }

    pub(super) fn misjoined_error(&self, misjoined: &MisjoinedAxes) -> Diag {
        let op = self.program.op(misjoined.op);
        let inputs: Vec<TensorId> = op.input_tensors().collect();
        let texts: Vec<Message> = inputs
            .iter()
            .map(|tensor| message!("{} is {}", self.program.quoted_tensor(*tensor), self.shape_text(*tensor)))
            .collect();
        let message = message!(
            "`{}` joins along axis {}, which needs equal sizes of the other axes",
            quoted_statement(self.program, misjoined.op),
            misjoined.along
        );
        let names: Vec<String> = inputs.iter().map(|tensor| self.program.tensor_name(*tensor)).collect();
        let call = format!("{}({}, {})", op.kind.name(), names.join(", "), misjoined.fits);
        let diag = Diag::error(codes::SIZE_CONFLICT, self.program.op_span(misjoined.op), message);
        let diag = diag.with_note(Message::join(&texts, ", "));
        match self.program.is_hir2() {
            true => diag.with_note(message!("along axis {} they fit: `{}`", misjoined.fits, call)),
            false => diag.with_note(message!("along axis {} they fit", misjoined.fits)),
        }
    }

    /// The operands of a product without their axes over devices, if the product is of whole matrices then.
    pub(super) fn own_parts_advice(&self, op: OpId) -> Option<Message> {
        let found = self.program.op(op);
        found.kind.gemm().filter(|form| form.is_plain() && self.program.is_hir2())?;
        let operands: Vec<TensorId> = found.input_tensors().take(2).collect();
        let texts: Vec<String> = operands.iter().map(|tensor| self.own_slice_text(*tensor)).collect();
        let across = operands.iter().map(|tensor| {
            let axes = self.axes.stored_axes(*tensor).zip(0..);
            axes.filter(|(axis, _)| axis.is_device_index()).map(|(_, at)| at).collect()
        });
        let across: Vec<Vec<u32>> = across.collect();
        // Products of parts at one position are products of batches.
        let is_spread = across.windows(2).any(|pair| pair[0] != pair[1]);
        let has_matrices =
            operands.iter().zip(&across).all(|(tensor, across)| self.stored_axes_of(*tensor).len() == across.len() + 2);
        (is_spread && has_matrices).then(|| {
            message!(
                "axes over devices are axes like others: the rank's own parts are multiplied by `{}({})`",
                found.kind.name(),
                texts.join(", ")
            )
        })
    }

    /// `A[:, own]`: the rank's own part of a tensor.
    fn own_slice_text(&self, tensor: TensorId) -> String {
        let name = self.program.tensor_name(tensor);
        let across: Vec<bool> = self.axes.stored_axes(tensor).map(|axis| axis.is_device_index()).collect();
        let Some(last) = across.iter().rposition(|across| *across).filter(|_| !name.contains('[')) else {
            return name;
        };
        let items: Vec<&str> = across[..=last].iter().map(|across| if *across { "own" } else { ":" }).collect();
        format!("{name}[{}]", items.join(", "))
    }

    /// The type of a result whose axes are those of the operand in another order.
    pub(super) fn gathered_advice(&self, op: OpId) -> Option<Message> {
        let found = self.program.op(op);
        let effect = found.kind.effect();
        let is_collective = effect == crate::ir::OpEffect::Communicate(crate::ir::CommunicationEffect::Collective);
        let [from, to] = [found.input_tensors().next()?, found.output_tensors().next()?];
        let [of_operand, of_result] = [from, to].map(|tensor| {
            let stored = self.axes.stored_axes(tensor);
            stored.map(|axis| short_expr_text(self.program, axis.extent)).collect::<Vec<String>>()
        });
        let mut sorted = [of_operand.clone(), of_result.clone()];
        sorted.iter_mut().for_each(|extents| extents.sort_unstable());
        let is_turned = of_operand != of_result && sorted[0] == sorted[1];
        let is_gathered = self.axes.stored_axes(to).all(|axis| !axis.is_device_index());
        if !is_collective || !is_turned || !is_gathered || !self.program.is_hir2() {
            return None;
        }
        let order: Option<Vec<String>> = of_result
            .iter()
            .map(|extent| of_operand.iter().position(|other| other == extent).map(|at| at.to_string()))
            .collect();
        Some(message!(
            "the result has the axes of the operand in their order: `{}: {}[{}]`; afterwards `Set.Permute(.., perm=[{}])` \
             gives another one",
            self.program.quoted_tensor(to),
            crate::ir::quoted_type(self.program.tensor(to).dtype),
            of_operand.join(", "),
            order?.join(", ")
        ))
    }
}
