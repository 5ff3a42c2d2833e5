//! Ops: kind, operands and results, attributes, blocks.

use super::ids::{BlockId, DomainId, ExprId, OpId, TensorId};
use super::names::Symbol;
use super::op_kind::OpKind;
use smallvec::SmallVec;

/// An operand, result or reference of an op.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Value {
    /// A tensor.
    Tensor(TensorId),
    /// A scalar.
    Scalar(ExprId),
    /// `Stream <expr>`.
    Stream(ExprId),
    /// `Communication 39`: the number of a Communication, P2PCommunication, CollectivePermute or
    /// EndCoalescing.
    Handle(u32),
    /// `HostUnit0`.
    Unit(u32),
    /// A nested op (`ShareMemHandles(P2PCommunication ...)`).
    Op(OpId),
}

impl Value {
    /// The tensor, if it is one.
    #[inline]
    pub fn as_tensor(self) -> Option<TensorId> {
        match self {
            Value::Tensor(tensor) => Some(tensor),
            Value::Scalar(_) | Value::Stream(_) | Value::Handle(_) | Value::Unit(_) | Value::Op(_) => None,
        }
    }
    /// The scalar, if it is one.
    #[inline]
    pub fn as_scalar(self) -> Option<ExprId> {
        match self {
            Value::Scalar(expr) => Some(expr),
            Value::Tensor(_) | Value::Stream(_) | Value::Handle(_) | Value::Unit(_) | Value::Op(_) => None,
        }
    }
}

/// Declares the attribute keys with the word each is written with.
macro_rules! attr_keys {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// The name of an attribute. Different ops may write one key with different words
        /// (`ArgSpec::word` decides); [`AttrKey::word`] is the usual one.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum AttrKey {
            $($(#[$doc])* $variant,)*
            /// An attribute that only its op knows, by a number of the op's choice; the op's row has its word.
            Own(u8),
        }
        impl AttrKey {
            /// The usual word.
            pub fn word(self) -> &'static str {
                match self {
                    $(AttrKey::$variant => $text,)*
                    AttrKey::Own(_) => "attribute",
                }
            }
        }
    };
}

attr_keys! {
    /// Axis of a select, as a domain.
    Axis = "axis",
    /// Index of a select, loop index of a FOR.
    Index = "index",
    /// The `stream_index` of a ShardByStream.
    StreamIndex = "stream_index",
    /// `true` for a ShardByStream whose index was read without its shift (see `crate::style::add_index_shifts`).
    Swizzle = "swizzle",
    /// `true` for an ALLOCATE in the `buffer=`, `size=` form.
    Buffer = "buffer",
    /// The memory type of an allocation.
    MemType = "mem_type",
    /// The number of elements of an allocation.
    Size = "size",
    /// `true` if memory is zeroed.
    ZeroInit = "zero_init",
    /// `true` if a kernel leaves the memory zeroed.
    ResetsToZero = "resets_to_zero",
    /// `true` if an ALLOCATE keeps the memory that its tensor already has (see [`Op::keeps_memory`]).
    Keep = "keep",
    /// The tensor whose allocation this one shares.
    Alias = "alias",
    /// Cache hint of a Set.
    CacheOp = "cache_op",
    /// Broadcast or squeeze flags, one for each dimension.
    Flags = "flags",
    /// Reduction operation as a word.
    ReduceOp = "op",
    /// Initial value of a reduction.
    Init = "initial value",
    /// `true` if the reduction's result is broadcast back.
    Allreduce = "allreduce",
    /// Slice ranges.
    Ranges = "ranges",
    /// Communication type.
    Type = "type",
    /// Team of a communication.
    Team = "team",
    /// The axis of a mesh along which the teams of a communication are, in place of one team (not printed by nvFuser).
    Over = "over",
    /// Root of a communication.
    Root = "root",
    /// The meaning of a root that is no rank number (see [`super::RootAs`]).
    RootAs = "root_as",
    /// Communicator backend.
    Backend = "backend",
    /// The name of the communicator among those of one team and backend (not printed by nvFuser, which has one).
    Comm = "comm",
    /// The element of an array of handles that a communication or group gets, or that a Wait waits for (not printed by
    /// nvFuser, which has no such arrays).
    Element = "element",
    /// The initiator of a transfer (not printed by nvFuser; default `get`: the receiver).
    Protocol = "protocol",
    /// Peer of a send or receive.
    Peer = "peer",
    /// Team position of the rank that a CollectivePermute sends to.
    SendPeer = "send_peer",
    /// Team position of the rank that a CollectivePermute receives from.
    RecvPeer = "recv_peer",
    /// The reduction operation of a Communication (not printed by nvFuser; default sum).
    RedOp = "red_op",
    /// The permutation of a permuting op; absent only if the text does not determine it.
    Perm = "perm",
    /// Kernel group.
    GroupId = "Group ID",
    /// The file of a kernel of the user (not printed by nvFuser).
    Kernel = "Kernel",
    /// The numbers of the operands that a kernel of the user reads; of other tensors it gets only the address. All
    /// tensors if absent.
    Reads = "Reads",
    /// Dimension.
    Dim = "dim",
    /// The number of elements that a topk selects.
    Count = "k",
    /// Predicate kind of an IF.
    Predicate = "predicate",
    /// Loop domain.
    Domain = "domain",
    /// Loop start.
    Start = "start",
    /// Loop stop.
    Stop = "stop",
    /// Loop step.
    Step = "step",
    /// The number of inputs among the operands, for ops that list inputs and outputs together.
    NumInputs = "num_inputs",
    /// The operands that are present among those with a word, as indices in the op table.
    Given = "given",
    /// Extents of full, rng, expand.
    Extents = "extents",
    /// Seed of random numbers.
    Seed = "seed",
    /// Offset of random numbers (not printed by nvFuser; default 0).
    Offset = "offset",
    /// The lower end of a range of random numbers.
    Low = "low",
    /// The upper end of a range of random numbers.
    High = "high",
    /// The mean of random numbers.
    Mean = "mean",
    /// The standard deviation of random numbers.
    Deviation = "deviation",
    /// The elements of a tensor.
    Elements = "elements",
    /// Fill or pad value.
    Fill = "value",
    /// Pad widths.
    Widths = "widths",
    /// Number of experts.
    NumExperts = "num_experts",
    /// Element type of a factory.
    OutType = "dtype",
    /// Function of a pointwise op in the newest spelling: `+`, `expf`, `__to_float`, `where`.
    Function = "function",
}

