//! Loops whose iterations run on streams of their own.

use crate::ir::scalar_names::loop_index;
use crate::ir::{AttrKey, BlockId, Expr, ExprId, IndexDefinitions, OpId, Program, Symbol, Value};

/// A loop whose iteration chooses a stream by the index, works there, returns to the caller's stream and makes it wait:
/// `for i in n on streams:`.
#[derive(Debug)]
pub(super) struct StreamLoop {
    pub(super) looped: OpId,
    /// The block that contains the loop.
    pub(super) holder: BlockId,
    pub(super) index: Symbol,
    /// The number of iterations.
    pub(super) stop: ExprId,
    /// The choice of the iteration's stream.
    pub(super) choice: OpId,
    /// The work.
    pub(super) work: Vec<OpId>,
    /// The choice of the caller's stream.
    pub(super) back: OpId,
    /// The ops that make the caller's stream wait for the iteration's.
    pub(super) join: OpId,
}

impl StreamLoop {
    /// The loops on streams of a program, in text order.
    pub(super) fn find_all(program: &Program) -> Vec<Self> {
        let mut found = Vec::new();
        let mut blocks = vec![program.body()];
        while let Some(block) = blocks.pop() {
            for &op in &program.block(block).ops {
                found.extend(Self::of_op(program, block, op));
                blocks.extend(program.op(op).blocks.iter().copied());
            }
        }
        found.sort_by_key(|one| program.op_span(one.looped).start);
        found
    }

    fn of_op(program: &Program, holder: BlockId, looped: OpId) -> Option<Self> {
        let op = program.op(looped);
        let index = loop_index(program, op).filter(|_| op.kind.is_loop())?;
        let [body] = op.blocks[..] else { return None };
        let stop = iteration_count(program, looped)?;
        let [choice, ref work @ .., back, join] = program.block(body).ops[..] else { return None };
        let own = chosen_stream(program, choice).filter(|&stream| mentions(program, stream, index))?;
        chosen_stream(program, back).filter(|&stream| !mentions(program, stream, index))?;
        let joins = program.op(join).kind.is_synchronization() && named_stream(program, join) == Some(own);
        let work = work.to_vec();
        let is_plain = joins && work.iter().all(|&op| !moves_streams(program, op)) && !is_defined_from(program, index);
        is_plain.then_some(Self { looped, holder, index, stop, choice, work, back, join })
    }

    /// The op before which statements that precede all iterations belong: the loop before this one that makes the
    /// iterations' streams wait for the caller's, if there is one.
    pub(super) fn first_op(&self, program: &Program) -> OpId {
        let ops = &program.block(self.holder).ops;
        let before = ops.iter().position(|&op| op == self.looped).and_then(|at| ops.get(at.checked_sub(1)?));
        before.copied().filter(|&op| is_fork(program, op)).unwrap_or(self.looped)
    }
}

/// The number of iterations of a loop that counts from 0 in steps of 1.
fn iteration_count(program: &Program, looped: OpId) -> Option<ExprId> {
    let op = program.op(looped);
    let [start, stop, step] = [AttrKey::Start, AttrKey::Stop, AttrKey::Step].map(|key| op.expr_attr(key));
    let extent = op.domain_attr(AttrKey::Domain).map(|domain| program.domain(domain).extent);
    stop.or(extent).filter(|_| is_absent_or(program, start, 0) && is_absent_or(program, step, 1))
}

fn is_absent_or(program: &Program, expr: Option<ExprId>, value: i64) -> bool {
    expr.is_none_or(|expr| program.exprs().as_int(expr) == Some(value))
}

/// An op and the ops inside of it, in text order.
pub(super) fn op_with_inner(program: &Program, op: OpId) -> Vec<OpId> {
    let mut all = vec![op];
    program.walk_inside(op, &mut |inner| all.push(inner));
    all
}

fn named_stream(program: &Program, op: OpId) -> Option<ExprId> {
    program.op(op).operands.iter().find_map(|value| match value {
        Value::Stream(stream) => Some(*stream),
        _ => None,
    })
}

fn chosen_stream(program: &Program, op: OpId) -> Option<ExprId> {
    if program.op(op).kind.is_stream_choice() { named_stream(program, op) } else { None }
}

/// Returns true if an expression has a name, without regard to definitions.
pub(super) fn mentions(program: &Program, expr: ExprId, name: Symbol) -> bool {
    match program.expr(expr) {
        Expr::Name(found) => *found == name,
        other => crate::ir::scalar_names::sub_expressions(other).into_iter().any(|part| mentions(program, part, name)),
    }
}

/// Returns true if some definition is computed from the index.
fn is_defined_from(program: &Program, index: Symbol) -> bool {
    let definitions = IndexDefinitions::new(program);
    definitions.in_text_order().into_iter().any(|(_, op)| {
        let mut operands = program.op(op).operands.iter().filter_map(|value| value.as_scalar());
        operands.any(|expr| definitions.depends_on(program, expr, index))
    })
}

/// Returns true if an op, or one inside of it, names, chooses or joins a stream.
fn moves_streams(program: &Program, op: OpId) -> bool {
    op_with_inner(program, op).into_iter().any(|op| program.op(op).kind.is_stream_op())
}

/// Returns true for a loop that makes other streams wait for one.
fn is_fork(program: &Program, op: OpId) -> bool {
    let looped = program.op(op);
    let [body] = looped.blocks[..] else { return false };
    let [choice, wait] = program.block(body).ops[..] else { return false };
    let waits = program.op(wait).kind.is_synchronization();
    looped.kind.is_loop() && program.op(choice).kind.is_stream_choice() && waits
}
