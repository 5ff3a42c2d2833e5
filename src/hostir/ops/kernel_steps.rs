//! Pointwise kernels that an op makes step by step.

use crate::diag::Diag;
use crate::ir::DType;
use crate::plan::{BufferView, Function, InstKind, KernelStep, PlanBuilder, PointwiseKernel, ScalarValue, StepOperand};
use smallvec::SmallVec;

/// A kernel in the making, whose steps compute in one type of real numbers.
pub(super) struct KernelSteps {
    inputs: SmallVec<[BufferView; 2]>,
    steps: Vec<KernelStep>,
    compute: DType,
}

impl KernelSteps {
    /// A kernel without steps.
    pub(super) fn new(compute: DType) -> Self {
        Self { inputs: SmallVec::new(), steps: Vec::new(), compute }
    }
    /// An operand that is read; its view has the extents of the result.
    pub(super) fn input(&mut self, view: BufferView) -> StepOperand {
        self.inputs.push(view);
        StepOperand::Input(self.inputs.len() as u32 - 1)
    }
    /// A function of reals.
    pub(super) fn apply_function<const N: usize>(&mut self, function: Function, args: [StepOperand; N]) -> StepOperand {
        self.add_step(function, args, self.compute, self.compute)
    }
    /// The first value where a condition holds, else the second.
    pub(super) fn choose(&mut self, condition: StepOperand, [first, second]: [StepOperand; 2]) -> StepOperand {
        self.apply_function(Function::Where, [condition, first, second])
    }
    /// A comparison of reals.
    pub(super) fn compare(&mut self, function: Function, values: [StepOperand; 2]) -> StepOperand {
        self.add_step(function, values, self.compute, DType::Bool)
    }
    /// Whether both conditions hold.
    pub(super) fn both(&mut self, conditions: [StepOperand; 2]) -> StepOperand {
        self.add_step(Function::And, conditions, DType::Bool, DType::Bool)
    }
    /// Whether the index along one axis of the result is at most that along another one, plus a number.
    pub(super) fn is_at_most(&mut self, [axis, other]: [usize; 2], plus: usize) -> StepOperand {
        let [index, other] = [axis, other].map(|axis| StepOperand::Index(axis as u32));
        let plus = StepOperand::Const(ScalarValue::Int(plus as i64));
        let most = self.add_step(Function::Add, [other, plus], DType::Int, DType::Int);
        self.add_step(Function::Le, [index, most], DType::Int, DType::Bool)
    }
    /// Appends the kernel, which stores its last step.
    pub(super) fn emit(mut self, cx: &mut PlanBuilder<'_>, output: BufferView) -> Result<(), Diag> {
        if let Some(last) = self.steps.len().checked_sub(1).filter(|_| output.dtype != self.compute) {
            self.add_step(Function::Cast, [StepOperand::Step(last as u32)], self.compute, output.dtype);
        }
        let Self { inputs, steps, .. } = self;
        cx.emit_inst(InstKind::Kernel(Box::new(PointwiseKernel { inputs, output, steps })))
    }

    fn add_step<const N: usize>(
        &mut self,
        function: Function,
        args: [StepOperand; N],
        compute: DType,
        result: DType,
    ) -> StepOperand {
        self.steps.push(KernelStep { function, args: args.into_iter().collect(), compute, result });
        StepOperand::Step(self.steps.len() as u32 - 1)
    }
}

/// A real constant.
pub(super) fn real(value: f64) -> StepOperand {
    StepOperand::Const(ScalarValue::Float(value))
}
