//! `Welford` and `GroupedWelford`: mean, sum of squared differences from it, and count.
//!
//! Welford's algorithm is a way to compute the three in one pass. A plan computes them in two, by sums and pointwise
//! kernels, so every backend and every proof has them: with values `x` of counts `n` and sums of squares `m`, and the
//! initial triplet `x0, m0, n0`,
//!
//! ```text
//! N   = n0 + sum n
//! avg = (n0 * x0 + sum n * x) / N
//! var = m0 + n0 * (x0 - avg)^2 + sum (m + n * (x - avg)^2)
//! ```

use super::reduce::{check_reduced_shape, emit_fold, link_reduced, reduced_axes};
use super::spec::{ArgKind, ArgSpec, Infer, Lower, OpSpec, UsualValue};
use super::tensor_checks;
use crate::axes::pairing::{LinkResult, LinkSide, has_split_axis, link_pairs};
use crate::diag::message;
use crate::diag::{Diag, Diags, Message, codes};
use crate::ir::{
    AttrKey, AxisLink, DType, Op, OpId, OpIdentity, OpLayout, OwnForm, Program, TensorId, Value, quoted_head,
    quoted_op, quoted_type,
};
use crate::plan::{
    BufferView, Function, InstKind, KernelStep, PlanBuilder, PointwiseKernel, RedOp, ScalarValue, StepOperand, ViewDim,
};
use smallvec::SmallVec;

const SUMMARY: &str =
    "Computes the mean, the sum of squared differences from it, and the count along the reduced axes.";

/// `Welford`.
pub const WELFORD: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "Welford",
        layout: OpLayout::Own(OwnForm::Welford),
        results: 3,
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: SUMMARY,
    args: &[
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::keyed_operand("var").of_kind(ArgKind::Operand).optional(),
        ArgSpec::keyed_operand("count").of_kind(ArgKind::Operand).optional(),
        ArgSpec::keyed_operand("init_avg").of_kind(ArgKind::Operand).optional(),
        ArgSpec::keyed_operand("init_var").of_kind(ArgKind::Operand).optional(),
        ArgSpec::keyed_operand("init_count").of_kind(ArgKind::Operand).optional(),
        ArgSpec::spaced("allreduce", AttrKey::Allreduce, ArgKind::Bool).with_usual(UsualValue::False),
    ],
    relate: Some(link_welford),
    infer: Infer::Written,
    checks: &[check_welford],
    repair: None,
    lower: Lower::Instructions(lower_welford),
};

/// `GroupedWelford`: for each group its value, sum of squares and count, then the initial three.
pub const GROUPED_WELFORD: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "GroupedWelford",
        layout: OpLayout::Own(OwnForm::GroupedWelford),
        results: 0,
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Computes several Welfords: for each a value, its sum of squares and count, and three initial values.",
    args: &[
        ArgSpec::operand(ArgKind::Operand).repeated(),
        ArgSpec::spaced("allreduce", AttrKey::Allreduce, ArgKind::Bool).with_usual(UsualValue::False),
    ],
    relate: Some(link_welford),
    infer: Infer::Written,
    checks: &[check_welford],
    repair: None,
    lower: Lower::Instructions(lower_welford),
};

/// One Welford of an op. A value that the op lacks has its neutral meaning: a count of 1, a sum of squares of 0.
struct WelfordPart {
    values: Value,
    squares: Option<Value>,
    count: Option<Value>,
    /// The initial mean, sum of squares and count.
    initial: Option<[Value; 3]>,
    /// The mean, the sum of squares and the count.
    results: [TensorId; 3],
}

