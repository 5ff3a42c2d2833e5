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
    let (tensor, at, UnevenDivision { extent, divisor, value, parts }) = found?;
    let (name, text) = (cx.quoted_tensor(tensor), quoted_expr(cx.program, extent));
    let message =
        message!("axis {} of {} is one of {} parts of `{}`, but `{}` is {}", at, name, parts, text, text, value);
    let is_named = cx.program.exprs().as_int(divisor).is_none();
    let note = match (cx.program.is_hir2(), is_named) {
        (true, true) => {
            let count = quoted_expr(cx.program, divisor);
            message!(
                "`{}` is {}, which does not divide {}: give `{}` one of {}, or `{}` a multiple of {}",
                count.clone(),
                parts,
                value,
                count,
                divisors_text(value),
                text,
                parts
            )
        }
        (true, false) => {
            message!("use a size of which {} is a divisor, or one of {} parts", parts, divisors_text(value))
        }
        (false, _) => message!(
            "use a size that is a multiple of {}, or split the axis into another number of parts (`factor=` where `chunk` split it, `chunks=` where `matmul-reduce-scatter` did)",
            parts
        ),
    };
    Some(cx.error_here(codes::SHAPES, message).with_note(note))
}

/// An extent that leaves a remainder when it is divided.
struct UnevenDivision {
    extent: ExprId,
    divisor: ExprId,
    value: i64,
    parts: i64,
}

/// The most divisors that a note lists.
const MOST_DIVISORS: usize = 8;

/// The largest number whose divisors are listed.
const MOST_DIVIDED: i64 = 1 << 16;

/// `2, 3, 4, 6`: numbers of parts into which so many elements can be split.
fn divisors_text(value: i64) -> String {
    let found = (2..=value.min(MOST_DIVIDED)).filter(|part| value % part == 0).map(|part| part.to_string());
    let found: Vec<String> = found.take(MOST_DIVISORS).collect();
    found.join(", ")
}

/// The division in an extent that leaves a remainder.
fn inexact_division(cx: &PlanBuilder<'_>, extent: ExprId) -> Option<UnevenDivision> {
    match *cx.program.expr(extent) {
        Expr::Binary(BinaryOp::Div, a, b) => {
            let (value, parts) = (cx.eval_int(a).ok()?, cx.eval_int(b).ok()?);
            if value.checked_rem(parts)? != 0 {
                return Some(UnevenDivision { extent: a, divisor: b, value, parts });
            }
            inexact_division(cx, a)
        }
        Expr::Binary(_, a, b) => inexact_division(cx, a).or_else(|| inexact_division(cx, b)),
        _ => None,
    }
}
