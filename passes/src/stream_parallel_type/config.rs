//! The options of the pass.

use crate::framework::options::{OptionSpec, OptionType};
use crate::framework::pass::PassCx;
use crate::support::comm_options::communicator_backend;
use hostir::diag::message;
use hostir::diag::{Diag, Diags};
use hostir::ir::{CommBackend, MessageProtocol};
use hostir::ops::comm::{BACKENDS, PROTOCOLS};

/// stream-parallel-type: options that contradict each other.
const STREAM_OPTIONS: &str = "H0330";
/// An option that has no effect without another one (warning).
const OPTION_UNUSED: &str = "H0396";

/// The algorithm that gathers a sharded axis.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AllgatherMethod {
    Pairwise,
    Ring,
    Broadcast,
}

/// The algorithm that reduces and scatters the partial results of a GEMM.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ReduceScatter {
    /// Parts are exchanged in the loop; the program adds them after it.
    P2p,
    /// Each iteration reduces one part to the device that keeps it.
    Reduce,
}

/// The ops that may share a loop.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LoopMerging {
    Adjacent,
    Graph,
}

/// The carrier of the messages between two ranks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageTransport {
    /// Groups of a send and a receive.
    Coalesced,
    /// Copies on the current stream that the receiver makes.
    CudaGet,
    /// Copies on the current stream that the sender makes.
    CudaPut,
    /// UCC has no groups.
    None,
}

/// The options.
pub(super) struct Config {
    pub(super) split_initial_sync: bool,
    pub(super) allgather: AllgatherMethod,
    pub(super) merge: LoopMerging,
    pub(super) reduce_scatter: Option<ReduceScatter>,
    pub(super) inter_stream_synchronization: bool,
    pub(super) messages: MessageTransport,
    pub(super) backend: CommBackend,
    /// True if a rank works on its own part in the last iteration of a loop with an offset, not the first.
    pub(super) own_last: bool,
    /// True if copies that carry messages run on a stream of their own.
    pub(super) copy_stream: bool,
}

const OFFSET: &str = "offset_stream_indexing_by_rank";
const SCATTER: &str = "matmul_reduce_scatter";
const OWN: &str = "own_part";
const PROTOCOL: &str = "p2p_protocol";
const COPIES: &str = "p2p_stream";

/// The options as users see them.
pub(super) const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: "split_initial_sync",
        ty: OptionType::Bool,
        default: Some("true"),
        help: "Synchronize with the current stream in a separate loop before the first iteration; false selects the single loop of early 2025, in which iterations wait for each other",
    },
    OptionSpec {
        name: "merge",
        ty: OptionType::Choice(&["adjacent", "graph"]),
        default: Some("adjacent"),
        help: "Which ops share a loop: those that follow each other, or all that their dependences allow",
    },
    OptionSpec {
        name: "allgather",
        ty: OptionType::Choice(&["pairwise", "ring", "broadcast"]),
        default: Some("pairwise"),
        help: "Algorithm that gathers a sharded axis that becomes the stream axis",
    },
    OptionSpec {
        name: OFFSET,
        ty: OptionType::Bool,
        default: Some("false"),
        help: "Name of allgather=ring in nvFuser",
    },
    OptionSpec {
        name: SCATTER,
        ty: OptionType::Choice(&["none", "p2p", "reduce"]),
        default: Some("none"),
        help: "Take partial GEMMs into the loop and reduce-scatter their sum: by point-to-point transfers (p2p), or by a Reduce of one shard to its device in each iteration (reduce)",
    },
    OptionSpec {
        name: OWN,
        ty: OptionType::Choice(&["first", "last"]),
        default: Some("first"),
        help: "Time at which a rank processes its own shard in a loop with an offset per rank (allgather=ring, matmul_reduce_scatter=p2p); last sends the shards of a reduce-scatter while later shards are computed",
    },
    OptionSpec {
        name: "inter_stream_synchronization",
        ty: OptionType::Bool,
        default: Some("false"),
        help: "Make the stream of iteration i+1 wait for the communication of iteration i, so that communications do not compete",
    },
    OptionSpec {
        name: "communicator_backend",
        ty: OptionType::Choice(BACKENDS),
        default: Some("NCCL"),
        help: "Backend of the communications that the pass inserts",
    },
    OptionSpec {
        name: PROTOCOL,
        ty: OptionType::Choice(PROTOCOLS),
        default: Some("get"),
        help: "Initiator of copies with communicator_backend=CUDA: the receiver (get), which issues after the sender, or the sender (put), which issues after the receiver",
    },
    OptionSpec {
        name: COPIES,
        ty: OptionType::Choice(&["worker", "own"]),
        default: Some("worker"),
        help: "Stream of the copies with communicator_backend=CUDA: that of the iteration (worker), or stream numberOfStreams (own), on which copies are serialized instead of sharing the links",
    },
];

