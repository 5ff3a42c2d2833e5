//! The types of the results of ops that change the shape of a tensor.

use super::links::axis_flags;
use crate::diag::{Message, message};
use crate::ir::{AttrKey, Expr, IterDomain, IterType, Op, ParallelType, Program, TensorId};
use crate::ops::result_types::{DomainList, TensorType, stored_domains};

/// broadcast: axes of extent 1 for set flags, the operand's for others.
pub(super) fn infer_broadcast(program: &Program, op: &Op, operands: &[TensorId]) -> Option<TensorType> {
    let operand = *operands.first()?;
    let one = program.exprs().find_expr(&Expr::Int(1))?;
    let new = IterDomain {
        iter: IterType::Broadcast,
        parallel: ParallelType::Serial,
        number: None,
        extent: one,
        start: None,
        stop: None,
        expanded: None,
        rfactor: false,
        padded: false,
        clustered: false,
    };
    let mut kept = stored_domains(program, operand).into_iter();
    let domains: Option<DomainList> =
        axis_flags(op)?.iter().map(|&flag| if flag { Some(new) } else { kept.next() }).collect();
    kept.next().is_none().then_some(())?;
    Some(TensorType::with_domains_of(program, operand, domains?))
}

/// The operand's axes without a flag.
pub(super) fn infer_squeeze(program: &Program, op: &Op, operands: &[TensorId]) -> Option<TensorType> {
    let operand = *operands.first()?;
    let (domains, flags) = (stored_domains(program, operand), axis_flags(op)?);
    let kept = domains.iter().zip(flags).filter(|(_, squeezed)| !**squeezed).map(|(domain, _)| *domain).collect();
    (domains.len() == flags.len()).then(|| TensorType::with_domains_of(program, operand, kept))
}

/// The reason why the order of a permutation gives its result no type.
pub fn explain_unknown_type(program: &Program, op: &Op) -> Option<Message> {
    let operand = op.input_tensors().next()?;
    let rank = stored_domains(program, operand).len();
    let takes_order = op.kind.spec().args.iter().any(|arg| arg.key == Some(AttrKey::Perm));
    let (name, tensor) = (op.kind.name(), program.quoted_tensor(operand));
    let message = message!("`{}` needs `perm=`, the axes of `{}` in their new order", name, tensor);
    (takes_order && op.ints_attr(AttrKey::Perm).is_none_or(|order| order.len() != rank)).then_some(message)
}
