//! V50: no cycles among `Index definitions:`.

use crate::diag::message;
use crate::diag::{Diag, Diags, codes};
use crate::ir::{IndexDefinitions, OpId, Program, Symbol};
use rustc_hash::FxHashMap;

/// The maximum number of definitions of a cycle that an error shows.
const SHOWN: usize = 8;

/// A definition on the path: its name, its statement, and its uses that remain to be followed.
type DefinitionStep = (Symbol, OpId, Vec<(Symbol, OpId)>);

/// The state of the search at a definition.
#[derive(Clone, Copy, PartialEq, Eq)]
enum VisitState {
    /// It waits for those that it uses.
    Open,
    /// Everything that it needs was looked at.
    Done,
}

/// Follows the uses of each definition; a use that leads back to a definition on the path closes a cycle.
pub(super) fn check_definitions(program: &Program, diags: &mut Diags) {
    let definitions = IndexDefinitions::new(program);
    let mut marks: FxHashMap<OpId, VisitState> = FxHashMap::default();
    for (name, op) in definitions.in_text_order() {
        let mut way: Vec<DefinitionStep> = Vec::new();
        let mut next = Some((name, op));
        while let Some((name, op)) = next.take().or_else(|| way.last_mut()?.2.pop()) {
            match marks.get(&op) {
                None => {
                    marks.insert(op, VisitState::Open);
                    way.push((name, op, definitions.needed_definitions(program, op)));
                }
                Some(VisitState::Open) => {
                    let start = way.iter().position(|(_, on, _)| *on == op).unwrap_or(0);
                    let circle = way[start..].iter().map(|(name, op, _)| (*name, *op)).collect();
                    diags.push(cycle_error(program, circle));
                }
                Some(VisitState::Done) => {}
            }
            while let Some((_, done, _)) = way.pop_if(|(_, _, left)| left.is_empty()) {
                marks.insert(done, VisitState::Done);
            }
        }
    }
}

/// The error for definitions each of which uses the next one, and the last one the first.
fn cycle_error(program: &Program, mut circle: Vec<(Symbol, OpId)>) -> Diag {
    let first = (0..circle.len()).min_by_key(|&k| circle[k].1).unwrap_or(0);
    circle.rotate_left(first);
    let name = |k: usize| program.name(circle[k % circle.len()].0);
    let span = program.op_span(circle[0].1);
    let message = match circle.len() {
        1 => format!("the definition of `{}` depends on itself", name(0)),
        2 => format!("the definitions of `{}` and `{}` depend on each other", name(0), name(1)),
        count => {
            format!("the definitions of `{}` and {} others form a cycle", name(0), count - 1)
        }
    };
    let mut diag = Diag::error(codes::DEFINITION_CIRCLE, span, message);
    for (k, &(_, op)) in circle.iter().enumerate().take(SHOWN).skip(1) {
        diag = diag.with_label(program.op_span(op), message!("`{}` uses `{}`", name(k), name(k + 1)));
    }
    if let Some(primary) = diag.primary.as_mut().filter(|_| circle.len() > 1) {
        primary.text = format!("`{}` uses `{}`", name(0), name(1)).into();
    }
    if circle.len() > SHOWN {
        diag = diag.with_note(message!(
            "{} more definitions are in the cycle between `{}` and `{}`",
            circle.len() - SHOWN,
            name(SHOWN - 1),
            name(0)
        ));
    }
    diag.with_note("compute one of the scalars from an extent, the index of a loop or `rank`: a definition must not lead back to its own name")
}
