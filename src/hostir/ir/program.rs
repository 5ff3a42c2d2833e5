//! A host program: its arenas, and the blocks, sections and style that refer to them.

use super::expr::ExprArena;
use super::id::IdVec;
use super::ids::{BlockId, DomainId, ExprId, MeshId, OpId, TensorId, UnitId};
use super::imports::Imports;
use super::names::{NameInterner, Symbol};
use super::op::{Op, Value};
use super::op_kind::OpKind;
use super::order::DomainPositions;
use super::sized_mesh::SizedMeshes;
use super::style::Style;
use super::tensor::{DeviceMesh, IterDomain, Tensor};
use super::types::DType;
use super::unread::UnreadText;
use crate::diag::Span;
use rustc_hash::FxHashMap;

/// A list of ops that the host runs in order.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Block {
    /// The ops.
    pub ops: Vec<OpId>,
}

/// A fused group of tensor ops that `PostOnStream` runs, with its own names of tensors and scalars.
#[derive(Clone, Debug)]
pub struct HostUnit {
    /// `0` of `HostUnit0`.
    pub number: u32,
    /// The name that the user gave.
    pub name: Option<Symbol>,
    /// Inputs, in order.
    pub inputs: Vec<Value>,
    /// Outputs, in order.
    pub outputs: Vec<Value>,
    /// The `%kernel` body.
    pub body: BlockId,
    /// True if the text leaves the lists and the body out: `HostUnit0: [...]`.
    pub is_elided: bool,
}

/// Blank lines and labels around the container, kept so that the text round-trips.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextFrame {
    /// A blank line before `%HostIrContainer`.
    pub blank_before: bool,
    /// Blank lines after the closing line.
    pub blank_after: u32,
    /// Blank lines after the `Aliases:` or `Index definitions:` section.
    pub blank_end: u32,
    /// The format version: `1` of a first line `hir 1`.
    pub version: Option<u32>,
}

/// Names that a user gave to objects that otherwise have a number only.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct GivenNames {
    /// The program's own name.
    pub program: Option<Symbol>,
    /// Names of communications and groups, by number.
    pub handles: FxHashMap<u32, Symbol>,
    /// Names of streams that `GetCurrentStream` binds, by their address ([`Expr::Hex`](super::Expr::Hex)).
    pub streams: FxHashMap<u64, Symbol>,
    /// Names of meshes.
    pub meshes: FxHashMap<MeshId, Symbol>,
    /// The meshes that are given by sizes.
    pub sized: SizedMeshes,
}

/// Values that a text proposes for a run; options of the command line replace them.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct RunHints {
    /// Values of extents and integer scalars, in the order of the text.
    pub sizes: Vec<(Symbol, i64)>,
    /// Number of streams.
    pub streams: Option<u32>,
}

/// The position of a comment in the program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CommentPlace {
    /// Before the container, and detached from it.
    File,
    /// Above the line of a mesh in `hir 2`; the printed form has it among those of the file.
    AboveMesh(MeshId),
    /// At the end of that line.
    AfterMesh(MeshId),
    /// Above the line of an import in `hir 2`, by its number; elsewhere among those of the file.
    AboveImport(u32),
    /// At the end of that line.
    AfterImport(u32),
    /// Above the container.
    Container,
    /// At the end of the header line.
    Header,
    /// Above an op.
    Above(OpId),
    /// At the end of an op's (last) line.
    Trailing(OpId),
    /// At the end of the line `ELSE:` that opens a block, or above the header of a HostUnit with this body.
    StartOf(BlockId),
    /// After the last op of a block.
    EndOf(BlockId),
    /// After the container.
    End,
}

impl CommentPlace {
    /// True for a place outside of all programs, in front of one.
    pub fn is_of_file(self) -> bool {
        matches!(
            self,
            Self::File | Self::AboveMesh(_) | Self::AfterMesh(_) | Self::AboveImport(_) | Self::AfterImport(_)
        )
    }
}

/// A `//` comment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceComment {
    /// The position in the program.
    pub place: CommentPlace,
    /// The text with its `//`.
    pub text: Box<str>,
}

/// The places of a type in a text in `hir 2`.
#[derive(Clone, Copy, Debug)]
pub struct TypePlace {
    /// The whole type, with its mesh.
    pub whole: Span,
    /// The element type.
    pub dtype: Span,
    /// The axes in its brackets; `None` if there are none.
    pub axes: Option<Span>,
}

