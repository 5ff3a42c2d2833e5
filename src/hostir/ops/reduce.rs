//! Reductions, alone and in groups.

use super::literals::{check_initial_literal, check_literal};
use super::result_types::{axis_list, stored_domains};
use super::spec::{ArgKind, ArgSpec, Infer, Lower, OpSpec, UsualValue};
use super::tensor_checks;
use crate::axes::pairing::{
    AxisMismatch, ChosenAxes, LinkResult, LinkSide, both_sides, has_split_axis, link_equal_lists,
};
use crate::diag::{Diag, Diags, Message, PartKind, Quoted, codes, count_text, message};
use crate::ir::{
    AttrKey, AttrValue, AxisLink, DType, ExprId, Op, OpId, OpIdentity, OpKind, OpLayout, OwnForm, Program,
    StandaloneRule, Symbol, TensorId, Transfer, Value, quoted_type,
};
use crate::plan::{
    BufferView, InstKind, PlanBuilder, RedOp, ReduceInst, ReductionFold, ScalarValue, emit_copy, type_range,
};
use smallvec::SmallVec;

/// Reduction operations. `max` and `min` are spelled `fmax` and `fmin` unless
/// [`crate::ir::Style::short_max`].
pub const REDUCE_WORDS: &[&str] = &[
    "add",
    "mul",
    "max",
    "min",
    "fmax",
    "fmin",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "logical_and",
    "logical_or",
];

/// `reduction`.
pub const REDUCTION: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "reduction",
        standalone: StandaloneRule::Yes,
        transfer: Some(Transfer::Reduction),
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Reduces the axes that are reductions in its result.",
    args: &[
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::spaced("op", AttrKey::ReduceOp, ArgKind::Word(REDUCE_WORDS)),
        ArgSpec::spaced("initial value", AttrKey::Init, ArgKind::Expr),
        ArgSpec::spaced("allreduce", AttrKey::Allreduce, ArgKind::Bool).with_usual(UsualValue::False),
    ],
    relate: Some(link_reduction),
    infer: Infer::Written,
    checks: &[tensor_checks::check_one_dtype, check_initial_literal],
    repair: None,
    lower: Lower::Instructions(lower_reduction),
};

/// `reduction( T0, op = add, initial value = float(0), allreduce = false )`, without its result.
pub fn reduction_op(tensor: TensorId, function: Symbol, initial: ExprId) -> Op {
    let attrs = vec![
        (AttrKey::ReduceOp, AttrValue::Word(function)),
        (AttrKey::Init, AttrValue::Expr(initial)),
        (AttrKey::Allreduce, AttrValue::Bool(false)),
    ];
    Op { attrs, ..Op::new(OpKind::Reduction) }.with_operand(Value::Tensor(tensor))
}

/// Several reductions in one kernel; each has the axes of its own result.
pub const GROUPED_REDUCTION: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "GroupedReductionOp",
        layout: OpLayout::Own(OwnForm::GroupedReduction),
        results: 0,
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Reduces several tensors, each along the axes that are reductions in its result.",
    args: &[
        ArgSpec::operand(ArgKind::Tensor).repeated(),
        ArgSpec::spaced("op", AttrKey::ReduceOp, ArgKind::Words(REDUCE_WORDS)),
        ArgSpec::spaced("initial value", AttrKey::Init, ArgKind::Exprs),
        ArgSpec::spaced("allreduce", AttrKey::Allreduce, ArgKind::Bool).with_usual(UsualValue::False),
    ],
    relate: Some(link_grouped_reduction),
    infer: Infer::Written,
    checks: &[check_group],
    repair: None,
    lower: Lower::Instructions(lower_grouped_reduction),
};

/// reduction: the operand's stored axes with all axes of the result, reduced ones included.
///
/// # Errors
/// If an operand or the result is missing, their ranks differ, or the result has no reduced axis.
pub fn link_reduction(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    let (from, to) = both_sides(program, op)?;
    link_reduced(program, op, [&from, &to], links)
}

/// GroupedReductionOp: each operand with its result.
fn link_grouped_reduction(program: &Program, id: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    let op = program.op(id);
    for (operand, result) in op.input_tensors().zip(op.output_tensors()) {
        let [from, to] = [operand, result].map(|tensor| LinkSide::new(program, tensor));
        link_reduced(program, id, [&from, &to], links)?;
    }
    Ok(())
}

