//! convert-op-to-communication: turns ops that move data between devices into communications.
//!
//! [`change`] finds how an op changes the sharding, [`table`] selects the communications that implement
//! the change, and this file inserts them into the program.

mod branches;
mod change;
mod own_rank;
mod table;

use crate::framework::analyses::ReshardingOps;
use crate::framework::options::{OptionSpec, OptionType, Options};
use crate::framework::pass::{PassAction, PassCx, PassExample, PassInfo, StatisticSpec};
use crate::support::builder::{CollectiveSpec, OpBuilder};
use crate::support::comm_options::communicator_backend;
use crate::support::keep::IterationAllocations;
use crate::support::rewrite::{self, CommentMoves};
use branches::RankBranches;
use hostir::diag::message;
use hostir::diag::{Diag, Diags};
use hostir::ir::edit::Edit;
use hostir::ir::{BlockId, CommBackend, OpEffect, OpId, Program, TensorId, quoted_axis};
use hostir::ops::comm::BACKENDS;
use rustc_hash::FxHashMap;
use table::{CommDecision, PlannedComm};

/// convert-op-to-communication: a slice that is not contiguous in memory.
const CONVERT_STRIDED: &str = "H0351";

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "convert-op-to-communication",
    summary: "Convert ops that move data between devices to communications",
    description: "\
Every op that needs data of other devices (a *resharding* op: its operand and its result lie on different
devices or are sharded along different axes) becomes an allocation of its result, a Communication and a Wait.
Both tensors move to global memory. All other ops do not change.

| op | operand | result | meshes | becomes |
|---|---|---|---|---|
| `Set` | sharded | replicated | same | Allgather |
| `Set` | sharded | replicated | different | a Gather for each receiver |
| `Set` | replicated | sharded | any | Scatter from the first sender that also receives, else from the first |
| `Set` | sharded | sharded | different | a SendRecv for each pair of devices |
| `Set` | replicated | replicated | different | Broadcast from the first sender |
| `reduction` | sharded along the reduced axis | replicated | same | Allreduce |
| `reduction` | sharded along the reduced axis | replicated | different | a Reduce for each receiver |
| `reduction` | sharded along the reduced axis | sharded | same | ReduceScatter |

A tensor on a mesh of one device counts as replicated. A root that is not in the mesh of the others is
appended to the team. `op = add` becomes the default `red_op`, `mul` product, `min` and `max` themselves,
`bitwise_and`, `bitwise_or` and `bitwise_xor` band, bor and bxor.

Errors, all in one run: ops other than `Set` and `reduction`; a gathered or scattered axis that is not the
outermost one (devices, reductions and broadcasts do not count); more than one axis that changes; more than
one reduced axis; meshes of several dimensions except for Allgather, Allreduce and ReduceScatter; SendRecv
between meshes of different sizes; a Gather or a Reduce for each receiver whose members are more than
16,777,216 altogether; reduce operations that communications do not have; slices that are not one
range of memory; branches and loops that depend on the rank, unless all devices of a communication take the
same path.

One text serves all ranks: on a mesh of several dimensions there is one Communication for each row (or column)
along the device type that changes. `rank=R` gives nvFuser's program of rank R: it keeps the communications
whose team has R and the ops with a tensor whose mesh has R. The result is a valid program: tensors of other
ranks that it still names are allocated, which does nothing on rank R (nvFuser leaves them undefined), and
HostUnits stay even if no PostOnStream uses them.

Deviations from nvFuser: the team is along the device type that changes, which need not be `deviceIdx.x`; an
axis that is outermost only because a device domain was moved to the front of the printed order is rejected,
because its parts are not contiguous in memory; ops in branches and nested loops are converted too, since a
program with both communications and resharding ops cannot run. An `ALLOCATE` in a loop has `keep=false` if
iterations would otherwise share the memory.",
    example: Some(PassExample { options: "", before: EXAMPLE_BEFORE, after: EXAMPLE_AFTER }),
    options: &[
        OptionSpec {
            name: "communicator_backend",
            ty: OptionType::Choice(BACKENDS),
            default: Some("NCCL"),
            help: "Backend of the communications that the pass inserts",
        },
        OptionSpec {
            name: "rank",
            ty: OptionType::Int { min: -1, max: i64::MAX },
            default: Some("-1"),
            help: "Keep only the ops of this rank; -1 gives one program for all ranks",
        },
    ],
    statistics: &[
        StatisticSpec { name: "ops-converted", help: "resharding ops replaced" },
        StatisticSpec { name: "communications", help: "communications inserted" },
        StatisticSpec { name: "ops-of-others", help: "ops of other ranks removed" },
    ],
    action: PassAction::Rewrite(run_convert_to_communication),
};

