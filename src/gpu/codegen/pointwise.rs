//! Pointwise instructions, and the elementwise combination of several tensors.

use crate::codegen::index_space::{IndexSpace, KernelOperand};
use crate::codegen::job::KernelJob;
use crate::codegen::source_writer::SourceWriter;
use crate::codegen::thread_mapping::ElementwiseKernel;
use crate::codegen::types::{ClassSource as _, TypedExpr, compute_class, float_conversions, storage_ctype};
use crate::codegen::{alias, functions, reduce};
use crate::unsupported::Unsupported;
use hostir::ir::DType;
use hostir::plan::{BufferView, PointwiseKernel, RedOp, StepOperand};

/// The elementwise part of a kernel: its steps over operands of an index space.
pub(super) struct ElementwiseSteps<'a> {
    kernel: &'a PointwiseKernel,
    /// Axes whose index is an operand, in the order of those operands, which follow the inputs.
    indices: Vec<u32>,
}

impl<'a> ElementwiseSteps<'a> {
    /// The steps of a kernel whose inputs have the output's extents.
    pub(super) fn new(kernel: &'a PointwiseKernel) -> Result<Self, Unsupported> {
        let shape = kernel.output.shape();
        if kernel.inputs.iter().any(|view| view.shape() != shape) {
            return Err(Unsupported::Malformed("inputs of another shape than the result's"));
        }
        let mut indices = Vec::new();
        for arg in kernel.steps.iter().flat_map(|step| &step.args) {
            match arg {
                StepOperand::Index(axis) if *axis as usize >= shape.len() => {
                    return Err(Unsupported::Malformed("the index along an axis that the result lacks"));
                }
                StepOperand::Index(axis) if !indices.contains(axis) => indices.push(*axis),
                _ => {}
            }
        }
        Ok(Self { kernel, indices })
    }
    /// The operands: inputs, then indices.
    pub(super) fn build_operands(&self) -> Result<Vec<KernelOperand>, Unsupported> {
        let rank = self.kernel.output.dims.len();
        let mut operands = Vec::new();
        for view in &self.kernel.inputs {
            operands.push(KernelOperand::from_view(view, storage_ctype(view.dtype)?));
        }
        operands.extend(self.indices.iter().map(|&axis| KernelOperand::index(axis as usize, rank)));
        Ok(operands)
    }
    /// Writes the steps for one element of each operand; returns the result.
    pub(super) fn write_steps(&self, w: &mut SourceWriter, elements: &[String]) -> Result<TypedExpr, Unsupported> {
        let inputs = self.kernel.inputs.len();
        let mut loaded: Vec<TypedExpr> = Vec::new();
        for (index, text) in elements.iter().enumerate() {
            let dtype = self.kernel.inputs.get(index).map_or(DType::Int, |view| view.dtype);
            let value = TypedExpr::from_memory(dtype, text)?;
            loaded.push(declare_value(w, format!("e{index}"), value));
        }
        let mut results: Vec<TypedExpr> = Vec::new();
        for (number, step) in self.kernel.steps.iter().enumerate() {
            let wide = compute_class(step.compute)?;
            let mut args = Vec::new();
            for arg in &step.args {
                let found = match *arg {
                    StepOperand::Input(index) if (index as usize) < inputs => loaded.get(index as usize),
                    StepOperand::Input(_) => None,
                    StepOperand::Step(index) => results.get(index as usize),
                    StepOperand::Index(axis) => {
                        let place = self.indices.iter().position(|&other| other == axis);
                        place.and_then(|place| loaded.get(inputs + place))
                    }
                    StepOperand::Const(value) => {
                        args.push(functions::constant_operand(value, wide));
                        continue;
                    }
                };
                args.push(found.cloned().ok_or(Unsupported::Malformed("an operand that the kernel lacks"))?);
            }
            let value = functions::apply_step(step, args)?;
            results.push(declare_value(w, format!("s{number}"), value));
        }
        results.pop().ok_or(Unsupported::Malformed("a kernel without steps"))
    }
}

