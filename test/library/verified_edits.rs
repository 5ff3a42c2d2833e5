//! Verification after an edit finds an error exactly if verification of the whole program does, whatever the edit.

use crate::effort;
use crate::random::{Random, programs};
use hostir::diag::Diags;
use hostir::ir::edit::Edit;
use hostir::ir::{BlockId, DType, DomainId, ExprId, Id, MemoryType, Op, OpId, ParallelType, Program, TensorId, Value};
use hostir::ops::OpRegistry;
use hostir::verify::{VerifiedState, verify, verify_edit, verify_with_state};

/// Edits that made the program wrong, and those that did not.
#[derive(Default)]
struct EditCounts {
    wrong: usize,
    right: usize,
}

#[test]
fn edits_are_verified_as_whole_programs_are() {
    let mut random = Random(effort::seed(47));
    let rounds = effort::cases("HIR_EDITS", 6, 400);
    let mut counts = EditCounts::default();
    for (name, text) in programs() {
        let (loaded, diags) = hostir::load(&text);
        if diags.has_errors() || text.len() > 20_000 {
            continue;
        }
        for mut program in loaded {
            let mut state = verify_with_state(&program, &mut Diags::default());
            for _ in 0..rounds {
                state = compare_verifications(&mut program, state, &mut random, &mut counts, &name);
            }
        }
    }
    assert!(counts.wrong > 500, "only {} edits were wrong", counts.wrong);
    assert!(counts.right > 500, "only {} edits were right", counts.right);
}

/// Edits a program at random and compares. An edit that leaves a valid program stays, so that the state grows old.
fn compare_verifications(
    program: &mut Program,
    state: Option<VerifiedState>,
    random: &mut Random,
    counts: &mut EditCounts,
    name: &str,
) -> Option<VerifiedState> {
    let mut edit = Edit::new(program);
    let mut what = Vec::new();
    for _ in 0..1 + random.below(3) {
        what.push(change_something(&mut edit, random));
    }
    let (mut whole, mut changed) = (Diags::default(), Diags::default());
    verify(edit.program(), &mut whole);
    let parts = edit.edited_parts();
    let after = verify_edit(edit.program(), &parts, state, &mut changed);
    let codes = |diags: &Diags| diags.items.iter().map(|diag| diag.code).collect::<Vec<_>>();
    assert_eq!(whole.has_errors(), changed.has_errors(), "{name}: {what:?}: {:?}", codes(&whole));
    if whole.has_errors() {
        counts.wrong += 1;
        assert_eq!(codes(&whole), codes(&changed), "{name}: {what:?}");
        drop(edit);
        return verify_with_state(program, &mut Diags::default());
    }
    counts.right += 1;
    edit.commit();
    after
}

/// Makes one change, which may be none; returns its number.
fn change_something(edit: &mut Edit<'_>, random: &mut Random) -> usize {
    let kind = random.below(12);
    match kind {
        0..=3 => change_op(edit, random, kind),
        4..=6 => change_tensor(edit, random, kind),
        7 => change_domain(edit, random),
        8..=10 => change_block(edit, random, kind),
        _ => change_interface(edit, random),
    }
    kind
}

fn any_tensor(program: &Program, random: &mut Random) -> Option<TensorId> {
    let count = program.tensors().len();
    (count > 0).then(|| TensorId::new(random.below(count)))
}

/// An op of the program, also one that is in no block.
fn any_op(program: &Program, random: &mut Random) -> Option<OpId> {
    let count = program.ops().len();
    (count > 0).then(|| OpId::new(random.below(count)))
}

fn change_op(edit: &mut Edit<'_>, random: &mut Random, kind: usize) {
    let program = edit.program();
    let (Some(id), Some(tensor)) = (any_op(program, random), any_tensor(program, random)) else { return };
    let mut op: Op = program.op(id).clone();
    match kind {
        0 if !op.operands.is_empty() => {
            let at = random.below(op.operands.len());
            op.operands[at] = Value::Tensor(tensor);
        }
        1 if !op.results.is_empty() => {
            let at = random.below(op.results.len());
            op.results[at] = Value::Tensor(tensor);
        }
        2 => {
            let kinds: Vec<_> = OpRegistry::OURS.kinds().collect();
            op.kind = kinds[random.below(kinds.len())];
        }
        _ => match random.below(3) {
            0 => op.operands.truncate(op.operands.len().saturating_sub(1)),
            1 => op.attrs.truncate(op.attrs.len().saturating_sub(1)),
            _ => op.number = op.number.map(|number| number.wrapping_add(1)),
        },
    }
    edit.set_op(id, op);
}

