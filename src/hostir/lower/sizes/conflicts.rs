//! The errors for extents with two sizes: they name the statement that makes them equal, and its axes.

use super::SizeSolver;
use super::classes::{KnownSize, SizeConflict};
use super::joins::{AxisOf, JoinPath, OpJoin};
use crate::axes::{LogicalAxis, list_axes, stored_position};
use crate::diag::message;
use crate::diag::{Diag, Message, PartKind, Quoted, Span, codes};
use crate::ir::{
    AttrKey, Expr, OpId, TensorId, expr_text, op_display_name, quoted_expr, quoted_statement, short_expr_text,
};
use rustc_hash::FxHashSet;

/// Statements that an error shows; those between them are left out.
const MOST_OPS: usize = 3;

impl SizeConflict {
    /// The two sizes with their reasons, in an order that does not depend on which came first.
    fn sources(&self) -> [(i64, String); 2] {
        let mut sources = [&self.old, &self.new].map(|known| (known.value, known.why.to_string()));
        sources.sort();
        sources
    }
}

/// Returns true if two conflicts are between the same two sizes, one of which has one reason: its source does not fit
/// several others.
fn are_one_cause(one: &[(i64, String); 2], other: &[(i64, String); 2]) -> bool {
    let is_same_size = one.iter().zip(other).all(|(a, b)| a.0 == b.0);
    is_same_size && one.iter().zip(other).any(|(a, b)| a == b)
}

/// The conflicts that were reported.
#[derive(Default)]
pub(super) struct ReportedConflicts {
    /// The sizes of each, with their reasons.
    sources: Vec<[(i64, String); 2]>,
    /// The axes of extent 1 in conflicts that come from an operand with too few axes: each of those meets another axis.
    explained: Vec<(i64, String)>,
    /// The ops with such an operand.
    misfits: FxHashSet<OpId>,
    gemms: FxHashSet<OpId>,
    /// The ops that join tensors along the wrong axis.
    misjoined: FxHashSet<OpId>,
    /// The tensors that follow from the result of an error.
    pub(super) unknown: FxHashSet<TensorId>,
}

impl ReportedConflicts {
    fn has_cause(&self, sources: &[(i64, String); 2]) -> bool {
        let is_explained = sources.iter().any(|source| self.explained.contains(source));
        is_explained || self.sources.iter().any(|reported| are_one_cause(reported, sources))
    }
}

/// The operands of a GEMM, with the axes that it sums over.
struct SummedAxes {
    op: OpId,
    left: AxisOf,
    right: AxisOf,
    /// The program that the writer may have meant.
    advice: String,
}

/// Whether a place is a part of another one.
fn is_inside(part: Span, whole: Span) -> bool {
    whole.start <= part.start && part.end <= whole.end
}

