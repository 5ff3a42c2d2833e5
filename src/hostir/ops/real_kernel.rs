//! Pointwise kernels of real numbers that an op makes step by step.

use crate::diag::Diag;
use crate::ir::DType;
use crate::plan::{BufferView, ComposedKernel, Function, PlanBuilder, ScalarValue, StepOperand};

/// A kernel in the making, whose functions compute in one type of real numbers.
pub(super) struct RealKernel {
    steps: ComposedKernel,
    compute: DType,
}

impl RealKernel {
    /// A kernel without steps.
    pub(super) fn new(compute: DType) -> Self {
        Self { steps: ComposedKernel::default(), compute }
    }
    /// An operand that is read; its view has the extents of the result.
    pub(super) fn input(&mut self, view: BufferView) -> StepOperand {
        self.steps.input(view)
    }
    /// A function of reals.
    pub(super) fn apply_function<const N: usize>(&mut self, function: Function, args: [StepOperand; N]) -> StepOperand {
        self.steps.apply_function(function, self.compute, &args)
    }
    /// The first value where a condition holds, else the second.
    pub(super) fn choose(&mut self, condition: StepOperand, [first, second]: [StepOperand; 2]) -> StepOperand {
        self.apply_function(Function::Where, [condition, first, second])
    }
    /// A comparison of reals.
    pub(super) fn compare(&mut self, function: Function, values: [StepOperand; 2]) -> StepOperand {
        self.steps.compare(function, self.compute, values)
    }
    /// The truth that both conditions hold.
    pub(super) fn both(&mut self, conditions: [StepOperand; 2]) -> StepOperand {
        self.steps.test(Function::And, conditions)
    }
    /// The truth that the index along one axis of the result is at most that along another one, plus a number.
    pub(super) fn is_at_most(&mut self, [axis, other]: [usize; 2], plus: usize) -> StepOperand {
        let [index, other] = [axis, other].map(|axis| StepOperand::Index(axis as u32));
        let most = self.steps.integer(Function::Add, &[other, plus.into()]);
        self.steps.test(Function::Le, [index, most])
    }
    /// Appends the kernel, which stores its last step.
    pub(super) fn emit(self, cx: &mut PlanBuilder<'_>, output: BufferView) -> Result<(), Diag> {
        self.steps.emit(cx, output)
    }
}

/// A real constant.
pub(super) fn real(value: f64) -> StepOperand {
    StepOperand::Const(ScalarValue::Float(value))
}
