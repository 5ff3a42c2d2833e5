//! The codes of diagnostics about passes and pipelines: `H0301` to `H0399`.

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $code:literal;)*) => {
        $($(#[doc = $doc])+ pub const $name: &str = $code;)*

        /// Every code with what it means, in order.
        pub const CODES: &[(&str, &str)] = &[$(($code, concat!($($doc),+))),*];
    };
}

codes! {
    /// A pipeline names a pass that does not exist.
    UNKNOWN_PASS = "H0301";
    /// A pipeline text that is not well formed.
    PIPELINE_SYNTAX = "H0302";
    /// A pass has no option of that name.
    UNKNOWN_OPTION = "H0303";
    /// An option's value is not of its type.
    OPTION_VALUE = "H0304";
    /// An option is given twice.
    OPTION_TWICE = "H0305";
    /// An option without a default is left out.
    OPTION_MISSING = "H0306";
    /// A pass left an invalid program: a bug of the pass.
    INVALID_RESULT = "H0307";
    /// A flag names a pass that never runs.
    NEVER_RUNS = "H0308";
    /// A pass found nothing to do.
    NOTHING_TO_DO = "H0309";
    /// A pass was skipped because it is disabled.
    SKIPPED = "H0310";
    /// canonicalize: what it simplified.
    SIMPLIFIED = "H0311";
    /// canonicalize: what it had to leave.
    NOT_SIMPLIFIED = "H0312";
    /// cse: an op was replaced by an earlier equal one.
    REPLACED = "H0313";
    /// cse: two equal ops had to stay.
    NOT_REPLACED = "H0314";
    /// dce: an op was removed.
    REMOVED = "H0315";
    /// --verify-diagnostics: an expected diagnostic was not produced.
    NOT_PRODUCED = "H0316";
    /// --verify-diagnostics: a diagnostic was produced that nothing expects.
    NOT_EXPECTED = "H0317";
    /// --verify-diagnostics: an expectation that is not well formed.
    BAD_EXPECTATION = "H0318";
    /// stream-parallel-type: an input with a stream-parallel axis.
    STREAM_INPUT = "H0321";
    /// stream-parallel-type: an op with several results.
    STREAM_RESULTS = "H0322";
    /// stream-parallel-type: a result with two stream-parallel axes.
    STREAM_AXES = "H0323";
    /// stream-parallel-type: an op that cannot be spread over streams.
    STREAM_OP = "H0324";
    /// stream-parallel-type: a stream-parallel part of a split axis.
    STREAM_SPLIT = "H0325";
    /// stream-parallel-type: a stream-parallel axis that is reduced.
    STREAM_REDUCED = "H0326";
    /// stream-parallel-type: a tensor with two axes that are the loop's.
    STREAM_TWICE = "H0327";
    /// stream-parallel-type: an op that needs other iterations' slices.
    STREAM_LINK = "H0328";
    /// stream-parallel-type: a sharded axis that cannot become the stream axis.
    STREAM_EXCHANGE = "H0329";
    /// stream-parallel-type: options that contradict each other.
    STREAM_OPTIONS = "H0330";
    /// stream-parallel-type: a collective in a loop whose ranks work on different parts.
    STREAM_RING = "H0331";
    /// stream-parallel-type: a backend that cannot carry the messages of a loop.
    STREAM_BACKEND = "H0332";
    /// convert-op-to-communication: an op with several operands that needs data of other devices.
    CONVERT_OPERANDS = "H0340";
    /// convert-op-to-communication: an op that is neither a copy nor a reduction.
    CONVERT_OP = "H0341";
    /// convert-op-to-communication: a gathered or scattered axis that is not the outermost one.
    CONVERT_INNER = "H0342";
    /// convert-op-to-communication: more than one axis changes its sharding.
    CONVERT_AXES = "H0343";
    /// convert-op-to-communication: what is reduced is not exactly one sharded axis.
    CONVERT_REDUCED = "H0344";
    /// convert-op-to-communication: a ReduceScatter between different meshes.
    CONVERT_MESHES = "H0345";
    /// convert-op-to-communication: a mesh of several dimensions where one is needed.
    CONVERT_DIMENSIONS = "H0346";
    /// convert-op-to-communication: devices that do not pair off.
    CONVERT_SIZES = "H0348";
    /// convert-op-to-communication: a reduce operation that communications do not have.
    CONVERT_RED_OP = "H0349";
    /// convert-op-to-communication: a reduction across devices that starts from a value.
    CONVERT_INITIAL = "H0240";
    /// convert-op-to-communication: a tensor without a mesh where the other side has one.
    CONVERT_NO_MESH = "H0350";
    /// convert-op-to-communication: a slice that is not one range of memory.
    CONVERT_STRIDED = "H0351";
    /// A sharding pass meets a sharded tensor whose axes are made by splits.
    SHARDED_SPLIT = "H0360";
    /// propagate-shardings: a view that splits or merges a sharded axis.
    SHARDED_VIEW = "H0361";
    /// Some tensors of a program have a device mesh, others none.
    MIXED_MESHES = "H0362";
    /// segment-host-units: an op that moves data between devices cannot go into a HostUnit.
    RESHARDING_UNIT = "H0363";
    /// reorder-sharded-axis: an op moves more than one axis between devices.
    SEVERAL_AXES = "H0364";
    /// make-resharding-contiguous: data would arrive in a slice that does not lie in one piece.
    STRIDED_RESULT = "H0365";
    /// pipeline-gemm-comm: a product that cannot be pipelined with an allgather.
    PIPELINE_PRODUCT = "H0366";
    /// insert-deallocations: a program that frees memory already.
    FREES_ALREADY = "H0380";
    /// assign-streams: iterations that touch each other's memory.
    ITERATIONS_DEPEND = "H0381";
    /// resize-mesh: a program whose tensors do not all lie on one row of devices.
    RESIZE_MESHES = "H0382";
    /// resize-mesh: a team that is not that of all devices.
    RESIZE_TEAM = "H0383";
    /// resize-mesh: a constant that may or may not stand for the number of devices.
    RESIZE_CONSTANT = "H0384";
    /// resize-mesh: an extent that cannot follow the number of devices.
    RESIZE_EXTENT = "H0385";
    /// chunk: an option that names no axis of the program.
    CHUNK_AXIS = "H0386";
    /// chunk: an op that cannot work on chunks.
    CHUNK_OP = "H0387";
    /// chunk: an extent that does not split into so many chunks.
    CHUNK_FACTOR = "H0388";
    /// chunk: a tensor that cannot be cut along the axis.
    CHUNK_TENSOR = "H0389";
    /// ring-stream-buffers: an option that names no tensor of the program.
    RING_BUFFER = "H0390";
    /// ring-stream-buffers: a buffer that has to keep a slice for every iteration.
    RING_STAYS = "H0391";
    /// stream-parallel-type: an op that would pair other axes on slices.
    STREAM_PAIRS = "H0392";
    /// stream-parallel-type: a stream-parallel axis that is expanded.
    STREAM_EXPANDED = "H0393";
    /// insert-reshardings: a slice of memory that lies across devices in another way than its tensor.
    SLICE_MOVES = "H0394";
    /// convert-op-to-communication: a branch that not all devices of a communication take.
    CONVERT_BRANCH = "H0395";
    /// An option that has no effect without another one (warning).
    OPTION_UNUSED = "H0396";
}
