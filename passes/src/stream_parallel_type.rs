//! stream-parallel-type: turns stream-parallel axes into loops over streams.
//!
//! [`group`] sorts the ops of the body into loops, [`body`] rewrites them onto slices of one iteration,
//! [`exchange`] moves what other devices hold, and this file puts allocations and streams around them.

mod body;
mod exchange;
mod group;

use crate::build::{Build, domain_id, is_stream};
use crate::codes;
use crate::options::{OptionSpec, OptionType, Options};
use crate::pass::{Action, Example, PassCx, PassInfo, StatisticSpec};
use body::Slices;
use group::{Item, Loop};
use hostir::analysis::AxisMap;
use hostir::diag::{Diag, Diags};
use hostir::ir::edit::Edit;
use hostir::ir::{BinaryOp, DomainId, ExprId, IterDomain, OpId, Program, TensorId};

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "stream-parallel-type",
    summary: "Turn stream-parallel axes into loops over streams",
    description: "\
Every op whose result has a stream-parallel axis (`iStreamIdx2{i0}`) moves into a loop over that axis and
computes one slice of its result an iteration, on stream `StreamIdx % numberOfStreams`. Ops that follow
each other and share the axis share the loop; results get an allocation before it. A first loop makes the
streams wait for the stream that was current, and each iteration ends with that stream waiting for its own.

An operand whose mapped axis lies across devices (`ideviceIdx.x0{i0}` beside `iStreamIdx2{i0}`) is
gathered part by part. `allgather=pairwise`, the seeds' way: in iteration i rank r sends its part to rank i
and receives rank i's. `ring`: in iteration i rank r works on part `( rank + i ) % D`, which it receives
while it sends its own to rank `( D + rank - i ) % D`, so that no two ranks wait for one peer; a loop that also
holds a collective is an error then, because ranks would bring different slices to it. `broadcast`: in
iteration i rank i sends its part to all.

Inputs with a stream-parallel axis, stream axes that are reduced or made by splits, and ops that only run
inside a HostUnit are errors. Loops that the program has are left alone.",
    example: Some(Example { before: EXAMPLE_BEFORE, after: EXAMPLE_AFTER }),
    options: &[
        OptionSpec {
            name: "split_initial_sync",
            ty: OptionType::Bool,
            default: Some("true"),
            help: "Synchronise with the current stream in a loop of its own, before the first iteration starts; false gives the one loop of early 2025, in which iterations wait for each other",
        },
        OptionSpec {
            name: "allgather",
            ty: OptionType::Choice(&["pairwise", "ring", "broadcast"]),
            default: Some("pairwise"),
            help: "How a sharded axis that becomes the stream axis is gathered",
        },
        OptionSpec {
            name: "offset_stream_indexing_by_rank",
            ty: OptionType::Bool,
            default: Some("false"),
            help: "nvFuser's name for allgather=ring",
        },
        OptionSpec {
            name: "inter_stream_synchronization",
            ty: OptionType::Bool,
            default: Some("false"),
            help: "Make the stream of iteration i+1 wait for the communication of iteration i, so that communications do not compete",
        },
        OptionSpec {
            name: "communicator_backend",
            ty: OptionType::Choice(&["NCCL", "UCC"]),
            default: Some("NCCL"),
            help: "Backend of the communications that the pass makes",
        },
    ],
    statistics: &[
        StatisticSpec { name: "loops", help: "loops made" },
        StatisticSpec { name: "ops-streamed", help: "ops moved into loops" },
    ],
    action: Action::Rewrite(run),
};

const EXAMPLE_BEFORE: &str = "\
%HostIrContainer { (T0_g_float[iS0{i0}, iS1{i1}]) -> (T1_g_float[iStreamIdx2{i0}, iS3{i1}]) :
  T1_g_float[iStreamIdx2{i0}, iS3{i1}]
     = Set( T0_g_float[iS0{i0}, iS1{i1}], cache_op=Streaming )
} // %HostIrContainer
";
const EXAMPLE_AFTER: &str = "\
%HostIrContainer { (T0_g_float[iS0{i0}, iS1{i1}]) -> (T1_g_float[iStreamIdx2{i0}, iS3{i1}]) :
  T1_g_float[iStreamIdx2{i0}, iS3{i1}] = ALLOCATE(buffer=T1, mem_type=global, size=( i0 * i1 ), zero_init=false, resets_to_zero=false)
  GetCurrentStream into Stream 0
  FOR StreamIdx in iStreamIdx2{i0}:
    SetCurrentStream to Stream ( StreamIdx % numberOfStreams )
    Synchronize Stream 0
  FOR StreamIdx in iStreamIdx2{i0}:
    SetCurrentStream to Stream ( StreamIdx % numberOfStreams )
    T2_l_float[iS4{i1}]
       = HirAliasSelect( T0, axis = iS0{i0}, index = StreamIdx )
    T3_l_float[iS5{i1}]
       = HirAliasSelect( T1, axis = iStreamIdx2{i0}, index = StreamIdx )
    T3
       = Set( T2, cache_op=Streaming )
    SetCurrentStream to Stream 0
    Synchronize Stream ( StreamIdx % numberOfStreams )
} // %HostIrContainer
";

