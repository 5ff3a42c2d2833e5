//! `grouped_matmul`: GEMMs of groups, whose sizes are data.
//!
//! nvFuser prints it as `GroupedMmaOp`. The meaning is that of PyTorch's `_grouped_mm`: `offsets` has the end of each
//! group along one axis, which the ranks of the factors determine ([`GroupedAxis`]).
//!
//! Sizes of instructions do not depend on data: each group is a GEMM of whole factors, of which a selection keeps the
//! group's part. `g` groups so cost `g` times the arithmetic of a GEMM, on every backend.

use super::lowering::emit_gemm;
use super::scaled::refuse_block_scales;
use super::types::contracted;
use crate::axes::pairing::{AxisMismatch, LinkResult, LinkSide, has_split_axis, link_pairs, operand_side, result_side};
use crate::diag::message;
use crate::diag::{Diag, Diags, Message, codes};
use crate::ir::places::with_declaration;
use crate::ir::{
    AxisLink, CallPadding, DType, Op, OpId, OpIdentity, OpLayout, Program, StandaloneRule, TensorId, Value, quoted_type,
};
use crate::ops::result_types::{TensorType, stored_domains};
use crate::ops::spec::{ArgSpec, Infer, Lower, OpSpec};
use crate::ops::tensor_checks;
use crate::plan::{
    BufferView, ComposedKernel, ComputedIndexFault, Function, GemmInst, InstKind, PlanBuilder, ScalarValue,
    StepOperand, ViewDim, emit_copy, emit_take, expanded_view, rows_of_view,
};

/// An offset that ends no group.
const OFFSET_FAULT: ComputedIndexFault = ComputedIndexFault {
    code: codes::GROUP_OFFSETS,
    item: "offset",
    finding: "is smaller than the one before it, or lies outside of the grouped axis",
    note: "an offset is the end of its group: offsets are ascending, from 0 up to the extent of the axis",
    counted: None,
};

/// `grouped_matmul`, printed as `GroupedMmaOp`.
pub const GROUPED_MATMUL: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "grouped_matmul",
        layout: OpLayout::OneLine(CallPadding::Tight),
        standalone: StandaloneRule::Yes,
        reshapes: true,
        indexed: true,
        optional_results: 2,
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[("GroupedMmaOp", |_| true)],
    summary: "Computes a GEMM for each group of rows, columns or contracted elements, which end at the offsets.",
    args: &[
        ArgSpec::keyed_operand("mat1"),
        ArgSpec::keyed_operand("mat2"),
        ArgSpec::keyed_operand("offsets"),
        ArgSpec::keyed_operand("scale1").optional(),
        ArgSpec::keyed_operand("scale2").optional(),
        ArgSpec::keyed_operand("alpha").optional(),
        ArgSpec::keyed_operand("bias").optional(),
        ArgSpec::keyed_operand("beta").optional(),
    ],
    relate: Some(link_grouped_matmul),
    infer: Infer::Result(infer_grouped_matmul),
    checks: &[check_grouped_dtypes, check_grouped_extents],
    repair: None,
    lower: Lower::Indexed(lower_grouped_matmul, OFFSET_FAULT),
};

/// The axis that the offsets divide into groups.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GroupedAxis {
    /// The rows: `[m, k] x [g, k, n] -> [m, n]`.
    Rows,
    /// The columns: `[g, m, k] x [k, n] -> [m, n]`.
    Columns,
    /// The contracted axis: `[m, k] x [k, n] -> [g, m, n]`.
    Contracted,
}

impl GroupedAxis {
    fn of_ranks(left: usize, right: usize) -> Option<Self> {
        match (left, right) {
            (2, 3) => Some(GroupedAxis::Rows),
            (3, 2) => Some(GroupedAxis::Columns),
            (2, 2) => Some(GroupedAxis::Contracted),
            _ => None,
        }
    }
    fn result_rank(self) -> usize {
        if self == GroupedAxis::Contracted { 3 } else { 2 }
    }
}

/// The operand with a word, if the op has it.
fn named_tensor(op: &Op, word: &str) -> Option<TensorId> {
    GROUPED_MATMUL.named_operand(op, word).and_then(Value::as_tensor)
}

