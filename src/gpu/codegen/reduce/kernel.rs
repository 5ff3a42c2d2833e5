//! A reduction over kept and reduced axes, before its results are distributed among threads.

use crate::codegen::index_space::{IndexSpace, KernelOperand, OperandSource};
use crate::codegen::reduce::combiner::AccumulateOp;
use crate::codegen::source_writer::SourceWriter;
use crate::codegen::types::{ClassSource as _, TypedExpr};
use crate::operand::SymbolicAddress;
use crate::unsupported::Unsupported;
use hostir::ir::DType;

/// Computes the value to be accumulated from one element of each operand.
pub(super) type ElementFn<'a> = dyn Fn(&mut SourceWriter, &[String]) -> Result<TypedExpr, Unsupported> + 'a;

/// A reduction: operands over kept and over reduced axes. The last operand is the result, whose strides
/// along reduced axes are 0.
pub(super) struct ReductionKernel<'a> {
    pub(super) join: AccumulateOp,
    /// The value in front of the first element, if it is to be joined.
    pub(super) initial: Option<String>,
    /// The axes of the result.
    pub(super) kept: IndexSpace,
    /// The axes that go away.
    pub(super) reduced: IndexSpace,
    /// The value of an index.
    pub(super) element: &'a ElementFn<'a>,
    /// Type of the result's elements.
    pub(super) result: DType,
    /// Into how many parts the reduced axes are cut; 1: the result is final.
    pub(super) parts: usize,
}

impl ReductionKernel<'_> {
    /// Position of the result among the operands.
    pub(super) fn result_index(&self) -> usize {
        self.kept.operands.len() - 1
    }
    /// The largest index or offset that occurs.
    pub(super) fn max_offset(&self) -> usize {
        (self.kept.max_offset() + self.reduced.max_offset()).max(self.kept.index_count() * self.parts)
    }
    /// Bytes of an accumulated value.
    pub(super) fn accumulator_bytes(&self) -> usize {
        self.join.class.dtype().byte_size()
    }
    /// The C++ types of the parameters, with partial results in the place of the result if it is cut.
    pub(super) fn param_ctypes(&self) -> Vec<&'static str> {
        let mut ctypes = self.kept.param_ctypes();
        if let Some(last) = ctypes.last_mut()
            && self.parts > 1
        {
            *last = self.join.class.ctype();
        }
        ctypes
    }
    pub(super) fn kernel_params(&self) -> Vec<SymbolicAddress> {
        let mut params = self.kept.kernel_params();
        if let Some(last) = params.last_mut()
            && self.parts > 1
        {
            *last = SymbolicAddress::Scratch(0);
        }
        params
    }
    /// An accumulated value as it is stored.
    pub(super) fn stored_value(&self, value: &str) -> Result<String, Unsupported> {
        if self.parts > 1 {
            return Ok(value.to_owned());
        }
        let text = match &self.initial {
            Some(initial) => format!("join({initial}, {value})"),
            None => value.to_owned(),
        };
        TypedExpr::new(self.join.class, text).into_memory(self.result)
    }
    /// The reduction of the parts that this one leaves. `strides` are those of the scratch memory along
    /// the kept axes and along the parts.
    pub(super) fn partials_reduction<'b>(
        &self,
        kept: Vec<usize>,
        part: usize,
        element: &'b ElementFn<'b>,
    ) -> ReductionKernel<'b> {
        let (ctype, size) = (self.join.class.ctype(), self.accumulator_bytes());
        let source = OperandSource::Memory(SymbolicAddress::Scratch(0));
        let operand = |strides| KernelOperand { source: source.clone(), ctype, size, align: 16, strides };
        let result = self.result_index();
        let along_kept = vec![operand(kept), self.kept.operands[result].clone()];
        let mut last = self.reduced.operands[result].clone();
        last.strides = vec![0];
        ReductionKernel {
            join: self.join.for_partials(),
            initial: self.initial.clone(),
            kept: IndexSpace { extents: self.kept.extents.clone(), operands: along_kept },
            reduced: IndexSpace { extents: vec![self.parts], operands: vec![operand(vec![part]), last] },
            element,
            result: self.result,
            parts: 1,
        }
    }
}

/// Row-major strides.
pub(super) fn contiguous_strides(extents: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; extents.len()];
    for axis in (1..extents.len()).rev() {
        strides[axis - 1] = strides[axis] * extents[axis];
    }
    strides
}
