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
    /// A keyed argument that stands twice.
    DUPLICATE_ARGUMENT = "H0105";
    /// An argument with a value of the wrong kind.
    WRONG_KIND = "H0106";
    /// Too many operands.
    EXTRA_OPERAND = "H0107";
    /// Too many or too few results.
    WRONG_RESULTS = "H0108";
    /// A word that is none of those an argument takes.
    UNKNOWN_WORD = "H0109";
    /// A short reference to a tensor that has not been written in full before.
    UNDEFINED_TENSOR = "H0110";
    /// A type that a host program cannot hold.
    UNSUPPORTED_TYPE = "H0111";
    /// An op without its number, or with one that it does not have.
    WRONG_NUMBER = "H0112";
    /// A position that is no axis of the operand.
    NO_SUCH_AXIS = "H0113";
    /// Operations on tensors inside one another.
    NESTED_TENSOR_OP = "H0114";
    /// An ALLOCATE whose buffer is not its result.
    OTHER_BUFFER = "H0115";
    /// A HostUnit whose lists of inputs or outputs differ.
    UNIT_LISTS = "H0116";
    /// A function with too many or too few operands.
    WRONG_ARITY = "H0117";

    /// Two declarations of one tensor number that differ.
    DECLARATIONS_DIFFER = "H0201";
    /// Two inputs of one name.
    DUPLICATE_INPUT = "H0202";
    /// A mesh without devices, or with a device twice.
    BAD_MESH = "H0203";
    /// A device axis on a tensor without a mesh.
    NO_MESH = "H0204";
    /// Two axes of a tensor on one device type or on the streams.
    AXES_SHARE_DEVICES = "H0205";
    /// An extent that is not the mesh's along its device type.
    DEVICE_EXTENT = "H0206";
    /// A device type that the mesh has no axis for.
    MESH_RANK = "H0207";
    /// More axes than a tensor may have.
    TOO_MANY_AXES = "H0208";
    /// A tensor used before anything defines it.
    UNDEFINED = "H0211";
    /// An output that nothing defines.
    UNDEFINED_OUTPUT = "H0212";
    /// A tensor used after its Deallocate.
    FREED = "H0213";
    /// A Deallocate of a tensor that nothing defines.
    FREE_UNDEFINED = "H0214";
    /// An alias of a tensor that the program does not have.
    UNKNOWN_ALIAS = "H0215";
    /// A loop index used outside its loop.
    INDEX_OUTSIDE_LOOP = "H0216";
    /// A scalar that nothing binds.
    UNKNOWN_SCALAR = "H0217";
    /// A loop index that hides the one of an outer loop.
    SHADOWED_INDEX = "H0218";
    /// Loop bounds that cannot be.
    LOOP_BOUNDS = "H0219";
    /// Too few or too many operands or results.
    OPERANDS = "H0220";
    /// Ranks that cannot match.
    RANK = "H0221";
    /// Constant extents that cannot match.
    EXTENT = "H0222";
    /// Element types that cannot match.
    DTYPE = "H0223";
    /// A reduction without a reduced axis.
    NO_REDUCED_AXIS = "H0224";
    /// Flags that are not one an axis.
    FLAGS = "H0225";
    /// Slice ranges that are not one an axis, or are out of range.
    RANGES = "H0226";
    /// A selected axis that is not the operand's.
    SELECT_AXIS = "H0227";
    /// A constant index past the end of its axis.
    SELECT_INDEX = "H0228";
    /// A permutation that is none.
    PERMUTATION = "H0229";
    /// An ALLOCATE with another size than its tensor's (warning).
    ALLOCATE_SIZE = "H0231";
    /// An ALLOCATE with another memory than its tensor's.
    ALLOCATE_MEMORY = "H0232";
    /// An axis number past the end.
    DIM = "H0233";
    /// A loop or a branch without statements (warning).
    EMPTY_BLOCK = "H0234";
    /// A root that the spelling of the text does not tell clearly (warning).
    ROOT_SPELLING = "H0235";
    /// A buffer that all iterations of a loop keep and write on several streams (warning).
    KEPT_BUFFER = "H0236";
    /// A real or a truth value where an integer is needed: an index, a bound, a stream, an extent.
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
    /// A peer that no mesh has.
    PEER = "H0245";
    /// A team too large or too small for the type.
    TEAM_SIZE = "H0246";
    /// A protocol on a P2PCommunication whose backend has none (warning).
    PROTOCOL = "H0247";
    /// An `axes=` that is no order of the domains, or stands beside `logical=`.
    TENSOR_AXES = "H0248";
    /// A Wait for a number that nothing posts.
    UNKNOWN_WAIT = "H0251";
    /// Two communications of one number.
    DUPLICATE_NUMBER = "H0252";
    /// An EndCoalescing without its StartCoalescing.
    END_WITHOUT_START = "H0253";
    /// A StartCoalescing in an open group.
    NESTED_START = "H0254";
    /// A StartCoalescing without its EndCoalescing.
    START_WITHOUT_END = "H0255";
    /// An op in a group that no group can hold.
    OP_IN_GROUP = "H0256";
    /// A scalar posted where the unit has a tensor, or the other way round.
    UNIT_PORT = "H0257";
    /// An alias whose element type, shape or mesh is not that of the memory it shares.
    ALIAS_TYPE = "H0258";
    /// An alias of itself, with two originals, or of what has memory of its own.
    ALIAS_MEMORY = "H0259";
    /// A PostOnStream of a HostUnit that the program does not have.
    UNKNOWN_UNIT = "H0261";
    /// A PostOnStream with another number of inputs or outputs than its unit.
    UNIT_COUNT = "H0262";
    /// A tensor posted where the unit has one of another shape or element type.
    UNIT_TENSOR = "H0263";
    /// Two HostUnits of one number.
    DUPLICATE_UNIT = "H0264";
    /// An op that no HostUnit can hold.
    OP_IN_UNIT = "H0265";
    /// Definitions of scalars that need each other.
    DEFINITION_CIRCLE = "H0266";
    /// An operator in front of an operand that a host program does not have, or `**`.
    PREFIX_OPERATOR = "H0267";
    /// A real operand or result of a function of integers.
    INTEGER_FUNCTION = "H0268";

    /// A size that nothing fixes.
    SIZE_UNKNOWN = "H0401";
    /// One extent with two sizes.
    SIZE_CONFLICT = "H0402";
    /// A flag that fits nothing, a size that is negative or does not divide.
    SIZE = "H0403";
    /// A number that is too large: of elements, bytes or instructions.
    TOO_LARGE = "H0404";
    /// Fewer devices than the meshes name.
    TOO_FEW_DEVICES = "H0405";
    /// An op or a function that cannot run yet.
    CANNOT_RUN = "H0406";
    /// A scalar without a value.
    NO_VALUE = "H0407";
    /// An index out of range.
    OUT_OF_RANGE = "H0408";
    /// A tensor without memory or a value where it is used.
    NO_MEMORY_HERE = "H0409";
    /// Shapes that do not fit each other.
    SHAPES = "H0410";
    /// Axes made by splits, without `logical=`.
    SPLIT_AXES = "H0411";
    /// A communication of a tensor that is not contiguous or not sharded on its outermost axis.
    LAYOUT = "H0412";
    /// A team, root or peer that cannot be.
    TEAM = "H0413";
    /// A Wait without a post, a group that is not opened or not closed.
    POSTS = "H0414";
    /// A program that is lowered in part.
    HALF_LOWERED = "H0415";
    /// An attribute that a run needs.
    NEEDED = "H0416";
    /// A real or a truth value at run time where an integer is needed: an index, a bound, a stream, an extent.
    NO_INTEGER = "H0419";
    /// An initial value that the type of the reduction does not hold.
    INITIAL_VALUE = "H0420";
    /// A broadcast whose extent is not 1 in a run.
    BROADCAST_SIZE = "H0421";
    /// A tensor that does not fit into the memory that it is to share.
    ALIAS_SHAPE = "H0422";

    /// Inputs or outputs that do not fit the plan.
    PORTS = "H0501";
    /// An output that nothing has written.
    UNWRITTEN_OUTPUT = "H0502";
    /// Replicas of an output that differ.
    REPLICAS = "H0503";
    /// No memory left.
    NO_MEMORY = "H0504";
    /// An element type that the backend lacks.
    BACKEND_TYPE = "H0505";
    /// Elements read before anything wrote them.
    UNINITIALISED = "H0506";
    /// Arithmetic without a result: an integer divided by zero.
    ARITHMETIC = "H0507";
    /// Members of one communication that do not agree.
    DISAGREEMENT = "H0508";
    /// An element of an index tensor that is outside of the axis it chooses from.
    INDEX = "H0509";
    /// A deadlock: nothing can run.
    DEADLOCK = "H0510";
    /// A run that does not end in time.
    TIMEOUT = "H0511";
    /// Two accesses that another order of the queues turns round.
    PERMUTED_ORDER = "H0512";
    /// No GPU, too few, or a library that is missing.
    DEVICE = "H0520";
    /// No memory left on a device.
    DEVICE_MEMORY = "H0521";
    /// A call of CUDA or NCCL that failed.
    DEVICE_CALL = "H0522";
    /// A device tensor of another element type than the input or output it was bound to.
    BOUND_TYPE = "H0523";
    /// A device tensor of another shape than the input or output it was bound to.
    BOUND_SHAPE = "H0524";
    /// Strides of a device tensor that cannot be used, or bound tensors that share memory.
    BOUND_STRIDES = "H0525";
    /// An address that is not of the rank's device, too close to the end of its allocation or not aligned.
    BOUND_MEMORY = "H0526";
    /// An input that nothing was bound to.
    UNBOUND = "H0527";
    /// A session that was asked for what it does not have: a program, a rank, an input, an output, a stream.
    SESSION = "H0528";
    /// A session of which an earlier run failed.
    FAILED_BEFORE = "H0529";
    /// Another process of the run that failed or is lost.
    PROCESS = "H0530";
    /// Another process of the run that does not come to a step in time.
    PROCESS_LATE = "H0531";
    /// Processes of one run that are at different steps or do not understand each other.
    EXCHANGE = "H0532";
    /// A number of processes that is not the program's number of ranks.
    WORLD = "H0533";
    /// Two processes on one device that have to talk to each other.
    SHARED_DEVICE = "H0534";
    /// A plan that was changed so that it reads or writes beyond one of its buffers.
    PLAN_BOUNDS = "H0535";
    /// Two instructions access the same elements, at least one writes them, and nothing orders the two: on streams of one
    /// rank, in communicators' queues, or through a message that a peer carries out.
    RACE = "H0701";
    /// An input or output is still in use when the caller's stream goes on behind the program.
    UNJOINED = "H0702";
    /// A tensor is used after its Deallocate, which ends the name: read, written, sent or deallocated again.
    ENDED_NAME = "H0703";
    /// Ranks that are members of two communicators post their collectives on the two in different orders.
    POST_ORDER = "H0704";
    /// A Synchronize or Wait orders nothing that was not in order before, on any rank and in any iteration.
    REDUNDANT_WAIT = "H0711";
    /// Messages between processes of a run that somebody changed, repeated or left out on the way.
    ALTERED = "H0670";
}
