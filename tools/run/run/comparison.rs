//! Comparisons of outputs with expected values.

use super::cli::Options;
use super::failure::RunFailure;
use super::outputs::OutputTensors;
use super::quantities::four_digits;
use super::tensor_options::BoundOptions;
use crate::data::bracketed_list;
use crate::data::compare::{TensorComparison, compare_tensors};
use hostir::data::HostTensor;
use hostir::diag::Diag;
use hostir::diag::message;
use hostir::ir::DType;
use hostir::lower::PreparedProgram;
use hostir_tool_support::errors;
use hostir_tool_support::io::ToolIo;

/// Compares outputs with the files of `--expect`. Returns a line for each comparison.
///
/// # Errors
/// If outputs differ, or files cannot be read.
pub(super) fn compare_expected(
    prepared: &PreparedProgram,
    results: &OutputTensors,
    options: &Options,
    bound: &BoundOptions<'_>,
    io: &ToolIo<'_>,
) -> Result<Vec<String>, RunFailure> {
    let mut checks = OutputChecks::new(options);
    let any = bound.expects.iter().any(|file| file.is_some());
    let roundings = if any { prepared.output_roundings() } else { Vec::new() };
    for (index, io_tensor) in prepared.outputs.iter().enumerate() {
        let Some(file) = bound.expects[index] else { continue };
        if !file.per_rank() {
            if let Some(whole) = &results.whole[index] {
                checks.check_file(
                    &io_tensor.name,
                    whole,
                    &file.to_string(),
                    file.read_tensor(io_tensor.dtype, io),
                    &roundings[index],
                );
            }
            continue;
        }
        for (rank, part) in &results.parts[index] {
            let file = file.of_rank(*rank);
            let name = format!("{} on rank {rank}", io_tensor.name);
            checks.check_file(&name, part, &file.to_string(), file.read_tensor(io_tensor.dtype, io), &roundings[index]);
        }
    }
    checks.finish()
}

/// Comparisons made so far.
pub(super) struct OutputChecks<'a> {
    options: &'a Options,
    lines: Vec<String>,
    diags: Vec<Diag>,
}

impl<'a> OutputChecks<'a> {
    pub(super) fn new(options: &'a Options) -> Self {
        Self { options, lines: Vec::new(), diags: Vec::new() }
    }
    fn check_file(
        &mut self,
        name: &str,
        found: &HostTensor,
        file: &str,
        expected: Result<HostTensor, Diag>,
        roundings: &[DType],
    ) {
        match expected {
            Ok(expected) => self.check_pair(name, found, file, &expected, roundings),
            Err(diag) => self.diags.push(diag),
        }
    }
    /// Compares one output; `what` names the expected values, and `roundings` are the types to which values on the way
    /// to it are rounded.
    pub(super) fn check_pair(
        &mut self,
        name: &str,
        found: &HostTensor,
        what: &str,
        expected: &HostTensor,
        roundings: &[DType],
    ) {
        match compare_tensors(found, expected, roundings, self.options.given) {
            Ok(result) if result.is_equal() => self.lines.push(equal_line(name, what, &result)),
            Ok(result) => self.diags.push(difference_diag(name, what, &result)),
            Err(error) => {
                let message = message!("cannot compare {} with {}: {}", name, what, error.message);
                self.diags.push(Diag::global_error(errors::DIFFERS, message));
            }
        }
    }
    /// One line for each comparison, or the errors.
    ///
    /// # Errors
    /// All comparisons that differ.
    pub(super) fn finish(self) -> Result<Vec<String>, RunFailure> {
        if self.diags.is_empty() { Ok(self.lines) } else { Err(self.diags.into()) }
    }
}

/// `T2: equal to the reference `plain.hir` within rtol=1e-4 atol=3.2e-4 (worst |difference| 1.2e-7 at [3, 1, 0])`
fn equal_line(name: &str, what: &str, result: &TensorComparison) -> String {
    let worst = match &result.worst {
        Some(worst) => {
            format!("worst |difference| {} at {}", four_digits(worst.difference), bracketed_list(&worst.index))
        }
        None => "bit for bit".to_owned(),
    };
    format!("{name}: equal to {what} within {} ({worst})", tolerance_text(result))
}

fn difference_diag(name: &str, what: &str, result: &TensorComparison) -> Diag {
    let (wrong, all) = (result.mismatches, result.elements);
    let message = message!("{} differs from {} in {} of {} elements", name, what, wrong, all);
    let mut diag = Diag::global_error(errors::DIFFERS, message);
    if let Some(worst) = &result.worst {
        let (index, found, expected) = (bracketed_list(&worst.index), worst.found, worst.expected);
        let absolute = four_digits(worst.difference);
        let mut sizes = format!("|difference| {absolute}");
        if expected != 0.0 && expected.is_finite() {
            let relative = four_digits(worst.difference / expected.abs());
            sizes.push_str(&format!(", relative {relative}"));
        }
        let (found, expected) = (full_digits(found, result.wide), full_digits(expected, result.wide));
        diag = diag.with_note(message!("worst at {}: {} instead of {} ({})", index, found, expected, sizes));
    }
    diag.with_note(message!("compared with {}; set other tolerances with --rtol and --atol", tolerance_text(result)))
}

/// A number with as many digits as its type has.
fn full_digits(value: f64, wide: bool) -> String {
    if wide { value.to_string() } else { (value as f32).to_string() }
}

fn tolerance_text(result: &TensorComparison) -> String {
    format!("rtol={} atol={}", four_digits(result.tolerance.rtol), four_digits(result.tolerance.atol))
}
