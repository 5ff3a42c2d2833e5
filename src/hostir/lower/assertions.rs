//! Assertions about sizes, which are checked before anything that depends on these sizes: an author's own words come
//! before the errors that they explain.

use crate::diag::{Diag, Diags, codes};
use crate::ir::Program;
use crate::ops::observe::{asserted_condition, describe_failure};
use crate::plan::{ExtentEnv, evaluate_scalar};

/// Reports the assertions outside of loops and branches that are false for these sizes. A condition that needs more
/// than sizes is evaluated in the plan of each rank.
pub(super) fn check_assertions(program: &Program, env: &ExtentEnv, diags: &mut Diags) {
    for &id in &program.block(program.body()).ops {
        let Some(condition) = asserted_condition(program.op(id)) else { continue };
        let is_false = evaluate_scalar(program, env, condition).is_some_and(|value| !value.as_bool());
        if is_false {
            let (message, note) = describe_failure(program, id, condition, |part| evaluate_scalar(program, env, part));
            let diag = Diag::error(codes::ASSERTION, program.op_span(id), message);
            diags.push(note.into_iter().fold(diag, Diag::with_note));
        }
    }
}
