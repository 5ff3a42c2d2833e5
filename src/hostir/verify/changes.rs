//! Verification after an edit, of what the edit may have made wrong.
//!
//! The rules of one op (V30 to V44, V47) depend on the op, the types of its tensors, its domains and, of a PostOnStream,
//! the unit. They are checked again for ops with a part that the edit changed, and for ops that were no part of the
//! program before. The classes of equal extents only grow: they keep what ops of the past implied, so they may have
//! more conflicts than the program, never fewer. Everything else is a rule about order, names or numbers, which is
//! checked for the whole program. Whatever is found is only a suspicion, for which the whole program is verified.

use super::{Diags, check_posts_and_names, check_structure, integers, join_checks, verify_with_state};
use crate::analysis::ExtentClasses;
use crate::ir::edit::EditedParts;
use crate::ir::{AttrValue, IdVec, OpEffect, OpId, OpIdentity, Program, TensorId, Value};

/// The results of verifying a valid program that the next verification, after an edit, starts from.
#[derive(Debug)]
pub struct VerifiedState {
    /// By op: true if it is a part of the program, and keeps the rules of single ops.
    checked: IdVec<OpId, bool>,
    /// The classes of extents that follow from the ops that were ever checked.
    extents: ExtentClasses,
}

/// Checks a program after an edit, given the state from before it; without one, the whole program. Returns the state
/// after the edit, `None` after an error. There are warnings only beside errors.
pub fn verify_edit(
    program: &Program,
    edited: &EditedParts,
    before: Option<VerifiedState>,
    diags: &mut Diags,
) -> Option<VerifiedState> {
    let mut found = Diags::default();
    let after = match before.filter(|_| !edited.is_global).and_then(|state| state.after_edit(program, edited)) {
        Some(state) => {
            debug_assert!(is_valid(program), "the edit made the program wrong, but only the whole shows it");
            Some(state)
        }
        None => verify_with_state(program, &mut found),
    };
    if found.has_errors() {
        diags.items.append(&mut found.items);
    }
    after
}

/// Returns true if the verification of the whole program finds no error.
fn is_valid(program: &Program) -> bool {
    let mut found = Diags::default();
    super::verify(program, &mut found);
    !found.has_errors()
}

impl VerifiedState {
    pub(super) fn new(checked: IdVec<OpId, bool>, extents: ExtentClasses) -> Self {
        Self { checked, extents }
    }

    /// The state after an edit; `None` if the program may have an error.
    fn after_edit(mut self, program: &Program, edited: &EditedParts) -> Option<Self> {
        let (are_ops_valid, (structure, names)) = join_checks(
            program,
            || self.check_edited_ops(program, edited),
            || check_structure(program),
            || check_posts_and_names(program),
        );
        (are_ops_valid && !structure.has_errors() && !names.has_errors()).then_some(self)
    }

    /// Checks the rules of single tensors and ops where they may have changed. Returns true if all hold, and the
    /// extents of all ops agree.
    fn check_edited_ops(&mut self, program: &Program, edited: &EditedParts) -> bool {
        let mut found = Diags::default();
        for tensor in program.tensors().ids().filter(|tensor| edited.tensors[*tensor]) {
            integers::check_declaration(program, tensor, &mut found);
            self.extents.link_mesh_axes(program, tensor);
        }
        let mut checked: IdVec<OpId, bool> = IdVec::filled(false, program.ops().len());
        let mut links = Vec::new();
        program.walk_with_units(&mut |id| {
            checked[id] = true;
            if self.checked.get(id) == Some(&true) && !may_break_rules(program, id, edited) {
                return;
            }
            links.clear();
            program.op(id).kind.spec().verify_links(program, id, &mut links, &mut found);
            self.extents.link_op(program, id, &links);
            integers::check_op(program, id, &mut found);
        });
        self.checked = checked;
        !found.has_errors() && self.extents.conflicts().is_empty()
    }
}

/// Returns true if an edit may have changed something that the rules of an op depend on.
fn may_break_rules(program: &Program, id: OpId, edited: &EditedParts) -> bool {
    let op = program.op(id);
    // Allocations depend on memory and on the inputs, blocks on what is in them, and a caller's op on anything.
    if edited.ops[id]
        || op.kind.effect() == OpEffect::Allocate
        || !op.blocks.is_empty()
        || op.kind.row() == usize::from(OpIdentity::NO_ROW)
    {
        return true;
    }
    let depends = |value: &Value| match *value {
        Value::Tensor(tensor) => edited.tensors[tensor],
        Value::Unit(number) => is_edited_unit(program, number, edited),
        Value::Op(_) => true,
        Value::Scalar(_) | Value::Stream(_) | Value::Handle(_) => false,
    };
    op.operands.iter().any(depends)
        || op.results.iter().any(depends)
        || op.attrs.iter().any(|(_, value)| match value {
            AttrValue::Tensor(tensor) => edited.tensors[*tensor],
            AttrValue::Domain(domain) => edited.domains[*domain],
            _ => false,
        })
}

/// Returns true if the unit with a number is new, or the type of an input or output of it changed.
fn is_edited_unit(program: &Program, number: u32, edited: &EditedParts) -> bool {
    let Some(id) = program.unit_by_number(number) else { return true };
    let unit = &program.units()[id];
    let mut tensors = unit.inputs.iter().chain(&unit.outputs).filter_map(|value| value.as_tensor());
    edited.units[id] || tensors.any(|tensor: TensorId| edited.tensors[tensor])
}
