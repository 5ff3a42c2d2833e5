//! Statements that look at a program without changing it: `Assert` and `Print`.
//!
//! They have no results, no pass removes or moves them, and a run without them computes the same.

use super::spec::{ArgKind, ArgSpec, Infer, Lower, OpSpec};
use crate::diag::{Diag, Diags, Message, Notation, codes, message};
use crate::ir::functions::ScalarValue;
use crate::ir::scalar_names::sub_expressions;
use crate::ir::{
    AttrKey, AttrValue, BinaryOp, Expr, ExprId, Op, OpEffect, OpId, OpIdentity, OpKind, OpLayout, Program, Symbol,
    Value, quoted_bare_expr, quoted_expr,
};
use crate::plan::{PlanBuilder, PrintedValue, constant_value, emit_copy};
use smallvec::SmallVec;

/// The text of an assertion, which says in the author's words what holds.
pub const MESSAGE: AttrKey = AttrKey::Own(0);

/// `Assert`.
pub const ASSERT: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "Assert",
        layout: OpLayout::Statement,
        results: 0,
        effect: OpEffect::Observe,
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Ends the planning with an error if a condition on sizes and scalars is false; a run does not evaluate it.",
    args: &[
        ArgSpec::keyed_operand("condition").of_kind(ArgKind::Expr),
        ArgSpec::tight("message", MESSAGE, ArgKind::Text).optional(),
    ],
    relate: None,
    infer: Infer::Written,
    checks: &[check_constant_assertion],
    repair: None,
    lower: Lower::Instructions(lower_assert),
};

/// `Print`.
pub const PRINT: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "Print",
        layout: OpLayout::Statement,
        results: 0,
        effect: OpEffect::Observe,
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Shows tensors and scalars as they are when their stream comes to the statement.",
    args: &[ArgSpec::operand(ArgKind::Operand).repeated()],
    relate: None,
    infer: Infer::Written,
    checks: &[],
    repair: None,
    lower: Lower::Instructions(lower_print),
};

/// The most prints of a rank.
const MOST_PRINTS: usize = 4096;

/// `Print(T0, i0)`
pub fn print_op(values: SmallVec<[Value; 2]>) -> Op {
    Op { operands: values, ..Op::new(OpKind::Print) }
}

/// Copies tensors on the current stream to memory of their own, which is read when the run has ended; the values of
/// scalars are known.
fn lower_print(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    if cx.plan.notes.prints.len() == MOST_PRINTS {
        let message = message!("a rank prints more than {} times", MOST_PRINTS);
        let note = "print in fewer iterations: `if i == 0:` before the `print`";
        return Err(cx.error_here(codes::PRINTS, message).with_note(note));
    }
    let notation = if cx.program.is_hir2() { Notation::Hir2 } else { Notation::Printed };
    let mut values = Vec::new();
    for operand in &cx.program.op(id).operands {
        match *operand {
            Value::Tensor(tensor) => {
                let view = cx.input_view(tensor)?;
                let copy = cx.new_scratch(tensor, &view.shape(), view.dtype)?;
                emit_copy(cx, view, copy.clone())?;
                values.push((cx.tensor_name(tensor), PrintedValue::Tensor(copy)));
            }
            Value::Scalar(expr) => {
                let value = cx.eval_scalar(expr)?;
                let name = message!("{}", quoted_bare_expr(cx.program, expr)).in_notation(notation);
                values.push((name.as_str().to_owned(), PrintedValue::Scalar(value)));
            }
            Value::Stream(_) | Value::Handle(_) | Value::Unit(_) | Value::Op(_) => {}
        }
    }
    cx.add_print(values);
    Ok(())
}

/// `Assert(condition=i0, message="text")`
pub fn assertion_op(condition: ExprId, text: Option<Symbol>) -> Op {
    let attrs = text.map(|text| (MESSAGE, AttrValue::Word(text))).into_iter().collect();
    Op { attrs, ..Op::new(OpKind::Assert) }.with_operand(Value::Scalar(condition))
}

/// The condition of an assertion; `None` for another op.
pub fn asserted_condition(op: &Op) -> Option<ExprId> {
    op.operands.first().filter(|_| op.kind == OpKind::Assert)?.as_scalar()
}

/// V60: an assertion about numbers alone.
fn check_constant_assertion(program: &Program, id: OpId, diags: &mut Diags) {
    let condition = asserted_condition(program.op(id));
    let Some(condition) = condition else { return };
    if constant_value(program, condition).is_some_and(|value| !value.as_bool()) {
        let (message, notes) = describe_failure(program, id, condition, |part| constant_value(program, part));
        diags.push(with_notes(Diag::error(codes::ASSERTION, program.op_span(id), message), notes));
    }
}

/// Evaluates the condition in the plan of a rank, where it may use the rank, loops' indices and definitions.
fn lower_assert(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let Some(condition) = asserted_condition(cx.program.op(id)) else {
        return Err(cx.error_here(codes::NEEDED, "the assertion has no condition"));
    };
    if cx.eval_scalar(condition)?.as_bool() {
        return Ok(());
    }
    let (message, notes) = describe_failure(cx.program, id, condition, |part| cx.eval_scalar(part).ok());
    Err(with_notes(cx.error_here(codes::ASSERTION, message), notes))
}

/// The message about a condition that is false, and the values of its names and of the sides of its comparison.
pub(crate) fn describe_failure(
    program: &Program,
    id: OpId,
    condition: ExprId,
    value_of: impl Fn(ExprId) -> Option<ScalarValue>,
) -> (Message, Option<Message>) {
    let message = match program.op(id).word_attr(MESSAGE) {
        Some(text) => message!("this assertion is false: {}", program.name(text)),
        None => message!("this assertion is false"),
    };
    let mut shown = Vec::new();
    collect_names(program, condition, &mut shown);
    for side in compared_sides(program, condition) {
        let is_literal = matches!(program.expr(side), Expr::Int(_) | Expr::Bool(_) | Expr::Float(_) | Expr::Typed(..));
        if !is_literal && !shown.contains(&side) {
            shown.push(side);
        }
    }
    let found = shown.into_iter().filter_map(|part| {
        let value = value_of(part)?;
        Some(message!("`{}` is {}", quoted_expr(program, part), value.to_string()))
    });
    let found: Vec<Message> = found.collect();
    let note = (!found.is_empty()).then(|| Message::join(&found, ", "));
    (message, note)
}

fn with_notes(diag: Diag, notes: Option<Message>) -> Diag {
    notes.into_iter().fold(diag, Diag::with_note)
}

/// The names in an expression, each once, in order.
fn collect_names(program: &Program, expr: ExprId, found: &mut Vec<ExprId>) {
    if matches!(program.expr(expr), Expr::Name(_) | Expr::MeshCoordinate(..)) && !found.contains(&expr) {
        found.push(expr);
    }
    for part in sub_expressions(program.expr(expr)) {
        collect_names(program, part, found);
    }
}

/// The two sides of a comparison.
fn compared_sides(program: &Program, expr: ExprId) -> Vec<ExprId> {
    use BinaryOp::{Eq, Ge, Gt, Le, Lt, Ne};
    match program.expr(expr) {
        Expr::Binary(Eq | Ne | Ge | Gt | Le | Lt, a, b) => vec![*a, *b],
        _ => Vec::new(),
    }
}
