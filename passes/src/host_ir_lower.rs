//! host-ir-lower: nvFuser's lowering as one pipeline.

use crate::framework::options::{OptionSpec, OptionType, Options};
use crate::framework::pass::{PassAction, PassExample, PassInfo};
use crate::insert_reshardings::SHARE_COPIES;
use hostir::ops::comm::{BACKENDS, PROTOCOLS};

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "host-ir-lower",
    summary: "Lower an annotated program to a host program for all devices",
    description: "\
Runs the passes of nvFuser's lowering of June 2025, in its order, and between them the two that it ran before
that year for axes that are gathered or scattered and are not the outermost ones: here these change only ops
that no communication and no loop over streams could implement without them. The input is a program in plain
math whose tensors have meshes, device axes and, on some results, stream axes. Each pass is a step of its own,
so dumps (`--print-ir-after-all`), timings and `--disable-pass` see it.

Options are passed on to the steps that have them. For `matmul_reduce_scatter` write a GEMM with the sharding
of its operands, `[device, stream, ..]`, and after it the `Set` or the reduction that reduce-scatters it. If
the GEMM is written with the sharding of the final result, its *operands* are moved, which computes the same
with more traffic.",
    example: Some(PassExample { options: "", before: EXAMPLE_BEFORE, after: EXAMPLE_AFTER }),
    options: &[
        OptionSpec {
            name: "communicator_backend",
            ty: OptionType::Choice(BACKENDS),
            default: Some("NCCL"),
            help: "Backend of the communications",
        },
        OptionSpec {
            name: "p2p_protocol",
            ty: OptionType::Choice(PROTOCOLS),
            default: Some("get"),
            help: "As in `stream-parallel-type`",
        },
        OptionSpec {
            name: "p2p_stream",
            ty: OptionType::Choice(&["worker", "own"]),
            default: Some("worker"),
            help: "As in `stream-parallel-type`",
        },
        OptionSpec {
            name: "split_initial_sync",
            ty: OptionType::Bool,
            default: Some("true"),
            help: "As in `stream-parallel-type`",
        },
        OptionSpec {
            name: "merge",
            ty: OptionType::Choice(&["adjacent", "graph"]),
            default: Some("adjacent"),
            help: "As in `stream-parallel-type`",
        },
        OptionSpec {
            name: "allgather",
            ty: OptionType::Choice(&["pairwise", "ring", "broadcast"]),
            default: Some("pairwise"),
            help: "As in `stream-parallel-type`",
        },
        OptionSpec {
            name: "offset_stream_indexing_by_rank",
            ty: OptionType::Bool,
            default: Some("false"),
            help: "Name of `allgather=ring` in nvFuser",
        },
        OptionSpec {
            name: "matmul_reduce_scatter",
            ty: OptionType::Choice(&["none", "p2p", "reduce"]),
            default: Some("none"),
            help: "As in `stream-parallel-type`",
        },
        OptionSpec {
            name: "own_part",
            ty: OptionType::Choice(&["first", "last"]),
            default: Some("first"),
            help: "As in `stream-parallel-type`",
        },
        OptionSpec {
            name: "inter_stream_synchronization",
            ty: OptionType::Bool,
            default: Some("false"),
            help: "As in `stream-parallel-type`",
        },
        SHARE_COPIES,
        OptionSpec {
            name: "rank",
            ty: OptionType::Int { min: -1, max: i64::MAX },
            default: Some("-1"),
            help: "As in `convert-op-to-communication`",
        },
    ],
    statistics: &[],
    action: PassAction::Pipeline(pipeline_steps),
};

