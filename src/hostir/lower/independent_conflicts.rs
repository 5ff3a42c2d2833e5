//! Conflicts of sizes in a program that has errors in other statements.

use super::sizes::{SizeSettings, infer_sizes};
use crate::diag::{Diag, Diags, Severity, Span, codes};
use crate::ir::edit::Edit;
use crate::ir::{BlockId, GivenSizes, OpId, Program, TensorId};
use rustc_hash::FxHashSet;

/// Adds the conflicts of sizes among the statements without errors to the errors of a program that could be read: one
/// run tells both.
pub fn add_independent_conflicts(program: &Program, given: &GivenSizes, diags: &mut Diags) {
    let errors = diags.items.iter().filter(|diag| diag.severity == Severity::Error);
    let places: Option<Vec<Span>> = errors.map(|diag| Some(diag.primary.as_ref()?.span)).collect();
    let Some(mut places) = places else { return };
    let dependent = dependent_places(program, &places);
    places.extend(dependent);
    let mut rest = program.clone();
    remove_statements(&mut rest, &places);
    let GivenSizes { set, devices, every, .. } = given.clone();
    let settings = SizeSettings { set, devices, every, ..SizeSettings::default() };
    let mut found = Diags::default();
    infer_sizes(&rest, &settings, &mut found);
    diags.items.extend(found.items.into_iter().filter(|diag| is_independent(diag, &places)));
    diags.sort_by_place();
}

/// The places of the statements that use what statements at some places make: the types of tensors that those declare
/// may be wrong.
fn dependent_places(program: &Program, places: &[Span]) -> Vec<Span> {
    let outputs = program.outputs().iter().filter_map(|value| value.as_tensor());
    let mut declared: FxHashSet<TensorId> = outputs.collect();
    let mut unknown: FxHashSet<TensorId> = FxHashSet::default();
    let mut found = Vec::new();
    program.walk_with_units(&mut |id| {
        let (op, span) = (program.op(id), program.op_span(id));
        let is_wrong = op.blocks.is_empty() && places.iter().any(|place| are_joined(*place, span));
        let is_dependent = op.input_tensors().any(|input| unknown.contains(&input));
        if is_wrong || is_dependent {
            unknown.extend(op.output_tensors().filter(|tensor| !declared.contains(tensor)));
        }
        if is_dependent && op.blocks.is_empty() {
            found.push(span);
        }
        declared.extend(op.output_tensors());
    });
    found
}

fn is_independent(diag: &Diag, places: &[Span]) -> bool {
    let place = diag.primary.as_ref().map(|label| label.span);
    diag.code == codes::SIZE_CONFLICT
        && place.is_some_and(|place| !places.iter().any(|error| are_joined(*error, place)))
}

fn are_joined(one: Span, other: Span) -> bool {
    one.start < other.end && other.start < one.end
}

/// Removes the statements without blocks at some places.
fn remove_statements(program: &mut Program, places: &[Span]) {
    let blocks: Vec<BlockId> = program.blocks.ids().collect();
    for block in blocks {
        let is_right = |op: &OpId| {
            let span = program.op_span(*op);
            !program.op(*op).blocks.is_empty() || !places.iter().any(|place| are_joined(*place, span))
        };
        let right: Vec<OpId> = program.block(block).ops.iter().copied().filter(is_right).collect();
        if right.len() < program.block(block).ops.len() {
            let mut edit = Edit::new(program);
            edit.set_block(block, right);
            edit.commit();
        }
    }
}
