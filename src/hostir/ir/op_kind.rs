//! Op kinds: opaque handles with the facts that every layer may query.
//!
//! The op table (`crate::ops`) makes one [`OpKind`] for each row; modules below it use kinds without knowing the rows.
//! Properties that need functions of other layers (arguments, axis links, checks, lowering) are in
//! `crate::ops::OpSpec`.

use super::ids::TensorId;
use std::any::Any;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::RangeInclusive;

/// A row of the op table, or of a caller's ops.
#[derive(Clone, Copy)]
pub struct OpKind(&'static OpIdentity);

/// The facts about an op that need no function of another layer.
#[derive(Debug)]
pub struct OpIdentity {
    /// The number of the row; [`OpIdentity::NO_ROW`] for an op of a caller.
    pub index: u8,
    /// The `OpSpec` that holds this identity, for an op of a caller.
    pub spec: Option<&'static (dyn Any + Send + Sync)>,
    /// Head word in the default style.
    pub name: &'static str,
    /// Its layout in the text.
    pub layout: OpLayout,
    /// Number of results before `=` (communications and statements: 0).
    pub results: usize,
    /// Number of results that may follow these.
    pub optional_results: usize,
    /// Its effect.
    pub effect: OpEffect,
    /// The ops of the kind that nvFuser's lowering makes ops of the host program; others go into HostUnits.
    pub standalone: StandaloneRule,
    /// The ranks that run it.
    pub runs_on: RunsOn,
    /// True if it makes axes of its result from the elements of several axes, or from parts of one: such an axis has no
    /// link although its elements come from the operand.
    pub reshapes: bool,
    /// True if its result has the elements of its operand, in row-major order, under other axes.
    pub row_major_view: bool,
    /// True if an index tensor chooses the elements that it reads or writes.
    pub indexed: bool,
    /// The communication that does its work if operand and result are on different devices.
    pub transfer: Option<Transfer>,
    /// The form of a GEMM; `None` for other ops.
    pub gemm: Option<GemmForm>,
    /// The number of its last results that hold nothing of its operands, and so are whole on each device: the state of
    /// the random numbers of attention.
    pub whole_results: usize,
}

impl OpIdentity {
    /// The numbers of results that an op may have before `=`.
    pub fn result_counts(&self) -> RangeInclusive<usize> {
        self.results..=self.results + self.optional_results
    }

    /// The number of an op that is not in the table.
    pub const NO_ROW: u8 = u8::MAX;

    /// The defaults of a row: a tensor op without effects that HostUnits hold.
    pub const TENSOR_OP: OpIdentity = OpIdentity {
        index: Self::NO_ROW,
        spec: None,
        name: "",
        layout: OpLayout::TwoLines(CallPadding::Padded),
        results: 1,
        optional_results: 0,
        effect: OpEffect::Pure,
        standalone: StandaloneRule::No,
        runs_on: RunsOn::Mesh,
        reshapes: false,
        row_major_view: false,
        indexed: false,
        transfer: None,
        gemm: None,
        whole_results: 0,
    };

    /// Returns true if ops of the kind have a number (`Communication 39`).
    pub const fn is_numbered(&self) -> bool {
        matches!(self.layout, OpLayout::Keyed | OpLayout::Words(WordLink::Number))
    }

    /// Returns a copy with a row number.
    pub const fn at_row(&self, index: u8) -> OpIdentity {
        OpIdentity { index, ..*self }
    }
}

/// Numbers of results in words: `1 result`, `1 to 3 results`.
pub fn result_count_text(counts: &RangeInclusive<usize>) -> String {
    let noun = if *counts.end() == 1 { "result" } else { "results" };
    match counts.start() == counts.end() {
        true => format!("{} {noun}", counts.end()),
        false => format!("{} to {} {noun}", counts.start(), counts.end()),
    }
}

impl OpKind {
    /// The kind of a row.
    pub const fn new(identity: &'static OpIdentity) -> Self {
        Self(identity)
    }
    /// The number of the row.
    pub const fn row(self) -> usize {
        self.0.index as usize
    }
    /// The `OpSpec` of an op of a caller.
    pub(crate) fn caller_spec(self) -> Option<&'static (dyn Any + Send + Sync)> {
        self.0.spec
    }
    /// Head word in the default style.
    pub const fn name(self) -> &'static str {
        self.0.name
    }
    /// Its layout in the text.
    pub fn layout(self) -> OpLayout {
        self.0.layout
    }
    /// Number of results before `=`.
    pub fn result_count(self) -> usize {
        self.0.results
    }
    /// The number of its last results that hold nothing of its operands.
    pub fn whole_result_count(self) -> usize {
        self.0.whole_results
    }
    /// The numbers of results that it may have before `=`.
    pub fn result_counts(self) -> RangeInclusive<usize> {
        self.0.result_counts()
    }
    /// Its effect.
    pub fn effect(self) -> OpEffect {
        self.0.effect
    }
    /// The ops of the kind that nvFuser's lowering makes ops of the host program.
    pub fn standalone(self) -> StandaloneRule {
        self.0.standalone
    }
    /// The ranks that run it.
    pub fn runs_on(self) -> RunsOn {
        self.0.runs_on
    }
    /// Returns true if the op makes an axis of its result from elements of several axes, or from parts of one.
    pub fn reshapes(self) -> bool {
        self.0.reshapes
    }
    /// Returns true if the result has the elements of the operand, in row-major order, under other axes.
    pub fn is_row_major_view(self) -> bool {
        self.0.row_major_view
    }
    /// Returns true if an index tensor chooses the elements that the op reads or writes.
    pub fn is_indexed(self) -> bool {
        self.0.indexed
    }
    /// The communication that does the op's work if operand and result are on different devices.
    pub fn transfer(self) -> Option<Transfer> {
        self.0.transfer
    }
    /// The form of a GEMM; `None` for other ops.
    pub fn gemm(self) -> Option<GemmForm> {
        self.0.gemm
    }
    /// Returns true if the op applies a function to each element, or to scalars.
    pub fn is_pointwise(self) -> bool {
        self.layout() == OpLayout::Pointwise
    }
    /// Returns true if each op of the kind has results as it likes; [`Self::result_count`] is 0.
    pub fn has_any_results(self) -> bool {
        use OwnForm::{GroupedReduction, GroupedWelford, LaunchKernel};
        matches!(self.layout(), OpLayout::Own(LaunchKernel | GroupedReduction | GroupedWelford))
    }
    /// Returns true if the op gives a scalar a name.
    pub fn is_definition(self) -> bool {
        self.layout() == OpLayout::Define
    }
    /// Returns true if programs have the op before they are lowered: it computes only, or takes a slice as mathematics
    /// does (`select`).
    pub fn is_mathematics(self) -> bool {
        match self.effect() {
            OpEffect::Pure => true,
            OpEffect::Alias => self.standalone() != StandaloneRule::No,
            _ => false,
        }
    }
}

