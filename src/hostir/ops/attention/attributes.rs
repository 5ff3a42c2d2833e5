//! The attributes of attention.

use crate::ir::{AttrKey, Expr, Op, Program};

/// The probability with which a weight becomes zero.
pub(super) const DROPOUT: AttrKey = AttrKey::Own(0);
/// True if a query sees only the keys up to its own place.
pub(super) const CAUSAL: AttrKey = AttrKey::Own(1);
/// The factor of the scores; the inverse root of the elements of a head unless it is given.
pub(super) const SCALE: AttrKey = AttrKey::Own(2);

/// The reason why a causal mask is a square, and the repair.
pub(super) const CAUSAL_NOTE: &str =
    "whether the first or the last query sees all keys is not defined; say it with `mask=` and `is_causal=false`";

/// The value of `is_causal`, if the text says it.
pub(super) fn written_causal(program: &Program, op: &Op) -> Option<bool> {
    match program.expr(op.expr_attr(CAUSAL)?) {
        Expr::Bool(causal) => Some(*causal),
        _ => None,
    }
}