/// The Welfords of an op; `None` if an operand or a result is missing.
fn welford_parts(op: &Op) -> Option<Vec<WelfordPart>> {
    let results: Vec<TensorId> = op.output_tensors().collect();
    if op.kind.layout() == OpLayout::Own(OwnForm::Welford) {
        let [squares, count] = ["var", "count"].map(|word| WELFORD.named_operand(op, word));
        let initial = match ["init_avg", "init_var", "init_count"].map(|word| WELFORD.named_operand(op, word)) {
            [None, None, None] => None,
            [Some(mean), Some(squares), Some(count)] => Some([mean, squares, count]),
            _ => return None,
        };
        if squares.is_some() != count.is_some() {
            return None;
        }
        let results = results.try_into().ok()?;
        return Some(vec![WelfordPart { values: *op.operands.first()?, squares, count, initial, results }]);
    }
    let counts = (op.operands.len(), results.len());
    if !counts.1.is_multiple_of(3) || counts.0 != 2 * counts.1 {
        return None;
    }
    let groups = op.operands.chunks_exact(6).zip(results.chunks_exact(3));
    let parts = groups.map(|(operands, results)| {
        let &[values, squares, count, mean, square, zero] = operands else { return None };
        let (initial, results) = (Some([mean, square, zero]), results.try_into().ok()?);
        Some(WelfordPart { values, squares: Some(squares), count: Some(count), initial, results })
    });
    parts.collect()
}

/// The axes of each value with those of all results, reduced ones included; the axes of an initial value with those that
/// are kept.
fn link_welford(program: &Program, id: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    for part in welford_parts(program.op(id)).unwrap_or_default() {
        let reduced = [Some(part.values), part.squares, part.count].into_iter().flatten();
        let reduced: Vec<LinkSide> = sides_of(program, reduced);
        let initial = sides_of(program, part.initial.into_iter().flatten());
        for result in part.results.map(|tensor| LinkSide::new(program, tensor)) {
            for side in &reduced {
                link_reduced(program, id, [side, &result], links)?;
            }
            for side in initial.iter().filter(|side| !has_split_axis(&[*side, &result])) {
                link_pairs(side, &result, &side.stored_positions(), &result.stored_positions(), links);
            }
        }
    }
    Ok(())
}

fn sides_of(program: &Program, values: impl Iterator<Item = Value>) -> Vec<LinkSide> {
    values.filter_map(Value::as_tensor).map(|tensor| LinkSide::new(program, tensor)).collect()
}

/// The repair of an op with incomplete Welfords.
pub const WHOLE_PARTS: &str = "give `var` and `count` together, and all three initial values or none; a group has three results and six operands for each Welford";

/// The message for an op with so many results that lacks a part.
pub fn missing_parts(op: &Op, results: usize) -> Message {
    let name = quoted_head(op.kind.name());
    match op.kind.layout() {
        OpLayout::Own(OwnForm::GroupedWelford) if results.is_multiple_of(3) => message!(
            "`{}` of {} results needs {} operands, but has {}: mean, sum of squares and count of its parts, then an initial value of each",
            name,
            results,
            2 * results,
            op.operands.len()
        ),
        _ => message!("`{}` lacks a part of a mean, a sum of squares and a count", name),
    }
}

/// Returns true if each Welford of an op with so many results has all its parts.
pub fn has_whole_parts(op: &Op, results: usize) -> bool {
    match op.kind.layout() {
        OpLayout::Own(OwnForm::Welford) => {
            let given = |word| WELFORD.named_operand(op, word).is_some();
            let initial = ["init_avg", "init_var", "init_count"].map(given);
            given("var") == given("count") && initial.iter().all(|&one| one == initial[0])
        }
        OpLayout::Own(OwnForm::GroupedWelford) => results.is_multiple_of(3) && op.operands.len() == 2 * results,
        _ => true,
    }
}

/// Each Welford is complete; its means and squares have one type, its counts another one, of integers.
fn check_welford(program: &Program, id: OpId, diags: &mut Diags) {
    let Some(parts) = welford_parts(program.op(id)) else {
        let message = message!("`{}` lacks a part of a mean, a sum of squares and a count", quoted_op(program, id));
        diags.push(Diag::error(codes::GROUP_MEMBERS, program.op_span(id), message).with_note(WHOLE_PARTS));
        return;
    };
    for part in parts {
        let [mean, squares, count] = part.results;
        let initial = part.initial.map_or([None; 3], |values| values.map(Some));
        let reals = [Some(Value::Tensor(squares)), Some(part.values), part.squares, initial[0], initial[1]];
        for tensor in reals.into_iter().flatten().filter_map(Value::as_tensor) {
            tensor_checks::check_equal_dtypes(program, id, tensor, mean, diags);
        }
        for tensor in [part.count, initial[2]].into_iter().flatten().filter_map(Value::as_tensor) {
            tensor_checks::check_equal_dtypes(program, id, tensor, count, diags);
        }
        tensor_checks::check_index_type(program, id, count, "count", diags);
    }
}