/// Links an operand's stored axes with all axes of a result.
pub(super) fn link_reduced(
    program: &Program,
    op: OpId,
    [from, to]: [&LinkSide; 2],
    links: &mut Vec<AxisLink>,
) -> LinkResult {
    let linked = link_equal_lists(
        program,
        op,
        ChosenAxes { side: from, axes: &from.stored_positions() },
        ChosenAxes { side: to, axes: &to.all_positions() },
        links,
    );
    linked.map_err(|mismatch| AxisMismatch { note: reduced_type_note(program, from, to), ..mismatch })?;
    if has_split_axis(&[from, to]) || to.axes.axes.iter().any(|axis| axis.is_reduction()) {
        return Ok(());
    }
    let name = program.quoted_tensor(to.tensor);
    Err(AxisMismatch {
        code: codes::NO_REDUCED_AXIS,
        message: message!("`{}` is the result of a reduction but has no reduction axis", name),
        note: unreduced_type_note(program, from, to),
        tensor: Some(to.tensor),
    })
}

/// The type of a result that has all axes of the operand, none of them reduced: the last one is taken for that.
fn unreduced_type_note(program: &Program, from: &LinkSide, to: &LinkSide) -> Message {
    let [operand, written] = [from, to].map(|side| stored_domains(program, side.tensor));
    // An axis of one element is a reduced one that was kept.
    let kept = written.iter().position(|domain| program.exprs().as_int(domain.extent) == Some(1));
    let kept = kept.filter(|_| operand.len() == written.len() && program.is_hir2());
    if let Some(kept) = kept {
        return message!(
            "write `{}: {}[{}]`: a reduced axis is marked by `r.` and left out, and `broadcast` puts one of one element \
             there",
            program.quoted_tensor(to.tensor),
            quoted_type(program.tensor(to.tensor).dtype),
            axis_list(program, &operand, &[kept])
        );
    }
    let stored = written;
    if !program.is_hir2() || stored.is_empty() {
        let example = Quoted::spelled(PartKind::Axis, "rS1{i1}", "r.i1");
        return message!("write the reduced axis as `r` in the result, for example `{}`", example);
    }
    message!(
        "write `{}: {}[{}]`, which reduces the last axis: `r.` stands at those that are reduced",
        program.quoted_tensor(to.tensor),
        quoted_type(program.tensor(to.tensor).dtype),
        axis_list(program, &stored, &[stored.len() - 1])
    )
}

/// The note for an operand with axes over devices that the written type does not have: the rank's own part is meant.
fn own_part_note(program: &Program, from: &LinkSide, to: &LinkSide) -> Option<Message> {
    let [operand, result] = [from, to].map(|side| program.domains(side.tensor).to_vec());
    let across: Vec<bool> = operand.iter().map(|domain| domain.parallel.is_device()).collect();
    if result.iter().any(|domain| domain.parallel.is_device()) {
        return None;
    }
    let name = program.tensor_name(from.tensor);
    let last = across.iter().rposition(|across| *across)?;
    let count = across.iter().filter(|across| **across).count();
    if operand.len() - count != result.len() || name.contains('[') || !program.is_hir2() {
        return None;
    }
    let items: Vec<&str> = across[..=last].iter().map(|across| if *across { "own" } else { ":" }).collect();
    Some(message!(
        "`{}` keeps its axis over devices; the rank's own part is `{}[{}]`, which has {}",
        name,
        name,
        items.join(", "),
        count_text(result.len(), "axis")
    ))
}

/// The type that the result of a reduction needs: all axes of the operand, the reduced ones as `r.`. Those that the
/// written type leaves out are taken for reduced.
fn reduced_type_note(program: &Program, from: &LinkSide, to: &LinkSide) -> Message {
    if let Some(note) = own_part_note(program, from, to) {
        return note;
    }
    let stored = stored_domains(program, from.tensor);
    let mut written = stored_domains(program, to.tensor).into_iter().peekable();
    let mut reduced: Vec<usize> = Vec::new();
    for (at, domain) in stored.iter().enumerate() {
        match written.peek() {
            Some(next) if next.extent == domain.extent => {
                written.next();
            }
            _ => reduced.push(at),
        }
    }
    if written.next().is_some() || reduced.is_empty() {
        return Message::advice(
            "the result has all axes of the operand, with `r` for those that are reduced",
            "the result's type has all axes of the operand, with `r.` for those that are reduced, as in `f32[m, r.n]`",
        );
    }
    let axes = axis_list(program, &stored, &reduced);
    let name = program.quoted_tensor(to.tensor);
    match program.is_hir2() {
        true => {
            let dtype = quoted_type(program.tensor(to.tensor).dtype);
            message!("write the reduced axes, too: `{}: {}[{}]`", name, dtype, axes)
        }
        false => message!("the axes of {} are those of the operand, the reduced ones as `r`: `{}`", name, axes),
    }
}