fn rank_error(tensor: TensorId, message: Message) -> AxisMismatch {
    AxisMismatch { code: codes::RANK, message, note: Message::default(), tensor: Some(tensor) }
}

/// Links the axes of factors and result that groups do not divide: an offset counts along a whole axis, which must not
/// be sharded.
fn link_grouped_matmul(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    let (left, right) = (operand_side(program, op, 0)?, operand_side(program, op, 1)?);
    let (offsets, out) = (operand_side(program, op, 2)?, result_side(program, op)?);
    if has_split_axis(&[&left, &right, &offsets, &out]) {
        return Ok(());
    }
    let (a, b, c) = (left.stored_positions(), right.stored_positions(), out.stored_positions());
    let Some(form) = GroupedAxis::of_ranks(a.len(), b.len()) else {
        let (x, y) = (program.quoted_tensor(left.tensor), program.quoted_tensor(right.tensor));
        let message = message!(
            "`grouped_matmul` needs factors of 2 and 3, 3 and 2, or 2 and 2 axes, but `{}` has {} and `{}` {}",
            x,
            a.len(),
            y,
            b.len()
        );
        return Err(rank_error(left.tensor, message));
    };
    for (side, need, found) in [(&offsets, 1, offsets.stored_positions().len()), (&out, form.result_rank(), c.len())] {
        if need != found {
            let name = program.quoted_tensor(side.tensor);
            let what = if need == 1 { "offsets" } else { "a result" };
            let message =
                message!("`grouped_matmul` needs {} of rank {}, but `{}` has rank {}", what, need, name, found);
            return Err(rank_error(side.tensor, message));
        }
    }
    let (m, n) = (a[a.len() - 2], b[b.len() - 1]);
    if form != GroupedAxis::Contracted {
        link_contracted(&left, &right, &out, links);
    }
    if form != GroupedAxis::Rows {
        link_pairs(&left, &out, &[m], &c[c.len() - 2..c.len() - 1], links);
    }
    if form != GroupedAxis::Columns {
        link_pairs(&right, &out, &[n], &c[c.len() - 1..], links);
    }
    Ok(())
}

/// Links the contracted axes with each other and with the result's trailing reduction.
fn link_contracted(left: &LinkSide, right: &LinkSide, out: &LinkSide, links: &mut Vec<AxisLink>) {
    let (a, b) = (left.stored_positions(), right.stored_positions());
    let (k_of_a, k_of_b) = (a[a.len() - 1], b[b.len() - 2]);
    link_pairs(left, right, &[k_of_a], &[k_of_b], links);
    if out.axes.axes.last().is_some_and(|axis| axis.is_reduction()) {
        let last = [out.axes.axes.len() as u32 - 1];
        link_pairs(left, out, &[k_of_a], &last, links);
        link_pairs(right, out, &[k_of_b], &last, links);
    }
}

/// The axes of the result, then the contracted one as a reduction; the type of `mat1`, with scales of the bias, else
/// `__bfloat`.
fn infer_grouped_matmul(program: &Program, op: &Op, operands: &[TensorId]) -> Option<TensorType> {
    let &[a, b, offsets, ..] = operands else { return None };
    let [left, right, groups] = [a, b, offsets].map(|tensor| stored_domains(program, tensor));
    let form = GroupedAxis::of_ranks(left.len(), right.len())?;
    let (m, k, n) = (left[left.len() - 2], left[left.len() - 1], right[right.len() - 1]);
    let outer = groups.first().copied().filter(|_| form == GroupedAxis::Contracted);
    let domains = outer.into_iter().chain([m, n, contracted(k)]).collect();
    let ty = TensorType::with_domains_of(program, a, domains);
    let dtype = match named_tensor(op, "scale1") {
        None => ty.dtype,
        Some(_) => named_tensor(op, "bias").map_or(DType::BFloat16, |bias| program.tensor(bias).dtype),
    };
    Some(TensorType { dtype, ..ty })
}

