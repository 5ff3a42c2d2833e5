//! insert-reshardings: afterwards only copies and reductions move data between devices.
//!
//! [`decide`](self) says for each op what has to happen; [`reduce`] does several reduced axes one after
//! the other.

mod reduce;

use crate::build::Build;
use crate::pass::{Action, Example, PassCx, PassInfo, StatisticSpec};
use crate::reshard::{
    Links, Moved, parallel_like, refuse_mixed_meshes, refuse_splits, stored_copy,
};
use hostir::analysis::{is_resharding, logical_axes, shardings_differ};
use hostir::diag::{Diag, Diags};
use hostir::ir::edit::Edit;
use hostir::ir::{Op, OpId, Program, TensorId, Value};
use hostir::ops::OpKind;

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "insert-reshardings",
    summary: "Give ops their data by copies, so that only copies and reductions move data",
    description: "\
Communications are made of copies (`Set`) and of reductions of one axis that lies across devices. Every other
op that needs data of other devices gets a `Set`:

- behind it, if it has one operand and one result and can run where the operand lies: the op computes a new
  tensor that is sharded like the operand, and the `Set` brings it to its place;
- else before it, for each operand that does not lie as the result does: the copy has the result's mesh and
  parallel types, streams included, so that it takes part in the result's loop over streams.

A reduction of several axes, some of them across devices, is done one after the other: first what each device
holds itself, then one device axis at a time.

Deviations from nvFuser: an op whose device axis has no counterpart in its result (a view that merges it, a
slice of it) gets its operand by a `Set` before it, where nvFuser leaves an op that it rejects later. A
permutation is not a copy. nvFuser's reductions of split axes are written as reductions of two axes here;
tensors that lie across devices along a part of an axis are an error. With several operands the order of
their copies is the operands'.",
    example: Some(Example { before: EXAMPLE_BEFORE, after: EXAMPLE_AFTER }),
    options: &[],
    statistics: &[
        StatisticSpec { name: "sets-inserted", help: "copies inserted" },
        StatisticSpec { name: "reductions-split", help: "reductions done in several steps" },
    ],
    action: Action::Rewrite(run),
};

const EXAMPLE_BEFORE: &str = "\
%HostIrContainer { (T0_g_float[ideviceIdx.x0{2}, iS1{i1}] (DeviceMesh{0 1}), T1_g_float[iS2{2}, iS3{i1}] (DeviceMesh{0 1})) -> (T2_g_float[iS4{2}, iS5{i1}] (DeviceMesh{0 1})) :
  T2_g_float[iS4{2}, iS5{i1}] (DeviceMesh{0 1})
     = T0_g_float[ideviceIdx.x0{2}, iS1{i1}] (DeviceMesh{0 1})
     + T1_g_float[iS2{2}, iS3{i1}] (DeviceMesh{0 1});
} // %HostIrContainer
";
const EXAMPLE_AFTER: &str = "\
%HostIrContainer { (T0_g_float[ideviceIdx.x0{2}, iS1{i1}] (DeviceMesh{0 1}), T1_g_float[iS2{2}, iS3{i1}] (DeviceMesh{0 1})) -> (T2_g_float[iS4{2}, iS5{i1}] (DeviceMesh{0 1})) :
  T3_l_float[iS6{2}, iS7{i1}] (DeviceMesh{0 1})
     = Set( T0, cache_op=Streaming )
  T2
     = T3
     + T1;
} // %HostIrContainer
";

fn run(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) -> Result<(), Diags> {
    let program = edit.program();
    let body = program.body();
    let ops = program.block(body).ops.clone();
    let work: Vec<(OpId, Step)> = plan(program, &ops)?;
    if work.is_empty() {
        return Ok(());
    }
    let mut build = Build::new(edit);
    let mut moved = Moved::default();
    let mut out = Vec::with_capacity(ops.len() + 2 * work.len());
    let mut work = work.into_iter().peekable();
    for op in ops {
        match work.next_if(|(id, _)| *id == op) {
            None => out.push(op),
            Some((_, step)) => {
                build.origin = op;
                apply(&mut build, &mut moved, cx, op, step, &mut out);
            }
        }
    }
    edit.set_block(body, out);
    moved.apply(edit);
    Ok(())
}

/// What happens to an op.
enum Step {
    /// A `Set` for each of these operands.
    Before(Vec<TensorId>),
    /// A `Set` of the result.
    After,
    /// Several reductions; each step's axes of the operand.
    Reduce(Vec<Vec<u32>>),
}

/// The ops that need something, in order. Reports all that cannot be helped.
fn plan(program: &Program, ops: &[OpId]) -> Result<Vec<(OpId, Step)>, Diags> {
    let mut diags = Diags::default();
    let mut work = Vec::new();
    for &op in ops.iter().filter(|&&op| is_resharding(program, op)) {
        match decide(program, op) {
            Ok(step) => work.extend(step.map(|step| (op, step))),
            Err(diag) => diags.push(diag),
        }
    }
    if diags.has_errors() { Err(diags) } else { Ok(work) }
}

