//! Moves one kernel into another that reads its result.

use crate::fuse::is_cheap;
use hostir::plan::{BufferView, Function, KernelStep, PointwiseKernel, StepOperand, ViewDim, ViewDims};
use smallvec::SmallVec;

/// `consumer` with `producer`'s steps in the place of its result; `None` if an index of the consumer does not map to an
/// index of the producer by strides, or if costly elements would be computed more than once.
pub(super) fn absorb_producer(consumer: &PointwiseKernel, producer: &PointwiseKernel) -> Option<PointwiseKernel> {
    let buffer = producer.output.buffer;
    let mut merged = PointwiseKernel { inputs: SmallVec::new(), steps: Vec::new(), ..consumer.clone() };
    let mut places: Vec<StepOperand> = Vec::new();
    let mut taken: Vec<(&BufferView, StepOperand)> = Vec::new();
    for view in &consumer.inputs {
        if view.buffer != buffer {
            places.push(StepOperand::Input(input_index(&mut merged, view.clone())));
            continue;
        }
        let known = taken.iter().find(|(other, _)| *other == view).map(|(_, place)| *place);
        let place = match known {
            Some(place) => place,
            None => append_producer(&mut merged, producer, view)?,
        };
        taken.push((view, place));
        places.push(place);
    }
    if taken.len() > 1 && !is_cheap(producer) && taken.iter().any(|(view, _)| *view != taken[0].0) {
        return None;
    }
    let first = merged.steps.len() as u32;
    for step in &consumer.steps {
        let mut step = step.clone();
        for arg in &mut step.args {
            *arg = match *arg {
                StepOperand::Input(index) => *places.get(index as usize)?,
                StepOperand::Step(index) => StepOperand::Step(first + index),
                other => other,
            };
        }
        merged.steps.push(step);
    }
    Some(merged)
}

/// Returns the position of an input, and adds it if it is missing.
fn input_index(kernel: &mut PointwiseKernel, view: BufferView) -> u32 {
    let found = kernel.inputs.iter().position(|other| *other == view);
    let place = found.unwrap_or(kernel.inputs.len());
    if found.is_none() {
        kernel.inputs.push(view);
    }
    place as u32
}

/// Adds the producer's steps for the elements of its result that `view` shows; returns the value's index.
fn append_producer(merged: &mut PointwiseKernel, producer: &PointwiseKernel, view: &BufferView) -> Option<StepOperand> {
    let result = &producer.output;
    if view.dtype != result.dtype {
        return None;
    }
    let repeats = view.dims.iter().any(|dim| dim.stride == 0 && dim.extent > 1);
    if repeats && !is_cheap(producer) {
        return None;
    }
    let mut args = producer.steps.iter().flat_map(|step| &step.args);
    let indexed = args.any(|arg| matches!(arg, StepOperand::Index(_)));
    let producer = &if indexed { producer.clone() } else { collapse_axes(producer) };
    let route = IndexRemap::new(&producer.output, view)?;
    let mut inputs = Vec::new();
    for source in &producer.inputs {
        inputs.push(input_index(merged, route.remap_view(source, view)));
    }
    let first = merged.steps.len() as u32;
    for step in &producer.steps {
        let mut step = step.clone();
        for arg in &mut step.args {
            *arg = match *arg {
                StepOperand::Input(index) => StepOperand::Input(*inputs.get(index as usize)?),
                StepOperand::Step(index) => StepOperand::Step(first + index),
                StepOperand::Index(axis) => route.index(axis as usize)?,
                StepOperand::Const(value) => StepOperand::Const(value),
            };
        }
        merged.steps.push(step);
    }
    let last = producer.steps.last()?;
    // A selection is not rounded before it is stored.
    if last.function == Function::Where || last.result != result.dtype {
        if result.dtype == hostir::ir::DType::Bool && last.result != result.dtype {
            return None;
        }
        let args = SmallVec::from_slice(&[StepOperand::Step(merged.steps.len() as u32 - 1)]);
        let (compute, result) = (last.result, result.dtype);
        merged.steps.push(KernelStep { function: Function::Cast, args, compute, result });
    }
    Some(StepOperand::Step(merged.steps.len() as u32 - 1))
}

