//! Reductions over any axes, the same in every run.
//!
//! Where the elements of one result lie in runs, lanes share a result (`rows`); where results do, each
//! lane has its own results (`columns`). Too few results to fill a device are computed in parts, which a
//! second launch combines. Every order of combination is fixed by the shapes and the device's size.
//!
//! `float` and narrower floats accumulate in float: thousands of partial results, each of a short run
//! of elements, combined as a tree; `double` in double, integers in 64 bits.

mod columns;
mod combiner;
mod reads;
mod rows;

pub(super) use crate::codegen::reduce::combiner::Join;

use crate::codegen::index_space::{Operand, Source, Space};
use crate::codegen::job::{Job, Launch, Param};
use crate::codegen::pointwise::{Steps, pointwise};
use crate::codegen::source_writer::Writer;
use crate::codegen::types::{ClassSource as _, Value, storage};
use crate::codegen::{alias, copy};
use crate::unsupported::Unsupported;
use hostir::ir::DType;
use hostir::plan::{Arg, Fold, Function, Kernel, Scalar, Step, View};
use smallvec::smallvec;

/// Computes the value to be accumulated from one element of each operand.
type Element<'a> = dyn Fn(&mut Writer, &[String]) -> Result<Value, Unsupported> + 'a;

/// A reduction: operands over kept and over reduced axes. The last operand is the result, whose strides
/// along reduced axes are 0.
struct Reduction<'a> {
    join: Join,
    /// The value in front of the first element, if it is to be joined.
    initial: Option<String>,
    /// The axes of the result.
    kept: Space,
    /// The axes that go away.
    reduced: Space,
    /// The value of an index.
    element: &'a Element<'a>,
    /// Type of the result's elements.
    result: DType,
    /// Into how many parts the reduced axes are cut; 1: the result is final.
    parts: usize,
}

impl Reduction<'_> {
    /// Position of the result among the operands.
    fn result(&self) -> usize {
        self.kept.operands.len() - 1
    }
    /// The largest index or offset that occurs.
    fn reach(&self) -> usize {
        (self.kept.reach() + self.reduced.reach()).max(self.kept.count() * self.parts)
    }
    /// Bytes of an accumulated value.
    fn size(&self) -> usize {
        self.join.class.dtype().size()
    }
    /// The C++ types of the parameters, with partial results in the place of the result if it is cut.
    fn ctypes(&self) -> Vec<&'static str> {
        let mut ctypes = self.kept.ctypes();
        if let Some(last) = ctypes.last_mut()
            && self.parts > 1
        {
            *last = self.join.class.ctype();
        }
        ctypes
    }
    fn params(&self) -> Vec<Param> {
        let mut params = self.kept.params();
        if let Some(last) = params.last_mut()
            && self.parts > 1
        {
            *last = Param::Scratch(0);
        }
        params
    }
    /// An accumulated value as it is stored.
    fn stored(&self, value: &str) -> Result<String, Unsupported> {
        if self.parts > 1 {
            return Ok(value.to_owned());
        }
        let text = match &self.initial {
            Some(initial) => format!("join({initial}, {value})"),
            None => value.to_owned(),
        };
        Value::new(self.join.class, text).store(self.result)
    }
    /// The reduction of the parts that this one leaves. `strides` are those of the scratch memory along
    /// the kept axes and along the parts.
    fn second<'b>(&self, kept: Vec<usize>, part: usize, element: &'b Element<'b>) -> Reduction<'b> {
        let (ctype, size) = (self.join.class.ctype(), self.size());
        let source = Source::Memory(Param::Scratch(0));
        let operand = |strides| Operand { source: source.clone(), ctype, size, align: 16, strides };
        let result = self.result();
        let along_kept = vec![operand(kept), self.kept.operands[result].clone()];
        let mut last = self.reduced.operands[result].clone();
        last.strides = vec![0];
        Reduction {
            join: self.join.again(),
            initial: self.initial.clone(),
            kept: Space { extents: self.kept.extents.clone(), operands: along_kept },
            reduced: Space { extents: vec![self.parts], operands: vec![operand(vec![part]), last] },
            element,
            result: self.result,
            parts: 1,
        }
    }
}