/// V32: integer offsets, factors of one type or of 8 bits, both scales or none, in `float`, a bias of the result's
/// type.
fn check_grouped_dtypes(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let tensors: Vec<TensorId> = op.input_tensors().collect();
    let (&[a, b, offsets, ..], Some(out)) = (tensors.as_slice(), op.output_tensors().next()) else { return };
    let dtype = |tensor: TensorId| program.tensor(tensor).dtype;
    if !dtype(offsets).is_index() {
        report_type(program, id, offsets, message!("integer offsets"), diags);
    }
    let small = dtype(a).is_fp8_factor() && dtype(b).is_fp8_factor();
    if !small {
        tensor_checks::check_equal_dtypes(program, id, a, b, diags);
    }
    let scales = [named_tensor(op, "scale1"), named_tensor(op, "scale2")];
    if scales[0].is_some() != scales[1].is_some() {
        let message = "`grouped_matmul` needs scales of both factors or of none, but has one";
        let note = message!("add {}", if scales[0].is_none() { "`scale1=`" } else { "`scale2=`" });
        diags.push(Diag::error(codes::OPERANDS, program.op_span(id), message).with_note(note));
    }
    for scale in scales.into_iter().flatten().filter(|&scale| dtype(scale) != DType::Float) {
        report_type(program, id, scale, message!("scales in `{}`", quoted_type(DType::Float)), diags);
    }
    // With block scales among the results, the type of the first is that of its quantisation.
    if !small && scales[0].is_none() && op.results.len() == 1 {
        tensor_checks::check_equal_dtypes(program, id, a, out, diags);
    }
    if let Some(bias) = named_tensor(op, "bias") {
        tensor_checks::check_equal_dtypes(program, id, bias, out, diags);
    }
}

fn report_type(program: &Program, id: OpId, tensor: TensorId, need: Message, diags: &mut Diags) {
    let (name, found) = (program.quoted_tensor(tensor), quoted_type(program.tensor(tensor).dtype));
    let message = message!("`grouped_matmul` needs {}, but `{}` is {}", need, name, found);
    diags.push(with_declaration(Diag::error(codes::DTYPE, program.op_span(id), message), program, tensor, id));
}

/// V31 for the axes without links: the grouped axis, and as many groups as offsets.
fn check_grouped_extents(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let tensors: Vec<TensorId> = op.input_tensors().collect();
    let (&[a, b, offsets, ..], Some(out)) = (tensors.as_slice(), op.output_tensors().next()) else { return };
    let [x, y, g, z] = [a, b, offsets, out].map(|tensor| constant_extents(program, tensor));
    let pairs: &[_] = match GroupedAxis::of_ranks(x.len(), y.len()) {
        Some(GroupedAxis::Rows) if z.len() == 2 => &[((offsets, g[0]), (b, y[0])), ((a, x[0]), (out, z[0]))],
        Some(GroupedAxis::Columns) if z.len() == 2 => &[((offsets, g[0]), (a, x[0])), ((b, y[1]), (out, z[1]))],
        Some(GroupedAxis::Contracted) if z.len() == 3 => &[((offsets, g[0]), (out, z[0])), ((a, x[1]), (b, y[0]))],
        _ => &[],
    };
    for &((one, first), (other, second)) in pairs {
        if let (Some(first), Some(second)) = (first, second)
            && first != second
        {
            let (left, right) = (program.quoted_tensor(one), program.quoted_tensor(other));
            let message = message!(
                "`grouped_matmul` needs equal extents, but `{}` has {} and `{}` has {}",
                left,
                first,
                right,
                second
            );
            let diag = Diag::error(codes::EXTENT, program.op_span(id), message);
            let diag = match one == offsets {
                true => diag.with_note(message!("`{}` has one element for each group: where the group ends", left)),
                false => diag,
            };
            diags.push(with_declaration(with_declaration(diag, program, one, id), program, other, id));
        }
    }
}

/// The extents of the stored axes, where they are constants; at least one entry.
fn constant_extents(program: &Program, tensor: TensorId) -> Vec<Option<i64>> {
    let side = LinkSide::new(program, tensor);
    let extents = side.stored_positions().into_iter().map(|at| side.axes.axes[at as usize].extent);
    let extents: Vec<_> = extents.map(|extent| program.exprs().as_int(extent)).collect();
    if extents.is_empty() || side.axes.split { vec![None] } else { extents }
}