impl Config {
    pub(super) fn new(cx: &mut PassCx<'_>) -> Result<Self, Diags> {
        let allgather = allgather_method(cx)?;
        let options = cx.options();
        let reduce_scatter = match options.word_value(SCATTER) {
            "p2p" => Some(ReduceScatter::P2p),
            "reduce" => Some(ReduceScatter::Reduce),
            _ => None,
        };
        let merge = match options.word_value("merge") {
            "graph" => LoopMerging::Graph,
            _ => LoopMerging::Adjacent,
        };
        let own_last = options.word_value(OWN) == "last";
        let offset = allgather == AllgatherMethod::Ring || reduce_scatter == Some(ReduceScatter::P2p);
        let backend = communicator_backend(options);
        let messages = match (backend, MessageProtocol::parse(options.word_value(PROTOCOL)).unwrap_or_default()) {
            (CommBackend::Cuda, MessageProtocol::Put) => MessageTransport::CudaPut,
            (CommBackend::Cuda, MessageProtocol::Get) => MessageTransport::CudaGet,
            (CommBackend::Ucc, _) => MessageTransport::None,
            (CommBackend::Nccl, _) => MessageTransport::Coalesced,
        };
        let exchanges = allgather != AllgatherMethod::Broadcast || reduce_scatter == Some(ReduceScatter::P2p);
        let unused = [PROTOCOL, COPIES].into_iter().filter(|option| options.is_given(option));
        for option in unused.filter(|_| backend != CommBackend::Cuda || !exchanges) {
            cx.add_warning(no_messages_error(option, options.word_value(option), backend));
        }
        if options.is_given(OWN) && !offset {
            let message = message!("`{}={}` has no effect: no loop has an offset", OWN, options.word_value(OWN));
            let note = "only `allgather=ring` and `matmul_reduce_scatter=p2p` make loops with an offset per rank";
            cx.add_warning(Diag::global_error(OPTION_UNUSED, message).with_note(note));
        }
        Ok(Self {
            split_initial_sync: options.bool_value("split_initial_sync"),
            allgather,
            merge,
            reduce_scatter,
            inter_stream_synchronization: options.bool_value("inter_stream_synchronization"),
            messages,
            backend,
            own_last,
            copy_stream: options.word_value(COPIES) == "own",
        })
    }
}

/// The warning for an option of copied messages if there are none.
fn no_messages_error(option: &str, word: &str, backend: CommBackend) -> Diag {
    let (why, note) = match backend {
        CommBackend::Cuda => (
            ": collectives move all shards".to_owned(),
            "`allgather=pairwise`, `allgather=ring` and `matmul_reduce_scatter=p2p` send and receive shards",
        ),
        CommBackend::Nccl | CommBackend::Ucc => (
            format!(" with `communicator_backend={backend}`"),
            "only copies on the current stream, `communicator_backend=CUDA`, have an initiator",
        ),
    };
    let message = message!("`{}={}` has no effect{}", option, word, why);
    Diag::global_error(OPTION_UNUSED, message).with_note(note)
}

/// The algorithm for allgathers: `allgather`, or nvFuser's name for a ring. `matmul_reduce_scatter` alone sets the
/// offset of a loop that scatters.
fn allgather_method(cx: &mut PassCx<'_>) -> Result<AllgatherMethod, Diags> {
    let options = cx.options();
    let offset = options.bool_value(OFFSET);
    let (gather, scatter) = (options.word_value("allgather"), options.word_value(SCATTER));
    let mut wrong: Vec<(&'static [&'static str], &str, &str)> = Vec::new();
    if options.is_given("allgather") && options.is_given(OFFSET) && offset != (gather == "ring") {
        let note = "both options set the order in which shards are gathered: omit one";
        wrong.push((&["allgather", OFFSET], gather, note));
    }
    let wants_offset = match scatter {
        "p2p" => Some(true),
        "reduce" => Some(false),
        _ => None,
    };
    if options.is_given(OFFSET) && wants_offset.is_some_and(|wanted| wanted != offset) {
        let note =
            "`p2p` starts each rank at its own shard, but `reduce` needs all ranks at the same shard: omit the offset";
        wrong.push((&[SCATTER, OFFSET], scatter, note));
    }
    let failed = !wrong.is_empty();
    for (options, word, note) in wrong {
        let message = message!("`{}={}` contradicts `{}={}`", options[0], word, OFFSET, offset);
        cx.reject_options(options, Diag::global_error(STREAM_OPTIONS, message).with_note(note));
    }
    if failed {
        return Err(Diags::default());
    }
    Ok(match gather {
        "broadcast" => AllgatherMethod::Broadcast,
        "ring" => AllgatherMethod::Ring,
        _ if offset => AllgatherMethod::Ring,
        _ => AllgatherMethod::Pairwise,
    })
}
