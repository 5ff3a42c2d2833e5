//! Parts of ops that several instructions carry out: scratch memory, kernels of several functions, sums, reads of rows.
//!
//! An op that is composed of other instructions runs on every backend, and is proved as they are.

use super::{
    BufferKind, BufferView, Function, InstKind, KernelStep, PlanBuilder, PointwiseKernel, RedOp, ReduceInst,
    ScalarValue, StepOperand, TakeInst, emit_copy,
};
use crate::diag::Diag;
use crate::ir::{DType, TensorId};
use smallvec::{SmallVec, smallvec};

/// The scratch memory of an op begins after this number of buffers.
#[derive(Clone, Copy, Debug)]
pub struct ScratchStart(usize);

impl PlanBuilder<'_> {
    /// The beginning of an op's scratch memory.
    pub fn scratch_start(&self) -> ScratchStart {
        ScratchStart(self.plan.buffers.len())
    }
    /// Frees the scratch memory since a start.
    ///
    /// # Errors
    /// If the plan becomes too large.
    pub fn free_scratch_since(&mut self, start: ScratchStart) -> Result<(), Diag> {
        let added: Vec<_> = self.plan.buffers.ids().skip(start.0).collect();
        for buffer in added {
            let entry = &self.plan.buffers[buffer];
            if entry.kind == BufferKind::Temp {
                self.budget.release_memory((entry.elements * entry.dtype.byte_size()) as u64);
                self.emit_inst(InstKind::Free { buffer })?;
            }
        }
        Ok(())
    }
}

/// A pointwise kernel, function by function.
#[derive(Default)]
pub struct ComposedKernel {
    inputs: SmallVec<[BufferView; 2]>,
    steps: Vec<KernelStep>,
}

impl ComposedKernel {
    /// Adds an input, with the extents of the output.
    pub fn input(&mut self, view: BufferView) -> StepOperand {
        self.inputs.push(view);
        StepOperand::Input(self.inputs.len() as u32 - 1)
    }
    /// Adds a function that computes in a type.
    pub fn apply_function(&mut self, function: Function, dtype: DType, args: &[StepOperand]) -> StepOperand {
        self.push(function, [dtype, dtype], args)
    }
    /// Adds a function of 64-bit integers.
    pub fn integer(&mut self, function: Function, args: &[StepOperand]) -> StepOperand {
        self.apply_function(function, DType::Int, args)
    }
    /// Adds a comparison of 64-bit integers, or a function of truth values.
    pub fn test(&mut self, function: Function, args: [StepOperand; 2]) -> StepOperand {
        let compute = if matches!(function, Function::And | Function::Or) { DType::Bool } else { DType::Int };
        self.push(function, [compute, DType::Bool], &args)
    }
    /// Adds a comparison of elements of a type.
    pub fn compare(&mut self, function: Function, dtype: DType, args: [StepOperand; 2]) -> StepOperand {
        self.push(function, [dtype, DType::Bool], &args)
    }
    /// Adds a conversion.
    pub fn convert(&mut self, from: DType, to: DType, value: StepOperand) -> StepOperand {
        self.push(Function::Cast, [from, to], &[value])
    }
    fn push(&mut self, function: Function, [compute, result]: [DType; 2], args: &[StepOperand]) -> StepOperand {
        self.steps.push(KernelStep { function, args: args.iter().copied().collect(), compute, result });
        StepOperand::Step(self.steps.len() as u32 - 1)
    }
    /// Appends the kernel, which stores the result of its last function, converted to the output's type.
    ///
    /// # Errors
    /// If the plan becomes too large.
    pub fn emit(mut self, cx: &mut PlanBuilder<'_>, output: BufferView) -> Result<(), Diag> {
        let Some(last) = self.steps.last().map(|step| step.result).filter(|_| !output.is_empty()) else {
            return Ok(());
        };
        if last != output.dtype {
            let value = StepOperand::Step(self.steps.len() as u32 - 1);
            self.convert(last, output.dtype, value);
        }
        cx.emit_inst(InstKind::Kernel(Box::new(PointwiseKernel { inputs: self.inputs, output, steps: self.steps })))
    }
}

impl From<usize> for StepOperand {
    /// A constant.
    fn from(value: usize) -> Self {
        StepOperand::Const(ScalarValue::Int(value as i64))
    }
}

/// Sums the elements along an axis; of no elements the sum is 0.
///
/// # Errors
/// If the plan becomes too large.
pub fn emit_sum(cx: &mut PlanBuilder<'_>, input: BufferView, axis: usize, output: BufferView) -> Result<(), Diag> {
    match (input.is_empty(), output.is_empty()) {
        (_, true) => Ok(()),
        (true, false) => cx.emit_inst(InstKind::Fill { dst: Box::new(output), value: ScalarValue::Int(0) }),
        (false, false) => cx.emit_inst(InstKind::Reduce(Box::new(ReduceInst {
            op: RedOp::Sum.into(),
            axes: smallvec![axis],
            input,
            output,
        }))),
    }
}

/// Reads the elements that an index selects along an axis ([`TakeInst`]).
///
/// # Errors
/// If the plan becomes too large.
pub fn emit_take(
    cx: &mut PlanBuilder<'_>,
    [input, index]: [BufferView; 2],
    axis: usize,
    output: BufferView,
) -> Result<(), Diag> {
    if output.is_empty() {
        return Ok(());
    }
    cx.emit_inst(InstKind::Take(Box::new(TakeInst { input, index, axis, output })))
}

/// Rows of a view: a range of its first axis.
pub fn rows_of_view(view: &BufferView, start: usize, count: usize) -> BufferView {
    let mut rows = view.clone();
    if let Some(dim) = rows.dims.first_mut() {
        rows.offset += start * dim.stride;
        dim.extent = count;
    }
    rows
}

/// The sums of all rows up to each row of a view, by doubling: 2 log2(rows) instructions.
///
/// # Errors
/// As [`PlanBuilder::new_buffer`].
pub fn emit_running_sums(cx: &mut PlanBuilder<'_>, tensor: TensorId, view: BufferView) -> Result<BufferView, Diag> {
    let shape = view.shape();
    let count = shape.first().copied().unwrap_or(0);
    let mut unused = None;
    let (mut sums, mut distance) = (view, 1);
    while distance < count {
        let next = match unused.take() {
            Some(view) => view,
            None => cx.new_scratch(tensor, &shape, sums.dtype)?,
        };
        emit_copy(cx, rows_of_view(&sums, 0, distance), rows_of_view(&next, 0, distance))?;
        let mut kernel = ComposedKernel::default();
        let here = kernel.input(rows_of_view(&sums, distance, count - distance));
        let before = kernel.input(rows_of_view(&sums, 0, count - distance));
        kernel.apply_function(Function::Add, sums.dtype, &[here, before]);
        kernel.emit(cx, rows_of_view(&next, distance, count - distance))?;
        unused = Some(std::mem::replace(&mut sums, next));
        distance *= 2;
    }
    Ok(sums)
}

/// The view without the axes of which each device stores one index.
pub fn unsharded_view(cx: &PlanBuilder<'_>, tensor: TensorId, mut view: BufferView) -> BufferView {
    if cx.rank.is_none() {
        return view;
    }
    let sharded: Vec<bool> = cx.axes.stored_axes(tensor).map(|axis| axis.is_device_index()).collect();
    if sharded.len() == view.dims.len() {
        let mut place = 0;
        view.dims.retain(|_| {
            place += 1;
            !sharded[place - 1]
        });
    }
    view
}
