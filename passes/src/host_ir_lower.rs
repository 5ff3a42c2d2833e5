//! host-ir-lower: nvFuser's lowering as one pipeline.

use crate::options::{OptionSpec, OptionType, Options};
use crate::pass::{Action, PassInfo};

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "host-ir-lower",
    summary: "Lower an annotated program to loops over streams",
    description: "\
The passes that nvFuser's lowering of June 2025 runs, in its order. The input is a program in plain math whose
tensors say where they lie (meshes, device axes) and which results are spread over streams. Each pass is a
step of its own, so dumps (`--print-ir-after-all`), timings and `--disable-pass` see it.

Options are passed on to the steps that have them.",
    example: None,
    options: &[
        OptionSpec {
            name: "communicator_backend",
            ty: OptionType::Choice(&["NCCL"]),
            default: Some("NCCL"),
            help: "Backend of the communications",
        },
        OptionSpec {
            name: "split_initial_sync",
            ty: OptionType::Bool,
            default: Some("true"),
            help: "As in `stream-parallel-type`",
        },
    ],
    statistics: &[],
    action: Action::Pipeline(steps),
};

fn steps(options: &Options) -> String {
    let backend = options.word("communicator_backend");
    let sync = options.bool("split_initial_sync");
    let streams =
        format!("stream-parallel-type{{split_initial_sync={sync},communicator_backend={backend}}}");
    [
        "propagate-shardings",
        "insert-reshardings",
        "finalize-multidevice-domains",
        "segment-host-units",
        streams.as_str(),
    ]
    .join(",")
}