/// The kernel with neighbouring axes joined if they are contiguous in all operands.
fn collapse_axes(kernel: &PointwiseKernel) -> PointwiseKernel {
    let mut kernel = kernel.clone();
    let mut axis = 1;
    while axis < kernel.output.dims.len() {
        if !kernel.inputs.iter().chain([&kernel.output]).all(|view| joins_outer_axis(view, axis)) {
            axis += 1;
            continue;
        }
        for view in kernel.inputs.iter_mut().chain([&mut kernel.output]) {
            let (outer, inner) = (view.dims[axis - 1], view.dims[axis]);
            let stride = if inner.extent == 1 { outer.stride } else { inner.stride };
            view.dims[axis - 1] = ViewDim { extent: outer.extent * inner.extent, stride };
            view.dims.remove(axis);
        }
    }
    kernel
}

/// Returns true if one axis can replace this one and the next outer one.
fn joins_outer_axis(view: &BufferView, axis: usize) -> bool {
    let (outer, inner) = (view.dims[axis - 1], view.dims[axis]);
    inner.extent == 1 || outer.extent == 1 || outer.stride == inner.stride * inner.extent
}

/// A mapping from the indices of a view to the indices at which its elements were computed.
struct IndexRemap {
    /// For each axis of the view: the axis of the result, and the distance of a step along it.
    axes: Vec<Option<(usize, usize)>>,
    /// The result's index at the view's first element.
    start: Vec<usize>,
}

impl IndexRemap {
    /// The mapping from a view to a result that covers it; `None` if there is none along axes.
    fn new(result: &BufferView, view: &BufferView) -> Option<Self> {
        let mut order: Vec<usize> = (0..result.dims.len())
            .filter(|&axis| result.dims[axis].extent > 1 && result.dims[axis].stride > 0)
            .collect();
        order.sort_by_key(|&axis| std::cmp::Reverse(result.dims[axis].stride));
        let mut start = vec![0; result.dims.len()];
        let mut rest = view.offset.checked_sub(result.offset)?;
        for &axis in &order {
            start[axis] = rest / result.dims[axis].stride;
            rest %= result.dims[axis].stride;
        }
        let mut ends = start.clone();
        let mut axes = Vec::new();
        for dim in &view.dims {
            if dim.extent == 1 || dim.stride == 0 {
                axes.push(None);
                continue;
            }
            let axis = *order.iter().find(|&&axis| result.dims[axis].stride <= dim.stride)?;
            let step = dim.stride / result.dims[axis].stride;
            if dim.stride % result.dims[axis].stride != 0 {
                return None;
            }
            ends[axis] += (dim.extent - 1) * step;
            axes.push(Some((axis, step)));
        }
        let inside = ends.iter().zip(&result.dims).all(|(&end, dim)| end < dim.extent.max(1));
        (rest == 0 && inside).then_some(Self { axes, start })
    }
    /// Returns the view of a producer's operand that the indices of `view` read.
    fn remap_view(&self, source: &BufferView, view: &BufferView) -> BufferView {
        let strides = self.axes.iter().map(|axis| axis.map_or(0, |(axis, step)| source.dims[axis].stride * step));
        let along = strides.zip(&view.dims);
        let dims: ViewDims = along.map(|(stride, dim)| ViewDim { extent: dim.extent, stride }).collect();
        let starts = self.start.iter().zip(&source.dims);
        let offset = starts.map(|(start, dim)| start * dim.stride).sum::<usize>();
        BufferView { buffer: source.buffer, offset: source.offset + offset, dims, dtype: source.dtype }
    }
    /// The index along an axis of the result, if it is an index of the view.
    fn index(&self, axis: usize) -> Option<StepOperand> {
        let mut along = (0..self.axes.len()).filter(|&own| self.axes[own].is_some_and(|(other, _)| other == axis));
        let start = i64::try_from(*self.start.get(axis)?).ok()?;
        match (along.next(), along.next()) {
            (None, _) => Some(StepOperand::Const(hostir::plan::ScalarValue::Int(start))),
            (Some(own), None) if start == 0 && self.axes[own] == Some((axis, 1)) => {
                Some(StepOperand::Index(own as u32))
            }
            _ => None,
        }
    }
}