/// The tensors of the op and their views on this rank.
struct GroupedOperands {
    form: GroupedAxis,
    /// The factors and the result.
    tensors: [TensorId; 3],
    a: BufferView,
    b: BufferView,
    scales: Option<[(TensorId, BufferView); 2]>,
    bias: Option<BufferView>,
    /// `alpha`, which multiplies the GEMM, and `beta`, which multiplies the bias: one element each.
    factors: [Option<BufferView>; 2],
    out: BufferView,
}

/// The start and the end of each group.
struct GroupBounds {
    starts: BufferView,
    ends: BufferView,
    count: usize,
}

fn lower_grouped_matmul(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    refuse_block_scales(cx, id)?;
    let scratch = cx.scratch_start();
    let operands = GroupedOperands::new(cx, op)?;
    let bounds = operands.emit_bounds(cx, op)?;
    match operands.form {
        GroupedAxis::Contracted => operands.emit_contracted_groups(cx, &bounds)?,
        GroupedAxis::Rows | GroupedAxis::Columns => operands.emit_selected_groups(cx, &bounds)?,
    }
    cx.free_scratch_since(scratch)
}

/// The operand with a word, for each element of one GEMM's result. `alpha` and `beta` have one element.
fn fitted_operand(cx: &PlanBuilder<'_>, op: &Op, word: &str, out: &BufferView) -> Result<Option<BufferView>, Diag> {
    let (Some(tensor), Some(result)) = (named_tensor(op, word), op.output_tensors().next()) else { return Ok(None) };
    let (view, shape) = (cx.input_view(tensor)?, out.shape());
    let fit = expanded_view(&view, &shape[shape.len() - 2..]).filter(|_| word == "bias" || view.len() == 1);
    fit.map(Some).ok_or_else(|| cx.shape_error(tensor, &view.shape(), result, &shape))
}

/// The slice of a tensor that has an axis of groups; other tensors as they are.
fn group_slice(view: &BufferView, group: usize) -> BufferView {
    let mut view = view.clone();
    if view.dims.len() == 3 {
        view.offset += group * view.dims.remove(0).stride;
    }
    view
}

impl GroupedOperands {
    fn new(cx: &mut PlanBuilder<'_>, op: &Op) -> Result<Self, Diag> {
        let tensors = [cx.operand_tensor(op, 0)?, cx.operand_tensor(op, 1)?, cx.result_tensor(op)?];
        let (a, b, out) = (cx.input_view(tensors[0])?, cx.input_view(tensors[1])?, cx.output_view(tensors[2])?);
        let Some(form) = GroupedAxis::of_ranks(a.dims.len(), b.dims.len()) else {
            return Err(cx.shape_error(tensors[0], &a.shape(), tensors[1], &b.shape()));
        };
        let (rows, columns) = (a.dims[a.dims.len() - 2].extent, b.dims[b.dims.len() - 1].extent);
        if out.dims.len() != form.result_rank() || out.shape()[out.dims.len() - 2..] != [rows, columns] {
            return Err(cx.shape_error(tensors[2], &out.shape(), tensors[0], &a.shape()));
        }
        let scales = match (named_tensor(op, "scale1"), named_tensor(op, "scale2")) {
            (Some(one), Some(two)) => Some([(one, cx.input_view(one)?), (two, cx.input_view(two)?)]),
            _ => None,
        };
        let bias = fitted_operand(cx, op, "bias", &out)?;
        let factors = [fitted_operand(cx, op, "alpha", &out)?, fitted_operand(cx, op, "beta", &out)?];
        Ok(Self { form, tensors, a, b, scales, bias, factors, out })
    }

    /// The type in which `alpha` and `beta` multiply; the result's if the op has neither.
    fn sum_type(&self) -> DType {
        match (&self.factors, self.out.dtype) {
            ([None, None], dtype) | (_, dtype @ DType::Double) => dtype,
            _ => DType::Float,
        }
    }

    /// The number of groups that the factors and the result have.
    fn group_count(&self) -> usize {
        let grouped = match self.form {
            GroupedAxis::Rows => &self.b,
            GroupedAxis::Columns => &self.a,
            GroupedAxis::Contracted => &self.out,
        };
        grouped.dims[0].extent
    }

