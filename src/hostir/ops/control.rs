//! Loops and branches.

use super::spec::{ArgKind, ArgSpec, Infer, Lower, OpSpec};
use crate::diag::message;
use crate::diag::{Diag, Diags, codes};
use crate::ir::{
    AttrKey, AttrValue, ControlEffect, DomainId, ExprId, Op, OpEffect, OpId, OpIdentity, OpKind, OpLayout, OwnForm,
    Program, Symbol, Value, quoted_head,
};

/// Predicate kinds of an IF in a host program.
pub const PREDICATES: &[&str] = &["Manual"];

/// `FOR`.
pub const FOR: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "FOR",
        layout: OpLayout::Own(OwnForm::LoopOverDomain),
        results: 0,
        effect: OpEffect::Control(ControlEffect::Loop),
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Runs its block once for each index of a domain: `FOR i in iS0{8}:`.",
    args: &[
        ArgSpec::positional(AttrKey::Index, ArgKind::Expr),
        ArgSpec::positional(AttrKey::Domain, ArgKind::Axis),
        ArgSpec::tight("start", AttrKey::Start, ArgKind::Expr).optional(),
        ArgSpec::tight("stop", AttrKey::Stop, ArgKind::Expr).optional(),
        ArgSpec::tight("step", AttrKey::Step, ArgKind::Expr).optional(),
    ],
    relate: None,
    infer: Infer::Written,
    checks: &[check_loop_bounds, check_empty_block],
    repair: None,
    lower: Lower::Loop,
};

/// `FOR`.
pub const FOR_RANGE: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "FOR",
        layout: OpLayout::Own(OwnForm::LoopOverRange),
        results: 0,
        effect: OpEffect::Control(ControlEffect::Loop),
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Runs its block for the indices from a start up to a stop: `FOR i from 0 to 8:`.",
    args: &[
        ArgSpec::positional(AttrKey::Index, ArgKind::Expr),
        ArgSpec::positional(AttrKey::Start, ArgKind::Expr),
        ArgSpec::positional(AttrKey::Stop, ArgKind::Expr),
        ArgSpec::tight("step", AttrKey::Step, ArgKind::Expr).optional(),
    ],
    relate: None,
    infer: Infer::Written,
    checks: &[check_loop_bounds, check_empty_block],
    repair: None,
    lower: Lower::Loop,
};

/// `IF`.
pub const IF: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "IF",
        layout: OpLayout::Own(OwnForm::Branch),
        results: 0,
        effect: OpEffect::Control(ControlEffect::Branch),
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Runs its first block if the condition holds, else its second: `IF Manual ( i == rank ):`.",
    args: &[ArgSpec::positional(AttrKey::Predicate, ArgKind::Word(PREDICATES)), ArgSpec::operand(ArgKind::Expr)],
    relate: None,
    infer: Infer::Written,
    checks: &[check_empty_block],
    repair: None,
    lower: Lower::Branch,
};

/// `FOR i in iS0{8}:` without its block.
pub fn loop_over_domain_op(index: ExprId, domain: DomainId) -> Op {
    let attrs = vec![(AttrKey::Index, AttrValue::Expr(index)), (AttrKey::Domain, AttrValue::Domain(domain))];
    Op { attrs, ..Op::new(OpKind::For) }
}

/// `FOR i from 0 to 8:` without its block.
pub fn loop_over_range_op(index: ExprId, start: ExprId, stop: ExprId) -> Op {
    let attrs = vec![
        (AttrKey::Index, AttrValue::Expr(index)),
        (AttrKey::Start, AttrValue::Expr(start)),
        (AttrKey::Stop, AttrValue::Expr(stop)),
    ];
    Op { attrs, ..Op::new(OpKind::ForRange) }
}

/// `IF Manual ( i == rank ):` without its blocks.
pub fn branch_op(predicate: Symbol, condition: ExprId) -> Op {
    let attrs = vec![(AttrKey::Predicate, AttrValue::Word(predicate))];
    Op { attrs, ..Op::new(OpKind::If) }.with_operand(Value::Scalar(condition))
}

/// V28: the bounds of a loop.
fn check_loop_bounds(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let [start, stop, step] = [AttrKey::Start, AttrKey::Stop, AttrKey::Step]
        .map(|key| op.expr_attr(key).and_then(|expr| program.exprs().as_int(expr)));
    let span = program.op_span(id);
    if step.is_some_and(|step| step <= 0) {
        diags.push(Diag::error(codes::LOOP_BOUNDS, span, "the step of a loop must be positive"));
    }
    if start.is_some_and(|start| start < 0) {
        diags.push(Diag::error(codes::LOOP_BOUNDS, span, "the start of a loop must not be negative"));
    }
    if let (Some(start), Some(stop)) = (start, stop)
        && start > stop
    {
        let message = format!("the loop from {start} to {stop} runs backwards");
        diags.push(Diag::error(codes::LOOP_BOUNDS, span, message).with_note("loops count up from start to stop - 1"));
    }
    let extent = op.domain_attr(AttrKey::Domain).map(|domain| program.domain(domain).extent);
    if extent.and_then(|extent| program.exprs().as_int(extent)).is_some_and(|extent| extent < 0) {
        diags.push(Diag::error(codes::LOOP_BOUNDS, span, "the extent of a loop must not be negative"));
    }
}

/// Warns about a loop or a branch without effect. Passes leave an empty branch before an ELSE, as nvFuser does.
fn check_empty_block(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let empty = [0, 1].map(|at: usize| op.blocks.get(at).map(|&block| program.block(block).ops.is_empty()));
    let what = match empty {
        [Some(true), None | Some(true)] => message!("this `{}`", quoted_head(op.kind.name())),
        [Some(false), Some(true)] => message!("the `ELSE` of this `{}`", quoted_head("IF")),
        _ => return,
    };
    let message = message!("{} contains no statements", what);
    let note = match program.is_hir2() {
        true => "indent the statements that belong to it; the next line does not belong to it",
        false => {
            "indent the statements that belong to it, or enclose them in braces; the next line does not belong to it"
        }
    };
    diags.push(Diag::error(codes::EMPTY_BLOCK, program.op_span(id), message).with_note(note).into_warning());
}
