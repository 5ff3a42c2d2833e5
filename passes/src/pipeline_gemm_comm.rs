//! pipeline-gemm-comm: turns an allgather and a GEMM into one loop over streams, as nvFuser did before it streamed
//! every op.

use crate::framework::options::{OptionSpec, OptionType};
use crate::framework::pass::{PassAction, PassCx, PassExample, PassInfo, StatisticSpec};
use crate::support::builder::{CollectiveSpec, OpBuilder, printed_domain};
use crate::support::comm_options::communicator_backend;
use crate::support::reshard::{OpLinks, declare_local_tensor, declare_stored_copy, stored_axes};
use crate::support::rewrite::rebuild_body;
use hostir::analysis::{is_resharding, tensor_sharding};
use hostir::axes::logical_axes;
use hostir::diag::message;
use hostir::diag::{Diag, Diags, Message};
use hostir::ir::CommBackend;
use hostir::ir::edit::Edit;
use hostir::ir::{DomainId, ExprId, IterDomain, OpId, ParallelType, Program, TensorId, Value};
use hostir::plan::CollectiveKind;

/// pipeline-gemm-comm: a GEMM that cannot be pipelined with an allgather.
const PIPELINE_PRODUCT: &str = "H0366";

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "pipeline-gemm-comm",
    summary: "Pipeline a matmul or linear with the allgather of its first operand",
    description: "\
A matmul or linear whose first operand is sharded over devices along axis 1 and whose result is
stream-parallel along axis 0 becomes a loop over axis 0: each iteration gathers one slice of the operand and
multiplies it, on stream `i % numberOfStreams`. This is the lowering of January to April 2025;
`insert-reshardings` and `stream-parallel-type` give the same program for any op.

The second operand, the bias and the result must be replicated on every device, and all on one mesh of one
axis. A GEMM that needs data of other devices and is not of this form is an error.",
    example: Some(PassExample { options: "", before: EXAMPLE_BEFORE, after: EXAMPLE_AFTER }),
    options: &[
        OptionSpec {
            name: "initial_sync",
            ty: OptionType::Bool,
            default: Some("true"),
            help: "Make the streams wait for the current stream before the first iteration; false selects the form of January 2025, in which the caller must have waited",
        },
        OptionSpec {
            name: "communicator_backend",
            ty: OptionType::Choice(&["NCCL", "UCC"]),
            default: Some("NCCL"),
            help: "Backend of the communications that the pass inserts",
        },
    ],
    statistics: &[StatisticSpec { name: "products", help: "GEMMs pipelined" }],
    action: PassAction::Rewrite(run_pipeline_gemm_comm),
};

const EXAMPLE_BEFORE: &str = "\
%HostIrContainer { (T0_g_float[iS0{i0}, ideviceIdx.x1{2}, iS2{i2}, iS3{i3}] (DeviceMesh{0 1}), T1_g_float[iS4{i3}, iS5{i5}] (DeviceMesh{0 1})) -> (T2_g_float[iStreamIdx6{i0}, iS7{2}, iS8{i2}, iS9{i5}, rS10{i3}] (DeviceMesh{0 1})) :
  T2
     = matmul(T0,
              T1)
} // %HostIrContainer
";
const EXAMPLE_AFTER: &str = "\
%HostIrContainer { (T0_g_float[iS0{i0}, ideviceIdx.x1{2}, iS2{i2}, iS3{i3}] (DeviceMesh{0 1}), T1_g_float[iS4{i3}, iS5{i5}] (DeviceMesh{0 1})) -> (T2_g_float[iStreamIdx6{i0}, iS7{2}, iS8{i2}, iS9{i5}, rS10{i3}] (DeviceMesh{0 1})) :
  GetCurrentStream into Stream 0
  T3_g_float[iS11{i0}, iS12{2}, iS13{i2}, iS14{i3}] (DeviceMesh{0 1}) = ALLOCATE(buffer=T3, mem_type=global, size=( ( ( i0 * i2 ) * i3 ) * 2 ), zero_init=false, resets_to_zero=false)
  T2 = ALLOCATE(buffer=T2, mem_type=global, size=( ( ( i0 * i2 ) * i5 ) * 2 ), zero_init=false, resets_to_zero=false)
  FOR i6 in iS0{i0}:
    SetCurrentStream to Stream ( i6 % numberOfStreams )
    Synchronize Stream 0
  FOR i6 in iS0{i0}:
    SetCurrentStream to Stream ( i6 % numberOfStreams )
    T4_l_float[ideviceIdx.x15{2}, iS16{i2}, iS17{i3}] (DeviceMesh{0 1})
       = HirAliasSelect( T0, axis = iS0{i0}, index = i6 )
    T5_l_float[iS18{2}, iS19{i2}, iS20{i3}] (DeviceMesh{0 1})
       = HirAliasSelect( T3, axis = iS11{i0}, index = i6 )
    Communication 0 (type=Allgather, team=(0 1), input=T4, output=T5, backend=NCCL)
    Wait Communication 0
    T6_l_float[iS21{2}, iS22{i2}, iS23{i5}] (DeviceMesh{0 1})
       = HirAliasSelect( T2, axis = iStreamIdx6{i0}, index = i6 )
    T6
       = matmul(T5,
                T1)
    SetCurrentStream to Stream 0
    Synchronize Stream ( i6 % numberOfStreams )
} // %HostIrContainer
";