    /// The bounds of the groups. An offset that is out of order or range is an index out of range of one element.
    fn emit_bounds(&self, cx: &mut PlanBuilder<'_>, op: &Op) -> Result<GroupBounds, Diag> {
        let tensor = cx.operand_tensor(op, 2)?;
        let (offsets, count) = (cx.input_view(tensor)?, self.group_count());
        if offsets.shape() != [count] {
            return Err(cx.shape_error(tensor, &offsets.shape(), self.tensors[1], &self.b.shape()));
        }
        let extent = match self.form {
            GroupedAxis::Rows => self.a.dims[0].extent,
            GroupedAxis::Columns => self.b.dims[1].extent,
            GroupedAxis::Contracted => self.a.dims[1].extent,
        };
        let starts = cx.new_scratch(tensor, &[count], DType::Int)?;
        let ends = cx.new_scratch(tensor, &[count], DType::Int)?;
        let bounds = GroupBounds { starts: starts.clone(), ends: ends.clone(), count };
        if count == 0 {
            return Ok(bounds);
        }
        let zero = ScalarValue::Int(0);
        cx.emit_inst(InstKind::Fill { dst: Box::new(rows_of_view(&starts, 0, 1)), value: zero })?;
        emit_copy(cx, rows_of_view(&offsets, 0, count - 1), rows_of_view(&starts, 1, count - 1))?;
        let faults = cx.new_scratch(tensor, &[count], DType::Int)?;
        let mut kernel = ComposedKernel::default();
        let (end, start) = (kernel.input(offsets.clone()), kernel.input(starts));
        let falls = kernel.test(Function::Lt, [end, start]);
        let leaves = kernel.test(Function::Gt, [end, extent.into()]);
        let either = kernel.test(Function::Or, [falls, leaves]);
        kernel.integer(Function::Where, &[either, 1.into(), 0.into()]);
        kernel.emit(cx, faults.clone())?;
        let none = cx.new_scratch(tensor, &[1], DType::Int)?;
        cx.emit_inst(InstKind::Fill { dst: Box::new(none.clone()), value: zero })?;
        let checked = cx.new_scratch(tensor, &[count], DType::Int)?;
        emit_take(cx, [none, faults], 0, checked.clone())?;
        let mut kernel = ComposedKernel::default();
        let (end, checked) = (kernel.input(offsets), kernel.input(checked));
        kernel.integer(Function::Add, &[end, checked]);
        kernel.emit(cx, ends)?;
        Ok(bounds)
    }

    /// The factors of a group, and its scales with the extents of one GEMM's result.
    fn group_gemm(&self, cx: &PlanBuilder<'_>, group: usize, out: BufferView) -> Result<GemmInst, Diag> {
        let shape = out.shape();
        let mut scales = None;
        if let Some(all) = &self.scales {
            let [one, two] = all.each_ref().map(|(tensor, view)| {
                let fit = expanded_view(&group_slice(view, group), &shape);
                fit.ok_or_else(|| cx.shape_error(*tensor, &view.shape(), self.tensors[2], &self.out.shape()))
            });
            scales = Some(Box::new([one?, two?]));
        }
        // With `alpha` or `beta` the bias is added afterwards.
        let bias = self.bias.clone().filter(|_| self.factors == [None, None]);
        Ok(GemmInst { a: group_slice(&self.a, group), b: group_slice(&self.b, group), bias, scales, out })
    }

    /// Groups of rows or columns: of each group's GEMM, the result keeps the group's part. What is in no group is 0.
    fn emit_selected_groups(&self, cx: &mut PlanBuilder<'_>, bounds: &GroupBounds) -> Result<(), Diag> {
        let axis = u32::from(self.form == GroupedAxis::Columns);
        cx.emit_inst(InstKind::Fill { dst: Box::new(self.out.clone()), value: ScalarValue::Int(0) })?;
        let all = cx.new_scratch(self.tensors[2], &self.out.shape(), self.sum_type())?;
        for group in 0..bounds.count {
            let gemm = self.group_gemm(cx, group, all.clone())?;
            emit_gemm(cx, self.tensors, gemm)?;
            let mut kernel = ComposedKernel::default();
            let is_inside = bounds.emit_test(&mut kernel, group, axis, &self.out.shape());
            let (value, other) = (self.scaled_sum(&mut kernel, all.clone()), kernel.input(self.out.clone()));
            kernel.apply_function(Function::Where, self.sum_type(), &[is_inside, value, other]);
            kernel.emit(cx, self.out.clone())?;
        }
        Ok(())
    }