/// Information for diagnostics and the printer, but not for analyses: spans and comments.
#[derive(Clone, Default, Debug)]
pub struct SourceMap {
    /// Span of each op's statement; ops made by passes inherit one.
    pub ops: IdVec<OpId, Span>,
    /// Span of each tensor's first full text.
    pub tensors: IdVec<TensorId, Span>,
    /// Places of the types that a text in `hir 2` has of tensors.
    pub types: FxHashMap<TensorId, TypePlace>,
    /// Span of the header line.
    pub header: Span,
    /// Comments in text order.
    pub comments: Vec<SourceComment>,
    /// Texts of slices inside of statements, such as `C[at]`, by the tensors without names that they became.
    pub slices: SliceTexts,
    /// Names of meshes in a text in `hir 2` that a writer gives to meshes without one, for messages.
    pub default_meshes: FxHashMap<MeshId, String>,
    /// The size whose value is the number of ranks, `p` of `mesh d = 0..p`, also where a program has its value.
    pub rank_count: Option<String>,
    /// The statements that could not be read.
    pub unread: UnreadText,
}

impl SourceMap {
    /// Returns true if all comments above the program are the file's: the printed form shows that by a blank line in
    /// front of the program.
    pub fn has_detached_comments(&self) -> bool {
        let mut places = self.comments.iter().map(|comment| comment.place);
        places.clone().any(CommentPlace::is_of_file) && places.all(|place| place != CommentPlace::Container)
    }
}

/// Texts of tensors without names.
#[derive(Clone, Default, Debug)]
pub struct SliceTexts {
    text: String,
    /// The tensors in ascending order, each with the end of its text.
    ends: Vec<(TensorId, u32)>,
}

impl SliceTexts {
    /// Adds the text of a tensor that is newer than all others here.
    pub fn push(&mut self, tensor: TensorId, text: &str) {
        debug_assert!(self.ends.last().is_none_or(|(last, _)| *last < tensor), "texts are added in order");
        self.text.push_str(text);
        self.ends.push((tensor, self.text.len() as u32));
    }
    /// The text of a tensor.
    pub fn get(&self, tensor: TensorId) -> Option<&str> {
        let at = self.ends.binary_search_by_key(&tensor, |(known, _)| *known).ok()?;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before].1);
        self.text.get(start as usize..self.ends[at].1 as usize)
    }
}

/// A host program. Read freely; change through [`super::edit::Edit`].
#[derive(Clone, Debug)]
pub struct Program {
    pub(crate) names: NameInterner,
    pub(crate) exprs: ExprArena,
    pub(crate) meshes: IdVec<MeshId, DeviceMesh>,
    pub(crate) mesh_ids: FxHashMap<DeviceMesh, MeshId>,
    pub(crate) domains: IdVec<DomainId, IterDomain>,
    pub(crate) tensors: IdVec<TensorId, Tensor>,
    pub(crate) ops: IdVec<OpId, Op>,
    pub(crate) blocks: IdVec<BlockId, Block>,
    pub(crate) body: BlockId,
    pub(crate) inputs: Vec<Value>,
    pub(crate) outputs: Vec<Value>,
    pub(crate) units: IdVec<UnitId, HostUnit>,
    pub(crate) aliases: Option<Vec<(TensorId, TensorId)>>,
    /// For each tensor that is an alias, the tensor whose memory it shares.
    pub(crate) memory: FxHashMap<TensorId, TensorId>,
    pub(crate) index_definitions: Option<BlockId>,
    pub(crate) frame: TextFrame,
    pub(crate) style: Style,
    pub(crate) source: SourceMap,
    pub(crate) given: GivenNames,
    pub(crate) hints: RunHints,
    /// The kernels that its text imports from other files.
    pub(crate) imports: Imports,
    /// The ops of the caller that its text may name.
    pub(crate) caller_ops: &'static [OpKind],
}

impl Default for Program {
    fn default() -> Self {
        let mut blocks = IdVec::default();
        let body = blocks.push(Block::default());
        Self {
            names: NameInterner::default(),
            exprs: ExprArena::default(),
            meshes: IdVec::default(),
            mesh_ids: FxHashMap::default(),
            domains: IdVec::default(),
            tensors: IdVec::default(),
            ops: IdVec::default(),
            blocks,
            body,
            inputs: Vec::new(),
            outputs: Vec::new(),
            units: IdVec::default(),
            aliases: None,
            memory: FxHashMap::default(),
            index_definitions: None,
            frame: TextFrame { blank_before: false, blank_after: 0, blank_end: 0, version: None },
            style: Style::default(),
            source: SourceMap::default(),
            given: GivenNames::default(),
            hints: RunHints::default(),
            imports: Imports::default(),
            caller_ops: &[],
        }
    }
}