const EXAMPLE_BEFORE: &str = "\
%HostIrContainer { (T0_l_float[ideviceIdx.x0{i0}, iS1{i1}] (DeviceMesh{0 1})) -> (T1_l_float[iS2{i0}, iS3{i1}] (DeviceMesh{0 1})) :
  T1_l_float[iS2{i0}, iS3{i1}] (DeviceMesh{0 1})
     = Set( T0_l_float[ideviceIdx.x0{i0}, iS1{i1}] (DeviceMesh{0 1}), cache_op=Streaming )
} // %HostIrContainer
";
const EXAMPLE_AFTER: &str = "\
%HostIrContainer { (T0_g_float[ideviceIdx.x0{i0}, iS1{i1}] (DeviceMesh{0 1})) -> (T1_g_float[iS2{i0}, iS3{i1}] (DeviceMesh{0 1})) :
  T1_g_float[iS2{i0}, iS3{i1}] (DeviceMesh{0 1}) = ALLOCATE(buffer=T1, mem_type=global, size=( i0 * i1 ), zero_init=false, resets_to_zero=false)
  Communication 0 (type=Allgather, team=(0 1), input=T0, output=T1, backend=NCCL)
  Wait Communication 0
} // %HostIrContainer
";

/// The options.
struct Config {
    backend: CommBackend,
    /// The rank to print for; `None` for all.
    rank: Option<u32>,
}

impl Config {
    fn new(options: &Options) -> Self {
        Self { backend: communicator_backend(options), rank: u32::try_from(options.int_value("rank")).ok() }
    }
}

/// The error for an op that moves data between devices and cannot become a communication, even with its axes in another
/// order.
pub(crate) fn refuse_in_any_order(program: &Program, op: OpId) -> Option<Diag> {
    let diag = table::decide_communication(program, op).err()?;
    (diag.code != table::CONVERT_INNER).then_some(*diag)
}

fn run_convert_to_communication(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) -> Result<(), Diags> {
    let config = Config::new(cx.options());
    let resharding = cx.resharding_ops(edit);
    let decisions = decide_conversions(edit.program(), &resharding)?;
    if decisions.is_empty() && config.rank.is_none() {
        return Ok(());
    }
    let iterations = IterationAllocations::from_program(edit.program());
    let mut made = Vec::new();
    let mut blocks: Vec<(BlockId, Vec<OpId>)> = Vec::new();
    let mut moves = CommentMoves::default();
    let mut build = OpBuilder::new(edit);
    // Decisions are in the order of the ops, and those of one block are (nearly) adjacent.
    for (block, ops) in group_by_block(build.program(), &decisions) {
        let mut out = Vec::with_capacity(ops.len() * 2);
        for op in ops {
            match decisions.binary_search_by_key(&op, |(id, _)| *id) {
                Ok(found) => {
                    let first = out.len();
                    let posts = emit_conversion(&mut build, &config, op, &decisions[found].1, &mut out, &mut moves);
                    cx.add_count("ops-converted", 1);
                    cx.add_count("communications", posts);
                    made.extend(
                        out[first..]
                            .iter()
                            .copied()
                            .filter(|&id| build.program().op(id).kind.effect() == OpEffect::Allocate),
                    );
                }
                Err(_) => out.push(op),
            }
        }
        blocks.push((block, out));
    }
    for (block, ops) in blocks {
        build.edit.set_block(block, ops);
    }
    if let Some(rank) = config.rank {
        cx.add_count("ops-of-others", own_rank::keep_own_ops(&mut build, rank));
    }
    iterations.finalize_allocations(edit, &made);
    rewrite::move_comments(edit, &moves);
    rewrite::drop_lost_comments(edit);
    Ok(())
}