impl SizeSolver<'_> {
    /// Errors that were found so far.
    pub(super) fn error_count(&self) -> usize {
        self.diags.items.len() + self.sizes.conflicts.len()
    }

    /// Reports all conflicts: one for each cause, and one for each GEMM.
    pub(super) fn report_conflicts(&mut self) {
        let mut reported = ReportedConflicts::default();
        let mut conflicts = std::mem::take(&mut self.sizes.conflicts);
        if !conflicts.is_empty() {
            conflicts.extend(self.hidden_conflicts());
            self.report_uneven_views(&mut reported);
        }
        for conflict in conflicts {
            let path = conflict.origin.map(|origin| self.joins_between(origin, conflict.node)).unwrap_or_default();
            if self.is_consequence(&path, &reported) || self.is_misjoined(&path, &mut reported) {
                continue;
            }
            let gemm = path.ops.iter().find_map(|join| self.mismatched_gemm(join.op));
            let misfit = path.ops.iter().find(|join| gemm.is_none() && self.short_operand(join).is_some());
            // Further conflicts of a GEMM are no cause of others.
            if gemm.as_ref().is_some_and(|gemm| reported.gemms.contains(&gemm.op)) {
                continue;
            }
            let sources = conflict.sources();
            if reported.has_cause(&sources) || path.ops.iter().any(|join| reported.misfits.contains(&join.op)) {
                continue;
            }
            if let Some(misfit) = misfit {
                reported.explained.extend(sources.iter().filter(|(size, _)| *size == 1).cloned());
                reported.misfits.insert(misfit.op);
            }
            reported.sources.push(sources);
            let is_of_gemm = gemm.is_some();
            let diag = match (gemm, misfit, path.ops.as_slice()) {
                (Some(gemm), ..) => {
                    reported.gemms.insert(gemm.op);
                    self.gemm_error(&gemm)
                }
                (None, None, [join]) if !path.has_alias => self.single_op_error(&conflict, join),
                (None, Some(join), _) => self.single_op_error(&conflict, join),
                (None, None, _) => self.general_error(&conflict, &path),
            };
            let declared = if is_of_gemm { None } else { self.declaration_advice(&path) };
            let own = self.conflict_advice(&conflict, &path);
            self.diags.push(match (declared, own) {
                (Some(declared), Some(note)) => declared.without_note().add_to(diag.with_note(note)),
                (Some(declared), None) => declared.add_to(diag),
                (None, Some(note)) => diag.with_note(note),
                (None, None) => diag,
            });
        }
    }

    /// Returns true if a conflict is between tensors that follow from the result of a reported error.
    fn is_consequence(&self, path: &JoinPath, reported: &ReportedConflicts) -> bool {
        path.ops.iter().any(|join| [join.first.0, join.second.0].iter().any(|tensor| reported.unknown.contains(tensor)))
    }

    /// Returns true if a conflict comes from tensors that are joined along the wrong axis, which is reported once.
    fn is_misjoined(&mut self, path: &JoinPath, reported: &mut ReportedConflicts) -> bool {
        let Some(misjoined) = self.misjoined_axes(path) else { return false };
        if reported.misjoined.insert(misjoined.op) {
            let diag = self.misjoined_error(&misjoined);
            self.diags.push(diag);
        }
        true
    }

    /// The sizes of axes that one statement makes equal and that have other sizes by themselves. All these axes are in
    /// one class, which keeps only the first of its sizes.
    fn hidden_conflicts(&self) -> Vec<SizeConflict> {
        let mut found = Vec::new();
        for join in &self.joins {
            let Some((_, first, second)) = join.op else { continue };
            if let (Some(old), Some(new)) = (self.claimed_size(first), self.claimed_size(second))
                && old.value != new.value
            {
                let (origin, node) = (Some(join.nodes.0), join.nodes.1);
                found.push(SizeConflict { old: old.clone(), origin, new: new.clone(), node });
            }
        }
        found
    }

    /// An axis with its extent, and its size if that is known.
    fn sized_axis_text(&self, at: AxisOf, size: Option<i64>) -> Message {
        let text = self.axis_text(at);
        let axis = self.axes.axes_of(at.0).get(at.1 as usize);
        let is_reduction = axis.is_some_and(LogicalAxis::is_reduction);
        let extent = axis.filter(|axis| self.program.exprs().as_int(axis.extent).is_none());
        match (extent.map(|axis| quoted_expr(self.program, axis.extent)), size) {
            (Some(_), None) if is_reduction => text,
            (Some(extent), Some(size)) => message!("{} (`{}` = {})", text, extent, size),
            (Some(extent), None) => message!("{} (`{}`)", text, extent),
            (None, Some(size)) => message!("{} ({})", text, size),
            (None, None) => text,
        }
    }

    /// A statement in a sentence: `T6 = matmul` in backquotes, or the `+` of T2.
    fn op_phrase(&self, op: OpId) -> Message {
        let name = op_display_name(self.program, op);
        let results: Vec<String> =
            self.program.op(op).output_tensors().map(|tensor| self.program.tensor_name(tensor)).collect();
        match results.is_empty() {
            false if !name.starts_with(|c: char| c.is_alphabetic()) => {
                message!("the `{}` of {}", Quoted::new(PartKind::Op, name.to_owned()), results.join(", "))
            }
            false if self.program.op(op).kind.is_pointwise() => {
                let statement = format!("{} = {name}", results.join(", "));
                message!("`{}`", Quoted::new(PartKind::Statement, statement))
            }
            _ => message!("`{}`", quoted_statement(self.program, op)),
        }
    }

    /// The error if one statement makes two axes equal.
    fn single_op_error(&self, conflict: &SizeConflict, join: &OpJoin) -> Diag {
        let one = self.sized_axis_text(join.first, Some(conflict.old.value));
        let other = self.sized_axis_text(join.second, Some(conflict.new.value));
        let label = self.op_phrase(join.op);
        let message = message!("{} needs equal sizes of {} and {}", label, one, other);
        let text = message!("{} has to be as long as {}", self.axis_text(join.first), self.axis_text(join.second));
        let diag = Diag::error(codes::SIZE_CONFLICT, self.program.op_span(join.op), message).with_primary_text(text);
        let SizeConflict { old, new, .. } = conflict;
        let sources = [old, new].into_iter().filter_map(|known| Some((known.span?, known)));
        let declared = sources.filter(|(span, _)| !is_inside(*span, self.program.op_span(join.op)));
        let diag = declared.fold(diag, |diag, (span, known)| diag.with_label(span, (*known.why).clone()));
        let diag =
            diag.with_note(message!("the sizes are {} ({}) and {} ({})", old.value, old.why, new.value, new.why));
        match self.select_note(join.op) {
            Some(note) => diag.with_note(note),
            None => diag,
        }
    }

    /// A note about the axes of a select: their numbers do not count reductions.
    fn select_note(&self, op: OpId) -> Option<Message> {
        let found = self.program.op(op);
        let (domain, tensor) = (found.domain_attr(AttrKey::Axis)?, found.input_tensors().next()?);
        let position = stored_position(self.program, tensor, domain)?;
        let name = self.program.quoted_tensor(tensor);
        let axes = list_axes(self.program, tensor);
        Some(message!("it selects on axis {} of {}, whose axes are {}; reductions do not count", position, name, axes))
    }

    /// The error if no statement, or several, make two extents equal.
    fn general_error(&self, conflict: &SizeConflict, path: &JoinPath) -> Diag {
        let SizeConflict { old, new, .. } = conflict;
        let message =
            message!("conflicting sizes for one extent: {} ({}) and {} ({})", old.value, old.why, new.value, new.why);
        let mut sources = [new, old].into_iter().filter_map(|known| Some((known.span?, (*known.why).clone())));
        let mut diag = match sources.next() {
            Some((span, why)) => Diag::error(codes::SIZE_CONFLICT, span, message).with_primary_text(why),
            None => Diag::global_error(codes::SIZE_CONFLICT, message),
        };
        diag = sources.fold(diag, |diag, (span, why)| diag.with_label(span, why));
        let ends = if path.has_alias { None } else { Some((0, path.ops.len().saturating_sub(1))) };
        // Both ends of a long path: its middle follows from them.
        let hidden = 1..path.ops.len().saturating_sub(MOST_OPS - 1);
        for (number, join) in
            path.ops.iter().enumerate().filter(|(number, _)| path.ops.len() <= MOST_OPS || !hidden.contains(number))
        {
            let first = self.sized_axis_text(join.first, ends.filter(|ends| ends.0 == number).map(|_| old.value));
            let second = self.sized_axis_text(join.second, ends.filter(|ends| ends.1 == number).map(|_| new.value));
            let (span, text) = (self.program.op_span(join.op), message!("{} is as long as {}", first, second));
            diag = match diag.primary {
                Some(_) => diag.with_label(span, text),
                None => {
                    Diag { labels: diag.labels, ..Diag::error(diag.code, span, diag.message) }.with_primary_text(text)
                }
            };
        }
        diag
    }

    /// The error for a GEMM whose operands do not fit, with a guess at the intention.
    fn gemm_error(&self, gemm: &SummedAxes) -> Diag {
        let [left, right] = [gemm.left, gemm.right].map(|axis| (axis, self.claimed_size(axis)));
        let [one, other] =
            [&left, &right].map(|(axis, known)| self.sized_axis_text(*axis, known.map(|known| known.value)));
        let label = quoted_statement(self.program, gemm.op);
        let message = message!("`{}` sums over {} and {}, which must be of one size", label, one, other);
        let diag = Diag::error(codes::SIZE_CONFLICT, self.program.op_span(gemm.op), message).with_primary_text(
            match self.program.op(gemm.op).kind.gemm().is_some_and(|form| form.transposed) {
                true => "the last axis of the first operand meets the last one of the weight",
                false => "the last axis of the first operand meets the last but one of the second",
            },
        );
        let sources: Vec<Message> =
            [left.1, right.1].into_iter().flatten().map(|known| message!("{} ({})", known.value, known.why)).collect();
        diag.with_note(message!("the sizes are {}", Message::join(&sources, " and "))).with_note(gemm.advice.clone())
    }

    /// A GEMM that sums over axes of different sizes, and would not if its operands were exchanged or one of them
    /// transposed.
    fn mismatched_gemm(&self, op: OpId) -> Option<SummedAxes> {
        let found = self.program.op(op);
        let form = found.kind.gemm()?;
        if form.transposed {
            return self.mismatched_weight(op);
        }
        let [a, b, ..] = found.input_tensors().collect::<Vec<_>>()[..] else { return None };
        let (left, right) = (self.last_axes(a)?, self.last_axes(b)?);
        let [summed, over] = [left[1], right[0]].map(|axis| self.claimed_size(axis).map(|known| known.value));
        if summed? == over? {
            return None;
        }
        let [x, y] = [a, b].map(|tensor| self.program.tensor_name(tensor));
        let types = format!("{x} is {} and {y} is {}", self.shape_text(a), self.shape_text(b));
        let more = !form.is_plain();
        let (call, rest) = (found.kind.name(), if more { ", .." } else { "" });
        let advice = if self.are_alike(right[1], left[0]) {
            format!("{types}: are the operands exchanged? write `{call}({y}, {x}{rest})`")
        } else if self.are_alike(left[0], right[0]) && self.ends_with_axes(op, [left[1], right[1]]) {
            format!(
                "{types}, and the result is {}: is {x} transposed? `Set.Permute` exchanges its axes",
                self.result_shape(op)
            )
        } else if a == b && !more {
            format!("{types}: elements are multiplied by `{x} * {x}`")
        } else if self.are_alike(left[1], right[1]) && (more || !self.is_matrix(b)) {
            format!("{types}: is {y} transposed? `Set.Permute` exchanges its axes")
        } else if self.are_alike(left[1], right[1]) {
            format!("{types}: is {y} transposed? `linear({x}, {y})` takes its second operand so")
        } else if self.are_alike(left[0], right[0]) {
            format!("{types}: is {x} transposed? `Set.Permute` exchanges its axes")
        } else {
            return None;
        };
        Some(SummedAxes { op, left: left[1], right: right[0], advice })
    }

    /// A product with a transposed weight that would fit if the weight were not taken as transposed.
    fn mismatched_weight(&self, op: OpId) -> Option<SummedAxes> {
        let found = self.program.op(op);
        let [a, weight, ..] = found.input_tensors().collect::<Vec<_>>()[..] else { return None };
        let (left, right) = (self.last_axes(a)?, self.last_axes(weight)?);
        let [summed, over] = [left[1], right[1]].map(|axis| self.claimed_size(axis).map(|known| known.value));
        if summed? == over? || !self.are_alike(left[1], right[0]) {
            return None;
        }
        let [x, y] = [a, weight].map(|tensor| self.program.tensor_name(tensor));
        let has_bias = found.input_tensors().count() > 2;
        let repair = match has_bias {
            true => {
                let free = self.program.unused_tensor_name();
                format!(
                    "write `{free} = Set.Permute({y}, perm=[1, 0])` on the line above, and `{free}` here in the place of `{y}`"
                )
            }
            false => format!("`matmul({x}, {y})` takes [in, out]"),
        };
        let advice = format!(
            "{x} is {} and {y} is {}, but `{}` takes a weight of shape [out, in]: {repair}",
            self.shape_text(a),
            self.shape_text(weight),
            found.kind.name()
        );
        Some(SummedAxes { op, left: left[1], right: right[1], advice })
    }

    /// Returns true if the result of a GEMM has these axes at its end, and not those that it would have as written.
    fn ends_with_axes(&self, op: OpId, [row, column]: [AxisOf; 2]) -> bool {
        let result = self.program.op(op).output_tensors().next().and_then(|result| self.last_axes(result));
        result.is_some_and(|result| self.are_alike(result[0], row) && self.are_alike(result[1], column))
    }

    fn result_shape(&self, op: OpId) -> String {
        let result = self.program.op(op).output_tensors().next();
        result.map_or_else(String::new, |result| self.shape_text(result))
    }

    /// The last two stored axes of a tensor.
    pub(super) fn last_axes(&self, tensor: TensorId) -> Option<[AxisOf; 2]> {
        let axes = self.axes.axes_of(tensor).iter().zip(0..);
        let stored: Vec<u32> = axes.filter(|(axis, _)| !axis.is_reduction()).map(|(_, index)| index).collect();
        let [.., one, other] = stored[..] else { return None };
        Some([(tensor, one), (tensor, other)])
    }

    /// Returns true if a tensor has two axes that are stored.
    fn is_matrix(&self, tensor: TensorId) -> bool {
        self.axes.axes_of(tensor).iter().filter(|axis| !axis.is_reduction()).count() == 2
    }

    /// Returns true if two axes have one extent in the text, or one size.
    pub(super) fn are_alike(&self, one: AxisOf, other: AxisOf) -> bool {
        let [a, b] = [one, other].map(|(tensor, axis)| self.axes.axes_of(tensor)[axis as usize].extent);
        let [x, y] = [one, other].map(|axis| self.claimed_size(axis).map(|known| known.value));
        a == b || x.is_some() && x == y
    }

    /// The size that was given for an axis itself, or for the name of its extent.
    pub(super) fn claimed_size(&self, (tensor, axis): AxisOf) -> Option<&KnownSize> {
        let own = self.axis_node(tensor, axis);
        let name = match self.program.expr(self.axes.axes_of(tensor)[axis as usize].extent) {
            Expr::Name(name) => self.sizes.name_nodes.get(&(self.program.tensor(tensor).unit, *name)).copied(),
            _ => None,
        };
        let is_own = |node: u32| Some(node) == own || Some(node) == name;
        self.sizes.claims.iter().find(|(node, _)| is_own(*node)).map(|(_, known)| known)
    }

    /// `[i2, i3]`: the extents of the axes that a tensor stores.
    pub(super) fn shape_text(&self, tensor: TensorId) -> String {
        let stored = self.axes.stored_axes(tensor);
        let text = if self.program.is_hir2() { short_expr_text } else { expr_text };
        let extents: Vec<String> = stored.map(|axis| text(self.program, axis.extent)).collect();
        format!("[{}]", extents.join(", "))
    }
}