const EXAMPLE_BEFORE: &str = "\
%HostIrContainer { (T0_g_float[iS0{2}, ideviceIdx.x1{2}, iS2{i0}, iS3{i1}] (DeviceMesh{0 1}), T1_g_float[iS4{i1}, iS5{i2}] (DeviceMesh{0 1})) -> (T2_g_float[iStreamIdx6{2}, iS7{2}, iS8{i0}, iS9{i2}, rS10{i1}] (DeviceMesh{0 1})) :
  T2
     = matmul(T0,
              T1)
} // %HostIrContainer
";
const EXAMPLE_AFTER: &str = "\
%HostIrContainer { (T0_g_float[iS0{2}, ideviceIdx.x1{2}, iS2{i0}, iS3{i1}] (DeviceMesh{0 1}), T1_g_float[iS4{i1}, iS5{i2}] (DeviceMesh{0 1})) -> (T2_g_float[iStreamIdx6{2}, iS7{2}, iS8{i0}, iS9{i2}, rS10{i1}] (DeviceMesh{0 1})) :
  T3_g_float[iStreamIdx11{2}, iS12{2}, iS13{i0}, iS14{i1}] (DeviceMesh{0 1}) = ALLOCATE(buffer=T3, mem_type=global, size=( ( i0 * i1 ) * 4 ), zero_init=false, resets_to_zero=false)
  T2 = ALLOCATE(buffer=T2, mem_type=global, size=( ( i0 * i2 ) * 4 ), zero_init=false, resets_to_zero=false)
  GetCurrentStream into Stream 0
  FOR StreamIdx in iStreamIdx11{2}:
    SetCurrentStream to Stream ( StreamIdx % numberOfStreams )
    Synchronize Stream 0
  FOR StreamIdx in iStreamIdx11{2}:
    SetCurrentStream to Stream ( StreamIdx % numberOfStreams )
    T4_g_float[ideviceIdx.x15{2}, iS16{i0}, iS17{i1}] (DeviceMesh{0 1})
       = HirAliasSelect( T0, axis = iS0{2}, index = StreamIdx )
    T5_g_float[iS18{2}, iS19{i0}, iS20{i1}] (DeviceMesh{0 1})
       = HirAliasSelect( T3, axis = iStreamIdx11{2}, index = StreamIdx )
    T5 = ALLOCATE(buffer=T5, mem_type=global, size=( ( i0 * i1 ) * 2 ), zero_init=false, resets_to_zero=false)
    Communication 0 (type=Allgather, team=(0 1), input=T4, output=T5, backend=NCCL)
    Wait Communication 0
    T6_l_float[iS21{2}, iS22{i0}, iS23{i2}, rS24{i1}] (DeviceMesh{0 1})
       = HirAliasSelect( T2, axis = iStreamIdx6{2}, index = StreamIdx )
    T6
       = matmul(T5,
                T1)
    SetCurrentStream to Stream 0
    Synchronize Stream ( StreamIdx % numberOfStreams )
} // %HostIrContainer
";

fn pipeline_steps(options: &Options) -> String {
    const STREAMS: &[&str] = &[
        "split_initial_sync",
        "merge",
        "allgather",
        "offset_stream_indexing_by_rank",
        "matmul_reduce_scatter",
        "own_part",
        "inter_stream_synchronization",
        "communicator_backend",
        "p2p_protocol",
        "p2p_stream",
    ];
    [
        "propagate-shardings".to_owned(),
        pass_with_options("insert-reshardings", options, &["share_copies"]),
        "reorder-sharded-axis{only_where_needed=true}".to_owned(),
        "make-resharding-contiguous".to_owned(),
        "finalize-multidevice-domains".to_owned(),
        "segment-host-units".to_owned(),
        pass_with_options("stream-parallel-type", options, STREAMS),
        pass_with_options("convert-op-to-communication", options, &["communicator_backend", "rank"]),
    ]
    .join(",")
}

/// A pass with those of our options that were given.
fn pass_with_options(pass: &str, options: &Options, names: &[&str]) -> String {
    let given = names.iter().filter(|name| options.is_given(name));
    let given = given.filter_map(|name| Some(format!("{name}={}", options.get(name)?)));
    let given: Vec<String> = given.collect();
    if given.is_empty() { pass.to_owned() } else { format!("{pass}{{{}}}", given.join(",")) }
}
