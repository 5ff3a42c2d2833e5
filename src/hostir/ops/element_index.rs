//! Steps of kernels that compute with the index of an element in the whole tensor, of which a rank or an iteration of a
//! loop on streams has a shard.

use crate::diag::Diag;
use crate::ir::{DType, TensorId};
use crate::plan::{BufferView, Function, KernelStep, PlanBuilder, ScalarValue, StepOperand};

/// The steps of a kernel that may compute with indices, in order.
#[derive(Default)]
pub(super) struct IndexedSteps {
    steps: Vec<KernelStep>,
}

impl IndexedSteps {
    /// Adds a step, with the type in which it computes and the type of its result. Returns its result as an operand.
    pub(super) fn push(
        &mut self,
        function: Function,
        args: &[StepOperand],
        [compute, result]: [DType; 2],
    ) -> StepOperand {
        let step = KernelStep { function, args: args.into(), compute, result };
        self.steps.push(step);
        StepOperand::Step(self.steps.len() as u32 - 1)
    }

    /// Adds a function of two integers.
    fn push_integer(&mut self, function: Function, a: StepOperand, b: i64) -> StepOperand {
        self.push(function, &[a, StepOperand::Const(ScalarValue::Int(b))], [DType::Int, DType::Int])
    }

    /// The steps.
    pub(super) fn into_steps(self) -> Vec<KernelStep> {
        self.steps
    }
}

/// The index of an element of a result along an axis of the whole tensor.
///
/// # Errors
/// As [`PlanBuilder::shard_origin`].
pub(super) fn axis_index(
    cx: &PlanBuilder<'_>,
    tensor: TensorId,
    axis: usize,
    steps: &mut IndexedSteps,
) -> Result<StepOperand, Diag> {
    let origin = cx.shard_origin(tensor)?.get(axis).map_or(0, |&origin| origin as i64);
    let index = StepOperand::Index(axis as u32);
    Ok(if origin == 0 { index } else { steps.push_integer(Function::Add, index, origin) })
}

/// The row-major index of an element of a result in the whole tensor. Repeated elements have one index.
///
/// # Errors
/// As [`PlanBuilder::shard_origin`], or if the shape is unknown.
pub(super) fn linear_index(
    cx: &PlanBuilder<'_>,
    tensor: TensorId,
    output: &BufferView,
    steps: &mut IndexedSteps,
) -> Result<StepOperand, Diag> {
    let (whole, origin) = (cx.whole_shape(tensor)?, cx.shard_origin(tensor)?);
    let (mut stride, mut first) = (1i64, 0i64);
    let mut sum: Option<StepOperand> = None;
    let axes = output.dims.iter().zip(whole.iter().zip(origin)).enumerate();
    for (axis, (dim, (&extent, origin))) in axes.rev() {
        first = first.wrapping_add((origin as i64).wrapping_mul(stride));
        if dim.extent > 1 && !dim.repeats_element() {
            let index = StepOperand::Index(axis as u32);
            let term = if stride == 1 { index } else { steps.push_integer(Function::Mul, index, stride) };
            sum = Some(match sum {
                Some(sum) => steps.push(Function::Add, &[term, sum], [DType::Int, DType::Int]),
                None => term,
            });
        }
        if !dim.repeats_element() {
            stride = stride.wrapping_mul(extent as i64);
        }
    }
    Ok(match sum {
        None => StepOperand::Const(ScalarValue::Int(first)),
        Some(sum) if first == 0 => sum,
        Some(sum) => steps.push_integer(Function::Add, sum, first),
    })
}
