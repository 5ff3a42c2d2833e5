//! Builds the tree, and rejects what the grammar itself does not: limits, the forms of targets, chains of comparisons,
//! lists of devices.

mod exprs;
mod items;
mod statements;

use crate::token::{Rejected, Tok};
use hostir_grammar::Span;
use hostir_grammar::ast::{BlockId, BlockSyntax, ExprId, StringInterner, Symbol};
use hostir_grammar::hir2::ast::{
    ArgNode, AxisSyntax, FileSyntax, LoopDomain, NameSyntax, NodeRange, ParamSyntax, TargetSyntax,
};
use lalrpop_util::ParseError;

/// A node, unless it is rejected.
pub type Checked<T> = Result<T, ParseError<u32, Tok, Rejected>>;

/// Builds the tree of one text.
pub struct TreeBuilder<'t> {
    text: &'t str,
    /// The tree so far.
    pub file: FileSyntax,
    /// For each expression the brackets that it is printed with at its deepest place.
    heights: Vec<u32>,
}

/// One entry of a list of devices.
#[derive(Debug)]
pub enum DeviceNode {
    /// The number of a device.
    Device(i64),
    /// A list in the list.
    List(Vec<DeviceNode>),
}

/// A program or kernel.
#[derive(Debug)]
pub struct ProgramNode {
    /// Its name.
    pub name: NameSyntax,
    /// Inputs.
    pub inputs: Vec<ParamSyntax>,
    /// Outputs.
    pub outputs: Vec<ParamSyntax>,
    /// `on d`
    pub mesh: Option<NameSyntax>,
    /// The end of the outputs.
    pub end: u32,
    /// The statements.
    pub body: BlockId,
    /// From the name to the last statement.
    pub span: Span,
}

/// A type.
#[derive(Debug)]
pub struct TypeParts {
    /// The element type.
    pub dtype: NameSyntax,
    /// The memory.
    pub memory: Option<NameSyntax>,
    /// The axes.
    pub axes: Vec<AxisSyntax>,
    /// The suffixes after the axes.
    pub suffixes: Vec<Suffix>,
    /// The whole type.
    pub span: Span,
}

/// A part of a type after its axes; of two of one kind the last one counts.
#[derive(Clone, Copy, Debug)]
pub enum Suffix {
    /// `order(1, 0)`
    Order(NodeRange),
    /// `logical(a, b)`
    Logical(NodeRange),
    /// `split`
    Split,
    /// A verbatim text of positions.
    Positions(Symbol),
    /// `@d`
    Mesh(NameSyntax),
}

/// The bounds of a loop.
#[derive(Clone, Copy, Default, Debug)]
pub struct LoopRange {
    /// The first index, if written.
    pub start: Option<ExprId>,
    /// The end.
    pub stop: Option<ExprId>,
    /// The step, if written.
    pub step: Option<ExprId>,
}

/// The header of a loop after `in`.
#[derive(Clone, Copy, Debug)]
pub struct LoopHead {
    /// The domain.
    pub domain: LoopDomain,
    /// The bounds.
    pub range: LoopRange,
    /// `on streams`
    pub on_streams: bool,
}

/// The header of a branch.
#[derive(Clone, Copy, Debug)]
pub struct BranchHead {
    /// `Kind` of `if [Kind]`.
    pub(super) predicate: Option<NameSyntax>,
    /// The condition, if written.
    pub(super) condition: Option<ExprId>,
    /// The start of `if`.
    pub(super) start: u32,
    /// The end of what precedes the condition.
    pub(super) end: u32,
}

/// `launch "axpy.cu"::axpy[grid, block](A, n)`: a launch up to its clauses.
#[derive(Clone, Debug)]
pub struct LaunchHead {
    /// The file, without the quotes.
    pub file: NameSyntax,
    /// The kernel in it.
    pub entry: NameSyntax,
    /// The extents of the grid.
    pub grid: Vec<ExprId>,
    /// Those of the block.
    pub block: Vec<ExprId>,
    /// Bytes of shared memory.
    pub shared: Option<ExprId>,
    /// The arguments.
    pub args: Vec<ArgNode>,
}

/// The parts after the arguments of a launch.
#[derive(Clone, Debug)]
pub enum LaunchClause {
    /// `reads(A)`
    Reads(Vec<ExprId>),
    /// `writes(C)`
    Writes(Vec<TargetSyntax>),
    /// `reference=f`
    Reference(NameSyntax),
    /// `group=3`
    Group(ExprId),
}

impl BranchHead {
    /// A header of a word between two offsets, a kind with the end of its bracket, and a condition.
    pub fn new(kind: Option<(NameSyntax, u32)>, condition: Option<ExprId>, start: u32, end: u32) -> Self {
        let end = kind.map_or(end, |(_, end)| end);
        Self { predicate: kind.map(|(name, _)| name), condition, start, end }
    }
}

impl LoopHead {
    /// `G.0`, maybe with bounds.
    pub fn along_position(position: (NameSyntax, u32), range: Option<LoopRange>, on_streams: bool) -> Self {
        let domain = LoopDomain::TensorAxis(position.0, position.1);
        Self { domain, range: range.unwrap_or_default(), on_streams }
    }
}

impl<'t> TreeBuilder<'t> {
    /// An empty tree with the strings of the tokens.
    pub fn new(text: &'t str, strings: StringInterner) -> Self {
        let file = FileSyntax::with_strings(strings);
        Self { text, file, heights: Vec::new() }
    }

    /// The place between two offsets.
    pub fn span(&self, start: u32, end: u32) -> Span {
        Span { start, end }
    }

    /// A name.
    pub fn name(&self, name: Symbol, start: u32, end: u32) -> NameSyntax {
        NameSyntax { name, span: self.span(start, end) }
    }

    /// The name that the text has at a place.
    pub fn name_at(&mut self, start: u32, end: u32) -> NameSyntax {
        let span = self.span(start, end);
        NameSyntax { name: self.file.strings.intern(&self.text[span.as_usize_range()]), span }
    }

    /// A list of expressions.
    pub fn add_list(&mut self, exprs: &[ExprId]) -> NodeRange {
        let start = self.file.expr_lists.len() as u32;
        self.file.expr_lists.extend_from_slice(exprs);
        NodeRange { start, end: self.file.expr_lists.len() as u32 }
    }

    /// A block.
    pub fn add_block(&mut self, stmts: Vec<hostir_grammar::ast::StmtId>, start: u32, end: u32) -> BlockId {
        self.file.blocks.push(BlockSyntax { stmts, span: Span { start, end } });
        BlockId(self.file.blocks.len() as u32 - 1)
    }
}

/// `Err` for a text that is not in the language.
fn reject<T>() -> Checked<T> {
    Err(ParseError::User { error: Rejected })
}

/// Rejects unless a condition holds.
fn require(holds: bool) -> Checked<()> {
    if holds { Ok(()) } else { reject() }
}
