//! The types of the results of reductions: all axes of the operand, the reduced ones as `r.`.

use super::written_type::{WrittenType, axis_word};
use crate::ir::{AttrKey, IterDomain, IterType, Op, Program, TensorId};
use crate::ops::result_types::stored_domains;

/// The type of the result of a reduction: the axes of the operand that the declared type does not have are reduced, and
/// the last one if it has all or others.
pub(super) fn reduced_type(program: &Program, op: &Op) -> Option<WrittenType> {
    op.word_attr(AttrKey::ReduceOp)?;
    let (operand, result) = (op.input_tensors().next()?, op.output_tensors().next()?);
    let stored = stored_domains(program, operand);
    let reduced = left_out(program, &stored, result).unwrap_or_else(|| vec![stored.len().saturating_sub(1)]);
    let axes = stored.iter().enumerate().map(|(at, domain)| {
        let iter = if reduced.contains(&at) { IterType::Reduction } else { domain.iter };
        axis_word(program, &IterDomain { iter, ..*domain })
    });
    Some(WrittenType { dtype: program.tensor(operand).dtype, axes: axes.collect() })
}

/// The axes of an operand that the type of a result does not have; `None` if it has all of them, or others.
fn left_out(program: &Program, stored: &[IterDomain], result: TensorId) -> Option<Vec<usize>> {
    let mut written = program.domains(result).iter().peekable();
    let mut reduced: Vec<usize> = Vec::new();
    for (at, domain) in stored.iter().enumerate() {
        match written.peek() {
            Some(next) if next.extent == domain.extent && (next.is_reduction() || next.parallel == domain.parallel) => {
                reduced.extend(next.is_reduction().then_some(at));
                written.next();
            }
            _ => reduced.push(at),
        }
    }
    (written.next().is_none() && !reduced.is_empty()).then_some(reduced)
}
