//! The syntax tree of `hir 2`: what the text says, before any name has a meaning.
//!
//! As in [`crate::ast`], nodes live in flat arenas and refer to each other by dense ids, and nothing here knows an op.

use super::restarts::{ArenaSizes, RestartTable};
use crate::ast::{CommentSyntax, StringInterner, Symbol};
use crate::span::Span;

pub use crate::ast::{BlockId, BlockSyntax, ExprId, StmtId};

/// The id of a tensor type in [`FileSyntax::types`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TypeId(pub u32);

impl TypeId {
    /// The id as an index into its arena.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A run of nodes in one of the list arenas.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeRange {
    /// First node.
    pub start: u32,
    /// One past the last node.
    pub end: u32,
}

impl NodeRange {
    /// Number of nodes.
    #[inline]
    pub fn len(self) -> usize {
        (self.end - self.start) as usize
    }
    /// Whether there are none.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }
    /// The range as indices.
    #[inline]
    pub fn indices(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// A name with its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NameSyntax {
    /// The name.
    pub name: Symbol,
    /// Its place.
    pub span: Span,
}

/// The first lines of a file, which hold for all its programs.
#[derive(Clone, Default, Debug)]
pub struct FileHead {
    /// The line `hir 2`.
    pub version: Span,
    /// The second number of the version: 1 of `hir 2.1`, 0 of `hir 2`.
    pub minor: u32,
    /// `style 2026-04`: the text of the era.
    pub style: Option<NameSyntax>,
    /// `sizes m=64, k=128`.
    pub sizes: Vec<SizeSyntax>,
    /// `streams 3`.
    pub streams: Option<SizeSyntax>,
    /// `names d, main`: names that the author gave, although they are those that a mesh or a program without one has.
    pub given_names: Vec<NameSyntax>,
}

/// Everything that one text in `hir 2` holds.
#[derive(Clone, Default, Debug)]
pub struct FileSyntax {
    /// Interned strings: names, operators, literals, verbatim texts.
    pub strings: StringInterner,
    /// The lines in front of meshes and programs.
    pub head: FileHead,
    /// Imports, meshes, kernels and programs in order.
    pub items: Vec<ItemSyntax>,
    /// The texts of other files that follow in a bundle.
    pub parts: Vec<PartSyntax>,
    /// Tensor types.
    pub types: Vec<TypeSyntax>,
    /// Axes of all types, and of `for i in [st:4]`.
    pub axes: Vec<AxisSyntax>,
    /// Expressions with their spans.
    pub exprs: Vec<(ExprNode, Span)>,
    /// Lists of expressions: arguments of lists, extents.
    pub expr_lists: Vec<ExprId>,
    /// Arguments of calls.
    pub args: Vec<ArgNode>,
    /// Entries of indices `[own, :, i]`.
    pub index_items: Vec<IndexItem>,
    /// Targets of assignments.
    pub targets: Vec<TargetSyntax>,
    /// Launches of kernels of the user.
    pub launches: Vec<LaunchSyntax>,
    /// Statements.
    pub stmts: Vec<StatementNode>,
    /// Blocks.
    pub blocks: Vec<BlockSyntax>,
    /// Comments in order of appearance. `Container(n)` and `Header(n)` count all items of [`Self::items`]; a blank line
    /// inside a block that is to be kept is a comment with an empty span.
    pub comments: Vec<CommentSyntax>,
    /// Names that lines with errors declare, as they are meant.
    pub answered: Vec<AnsweredLine>,
    /// The places at which reading can begin again after an edit.
    pub(super) restarts: RestartTable,
}

/// A name that a line of another language declares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AnsweredLine {
    /// The line.
    pub span: Span,
    /// The name.
    pub name: Symbol,
}

impl FileSyntax {
    /// An empty tree with these strings.
    pub fn with_strings(strings: StringInterner) -> Self {
        Self { strings, ..Self::default() }
    }

    /// The numbers of its nodes.
    pub(super) fn arena_sizes(&self) -> ArenaSizes {
        ArenaSizes {
            exprs: self.exprs.len() as u32,
            expr_lists: self.expr_lists.len() as u32,
            args: self.args.len() as u32,
            index_items: self.index_items.len() as u32,
            targets: self.targets.len() as u32,
            launches: self.launches.len() as u32,
            types: self.types.len() as u32,
            axes: self.axes.len() as u32,
            stmts: self.stmts.len() as u32,
            blocks: self.blocks.len() as u32,
            comments: self.comments.len() as u32,
        }
    }

