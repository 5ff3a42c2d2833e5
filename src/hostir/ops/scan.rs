//! `scan`: the combination of all elements up to each one along an axis.
//!
//! A plan doubles the number of elements that each one combines, step by step: after the step of distance `d`, element
//! `i` has the combination of the `2 d` elements that end at `i`. These are `log2` of the extent pointwise kernels on
//! the whole tensor, so every backend and every proof has them. The operations are associative; sums of reals round in
//! the order of the steps.

use super::reduce::REDUCE_WORDS;
use super::result_types::infer_copy;
use super::sort::link_other_axes;
use super::spec::{ArgKind, ArgSpec, Infer, Lower, OpSpec};
use super::{literals, tensor_checks};
use crate::diag::message;
use crate::diag::{Diag, codes};
use crate::ir::{AttrKey, OpId, OpIdentity, OpLayout, TensorId, quoted_type};
use crate::plan::{
    BufferView, Function, InstKind, KernelStep, PlanBuilder, PointwiseKernel, RedOp, StepOperand, emit_copy,
};

/// `scan`.
pub const SCAN: OpSpec = OpSpec {
    identity: OpIdentity { name: "scan", layout: OpLayout::AlignedArguments, reshapes: true, ..OpIdentity::TENSOR_OP },
    spellings: &[],
    summary: "Combines the elements of an axis up to each one: cumulative sums, products, maxima.",
    args: &[
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::tight("dim", AttrKey::Dim, ArgKind::Int),
        ArgSpec::tight("op_type", AttrKey::ReduceOp, ArgKind::Word(REDUCE_WORDS)),
        ArgSpec::tight("init", AttrKey::Init, ArgKind::Expr),
    ],
    relate: Some(link_other_axes),
    infer: Infer::Result(infer_copy),
    checks: &[tensor_checks::check_one_dtype, tensor_checks::check_dim_argument, literals::check_initial_literal],
    repair: None,
    lower: Lower::Instructions(lower_scan),
};

/// The pointwise function of an operation.
fn combining_function(op: RedOp) -> Function {
    match op {
        RedOp::Sum | RedOp::Avg => Function::Add,
        RedOp::Product => Function::Mul,
        RedOp::Min => Function::Min,
        RedOp::Max => Function::Max,
        RedOp::FMin => Function::FMin,
        RedOp::FMax => Function::FMax,
        RedOp::And => Function::BitAnd,
        RedOp::Or => Function::BitOr,
        RedOp::Xor => Function::BitXor,
    }
}

fn lower_scan(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let (operand, result) = (cx.operand_tensor(op, 0)?, cx.result_tensor(op)?);
    let word = op.word_attr(AttrKey::ReduceOp).map_or("add", |word| cx.program.name(word));
    let (Some(how), Some(dim)) = (RedOp::parse(word), op.expr_attr(AttrKey::Dim)) else {
        return Err(cx.error_here(codes::NEEDED, "the axis and the operation of the scan are not known"));
    };
    let (axis, source, output) = (cx.eval_size(dim)?, cx.input_view(operand)?, cx.output_view(result)?);
    if source.shape() != output.shape() {
        return Err(cx.shape_error(operand, &source.shape(), result, &output.shape()));
    }
    let Some(extent) = output.dims.get(axis).map(|dim| dim.extent) else {
        let message = message!("{} has no axis {}", cx.quoted_tensor(operand), axis);
        return Err(cx.error_here(codes::SHAPES, message));
    };
    let initial = op.expr_attr(AttrKey::Init).map(|expr| cx.eval_scalar(expr)).transpose()?;
    let function = combining_function(how);
    if function.needs_integers() && output.dtype.is_float() {
        let message = message!("a scan with `{}` needs integers, found `{}`", word, quoted_type(output.dtype));
        return Err(cx.error_here(codes::CANNOT_RUN, message));
    }
    if output.dtype.is_complex() && !matches!(how, RedOp::Sum | RedOp::Product) {
        let message = message!("a scan with `{}` is not defined for complex numbers", word);
        return Err(cx.error_here(codes::COMPLEX_FUNCTION, message));
    }
    if output.is_empty() {
        return Ok(());
    }
    let scan = AxisScan { result, axis, function };
    scan.emit_doublings(cx, source, &output, extent)?;
    match initial.filter(|&value| !how.is_identity(output.dtype, value)) {
        Some(value) => scan.emit_step(cx, [StepOperand::Const(value), StepOperand::Input(0)], &[&output], &output),
        None => Ok(()),
    }
}

/// A scan of one tensor.
struct AxisScan {
    /// The tensor whose memory the steps write.
    result: TensorId,
    axis: usize,
    function: Function,
}

impl AxisScan {
    /// Writes the scan of `source`, without the initial value. The steps write the result and scratch memory in turns,
    /// the last one the result.
    fn emit_doublings(
        &self,
        cx: &mut PlanBuilder<'_>,
        source: BufferView,
        output: &BufferView,
        extent: usize,
    ) -> Result<(), Diag> {
        let distances: Vec<usize> = std::iter::successors(Some(1usize), |distance| distance.checked_mul(2))
            .take_while(|&d| d < extent)
            .collect();
        let Some(last) = distances.len().checked_sub(1) else { return emit_copy(cx, source, output.clone()) };
        let scratch = match last {
            0 => None,
            _ => Some(cx.new_scratch(self.result, &output.shape(), output.dtype)?),
        };
        let mut from = source;
        for (at, &distance) in distances.iter().enumerate() {
            let to = match &scratch {
                Some(scratch) if (last - at) % 2 == 1 => scratch,
                _ => output,
            };
            emit_copy(cx, self.part(&from, 0, distance), self.part(to, 0, distance))?;
            let rest = extent - distance;
            let (before, own) = (self.part(&from, 0, rest), self.part(&from, distance, rest));
            let operands = [StepOperand::Input(0), StepOperand::Input(1)];
            self.emit_step(cx, operands, &[&before, &own], &self.part(to, distance, rest))?;
            from = to.clone();
        }
        match scratch {
            Some(scratch) => cx.free_scratch(&scratch),
            None => Ok(()),
        }
    }

    /// A range of the axis.
    fn part(&self, view: &BufferView, start: usize, extent: usize) -> BufferView {
        let mut part = view.clone();
        part.offset += start * part.dims[self.axis].stride;
        part.dims[self.axis].extent = extent;
        part
    }

    fn emit_step(
        &self,
        cx: &mut PlanBuilder<'_>,
        args: [StepOperand; 2],
        inputs: &[&BufferView],
        output: &BufferView,
    ) -> Result<(), Diag> {
        let (compute, result) = (output.dtype, output.dtype);
        let step = KernelStep { function: self.function, args: args.into_iter().collect(), compute, result };
        let inputs = inputs.iter().map(|&view| view.clone()).collect();
        let kernel = PointwiseKernel { inputs, output: output.clone(), steps: vec![step] };
        cx.emit_inst(InstKind::Kernel(Box::new(kernel)))
    }
}
