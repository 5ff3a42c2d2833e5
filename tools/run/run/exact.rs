//! `--exact`: the proof that a program computes the function of its reference.

use super::cli::Options;
use super::failure::RunFailure;
use super::inputs::{self, InputData, WholeTensors};
use super::program::SourceProgram;
use super::quantities::four_digits;
use super::reference::{LoadedReference, reference_name, whole_tensors};
use super::tensor_options::BoundOptions;
use hostir::backend::exact::{ExactProof, ExactReport, ExactRequest, ExactSide, SideFailure, prove_equal};
use hostir::data::HostTensor;
use hostir::diag::Diag;
use hostir::lower::PreparedProgram;
use hostir_tool_support::io::ToolIo;

/// Proves that the program computes the function of its reference, if requested. Returns a line for each output.
///
/// # Errors
/// If the reference does not fit or does not run, or outputs are not proved equal.
pub(super) fn prove_meaning(
    prepared: &PreparedProgram,
    loaded: &SourceProgram,
    bound: &BoundOptions<'_>,
    whole: &WholeTensors,
    options: &Options,
    io: &mut ToolIo<'_>,
) -> Result<Vec<String>, RunFailure> {
    let (true, Some(file)) = (options.exact, &options.reference) else { return Ok(Vec::new()) };
    let inputs = inputs::bind_inputs(prepared, bound, whole.clone(), options.seed, io)?;
    let reference = LoadedReference::load_reference(file, loaded, &inputs, prepared, options, io)?;
    let name = reference_name(file);
    let sides = ExactSides {
        program: loaded,
        prepared,
        reference: &reference.loaded,
        reference_prepared: &reference.prepared,
        name: &name,
        given: &integer_tensors(&inputs)?,
    };
    let proof = sides.prove_sides(options, io)?;
    let outputs = prepared.outputs.iter().take(prepared.results);
    Ok(outputs.map(|io_tensor| proof_line(&io_tensor.name, &name, proof)).collect())
}

/// A program, and another one that has to compute the same.
pub(super) struct ExactSides<'a> {
    /// The program.
    pub(super) program: &'a SourceProgram,
    /// Its plans.
    pub(super) prepared: &'a PreparedProgram,
    /// The other one.
    pub(super) reference: &'a SourceProgram,
    /// Its plans.
    pub(super) reference_prepared: &'a PreparedProgram,
    /// The other one in messages.
    pub(super) name: &'a str,
    /// By input: the values of integers.
    pub(super) given: &'a [Option<HostTensor>],
}

impl ExactSides<'_> {
    /// Proves that both compute the same.
    ///
    /// # Errors
    /// If one of them does not run, or outputs are not proved equal.
    pub(super) fn prove_sides(&self, options: &Options, io: &mut ToolIo<'_>) -> Result<ExactProof, RunFailure> {
        let request = ExactRequest {
            program: self.prepared,
            reference: self.reference_prepared,
            name: self.name,
            given: self.given,
            seed: options.seed,
        };
        let report = prove_equal(&request).map_err(|SideFailure { side, diags }| match side {
            ExactSide::Program => self.program.to_failure(diags),
            ExactSide::Reference => self.reference.to_failure(diags),
        })?;
        report_proof(report, self.program, self.reference, options, io)
    }
}

/// By input: the whole tensor if it has integers, whose values a proof takes as they are.
///
/// # Errors
/// An input that was given in parts.
pub(super) fn integer_tensors(inputs: &[InputData]) -> Result<Vec<Option<HostTensor>>, Diag> {
    let whole = whole_tensors(inputs)?.into_iter();
    Ok(whole.map(|tensor| (!tensor.dtype().is_float()).then(|| tensor.clone())).collect())
}

/// Writes warnings; those about the program are errors with `--strict`.
fn report_proof(
    report: ExactReport,
    loaded: &SourceProgram,
    reference: &SourceProgram,
    options: &Options,
    io: &mut ToolIo<'_>,
) -> Result<ExactProof, RunFailure> {
    let ExactReport { proof, mut program, reference: others } = report;
    if !others.is_empty() {
        io.report(options.format, &reference.source, &others);
    }
    if options.strict {
        program = program.into_iter().map(Diag::into_error).collect();
    }
    match proof {
        Some(proof) if !options.strict || program.is_empty() => {
            if !program.is_empty() {
                io.report(options.format, &loaded.source, &program);
            }
            Ok(proof)
        }
        _ => Err(loaded.to_failure(program)),
    }
}

/// `T2: equal to the reference `plain.hir` for all inputs of these sizes (3 runs modulo 2^61-1, error below 1e-50)`.
pub(super) fn proof_line(output: &str, name: &str, proof: ExactProof) -> String {
    let ExactProof { seeds, error } = proof;
    let error = four_digits(error);
    format!("{output}: equal to {name} for all inputs of these sizes ({seeds} runs modulo 2^61-1, error below {error})")
}