/// Both ops: their Welfords one after the other.
fn lower_welford(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let Some(parts) = welford_parts(cx.program.op(id)) else {
        return Err(cx.error_here(codes::NEEDED, "an operand or a result of the Welford is missing"));
    };
    parts.iter().try_for_each(|part| WelfordPlan::new(cx, part)?.emit(cx))
}

/// An operand of a kernel: a view, or a number.
#[derive(Clone)]
enum Term {
    View(BufferView),
    Number(ScalarValue),
}

impl Term {
    /// A value with the extents of a shape.
    fn new(cx: &PlanBuilder<'_>, value: Value, shape: &[usize], result: TensorId) -> Result<Self, Diag> {
        match value {
            Value::Tensor(tensor) => cx.fitted_input(tensor, result, shape).map(Term::View),
            Value::Scalar(expr) => Ok(Term::Number(cx.eval_scalar(expr)?)),
            _ => Err(cx.error_here(codes::NEEDED, "an operand of the Welford has no value")),
        }
    }

    /// The same, or a number where the op has no value.
    fn or_number(
        cx: &PlanBuilder<'_>,
        value: Option<Value>,
        number: i64,
        shape: &[usize],
        result: TensorId,
    ) -> Result<Self, Diag> {
        match value {
            Some(value) => Term::new(cx, value, shape, result),
            None => Ok(Term::Number(ScalarValue::Int(number))),
        }
    }

    fn is_number(&self, wanted: i64) -> bool {
        matches!(self, Term::Number(number) if number.as_f64() == wanted as f64)
    }
}

/// One Welford with the views of a rank.
struct WelfordPlan {
    values: BufferView,
    axes: SmallVec<[usize; 2]>,
    squares: Term,
    count: Term,
    initial: Option<[Term; 3]>,
    /// The memory of the mean, the sum of squares and the count.
    outputs: [BufferView; 3],
    mean: TensorId,
}

impl WelfordPlan {
    fn new(cx: &mut PlanBuilder<'_>, part: &WelfordPart) -> Result<Self, Diag> {
        let [mean, squares, count] = part.results;
        let Some(tensor) = part.values.as_tensor() else {
            return Err(cx.error_here(codes::NEEDED, "the values of the Welford are not a tensor"));
        };
        let values = cx.input_view(tensor)?;
        if !matches!(values.dtype, DType::Float | DType::Double) {
            let message = message!("a Welford of `{}` is not supported in a run", quoted_type(values.dtype));
            let note = "convert its operand to `float` or `double`, as nvFuser does";
            return Err(cx.error_here(codes::CANNOT_RUN, message).with_note(note));
        }
        let axes = reduced_axes(cx, mean);
        let outputs = [cx.output_view(mean)?, cx.output_view(squares)?, cx.output_view(count)?];
        for (result, output) in part.results.iter().zip(&outputs) {
            let own = reduced_axes(cx, *result);
            check_reduced_shape(cx, [tensor, *result], [&values, output], &own)?;
            if own != axes {
                return Err(cx.error_here(codes::SHAPES, "the results of a Welford reduce different axes"));
            }
        }
        let shape = values.shape();
        let squares = Term::or_number(cx, part.squares, 0, &shape, tensor)?;
        let count = Term::or_number(cx, part.count, 1, &shape, tensor)?;
        let kept = outputs[0].shape();
        let initial = match part.initial {
            None => None,
            Some(values) => {
                let [a, b, c] = values.map(|value| Term::new(cx, value, &kept, mean));
                Some([a?, b?, c?]).filter(|[_, squares, count]| !squares.is_number(0) || !count.is_number(0))
            }
        };
        Ok(Self { values, axes, squares, count, initial, outputs, mean })
    }

