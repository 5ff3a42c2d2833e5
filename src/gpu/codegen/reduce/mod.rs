//! Reductions over any axes, with the same result in every run.
//!
//! If the elements of one result are contiguous, several threads share a result (`rows`); if results are contiguous,
//! each thread has its own results (`columns`). If there are too few results to fill a device, the first launch
//! computes parts, which a second launch combines. The shapes and the device's size determine every order of
//! combination.
//!
//! `float` and narrower floats accumulate in float: thousands of partial results, each of a short run
//! of elements, combined as a tree; `double` in double, integers in 64 bits.

mod columns;
mod combiner;
mod kernel;
mod reads;
mod rows;

pub(super) use crate::codegen::reduce::combiner::AccumulateOp;

use crate::codegen::index_space::{IndexSpace, KernelOperand};
use crate::codegen::job::{KernelJob, KernelLaunch};
use crate::codegen::pointwise::{ElementwiseSteps, generate_pointwise};
use crate::codegen::reduce::kernel::{ReductionKernel, contiguous_strides};
use crate::codegen::source_writer::SourceWriter;
use crate::codegen::types::{TypedExpr, storage_ctype};
use crate::codegen::{alias, copy};
use crate::unsupported::Unsupported;
use hostir::plan::{BufferView, Function, KernelStep, PointwiseKernel, ReductionFold, ScalarValue, StepOperand};
use smallvec::smallvec;

/// The job of a reduction: `output` holds the input's other axes in order. `sms` is the number of the
/// device's SMs. If input and output overlap, the reason is `overlap`.
///
/// Without any reduced element the result is 0, as on the CPU backend.
///
/// # Errors
/// [`Unsupported`] if shapes do not fit, input and output overlap, or kernels lack the operation or the type.
pub fn generate_reduction(
    op: impl Into<ReductionFold>,
    axes: &[usize],
    input: &BufferView,
    output: &BufferView,
    sms: u32,
) -> Result<KernelJob, Unsupported> {
    let step = KernelStep {
        function: Function::Identity,
        args: smallvec![StepOperand::Input(0)],
        compute: input.dtype,
        result: input.dtype,
    };
    let kernel = PointwiseKernel { inputs: smallvec![input.clone()], output: input.clone(), steps: vec![step] };
    let op = op.into();
    let job = generate_fused_reduction(&kernel, op, axes, output, sms)?;
    Ok(job.noted("fold", |note| note.fold(op, axes).view(input).view(output)))
}

/// The job of a reduction whose elements are the results of a pointwise kernel: [`generate_reduction`] of what
/// [`generate_pointwise`] writes, without writing it. `kernel.output` gives the shape and the type to which elements
/// are rounded; its memory is not accessed.
///
/// # Errors
/// [`Unsupported`] if shapes do not fit, an input and the output overlap, or kernels lack a function, the operation or
/// a type.
pub fn generate_fused_reduction(
    kernel: &PointwiseKernel,
    op: impl Into<ReductionFold>,
    axes: &[usize],
    output: &BufferView,
    sms: u32,
) -> Result<KernelJob, Unsupported> {
    let fold = op.into();
    let ReductionFold { op, initial } = fold;
    let shape = kernel.output.shape();
    let kept: Vec<usize> = (0..shape.len()).filter(|axis| !axes.contains(axis)).collect();
    let kept_shape: Vec<usize> = kept.iter().map(|&axis| shape[axis]).collect();
    if axes.iter().any(|&axis| axis >= shape.len()) || kept_shape != output.shape() {
        return Err(Unsupported::Malformed("a reduction to another shape"));
    }
    let steps = ElementwiseSteps::new(kernel)?;
    let join = AccumulateOp::new(op, kernel.output.dtype)?;
    let initial = initial.map(|value| join.initial_value(value, kernel.output.dtype));
    alias::check_overlap(&kernel.inputs, output, false)?;
    let count: usize = axes.iter().map(|&axis| shape[axis]).product();
    if output.is_empty() {
        return Ok(KernelJob::default());
    }
    match count {
        0 => return copy::generate_fill(output, ScalarValue::Int(0)),
        1 if initial.is_none() => return generate_trivial_reduction(kernel, &kept, output),
        _ => {}
    }
    let element = |w: &mut SourceWriter, elements: &[String]| {
        let value = steps.write_steps(w, elements)?.rounded_to(kernel.output.dtype)?;
        Ok(value.into_class(join.class))
    };
    let (kept, reduced) = reduction_spaces(&steps, &shape, &kept, axes, output)?;
    let twice = kept.operands.last().is_some_and(|result| result.strides.contains(&0));
    if twice {
        return Err(Unsupported::Malformed("a result whose elements share memory"));
    }
    let result = output.dtype;
    let whole = ReductionKernel { join: join.clone(), initial, kept, reduced, element: &element, result, parts: 1 };
    let job = build_launches(whole, sms as usize)?;
    Ok(job.noted("fold-kernel", |note| note.kernel(kernel).fold(fold, axes).view(output)))
}