fn change_tensor(edit: &mut Edit<'_>, random: &mut Random, kind: usize) {
    let program = edit.program();
    let Some(id) = any_tensor(program, random) else { return };
    let mut tensor = program.tensor(id).clone();
    match kind {
        4 => tensor.dtype = DType::ALL[random.below(DType::ALL.len())],
        5 => tensor.memory = MemoryType::ALL[random.below(MemoryType::ALL.len())],
        _ => match random.below(5) {
            0 => tensor.mesh = None,
            1 => {
                tensor.domains_end = tensor.domains_start.max(tensor.domains_end.saturating_sub(1));
                tensor.axes = None;
            }
            2 => tensor.split = !tensor.split,
            3 => tensor.number = random.below(8) as u32,
            _ => {
                let Some(other) = any_tensor(program, random) else { return };
                let other = program.tensor(other);
                (tensor.domains_start, tensor.domains_end) = (other.domains_start, other.domains_end);
                tensor.axes.clone_from(&other.axes);
            }
        },
    }
    edit.set_tensor(id, tensor);
}

fn change_domain(edit: &mut Edit<'_>, random: &mut Random) {
    let program = edit.program();
    let count = program.all_domains().count();
    if count == 0 {
        return;
    }
    let id = DomainId::new(random.below(count));
    let mut domain = *program.domain(id);
    match random.below(2) {
        0 => domain.extent = ExprId::new(random.below(program.exprs().len())),
        _ => domain.parallel = ParallelType::ALL[random.below(ParallelType::ALL.len())],
    }
    edit.set_domain(id, domain);
}

/// Removes an op, moves it, or puts in one that may be new, old, or in another block as well.
fn change_block(edit: &mut Edit<'_>, random: &mut Random, kind: usize) {
    let program = edit.program();
    let mut blocks: Vec<BlockId> = vec![program.body()];
    program.walk(program.body(), &mut |id| blocks.extend_from_slice(&program.op(id).blocks));
    blocks.extend(program.units().iter().map(|(_, unit)| unit.body));
    let block = blocks[random.below(blocks.len())];
    let mut ops = program.block(block).ops.clone();
    let Some(mut other) = any_op(program, random) else { return };
    if kind != 10 && ops.is_empty() || !program.op(other).blocks.is_empty() {
        return;
    }
    match kind {
        8 => {
            ops.remove(random.below(ops.len()));
        }
        9 => {
            let op = ops.remove(random.below(ops.len()));
            ops.insert(random.below(ops.len() + 1), op);
        }
        _ => {
            if random.below(2) == 0 {
                other = edit.add_op(edit.program().op(other).clone(), other);
            }
            ops.insert(random.below(ops.len() + 1), other);
        }
    }
    edit.set_block(block, ops);
}

/// Changes what the whole program has: its inputs and outputs, aliases and units.
fn change_interface(edit: &mut Edit<'_>, random: &mut Random) {
    let program = edit.program();
    let (mut inputs, mut outputs) = (program.inputs().to_vec(), program.outputs().to_vec());
    let Some(tensor) = any_tensor(program, random) else { return };
    let unit = program.units().iter().next().map(|(id, unit)| (id, unit.clone()));
    match (random.below(6), unit) {
        (0, _) => {
            inputs.pop();
            edit.set_inputs(inputs);
        }
        (1, _) => {
            inputs.push(Value::Tensor(tensor));
            edit.set_inputs(inputs);
        }
        (2, _) => {
            outputs.pop();
            edit.set_outputs(outputs);
        }
        (3, _) => edit.retain_aliases(|_| false),
        (4, Some((id, mut unit))) => {
            unit.inputs.pop();
            edit.set_unit(id, unit);
        }
        (_, Some((_, mut unit))) => {
            unit.number = unit.number.wrapping_add(1);
            edit.add_unit(unit);
        }
        (_, None) => {
            outputs.push(Value::Tensor(tensor));
            edit.set_outputs(outputs);
        }
    }
}