    fn emit(self, cx: &mut PlanBuilder<'_>) -> Result<(), Diag> {
        let total = self.emit_count(cx)?;
        self.emit_mean(cx, &total)?;
        self.emit_squares(cx)
    }

    /// The number of elements that are reduced to one.
    fn reduced_len(&self) -> usize {
        self.axes.iter().map(|&axis| self.values.dims[axis].extent).product()
    }

    /// Writes the count; gives it back, as a number if it is one.
    fn emit_count(&self, cx: &mut PlanBuilder<'_>) -> Result<Term, Diag> {
        let output = self.outputs[2].clone();
        let mut total = match &self.count {
            Term::Number(each) => Term::Number(ScalarValue::Int(each.as_i64().wrapping_mul(self.reduced_len() as i64))),
            Term::View(view) => {
                emit_fold(cx, RedOp::Sum.into(), self.axes.clone(), view.clone(), output.clone())?;
                Term::View(output.clone())
            }
        };
        if let Some([.., initial]) = &self.initial {
            total = match (&total, initial) {
                (Term::Number(a), Term::Number(b)) => {
                    Term::Number(ScalarValue::Int(a.as_i64().wrapping_add(b.as_i64())))
                }
                _ => {
                    let mut steps = StepList::new(output.dtype);
                    let [a, b] = [&total, initial].map(|term| steps.operand(term));
                    steps.apply(Function::Add, a, b);
                    steps.emit(cx, output.clone())?;
                    Term::View(output.clone())
                }
            };
        }
        if let Term::Number(value) = total {
            cx.emit_inst(InstKind::Fill { dst: Box::new(output), value })?;
        }
        Ok(total)
    }

    /// Writes the mean; of no elements it is 0.
    fn emit_mean(&self, cx: &mut PlanBuilder<'_>, total: &Term) -> Result<(), Diag> {
        let output = &self.outputs[0];
        let dtype = output.dtype;
        if self.count.is_number(1) {
            emit_fold(cx, RedOp::Sum.into(), self.axes.clone(), self.values.clone(), output.clone())?;
        } else {
            let mut steps = StepList::new(dtype);
            let [x, n] = [&Term::View(self.values.clone()), &self.count].map(|term| steps.operand(term));
            steps.apply(Function::Mul, x, n);
            self.emit_sum(cx, steps, output)?;
        }
        let mut steps = StepList::new(dtype);
        let mut sum = steps.operand(&Term::View(output.clone()));
        if let Some([mean, _, count]) = &self.initial {
            let [x, n] = [mean, count].map(|term| steps.operand(term));
            let product = steps.apply(Function::Mul, x, n);
            sum = steps.apply(Function::Add, sum, product);
        }
        let divisor = match total {
            Term::Number(number) if number.as_i64() == 0 => StepOperand::Const(ScalarValue::Int(1)),
            Term::Number(number) => StepOperand::Const(*number),
            Term::View(view) => steps.at_least_one(view),
        };
        steps.apply(Function::Div, sum, divisor);
        steps.emit(cx, output.clone())
    }

    /// Writes the sum of the squared differences from the mean.
    fn emit_squares(&self, cx: &mut PlanBuilder<'_>) -> Result<(), Diag> {
        let [mean, output, _] = &self.outputs;
        let mut steps = StepList::new(output.dtype);
        let spread = repeat_along(mean, &self.axes, &self.values.shape());
        let square = steps.square_of_difference(&Term::View(self.values.clone()), &Term::View(spread));
        steps.weigh_and_add(square, &self.count, &self.squares);
        self.emit_sum(cx, steps, output)?;
        let Some([initial, squares, count]) = &self.initial else { return Ok(()) };
        let mut steps = StepList::new(output.dtype);
        let square = steps.square_of_difference(initial, &Term::View(mean.clone()));
        let own = steps.weigh_and_add(square, count, squares);
        let sum = steps.operand(&Term::View(output.clone()));
        steps.apply(Function::Add, sum, own);
        steps.emit(cx, output.clone())
    }