/// The value of an attribute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AttrValue {
    /// `true`
    Bool(bool),
    /// A scalar expression.
    Expr(ExprId),
    /// A word.
    Word(Symbol),
    /// Words.
    Words(Box<[Symbol]>),
    /// A tensor.
    Tensor(TensorId),
    /// A domain (of the tensor that the op selects from, if that has one of this number).
    Domain(DomainId),
    /// Integers (team, permutation). A team that nvFuser truncated ends in [`TEAM_CUT`].
    Ints(Box<[i64]>),
    /// Flags.
    Bools(Box<[bool]>),
    /// Scalars.
    Exprs(Box<[ExprId]>),
    /// `{start, stop, step}` triples.
    Ranges(Box<[[ExprId; 3]]>),
}

/// The last element of a [`AttrKey::Team`] that nvFuser truncated (it prints 100 devices, then ` ...`).
pub const TEAM_CUT: i64 = -1;
impl AttrValue {
    /// The tensor, if the value is one.
    pub fn tensor(&self) -> Option<TensorId> {
        match self {
            Self::Tensor(tensor) => Some(*tensor),
            _ => None,
        }
    }
    /// The words of the value.
    pub fn words(&self) -> &[Symbol] {
        match self {
            Self::Word(word) => std::slice::from_ref(word),
            Self::Words(words) => words,
            _ => &[],
        }
    }
    /// The scalar expressions of the value.
    pub fn exprs(&self) -> &[ExprId] {
        match self {
            Self::Expr(expr) => std::slice::from_ref(expr),
            Self::Exprs(exprs) => exprs,
            Self::Ranges(ranges) => ranges.as_flattened(),
            _ => &[],
        }
    }
    /// The scalar expressions of the value, for replacement.
    pub fn exprs_mut(&mut self) -> &mut [ExprId] {
        match self {
            Self::Expr(expr) => std::slice::from_mut(expr),
            Self::Exprs(exprs) => exprs,
            Self::Ranges(ranges) => ranges.as_flattened_mut(),
            _ => &mut [],
        }
    }
}

/// A keyed attribute.
pub type OpAttr = (AttrKey, AttrValue);

/// One op.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Op {
    /// Row of the op table.
    pub kind: OpKind,
    /// `39` of `Communication 39`, if it has one.
    pub number: Option<u32>,
    /// The values that the op writes.
    pub results: SmallVec<[Value; 1]>,
    /// The values that the op reads, in the order of the op table.
    pub operands: SmallVec<[Value; 2]>,
    /// Attributes that are present, in the op table's order.
    pub attrs: Vec<OpAttr>,
    /// Loop body; then-branch and else-branch.
    pub blocks: SmallVec<[BlockId; 2]>,
}

