//! The proof that two programs are equal.

use super::compare::{OutputDifference, RanProgram, compare_output, differing_replica};
use super::degree::RationalDegree;
use super::diagnosis::find_causes;
use super::hash::HashKeys;
use super::report;
use super::request::{ExactProof, ExactReport, ExactRequest, ExactSide, SideFailure};
use super::run::{ExactProgram, ExactRun, ExactSetting, run_exactly};
use super::value::{ExactValue, is_drawn};
use super::work::ExactNotes;
use crate::backend::cpu::check_room;
use crate::diag::Diag;
use crate::diag::components::PROOF;

/// The number of runs.
const SEEDS: u32 = 3;
/// The number of runs if the bound on a wrong verdict needs more.
const MOST_SEEDS: u32 = 12;
/// The bound on a wrong verdict.
const WANTED_ERROR: f64 = 1e-15;

/// Proves that a program computes the function of its reference, for all inputs of their sizes.
///
/// # Errors
/// If a run fails: by a deadlock, or by indices that are out of range or depend on floats.
///
/// ```
/// use hostir::backend::exact::{ExactRequest, prove_equal};
/// use hostir::lower::{SizeSettings, prepare_program};
///
/// let text = |function: &str| format!("\
/// %HostIrContainer {{ (T0_g_float[iS0{{2}}]) -> (T1_g_float[iS1{{2}}]) :
///   T1_g_float[iS1{{2}}] = {function};
/// }} // %HostIrContainer
/// ");
/// let prepare = |function: &str| {
///     let (programs, _) = hostir::load(&text(function));
///     prepare_program(&programs[0], &SizeSettings::default()).expect("all extents are constant")
/// };
/// let twice = prepare("T0_g_float[iS0{2}] + T0_g_float[iS0{2}]");
/// let doubled = prepare("T0_g_float[iS0{2}] * 2.0");
/// let request = ExactRequest { program: &twice, reference: &doubled, name: "doubled", given: &[], seed: 0 };
/// let proof = prove_equal(&request).expect("both run").proof.expect("they are equal");
/// assert!(proof.error < 1e-15);
/// ```
pub fn prove_equal(request: &ExactRequest<'_>) -> Result<ExactReport, SideFailure> {
    if let Some(diag) = report::different_shapes(request) {
        return Ok(ExactReport { proof: None, program: vec![diag], reference: Vec::new() });
    }
    check_room(memory_bytes(request)).map_err(|diag| SideFailure { side: ExactSide::Program, diags: vec![diag] })?;
    let mut runs = ExactRuns { request, notes: [ExactNotes::default(), ExactNotes::default()], error: 1.0, seeds: 0 };
    while runs.seeds < SEEDS || (runs.error > WANTED_ERROR && runs.seeds < MOST_SEEDS) {
        if let Some(diag) = runs.run_next()? {
            return Ok(runs.into_report(Err(diag)));
        }
    }
    let proof = ExactProof { seeds: runs.seeds, error: runs.error };
    Ok(runs.into_report(if proof.error > WANTED_ERROR { Err(report::weak_proof(request, proof)) } else { Ok(proof) }))
}

/// The bytes of all buffers of the larger program.
fn memory_bytes(request: &ExactRequest<'_>) -> u64 {
    let bytes = [request.program, request.reference].map(|prepared| {
        let buffers = prepared.plans.iter().flat_map(|plan| plan.buffers.iter());
        buffers.map(|(_, buffer)| (buffer.elements * size_of::<ExactValue>()) as u64).sum::<u64>()
    });
    bytes.into_iter().max().unwrap_or(0)
}

/// Runs of both programs, which have been equal so far.
struct ExactRuns<'r> {
    request: &'r ExactRequest<'r>,
    /// Of the program, and of the reference.
    notes: [ExactNotes; 2],
    /// The bound on a wrong verdict.
    error: f64,
    seeds: u32,
}

