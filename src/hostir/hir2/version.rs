//! The version of the language that a text needs.

use crate::ir::{AttrKey, Op, OpEffect, Program, Value};

/// The first line of the text of these programs: the oldest version that has what they need. `has_new_head`: the head
/// has an import or a mesh by sizes.
pub(super) fn version_line(programs: &[Program], has_new_head: bool) -> &'static str {
    match has_new_head || programs.iter().any(needs_minor_version) {
        true => "hir 2.1\n",
        false => "hir 2\n",
    }
}

/// Returns true if an op of the program came with `hir 2.1`, or has what did: a communicator's name, teams along an axis
/// or of computed members, an element of an array of handles.
fn needs_minor_version(program: &Program) -> bool {
    let mut found = false;
    program.walk_with_units(&mut |id| found |= is_of_minor_version(program, program.op(id)));
    found
}

fn is_of_minor_version(program: &Program, op: &Op) -> bool {
    op.kind.effect() == OpEffect::Observe
        || [AttrKey::Comm, AttrKey::Over, AttrKey::Element, AttrKey::Kernel].iter().any(|key| op.attr(*key).is_some())
        || program.computed_team(op).is_some()
        || op
            .operands
            .iter()
            .any(|value| matches!(*value, Value::Op(inner) if is_of_minor_version(program, program.op(inner))))
}