    /// Makes room for the tree of a text of so many bytes: about as much as usual ones need. Without the room the lists
    /// grow when they have to.
    pub(super) fn reserve_arenas(&mut self, length: usize) {
        self.strings.reserve_strings(length / 64, length / 10);
        let _ = self.exprs.try_reserve(length / 6);
        let _ = self.args.try_reserve(length / 20);
        let _ = self.index_items.try_reserve(length / 24);
        let _ = self.targets.try_reserve(length / 24);
        let _ = self.stmts.try_reserve(length / 20);
        let _ = self.types.try_reserve(length / 64);
        let _ = self.axes.try_reserve(length / 32);
        let _ = self.expr_lists.try_reserve(length / 64);
        let _ = self.blocks.try_reserve(length / 128);
    }

    /// The text of a symbol.
    #[inline]
    pub fn symbol_text(&self, symbol: Symbol) -> &str {
        self.strings.get(symbol)
    }
    /// An expression.
    #[inline]
    pub fn expr(&self, id: ExprId) -> &ExprNode {
        &self.exprs[id.index()].0
    }
    /// The place of an expression.
    #[inline]
    pub fn expr_span(&self, id: ExprId) -> Span {
        self.exprs[id.index()].1
    }
    /// A type.
    #[inline]
    pub fn tensor_type(&self, id: TypeId) -> &TypeSyntax {
        &self.types[id.index()]
    }
}

/// `m=64`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SizeSyntax {
    /// The name; of `streams 3` the empty symbol.
    pub name: Symbol,
    /// The value.
    pub value: i64,
    /// The place of name and value.
    pub span: Span,
}

/// The text of an imported file in a bundle.
#[derive(Clone, Debug)]
pub struct PartSyntax {
    /// The path of the file, from the folder of the first text.
    pub path: String,
    /// The reason why nothing can be imported from it.
    pub fault: Option<PartFault>,
    /// Its start in the bundle.
    pub start: u32,
    /// Its imports, meshes, kernels and programs. Its statements, types and so on are among those of the bundle.
    pub items: Vec<ItemSyntax>,
}

/// The reason why nothing can be imported from a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PartFault {
    /// There is no text, for this reason.
    NoText(String),
    /// It is not in `hir 2`.
    OtherNotation,
    /// Its first line has an error, which was recorded.
    Version,
}

/// `import a, b from "file.hir"`.
#[derive(Clone, Debug)]
pub struct ImportItem {
    /// The whole line.
    pub span: Span,
    /// The names; at least one.
    pub names: Vec<NameSyntax>,
    /// The path, without quotes.
    pub path: Symbol,
    /// The place of the path, with its quotes.
    pub path_span: Span,
}

/// A top-level item.
#[derive(Clone, Debug)]
pub enum ItemSyntax {
    /// `import a, b from "file.hir"`
    Import(ImportItem),
    /// `mesh d = 0..4`
    Mesh(MeshItem),
    /// `kernel f(..) -> (..):`
    Kernel(ProgramItem),
    /// `f(..) -> (..):`
    Program(ProgramItem),
}

impl ItemSyntax {
    /// The names that the item gives: of a mesh, a kernel or a program, or those of an import.
    pub fn names(&self) -> &[NameSyntax] {
        match self {
            ItemSyntax::Import(import) => &import.names,
            ItemSyntax::Mesh(mesh) => std::slice::from_ref(&mesh.name),
            ItemSyntax::Kernel(program) | ItemSyntax::Program(program) => std::slice::from_ref(&program.name),
        }
    }
}

/// `mesh d = [[0, 1], [2, 3]]`.
#[derive(Clone, Debug)]
pub struct MeshItem {
    /// The whole line.
    pub span: Span,
    /// The name.
    pub name: NameSyntax,
    /// Extents, outermost first; empty when the lists are ragged (an error was recorded).
    pub shape: Vec<u32>,
    /// Device numbers, row-major.
    pub devices: Vec<u32>,
    /// The form with sizes, in the place of shape and devices.
    pub sized: Option<SizedMeshSyntax>,
}