/// The job of a reduction: `output` holds the input's other axes in order. `sms` is the number of the
/// device's multiprocessors. If input and output overlap, the reason is `overlap`.
///
/// Without any reduced element the result is 0, as the CPU backend leaves it.
pub fn reduce(
    op: impl Into<Fold>,
    axes: &[usize],
    input: &View,
    output: &View,
    sms: u32,
) -> Result<Job, Unsupported> {
    let step = Step {
        function: Function::Identity,
        args: smallvec![Arg::Input(0)],
        compute: input.dtype,
        result: input.dtype,
    };
    let kernel =
        Kernel { inputs: smallvec![input.clone()], output: input.clone(), steps: vec![step] };
    let op = op.into();
    let job = reduce_of(&kernel, op, axes, output, sms)?;
    Ok(job.noted("fold", |note| note.fold(op, axes).view(input).view(output)))
}

/// The job of a reduction whose elements are the results of a pointwise kernel: [`reduce`] of what
/// [`pointwise`] writes, without writing it. `kernel.output` gives the shape and the type that elements
/// are rounded to; its memory is not touched.
pub fn reduce_of(
    kernel: &Kernel,
    op: impl Into<Fold>,
    axes: &[usize],
    output: &View,
    sms: u32,
) -> Result<Job, Unsupported> {
    let fold = op.into();
    let Fold { op, initial } = fold;
    let shape = kernel.output.shape();
    let kept: Vec<usize> = (0..shape.len()).filter(|axis| !axes.contains(axis)).collect();
    let kept_shape: Vec<usize> = kept.iter().map(|&axis| shape[axis]).collect();
    if axes.iter().any(|&axis| axis >= shape.len()) || kept_shape != output.shape() {
        return Err(Unsupported::Malformed("a reduction to another shape"));
    }
    let steps = Steps::new(kernel)?;
    let join = Join::new(op, kernel.output.dtype)?;
    let initial = initial.map(|value| join.initial(value, kernel.output.dtype));
    alias::check(&kernel.inputs, output, false)?;
    let count: usize = axes.iter().map(|&axis| shape[axis]).product();
    if output.is_empty() {
        return Ok(Job::default());
    }
    match count {
        0 => return copy::fill(output, Scalar::Int(0)),
        1 if initial.is_none() => return single(kernel, &kept, output),
        _ => {}
    }
    let element = |w: &mut Writer, elements: &[String]| {
        let value = steps.write(w, elements)?.rounded(kernel.output.dtype)?;
        Ok(value.into_class(join.class))
    };
    let (kept, reduced) = spaces(&steps, &shape, &kept, axes, output)?;
    let twice = kept.operands.last().is_some_and(|result| result.strides.contains(&0));
    if twice {
        return Err(Unsupported::Malformed("a result whose elements share memory"));
    }
    let result = output.dtype;
    let whole = Reduction {
        join: join.clone(),
        initial,
        kept,
        reduced,
        element: &element,
        result,
        parts: 1,
    };
    let job = launches(whole, sms as usize)?;
    Ok(job.noted("fold-kernel", |note| note.kernel(kernel).fold(fold, axes).view(output)))
}

/// A reduction of one element each is a pointwise kernel.
fn single(kernel: &Kernel, kept: &[usize], output: &View) -> Result<Job, Unsupported> {
    let keep = |view: &View| View {
        dims: kept.iter().map(|&axis| view.dims[axis]).collect(),
        ..view.clone()
    };
    let mut kernel = kernel.clone();
    let between = kernel.output.dtype;
    kernel.inputs = kernel.inputs.iter().map(keep).collect();
    for arg in kernel.steps.iter_mut().flat_map(|step| &mut step.args) {
        if let Arg::Index(axis) = arg {
            *arg = match kept.iter().position(|&other| other == *axis as usize) {
                Some(place) => Arg::Index(place as u32),
                None => Arg::Const(Scalar::Int(0)),
            };
        }
    }
    let last = Arg::Step(kernel.steps.len() as u32 - 1);
    kernel.steps.push(Step {
        function: Function::Cast,
        args: smallvec![last],
        compute: between,
        result: between,
    });
    kernel.output = output.clone();
    pointwise(&kernel)
}

