//! Comparisons of outputs with what was expected.

use super::cli::Options;
use super::failure::Failure;
use super::outputs::Results;
use super::quantities::short;
use super::tensor_options::Bound;
use crate::data::brackets;
use crate::data::compare::{Comparison, compare};
use hostir::data::HostTensor;
use hostir::diag::Diag;
use hostir::lower::Prepared;
use hostir_tool_support::errors;
use hostir_tool_support::io::Io;

/// Compares outputs with the files of `--expect`. Gives a line for each comparison.
///
/// # Errors
/// Outputs that differ, and files that cannot be read.
pub(super) fn compare_expected(
    prepared: &Prepared,
    results: &Results,
    options: &Options,
    bound: &Bound<'_>,
    io: &Io<'_>,
) -> Result<Vec<String>, Failure> {
    let mut checks = Checks::new(options);
    for (index, port) in prepared.outputs.iter().enumerate() {
        let Some(file) = bound.expects[index] else { continue };
        if !file.per_rank() {
            if let Some(whole) = &results.whole[index] {
                checks.file(&port.name, whole, &file.to_string(), file.read(io));
            }
            continue;
        }
        for (rank, part) in &results.parts[index] {
            let file = file.of_rank(*rank);
            checks.file(
                &format!("{} on rank {rank}", port.name),
                part,
                &file.to_string(),
                file.read(io),
            );
        }
    }
    checks.finish()
}

/// Comparisons made so far.
pub(super) struct Checks<'a> {
    options: &'a Options,
    lines: Vec<String>,
    diags: Vec<Diag>,
}

impl<'a> Checks<'a> {
    pub(super) fn new(options: &'a Options) -> Self {
        Self { options, lines: Vec::new(), diags: Vec::new() }
    }
    fn file(
        &mut self,
        name: &str,
        found: &HostTensor,
        file: &str,
        expected: Result<HostTensor, Diag>,
    ) {
        match expected {
            Ok(expected) => self.pair(name, found, file, &expected),
            Err(diag) => self.diags.push(diag),
        }
    }
    /// Compares one output; `what` is what it is compared with.
    pub(super) fn pair(
        &mut self,
        name: &str,
        found: &HostTensor,
        what: &str,
        expected: &HostTensor,
    ) {
        match compare(found, expected, self.options.given) {
            Ok(result) if result.is_equal() => self.lines.push(equal(name, what, &result)),
            Ok(result) => self.diags.push(differs(name, what, &result)),
            Err(error) => {
                let message = format!("{name} cannot be compared with {what}: {}", error.message);
                self.diags.push(Diag::global(errors::DIFFERS, message));
            }
        }
    }
    /// One line for each comparison, or what is wrong.
    ///
    /// # Errors
    /// All comparisons that differ.
    pub(super) fn finish(self) -> Result<Vec<String>, Failure> {
        if self.diags.is_empty() { Ok(self.lines) } else { Err(self.diags.into()) }
    }
}

/// `T2: equal to the reference `plain.hir` within rtol=1e-4 atol=3.2e-4 (worst |difference| 1.2e-7 at [3, 1, 0])`
fn equal(name: &str, what: &str, result: &Comparison) -> String {
    let worst = match &result.worst {
        Some(worst) => {
            format!("worst |difference| {} at {}", short(worst.difference), brackets(&worst.index))
        }
        None => "bit for bit".to_owned(),
    };
    format!("{name}: equal to {what} within {} ({worst})", tolerance(result))
}

fn differs(name: &str, what: &str, result: &Comparison) -> Diag {
    let (wrong, all) = (result.mismatches, result.elements);
    let message = format!("{name} differs from {what} in {wrong} of {all} elements");
    let mut diag = Diag::global(errors::DIFFERS, message);
    if let Some(worst) = &result.worst {
        let (index, found, expected) = (brackets(&worst.index), worst.found, worst.expected);
        let absolute = short(worst.difference);
        let mut sizes = format!("|difference| {absolute}");
        if expected != 0.0 && expected.is_finite() {
            let relative = short(worst.difference / expected.abs());
            sizes.push_str(&format!(", relative {relative}"));
        }
        let (found, expected) = (digits(found, result.wide), digits(expected, result.wide));
        diag = diag.note(format!("worst at {index}: {found} instead of {expected} ({sizes})"));
    }
    diag.note(format!("compared with {}; --rtol and --atol set others", tolerance(result)))
}

/// A number with as many digits as its type has.
fn digits(value: f64, wide: bool) -> String {
    if wide { value.to_string() } else { (value as f32).to_string() }
}

fn tolerance(result: &Comparison) -> String {
    format!("rtol={} atol={}", short(result.tolerance.rtol), short(result.tolerance.atol))
}