    /// `alpha` times a GEMM plus `beta` times the bias; the GEMM alone if the op has neither `alpha` nor `beta`.
    fn scaled_sum(&self, kernel: &mut ComposedKernel, gemm: BufferView) -> StepOperand {
        let mut sum = kernel.input(gemm);
        let [alpha, beta] = &self.factors;
        if alpha.is_none() && beta.is_none() {
            return sum;
        }
        let dtype = self.sum_type();
        if let Some(alpha) = alpha {
            let alpha = kernel.input(alpha.clone());
            sum = kernel.apply_function(Function::Mul, dtype, &[sum, alpha]);
        }
        if let Some(bias) = &self.bias {
            let mut term = kernel.input(bias.clone());
            if let Some(beta) = beta {
                let beta = kernel.input(beta.clone());
                term = kernel.apply_function(Function::Mul, dtype, &[term, beta]);
            }
            sum = kernel.apply_function(Function::Add, dtype, &[sum, term]);
        }
        sum
    }

    /// Groups of the contracted axis: a GEMM of factors that are 0 outside of the group.
    fn emit_contracted_groups(&self, cx: &mut PlanBuilder<'_>, bounds: &GroupBounds) -> Result<(), Diag> {
        let a = cx.new_scratch(self.tensors[0], &self.a.shape(), self.a.dtype)?;
        let b = cx.new_scratch(self.tensors[1], &self.b.shape(), self.b.dtype)?;
        let has_factors = self.factors != [None, None];
        for group in 0..bounds.count {
            let out = group_slice(&self.out, group);
            let target = match has_factors {
                true => cx.new_scratch(self.tensors[2], &out.shape(), self.sum_type())?,
                false => out.clone(),
            };
            let gemm = self.group_gemm(cx, group, target.clone())?;
            for (axis, whole, part) in [(1, &self.a, &a), (0, &self.b, &b)] {
                bounds.emit_part(cx, group, axis, whole.clone(), part.clone())?;
            }
            emit_gemm(cx, self.tensors, GemmInst { a: a.clone(), b: b.clone(), ..gemm })?;
            if has_factors {
                let mut kernel = ComposedKernel::default();
                self.scaled_sum(&mut kernel, target);
                kernel.emit(cx, out)?;
            }
        }
        Ok(())
    }
}

impl GroupBounds {
    /// Returns true where an index along an axis of a kernel's output is in a group.
    fn emit_test(&self, kernel: &mut ComposedKernel, group: usize, axis: u32, shape: &[usize]) -> StepOperand {
        let [start, end] = [&self.starts, &self.ends].map(|bounds| {
            let dims = shape.iter().map(|&extent| ViewDim { extent, stride: 0 }).collect();
            BufferView { offset: bounds.offset + group, dims, ..bounds.clone() }
        });
        let (start, end) = (kernel.input(start), kernel.input(end));
        let begins = kernel.test(Function::Ge, [StepOperand::Index(axis), start]);
        let lasts = kernel.test(Function::Lt, [StepOperand::Index(axis), end]);
        kernel.test(Function::And, [begins, lasts])
    }
    /// The view inside of the group, 0 outside.
    fn emit_part(
        &self,
        cx: &mut PlanBuilder<'_>,
        group: usize,
        axis: u32,
        whole: BufferView,
        part: BufferView,
    ) -> Result<(), Diag> {
        let mut kernel = ComposedKernel::default();
        let is_inside = self.emit_test(&mut kernel, group, axis, &part.shape());
        let whole = kernel.input(whole);
        kernel.apply_function(
            Function::Where,
            part.dtype,
            &[is_inside, whole, StepOperand::Const(ScalarValue::Float(0.0))],
        );
        kernel.emit(cx, part)
    }
}
