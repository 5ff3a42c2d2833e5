//! Helpers of tests that run programs: a program with sizes, random data, plain loops.
#![allow(dead_code, clippy::panic, reason = "each test uses a part; failures panic")]

use hostir::ReadOptions;
use hostir::data::HostTensor;
use hostir::ir::Program;
use hostir::lower;
use hostir::lower::{PreparedProgram, SizeSettings};
use hostir::ops::OpRegistry;

/// A program and its sizes.
pub(crate) struct Case {
    program: Program,
    sizes: SizeSettings,
    text: String,
}

impl Case {
    /// Reads a program that has no errors.
    pub(crate) fn new(text: &str, set: &[(&str, i64)]) -> Self {
        Self::with_ops(text, set, OpRegistry::OURS)
    }
    /// Reads a program that has no errors and may name these ops.
    pub(crate) fn with_ops(text: &str, set: &[(&str, i64)], ops: OpRegistry) -> Self {
        let (mut programs, diags) = hostir::load_with_options(text, &ReadOptions::with_ops(ops));
        assert!(!diags.has_errors(), "{}", render(text, &diags.items));
        let set = set.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
        let sizes = SizeSettings { set, ..SizeSettings::default() };
        Self { program: programs.remove(0), sizes, text: text.to_owned() }
    }
    /// With a number of devices.
    pub(crate) fn devices(mut self, devices: u32) -> Self {
        self.sizes.devices = Some(devices);
        self
    }
    /// With another limit on the buffers of all ranks together, in bytes.
    pub(crate) fn memory(mut self, limit: u64) -> Self {
        self.sizes.memory_limit = limit;
        self
    }
    /// The plans, or the rendered errors.
    pub(crate) fn prepare(&self) -> Result<PreparedProgram, String> {
        lower::prepare_program(&self.program, &self.sizes).map_err(|diags| render(&self.text, &diags.items))
    }
    /// Random whole inputs.
    pub(crate) fn random_inputs(&self) -> Vec<HostTensor> {
        let prepared = self.prepare().unwrap_or_else(|text| panic!("{text}"));
        let mut seed = 1u64;
        let mut next = || {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((seed >> 40) % 17) as f64 / 4.0 - 2.0
        };
        let mut inputs = Vec::new();
        for port in &prepared.inputs {
            let mut tensor = HostTensor::zeros(port.dtype, &port.whole_shape());
            for index in 0..tensor.len() {
                tensor.set_f64(index, next());
            }
            inputs.push(tensor);
        }
        inputs
    }
    /// Runs on whole inputs and gives whole outputs, or the rendered errors.
    pub(crate) fn run_whole(&self, inputs: &[HostTensor]) -> Result<Vec<HostTensor>, String> {
        let prepared = self.prepare()?;
        let local = |rank: u32| {
            (0..inputs.len()).map(|i| lower::shard_input(&prepared, i, rank, &inputs[i])).collect::<Vec<_>>()
        };
        let parts = (0..prepared.ranks).map(local).collect();
        let report = hostir::plan_checks::prove_program(&prepared);
        if !report.errors.is_empty() {
            return Err(render(&self.text, &report.errors));
        }
        let result = hostir::backend::cpu::run_plans(&prepared, parts).map_err(|d| render(&self.text, &d))?;
        let mut outputs = Vec::new();
        for output in 0..prepared.outputs.len() {
            let ranks = result.outputs.iter().zip(0u32..);
            let parts = ranks.filter_map(|(outputs, rank)| Some((rank, outputs[output].clone()?)));
            let whole = lower::assemble_output(&prepared, output, parts.collect());
            outputs.push(whole.map_err(|diag| render(&self.text, &[diag]))?);
        }
        Ok(outputs)
    }
    /// Runs with random inputs: inputs and outputs as doubles.
    pub(crate) fn run(&self) -> (Vec<Vec<f64>>, Vec<Vec<f64>>) {
        let inputs = self.random_inputs();
        let outputs = self.run_whole(&inputs).unwrap_or_else(|text| panic!("{text}"));
        let values =
            |tensors: &[HostTensor]| tensors.iter().map(|t| (0..t.len()).map(|i| t.get_f64(i)).collect()).collect();
        (values(&inputs), values(&outputs))
    }
    /// The rendered errors of a run that fails.
    pub(crate) fn fails(&self) -> String {
        let prepared = match self.prepare() {
            Ok(_) => self.random_inputs(),
            Err(text) => return text,
        };
        match self.run_whole(&prepared) {
            Ok(_) => panic!("the run did not fail"),
            Err(text) => text,
        }
    }
}

pub(crate) fn render(text: &str, diags: &[hostir::diag::Diag]) -> String {
    hostir::diag::render::to_string("test.hir", text, diags)
}

/// `a [m, k] @ b [k, n]` by plain loops.
pub(crate) fn matmul(a: &[f64], b: &[f64], m: usize, k: usize, n: usize) -> Vec<f64> {
    let mut out = vec![0.0; m * n];
    for i in 0..m {
        for j in 0..n {
            for l in 0..k {
                out[i * n + j] += a[i * k + l] * b[l * n + j];
            }
        }
    }
    out
}

/// The sum along one axis.
pub(crate) fn sum_axis(tensor: &HostTensor, axis: usize) -> Vec<f64> {
    let shape = tensor.shape();
    let (outer, count): (usize, usize) = (shape[..axis].iter().product(), shape[axis]);
    let inner: usize = shape[axis + 1..].iter().product();
    let mut out = vec![0.0; outer * inner];
    for o in 0..outer {
        for c in 0..count {
            for i in 0..inner {
                out[o * inner + i] += tensor.get_f64((o * count + c) * inner + i);
            }
        }
    }
    out
}

/// `[rows, columns]` to `[columns, rows]`.
pub(crate) fn transpose(values: &[f64], rows: usize, columns: usize) -> Vec<f64> {
    (0..rows * columns).map(|i| values[i % rows * columns + i / rows]).collect()
}