/// How a sharded axis is gathered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Allgather {
    Pairwise,
    Ring,
    Broadcast,
}

/// The options.
struct Config {
    split_initial_sync: bool,
    allgather: Allgather,
    inter_stream_synchronization: bool,
    backend: String,
}

impl Config {
    fn new(options: &Options) -> Result<Self, Diags> {
        const OFFSET: &str = "offset_stream_indexing_by_rank";
        let offset = options.bool(OFFSET);
        let word = options.word("allgather");
        let contradicts = options.is_given("allgather") && options.is_given(OFFSET);
        if contradicts && offset != (word == "ring") {
            let message = format!("`allgather={word}` contradicts `{OFFSET}={offset}`");
            let note = "both say the order in which parts are gathered: leave one out";
            let mut diags = Diags::default();
            diags.push(Diag::global(codes::STREAM_OPTIONS, message).note(note));
            return Err(diags);
        }
        let allgather = match word {
            "broadcast" => Allgather::Broadcast,
            "ring" => Allgather::Ring,
            _ if offset => Allgather::Ring,
            _ => Allgather::Pairwise,
        };
        Ok(Self {
            split_initial_sync: options.bool("split_initial_sync"),
            allgather,
            inter_stream_synchronization: options.bool("inter_stream_synchronization"),
            backend: options.word("communicator_backend").to_owned(),
        })
    }
}

fn run(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) -> Result<(), Diags> {
    let config = Config::new(cx.options())?;
    refuse_inputs(edit.program())?;
    let body = edit.program().body();
    let ops = edit.program().block(body).ops.clone();
    let map = AxisMap::new(edit.program(), ops.iter().copied());
    let items = group::group(edit.program(), &map, &ops)?;
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
    if diags.has_errors() {
        return Err(diags);
    }
    edit.set_block(body, out);
    Ok(())
}

/// Inputs have no stream-parallel axis.
fn refuse_inputs(program: &Program) -> Result<(), Diags> {
    let mut diags = Diags::default();
    for tensor in program.inputs().iter().filter_map(|value| value.tensor()) {
        if program.domains(tensor).iter().any(is_stream) {
            let name = program.tensor_name(tensor);
            let span = program.source().tensors.get(tensor).copied().unwrap_or_default();
            let message = format!("the input {name} has a stream-parallel axis");
            let note = "write the axis as `iS` on the input; only results of ops can be spread over streams";
            diags.push(Diag::error(codes::STREAM_INPUT, span, message).note(note));
        }
    }
    if diags.has_errors() { Err(diags) } else { Ok(()) }
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
    for &op in &found.ops {
        build.origin = op;
        for tensor in outputs(build.program(), op) {
            if body::mapped_axis(build.program(), map, tensor, found.class)
                .is_ok_and(|a| a.is_some())
            {
                out.push(build.allocate(tensor));
            }
        }
    }
    let Some(&first) = found.ops.first() else { return };
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
    let mut slices = Slices::new(part_index(build, config, found));
    for &op in &found.ops {
        build.origin = op;
        if let Err(diag) = body::op(build, map, config, found, op, &mut slices, &mut ops) {
            diags.push(diag);
        }
    }
    build.origin = first;
    ops.extend([build.set_current_stream(user), build.synchronize(worker)]);
    out.push(build.for_stream(domain, ops));
}

/// The part that an iteration works on: `StreamIdx`, on a ring `( ( rank + StreamIdx ) % i0 )`.
fn part_index(build: &mut Build<'_, '_>, config: &Config, found: &Loop) -> ExprId {
    let index = build.stream_index();
    if config.allgather != Allgather::Ring {
        return index;
    }
    let (rank, stop) = (build.name("rank"), build.program().domain(found.domain).extent);
    let sum = build.binary(BinaryOp::Add, rank, index);
    build.binary(BinaryOp::Mod, sum, stop)
}

fn outputs(program: &Program, op: OpId) -> Vec<TensorId> {
    program.op(op).output_tensors().collect()
}

/// The loop's own copy of a tensor's axis: `iStreamIdx2{i0}` under the same number.
fn loop_domain(build: &mut Build<'_, '_>, domain: DomainId) -> DomainId {
    let domain: IterDomain = *build.program().domain(domain);
    build.edit.domain(domain)
}

/// The extent of a tensor's printed axis.
fn extent(program: &Program, tensor: TensorId, printed: u32) -> ExprId {
    program.domain(domain_id(program, tensor, printed)).extent
}
