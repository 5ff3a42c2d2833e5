//! Expressions as messages about a text in `hir 2` write them: with its words, and as few parentheses as possible.

use super::expr::{BinaryOp, Expr};
use super::functions::cast_result;
use super::hir2_words::word_of_dtype;
use super::ids::ExprId;
use super::program::Program;
use super::text::expr_text;

/// The name of the number of streams in the printed form.
pub(super) const STREAM_COUNT: &str = "numberOfStreams";

/// The strength of prefix operators; more than that of all infix operators.
const PREFIX: u8 = 11;

/// An expression in the spelling of `hir 2`: `(rank + 1) % p`. Parts without a spelling there are as the printed form
/// writes them.
pub fn short_expr_text(program: &Program, expr: ExprId) -> String {
    let mut out = String::new();
    push_short(program, expr, 0, &mut out);
    out
}

/// Adds an operand of an operator that binds so strongly.
fn push_short(program: &Program, id: ExprId, least: u8, out: &mut String) {
    match program.expr(id) {
        Expr::Typed(dtype, value) => *out += &format!("{}({})", word_of_dtype(*dtype), program.name(*value)),
        Expr::Name(name) => match program.name(*name) {
            STREAM_COUNT => *out += "streams",
            "deviceIdx.x" => *out += "x",
            text => *out += text,
        },
        Expr::MeshCoordinate(mesh, coordinate) => {
            *out += &format!("{}.{}", program.mesh_name(Some(*mesh)), coordinate.word());
        }
        Expr::Set(inner) if !matches!(program.expr(*inner), Expr::MetaData(_)) => {
            push_short(program, *inner, least, out);
        }
        Expr::Unary(op, a) => {
            let is_simple = !matches!(program.expr(*a), Expr::Int(_) | Expr::Unary(..));
            *out += op.symbol();
            push_in_brackets(program, *a, if is_simple { PREFIX } else { 0 }, !is_simple, out);
        }
        Expr::Binary(op, a, b) => push_infix(program, id, *op, [*a, *b], least, out),
        Expr::Call(name, args) => {
            let name = program.name(*name);
            match cast_result(name).filter(|_| name.starts_with("__to_")) {
                Some(dtype) => *out += word_of_dtype(dtype),
                None => *out += name,
            }
            push_list(program, args, out);
        }
        Expr::Int(value) if *value < 0 && least > PREFIX => *out += &format!("({value})"),
        _ => *out += &expr_text(program, id),
    }
}

fn push_infix(program: &Program, id: ExprId, op: BinaryOp, [a, b]: [ExprId; 2], least: u8, out: &mut String) {
    if let Some(parts) = wrapped_parts(program, id) {
        *out += "wrap";
        return push_list(program, &parts, out);
    }
    let strength = op.strength();
    let [left, right] = match op.is_comparison() {
        true => [BinaryOp::Lt.strength() + 1; 2],
        false => [strength, strength + 1],
    };
    *out += if least > strength { "(" } else { "" };
    push_short(program, a, left, out);
    *out += &format!(" {} ", op.symbol());
    push_short(program, b, right, out);
    *out += if least > strength { ")" } else { "" };
}

fn push_in_brackets(program: &Program, id: ExprId, least: u8, are_needed: bool, out: &mut String) {
    *out += if are_needed { "(" } else { "" };
    push_short(program, id, least, out);
    *out += if are_needed { ")" } else { "" };
}

fn push_list(program: &Program, items: &[ExprId], out: &mut String) {
    let items: Vec<String> = items.iter().map(|&item| short_expr_text(program, item)).collect();
    *out += &format!("({})", items.join(", "));
}

/// `e` and `n` of `( ( ( e % n ) + n ) % n )`, which is `wrap(e, n)`.
pub fn wrapped_parts(program: &Program, id: ExprId) -> Option<[ExprId; 2]> {
    let &Expr::Binary(BinaryOp::Mod, sum, n) = program.expr(id) else { return None };
    let &Expr::Binary(BinaryOp::Add, remainder, added) = program.expr(sum) else { return None };
    let &Expr::Binary(BinaryOp::Mod, e, divisor) = program.expr(remainder) else { return None };
    (added == n && divisor == n).then_some([e, n])
}