/// The resharding ops of the host program with their replacements, by id. Reports all that cannot be converted.
fn decide_conversions(program: &Program, resharding: &ReshardingOps) -> Result<Vec<(OpId, CommDecision)>, Diags> {
    let mut decisions = Vec::new();
    let mut diags = Diags::default();
    let mut selects = FxHashMap::default();
    let branches = RankBranches::new(program);
    program.walk(program.body(), &mut |op| {
        let what = program.op(op);
        if what.kind.effect() == OpEffect::Alias {
            selects.extend(what.output_tensors().map(|slice| (slice, op)));
        }
        if !resharding.contains(op) {
            return;
        }
        match table::decide_communication(program, op) {
            Ok(decision) => {
                let refused = refuse_strided(program, &selects, op, &decision)
                    .or_else(|| branches.refuse_divergent(program, op, &decision));
                match refused {
                    None => decisions.push((op, decision)),
                    Some(diag) => diags.push(diag),
                }
            }
            Err(diag) => diags.push(*diag),
        }
    });
    decisions.sort_by_key(|(op, _)| *op);
    diags.or_value(decisions)
}

/// Refuses slices with gaps: a communication takes one range of memory. (nvFuser takes every slice for one.)
fn refuse_strided(
    program: &Program,
    selects: &FxHashMap<TensorId, OpId>,
    id: OpId,
    decision: &CommDecision,
) -> Option<Diag> {
    let (tensor, (select, outer)) = [decision.input, decision.output]
        .into_iter()
        .find_map(|tensor| Some((tensor, change::find_strided_select(program, selects, tensor)?)))?;
    let message = message!(
        "the slice {} is not contiguous in memory: `{}` is outside of the selected axis",
        program.quoted_tensor(tensor),
        quoted_axis(program, &outer)
    );
    let note = "select outer axes only: permute the tensor so that the selected (stream-parallel) axis is outermost";
    let diag = Diag::error(CONVERT_STRIDED, program.op_span(id), message);
    let diag = diag.with_label(program.op_span(select), "selected here");
    Some(diag.with_note(note))
}

/// The blocks with ops to convert, in text order, with their ops.
fn group_by_block(program: &Program, decisions: &[(OpId, CommDecision)]) -> Vec<(BlockId, Vec<OpId>)> {
    let mut blocks = vec![program.body()];
    program.walk(program.body(), &mut |op| blocks.extend(program.op(op).blocks.iter().copied()));
    blocks.retain(|&block| {
        let mut ops = program.block(block).ops.iter();
        ops.any(|op| decisions.binary_search_by_key(op, |(id, _)| *id).is_ok())
    });
    blocks.into_iter().map(|block| (block, program.block(block).ops.clone())).collect()
}

/// Appends the replacement of an op. Returns the number of communications.
fn emit_conversion(
    build: &mut OpBuilder<'_, '_>,
    config: &Config,
    id: OpId,
    decision: &CommDecision,
    out: &mut Vec<OpId>,
    moves: &mut CommentMoves,
) -> u64 {
    build.origin = id;
    let (input, output) = (decision.input, decision.output);
    build.make_global(input);
    build.make_global(output);
    let mesh = build.program().tensor_mesh(output);
    let allocates = config.rank.is_none_or(|rank| mesh.is_none_or(|mesh| mesh.contains(rank)));
    let first = out.len();
    let mut posted = None;
    let mut made = 0;
    for post in decision.posts.iter().filter(|post| is_team_member(config, post)) {
        // Each of several communications gets its allocation, as in nvFuser; those that replace one communication of
        // nvFuser share it.
        if allocates && (made == 0 || !decision.rows) {
            out.push(build.build_allocate(output));
        }
        let root = post.root.map(|root| build.root_expr(&post.team, root));
        let (post, number) = build.build_communication(&CollectiveSpec {
            kind: decision.kind,
            team: &post.team,
            root,
            input,
            output,
            backend: config.backend,
            red_op: decision.red_op,
        });
        let wait = build.build_wait(number);
        out.extend([post, wait]);
        posted.get_or_insert(post);
        made += 1;
    }
    if made == 0 {
        // This rank does nothing, but the text still has to declare the result.
        out.push(build.build_allocate(output));
    }
    if let (Some(&above), Some(trailing)) = (out.get(first), posted) {
        moves.add_move(id, above, trailing);
    }
    made
}

/// True if the program's rank is in the team.
fn is_team_member(config: &Config, post: &PlannedComm) -> bool {
    config.rank.is_none_or(|rank| post.team.contains(&rank))
}