fn run_pipeline_gemm_comm(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) -> Result<(), Diags> {
    let program = edit.program();
    let ops = program.block(program.body()).ops.clone();
    // The pass is about these two ops by its name.
    let products: Vec<OpId> = ops
        .iter()
        .copied()
        .filter(|&op| program.op(op).kind.gemm().is_some_and(|form| !form.accumulates && !form.scaled))
        .filter(|&op| is_resharding(program, op))
        .collect();
    let mut diags = Diags::default();
    for &op in &products {
        check_gemm(program, op).unwrap_or_else(|diag| diags.push(*diag));
    }
    diags.or_value(())?;
    if products.is_empty() {
        return Ok(());
    }
    cx.add_count("products", products.len() as u64);
    let sync = cx.options().bool_value("initial_sync");
    let backend = communicator_backend(cx.options());
    let index = unused_index_name(program);
    let mut build = OpBuilder::new(edit);
    let index = build.name_expr(&index);
    let work = products.into_iter().map(|op| (op, ())).collect();
    rebuild_body(&mut build, work, |build, op, (), out| {
        pipeline_gemm(build, op, index, sync, backend, out);
    });
    Ok(())
}

/// A name for a loop's index that the program does not use.
fn unused_index_name(program: &Program) -> String {
    let names = (0..program.names().len()).map(|k| program.name(hostir::ir::Symbol(k as u32)));
    let used = names.filter_map(|name| name.strip_prefix('i')?.parse::<u32>().ok());
    format!("i{}", used.max().map_or(0, |largest| largest.saturating_add(1)))
}

/// Checks the operands and the result of a GEMM.
fn check_gemm(program: &Program, id: OpId) -> Result<(), Box<Diag>> {
    let op = program.op(id);
    let operands: Vec<TensorId> = op.input_tensors().collect();
    let (Some(&a), Some(result)) = (operands.first(), op.output_tensors().next()) else {
        return Ok(());
    };
    let other = "use --pass=host-ir-lower, which also handles other programs";
    let mesh = program.tensor(a).mesh;
    let one_axis = program.tensor_mesh(a).is_some_and(|mesh| mesh.shape.len() == 1);
    if !one_axis || operands.iter().chain([&result]).any(|&t| program.tensor(t).mesh != mesh) {
        let message =
            message!("the tensors of `{}` are not all on the same one-dimensional mesh", program.quoted_tensor(result));
        return Err(refusal(program, id, message, other));
    }
    if tensor_sharding(program, a).axes != [Some(1), None, None] || logical_axes(program, a).has_parts() {
        let message = message!("axis 1 of {} must be sharded over devices", program.quoted_tensor(a));
        return Err(refusal(program, id, message, "write it as `[iS0{i0}, ideviceIdx.x1{i1}, ..]`"));
    }
    for &tensor in operands[1..].iter().chain([&result]) {
        if tensor_sharding(program, tensor).is_sharded() {
            let message = message!("{} must not be sharded over devices here", program.quoted_tensor(tensor));
            return Err(refusal(program, id, message, other));
        }
    }
    let links = OpLinks::from_op(program, id);
    let first = logical_axes(program, result).axes.first().map(|axis| axis.parallel);
    let linked = (0..2).all(|k| links.linked_axis(a, k, result) == Some(k));
    if first != Some(ParallelType::Stream) || !linked {
        let message = message!(
            "axis 0 of {}, which is axis 0 of {}, must be stream-parallel",
            program.quoted_tensor(result),
            program.quoted_tensor(a)
        );
        return Err(refusal(program, id, message, "write the result as `[iStreamIdx0{i0}, iS1{i1}, ..]`"));
    }
    Ok(())
}