fn decide(program: &Program, id: OpId) -> Result<Option<Step>, Diag> {
    refuse_mixed_meshes(program, id)?;
    refuse_splits(program, id)?;
    let op = program.op(id);
    let Some(result) = op.output_tensors().next() else { return Ok(None) };
    // Communications are made of these two kinds, nvFuser's `canLower`.
    match op.kind {
        OpKind::Set => return Ok(None),
        OpKind::Reduction => match reduce::steps(program, id) {
            Some(steps) if steps.len() == 1 => return Ok(None),
            Some(steps) => return Ok(Some(Step::Reduce(steps))),
            None => {}
        },
        _ => {}
    }
    let links = Links::of(program, id);
    let mut operands: Vec<TensorId> = op.input_tensors().collect();
    if let &[operand] = operands.as_slice()
        && runs_where_operand_lies(program, &links, operand, result)
    {
        return Ok(Some(Step::After));
    }
    let mesh = program.tensor(result).mesh;
    let mut seen: Vec<TensorId> = Vec::new();
    operands.retain(|&operand| {
        let new = !seen.contains(&operand);
        seen.push(operand);
        new && (program.tensor(operand).mesh != mesh
            || shardings_differ(program, operand, result, links.as_slice()))
    });
    Ok(Some(Step::Before(operands)))
}

/// Whether the op could compute a result that is sharded like its operand: every device axis of the
/// operand is an axis that the result keeps.
fn runs_where_operand_lies(
    program: &Program,
    links: &Links,
    operand: TensorId,
    result: TensorId,
) -> bool {
    let axes = logical_axes(program, result).axes;
    (0..).zip(&logical_axes(program, operand).axes).all(|(k, axis)| {
        let kept = links.across(operand, k, result);
        let kept = kept.and_then(|at| axes.get(at as usize));
        axis.device().is_none() || kept.is_some_and(|axis| !axis.is_reduction())
    })
}

fn apply(
    build: &mut Build<'_, '_>,
    moved: &mut Moved,
    cx: &mut PassCx<'_>,
    id: OpId,
    step: Step,
    out: &mut Vec<OpId>,
) {
    match step {
        Step::Before(operands) => {
            cx.count("sets-inserted", operands.len() as u64);
            before(build, id, &operands, out);
        }
        Step::After => {
            cx.count("sets-inserted", 1);
            after(build, moved, id, out);
        }
        Step::Reduce(steps) => {
            cx.count("reductions-split", 1);
            reduce::split(build, moved, id, &steps, out);
        }
    }
}

/// Copies operands to where the result lies.
fn before(build: &mut Build<'_, '_>, id: OpId, operands: &[TensorId], out: &mut Vec<OpId>) {
    let mut op: Op = build.program().op(id).clone();
    let Some(result) = op.output_tensors().next() else { return };
    let links = Links::of(build.program(), id);
    for &operand in operands {
        let mesh = build.program().tensor(result).mesh;
        let types = parallel_like(build.program(), &links, result, operand);
        let copy = stored_copy(build, operand, mesh, &types);
        out.push(build.set(copy, operand));
        for value in op.operands.iter_mut().filter(|value| **value == Value::Tensor(operand)) {
            *value = Value::Tensor(copy);
        }
        follow_axis(build, &mut op, operand, copy);
    }
    build.edit.set_op(id, op);
    out.push(id);
}

/// The axis of a select is a domain of the tensor it selects from.
fn follow_axis(build: &Build<'_, '_>, op: &mut Op, old: TensorId, new: TensorId) {
    let program = build.program();
    let stored: Vec<u32> = program
        .logical_axes(old)
        .into_iter()
        .filter(|&at| !program.domains(old)[at as usize].is_reduction())
        .collect();
    for (_, value) in &mut op.attrs {
        if let hostir::ir::AttrValue::Domain(domain) = value {
            let at = domain.0.wrapping_sub(program.tensor(old).domains_start);
            if let Some(place) = stored.iter().position(|&printed| printed == at) {
                *domain = crate::build::domain_id(program, new, place as u32);
            }
        }
    }
}

/// Computes a result where the operand lies and copies it to its place.
fn after(build: &mut Build<'_, '_>, moved: &mut Moved, id: OpId, out: &mut Vec<OpId>) {
    let mut op: Op = build.program().op(id).clone();
    let (Some(operand), Some(result)) = (op.input_tensors().next(), op.output_tensors().next())
    else {
        return;
    };
    let links = Links::of(build.program(), id);
    let types = parallel_like(build.program(), &links, operand, result);
    let mesh = build.program().tensor(operand).mesh;
    let local = reduce::like_result(build, result, mesh, &types);
    for value in &mut op.results {
        *value = Value::Tensor(local);
    }
    build.edit.set_op(id, op);
    out.push(id);
    out.push(build.set(result, local));
    reduce::drop_reduced(build, moved, result, &|_| true);
}