/// A mesh whose devices follow from sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SizedMeshSyntax {
    /// `0..p`: the first device and the end.
    Range(ExprId, ExprId),
    /// `[y:a, x:b]`: extents in [`FileSyntax::expr_lists`], outermost first; the devices are those from 0 on.
    Grid(NodeRange),
}

/// A program or a kernel.
#[derive(Clone, Debug)]
pub struct ProgramItem {
    /// From its name to its last statement.
    pub span: Span,
    /// The header line.
    pub header: Span,
    /// True if the header has an error, so that the inputs and outputs are not known.
    pub header_failed: bool,
    /// The name.
    pub name: NameSyntax,
    /// Inputs.
    pub inputs: Vec<ParamSyntax>,
    /// Outputs.
    pub outputs: Vec<ParamSyntax>,
    /// `on d`.
    pub mesh: Option<NameSyntax>,
    /// The statements.
    pub body: BlockId,
}

/// `A: f32[m]`, or `A`.
#[derive(Clone, Copy, Debug)]
pub struct ParamSyntax {
    /// The name.
    pub name: NameSyntax,
    /// The type, if it declares a tensor.
    pub ty: Option<TypeId>,
}

/// `bf16.l[x:4, m] order(1, 0) @d`.
#[derive(Clone, Copy, Debug)]
pub struct TypeSyntax {
    /// The whole type.
    pub span: Span,
    /// The element type.
    pub dtype: NameSyntax,
    /// The memory.
    pub memory: Option<NameSyntax>,
    /// Axes in [`FileSyntax::axes`].
    pub axes: NodeRange,
    /// `order(1, 0)`: integers in [`FileSyntax::expr_lists`].
    pub order: Option<NodeRange>,
    /// `logical(a, b)` in [`FileSyntax::expr_lists`].
    pub logical: Option<NodeRange>,
    /// `split`.
    pub split: bool,
    /// A verbatim text of positions.
    pub positions: Option<Symbol>,
    /// `@d`; the name is `all` for no mesh.
    pub mesh: Option<NameSyntax>,
}

/// `r.x:4`, `b.1 ex n`, or a domain verbatim.
#[derive(Clone, Copy, Debug)]
pub struct AxisSyntax {
    /// The whole axis.
    pub span: Span,
    /// `r` of `r.k`.
    pub iter: Option<NameSyntax>,
    /// `x` of `x:4`.
    pub parallel: Option<NameSyntax>,
    /// The extent; of a verbatim axis an [`ExprNode::Verbatim`] with its text.
    pub extent: ExprId,
    /// `n` of `1 ex n`.
    pub expanded: Option<ExprId>,
}

/// An expression, an operand, or the right side of an assignment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ExprNode {
    /// `7`, `-1` (a minus sign directly before digits, at the place of an operand).
    Int(i64),
    /// `0x1f`
    Hex(u64),
    /// `true`
    Bool(bool),
    /// `0.5`: the text.
    Float(Symbol),
    /// A name, reserved words in expressions (`rank`, `own`, `streams`, `inf`, `nan`, `alloc`, `current`) included.
    Name(Symbol),
    /// `-a`: operator and operand.
    Unary(Symbol, ExprId),
    /// `a + b`
    Binary(Symbol, ExprId, ExprId),
    /// `( a )`
    Paren(ExprId),
    /// `f( a, k=v )`; the name may have dots (`Set.Permute`). Arguments in [`FileSyntax::args`].
    Call(NameSyntax, NodeRange),
    /// `a[own, :, i]`: entries in [`FileSyntax::index_items`].
    Index(ExprId, NodeRange),
    /// `a.f`
    Field(ExprId, NameSyntax),
    /// `[a, b]`: items in [`FileSyntax::expr_lists`].
    List(NodeRange),
    /// `{ a, b }` in an expression: items in [`FileSyntax::expr_lists`].
    Braces(NodeRange),
    /// `A -> B` as the argument of a post.
    Arrow(ExprId, ExprId),
    /// `{ send(..); recv(..) }` on the right of `=` or after `wait`.
    Group(BlockId),
    /// A text in backquotes, without them.
    Verbatim(Symbol),
    /// Nothing usable (an error was recorded).
    Error,
}

/// `value` or `key=value` in a call.
#[derive(Clone, Copy, Debug)]
pub struct ArgNode {
    /// The whole argument.
    pub span: Span,
    /// The key.
    pub key: Option<NameSyntax>,
    /// The value.
    pub value: ExprId,
}