impl Program {
    /// Interned names.
    pub fn names(&self) -> &NameInterner {
        &self.names
    }
    /// The text of a name.
    #[inline]
    pub fn name(&self, symbol: Symbol) -> &str {
        self.names.get(symbol)
    }
    /// The text of an element type.
    pub fn dtype_text(&self, dtype: DType) -> &str {
        match dtype {
            DType::Kernel(text) => self.name(text),
            dtype => dtype.name(),
        }
    }
    /// Scalar expressions.
    #[inline]
    pub fn exprs(&self) -> &ExprArena {
        &self.exprs
    }
    /// A mesh.
    #[inline]
    pub fn mesh(&self, id: MeshId) -> &DeviceMesh {
        &self.meshes[id]
    }
    /// All meshes.
    pub fn meshes(&self) -> &IdVec<MeshId, DeviceMesh> {
        &self.meshes
    }
    /// A tensor.
    #[inline]
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        &self.tensors[id]
    }
    /// All tensors.
    #[inline]
    pub fn tensors(&self) -> &IdVec<TensorId, Tensor> {
        &self.tensors
    }
    /// All domains, loops' included.
    pub fn all_domains(&self) -> impl Iterator<Item = &IterDomain> {
        self.domains.iter().map(|(_, domain)| domain)
    }
    /// A domain.
    #[inline]
    pub fn domain(&self, id: DomainId) -> &IterDomain {
        &self.domains[id]
    }
    /// The domains of a tensor in printed order.
    #[inline]
    pub fn domains(&self, id: TensorId) -> &[IterDomain] {
        let tensor = &self.tensors[id];
        &self.domains.as_slice()[tensor.domains_start as usize..tensor.domains_end as usize]
    }
    /// The axes of a tensor, outermost first: positions among its printed domains (reductions included).
    pub fn logical_axes(&self, id: TensorId) -> DomainPositions {
        let tensor = &self.tensors[id];
        match &tensor.axes {
            Some(axes) => DomainPositions::from_slice(axes),
            None => (0..tensor.domains_end - tensor.domains_start).collect(),
        }
    }
    /// The mesh of a tensor.
    #[inline]
    pub fn tensor_mesh(&self, id: TensorId) -> Option<&DeviceMesh> {
        self.tensors[id].mesh.map(|mesh| &self.meshes[mesh])
    }
    /// An op.
    #[inline]
    pub fn op(&self, id: OpId) -> &Op {
        &self.ops[id]
    }
    /// All ops ever made, including unlinked ones; use [`Program::walk`] for those of the program.
    #[inline]
    pub fn ops(&self) -> &IdVec<OpId, Op> {
        &self.ops
    }
    /// A block.
    #[inline]
    pub fn block(&self, id: BlockId) -> &Block {
        &self.blocks[id]
    }
    /// The top-level block.
    #[inline]
    pub fn body(&self) -> BlockId {
        self.body
    }
    /// Inputs.
    pub fn inputs(&self) -> &[Value] {
        &self.inputs
    }
    /// Outputs.
    pub fn outputs(&self) -> &[Value] {
        &self.outputs
    }
    /// HostUnits in printed order.
    #[inline]
    pub fn units(&self) -> &IdVec<UnitId, HostUnit> {
        &self.units
    }
    /// Returns the HostUnit with a number.
    pub fn unit_by_number(&self, number: u32) -> Option<UnitId> {
        // Units are nearly always numbered in order.
        let id = UnitId(number);
        if self.units.get(id).is_some_and(|unit| unit.number == number) {
            return Some(id);
        }
        self.units.iter().find(|(_, unit)| unit.number == number).map(|(id, _)| id)
    }
    /// Returns the HostUnit that a PostOnStream names, or that stands in for a kernel of the user, if it exists.
    pub fn posted_unit(&self, op: &Op) -> Option<UnitId> {
        self.unit_by_number(op.posted_number()?)
    }
    /// Returns the values that such an op passes, each paired with the unit's input that receives it.
    pub fn posted_inputs<'p>(&'p self, post: &'p Op, unit: UnitId) -> impl Iterator<Item = (Value, Value)> + 'p {
        post.passed_values().into_iter().zip(self.units[unit].inputs.iter().copied())
    }
    /// `Aliases:{}` section: `None` when absent.
    pub fn aliases(&self) -> Option<&[(TensorId, TensorId)]> {
        self.aliases.as_deref()
    }
    /// The tensor whose memory a tensor uses: its original in the `Aliases:` section, else the tensor itself.
    #[inline]
    pub fn memory_tensor(&self, tensor: TensorId) -> TensorId {
        if self.memory.is_empty() {
            return tensor;
        }
        self.memory.get(&tensor).copied().unwrap_or(tensor)
    }
    /// Follows chains of aliases to their ends. A name whose chain is cyclic keeps its own memory.
    pub(crate) fn resolve_aliases(&mut self) {
        self.memory.clear();
        let pairs = self.aliases.as_deref().unwrap_or_default();
        let next: FxHashMap<TensorId, TensorId> = pairs.iter().copied().collect();
        for &(new, original) in pairs {
            let mut steps = 0;
            let mut end = original;
            while let Some(&further) = next.get(&end).filter(|_| steps < pairs.len()) {
                (end, steps) = (further, steps + 1);
            }
            if end != new && !next.contains_key(&end) {
                self.memory.insert(new, end);
            }
        }
    }
    /// `Index definitions:` section.
    pub fn index_definitions(&self) -> Option<BlockId> {
        self.index_definitions
    }
    /// The blank lines and labels around the container.
    pub fn frame(&self) -> TextFrame {
        self.frame
    }
    /// Spelling features.
    pub fn style(&self) -> Style {
        self.style
    }
    /// Spans and comments.
    pub fn source(&self) -> &SourceMap {
        &self.source
    }
    /// Names of the program itself, of handles, streams and meshes; tensors and units carry theirs.
    pub fn given_names(&self) -> &GivenNames {
        &self.given
    }
    /// Returns true if the program has something that nvFuser's form cannot express: names, or values for a run.
    pub fn has_names(&self) -> bool {
        let given = &self.given;
        let others = given.handles.is_empty() && given.streams.is_empty() && given.meshes.is_empty();
        let others = others && given.sized.sizes.is_empty();
        given.program.is_some()
            || !others
            || self.tensors.iter().any(|(_, tensor)| tensor.name.is_some())
            || self.units.iter().any(|(_, unit)| unit.name.is_some())
            || self.hints != RunHints::default()
    }
    /// The imports of the text; none once the program was changed.
    pub fn imports(&self) -> &Imports {
        &self.imports
    }
    /// Makes the imported kernels the program's own, so that its text has them.
    pub fn own_imports(&mut self) {
        self.imports = Imports::default();
    }
    /// Values that the text proposes for a run.
    pub fn run_hints(&self) -> &RunHints {
        &self.hints
    }
    /// The span of an op's statement.
    #[inline]
    pub fn op_span(&self, id: OpId) -> Span {
        self.source.ops.get(id).copied().unwrap_or_default()
    }
    /// The span of a tensor's declaration.
    pub fn tensor_span(&self, id: TensorId) -> Span {
        self.source.tensors.get(id).copied().unwrap_or_default()
    }
    /// Returns the tensor's name for people: its own name, the text of a slice, or `T3`.
    pub fn tensor_name(&self, id: TensorId) -> String {
        let tensor = &self.tensors[id];
        match (tensor.name, self.source.slices.get(id)) {
            (Some(name), _) => self.name(name).to_owned(),
            (None, Some(text)) => text.to_owned(),
            (None, None) => format!("T{}", tensor.number),
        }
    }
    /// Returns true if the program was read from a text in `hir 2`, so that messages about it use that form.
    pub fn is_hir2(&self) -> bool {
        self.frame.version == Some(2)
    }
    /// Visits the ops of a block and of its nested blocks, in text order.
    pub fn walk(&self, block: BlockId, visit: &mut dyn FnMut(OpId)) {
        for &op in &self.blocks[block].ops {
            visit(op);
            for &inner in &self.ops[op].blocks {
                self.walk(inner, visit);
            }
        }
    }

    /// [`Program::walk`] over the program's body and the bodies of all units.
    pub fn walk_with_units(&self, visit: &mut dyn FnMut(OpId)) {
        self.walk(self.body(), visit);
        self.units().iter().for_each(|(_, unit)| self.walk(unit.body, visit));
    }
    /// Visits the ops of all blocks of an op, in text order.
    pub fn walk_inside(&self, op: OpId, visit: &mut dyn FnMut(OpId)) {
        for &block in &self.ops[op].blocks {
            self.walk(block, visit);
        }
    }
    /// An expression; short for `exprs().get`.
    #[inline]
    pub fn expr(&self, id: ExprId) -> &super::Expr {
        self.exprs.get(id)
    }
}