impl ExactRuns<'_> {
    fn exact_programs(&self) -> [ExactProgram<'_>; 2] {
        let request = self.request;
        [(request.program, 0), (request.reference, 1)].map(|(prepared, number)| ExactProgram {
            prepared,
            number,
            given: request.given,
        })
    }

    /// Runs both programs with another seed; gives the error if they differ.
    fn run_next(&mut self) -> Result<Option<Diag>, SideFailure> {
        let request = self.request;
        let keys = HashKeys { seed: request.seed.wrapping_mul(1 << 32) + u64::from(self.seeds), altered: None };
        let setting = ExactSetting { keys, change: None };
        let [program, reference] = self.exact_programs();
        let own = run_exactly(program, &setting).map_err(|diags| SideFailure { side: ExactSide::Program, diags })?;
        let expected =
            run_exactly(reference, &setting).map_err(|diags| SideFailure { side: ExactSide::Reference, diags })?;
        let mut different = None;
        for output in 0..request.program.results {
            let theirs = RanProgram { prepared: request.reference, run: &expected };
            if let Some(index) = differing_replica(theirs, output) {
                let diags = vec![report::reference_replicas(request, output, &index)];
                return Err(SideFailure { side: ExactSide::Reference, diags });
            }
            let compared = compare_output(RanProgram { prepared: request.program, run: &own }, theirs, output);
            let compared = compared.map_err(|diag| SideFailure { side: ExactSide::Program, diags: vec![diag] })?;
            different = different.or(compared);
        }
        let result = different
            .map(|difference| explain_difference(request, [program, reference], keys, &difference, [&own, &expected]));
        self.error *= run_error(&own, &expected, request.program.results);
        self.seeds += 1;
        tracing::debug!(
            target: PROOF,
            run = self.seeds,
            outputs = request.program.results,
            equal = result.is_none(),
            error = self.error,
            unknown_functions = own.notes.unknown.len(),
            "ran both programs exactly",
        );
        self.notes[0].add_notes(&own.notes);
        self.notes[1].add_notes(&expected.notes);
        Ok(result)
    }

    fn into_report(self, result: Result<ExactProof, Diag>) -> ExactReport {
        let request = self.request;
        let [own, expected] = &self.notes;
        let given = request.program.inputs.iter().filter(|io_tensor| !is_drawn(io_tensor.dtype));
        let mut program: Vec<Diag> = result.as_ref().err().cloned().into_iter().collect();
        program.extend(given.map(|io_tensor| report::given_values(request.program, io_tensor)));
        program.extend(report::unknown_functions(request.program, &own.unknown, &[]));
        let reference = report::unknown_functions(request.reference, &expected.unknown, &own.unknown);
        ExactReport { proof: result.ok(), program, reference }
    }
}

/// The error about an output that differs.
fn explain_difference(
    request: &ExactRequest<'_>,
    [program, reference]: [ExactProgram<'_>; 2],
    keys: HashKeys,
    difference: &OutputDifference,
    [own, expected]: [&ExactRun; 2],
) -> Diag {
    let mut notes = own.notes.clone();
    notes.add_notes(&expected.notes);
    let causes = find_causes(program, reference, keys, difference, &notes.subjects);
    let unknown: Vec<_> = notes.unknown.iter().map(|used| used.subject).collect();
    report::different_output(request, difference, &causes, &own.notes.unknown, &unknown)
}

/// A bound on the probability that two runs agree although the programs differ.
fn run_error(own: &ExactRun, expected: &ExactRun, results: usize) -> f64 {
    let degrees = (0..results).map(|output| output_degree(own, output).of_difference(output_degree(expected, output)));
    own.notes.counts.join_counts(expected.notes.counts).wrong_verdict(degrees.max().unwrap_or(0))
}

/// A bound on the degree of all elements of an output.
fn output_degree(run: &ExactRun, output: usize) -> RationalDegree {
    let degrees = run.outputs.iter().filter_map(|outputs| Some(outputs.get(output)?.as_ref()?.degree));
    degrees.reduce(RationalDegree::join_degrees).unwrap_or_default()
}