/// One entry of an index.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum IndexItem {
    /// `:`
    All(Span),
    /// An expression.
    At(ExprId),
}

/// The left side of an assignment.
#[derive(Clone, Copy, Debug)]
pub struct TargetSyntax {
    /// A name, or an index of one.
    pub value: ExprId,
    /// `T` of `G: T = ..`.
    pub ty: Option<TypeId>,
}

/// `launch "axpy.cu"::axpy[grid, block, shared](A, n, C) reads(A) writes(C)`.
#[derive(Clone, Copy, Debug)]
pub struct LaunchSyntax {
    /// The file, without the quotes.
    pub file: NameSyntax,
    /// The kernel in the file.
    pub entry: NameSyntax,
    /// Extents of the grid in [`FileSyntax::expr_lists`], one to three.
    pub grid: NodeRange,
    /// Extents of the block, likewise.
    pub block: NodeRange,
    /// Bytes of shared memory.
    pub shared: Option<ExprId>,
    /// The kernel's arguments in [`FileSyntax::args`].
    pub args: NodeRange,
    /// `reads(..)` in [`FileSyntax::expr_lists`].
    pub reads: NodeRange,
    /// `writes(..)` in [`FileSyntax::targets`].
    pub writes: NodeRange,
    /// `reference=NAME`.
    pub reference: Option<NameSyntax>,
    /// `group=N`, of a `LaunchKernel` that nvFuser printed.
    pub group: Option<ExprId>,
}

/// One statement.
#[derive(Clone, Copy, Debug)]
pub struct StatementNode {
    /// From its first to its last token (without the blocks).
    pub span: Span,
    /// Its form.
    pub form: StmtForm,
}

/// The domain of a loop.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum LoopDomain {
    /// `4`, `1..4`: bounds only.
    Bounds,
    /// `G.0`: tensor and printed position.
    TensorAxis(NameSyntax, u32),
    /// `[st:4]`: an axis of [`FileSyntax::axes`].
    Axis(u32),
}

/// The form of a statement.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum StmtForm {
    /// `G: f32[m]`: a declaration alone.
    Declare(NameSyntax, TypeId),
    /// `a, b = value`: targets in [`FileSyntax::targets`].
    Assign {
        /// The left sides.
        targets: NodeRange,
        /// The right side.
        value: ExprId,
    },
    /// A call as a statement: `send(A, to=1)`, or a group that nothing waits for.
    Call(ExprId),
    /// `wait h`, `wait send(..)`, `wait { .. }`.
    Wait(ExprId),
    /// `free A, B`: operands in [`FileSyntax::expr_lists`].
    Free(NodeRange),
    /// `stream e = current`
    BindStream(ExprId),
    /// `stream e`, or `stream e:` with a block.
    Stream(ExprId, Option<BlockId>),
    /// `sync e`
    Sync(ExprId),
    /// `for i in ..:`
    For {
        /// The index.
        index: NameSyntax,
        /// The domain.
        domain: LoopDomain,
        /// The first index, if written.
        start: Option<ExprId>,
        /// The end, if written.
        stop: Option<ExprId>,
        /// The step, if written.
        step: Option<ExprId>,
        /// `on streams`.
        on_streams: bool,
        /// The block.
        body: BlockId,
    },
    /// `if c:`, `else:`.
    If {
        /// `Kind` of `if [Kind] c:`.
        predicate: Option<NameSyntax>,
        /// The condition; `None` where a predicate kind needs none.
        condition: Option<ExprId>,
        /// The block if the condition holds.
        then: BlockId,
        /// The other block.
        otherwise: Option<BlockId>,
    },
    /// `launch ..`: its place in [`FileSyntax::launches`].
    Launch(u32),
    /// `share { .. }`
    Share(BlockId),
    /// `alias B -> A`: new name, original.
    Alias(NameSyntax, NameSyntax),
    /// `assert c, "text"`
    Assert {
        /// The condition.
        condition: ExprId,
        /// The text, without its quotes.
        text: Option<Symbol>,
    },
    /// `print A, n`: values in [`FileSyntax::expr_lists`].
    Print(NodeRange),
    /// `define:`
    Define(BlockId),
    /// A statement of the printed form, in backquotes.
    Verbatim(Symbol),
    /// A statement that could not be parsed; an error was recorded for it.
    Error,
}