/// A pointwise kernel for a reduction over one element each.
fn generate_trivial_reduction(
    kernel: &PointwiseKernel,
    kept: &[usize],
    output: &BufferView,
) -> Result<KernelJob, Unsupported> {
    let mut kernel = kernel.clone();
    let between = kernel.output.dtype;
    kernel.inputs = kernel.inputs.iter().map(|view| keep_axes(view, kept)).collect();
    for arg in kernel.steps.iter_mut().flat_map(|step| &mut step.args) {
        if let StepOperand::Index(axis) = arg {
            *arg = match kept.iter().position(|&other| other == *axis as usize) {
                Some(place) => StepOperand::Index(place as u32),
                None => StepOperand::Const(ScalarValue::Int(0)),
            };
        }
    }
    let last = StepOperand::Step(kernel.steps.len() as u32 - 1);
    kernel.steps.push(KernelStep {
        function: Function::Cast,
        args: smallvec![last],
        compute: between,
        result: between,
    });
    kernel.output = output.clone();
    generate_pointwise(&kernel)
}

fn keep_axes(view: &BufferView, kept: &[usize]) -> BufferView {
    BufferView { dims: kept.iter().map(|&axis| view.dims[axis]).collect(), ..view.clone() }
}

/// The kept and the reduced axes with their operands, in the order of the strides of the operand with
/// the most memory.
fn reduction_spaces(
    steps: &ElementwiseSteps<'_>,
    shape: &[usize],
    kept: &[usize],
    axes: &[usize],
    output: &BufferView,
) -> Result<(IndexSpace, IndexSpace), Unsupported> {
    let mut operands = steps.build_operands()?;
    let mut result = KernelOperand::from_view(output, storage_ctype(output.dtype)?);
    let mut strides = vec![0; shape.len()];
    for (&axis, dim) in kept.iter().zip(&output.dims) {
        strides[axis] = dim.stride;
    }
    result.strides = strides;
    operands.push(result);
    let all = IndexSpace { extents: shape.to_vec(), operands };
    let inputs = (0..all.operands.len() - 1).filter(|&k| all.operands[k].kernel_param().is_some());
    let leader = inputs.max_by_key(|&k| (distinct_bytes(&all, k), std::cmp::Reverse(k)));
    Ok((part_space(&all, kept, leader), part_space(&all, axes, leader)))
}

/// The bytes of an operand that the whole space reads.
fn distinct_bytes(space: &IndexSpace, operand: usize) -> usize {
    let operand = &space.operands[operand];
    let distinct = space.extents.iter().zip(&operand.strides).filter(|(_, stride)| **stride != 0);
    distinct.map(|(extent, _)| extent).product::<usize>() * operand.size
}

/// The space over some axes, ordered for the leading operand.
fn part_space(all: &IndexSpace, axes: &[usize], leader: Option<usize>) -> IndexSpace {
    let long: Vec<usize> = axes.iter().copied().filter(|&axis| all.extents[axis] != 1).collect();
    let mut space = all.clone();
    space.arrange_axes(&long);
    if let Some(leader) = leader {
        space.order_by(leader);
    }
    space.collapse_axes();
    space
}

/// The launches of a reduction, which is split into parts if it has too few results for the device.
fn build_launches(mut whole: ReductionKernel<'_>, sms: usize) -> Result<KernelJob, Unsupported> {
    let by_rows = has_runs(&whole);
    let parts = if by_rows { rows::part_count(&whole, sms) } else { columns::part_count(&whole, sms) };
    whole.parts = parts.max(1);
    let first = reduction_launch(&whole, by_rows)?;
    if whole.parts == 1 {
        return Ok(KernelJob { launches: vec![first], ..KernelJob::default() });
    }
    let count = whole.kept.index_count();
    let class = whole.join.class;
    let again = move |_: &mut SourceWriter, elements: &[String]| {
        let element = elements.first().ok_or(Unsupported::Malformed("a reduction of nothing"))?;
        Ok(TypedExpr::new(class, element.clone()))
    };
    let flat = contiguous_strides(&whole.kept.extents);
    // Parts of a result are contiguous if the first launch works by rows, else strided.
    let second = if by_rows {
        let strides = flat.iter().map(|stride| stride * whole.parts).collect();
        whole.partials_reduction(strides, 1, &again)
    } else {
        whole.partials_reduction(flat, count, &again)
    };
    let launches = vec![first, reduction_launch(&second, by_rows)?];
    Ok(KernelJob { launches, scratch: count * whole.parts * whole.accumulator_bytes(), ..KernelJob::default() })
}

fn reduction_launch(reduction: &ReductionKernel<'_>, by_rows: bool) -> Result<KernelLaunch, Unsupported> {
    if by_rows { rows::build_launch(reduction) } else { columns::build_launch(reduction) }
}

/// Returns true if the elements of one result are contiguous, rather than neighbouring results.
fn has_runs(whole: &ReductionKernel<'_>) -> bool {
    let [reduced, kept] = [&whole.reduced, &whole.kept].map(|space| -> usize {
        let memory = space.operands[..whole.result_index()].iter().filter(|o| o.kernel_param().is_some());
        let strides = memory.filter_map(|operand| operand.strides.last().copied());
        strides.filter(|&stride| stride > 0).min().unwrap_or(usize::MAX)
    });
    whole.kept.extents.is_empty() || reduced <= kept
}
