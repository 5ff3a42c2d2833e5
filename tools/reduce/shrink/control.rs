//! Loops and branches: the ops of one block in the place of the loop or branch. The index of a loop becomes its start.

use super::statements::drop_comments;
use crate::reducer::Reducer;
use hostir::analysis::storage::visit_host_ops;
use hostir::ir::edit::Edit;
use hostir::ir::scalar_names::loop_index;
use hostir::ir::{AttrKey, BlockId, Expr, ExprId, OpId, Program, Symbol, Value};

/// A block that may stand in the place of its op.
struct InnerBlock {
    program: usize,
    op: OpId,
    block: BlockId,
}

pub(crate) fn unwrap_blocks(reducer: &mut Reducer) {
    // Each success removes an op.
    while unwrap_one(reducer) {}
}

fn unwrap_one(reducer: &mut Reducer) -> bool {
    let subject = reducer.best().clone();
    let Some(programs) = subject.programs() else { return false };
    let inner: Vec<InnerBlock> =
        programs.iter().enumerate().flat_map(|(at, program)| inner_blocks(at, program)).collect();
    inner.iter().any(|inner| {
        let mut trial = programs.clone();
        unwrap_block(&mut trial[inner.program], inner);
        reducer.try_subject(subject.with_programs(&mut trial))
    })
}

fn inner_blocks(program_at: usize, program: &Program) -> Vec<InnerBlock> {
    let mut found = Vec::new();
    visit_host_ops(program, &mut |op| {
        let blocks = program.op(op).blocks.iter();
        found.extend(blocks.map(|&block| InnerBlock { program: program_at, op, block }));
    });
    found
}

fn unwrap_block(program: &mut Program, inner: &InnerBlock) {
    let mut edit = Edit::new(program);
    let looped = edit.program().op(inner.op).clone();
    if let Some(index) = loop_index(edit.program(), &looped) {
        let start = looped.expr_attr(AttrKey::Start).unwrap_or_else(|| edit.intern_expr(Expr::Int(0)));
        replace_index(&mut edit, inner.op, index, start);
    }
    let body = edit.program().block(inner.block).ops.clone();
    let blocks: Vec<BlockId> = {
        let program = edit.program();
        let mut blocks = vec![program.body()];
        program.walk(program.body(), &mut |op| blocks.extend(program.op(op).blocks.iter().copied()));
        blocks
    };
    for block in blocks {
        let mut ops = edit.program().block(block).ops.clone();
        if let Some(at) = ops.iter().position(|op| *op == inner.op) {
            ops.splice(at..=at, body.iter().copied());
            edit.set_block(block, ops);
        }
    }
    drop_comments(&mut edit);
    edit.commit();
}

/// Replaces the index of a loop inside of it.
fn replace_index(edit: &mut Edit<'_>, looped: OpId, index: Symbol, by: ExprId) {
    let mut inside = Vec::new();
    edit.program().walk_inside(looped, &mut |op| inside.push(op));
    for id in inside {
        let old = edit.program().op(id).clone();
        let mut op = old.clone();
        for value in op.operands.iter_mut().chain(&mut op.results) {
            match value {
                Value::Scalar(expr) | Value::Stream(expr) => *expr = replace_name(edit, *expr, index, by),
                Value::Tensor(_) | Value::Handle(_) | Value::Unit(_) | Value::Op(_) => {}
            }
        }
        for expr in op.attrs.iter_mut().flat_map(|(_, value)| value.exprs_mut()) {
            *expr = replace_name(edit, *expr, index, by);
        }
        if op != old {
            edit.set_op(id, op);
        }
    }
}

/// An expression with another one in the place of a name.
fn replace_name(edit: &mut Edit<'_>, expr: ExprId, name: Symbol, by: ExprId) -> ExprId {
    let old = edit.program().expr(expr).clone();
    if old == Expr::Name(name) {
        return by;
    }
    let new = old.map_parts(|part| replace_name(edit, part, name, by));
    if new == old { expr } else { edit.intern_expr(new) }
}
