//! Comparisons of the outputs of two exact runs.

use super::inputs::shard_places;
use super::run::ExactRun;
use super::value::ExactValue;
use crate::diag::message;
use crate::diag::{Diag, codes};
use crate::lower::{PreparedProgram, unravel_index};

/// The place of an element of an output on a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct OutputPlace {
    /// The output.
    pub(super) output: usize,
    /// The rank.
    pub(super) rank: usize,
    /// The element's place in the rank's shard.
    pub(super) element: usize,
}

/// An output whose elements differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct OutputDifference {
    /// The first element that differs, in the program.
    pub(super) place: OutputPlace,
    /// The same element in the reference.
    pub(super) expected: OutputPlace,
    /// Its index in the whole tensor.
    pub(super) index: Vec<usize>,
    /// Number of elements that differ on some rank.
    pub(super) elements: usize,
    /// Number of elements of the whole tensor.
    pub(super) of_all: usize,
}

/// A program and a run of it.
#[derive(Clone, Copy)]
pub(super) struct RanProgram<'r> {
    /// The program.
    pub(super) prepared: &'r PreparedProgram,
    /// The run.
    pub(super) run: &'r ExactRun,
}

/// An element of a whole output, with the first rank that holds it.
#[derive(Clone, Copy, Debug)]
struct OwnedElement {
    place: OutputPlace,
    value: ExactValue,
}

/// Returns the value at a place.
pub(super) fn value_at(run: &ExactRun, place: OutputPlace) -> Option<ExactValue> {
    let column = run.outputs.get(place.rank)?.get(place.output)?.as_ref()?;
    column.values.get(place.element).copied()
}

/// Compares an output of two runs; gives the first difference on the lowest rank.
///
/// # Errors
/// Elements of the program's output that no rank holds.
pub(super) fn compare_output(
    program: RanProgram<'_>,
    reference: RanProgram<'_>,
    output: usize,
) -> Result<Option<OutputDifference>, Diag> {
    let (expected, _) = whole_output(reference, output);
    let (found, replicas) = whole_output(program, output);
    let RanProgram { prepared, run } = program;
    let io_tensor = &prepared.outputs[output];
    if found.iter().any(Option::is_none) {
        let message = message!("output {} has elements without memory at the end of the program", io_tensor.name);
        return Err(Diag::error(codes::UNWRITTEN_OUTPUT, prepared.labels.tensor_span(io_tensor.tensor), message));
    }
    let mut differing = vec![false; expected.len()];
    let mut first = None;
    for (place, whole) in replicas {
        let (Some(value), Some(Some(owned))) = (value_at(run, place), expected.get(whole)) else { continue };
        if !is_same_value(value, owned.value) {
            differing[whole] = true;
            first = first.or(Some((place, owned.place, whole)));
        }
    }
    let shape = io_tensor.whole_shape();
    Ok(first.map(|(place, expected, whole)| OutputDifference {
        place,
        expected,
        index: unravel_index(&shape, whole),
        elements: differing.iter().filter(|differs| **differs).count(),
        of_all: differing.len(),
    }))
}

/// Finds an element of an output that ranks of one program hold with different values.
pub(super) fn differing_replica(side: RanProgram<'_>, output: usize) -> Option<Vec<usize>> {
    let (owners, replicas) = whole_output(side, output);
    let wrong = replicas.into_iter().find(|(place, whole)| {
        let owner = owners.get(*whole).copied().flatten();
        let value = value_at(side.run, *place);
        value.zip(owner).is_some_and(|(value, owner)| !is_same_value(value, owner.value))
    });
    wrong.map(|(_, whole)| unravel_index(&side.prepared.outputs[output].whole_shape(), whole))
}

/// An output by element, and the elements that each place of each rank holds.
fn whole_output(
    RanProgram { prepared, run }: RanProgram<'_>,
    output: usize,
) -> (Vec<Option<OwnedElement>>, Vec<(OutputPlace, usize)>) {
    let io_tensor = &prepared.outputs[output];
    let mut owners = vec![None; io_tensor.whole_shape().iter().product()];
    let mut replicas = Vec::new();
    for (rank, outputs) in run.outputs.iter().enumerate() {
        let column = outputs.get(output).and_then(Option::as_ref);
        let (Some(column), Some(places)) = (column, shard_places(io_tensor, rank as u32)) else { continue };
        for (element, (&value, whole)) in column.values.iter().zip(places).enumerate() {
            let place = OutputPlace { output, rank, element };
            owners[whole].get_or_insert(OwnedElement { place, value });
            replicas.push((place, whole));
        }
    }
    (owners, replicas)
}

fn is_same_value(a: ExactValue, b: ExactValue) -> bool {
    a == b || a.to_number() == b.to_number()
}