    /// Sums what a kernel gives for each of the values.
    fn emit_sum(&self, cx: &mut PlanBuilder<'_>, steps: StepList, output: &BufferView) -> Result<(), Diag> {
        let shape = self.values.shape();
        let terms = cx.new_scratch(self.mean, &shape, output.dtype)?;
        if !terms.is_empty() {
            steps.emit(cx, terms.clone())?;
        }
        emit_fold(cx, RedOp::Sum.into(), self.axes.clone(), terms.clone(), output.clone())?;
        cx.free_scratch(&terms)
    }
}

/// The view repeated along reduced axes.
fn repeat_along(view: &BufferView, axes: &[usize], shape: &[usize]) -> BufferView {
    let mut kept = view.dims.iter().copied();
    let dims = shape.iter().enumerate().map(|(axis, &extent)| match axes.contains(&axis) {
        true => ViewDim { extent, stride: 0 },
        false => kept.next().unwrap_or(ViewDim { extent, stride: 0 }),
    });
    BufferView { dims: dims.collect(), ..view.clone() }
}

/// The steps of a kernel that computes in one type.
struct StepList {
    dtype: DType,
    inputs: SmallVec<[BufferView; 2]>,
    steps: Vec<KernelStep>,
}

impl StepList {
    fn new(dtype: DType) -> Self {
        Self { dtype, inputs: SmallVec::new(), steps: Vec::new() }
    }

    /// A term in the kernel's type.
    fn operand(&mut self, term: &Term) -> StepOperand {
        match term {
            Term::Number(number) => StepOperand::Const(*number),
            Term::View(view) => {
                self.inputs.push(view.clone());
                let input = StepOperand::Input(self.inputs.len() as u32 - 1);
                if view.dtype == self.dtype { input } else { self.cast(input, view.dtype) }
            }
        }
    }

    fn push(&mut self, step: KernelStep) -> StepOperand {
        self.steps.push(step);
        StepOperand::Step(self.steps.len() as u32 - 1)
    }

    fn cast(&mut self, operand: StepOperand, from: DType) -> StepOperand {
        let args = [operand].into_iter().collect();
        self.push(KernelStep { function: Function::Cast, args, compute: from, result: self.dtype })
    }

    fn apply(&mut self, function: Function, a: StepOperand, b: StepOperand) -> StepOperand {
        let args = [a, b].into_iter().collect();
        self.push(KernelStep { function, args, compute: self.dtype, result: self.dtype })
    }

    /// `max(n, 1)` of counts.
    fn at_least_one(&mut self, counts: &BufferView) -> StepOperand {
        self.inputs.push(counts.clone());
        let input = StepOperand::Input(self.inputs.len() as u32 - 1);
        let args = [input, StepOperand::Const(ScalarValue::Int(1))].into_iter().collect();
        let dtype = counts.dtype;
        let most = self.push(KernelStep { function: Function::Max, args, compute: dtype, result: dtype });
        self.cast(most, dtype)
    }

    /// `(a - b)^2`
    fn square_of_difference(&mut self, a: &Term, b: &Term) -> StepOperand {
        let [a, b] = [a, b].map(|term| self.operand(term));
        let difference = self.apply(Function::Sub, a, b);
        self.apply(Function::Mul, difference, difference)
    }

    /// `value * weight + more`
    fn weigh_and_add(&mut self, mut value: StepOperand, weight: &Term, more: &Term) -> StepOperand {
        if !weight.is_number(1) {
            let weight = self.operand(weight);
            value = self.apply(Function::Mul, value, weight);
        }
        if !more.is_number(0) {
            let more = self.operand(more);
            value = self.apply(Function::Add, value, more);
        }
        value
    }

    fn emit(self, cx: &mut PlanBuilder<'_>, output: BufferView) -> Result<(), Diag> {
        let Self { inputs, steps, .. } = self;
        cx.emit_inst(InstKind::Kernel(Box::new(PointwiseKernel { inputs, output, steps })))
    }
}
