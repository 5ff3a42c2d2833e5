//! The codes of the library's diagnostics, one line each: names and structure (`H01`), constraints of
//! ops (`H02`), sizes and plans (`H04`), run time (`H05`).

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $code:literal;)*) => {
        $($(#[doc = $doc])+ pub const $name: &str = $code;)*
    };
}

codes! {
    /// An unknown statement or op.
    UNKNOWN_OP = "H0101";
    /// An unknown function in a scalar expression.
    UNKNOWN_FUNCTION = "H0102";
    /// An argument that is missing.
    MISSING_ARGUMENT = "H0103";
    /// A keyed argument that the op does not have.
    UNKNOWN_ARGUMENT = "H0104";
    /// A keyed argument that is given twice.
    DUPLICATE_ARGUMENT = "H0105";
    /// An argument with a value of the wrong kind.
    WRONG_KIND = "H0106";
    /// Too many operands.
    EXTRA_OPERAND = "H0107";
    /// Too many or too few results.
    WRONG_RESULTS = "H0108";
    /// A word that the argument does not accept.
    UNKNOWN_WORD = "H0109";
    /// A short reference to a tensor that was not written in full before.
    UNDEFINED_TENSOR = "H0110";
    /// A type that a host program cannot hold.
    UNSUPPORTED_TYPE = "H0111";
    /// Missing or unexpected number of an op.
    WRONG_NUMBER = "H0112";
    /// A position at which the operand has no axis.
    NO_SUCH_AXIS = "H0113";
    /// Nested operations on tensors.
    NESTED_TENSOR_OP = "H0114";
    /// An ALLOCATE whose buffer differs from its result.
    OTHER_BUFFER = "H0115";
    /// A HostUnit whose lists of inputs or outputs differ.
    UNIT_LISTS = "H0116";
    /// A function with too many or too few operands.
    WRONG_ARITY = "H0117";
    /// A name that is declared twice, or hides another one.
    NAME_TWICE = "H0130";
    /// A word of the language, or the name of an op, as a name.
    RESERVED_NAME = "H0131";
    /// A kernel that no program follows.
    LONE_KERNEL = "H0132";
    /// A device that a mesh names twice.
    MESH_DEVICE = "H0133";
    /// An `order(..)` that does not list each axis once.
    AXES_ORDER = "H0134";
    /// `own` on an axis that is not sharded over devices, or another index on one that is.
    OWN_INDEX = "H0135";
    /// An index with more entries than the tensor has axes, or the number of an axis that it has not.
    INDEX_COUNT = "H0136";
    /// `rank` as an index where the mesh is not 0, 1, 2 and so on.
    RANK_INDEX = "H0137";
    /// A tensor whose type is neither written nor inferred.
    NO_TYPE = "H0138";
    /// A tensor that is declared again with another type.
    DECLARED_TWICE = "H0139";
    /// A Wait for a name that no communication has.
    UNKNOWN_HANDLE = "H0140";
    /// A text in backquotes that is not the printed form.
    VERBATIM = "H0141";
    /// A name in a text whose first line is not `hir 1`.
    NAME_WITHOUT_VERSION = "H0142";
    /// A name after a statement that has nothing to name.
    NAMELESS = "H0143";
    /// Tensors without an element type, as in texts before December 2024 (a remark).
    NO_ELEMENT_TYPE = "H0144";
    /// A mesh that is no computation of sizes, or has no devices for their values.
    MESH_BY_SIZES = "H0145";
    /// A size of a mesh without a value.
    MESH_SIZE_OPEN = "H0146";
    /// A number of ranks that gives the sizes of the meshes no values.
    MESH_SIZE_UNSOLVED = "H0147";
    /// `comm=` on a message that no communicator carries (warning).
    COMMUNICATOR_NAME = "H0150";
    /// The messages of a group name different communicators.
    GROUP_COMMUNICATORS = "H0151";
    /// A communication without a team, with a team and an axis of teams, or with an axis that no mesh has.
    TEAM_AXIS = "H0152";
    /// A handle that is one communication in one place and an array in another.
    HANDLE_ARRAY = "H0153";
    /// An index of a handle that is not one integer, or of a communication that has no handle.
    HANDLE_INDEX = "H0154";
    /// A file of an import that cannot be read, or is not in `hir 2`.
    IMPORT_FILE = "H0155";
    /// A path of an import that leaves the folder of the importing file, or is no path of a program.
    IMPORT_PATH = "H0156";
    /// An imported name that the file does not have, or that is no kernel.
    IMPORT_NAME = "H0157";
    /// Files that import each other.
    IMPORT_CYCLE = "H0158";
    /// A mesh in an imported kernel.
    IMPORTED_MESH = "H0159";

    /// Two different declarations of one tensor.
    DECLARATIONS_DIFFER = "H0201";
    /// Two inputs with the same name.
    DUPLICATE_INPUT = "H0202";
    /// A mesh without devices, or with a device twice.
    BAD_MESH = "H0203";
    /// A device axis on a tensor without a mesh.
    NO_MESH = "H0204";
    /// Two axes of a tensor that are sharded over the same device type, or are both stream-parallel.
    AXES_SHARE_DEVICES = "H0205";
    /// An extent that differs from the mesh's along its device type.
    DEVICE_EXTENT = "H0206";
    /// A device type without an axis in the mesh.
    MESH_RANK = "H0207";
    /// More axes than a tensor may have.
    TOO_MANY_AXES = "H0208";
    /// A tensor that is used before it is defined.
    UNDEFINED = "H0211";
    /// An output that is never defined.
    UNDEFINED_OUTPUT = "H0212";
    /// A tensor that is used after its Deallocate.
    FREED = "H0213";
    /// A Deallocate of a tensor that is never defined.
    FREE_UNDEFINED = "H0214";
    /// An alias of an unknown tensor.
    UNKNOWN_ALIAS = "H0215";
    /// A loop index used outside its loop.
    INDEX_OUTSIDE_LOOP = "H0216";
    /// An undefined scalar.
    UNKNOWN_SCALAR = "H0217";
    /// A loop index that shadows the index of an outer loop.
    SHADOWED_INDEX = "H0218";
    /// Invalid loop bounds.
    LOOP_BOUNDS = "H0219";
    /// Too few or too many operands or results.
    OPERANDS = "H0220";
    /// Mismatched ranks.
    RANK = "H0221";
    /// Mismatched constant extents.
    EXTENT = "H0222";
    /// Mismatched element types.
    DTYPE = "H0223";
    /// A reduction without a reduced axis.
    NO_REDUCED_AXIS = "H0224";
    /// A number of flags that differs from the number of axes.
    FLAGS = "H0225";
    /// A number of slice ranges that differs from the number of axes, or a range outside of its axis.
    RANGES = "H0226";
    /// A selected axis that the operand does not have.
    SELECT_AXIS = "H0227";
    /// A constant index past the end of its axis.
    SELECT_INDEX = "H0228";
    /// Invalid permutation.
    PERMUTATION = "H0229";
    /// An ALLOCATE whose size differs from that of its tensor (warning).
    ALLOCATE_SIZE = "H0231";
    /// An ALLOCATE whose memory type differs from that of its tensor.
    ALLOCATE_MEMORY = "H0232";
    /// An axis number that is out of range.
    DIM = "H0233";
    /// A loop or a branch without statements (warning).
    EMPTY_BLOCK = "H0234";
    /// A root whose meaning the spelling of the text leaves open (warning).
    ROOT_SPELLING = "H0235";
    /// A buffer that all iterations of a loop reuse and write on several streams (warning).
    KEPT_BUFFER = "H0236";
    /// A real or a truth value where an integer is required: an index, a bound, a stream, an extent.
    INTEGER_NEEDED = "H0238";
    /// A broadcast whose extent is not 1.
    BROADCAST_EXTENT = "H0239";
    /// A team without devices, or with a device twice.
    BAD_TEAM = "H0241";
    /// A device of an input's or output's mesh that is not in the team.
    TEAM_MESH = "H0242";
    /// A root that is missing, superfluous or not in the team.
    ROOT = "H0243";
    /// A reduce operation on a communication that does not reduce.
    RED_OP = "H0244";
    /// A peer that is in no mesh.
    PEER = "H0245";
    /// A team too large or too small for the type.
    TEAM_SIZE = "H0246";
    /// A protocol on a P2PCommunication whose backend has none (warning).
    PROTOCOL = "H0247";
    /// An `axes=` that is no permutation of the domains, or is combined with `logical=`.
    TENSOR_AXES = "H0248";
    /// Two axes of a tensor of the printed form with one number.
    AXIS_NUMBER = "H0249";
    /// A Wait for a number that no communication or group has.
    UNKNOWN_WAIT = "H0251";
    /// Two communications with the same number.
    DUPLICATE_NUMBER = "H0252";
    /// An EndCoalescing without its StartCoalescing.
    END_WITHOUT_START = "H0253";
    /// A StartCoalescing in an open group.
    NESTED_START = "H0254";
    /// A StartCoalescing without its EndCoalescing.
    START_WITHOUT_END = "H0255";
    /// An op that is not allowed in a coalescing group.
    OP_IN_GROUP = "H0256";
    /// A PostOnStream that passes a scalar for a tensor of the HostUnit, or a tensor for a scalar.
    UNIT_PORT = "H0257";
    /// An alias whose element type, shape or mesh is not that of the memory it shares.
    ALIAS_TYPE = "H0258";
    /// An alias of itself, of two tensors, or for a tensor that has its own memory.
    ALIAS_MEMORY = "H0259";
    /// A PostOnStream of an unknown HostUnit.
    UNKNOWN_UNIT = "H0261";
    /// A PostOnStream whose number of inputs or outputs differs from the HostUnit's.
    UNIT_COUNT = "H0262";
    /// A PostOnStream that passes a tensor whose shape or element type differs from the HostUnit's.
    UNIT_TENSOR = "H0263";
    /// Two HostUnits with the same number.
    DUPLICATE_UNIT = "H0264";
    /// An op that is not allowed in a HostUnit.
    OP_IN_UNIT = "H0265";
    /// A cycle of scalar definitions.
    DEFINITION_CIRCLE = "H0266";
    /// An operator in front of an operand that a host program does not have, or `**`.
    PREFIX_OPERATOR = "H0267";
    /// A real operand or result of a function of integers.
    INTEGER_FUNCTION = "H0268";
    /// A function of neighbouring numbers on another type than `float` and `double`.
    PRECISION_NEEDED = "H0269";
    /// A `bit_cast` between types of different sizes.
    BITS_DIFFER = "H0270";
    /// A group of reductions with too few or too many operands, results, operations or initial values, or a Welford with
    /// only a part of its mean, sum of squared differences and count.
    GROUP_MEMBERS = "H0271";
    /// A selection of more elements than an axis has.
    TOP_COUNT = "H0272";
    /// Heads of queries that are no multiple of the heads of keys.
    ATTENTION_HEADS = "H0277";
    /// A causal attention with another number of keys than queries.
    CAUSAL_SHAPE = "H0278";
    /// A bias or a mask of attention whose extents are not those of the scores.
    ATTENTION_TERM = "H0279";
    /// An element type that attention does not compute with.
    ATTENTION_TYPE = "H0280";
    /// A `padding_idx` that is no row of the table.
    PADDING_ROW = "H0281";
    /// Experts of a Dispatch that the ranks do not divide evenly.
    EXPERTS = "H0283";
    /// A tensor that may be a result of a Dispatch which nvFuser does not print (warning).
    HIDDEN_RESULT = "H0284";
    /// The name of a kernel's file that is no path below the program's folder, or no kernel's.
    KERNEL_FILE_NAME = "H0285";
    /// A launch of a kernel of the user that lacks a part, or names a value that it does not have.
    LAUNCH_PARTS = "H0286";
    /// A grid or a block without one to three extents.
    LAUNCH_EXTENTS = "H0287";
    /// A reference that does not take what a launch reads, or give what it writes.
    LAUNCH_REFERENCE = "H0288";
    /// Factors of a GEMM whose extents fit by name only in the other order.
    SWAPPED_FACTORS = "H0289";
    /// A quotient of integers that is 0 where reals are computed (warning).
    INTEGER_QUOTIENT = "H0290";

    /// A size that is not determined.
    SIZE_UNKNOWN = "H0401";
    /// Conflicting sizes of one extent.
    SIZE_CONFLICT = "H0402";
    /// A size that matches nothing in the program, is negative or does not divide.
    SIZE = "H0403";
    /// A number that is too large: of elements, bytes or instructions.
    TOO_LARGE = "H0404";
    /// Fewer devices than the meshes require.
    TOO_FEW_DEVICES = "H0405";
    /// An op or a function that is not supported in a run.
    CANNOT_RUN = "H0406";
    /// A scalar without a value.
    NO_VALUE = "H0407";
    /// An index out of range.
    OUT_OF_RANGE = "H0408";
    /// A tensor that has no memory or no value where it is used.
    NO_MEMORY_HERE = "H0409";
    /// Mismatched shapes.
    SHAPES = "H0410";
    /// Axes made by splits, without `logical=`.
    SPLIT_AXES = "H0411";
    /// A communication of a tensor that is not contiguous or not sharded on its outermost axis.
    LAYOUT = "H0412";
    /// An invalid team, root or peer.
    TEAM = "H0413";
    /// A Wait without a communication, or a group that is not opened or not closed.
    POSTS = "H0414";
    /// A program that is only lowered in part.
    HALF_LOWERED = "H0415";
    /// An attribute that a run needs.
    NEEDED = "H0416";
    /// A real or a truth value at run time where an integer is required: an index, a bound, a stream, an extent.
    NO_INTEGER = "H0419";
    /// An initial value that the type of the reduction cannot represent.
    INITIAL_VALUE = "H0420";
    /// A broadcast whose extent is not 1 in a run, or several values for the one element of an expanded one.
    BROADCAST_SIZE = "H0421";
    /// A tensor that does not fit into the memory it shares.
    ALIAS_SHAPE = "H0422";
    /// The text of one rank where that of all ranks is needed: peers are numbers that nvFuser computed on it.
    ONE_RANK_TEXT = "H0423";
    /// A launch of a kernel of the user that no device takes: its grid, its block, its shared memory or an argument.
    LAUNCH_SHAPE = "H0425";
    /// A kernel of the user on the CPU, where only its reference can run.
    NO_REFERENCE = "H0426";
    /// A kernel that the file of a launch does not have, or has several times under this name.
    KERNEL_ENTRY = "H0427";
    /// Arguments of a launch whose number or types are not those of the kernel's parameters.
    KERNEL_ARGUMENTS = "H0428";
    /// A kernel of the user that does something else than its launch declares (`--check-launches`).
    LAUNCH_DIFFERS = "H0429";
    /// A Wait for an element of an array of handles that nothing started since its last Wait.
    ELEMENT_NOT_STARTED = "H0430";
    /// An element of an array of handles that is started twice without a Wait between.
    ELEMENT_AGAIN = "H0431";

    /// An `assert` whose condition is false for the sizes of the run.
    ASSERTION = "H0435";
    /// A collective of a tensor that is local to each rank, where a rank's part of a sharded one is needed.
    LOCAL_PART = "H0436";
    /// More prints of a rank than are shown.
    PRINTS = "H0437";
    /// A print in a program that does not run on the CPU backend.
    PRINT_BACKEND = "H0438";

    /// Inputs or outputs that do not match the plan.
    PORTS = "H0501";
    /// An output that is never written.
    UNWRITTEN_OUTPUT = "H0502";
    /// Replicas of an output that differ.
    REPLICAS = "H0503";
    /// Out of memory.
    NO_MEMORY = "H0504";
    /// An element type that the backend does not support.
    BACKEND_TYPE = "H0505";
    /// Elements that are read before they are written.
    UNINITIALISED = "H0506";
    /// Undefined arithmetic: an integer division by zero.
    ARITHMETIC = "H0507";
    /// Members of a communication that disagree.
    DISAGREEMENT = "H0508";
    /// An element of an index tensor that is out of range for the indexed axis.
    INDEX = "H0509";
    /// A deadlock: no rank can make progress.
    DEADLOCK = "H0510";
    /// A run that exceeds its time limit.
    TIMEOUT = "H0511";
    /// Two accesses that another order of the queues turns round.
    PERMUTED_ORDER = "H0512";
    /// No GPU, too few, or a library that is missing.
    DEVICE = "H0520";
    /// Out of device memory.
    DEVICE_MEMORY = "H0521";
    /// A failed call of CUDA or NCCL.
    DEVICE_CALL = "H0522";
    /// A device tensor whose element type differs from that of its input or output.
    BOUND_TYPE = "H0523";
    /// A device tensor whose shape differs from that of its input or output.
    BOUND_SHAPE = "H0524";
    /// Unusable strides of a device tensor, or bound tensors that share memory.
    BOUND_STRIDES = "H0525";
    /// An address that is not on the rank's device, is not aligned, or leaves too little of its allocation.
    BOUND_MEMORY = "H0526";
    /// An input without a bound tensor.
    UNBOUND = "H0527";
    /// A request for something that the session does not have: a program, a rank, an input, an output, a stream.
    SESSION = "H0528";
    /// A session in which an earlier run failed.
    FAILED_BEFORE = "H0529";
    /// Another process of the run that failed or was lost.
    PROCESS = "H0530";
    /// Another process of the run that does not reach a step in time.
    PROCESS_LATE = "H0531";
    /// Processes of one run that are at different steps or send malformed messages.
    EXCHANGE = "H0532";
    /// A number of processes that differs from the program's number of ranks.
    WORLD = "H0533";
    /// Two processes on one device that must communicate.
    SHARED_DEVICE = "H0534";
    /// A modified plan that accesses memory beyond one of its buffers.
    PLAN_BOUNDS = "H0535";
    /// A tensor that is not symmetric memory, or symmetric memory on which the ranks do not agree: other tensors on
    /// another rank, addresses that lead elsewhere, or a run at another address than the session was prepared for.
    SYMMETRIC_MEMORY = "H0536";
    /// A function or reduction that complex numbers do not have, such as an order.
    COMPLEX_FUNCTION = "H0537";
    /// An op that is a part of a kernel, and which no host program runs alone.
    KERNEL_OP = "H0540";
    /// A tensor whose elements are values of kernels, such as pointers, or whose axis is ragged: no host program has one.
    KERNEL_TENSOR = "H0541";
    /// A view of all devices' memory (`SymmetricContiguousView`) that is made before the memory is written.
    STALE_VIEW = "H0542";
    /// More tokens for a rank's experts than the result of a Dispatch has rows for.
    CAPACITY = "H0550";
    /// Offsets of groups that decrease or lie outside of the grouped axis.
    GROUP_OFFSETS = "H0551";
    /// An element of a Combine's `src_idx=` that names no token.
    TOKEN_INDEX = "H0552";
    /// A program that leaves requested ranks without work.
    UNUSED_RANKS = "H0553";
    /// Two instructions access the same elements, at least one writes them, and nothing orders the two: on streams of
    /// one rank, in communicators' queues, or through a message that a peer carries out.
    RACE = "H0701";
    /// An input or output is still in use when the caller's stream continues after the program.
    UNJOINED = "H0702";
    /// A tensor is used after its Deallocate, which ends the name: read, written, sent or deallocated again.
    ENDED_NAME = "H0703";
    /// Ranks post communications in orders that do not fit: on one communicator, or in a circle through several.
    POST_ORDER = "H0704";
    /// A Synchronize or Wait orders nothing that was not in order before, on any rank and in any iteration.
    REDUNDANT_WAIT = "H0711";
    /// Iterations of a loop run one after another although they are on different streams and no data needs that.
    SERIAL_LOOP = "H0712";
    /// The order of messages between ranks takes more rounds than the same messages need in another order, or
    /// communications of one queue keep the iterations of a loop on streams from overlapping.
    EXCHANGE_ROUNDS = "H0713";
    /// An element of an output is another function of the inputs than in the reference (`--exact`).
    DIFFERENT_MEANING = "H0721";
    /// A program cannot be proved equal to its reference: an element goes through functions without a meaning modulo a
    /// prime, or the error bound is not reached (`--exact`).
    UNPROVED_MEANING = "H0722";
    /// A function of data without a meaning modulo a prime: a minimum or maximum, a comparison, an integer computed
    /// from floats. `--exact` takes it for an unknown function; where an index is needed, it is an error.
    NO_MEANING = "H0723";
    /// An integer input: `--exact` proves equality for its given values only (warning).
    GIVEN_VALUES = "H0724";
    /// The file of a machine that is not TOML, or has a field that is unknown, missing or out of its bounds.
    MACHINE = "H0651";
    /// Messages between processes of a run that somebody changed, repeated or left out on the way.
    ALTERED = "H0670";
    /// A bug of this project: a part of it panicked. Please report it.
    INTERNAL = "H0674";
    /// Source of a kernel of the user that does not compile.
    KERNEL_COMPILE = "H0683";
    /// Code of a kernel of the user that the device does not take, or that nobody handed over.
    KERNEL_IMAGE = "H0684";
}