/// The repair of [`unequal_members`].
pub const ONE_OF_EACH: &str = "give one of each";

/// The message about a grouped reduction with so many results and another number of operands, operations or initial
/// values.
pub fn unequal_members(op: &Op, results: usize) -> Option<Message> {
    let words = op.attr(AttrKey::ReduceOp).map_or(0, |value| value.words().len());
    let initials = op.attr(AttrKey::Init).map_or(0, |value| value.exprs().len());
    let counts = [op.operands.len(), words, initials];
    counts.iter().any(|&count| count != results).then(|| {
        message!(
            "a grouped reduction of {} has {}, {} and {}",
            count_text(results, "result"),
            count_text(counts[0], "operand"),
            count_text(counts[1], "operation"),
            count_text(counts[2], "initial value")
        )
    })
}

/// A group has an operand, a result, an operation and an initial value for each reduction, of one element type.
fn check_group(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    if let Some(message) = unequal_members(op, op.results.len()) {
        diags.push(Diag::error(codes::GROUP_MEMBERS, program.op_span(id), message).with_note(ONE_OF_EACH));
        return;
    }
    for (operand, result) in op.input_tensors().zip(op.output_tensors()) {
        tensor_checks::check_equal_dtypes(program, id, operand, result, diags);
    }
    let initials = op.attr(AttrKey::Init).map_or(&[][..], AttrValue::exprs);
    for (result, &initial) in op.output_tensors().zip(initials) {
        let dtype = program.tensor(result).dtype;
        if dtype.is_float() {
            check_literal(program, id, initial, dtype, diags);
        }
    }
}

/// `reduction`: the axes that are reductions in the result are combined. With `allreduce = true` the threads of a
/// kernel all have the result; on the host this is the same value.
///
/// # Errors
/// If the operation is unknown, shapes do not fit, the initial value does not fit the element type, the operand has no
/// value on this rank, or the result cannot be allocated.
pub fn lower_reduction(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let (operand, result) = (cx.operand_tensor(op, 0)?, cx.result_tensor(op)?);
    let word = op.word_attr(AttrKey::ReduceOp);
    emit_reduction(cx, ReductionPart { operand, result, word, initial: op.expr_attr(AttrKey::Init) })
}

/// `GroupedReductionOp`: its reductions one after the other.
fn lower_grouped_reduction(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let words = op.attr(AttrKey::ReduceOp).map_or(&[][..], AttrValue::words);
    let initials = op.attr(AttrKey::Init).map_or(&[][..], AttrValue::exprs);
    for (at, (operand, result)) in op.input_tensors().zip(op.output_tensors()).enumerate() {
        let (word, initial) = (words.get(at).copied(), initials.get(at).copied());
        emit_reduction(cx, ReductionPart { operand, result, word, initial })?;
    }
    Ok(())
}

/// One reduction of an op.
struct ReductionPart {
    operand: TensorId,
    result: TensorId,
    /// The operation; a sum if the op has none.
    word: Option<Symbol>,
    initial: Option<ExprId>,
}

fn emit_reduction(cx: &mut PlanBuilder<'_>, part: ReductionPart) -> Result<(), Diag> {
    let ReductionPart { operand, result, word, initial } = part;
    let word = word.map_or("add", |word| cx.program.name(word));
    let Some(red_op) = RedOp::parse(word) else {
        return Err(cx.error_here(codes::CANNOT_RUN, format!("the reduction `{word}` is not supported in a run")));
    };
    let source = cx.input_view(operand)?;
    let axes = reduced_axes(cx, result);
    let output = cx.output_view(result)?;
    check_reduced_shape(cx, [operand, result], [&source, &output], &axes)?;
    if source.dtype.is_complex() && !matches!(red_op, RedOp::Sum | RedOp::Product) {
        return Err(no_complex_reduction(cx, word));
    }
    let red_op = if source.dtype.is_float() { red_op } else { red_op.ignoring_nan() };
    let fold = reduction_fold(cx, initial, red_op, source.dtype)?;
    emit_fold(cx, fold, axes, source, output)
}