/// The kept and the reduced axes with their operands, in the order of the strides of the operand with
/// the most memory.
fn spaces(
    steps: &Steps<'_>,
    shape: &[usize],
    kept: &[usize],
    axes: &[usize],
    output: &View,
) -> Result<(Space, Space), Unsupported> {
    let mut operands = steps.operands()?;
    let mut result = Operand::view(output, storage(output.dtype)?);
    let mut strides = vec![0; shape.len()];
    for (&axis, dim) in kept.iter().zip(&output.dims) {
        strides[axis] = dim.stride;
    }
    result.strides = strides;
    operands.push(result);
    let all = Space { extents: shape.to_vec(), operands };
    let memory = |k: usize| -> usize {
        let operand = &all.operands[k];
        let distinct = all.extents.iter().zip(&operand.strides).filter(|(_, stride)| **stride != 0);
        distinct.map(|(extent, _)| extent).product::<usize>() * operand.size
    };
    let inputs = (0..all.operands.len() - 1).filter(|&k| all.operands[k].param().is_some());
    let leader = inputs.max_by_key(|&k| (memory(k), std::cmp::Reverse(k)));
    let part = |axes: &[usize]| {
        let long: Vec<usize> = axes.iter().copied().filter(|&axis| shape[axis] != 1).collect();
        let mut space = all.clone();
        space.arrange(&long);
        if let Some(leader) = leader {
            space.order_by(leader);
        }
        space.collapse();
        space
    };
    Ok((part(kept), part(axes)))
}

/// The launches of a reduction, cut into parts where it has too few results for the device.
fn launches(mut whole: Reduction<'_>, sms: usize) -> Result<Job, Unsupported> {
    let by_rows = has_runs(&whole);
    let parts = if by_rows { rows::parts(&whole, sms) } else { columns::parts(&whole, sms) };
    whole.parts = parts.max(1);
    let launch = |reduction: &Reduction<'_>, by_rows: bool| -> Result<Launch, Unsupported> {
        if by_rows { rows::launch(reduction) } else { columns::launch(reduction) }
    };
    let first = launch(&whole, by_rows)?;
    if whole.parts == 1 {
        return Ok(Job { launches: vec![first], ..Job::default() });
    }
    let count = whole.kept.count();
    let class = whole.join.class;
    let again = move |_: &mut Writer, elements: &[String]| {
        let element = elements.first().ok_or(Unsupported::Malformed("a reduction of nothing"))?;
        Ok(Value::new(class, element.clone()))
    };
    let flat = flat(&whole.kept.extents);
    // Parts of a result lie in a row if the first launch works by rows, else apart.
    let second = if by_rows {
        let strides = flat.iter().map(|stride| stride * whole.parts).collect();
        whole.second(strides, 1, &again)
    } else {
        whole.second(flat, count, &again)
    };
    let launches = vec![first, launch(&second, by_rows)?];
    Ok(Job { launches, scratch: count * whole.parts * whole.size(), ..Job::default() })
}

/// Whether the elements of one result lie in runs rather than those of neighbouring results.
fn has_runs(whole: &Reduction<'_>) -> bool {
    let shortest = |space: &Space| -> usize {
        let memory = space.operands[..whole.result()].iter().filter(|o| o.param().is_some());
        let strides = memory.filter_map(|operand| operand.strides.last().copied());
        strides.filter(|&stride| stride > 0).min().unwrap_or(usize::MAX)
    };
    whole.kept.extents.is_empty() || shortest(&whole.reduced) <= shortest(&whole.kept)
}

/// Row-major strides.
fn flat(extents: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; extents.len()];
    for axis in (1..extents.len()).rev() {
        strides[axis - 1] = strides[axis] * extents[axis];
    }
    strides
}
