//! Statements: removes as many as possible. A tensor that a removed statement made and another one reads becomes an
//! input, so that a statement can go before its users do.

use crate::delta::remove_parts;
use crate::reducer::Reducer;
use hostir::analysis::storage::{TensorAccess, visit_accesses, visit_host_ops};
use hostir::ir::edit::Edit;
use hostir::ir::{BlockId, CommentPlace, MemoryType, OpId, Program, SourceComment, TensorId, Value};
use rustc_hash::FxHashSet;

pub(crate) fn remove_statements(reducer: &mut Reducer) {
    let count = reducer.best().programs().map_or(0, |programs| programs.len());
    for index in 0..count {
        let subject = reducer.best().clone();
        let Some(programs) = subject.programs() else { return };
        let mut ops = Vec::new();
        visit_host_ops(&programs[index], &mut |op| ops.push(op));
        remove_parts(ops.len(), &mut |removed| {
            let gone = ops.iter().zip(removed).filter(|(_, removed)| **removed).map(|(op, _)| *op).collect();
            let mut trial = programs.clone();
            remove_ops(&mut trial[index], gone);
            reducer.try_subject(subject.with_programs(&mut trial))
        });
    }
}

/// Removes ops, with those that wait for them, and moves what is missing then to the inputs.
fn remove_ops(program: &mut Program, mut gone: FxHashSet<OpId>) {
    let made_before = made_tensors(program);
    let mut edit = Edit::new(program);
    add_waits(edit.program(), &mut gone);
    let body = edit.program().body();
    remove_from_block(&mut edit, body, &gone);
    let made = made_tensors(edit.program());
    let is_lost = |tensor: &TensorId| made_before.contains(tensor) && !made.contains(tensor);
    let outputs = edit.program().outputs().to_vec();
    edit.set_outputs(outputs.into_iter().filter(|value| !value.as_tensor().is_some_and(|one| is_lost(&one))).collect());
    let mut inputs = edit.program().inputs().to_vec();
    for tensor in used_tensors(edit.program()).into_iter().filter(is_lost) {
        if !inputs.contains(&Value::Tensor(tensor)) {
            inputs.push(Value::Tensor(tensor));
            let mut declaration = edit.program().tensor(tensor).clone();
            declaration.memory = MemoryType::Global;
            edit.set_tensor(tensor, declaration);
        }
    }
    edit.set_inputs(inputs);
    let mentioned: FxHashSet<TensorId> = used_tensors(edit.program()).into_iter().chain(made).collect();
    let ports = [edit.program().inputs(), edit.program().outputs()].concat();
    edit.retain_aliases(|tensor| mentioned.contains(&tensor) || ports.contains(&Value::Tensor(tensor)));
    drop_comments(&mut edit);
    edit.commit();
}

/// Marks ops that refer to a communication of which no op is left.
fn add_waits(program: &Program, gone: &mut FxHashSet<OpId>) {
    let mut left: FxHashSet<u32> = FxHashSet::default();
    visit_host_ops(program, &mut |id| left.extend(program.op(id).number.filter(|_| !gone.contains(&id))));
    visit_host_ops(program, &mut |id| {
        let mut operands = program.op(id).operands.iter();
        if operands.any(|value| matches!(value, Value::Handle(number) if !left.contains(number))) {
            gone.insert(id);
        }
    });
}

/// Removes ops of a block and of those inside, and loops and branches that have nothing left.
fn remove_from_block(edit: &mut Edit<'_>, block: BlockId, gone: &FxHashSet<OpId>) -> bool {
    let ops = edit.program().block(block).ops.clone();
    let mut kept = Vec::with_capacity(ops.len());
    for op in ops.iter().copied().filter(|op| !gone.contains(op)) {
        let inner = edit.program().op(op).blocks.clone();
        let is_control = !inner.is_empty();
        let mut has_ops = false;
        for block in inner {
            has_ops |= remove_from_block(edit, block, gone);
        }
        if !is_control || has_ops {
            kept.push(op);
        }
    }
    let has_ops = !kept.is_empty();
    if kept.len() != ops.len() {
        edit.set_block(block, kept);
    }
    has_ops
}

/// The tensors that ops write or give memory.
fn made_tensors(program: &Program) -> FxHashSet<TensorId> {
    let mut made = FxHashSet::default();
    visit_host_ops(program, &mut |op| {
        visit_accesses(program, op, &mut |tensor, access| {
            if matches!(access, TensorAccess::Write | TensorAccess::Bind | TensorAccess::Both) {
                made.insert(tensor);
            }
        });
    });
    made
}

/// The tensors that ops name, in order.
fn used_tensors(program: &Program) -> Vec<TensorId> {
    let mut used = Vec::new();
    let mut seen = FxHashSet::default();
    visit_host_ops(program, &mut |op| {
        visit_accesses(program, op, &mut |tensor, _| {
            if seen.insert(tensor) {
                used.push(tensor);
            }
        });
    });
    used
}

/// Drops the comments of ops and blocks that are no longer there.
pub(crate) fn drop_comments(edit: &mut Edit<'_>) {
    let program = edit.program();
    let (mut ops, mut blocks) = (FxHashSet::default(), FxHashSet::default());
    blocks.insert(program.body());
    blocks.extend(program.units().iter().map(|(_, unit)| unit.body));
    program.walk_with_units(&mut |op| {
        ops.insert(op);
        blocks.extend(program.op(op).blocks.iter().copied());
    });
    let is_kept = |comment: &&SourceComment| match comment.place {
        CommentPlace::Above(op) | CommentPlace::Trailing(op) => ops.contains(&op),
        CommentPlace::StartOf(block) | CommentPlace::EndOf(block) => blocks.contains(&block),
        _ => true,
    };
    let kept: Vec<SourceComment> = program.source().comments.iter().filter(is_kept).cloned().collect();
    edit.set_comments(kept);
}
