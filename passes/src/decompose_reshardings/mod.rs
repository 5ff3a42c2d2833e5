//! decompose-reshardings: insert-reshardings as of 2026, with GEMMs that are contracted across devices.
//!
//! [`gemms`] decomposes those GEMMs. The rest is [`crate::insert_reshardings`] in another form, and a check of the
//! remaining ops.

mod gemms;

use crate::convert_op_to_communication::refuse_in_any_order;
use crate::framework::options::{OptionSpec, OptionType};
use crate::framework::pass::{PassAction, PassCx, PassExample, PassInfo, StatisticSpec};
use crate::insert_reshardings::{InsertionForm, insert};
use crate::support::builder::OpBuilder;
use crate::support::reshard::MovedDomains;
use hostir::analysis::is_resharding;
use hostir::diag::Diags;
use hostir::ir::OpId;
use hostir::ir::edit::Edit;

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "decompose-reshardings",
    summary: "Decompose ops so that only copies and reductions move data between devices, as of 2026",
    description: "\
This is nvFuser's successor of `insert-reshardings`. The differences:

- A matmul or linear whose contracted axis is sharded over devices (row-parallel) becomes a GEMM of each
  device's shards and a reduction across devices, instead of gathering its operands. A bias is added after the
  reduction: linear with bias becomes linear, `broadcast` of the bias, and `+`.
- With `insert_resharding_after` an op whose operands all have one sharding runs with it, and its result is
  copied; without, operands are copied before it.
- If a result with a stream axis is copied, the op before the copy gets a stream axis too, so that both take
  part in one loop.
- At the end every op that moves data is checked: an op that no communication implements is an error here,
  with the code that `convert-op-to-communication` would give it. (Axes that are not outermost are no error:
  `reorder-sharded-axis` and loops over streams move them.)

Reductions of several axes are split as in `insert-reshardings`.

Deviations from nvFuser: a device axis is a separate axis here, so the contracted axis is as long as the mesh
and a device's part of the GEMM is `A * B` of two broadcasts. Sums of a half type and its bias need no casts:
they are rounded once.",
    example: Some(PassExample { options: "", before: EXAMPLE_BEFORE, after: EXAMPLE_AFTER }),
    options: &[OptionSpec {
        name: "insert_resharding_after",
        ty: OptionType::Bool,
        default: Some("false"),
        help: "Copy the results of ops with several operands instead of their operands",
    }],
    statistics: &[
        StatisticSpec { name: "products-decomposed", help: "GEMMs decomposed" },
        StatisticSpec { name: "sets-inserted", help: "copies inserted" },
        StatisticSpec { name: "reductions-split", help: "reductions split into several steps" },
    ],
    action: PassAction::Rewrite(run_decompose_reshardings),
};

const EXAMPLE_BEFORE: &str = "\
%HostIrContainer { (T0_g_float[iS0{i0}, ideviceIdx.x1{2}] (DeviceMesh{0 1}), T1_g_float[iS2{i2}, ideviceIdx.x3{2}] (DeviceMesh{0 1}), T2_g_float[iS4{i2}] (DeviceMesh{0 1})) -> (T3_g_float[iS5{i0}, iS6{i2}, rS7{2}] (DeviceMesh{0 1})) :
  T3
     = linear(T0, T1, T2)
} // %HostIrContainer
";
const EXAMPLE_AFTER: &str = "\
%HostIrContainer { (T0_g_float[iS0{i0}, ideviceIdx.x1{2}] (DeviceMesh{0 1}), T1_g_float[iS2{i2}, ideviceIdx.x3{2}] (DeviceMesh{0 1}), T2_g_float[iS4{i2}] (DeviceMesh{0 1})) -> (T3_g_float[iS22{i0}, iS23{i2}] (DeviceMesh{0 1})) :
  T4_l_float[iS8{i0}, bS9{1}, ideviceIdx.x10{2}] (DeviceMesh{0 1})
     = broadcast( T0, flags = {false, true, false} )
  T5_l_float[bS11{1}, iS12{i2}, ideviceIdx.x13{2}] (DeviceMesh{0 1})
     = broadcast( T1, flags = {true, false, false} )
  T6_l_float[iS14{i0}, iS15{i2}, ideviceIdx.x16{2}] (DeviceMesh{0 1})
     = T4
     * T5;
  T7_l_float[iS17{i0}, iS18{i2}, rS19{2}] (DeviceMesh{0 1})
     = reduction( T6, op = add, initial value = float(0), allreduce = false )
  T8_l_float[bS20{1}, iS21{i2}] (DeviceMesh{0 1})
     = broadcast( T2, flags = {true, false} )
  T3
     = T7
     + T8;
} // %HostIrContainer
";

fn run_decompose_reshardings(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) -> Result<(), Diags> {
    let body = edit.program().body();
    let ops: Vec<OpId> = edit.program().block(body).ops.clone();
    let mut moved = MovedDomains::default();
    let mut build = OpBuilder::new(edit);
    let mut out = Vec::with_capacity(ops.len());
    let mut count = 0;
    for &op in &ops {
        match gemms::match_sharded_gemm(build.program(), op) {
            None => out.push(op),
            Some(gemm) => {
                build.origin = op;
                count += 1;
                gemms::decompose_gemm(&mut build, &mut moved, op, &gemm, &mut out);
            }
        }
    }
    if count > 0 {
        cx.add_count("products-decomposed", count);
        edit.set_block(body, out);
        moved.apply_to_ops(edit);
    }
    let after = cx.options().bool_value("insert_resharding_after");
    insert(edit, cx, InsertionForm { after, streams_back: true, shares_copies: false })?;
    check_convertible(edit)
}

/// Checks that each op that moves data can become a communication, once its axes are in place.
fn check_convertible(edit: &Edit<'_>) -> Result<(), Diags> {
    let program = edit.program();
    let mut diags = Diags::default();
    let body = program.block(program.body());
    for &op in body.ops.iter().filter(|&&op| is_resharding(program, op)) {
        diags.items.extend(refuse_in_any_order(program, op));
    }
    diags.or_value(())
}