/// Questions about the effect.
impl OpKind {
    /// Returns true if the op allocates memory.
    pub fn is_allocation(self) -> bool {
        self.effect() == OpEffect::Allocate
    }
    /// Returns true if the op frees memory.
    pub fn is_deallocation(self) -> bool {
        self.effect() == OpEffect::Free
    }
    /// Returns true if the op runs blocks.
    pub fn is_control(self) -> bool {
        matches!(self.effect(), OpEffect::Control(_))
    }
    /// Returns true if the op runs its block several times.
    pub fn is_loop(self) -> bool {
        self.effect() == OpEffect::Control(ControlEffect::Loop)
    }
    /// Returns true if the op runs one of its blocks.
    pub fn is_branch(self) -> bool {
        self.effect() == OpEffect::Control(ControlEffect::Branch)
    }
    /// Returns true if the op names, chooses or synchronizes streams.
    pub fn is_stream_op(self) -> bool {
        matches!(self.effect(), OpEffect::Stream(_))
    }
    /// Returns true if the op gives the current stream a name.
    pub fn is_stream_naming(self) -> bool {
        self.effect() == OpEffect::Stream(StreamEffect::Name)
    }
    /// Returns true if the op makes a stream the current one.
    pub fn is_stream_choice(self) -> bool {
        self.effect() == OpEffect::Stream(StreamEffect::Choose)
    }
    /// Returns true if the op makes the current stream wait for another one.
    pub fn is_synchronization(self) -> bool {
        self.effect() == OpEffect::Stream(StreamEffect::Synchronize)
    }
    /// The part of the op in communication; `None` if it has none.
    pub fn communication(self) -> Option<CommunicationEffect> {
        match self.effect() {
            OpEffect::Communicate(effect) => Some(effect),
            _ => None,
        }
    }
    /// Returns true if the op starts, groups or awaits communication.
    pub fn is_communication(self) -> bool {
        self.communication().is_some()
    }
    /// Returns true if the op starts a communication that a group may hold or a Wait may name.
    pub fn is_post(self) -> bool {
        self.is_collective() || self.is_message() || self.is_permute()
    }
    /// Returns true if the op starts a collective.
    pub fn is_collective(self) -> bool {
        self.communication() == Some(CommunicationEffect::Collective)
    }
    /// Returns true if the op starts a send or a receive.
    pub fn is_message(self) -> bool {
        self.communication() == Some(CommunicationEffect::Message)
    }
    /// Returns true if the op sends to one peer and receives from another.
    pub fn is_permute(self) -> bool {
        self.communication() == Some(CommunicationEffect::Permute)
    }
    /// Returns true if the op opens a group of communications.
    pub fn is_group_start(self) -> bool {
        self.communication() == Some(CommunicationEffect::StartGroup)
    }
    /// Returns true if the op closes a group, and so starts its communications.
    pub fn is_group_end(self) -> bool {
        self.communication() == Some(CommunicationEffect::EndGroup)
    }
    /// Returns true if the op waits for a communication or a group.
    pub fn is_wait(self) -> bool {
        self.communication() == Some(CommunicationEffect::Wait)
    }
    /// Returns true if the op exchanges handles of memory.
    pub fn is_memory_exchange(self) -> bool {
        self.communication() == Some(CommunicationEffect::ShareMemory)
    }
}

