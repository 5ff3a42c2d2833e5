//! stream-parallel-type: turns stream-parallel axes into loops over streams.
//!
//! [`group`] sorts the ops of the body into loops, [`body`] rewrites them onto slices of one iteration,
//! [`exchange`] and [`scatter`] move what other devices hold, and this file puts allocations and streams
//! around them.

mod body;
mod config;
mod doc;
mod exchange;
mod graph;
mod group;
mod loop_body;
mod loops;
mod scatter;

use crate::framework::pass::{Action, Example, PassCx, PassInfo, StatisticSpec};
use crate::support::builder::{Build, is_stream};
use config::Config;
use hostir::analysis::AxisMap;
use hostir::diag::{Diag, Diags};
use hostir::ir::edit::Edit;
use hostir::ir::{BinaryOp, DomainId, ExprId, IterDomain, OpId, Program, TensorId};
use loop_body::LoopBody;
use loops::{Item, Loop};

/// stream-parallel-type: an input with a stream-parallel axis.
const STREAM_INPUT: &str = "H0321";

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "stream-parallel-type",
    summary: "Turn stream-parallel axes into loops over streams",
    description: doc::DESCRIPTION,
    example: Some(Example { options: "", before: doc::EXAMPLE_BEFORE, after: doc::EXAMPLE_AFTER }),
    options: config::OPTIONS,
    statistics: &[
        StatisticSpec { name: "loops", help: "loops made" },
        StatisticSpec { name: "ops-streamed", help: "ops moved into loops" },
    ],
    action: Action::Rewrite(run),
};

fn run(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) -> Result<(), Diags> {
    let config = Config::new(cx)?;
    if config.reduce_scatter.is_none() {
        refuse_inputs(edit.program())?;
    }
    let body = edit.program().body();
    let ops = edit.program().block(body).ops.clone();
    let map = AxisMap::new(edit.program(), ops.iter().copied());
    let items = group::group(edit.program(), &map, &config, &ops)?;
    if !items.iter().any(|item| matches!(item, Item::Loop(_))) {
        return Ok(());
    }
    let mut build = Build::new(edit);
    let mut diags = Diags::default();
    let mut out = Vec::with_capacity(ops.len() * 2);
    for item in items {
        match item {
            Item::Op(op) => out.push(op),
            Item::Loop(found) => {
                cx.count("loops", 1);
                cx.count("ops-streamed", found.ops.len() as u64);
                emit(&mut build, &map, &config, &found, &mut out, &mut diags);
            }
        }
    }
    diags.or_value(())?;
    edit.set_block(body, out);
    Ok(())
}

/// Inputs have no stream-parallel axis.
fn refuse_inputs(program: &Program) -> Result<(), Diags> {
    let mut diags = Diags::default();
    for tensor in program.inputs().iter().filter_map(|value| value.tensor()) {
        if program.domains(tensor).iter().any(is_stream) {
            let name = program.tensor_name(tensor);
            let span = program.tensor_span(tensor);
            let message = format!("the input {name} has a stream-parallel axis");
            let note = "write the axis as `iS` on the input: only results of ops can be spread over streams, unless `matmul_reduce_scatter` is given";
            diags.push(Diag::error(STREAM_INPUT, span, message).note(note));
        }
    }
    diags.or_value(())
}

/// One loop with its allocations and streams.
fn emit(
    build: &mut Build<'_, '_>,
    map: &AxisMap,
    config: &Config,
    found: &Loop,
    out: &mut Vec<OpId>,
    diags: &mut Diags,
) {
    for &(op, role) in &found.ops {
        build.origin = op;
        // CUDA's collectives write what all devices can see.
        let shared = config.backend == "CUDA" && role.is_collective_of_pass(config);
        let results: Vec<TensorId> = build.program().op(op).output_tensors().collect();
        for tensor in results {
            let axis = body::mapped_axis(build.program(), map, tensor, found.class);
            if axis.is_ok_and(|axis| axis.is_some()) {
                if shared {
                    build.make_symmetric(tensor);
                }
                out.push(build.allocate(tensor));
            }
        }
    }
    let Some(&(first, _)) = found.ops.first() else { return };
    build.origin = first;
    let user = build.user_stream();
    let (domain, worker) = (loop_domain(build, found.domain), build.worker_stream());
    let mut ops = Vec::new();
    let get = build.get_current_stream(user);
    if config.split_initial_sync {
        let sync = vec![build.set_current_stream(worker), build.synchronize(user)];
        out.extend([get, build.for_stream(domain, sync)]);
        ops.push(build.set_current_stream(worker));
    } else {
        ops.extend([get, build.set_current_stream(worker), build.synchronize(user)]);
    }
    let index = part_index(build, config, found);
    let mut body = LoopBody::new(build, config, index, ops);
    for &(op, role) in &found.ops {
        body.build.origin = op;
        diags.keep_error(body::op(&mut body, map, found, op, role));
    }
    let mut ops = body.finish();
    build.origin = first;
    ops.extend([build.set_current_stream(user), build.synchronize(worker)]);
    out.push(build.for_stream(domain, ops));
}

/// The part that an iteration works on: `StreamIdx`, with an offset `( ( rank + StreamIdx ) % i0 )`, or
/// `( ( ( rank + StreamIdx ) + 1 ) % i0 )` if the own part comes last.
fn part_index(build: &mut Build<'_, '_>, config: &Config, found: &Loop) -> ExprId {
    let index = build.stream_index();
    if !found.is_offset(config) {
        return index;
    }
    let (rank, stop) = (build.name("rank"), build.program().domain(found.domain).extent);
    let mut sum = build.binary(BinaryOp::Add, rank, index);
    if config.own_last {
        let one = build.int(1);
        sum = build.binary(BinaryOp::Add, sum, one);
    }
    build.binary(BinaryOp::Mod, sum, stop)
}

/// The loop's own copy of a tensor's axis: `iStreamIdx2{i0}` under the same number.
fn loop_domain(build: &mut Build<'_, '_>, domain: DomainId) -> DomainId {
    let domain: IterDomain = *build.program().domain(domain);
    build.edit.domain(domain)
}
