//! One instruction with its memory, and what the CPU backend makes of it.

use hostir::backend::cpu;
use hostir::data::HostTensor;
use hostir::ir::{DType, OpId, TensorId};
use hostir::lower::{PreparedProgram, SizeSettings};
use hostir::plan::{
    BufferId, BufferKind, BufferView, Inst, InstKind, InstOrigin, IterationId, Plan, PlanBuffer, USER_STREAM, ViewDim,
};

/// Types that kernels compute with.
pub(crate) const TYPES: [DType; 17] = [
    DType::Double,
    DType::Float,
    DType::Half,
    DType::BFloat16,
    DType::Float8E4M3,
    DType::Float8E5M2,
    DType::Float8E8M0,
    DType::Float4E2M1,
    DType::Int,
    DType::Int32,
    DType::Int16,
    DType::Int8,
    DType::UInt64,
    DType::UInt32,
    DType::UInt16,
    DType::UInt8,
    DType::Bool,
];

/// An instruction over buffers with values.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) buffers: Vec<HostTensor>,
    pub(crate) kind: InstKind,
}

/// Memory for a case while it is put together.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) buffers: Vec<HostTensor>,
    seed: u64,
}

impl Memory {
    /// A number between 0 and 1.
    fn next(&mut self) -> f64 {
        self.seed = self.seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.seed >> 40) as f64 / (1u64 << 24) as f64
    }
    /// A buffer with random elements in a range; the view of all of them in this shape.
    pub(crate) fn random(&mut self, dtype: DType, shape: &[usize], range: [f64; 2]) -> BufferView {
        let mut tensor = HostTensor::zeros(dtype, &[shape.iter().product()]);
        for index in 0..tensor.len() {
            let value = range[0] + (range[1] - range[0]) * self.next();
            let real = dtype.is_float();
            tensor.set_f64(index, if real { value } else { value.round() });
        }
        self.add(tensor, shape)
    }
    /// A buffer with these elements.
    pub(crate) fn values(&mut self, dtype: DType, values: &[f64]) -> BufferView {
        let mut tensor = HostTensor::zeros(dtype, &[values.len()]);
        for (index, &value) in values.iter().enumerate() {
            tensor.set_f64(index, value);
        }
        self.add(tensor, &[values.len()])
    }
    fn add(&mut self, tensor: HostTensor, shape: &[usize]) -> BufferView {
        let dtype = tensor.dtype();
        self.buffers.push(tensor);
        let buffer = BufferId(self.buffers.len() as u32 - 1);
        BufferView { buffer, offset: 0, dims: hostir::plan::row_major(shape), dtype }
    }
    /// The case of an instruction.
    pub(crate) fn case(self, name: impl Into<String>, kind: InstKind) -> Case {
        Case { name: name.into(), buffers: self.buffers, kind }
    }
}

/// A view's axes in another order.
pub(crate) fn permuted(view: &BufferView, order: &[usize]) -> BufferView {
    BufferView { dims: order.iter().map(|&axis| view.dims[axis]).collect(), ..view.clone() }
}

/// A view with an axis repeated.
pub(crate) fn repeated(view: &BufferView, axis: usize, extent: usize) -> BufferView {
    let mut view = view.clone();
    view.dims.insert(axis, ViewDim { extent, stride: 0 });
    view
}

/// A part of an axis.
pub(crate) fn part(view: &BufferView, axis: usize, from: usize, count: usize) -> BufferView {
    let mut view = view.clone();
    view.offset += from * view.dims[axis].stride;
    view.dims[axis].extent = count;
    view
}

impl Case {
    /// All buffers after the CPU backend ran the instruction.
    pub(crate) fn expected(&self) -> Result<Vec<HostTensor>, String> {
        let (programs, _) = hostir::load("%HostIrContainer { () -> () :\n} // %HostIrContainer\n");
        let mut prepared = hostir::lower::prepare_program(&programs[0], &SizeSettings::default())
            .unwrap_or_else(|_| unreachable!("an empty program"));
        prepared.plans = vec![self.plan()];
        prepared.ranks = 1;
        run(&prepared, self.buffers.clone()).map_err(|text| format!("{}: {text}", self.name))
    }

    fn plan(&self) -> Plan {
        let mut plan = Plan::default();
        plan.streams = 1;
        plan.iterations.push(Default::default());
        for (index, tensor) in self.buffers.iter().enumerate() {
            let (elements, dtype) = (tensor.len(), tensor.dtype());
            let kind = BufferKind::Input(index as u32);
            let buffer = plan.buffers.push(PlanBuffer { elements, dtype, tensor: TensorId(0), kind });
            let dims = hostir::plan::row_major(&[elements]);
            let view = Some(BufferView { buffer, offset: 0, dims, dtype });
            plan.inputs.push(view.clone());
            plan.outputs.push(view);
        }
        let origin = InstOrigin { op: OpId(0), iteration: IterationId(0) };
        plan.push_inst(Inst { kind: self.kind.clone(), stream: USER_STREAM, origin });
        plan
    }
}

fn run(prepared: &PreparedProgram, inputs: Vec<HostTensor>) -> Result<Vec<HostTensor>, String> {
    let result = cpu::run_plans(prepared, vec![inputs])
        .map_err(|diags| diags.iter().map(|diag| diag.message.as_str()).collect::<String>())?;
    Ok(result.outputs.into_iter().flatten().flatten().collect())
}

/// Compares buffers; the worst element that is off.
pub(crate) fn compare(case: &Case, got: &[HostTensor], tolerance: f64) -> Result<(), String> {
    let expected = case.expected()?;
    for (buffer, (got, expected)) in got.iter().zip(&expected).enumerate() {
        let exact = !got.dtype().is_float();
        let step = match got.dtype() {
            DType::Half => 1e-3,
            DType::BFloat16 => 8e-3,
            DType::Float8E4M3 => 0.126,
            DType::Float8E5M2 => 0.251,
            DType::Float8E8M0 => 1.001,
            DType::Float4E2M1 => 0.501,
            DType::Double => 1e-12,
            _ => tolerance,
        };
        for index in 0..expected.len() {
            let (g, e) = (got.get_f64(index), expected.get_f64(index));
            let same = g == e || (g.is_nan() && e.is_nan());
            let close = !exact && (g - e).abs() <= step * e.abs().max(1.0);
            if !same && !close {
                let name = &case.name;
                return Err(format!("{name}: buffer {buffer}, element {index}: {g}, CPU {e}"));
            }
        }
    }
    Ok(())
}
