//! segment-host-units: groups ops that are not standalone into HostUnits.
//!
//! [`group`] decides which ops form a group and in which order the groups run, [`mod@unit`] makes a
//! HostUnit and its PostOnStream from a group, [`memory`] decides which of its results have memory.

mod group;
mod memory;
mod unit;

use crate::framework::analyses::ReshardingOps;
use crate::framework::pass::{PassAction, PassCx, PassExample, PassInfo, StatisticSpec};
use crate::support::builder::OpBuilder;
use group::{BodyRun, SegmentGroup, belongs_in_unit};
use hostir::analysis::storage::StorageClasses;
use hostir::diag::message;
use hostir::diag::{Diag, Diags};
use hostir::ir::edit::Edit;
use hostir::ir::{AttrKey, AttrValue, MemoryType, OpId, Program, TensorId, quoted_op};
use memory::AllocatedTensors;
use unit::{GroupTensors, HostUses};

/// segment-host-units: an op for a HostUnit that moves data between devices.
const RESHARDING_UNIT: &str = "H0363";

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "segment-host-units",
    summary: "Group ops that are not standalone into HostUnits",
    description: "\
matmul, linear, slice, reduction, `Set` and pointwise ops of two operands stay ops of the host program. All
others (unary and ternary pointwise ops, casts, broadcasts, views, permutations, ...) go into HostUnits, each
with a PostOnStream in their place. Ops that feed each other share a unit unless an op that stays depends on
one and feeds the other. Inputs and outputs of units are moved to global memory. If one output of a unit has
memory and another has none, the other gets an `ALLOCATE` before the PostOnStream.

Ops that have effects beyond their results (streams, communications, allocations, views of memory), and ops
that write a tensor which another op read or wrote before, keep their place: nothing moves across them. An op
that moves data between devices and would go into a unit is an error.

Deviation from nvFuser: its segmenter merges groups one pair at a time, and where several ways of merging
exist it may choose a different one.",
    example: Some(PassExample { options: "", before: EXAMPLE_BEFORE, after: EXAMPLE_AFTER }),
    options: &[],
    statistics: &[
        StatisticSpec { name: "units", help: "HostUnits created" },
        StatisticSpec { name: "ops-fused", help: "ops moved into HostUnits" },
        StatisticSpec { name: "allocations", help: "results allocated because another result of their unit is" },
    ],
    action: PassAction::Rewrite(run_segment_host_units),
};

const EXAMPLE_BEFORE: &str = "\
%HostIrContainer { (T0_g_float[iS0{i0}, iS1{i1}], T1_g_float[iS2{i2}]) -> (T4_g_float[iS6{i0}, iS7{i2}, rS8{i1}]) :
  T2_l_float[bS3{1}, iS4{i2}]
     = broadcast( T1_g_float[iS2{i2}], flags = {true, false} )
  T3_l_float[bS5{1}, iS9{i2}]
     = relu(T2_l_float[bS3{1}, iS4{i2}]);
  T4_g_float[iS6{i0}, iS7{i2}, rS8{i1}]
     = matmul(T0_g_float[iS0{i0}, iS1{i1}],
              T3_l_float[bS5{1}, iS9{i2}])
} // %HostIrContainer
";
const EXAMPLE_AFTER: &str = "\
%HostIrContainer { (T0_g_float[iS0{i0}, iS1{i1}], T1_g_float[iS2{i2}]) -> (T4_g_float[iS6{i0}, iS7{i2}, rS8{i1}]) :
  PostOnStream (HostUnit0, Inputs:{T1_g_float[iS2{i2}], }, Outputs:{T3_g_float[bS5{1}, iS9{i2}], })
  T4
     = matmul(T0,
              T3)

HostUnit0: Inputs={T1_g_float[iS2{i2}], } -> Outputs={T3_g_float[bS5{1}, iS9{i2}], }Inputs:
  T1
Outputs:
  T3

