//! Pointwise instructions, and the elementwise combination of several tensors.

use crate::codegen::index_space::{Operand, Space};
use crate::codegen::job::Job;
use crate::codegen::source_writer::Writer;
use crate::codegen::thread_mapping::Map;
use crate::codegen::types::{ClassSource as _, Value, class, conversions, storage};
use crate::codegen::{alias, functions, reduce};
use crate::unsupported::Unsupported;
use hostir::ir::DType;
use hostir::plan::{Arg, Kernel, RedOp, View};

/// The elementwise part of a kernel: its steps over operands of an index space.
pub(super) struct Steps<'a> {
    kernel: &'a Kernel,
    /// Axes whose index is an operand, in the order of the operands behind the inputs.
    indices: Vec<u32>,
}

impl<'a> Steps<'a> {
    /// The steps of a kernel whose inputs have the output's extents.
    pub(super) fn new(kernel: &'a Kernel) -> Result<Self, Unsupported> {
        let shape = kernel.output.shape();
        if kernel.inputs.iter().any(|view| view.shape() != shape) {
            return Err(Unsupported::Malformed("inputs of another shape than the result's"));
        }
        let mut indices = Vec::new();
        for arg in kernel.steps.iter().flat_map(|step| &step.args) {
            match arg {
                Arg::Index(axis) if *axis as usize >= shape.len() => {
                    return Err(Unsupported::Malformed(
                        "the index along an axis that the result lacks",
                    ));
                }
                Arg::Index(axis) if !indices.contains(axis) => indices.push(*axis),
                _ => {}
            }
        }
        Ok(Self { kernel, indices })
    }
    /// The operands: inputs, then indices.
    pub(super) fn operands(&self) -> Result<Vec<Operand>, Unsupported> {
        let rank = self.kernel.output.dims.len();
        let mut operands = Vec::new();
        for view in &self.kernel.inputs {
            operands.push(Operand::view(view, storage(view.dtype)?));
        }
        operands.extend(self.indices.iter().map(|&axis| Operand::index(axis as usize, rank)));
        Ok(operands)
    }
    /// Writes the steps for one element of each operand; returns the result.
    pub(super) fn write(&self, w: &mut Writer, elements: &[String]) -> Result<Value, Unsupported> {
        let inputs = self.kernel.inputs.len();
        let mut loaded: Vec<Value> = Vec::new();
        for (index, text) in elements.iter().enumerate() {
            let dtype = self.kernel.inputs.get(index).map_or(DType::Int, |view| view.dtype);
            let value = Value::load(dtype, text)?;
            loaded.push(declare(w, format!("e{index}"), value));
        }
        let mut results: Vec<Value> = Vec::new();
        for (number, step) in self.kernel.steps.iter().enumerate() {
            let wide = class(step.compute)?;
            let mut args = Vec::new();
            for arg in &step.args {
                let found = match *arg {
                    Arg::Input(index) if (index as usize) < inputs => loaded.get(index as usize),
                    Arg::Input(_) => None,
                    Arg::Step(index) => results.get(index as usize),
                    Arg::Index(axis) => {
                        let place = self.indices.iter().position(|&other| other == axis);
                        place.and_then(|place| loaded.get(inputs + place))
                    }
                    Arg::Const(value) => {
                        args.push(functions::constant(value, wide));
                        continue;
                    }
                };
                args.push(
                    found
                        .cloned()
                        .ok_or(Unsupported::Malformed("an operand that the kernel lacks"))?,
                );
            }
            let value = functions::apply(step, args)?;
            results.push(declare(w, format!("s{number}"), value));
        }
        results.pop().ok_or(Unsupported::Malformed("a kernel without steps"))
    }
}

/// Gives a value a name.
pub(super) fn declare(w: &mut Writer, name: String, value: Value) -> Value {
    let known = value
        .raw
        .as_ref()
        .and_then(|(dtype, raw)| Some((*dtype, raw, conversions(*dtype)?, storage(*dtype).ok()?)));
    let value = match known {
        None => value,
        Some((dtype, raw, conversions, ctype)) => {
            w.line(format!("const {ctype} r{name} = {raw};"));
            Value::narrow(dtype, conversions, format!("r{name}"))
        }
    };
    w.line(format!("const {} {name} = {};", value.class.ctype(), value.text));
    Value { text: name, ..value }
}

/// The job of a pointwise instruction. The result may lie in the place of an input with the same
/// strides; if it overlaps one otherwise, the reason is `overlap`.
pub fn pointwise(kernel: &Kernel) -> Result<Job, Unsupported> {
    let steps = Steps::new(kernel)?;
    let mut operands = steps.operands()?;
    let output = &kernel.output;
    operands.push(Operand::view(output, storage(output.dtype)?));
    alias::check(&kernel.inputs, output, true)?;
    let body = |w: &mut Writer, elements: &[String]| steps.write(w, elements)?.store(output.dtype);
    let job = job(Map::new(Space::new(&output.shape(), operands), &body)?, output)?;
    Ok(job.noted("kernel", |note| note.kernel(kernel)))
}

/// The job of an elementwise kernel; an empty result needs no launch, but its kernel is still written,
/// so that what cannot be generated does not depend on sizes.
pub(super) fn job(map: Map<'_>, output: &View) -> Result<Job, Unsupported> {
    if output.is_empty() {
        return Ok(Job::default());
    }
    Ok(Job { launches: vec![map.launch()?], ..Job::default() })
}

/// `output = inputs[0] op inputs[1] op ...` elementwise and in this order: what a reduction does with the
/// gathered tensors of a team. `Avg` divides by their number. Views have equal shapes; the output may be
/// one of the inputs.
pub fn members(op: RedOp, inputs: &[View], output: &View) -> Result<Job, Unsupported> {
    let Some(first) = inputs.first() else {
        return Err(Unsupported::Malformed("a reduction of nothing"));
    };
    let fits = |view: &View| view.dtype == first.dtype && view.shape() == output.shape();
    if !inputs.iter().all(fits) {
        return Err(Unsupported::Malformed("members of other shapes or types"));
    }
    let mut operands = Vec::new();
    for view in inputs {
        operands.push(Operand::view(view, storage(view.dtype)?));
    }
    operands.push(Operand::view(output, storage(output.dtype)?));
    alias::check(inputs, output, true)?;
    let join = reduce::Join::new(op, first.dtype)?;
    let body = |w: &mut Writer, elements: &[String]| {
        let mut total: Option<Value> = None;
        for (index, element) in elements.iter().enumerate() {
            let value = declare(w, format!("e{index}"), Value::load(first.dtype, element)?);
            let value = match total {
                None => value,
                Some(before) => Value::new(join.class, join.apply(&before.text, &value.text)),
            };
            total = Some(declare(w, format!("s{index}"), value));
        }
        let total = total.ok_or(Unsupported::Malformed("a reduction of nothing"))?;
        let value = match op {
            RedOp::Avg => join.divided(&total.text, inputs.len()),
            _ => total,
        };
        value.store(output.dtype)
    };
    let job = job(Map::new(Space::new(&output.shape(), operands), &body)?, output)?;
    Ok(job.noted("members", |note| note.members(op, inputs, output)))
}