/// The error for a GEMM that cannot be pipelined.
fn refusal(program: &Program, id: OpId, message: impl Into<Message>, note: &str) -> Box<Diag> {
    Box::new(Diag::error(PIPELINE_PRODUCT, program.op_span(id), message).with_note(note))
}

/// The loops of one GEMM.
fn pipeline_gemm(
    build: &mut OpBuilder<'_, '_>,
    id: OpId,
    index: ExprId,
    sync: bool,
    backend: CommBackend,
    out: &mut Vec<OpId>,
) {
    let mut op = build.program().op(id).clone();
    let (Some(a), Some(result)) = (op.input_tensors().next(), op.output_tensors().next()) else {
        return;
    };
    let mesh = build.program().tensor(a).mesh;
    let team = build.program().tensor_mesh(a).map(|mesh| mesh.devices.clone()).unwrap_or_default();
    let serial = vec![ParallelType::Serial; logical_axes(build.program(), a).axes.len()];
    let gathered = declare_stored_copy(build, a, mesh, &serial);
    let user = build.new_stream_name();
    out.extend([build.build_get_current_stream(user), build.build_allocate(gathered), build.build_allocate(result)]);
    let worker = {
        let streams = build.name_expr("numberOfStreams");
        build.binary_expr(hostir::ir::BinaryOp::Mod, index, streams)
    };
    let domain = outermost_domain(build, a);
    let domain = *build.program().domain(domain);
    let domain = build.edit.add_domain(domain);
    if sync {
        let body = vec![build.build_set_current_stream(worker), build.build_synchronize(user)];
        out.push(build.build_index_loop(index, domain, body));
    }
    let mut body = vec![build.build_set_current_stream(worker)];
    let part = slice_for_iteration(build, a, index, &mut body);
    let whole = slice_for_iteration(build, gathered, index, &mut body);
    let (gather, number) = build.build_communication(&CollectiveSpec {
        kind: CollectiveKind::Allgather,
        team: &team,
        root: None,
        input: part,
        output: whole,
        backend,
        red_op: None,
    });
    body.extend([gather, build.build_wait(number)]);
    let gemm = slice_for_iteration(build, result, index, &mut body);
    if let Some(value) = op.operands.iter_mut().find(|value| **value == Value::Tensor(a)) {
        *value = Value::Tensor(whole);
    }
    op.set_result(gemm);
    build.edit.set_op(id, op);
    body.extend([id, build.build_set_current_stream(user), build.build_synchronize(worker)]);
    out.push(build.build_index_loop(index, domain, body));
}

/// The domain of a tensor's axis 0.
fn outermost_domain(build: &OpBuilder<'_, '_>, tensor: TensorId) -> DomainId {
    let printed = logical_axes(build.program(), tensor).axes.first().map_or(0, |a| a.printed);
    printed_domain(build.program(), tensor, printed)
}

/// The slice of a tensor along axis 0 in this iteration, without reduced axes.
fn slice_for_iteration(
    build: &mut OpBuilder<'_, '_>,
    tensor: TensorId,
    index: ExprId,
    body: &mut Vec<OpId>,
) -> TensorId {
    let mesh = build.program().tensor(tensor).mesh;
    let stored = stored_axes(build.program(), tensor).into_iter();
    let stored: Vec<IterDomain> = stored.filter(|(k, _)| *k > 0).map(|(_, domain)| domain).collect();
    let slice = declare_local_tensor(build, tensor, mesh, &stored);
    let domain = outermost_domain(build, tensor);
    body.push(build.build_select(slice, tensor, domain, index));
    slice
}