impl PartialEq for OpKind {
    fn eq(&self, other: &Self) -> bool {
        self.0.index == other.0.index && (self.0.index != OpIdentity::NO_ROW || self.0.name == other.0.name)
    }
}

impl Eq for OpKind {}

impl Hash for OpKind {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.index.hash(state);
    }
}

impl PartialOrd for OpKind {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OpKind {
    fn cmp(&self, other: &Self) -> Ordering {
        match self.0.index {
            OpIdentity::NO_ROW => (self.0.index, self.0.name).cmp(&(other.0.index, other.0.name)),
            index => index.cmp(&other.0.index),
        }
    }
}

impl fmt::Debug for OpKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

/// The ranks that run an op.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunsOn {
    /// The ranks in the mesh of one of its tensors, or all if one of them has no mesh.
    Mesh,
    /// The members of its team.
    Team,
    /// The ranks that run the communications whose handles it names.
    Handle,
}

/// The layout of an op in the text. The set is closed; `print` has one function for each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpLayout {
    /// One line: `out = name( a, key = value )`, blanks inside the parentheses if `Padded`.
    OneLine(CallPadding),
    /// Two lines: `out` and, indented by three more blanks, `= name( a, key = value )`.
    TwoLines(CallPadding),
    /// `matmul`: each operand on a line of its own, operands aligned.
    Aligned,
    /// `linear`: as `Aligned`, with nvFuser's odd blanks before `,` and `)`.
    AlignedLoose,
    /// Each result and each argument on a line of its own, arguments aligned: attention and `embedding`.
    ArgumentLines(ArgumentsEnd),
    /// Results in parentheses, then the call; each tensor on a line of its own that begins with one blank.
    ResultList,
    /// Two lines, and between the parentheses one line for each argument.
    ArgumentBlock,
    /// `scan`: as `Aligned`, with attributes on lines of their own, too.
    AlignedArguments,
    /// One line with results in parentheses: `( a, b ) = name( x, key = value )`.
    ResultTuple,
    /// Two lines without padding, ending in `;`: `full` and `iota`. No comma follows an empty list.
    Factory,
    /// Pointwise: infix or prefix operator, or named function with one operand a line; ends in `;`.
    Pointwise,
    /// `Name N (key=value, ...)`: communications.
    Keyed,
    /// `Name(key=value, ...)`: statements of ours without results.
    Statement,
    /// Words: `Synchronize Stream 0` or, by [`Style::call_form`](super::Style::call_form), `Synchronize(Stream 0)`.
    Words(WordLink),
    /// A scalar definition: `i84 = i82 % 8;`.
    Define,
    /// A form of its own, which `print` and `resolve` know by punctuation.
    Own(OwnForm),
}

/// The end of a statement of [`OpLayout::ArgumentLines`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArgumentsEnd {
    /// `)` follows the last argument, and a comma the results: `embedding`.
    Closed,
    /// Each line of an argument ends in a comma; an attribute that may be left out begins its line with another one:
    /// `sdpa_bwd`.
    Commas,
    /// By [`Style::sdpa_commas`](super::Style::sdpa_commas), each line of an argument ends in a comma, or `)` follows
    /// the last one after blanks: `sdpa`.
    ByStyle,
}