/// The positions of a result's reduced axes among all of its axes.
pub(super) fn reduced_axes(cx: &PlanBuilder<'_>, result: TensorId) -> SmallVec<[usize; 2]> {
    let axes = cx.axes.axes_of(result);
    (0..axes.len()).filter(|&axis| axes[axis].is_reduction()).collect()
}

/// Checks that a result has the extents of the axes that are not reduced.
pub(super) fn check_reduced_shape(
    cx: &PlanBuilder<'_>,
    [operand, result]: [TensorId; 2],
    [source, output]: [&BufferView; 2],
    reduced: &[usize],
) -> Result<(), Diag> {
    let counts = (cx.axes.axes_of(result).len(), source.dims.len());
    let kept: Vec<usize> =
        source.shape().iter().enumerate().filter(|(i, _)| !reduced.contains(i)).map(|(_, &e)| e).collect();
    if counts.0 != counts.1 || kept != output.shape() {
        return Err(cx.shape_error(operand, &source.shape(), result, &output.shape()));
    }
    Ok(())
}

/// Appends a reduction of a view.
pub(super) fn emit_fold(
    cx: &mut PlanBuilder<'_>,
    fold: ReductionFold,
    axes: SmallVec<[usize; 2]>,
    input: BufferView,
    output: BufferView,
) -> Result<(), Diag> {
    if axes.is_empty() && fold.initial.is_none() {
        return emit_copy(cx, input, output);
    }
    // Of no elements the initial value is left.
    if input.is_empty() && !output.is_empty() {
        let value = fold.initial.unwrap_or_else(|| fold.op.identity_value(input.dtype));
        return cx.emit_inst(InstKind::Fill { dst: Box::new(output), value });
    }
    cx.emit_inst(InstKind::Reduce(Box::new(ReduceInst { op: fold, axes, input, output })))
}

/// The error for a reduction that complex numbers do not have.
fn no_complex_reduction(cx: &PlanBuilder<'_>, word: &str) -> Diag {
    let message = format!("the reduction `{word}` is not defined for complex numbers");
    cx.error_here(codes::COMPLEX_FUNCTION, message).with_note(Message::advice(
        "complex numbers have sums and products; `std::real`, `std::imag` and `abs` give real numbers",
        "complex numbers have sums and products; `real(X)`, `imag(X)` and `abs(X)` give real numbers",
    ))
}

/// The fold of a reduction over elements of a type. Fails if the type cannot represent the initial value.
fn reduction_fold(
    cx: &PlanBuilder<'_>,
    initial: Option<ExprId>,
    how: RedOp,
    dtype: DType,
) -> Result<ReductionFold, Diag> {
    let Some(expr) = initial else { return Ok(how.into()) };
    let value = cx.eval_scalar(expr)?;
    check_initial(cx, how, dtype, value)?;
    let value = match value {
        ScalarValue::Float(real) if real.is_infinite() && dtype.is_integer() => {
            type_range(dtype)[usize::from(real > 0.0)]
        }
        value => value,
    };
    // `fmax` of elements that are all NaN is an infinity.
    let skips_nan = how != how.ignoring_nan();
    let initial = (skips_nan || !how.is_identity(dtype, value)).then_some(value);
    Ok(ReductionFold { op: how, initial })
}

/// Checks the type of an initial value: integers start from integers; a minimum or maximum also from an infinity,
/// which stands for the limit of the type.
fn check_initial(cx: &PlanBuilder<'_>, how: RedOp, dtype: DType, value: ScalarValue) -> Result<(), Diag> {
    // An initial value beyond the type's limit that does not change the result stands for that limit.
    let [low, high] = type_range(dtype).map(ScalarValue::as_i128);
    let held = match value {
        _ if dtype.is_float() || dtype.is_complex() => true,
        ScalarValue::Bool(_) => true,
        ScalarValue::Complex(..) => false,
        ScalarValue::Int(_) | ScalarValue::Unsigned(_) => {
            dtype == DType::Bool || (low..=high).contains(&value.as_i128()) || how.is_identity(dtype, value)
        }
        ScalarValue::Float(real) => {
            let end = real.is_infinite() && matches!(how, RedOp::Min | RedOp::Max);
            let whole = real.fract() == 0.0 && real.abs() < 1.9e19;
            end || (whole && (low..=high).contains(&(real as i128)))
        }
    };
    if held {
        return Ok(());
    }
    let message = message!("the initial value {} is not a value of type `{}`", value.to_string(), quoted_type(dtype));
    let note = "write an initial value of the operand's type, here an integer";
    Err(cx.error_here(codes::INITIAL_VALUE, message).with_note(note))
}