%kernel {
T2_l_float[bS3{1}, iS4{i2}]
   = broadcast( T1, flags = {true, false} )
T3
   = relu(T2);
} // %kernel
} // %HostIrContainer
";

fn run_segment_host_units(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) -> Result<(), Diags> {
    let resharding = cx.resharding_ops(edit);
    let program = edit.program();
    let body = program.body();
    let ops = program.block(body).ops.clone();
    if ops.iter().all(|&op| !belongs_in_unit(program, op)) {
        return Ok(());
    }
    refuse_resharding(program, &ops, &resharding)?;
    let mut storage = StorageClasses::from_program(program);
    let uses = HostUses::from_program(program, &mut storage);
    let runs = group::split_runs(program, &mut storage, &ops);
    let mut tensors = GroupTensors::of_program(program);
    let mut build = OpBuilder::new(edit);
    let mut out = Vec::with_capacity(ops.len());
    let mut memory = AllocatedTensors::from_program(build.program());
    for run in runs {
        match run {
            BodyRun::Barrier(op) => {
                memory.pass_statement(build.program(), op);
                out.push(op);
            }
            BodyRun::Groups(groups) => {
                for group in groups {
                    place_group(&mut build, cx, &uses, &mut tensors, &mut memory, group, &mut out);
                }
            }
        }
    }
    edit.set_block(body, out);
    finalize_allocations(edit);
    Ok(())
}

/// Puts inputs and outputs of units, and the program's allocations for them, into global memory.
fn finalize_allocations(edit: &mut Edit<'_>) {
    let mut moved = Vec::new();
    let program = edit.program();
    program.walk(program.body(), &mut |id| {
        let op = program.op(id);
        let need = op.output_tensors().next().map(|tensor| program.tensor(tensor).memory);
        let has = op.word_attr(AttrKey::MemType).and_then(|word| MemoryType::from_word(program.name(word)));
        if has == Some(MemoryType::Local) && need == Some(MemoryType::Global) {
            moved.push(id);
        }
    });
    for id in moved {
        let global = edit.intern_name(MemoryType::Global.word());
        let mut op = edit.program().op(id).clone();
        op.set_attr(AttrKey::MemType, &AttrValue::Word(global));
        edit.set_op(id, op);
    }
}

fn place_group(
    build: &mut OpBuilder<'_, '_>,
    cx: &mut PassCx<'_>,
    uses: &HostUses,
    tensors: &mut GroupTensors,
    memory: &mut AllocatedTensors,
    group: SegmentGroup,
    out: &mut Vec<OpId>,
) {
    match group {
        SegmentGroup::Single(op) => {
            memory.pass_statement(build.program(), op);
            out.push(op);
        }
        SegmentGroup::Fused(ops) => {
            cx.add_count("units", 1);
            cx.add_count("ops-fused", ops.len() as u64);
            let post = unit::make_unit(build, uses, tensors, &ops);
            for tensor in memory.missing_allocations(build.program(), post) {
                cx.add_count("allocations", 1);
                out.push(build.build_allocate(tensor));
            }
            memory.pass_statement(build.program(), post);
            out.push(post);
        }
    }
}

fn refuse_resharding(program: &Program, ops: &[OpId], resharding: &ReshardingOps) -> Result<(), Diags> {
    let mut diags = Diags::default();
    for &op in ops.iter().filter(|&&op| belongs_in_unit(program, op)) {
        if resharding.contains(op) {
            let name = quoted_op(program, op);
            let what: Vec<String> = program.op(op).output_tensors().map(|t: TensorId| program.tensor_name(t)).collect();
            let message = message!(
                "`{}` needs data of other devices for {}, but a HostUnit runs on one device",
                name,
                what.join(", ")
            );
            let note = "insert the copies for its data: --pass=insert-reshardings";
            let diag = Diag::error(RESHARDING_UNIT, program.op_span(op), message);
            diags.push(diag.with_note(note));
        }
    }
    diags.or_value(())
}