impl Op {
    /// An op without a number, operands or attributes.
    pub fn new(kind: OpKind) -> Self {
        Self {
            kind,
            number: None,
            results: SmallVec::new(),
            operands: SmallVec::new(),
            attrs: Vec::new(),
            blocks: SmallVec::new(),
        }
    }
    /// The op with one more operand.
    pub fn with_operand(mut self, operand: Value) -> Self {
        self.operands.push(operand);
        self
    }
    /// The op with one more result.
    pub fn with_result(mut self, result: Value) -> Self {
        self.results.push(result);
        self
    }
    /// The attribute, if present.
    #[inline]
    pub fn attr(&self, key: AttrKey) -> Option<&AttrValue> {
        self.attrs.iter().find(|(k, _)| *k == key).map(|(_, value)| value)
    }
    /// The attribute as an expression.
    #[inline]
    pub fn expr_attr(&self, key: AttrKey) -> Option<ExprId> {
        match self.attr(key)? {
            AttrValue::Expr(expr) => Some(*expr),
            _ => None,
        }
    }
    /// The attribute as a word.
    #[inline]
    pub fn word_attr(&self, key: AttrKey) -> Option<Symbol> {
        match self.attr(key)? {
            AttrValue::Word(word) => Some(*word),
            _ => None,
        }
    }
    /// The attribute as a list of integers.
    pub fn ints_attr(&self, key: AttrKey) -> Option<&[i64]> {
        match self.attr(key)? {
            AttrValue::Ints(ints) => Some(ints),
            _ => None,
        }
    }
    /// The attribute as a domain.
    pub fn domain_attr(&self, key: AttrKey) -> Option<DomainId> {
        match self.attr(key)? {
            AttrValue::Domain(domain) => Some(*domain),
            _ => None,
        }
    }
    /// The tensor whose memory an ALLOCATE shares (`.alias=`).
    pub fn shared_memory(&self) -> Option<TensorId> {
        match self.attr(AttrKey::Alias)? {
            AttrValue::Tensor(tensor) => Some(*tensor),
            _ => None,
        }
    }
    /// Returns true if an ALLOCATE keeps the memory that its tensor already has, for example from the previous
    /// iteration: the long form does; the short form of 2026 makes new memory each time, unless `keep=` says otherwise.
    pub fn keeps_memory(&self) -> bool {
        match self.attr(AttrKey::Keep) {
            Some(AttrValue::Bool(keep)) => *keep,
            _ => self.attr(AttrKey::Buffer).is_some(),
        }
    }
    /// The tensors that the op reads, in operand order.
    #[inline]
    pub fn input_tensors(&self) -> impl Iterator<Item = TensorId> + '_ {
        self.operands.iter().filter_map(|value| value.as_tensor())
    }
    /// The tensors that the op writes.
    #[inline]
    pub fn output_tensors(&self) -> impl Iterator<Item = TensorId> + '_ {
        self.results.iter().filter_map(|value| value.as_tensor())
    }
    /// The tensors that the op writes and that hold something of its operands.
    #[inline]
    pub fn dependent_results(&self) -> impl Iterator<Item = TensorId> + '_ {
        let count = self.results.len().saturating_sub(self.kind.whole_result_count());
        self.results[..count].iter().filter_map(|value| value.as_tensor())
    }
    /// The tensors that the op reads, then those that it writes.
    #[inline]
    pub fn all_tensors(&self) -> impl Iterator<Item = TensorId> + '_ {
        self.input_tensors().chain(self.output_tensors())
    }
    /// Replaces a tensor wherever the op reads it.
    pub fn replace_operand(&mut self, old: TensorId, new: TensorId) {
        for value in self.operands.iter_mut().filter(|value| **value == Value::Tensor(old)) {
            *value = Value::Tensor(new);
        }
    }
    /// Replaces the result of an op with one result.
    pub fn set_result(&mut self, tensor: TensorId) {
        self.results.fill(Value::Tensor(tensor));
    }
    /// Replaces the value of an attribute that is present.
    pub fn set_attr(&mut self, key: AttrKey, value: &AttrValue) {
        for (_, slot) in self.attrs.iter_mut().filter(|(k, _)| *k == key) {
            slot.clone_from(value);
        }
    }
    /// The tensors and scalars among the operands.
    pub fn plain_operands(&self) -> impl Iterator<Item = Value> + '_ {
        self.operands.iter().copied().filter(|value| matches!(value, Value::Tensor(_) | Value::Scalar(_)))
    }
    /// The values that the inputs of a HostUnit get: all operands of a PostOnStream, and of the launch of a kernel of
    /// the user the tensors that it reads and then the scalars.
    pub fn passed_values(&self) -> Vec<Value> {
        if self.attr(AttrKey::Kernel).is_none() {
            return self.plain_operands().collect();
        }
        let all: Vec<Value> = self.plain_operands().collect();
        let reads: Vec<Value> = match self.ints_attr(AttrKey::Reads) {
            Some(numbers) => {
                numbers.iter().filter_map(|&number| all.get(usize::try_from(number).ok()?).copied()).collect()
            }
            None => all.clone(),
        };
        let reads = reads.into_iter().filter(|value| value.as_tensor().is_some());
        reads.chain(all.iter().copied().filter(|value| value.as_scalar().is_some())).collect()
    }
    /// Returns true if an opaque op says what it accesses: it runs a HostUnit, or launches a kernel of the user, which
    /// reads all tensors among its operands at most, and writes all of its results.
    pub fn declares_accesses(&self) -> bool {
        self.posted_number().is_some() || self.attr(AttrKey::Kernel).is_some()
    }
    /// The number, if it has one.
    pub fn number(&self) -> Option<u32> {
        self.number
    }
    /// The number of the HostUnit that a PostOnStream names.
    pub fn posted_number(&self) -> Option<u32> {
        self.operands.iter().find_map(|value| match value {
            Value::Unit(number) => Some(*number),
            _ => None,
        })
    }
}
