//! Programs of a benchmark and their measured times.

use crate::run::cli::Options;
use crate::run::comparison::OutputChecks;
use crate::run::failure::RunFailure;
use crate::run::outputs::OutputTensors;
use crate::run::program::SourceProgram;
use hostir::backend::RunResult;
use hostir::data::HostTensor;
use hostir::ir::DType;
use hostir::lower::PreparedProgram;
use hostir_gpu::user_kernel::KernelFiles;
use serde_json::Value;

/// A program with its inputs, as far as the command line fixes them.
pub(in crate::run) struct BenchEntry {
    /// The file.
    pub(in crate::run) file: String,
    /// The program.
    pub(in crate::run) loaded: SourceProgram,
    /// Its plans.
    pub(in crate::run) prepared: PreparedProgram,
    /// The files of the kernels that it launches.
    pub(in crate::run) kernels: KernelFiles,
    /// Inputs by rank and position; empty if nothing is computed.
    pub(in crate::run) inputs: Vec<Vec<HostTensor>>,
}

/// The measured times of a program.
pub(in crate::run) struct Measurement {
    /// Times of whole runs.
    pub(in crate::run) times: Times,
    /// The host time of a run, in microseconds.
    pub(in crate::run) issue: Option<f64>,
    /// The critical path and the exposed times, if the times are the cost model's.
    pub(in crate::run) modelled: Option<Value>,
}

/// Times in milliseconds.
pub(in crate::run) struct Times {
    in_order: Vec<f64>,
    sorted: Vec<f64>,
}

impl Times {
    /// Takes times in the order of their measurement.
    pub(in crate::run) fn from_unsorted(in_order: Vec<f64>) -> Self {
        let mut sorted = in_order.clone();
        sorted.sort_by(f64::total_cmp);
        Self { in_order, sorted }
    }
    /// The smallest time that `percent` of all do not exceed.
    pub(in crate::run) fn percentile(&self, percent: usize) -> f64 {
        let at = (self.sorted.len() * percent).div_ceil(100).max(1) - 1;
        self.sorted.get(at).copied().unwrap_or(f64::NAN)
    }
    /// From the smallest to the largest.
    pub(in crate::run) fn sorted(&self) -> &[f64] {
        &self.sorted
    }
    /// The times in the order of their measurement.
    pub(in crate::run) fn in_order(&self) -> &[f64] {
        &self.in_order
    }
}

/// The outputs of the first program of a benchmark.
pub(in crate::run) struct FirstOutputs {
    outputs: OutputTensors,
    /// By output: the types to which values on the way to it are rounded.
    roundings: Vec<Vec<DType>>,
}

/// Compares the outputs of a program with those of the first one.
///
/// # Errors
/// Outputs that differ.
pub(in crate::run) fn check_agreement(
    entry: &BenchEntry,
    run: RunResult,
    first: &mut Option<FirstOutputs>,
    options: &Options,
) -> Result<(), RunFailure> {
    let results = OutputTensors::assemble_outputs(&entry.prepared, run, &[])
        .map_err(|diag| entry.loaded.to_failure(vec![diag]))?;
    let own = entry.prepared.output_roundings();
    let Some(first) = first else {
        *first = Some(FirstOutputs { outputs: results, roundings: own });
        return Ok(());
    };
    let mut checks = OutputChecks::new(options);
    let pairs = entry.prepared.outputs.iter().zip(&results.whole).zip(&first.outputs.whole);
    for (((io_tensor, found), expected), (own, theirs)) in pairs.zip(own.iter().zip(&first.roundings)) {
        if let (Some(found), Some(expected)) = (found, expected) {
            let roundings = [own.as_slice(), theirs].concat();
            checks.check_pair(&io_tensor.name, found, &format!("`{}`", options.file), expected, &roundings);
        }
    }
    checks.finish().map(|_| ())
}
