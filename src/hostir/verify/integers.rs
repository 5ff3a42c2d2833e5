//! V47 and V48: scalars that must be integers: indices, bounds, streams, peers, roots and extents. A real or a truth
//! value in such a position is an error here if the text alone shows it, and a run-time error otherwise.

use crate::diag::message;
use crate::diag::{Diag, Diags, Message, Span, codes};
use crate::ir::places::tensor_span;
use crate::ir::{
    AttrKey, AttrValue, BinaryOp, DType, Expr, ExprId, IterDomain, IterType, Op, OpId, OpLayout, ParallelType, Program,
    TensorId, UnaryOp, Value, quoted_axis, quoted_bare_expr, quoted_expanded, quoted_expr, quoted_head, quoted_word,
};

/// Attributes of one integer.
const KEYS: &[AttrKey] = &[
    AttrKey::Index,
    AttrKey::StreamIndex,
    AttrKey::Size,
    AttrKey::Root,
    AttrKey::Peer,
    AttrKey::Element,
    AttrKey::SendPeer,
    AttrKey::RecvPeer,
    AttrKey::Dim,
    AttrKey::Count,
    AttrKey::Start,
    AttrKey::Stop,
    AttrKey::Step,
    AttrKey::Seed,
    AttrKey::Offset,
];

/// Functions that are real for every operand, without the `f` of float functions: no name here ends in one.
const REALS: &[&str] = &[
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cos",
    "cosh",
    "exp",
    "exp2",
    "expm1",
    "erfc",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "reciprocal",
    "rsqrt",
    "sigmoid",
    "silu",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
];

/// The kind of number that an expression has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NumberKind {
    Integer,
    Real,
    Truth,
}

/// Checks the declared extents of all tensors, and the integer operands of each op.
pub(super) fn check_integers(program: &Program, diags: &mut Diags) {
    for tensor in program.tensors().ids() {
        check_declaration(program, tensor, diags);
    }
    program.walk_with_units(&mut |id| check_op(program, id, diags));
}

/// Checks the declared extents of a tensor.
pub(super) fn check_declaration(program: &Program, tensor: TensorId, diags: &mut Diags) {
    let span = tensor_span(program, tensor);
    for domain in program.domains(tensor) {
        let parts = [Some(domain.extent), domain.start, domain.stop, domain.expanded];
        for expr in parts.into_iter().flatten() {
            needs_integer(
                program,
                expr,
                span,
                &|| message!("the extent of an axis of `{}`", program.quoted_tensor(tensor)),
                diags,
            );
        }
        check_broadcast(program, domain, span, diags);
    }
    for &extent in program.tensor(tensor).logical.iter().flatten() {
        needs_integer(
            program,
            extent,
            span,
            &|| message!("an extent of `logical` of `{}`", program.quoted_tensor(tensor)),
            diags,
        );
    }
}

/// Checks a broadcast: its extent is 1, and after `ex` comes its length where it is used.
fn check_broadcast(program: &Program, domain: &IterDomain, span: Span, diags: &mut Diags) {
    let plain = matches!(domain.parallel, ParallelType::Serial | ParallelType::Stream);
    let extent = program.exprs().as_int(domain.extent);
    let Some(extent) = extent.filter(|&extent| extent != 1) else { return };
    if domain.iter != IterType::Broadcast || !plain {
        return;
    }
    let text = quoted_axis(program, domain);
    let note = match domain.expanded {
        None => message!(
            "write `{}` for a broadcast that is expanded to that extent, or `{}` for an axis with elements of its own",
            quoted_expanded(program, domain),
            quoted_axis(program, &IterDomain { iter: IterType::Iteration, ..*domain })
        ),
        Some(_) => "write `{1 ex ..}`: the stored extent of a broadcast is 1".into(),
    };
    let message = message!("`{}` is a broadcast of extent {}, but must have extent 1", text, extent);
    diags.push(Diag::error(codes::BROADCAST_EXTENT, span, message).with_note(note));
}

/// Checks the integer operands of an op.
pub(super) fn check_op(program: &Program, id: OpId, diags: &mut Diags) {
    let op: &Op = program.op(id);
    let span = program.op_span(id);
    for (key, value) in &op.attrs {
        // Of an iota, start and step are elements.
        let element = op.kind.layout() == OpLayout::Factory && matches!(key, AttrKey::Start | AttrKey::Step);
        let integers: &[ExprId] = match value {
            AttrValue::Expr(expr) if KEYS.contains(key) && !element => std::slice::from_ref(expr),
            AttrValue::Exprs(list) if ![AttrKey::Elements, AttrKey::Init].contains(key) => list,
            AttrValue::Ranges(list) => list.as_flattened(),
            _ => &[],
        };
        for &expr in integers {
            needs_integer(
                program,
                expr,
                span,
                &|| message!("`{}` of `{}`", quoted_word(key.word()), quoted_head(op.kind.name())),
                diags,
            );
        }
    }
    if let Some(domain) = op.domain_attr(AttrKey::Domain) {
        let extent = program.domain(domain).extent;
        needs_integer(program, extent, span, &|| "the extent of the loop".into(), diags);
    }
    for value in op.operands.iter().chain(&op.results) {
        if let Value::Stream(expr) = value {
            needs_integer(program, *expr, span, &|| "the number of a stream".into(), diags);
        }
    }
}