/// Gives a value a name.
pub(super) fn declare_value(w: &mut SourceWriter, name: String, value: TypedExpr) -> TypedExpr {
    let known = value
        .raw
        .as_ref()
        .and_then(|(dtype, raw)| Some((*dtype, raw, float_conversions(*dtype)?, storage_ctype(*dtype).ok()?)));
    let value = match known {
        None => value,
        Some((dtype, raw, conversions, ctype)) => {
            w.line(format!("const {ctype} r{name} = {raw};"));
            TypedExpr::from_narrow(dtype, conversions, format!("r{name}"))
        }
    };
    w.line(format!("const {} {name} = {};", value.class.ctype(), value.text));
    TypedExpr { text: name, ..value }
}

/// The job of a pointwise instruction. The result may be in the place of an input with the same strides; if it overlaps
/// one otherwise, the reason is `overlap`.
///
/// # Errors
/// [`Unsupported`] if shapes do not fit, the result overlaps an input or itself, or kernels lack a function or a type.
pub fn generate_pointwise(kernel: &PointwiseKernel) -> Result<KernelJob, Unsupported> {
    let steps = ElementwiseSteps::new(kernel)?;
    let mut operands = steps.build_operands()?;
    let output = &kernel.output;
    operands.push(KernelOperand::from_view(output, storage_ctype(output.dtype)?));
    alias::check_overlap(&kernel.inputs, output, true)?;
    let space = IndexSpace::new(&output.shape(), operands);
    let job = elementwise_job(
        ElementwiseKernel::new(space, &|w, elements| steps.write_steps(w, elements)?.into_memory(output.dtype))?,
        output,
    )?;
    Ok(job.noted("kernel", |note| note.kernel(kernel)))
}

/// The job of an elementwise kernel. An empty result needs no launch, but its kernel is still written, so that an
/// unsupported kernel fails for every size.
pub(super) fn elementwise_job(map: ElementwiseKernel<'_>, output: &BufferView) -> Result<KernelJob, Unsupported> {
    if output.is_empty() {
        return Ok(KernelJob::default());
    }
    Ok(KernelJob { launches: vec![map.build_launch()?], ..KernelJob::default() })
}

/// `output = inputs[0] op inputs[1] op ...` elementwise and in this order: the operation of a reduction on the gathered
/// tensors of a team. `Avg` divides by their number. Views have equal shapes; the output may be one of the inputs.
///
/// # Errors
/// [`Unsupported`] if there is no input, shapes or types differ, the output overlaps an input otherwise than in place,
/// or kernels lack the operation or the type.
pub fn generate_member_fold(op: RedOp, inputs: &[BufferView], output: &BufferView) -> Result<KernelJob, Unsupported> {
    let Some(first) = inputs.first() else {
        return Err(Unsupported::Malformed("a reduction of nothing"));
    };
    if inputs.iter().any(|view| view.dtype != first.dtype || view.shape() != output.shape()) {
        return Err(Unsupported::Malformed("members of other shapes or types"));
    }
    let mut operands = Vec::new();
    for view in inputs {
        operands.push(KernelOperand::from_view(view, storage_ctype(view.dtype)?));
    }
    operands.push(KernelOperand::from_view(output, storage_ctype(output.dtype)?));
    alias::check_overlap(inputs, output, true)?;
    let join = reduce::AccumulateOp::new(op, first.dtype)?;
    let space = IndexSpace::new(&output.shape(), operands);
    let job = elementwise_job(
        ElementwiseKernel::new(space, &|w, elements| {
            write_member_fold(w, elements, op, first.dtype, &join)?.into_memory(output.dtype)
        })?,
        output,
    )?;
    Ok(job.noted("members", |note| note.members(op, inputs, output)))
}

/// Writes the fold of the members' elements, in the order of the members, and returns it.
fn write_member_fold(
    w: &mut SourceWriter,
    elements: &[String],
    op: RedOp,
    dtype: DType,
    join: &reduce::AccumulateOp,
) -> Result<TypedExpr, Unsupported> {
    let mut total: Option<TypedExpr> = None;
    for (index, element) in elements.iter().enumerate() {
        let value = declare_value(w, format!("e{index}"), TypedExpr::from_memory(dtype, element)?);
        let value = match total {
            None => value,
            Some(before) => TypedExpr::new(join.class, join.combine_values(&before.text, &value.text)),
        };
        total = Some(declare_value(w, format!("s{index}"), value));
    }
    let total = total.ok_or(Unsupported::Malformed("a reduction of nothing"))?;
    Ok(match op {
        RedOp::Avg => join.divide_sum(&total.text, elements.len()),
        _ => total,
    })
}
