//! make-resharding-contiguous: makes data that moves between devices contiguous.

use crate::framework::analyses::ReshardingOps;
use crate::framework::pass::{PassAction, PassCx, PassExample, PassInfo, StatisticSpec};
use crate::support::builder::OpBuilder;
use crate::support::reshard::{declare_stored_copy, strided_over};
use hostir::axes::logical_axes;
use hostir::diag::message;
use hostir::diag::{Diag, Diags};
use hostir::ir::edit::Edit;
use hostir::ir::{AttrKey, Id, OpEffect, OpId, ParallelType, Program, TensorId};

/// make-resharding-contiguous: a receive into a slice that is not contiguous in memory.
const STRIDED_RESULT: &str = "H0365";

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "make-resharding-contiguous",
    summary: "Copy strided slices before they are moved between devices",
    description: "\
Communications read and write contiguous memory. All tensors are contiguous except slices along an axis that
is not the outermost stored one. If an op that moves data between devices reads such a slice, it reads a copy
instead; if it would write into one, that is an error. nvFuser marks the tensors as contiguous here, which the
text does not show.",
    example: Some(PassExample { options: "", before: EXAMPLE_BEFORE, after: EXAMPLE_AFTER }),
    options: &[],
    statistics: &[StatisticSpec { name: "sets-inserted", help: "copies inserted" }],
    action: PassAction::Rewrite(run_make_contiguous),
};

const EXAMPLE_BEFORE: &str = "\
%HostIrContainer { (T0_g_float[ideviceIdx.x0{2}, iS1{i1}, iS2{i2}] (DeviceMesh{0 1})) -> (T2_g_float[iS5{2}, iS6{i1}] (DeviceMesh{0 1})) :
  T1_l_float[ideviceIdx.x3{2}, iS4{i1}] (DeviceMesh{0 1})
     = HirAliasSelect( T0_g_float[ideviceIdx.x0{2}, iS1{i1}, iS2{i2}] (DeviceMesh{0 1}), axis = iS2{i2}, index = 0 )
  T2_g_float[iS5{2}, iS6{i1}] (DeviceMesh{0 1})
     = Set( T1_l_float[ideviceIdx.x3{2}, iS4{i1}] (DeviceMesh{0 1}), cache_op=Streaming )
} // %HostIrContainer
";
const EXAMPLE_AFTER: &str = "\
%HostIrContainer { (T0_g_float[ideviceIdx.x0{2}, iS1{i1}, iS2{i2}] (DeviceMesh{0 1})) -> (T2_g_float[iS5{2}, iS6{i1}] (DeviceMesh{0 1})) :
  T1_l_float[ideviceIdx.x3{2}, iS4{i1}] (DeviceMesh{0 1})
     = HirAliasSelect( T0, axis = iS2{i2}, index = 0 )
  T3_l_float[ideviceIdx.x7{2}, iS8{i1}] (DeviceMesh{0 1})
     = Set( T1, cache_op=Streaming )
  T2
     = Set( T3, cache_op=Streaming )
} // %HostIrContainer
";

fn run_make_contiguous(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) -> Result<(), Diags> {
    let resharding = cx.resharding_ops(edit);
    let program = edit.program();
    let body = program.body();
    let ops = program.block(body).ops.clone();
    let strided = find_strided_operands(program, &ops, &resharding)?;
    if strided.is_empty() {
        return Ok(());
    }
    cx.add_count("sets-inserted", strided.len() as u64);
    let mut build = OpBuilder::new(edit);
    let mut out = Vec::with_capacity(ops.len() + strided.len());
    let mut strided = strided.into_iter().peekable();
    for op in ops {
        while let Some((_, operand)) = strided.next_if(|(id, _)| *id == op) {
            build.origin = op;
            copy_operand(&mut build, op, operand, &mut out);
        }
        out.push(op);
    }
    edit.set_block(body, out);
    Ok(())
}

/// The strided operands of ops that move data, in order. Reports strided results.
fn find_strided_operands(
    program: &Program,
    ops: &[OpId],
    resharding: &ReshardingOps,
) -> Result<Vec<(OpId, TensorId)>, Diags> {
    let mut diags = Diags::default();
    let mut strided = vec![false; program.tensors().len()];
    let mut found = Vec::new();
    for &id in ops {
        let op = program.op(id);
        if op.kind.effect() == OpEffect::Alias {
            for result in op.output_tensors() {
                strided[result.index()] = is_strided(program, id, &strided);
            }
            continue;
        }
        if !resharding.contains(id) {
            continue;
        }
        if let Some(tensor) = op.output_tensors().find(|tensor| strided[tensor.index()]) {
            let name = program.quoted_tensor(tensor);
            let message = message!("{} is a slice that is not contiguous in memory, so it cannot receive data", name);
            let note = "receive into a separate tensor and copy from it, or slice the outermost axis";
            let span = program.op_span(id);
            diags.push(Diag::error(STRIDED_RESULT, span, message).with_note(note));
        }
        let mut operands: Vec<TensorId> = op.input_tensors().collect();
        operands.dedup();
        let operands = operands.into_iter().filter(|tensor| strided[tensor.index()]);
        found.extend(operands.map(|tensor| (id, tensor)));
    }
    diags.or_value(found)
}

/// True if a view has gaps: its operand has some, or an axis before the sliced one is stored.
fn is_strided(program: &Program, id: OpId, strided: &[bool]) -> bool {
    let op = program.op(id);
    let Some(operand) = op.input_tensors().next() else { return false };
    if strided[operand.index()] {
        return true;
    }
    let axes = logical_axes(program, operand);
    let sliced = match op.domain_attr(AttrKey::Axis) {
        Some(domain) => {
            let start = program.tensor(operand).domains_start;
            domain.0.checked_sub(start).and_then(|printed| axes.of_printed(printed))
        }
        // ShardByStream: its result's stream axis.
        None => op.output_tensors().next().and_then(|result| {
            let axes = logical_axes(program, result).axes;
            axes.iter().position(|axis| axis.parallel == ParallelType::Stream).map(|k| k as u32)
        }),
    };
    sliced.is_some_and(|sliced| strided_over(program, &axes.axes, sliced).is_some())
}

fn copy_operand(build: &mut OpBuilder<'_, '_>, id: OpId, operand: TensorId, out: &mut Vec<OpId>) {
    let program = build.program();
    let mesh = program.tensor(operand).mesh;
    let types: Vec<ParallelType> = logical_axes(program, operand).axes.iter().map(|axis| axis.parallel).collect();
    let new = declare_stored_copy(build, operand, mesh, &types);
    out.push(build.build_set(new, operand));
    let mut op = build.program().op(id).clone();
    op.replace_operand(operand, new);
    build.edit.set_op(id, op);
}