/// The forms of statements that only one op has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OwnForm {
    /// `T1 = ALLOCATE(buffer=T1, ...)`
    Allocate,
    /// `Deallocate { T1 }`
    Deallocate,
    /// `FOR i in iS0{8}:`
    LoopOverDomain,
    /// `FOR i from 0 to 8:`
    LoopOverRange,
    /// `IF Manual ( i == rank ):`
    Branch,
    /// `PostOnStream (HostUnit0, Inputs:{T0, }, Outputs:{T1, })`
    PostOnStream,
    /// `LaunchKernel(Group ID: 0, Inputs: {T0}, Outputs: {T1}, )`
    LaunchKernel,
    /// `ShareMemHandles(P2PCommunication 37 (...), `
    ShareMemHandles,
    /// `GetCurrentStream into Stream 0`
    GetCurrentStream,
    /// `T1 = scatter(in = T0, dim = 0, src = T2, idx = T3 )`
    Scatter,
    /// `GroupedReductionOp( T1 = reduction( .. ) T3 = reduction( .. ) allreduce = false )`
    GroupedReduction,
    /// `T1(Avg), T2(Var), T3(Count) = Welford ( T0(Avg), allreduce = false )`
    Welford,
    /// `GroupedWelford( T1 (Avg), T2 (Var), T3 (Count) = Welford ( .. ) allreduce = false )`
    GroupedWelford,
}

/// The words between the head of a [`OpLayout::Words`] statement and its operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WordLink {
    /// Nothing.
    None,
    /// `to`
    To,
    /// The op's number (`EndCoalescing 32`); it has no operand.
    Number,
}

/// Blanks inside the parentheses of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallPadding {
    /// `f( a )`
    Padded,
    /// `f(a)`
    Tight,
}

/// The effect of running an op; passes and checks query this and never the kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpEffect {
    /// Computes its results from its operands and nothing else.
    Pure,
    /// Binds its result to a part of its operand's memory.
    Alias,
    /// Allocates memory for its result.
    Allocate,
    /// Frees its operand.
    Free,
    /// Names, chooses or synchronizes streams.
    Stream(StreamEffect),
    /// Starts, groups or awaits communication.
    Communicate(CommunicationEffect),
    /// Runs blocks.
    Control(ControlEffect),
    /// Reads and writes its tensors in an unknown way (a compiled kernel).
    Opaque,
    /// Reads its operands for somebody outside of the program: a check, or output. It stays where it is.
    Observe,
}

/// The effect of an op on streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamEffect {
    /// Gives the current stream a name.
    Name,
    /// Makes a stream the current one.
    Choose,
    /// Makes the current stream wait for another one.
    Synchronize,
}

/// The part of an op in communication.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommunicationEffect {
    /// Starts a collective of a team.
    Collective,
    /// Starts a send or a receive.
    Message,
    /// Starts a send to one peer and a receive from another.
    Permute,
    /// Sends tokens to experts or back.
    ExpertExchange,
    /// Opens a group of communications that start together.
    StartGroup,
    /// Closes a group, and so starts it.
    EndGroup,
    /// Makes the current stream wait for a communication or a group.
    Wait,
    /// Exchanges handles of memory that peers may access.
    ShareMemory,
}

/// The way in which an op runs blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ControlEffect {
    /// Runs its block several times.
    Loop,
    /// Runs one of its blocks.
    Branch,
}

/// A communication that does the work of an op across devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transfer {
    /// Moves elements as they are.
    Copy,
    /// Joins elements.
    Reduction,
}

/// The form of a GEMM `[.., M, K] x [.., K, N] -> [.., M, N]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GemmForm {
    /// True if the right factor is a weight `[N, K]`, which a bias `[N]` may follow.
    pub transposed: bool,
    /// True if the third operand is an accumulator of the result's shape.
    pub accumulates: bool,
    /// True if scales of rows and columns follow the factors, and a bias may follow these.
    pub scaled: bool,
}

impl GemmForm {
    /// Two factors and nothing else.
    pub const PLAIN: GemmForm = GemmForm { transposed: false, accumulates: false, scaled: false };

    /// Returns true if the GEMM has two factors and nothing else.
    pub fn is_plain(self) -> bool {
        self == Self::PLAIN
    }
}

/// The ops of a kind that occur in a host program by themselves (nvFuser's `isLowerableAsStandaloneHostOp`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StandaloneRule {
    /// None.
    No,
    /// All.
    Yes,
    /// Those with two operands.
    Binary,
}

/// A correspondence of two tensors' axes: equal extents, equal indices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AxisLink {
    /// Tensor and position among its logical axes (reductions included).
    pub from: (TensorId, u32),
    /// Tensor and position among its logical axes (reductions included).
    pub to: (TensorId, u32),
    /// True if exactly one of the two is a broadcast: they are at one place, but their extents differ.
    pub broadcast: bool,
}
