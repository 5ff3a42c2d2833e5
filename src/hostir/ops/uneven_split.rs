//! Axes that are parts of extents with a remainder: an error of ops that give memory other axes.

use crate::diag::message;
use crate::diag::{Diag, codes};
use crate::ir::{BinaryOp, Expr, ExprId, TensorId, quoted_expr};
use crate::plan::PlanBuilder;

/// The error for an axis that is a part of an extent, `( i0 / 4 )`, if that is no multiple of the number of parts.
pub(crate) fn uneven_split(cx: &PlanBuilder<'_>, tensors: &[TensorId]) -> Option<Diag> {
    let found = tensors.iter().find_map(|&tensor| {
        let mut axes = cx.axes.stored_axes(tensor).zip(0..);
        axes.find_map(|(axis, at)| Some((tensor, at, inexact_division(cx, axis.extent)?)))
    });
    let (tensor, at, (extent, value, parts)) = found?;
    let (name, text) = (cx.quoted_tensor(tensor), quoted_expr(cx.program, extent));
    let message =
        message!("axis {} of {} is one of {} parts of `{}`, but `{}` is {}", at, name, parts, text, text, value);
    let note = message!(
        "use a size that is a multiple of {}, or split the axis into another number of parts (`factor=` where `chunk` split it, `chunks=` where `matmul-reduce-scatter` did)",
        parts
    );
    Some(cx.error_here(codes::SHAPES, message).with_note(note))
}

/// The division in an extent that leaves a remainder: the dividend, its value, and the divisor.
fn inexact_division(cx: &PlanBuilder<'_>, extent: ExprId) -> Option<(ExprId, i64, i64)> {
    match *cx.program.expr(extent) {
        Expr::Binary(BinaryOp::Div, a, b) => {
            let (value, parts) = (cx.eval_int(a).ok()?, cx.eval_int(b).ok()?);
            if value.checked_rem(parts)? != 0 {
                return Some((a, value, parts));
            }
            inexact_division(cx, a)
        }
        Expr::Binary(_, a, b) => inexact_division(cx, a).or_else(|| inexact_division(cx, b)),
        _ => None,
    }
}
