//! V21 to V24: HostUnits and their posts.

use crate::diag::message;
use crate::diag::{Diag, Diags, codes};
use crate::ir::places::tensor_span;
use crate::ir::{OpEffect, Program, quoted_head};
use rustc_hash::FxHashMap;

/// Checks the units themselves: one for each number (V21), tensor ops only (V22).
pub(super) fn check_units(program: &Program, diags: &mut Diags) {
    let mut numbers = FxHashMap::default();
    for (id, unit) in program.units().iter() {
        if numbers.insert(unit.number, id).is_some() {
            let message = message!("{} is defined twice", program.unit_name(unit.number));
            let tensor = unit.outputs.iter().chain(&unit.inputs).find_map(|value| value.as_tensor());
            let diag = match tensor {
                Some(tensor) => Diag::error(codes::DUPLICATE_UNIT, tensor_span(program, tensor), message),
                None => Diag::global_error(codes::DUPLICATE_UNIT, message),
            };
            diags.push(diag.with_note("renumber one of them"));
        }
        program.walk(unit.body, &mut |id| {
            let kind = program.op(id).kind;
            if kind.effect() != OpEffect::Pure && kind.effect() != OpEffect::Alias {
                let message = message!(
                    "`{}` is not allowed in {}, which only contains tensor ops",
                    quoted_head(kind.name()),
                    program.unit_name(unit.number)
                );
                diags.push(Diag::error(codes::OP_IN_UNIT, program.op_span(id), message));
            }
        });
    }
}
