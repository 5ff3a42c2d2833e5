//! stream-parallel-type: turns stream-parallel axes into loops over streams.
//!
//! [`group`] sorts the ops of the body into loops, [`body`] rewrites them onto the slices of one iteration,
//! [`exchange`] and [`scatter`] communicate slices between devices, and this file adds allocations and streams.

mod body;
mod config;
mod doc;
mod exchange;
mod graph;
mod group;
mod loop_body;
mod loops;
mod scatter;

use crate::framework::pass::{PassAction, PassCx, PassExample, PassInfo, StatisticSpec};
use crate::support::builder::{OpBuilder, is_stored_stream_domain};
use config::Config;
use hostir::analysis::AxisMap;
use hostir::diag::message;
use hostir::diag::{Diag, Diags};
use hostir::ir::edit::Edit;
use hostir::ir::{BinaryOp, CommBackend, DomainId, ExprId, IterDomain, OpId, Program, TensorId};
use loop_body::LoopBody;
use loops::{BodyItem, StreamLoop};

/// stream-parallel-type: an input with a stream-parallel axis.
const STREAM_INPUT: &str = "H0321";

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "stream-parallel-type",
    summary: "Convert stream-parallel axes to loops over streams",
    description: doc::DESCRIPTION,
    example: Some(PassExample { options: "", before: doc::EXAMPLE_BEFORE, after: doc::EXAMPLE_AFTER }),
    options: config::OPTIONS,
    statistics: &[
        StatisticSpec { name: "loops", help: "loops created" },
        StatisticSpec { name: "ops-streamed", help: "ops moved into loops" },
    ],
    action: PassAction::Rewrite(run_stream_parallel_type),
};

fn run_stream_parallel_type(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) -> Result<(), Diags> {
    let config = Config::new(cx)?;
    if config.reduce_scatter.is_none() {
        refuse_inputs(edit.program())?;
    }
    let body = edit.program().body();
    let ops = edit.program().block(body).ops.clone();
    if !ops.iter().any(|&op| has_stream_axis(edit.program(), op)) {
        return Ok(());
    }
    let map = AxisMap::new(edit.program(), ops.iter().copied());
    let items = group::group_ops(edit.program(), &map, &config, &ops)?;
    if !items.iter().any(|item| matches!(item, BodyItem::Loop(_))) {
        return Ok(());
    }
    let mut build = OpBuilder::new(edit);
    let mut diags = Diags::default();
    let mut out = Vec::with_capacity(ops.len() * 2);
    for item in items {
        match item {
            BodyItem::Op(op) => out.push(op),
            BodyItem::Loop(found) => {
                cx.add_count("loops", 1);
                cx.add_count("ops-streamed", found.ops.len() as u64);
                emit_loop(&mut build, &map, &config, &found, &mut out, &mut diags);
            }
        }
    }
    diags.or_value(())?;
    edit.set_block(body, out);
    Ok(())
}

/// True if an op has a result with a domain on the streams: only such ops move into loops.
fn has_stream_axis(program: &Program, op: OpId) -> bool {
    let mut results = program.op(op).output_tensors();
    results.any(|tensor| program.domains(tensor).iter().any(is_stored_stream_domain))
}

/// Inputs have no stream-parallel axis.
fn refuse_inputs(program: &Program) -> Result<(), Diags> {
    let mut diags = Diags::default();
    for tensor in program.inputs().iter().filter_map(|value| value.as_tensor()) {
        if program.domains(tensor).iter().any(is_stored_stream_domain) {
            let name = program.quoted_tensor(tensor);
            let span = program.tensor_span(tensor);
            let message = message!("the input {} has a stream-parallel axis", name);
            let note = "write the axis as `iS` in the input: without `matmul_reduce_scatter`, only results of ops can be stream-parallel";
            diags.push(Diag::error(STREAM_INPUT, span, message).with_note(note));
        }
    }
    diags.or_value(())
}

/// One loop with its allocations and streams.
fn emit_loop(
    build: &mut OpBuilder<'_, '_>,
    map: &AxisMap,
    config: &Config,
    found: &StreamLoop,
    out: &mut Vec<OpId>,
    diags: &mut Diags,
) {
    for &(op, role) in &found.ops {
        build.origin = op;
        // CUDA's collectives write memory that all devices can access.
        let shared = config.backend == CommBackend::Cuda && role.is_collective_of_pass(config);
        let results: Vec<TensorId> = build.program().op(op).output_tensors().collect();
        for tensor in results {
            let axis = body::mapped_axis(build.program(), map, tensor, found.class);
            if axis.is_ok_and(|axis| axis.is_some()) {
                if shared {
                    build.make_symmetric(tensor);
                }
                out.push(build.build_allocate(tensor));
            }
        }
    }
    let Some(&(first, _)) = found.ops.first() else { return };
    build.origin = first;
    let user = build.new_stream_name();
    let (domain, worker) = (loop_domain(build, found.domain), build.worker_stream_expr());
    let mut ops = Vec::new();
    let get = build.build_get_current_stream(user);
    if config.split_initial_sync {
        let sync = vec![build.build_set_current_stream(worker), build.build_synchronize(user)];
        out.extend([get, build.build_stream_loop(domain, sync)]);
        ops.push(build.build_set_current_stream(worker));
    } else {
        ops.extend([get, build.build_set_current_stream(worker), build.build_synchronize(user)]);
    }
    let index = shard_index(build, config, found);
    let mut body = LoopBody::new(build, config, index, ops);
    for &(op, role) in &found.ops {
        body.build.origin = op;
        diags.keep_error(body::emit_op(&mut body, map, found, op, role));
    }
    let mut ops = body.finish();
    build.origin = first;
    ops.extend([build.build_set_current_stream(user), build.build_synchronize(worker)]);
    out.push(build.build_stream_loop(domain, ops));
}

/// The part that an iteration works on: `StreamIdx`, with an offset `( ( rank + StreamIdx ) % i0 )`, or
/// `( ( ( rank + StreamIdx ) + 1 ) % i0 )` if the own part comes last.
fn shard_index(build: &mut OpBuilder<'_, '_>, config: &Config, found: &StreamLoop) -> ExprId {
    let index = build.stream_index_expr();
    if !found.is_offset(config) {
        return index;
    }
    let (rank, stop) = (build.name_expr("rank"), build.program().domain(found.domain).extent);
    let mut sum = build.binary_expr(BinaryOp::Add, rank, index);
    if config.own_last {
        let one = build.int_expr(1);
        sum = build.binary_expr(BinaryOp::Add, sum, one);
    }
    build.binary_expr(BinaryOp::Mod, sum, stop)
}

/// The loop's own copy of a tensor's axis: `iStreamIdx2{i0}` under the same number.
fn loop_domain(build: &mut OpBuilder<'_, '_>, domain: DomainId) -> DomainId {
    let domain: IterDomain = *build.program().domain(domain);
    build.edit.add_domain(domain)
}
