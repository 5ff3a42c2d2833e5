//! host-ir-lower: nvFuser's lowering as one pipeline.

use crate::options::{OptionSpec, OptionType, Options};
use crate::pass::{Action, PassInfo};
use hostir::ops::comm::{BACKENDS, PROTOCOLS};

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "host-ir-lower",
    summary: "Lower an annotated program to a host program for all devices",
    description: "\
The passes that nvFuser's lowering of June 2025 runs, in its order. The input is a program in plain math whose
tensors say where they lie (meshes, device axes) and which results are spread over streams. Each pass is a
step of its own, so dumps (`--print-ir-after-all`), timings and `--disable-pass` see it.

Options are passed on to the steps that have them. For `matmul_reduce_scatter` write a product where its operands
lie, `[device, stream, ..]`, and behind it the `Set` or the reduction that scatters it: a product that is written
where its result should lie gets its *operands* moved, which computes the same with more traffic.",
    example: None,
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
            help: "nvFuser's name for `allgather=ring`",
        },
        OptionSpec {
            name: "matmul_reduce_scatter",
            ty: OptionType::Choice(&["none", "p2p", "reduce"]),
            default: Some("none"),
            help: "As in `stream-parallel-type`",
        },
        OptionSpec {
            name: "inter_stream_synchronization",
            ty: OptionType::Bool,
            default: Some("false"),
            help: "As in `stream-parallel-type`",
        },
        OptionSpec {
            name: "rank",
            ty: OptionType::Int { min: -1, max: i64::MAX },
            default: Some("-1"),
            help: "As in `convert-op-to-communication`",
        },
    ],
    statistics: &[],
    action: Action::Pipeline(steps),
};

fn steps(options: &Options) -> String {
    const STREAMS: &[&str] = &[
        "split_initial_sync",
        "merge",
        "allgather",
        "offset_stream_indexing_by_rank",
        "matmul_reduce_scatter",
        "inter_stream_synchronization",
        "communicator_backend",
        "p2p_protocol",
    ];
    [
        "propagate-shardings".to_owned(),
        "insert-reshardings".to_owned(),
        "finalize-multidevice-domains".to_owned(),
        "segment-host-units".to_owned(),
        with_options("stream-parallel-type", options, STREAMS),
        with_options("convert-op-to-communication", options, &["communicator_backend", "rank"]),
    ]
    .join(",")
}

/// A pass with those of our options that were given.
fn with_options(pass: &str, options: &Options, names: &[&str]) -> String {
    let given = names.iter().filter(|name| options.is_given(name));
    let given = given.filter_map(|name| Some(format!("{name}={}", options.get(name)?)));
    let given: Vec<String> = given.collect();
    if given.is_empty() { pass.to_owned() } else { format!("{pass}{{{}}}", given.join(",")) }
}