fn needs_integer(program: &Program, expr: ExprId, span: Span, what: &dyn Fn() -> Message, diags: &mut Diags) {
    let found = match expr_kind(program, expr) {
        Some(NumberKind::Real) => "a real number",
        Some(NumberKind::Truth) => "a truth value",
        Some(NumberKind::Integer) | None => return,
    };
    let text = quoted_expr(program, expr);
    let message = message!("{} must be an integer, but is {}, `{}`", what(), found, text);
    let note = match program.is_hir2() {
        true => "write an integer; `i64(x)` converts a real, `where(c, 1, 0)` a truth value",
        false => "write an integer; `(int64_t)( x )` converts a real, `where( c, 1, 0 )` a truth value",
    };
    let part = quoted_bare_expr(program, expr);
    diags.push(Diag::error(codes::INTEGER_NEEDED, span, message).with_focus(part).with_note(note));
}

/// Returns the kind of an expression if the text alone decides it; names may have any kind.
fn expr_kind(program: &Program, expr: ExprId) -> Option<NumberKind> {
    match program.expr(expr) {
        Expr::Int(_) | Expr::Hex(_) | Expr::MeshCoordinate(..) => Some(NumberKind::Integer),
        Expr::Bool(_) | Expr::Typed(DType::Bool, _) => Some(NumberKind::Truth),
        Expr::Float(_) => Some(NumberKind::Real),
        Expr::Typed(dtype, _) => Some(if dtype.is_float() { NumberKind::Real } else { NumberKind::Integer }),
        Expr::Set(a) => expr_kind(program, *a),
        Expr::Unary(UnaryOp::Neg, a) => promoted_kind(expr_kind(program, *a)),
        Expr::Unary(UnaryOp::Not, _) => Some(NumberKind::Truth),
        Expr::Unary(UnaryOp::BitNot, _) => Some(NumberKind::Integer),
        Expr::Unary(UnaryOp::Dereference | UnaryOp::Address, _) => None,
        Expr::Binary(op, a, b) => match op {
            BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Ge | BinaryOp::Gt => Some(NumberKind::Truth),
            BinaryOp::Le | BinaryOp::Lt | BinaryOp::And | BinaryOp::Or => Some(NumberKind::Truth),
            _ => arithmetic_kind(expr_kind(program, *a), expr_kind(program, *b)),
        },
        Expr::Call(name, args) => {
            let args: Vec<Option<NumberKind>> = args.iter().map(|&arg| expr_kind(program, arg)).collect();
            call_kind(program.name(*name), &args)
        }
        Expr::Name(_) | Expr::Index(..) | Expr::Field(..) => None,
        Expr::Braces(_) | Expr::Struct(_) | Expr::MetaData(_) | Expr::RaggedExtents(_) => None,
    }
}

/// A truth value in arithmetic is 0 or 1.
fn promoted_kind(kind: Option<NumberKind>) -> Option<NumberKind> {
    kind.map(|kind| if kind == NumberKind::Real { NumberKind::Real } else { NumberKind::Integer })
}

fn arithmetic_kind(a: Option<NumberKind>, b: Option<NumberKind>) -> Option<NumberKind> {
    match (promoted_kind(a), promoted_kind(b)) {
        (Some(NumberKind::Real), _) | (_, Some(NumberKind::Real)) => Some(NumberKind::Real),
        (Some(_), Some(_)) => Some(NumberKind::Integer),
        _ => None,
    }
}

fn call_kind(name: &str, args: &[Option<NumberKind>]) -> Option<NumberKind> {
    match (name, args) {
        (_, [_]) if REALS.contains(&name.strip_suffix('f').unwrap_or(name)) => Some(NumberKind::Real),
        ("isfinite" | "isnan" | "isinf" | "isneginf" | "isposinf", [_]) => Some(NumberKind::Truth),
        ("atan2" | "atan2f", [_, _]) | ("lerp", [_, _, _]) => Some(NumberKind::Real),
        ("__to_float" | "__to_double", [_]) => Some(NumberKind::Real),
        ("__to_bool", [_]) => Some(NumberKind::Truth),
        ("ceilDiv" | "gcd", [_, _]) => Some(NumberKind::Integer),
        ("abs", [a]) => promoted_kind(*a),
        ("pow" | "remainder" | "fmod" | "fmodf", [a, b]) => arithmetic_kind(*a, *b),
        ("where", [_, a, b]) | ("max" | "min" | "fmax" | "fmin", [a, b]) if a == b => *a,
        _ => None,
    }
}
