//! Transactions: the only way to change a program.
//!
//! An [`Edit`] appends to arenas and replaces whole blocks or ops; it never inserts into a vector.
//! Every replacement of something older than the edit is recorded in a journal. An edit that is dropped without
//! [`Edit::commit`] is rolled back, so a pass that refuses a program leaves it unchanged.

use super::expr::Expr;
use super::id::{Id, IdVec};
use super::ids::{BlockId, DomainId, ExprId, MeshId, OpId, TensorId, UnitId};
use super::imports::Imports;
use super::names::Symbol;
use super::op::{Op, Value};
use super::program::{Block, GivenNames, HostUnit, Program, RunHints, SourceComment, TextFrame};
use super::style::Style;
use super::tensor::{DeviceMesh, IterDomain, Tensor};
use crate::diag::Span;

/// A value from before the edit. The large and rare ones are boxed: a pass may replace all ops and tensors.
enum UndoEntry {
    Block(BlockId, Block),
    Op(OpId, Op),
    Tensor(TensorId, Tensor),
    Domain(DomainId, IterDomain),
    Inputs(Vec<Value>),
    Outputs(Vec<Value>),
    Aliases(Option<Vec<(TensorId, TensorId)>>),
    Unit(UnitId, Box<HostUnit>),
    Style(Box<Style>),
    Comments(Vec<SourceComment>),
    Frame(TextFrame),
    Names(Box<GivenNames>),
    Hints(Box<RunHints>),
    Definitions(Option<BlockId>),
}

#[derive(PartialEq, Eq)]
struct ArenaLengths {
    meshes: usize,
    domains: usize,
    tensors: usize,
    ops: usize,
    blocks: usize,
    units: usize,
}

impl ArenaLengths {
    fn of_program(program: &Program) -> Self {
        Self {
            meshes: program.meshes.len(),
            domains: program.domains.len(),
            tensors: program.tensors.len(),
            ops: program.ops.len(),
            blocks: program.blocks.len(),
            units: program.units.len(),
        }
    }
}

/// A set of changes that is committed or rolled back as a whole.
pub struct Edit<'a> {
    program: &'a mut Program,
    journal: Vec<UndoEntry>,
    lengths: ArenaLengths,
    committed: bool,
}

impl<'a> Edit<'a> {
    /// Starts an edit.
    pub fn new(program: &'a mut Program) -> Self {
        let lengths = ArenaLengths::of_program(program);
        Self { program, journal: Vec::new(), lengths, committed: false }
    }
    /// The program as changed so far.
    pub fn program(&self) -> &Program {
        self.program
    }
    /// Commits the changes. Returns true if anything was replaced, or a unit added.
    pub fn commit(mut self) -> bool {
        self.committed = true;
        let is_changed = !self.journal.is_empty() || self.program.units.len() != self.lengths.units;
        if is_changed {
            // The files may not have what the program has now.
            self.program.imports = Imports::default();
        }
        is_changed
    }
    /// Whether the program is the one that the edit began with: nothing was replaced, and nothing appended.
    pub fn is_untouched(&self) -> bool {
        self.journal.is_empty() && ArenaLengths::of_program(self.program) == self.lengths
    }
    /// The parts of the program that the edit changed so far.
    pub fn edited_parts(&self) -> EditedParts {
        let (program, lengths) = (&*self.program, &self.lengths);
        let mut parts = EditedParts {
            ops: flags_from(lengths.ops, program.ops.len()),
            tensors: flags_from(lengths.tensors, program.tensors.len()),
            domains: flags_from(lengths.domains, program.domains.len()),
            units: flags_from(lengths.units, program.units.len()),
            is_global: false,
        };
        for entry in &self.journal {
            match entry {
                UndoEntry::Op(id, _) => parts.ops[*id] = true,
                UndoEntry::Tensor(id, old) => parts.tensors[*id] |= old.differs_in_type(&program.tensors[*id]),
                UndoEntry::Domain(id, _) => parts.domains[*id] = true,
                UndoEntry::Block(..) | UndoEntry::Comments(_) | UndoEntry::Outputs(_) => {}
                UndoEntry::Inputs(_)
                | UndoEntry::Aliases(_)
                | UndoEntry::Unit(..)
                | UndoEntry::Style(_)
                | UndoEntry::Frame(_)
                | UndoEntry::Names(_)
                | UndoEntry::Hints(_)
                | UndoEntry::Definitions(_) => parts.is_global = true,
            }
        }
        parts.mark_tensors_of_domains(program, lengths.domains);
        parts
    }
    /// Interns a name.
    pub fn intern_name(&mut self, text: &str) -> Symbol {
        self.program.names.intern(text)
    }
    /// Interns an expression.
    pub fn intern_expr(&mut self, expr: Expr) -> ExprId {
        self.program.exprs.intern(expr)
    }
    /// Interns a mesh.
    pub fn intern_mesh(&mut self, mesh: DeviceMesh) -> MeshId {
        if let Some(&id) = self.program.mesh_ids.get(&mesh) {
            return id;
        }
        let id = self.program.meshes.push(mesh.clone());
        self.program.mesh_ids.insert(mesh, id);
        id
    }
    /// Adds a tensor with these domains and sets its `tensor.domains_*` fields. Messages about the tensor point
    /// at `span`.
    pub fn add_tensor(&mut self, mut tensor: Tensor, domains: &[IterDomain], span: Span) -> TensorId {
        tensor.domains_start = self.program.domains.len() as u32;
        for domain in domains {
            self.program.domains.push(*domain);
        }
        tensor.domains_end = self.program.domains.len() as u32;
        let id = self.program.tensors.push(tensor);
        self.program.source.tensors.grow(self.program.tensors.len(), span);
        id
    }
    /// Adds a domain that belongs to no tensor (a loop's).
    pub fn add_domain(&mut self, domain: IterDomain) -> DomainId {
        self.program.domains.push(domain)
    }
    /// Adds an op that inherits the span of `origin`. It is in no block yet.
    pub fn add_op(&mut self, op: Op, origin: OpId) -> OpId {
        let span = self.program.op_span(origin);
        self.add_op_at(op, span)
    }
    /// Adds an op with its own span.
    pub fn add_op_at(&mut self, op: Op, span: Span) -> OpId {
        let id = self.program.ops.push(op);
        self.program.source.ops.grow(self.program.ops.len(), span);
        id
    }
    /// Adds a block.
    pub fn add_block(&mut self, ops: Vec<OpId>) -> BlockId {
        self.program.blocks.push(Block { ops })
    }
    /// Adds a HostUnit.
    pub fn add_unit(&mut self, unit: HostUnit) -> UnitId {
        self.program.units.push(unit)
    }
    /// Replaces the ops of a block. The ops that it has already are no change.
    pub fn set_block(&mut self, id: BlockId, ops: Vec<OpId>) {
        if self.program.blocks[id].ops == ops {
            return;
        }
        let old = std::mem::replace(&mut self.program.blocks[id], Block { ops });
        if id.index() < self.lengths.blocks {
            self.journal.push(UndoEntry::Block(id, old));
        }
    }
    /// Replaces an op, keeping its id and span.
    pub fn set_op(&mut self, id: OpId, op: Op) {
        let old = std::mem::replace(&mut self.program.ops[id], op);
        if id.index() < self.lengths.ops {
            self.journal.push(UndoEntry::Op(id, old));
        }
    }
    /// Replaces a tensor's declaration (not its domains).
    pub fn set_tensor(&mut self, id: TensorId, tensor: Tensor) {
        let old = std::mem::replace(&mut self.program.tensors[id], tensor);
        if id.index() < self.lengths.tensors {
            self.journal.push(UndoEntry::Tensor(id, old));
        }
    }
    /// Replaces a domain in place.
    pub fn set_domain(&mut self, id: DomainId, domain: IterDomain) {
        let old = std::mem::replace(&mut self.program.domains[id], domain);
        if id.index() < self.lengths.domains {
            self.journal.push(UndoEntry::Domain(id, old));
        }
    }
    /// Replaces the program's inputs.
    pub fn set_inputs(&mut self, inputs: Vec<Value>) {
        let old = std::mem::replace(&mut self.program.inputs, inputs);
        self.journal.push(UndoEntry::Inputs(old));
    }
    /// Replaces the program's outputs.
    pub fn set_outputs(&mut self, outputs: Vec<Value>) {
        let old = std::mem::replace(&mut self.program.outputs, outputs);
        self.journal.push(UndoEntry::Outputs(old));
    }
    /// Keeps the entries of the `Aliases:` section whose names `keep` accepts. An entry that refers to a removed name
    /// then refers to that name's memory; a section without entries is removed.
    pub fn retain_aliases(&mut self, keep: impl Fn(TensorId) -> bool) {
        let entries = self.program.aliases().unwrap_or_default();
        let kept: Vec<(TensorId, TensorId)> = entries
            .iter()
            .filter(|(new, _)| keep(*new))
            .map(|&(new, original)| {
                let leads_on = keep(original);
                (new, if leads_on { original } else { self.program.memory_tensor(new) })
            })
            .collect();
        if kept == entries {
            return;
        }
        let kept = (!kept.is_empty()).then_some(kept);
        let old = std::mem::replace(&mut self.program.aliases, kept);
        self.program.resolve_aliases();
        self.journal.push(UndoEntry::Aliases(old));
    }
    /// Replaces a HostUnit's declaration (not the ops of its body).
    pub fn set_unit(&mut self, id: UnitId, unit: HostUnit) {
        let old = std::mem::replace(&mut self.program.units[id], unit);
        if id.index() < self.lengths.units {
            self.journal.push(UndoEntry::Unit(id, Box::new(old)));
        }
    }
    /// Replaces the spelling features.
    pub fn set_style(&mut self, style: Style) {
        let old = std::mem::replace(&mut self.program.style, style);
        self.journal.push(UndoEntry::Style(Box::new(old)));
    }
    /// Replaces the comments, for passes that move ops and their comments.
    pub fn set_comments(&mut self, comments: Vec<SourceComment>) {
        let old = std::mem::replace(&mut self.program.source.comments, comments);
        self.journal.push(UndoEntry::Comments(old));
    }
    /// Replaces the version and the blank lines around the program.
    pub fn set_frame(&mut self, frame: TextFrame) {
        let old = std::mem::replace(&mut self.program.frame, frame);
        self.journal.push(UndoEntry::Frame(old));
    }
    /// Replaces the names of the program, its handles, streams and meshes.
    pub fn set_given_names(&mut self, names: GivenNames) {
        let old = std::mem::replace(&mut self.program.given, names);
        self.journal.push(UndoEntry::Names(Box::new(old)));
    }
    /// Replaces the values that the text proposes for a run.
    pub fn set_run_hints(&mut self, hints: RunHints) {
        let old = std::mem::replace(&mut self.program.hints, hints);
        self.journal.push(UndoEntry::Hints(Box::new(old)));
    }
    /// Removes the `Aliases:` and `Index definitions:` sections if they are empty.
    pub fn drop_empty_sections(&mut self) {
        if self.program.aliases().is_some_and(<[_]>::is_empty) {
            let old = self.program.aliases.take();
            self.journal.push(UndoEntry::Aliases(old));
        }
        let block = self.program.index_definitions();
        if block.is_some_and(|block| self.program.block(block).ops.is_empty()) {
            self.program.index_definitions = None;
            self.journal.push(UndoEntry::Definitions(block));
        }
    }

    fn undo_entry(&mut self, entry: UndoEntry) {
        match entry {
            UndoEntry::Block(id, block) => self.program.blocks[id] = block,
            UndoEntry::Op(id, op) => self.program.ops[id] = op,
            UndoEntry::Tensor(id, tensor) => self.program.tensors[id] = tensor,
            UndoEntry::Domain(id, domain) => self.program.domains[id] = domain,
            UndoEntry::Inputs(inputs) => self.program.inputs = inputs,
            UndoEntry::Outputs(outputs) => self.program.outputs = outputs,
            UndoEntry::Aliases(aliases) => {
                self.program.aliases = aliases;
                self.program.resolve_aliases();
            }
            UndoEntry::Unit(id, unit) => self.program.units[id] = *unit,
            UndoEntry::Style(style) => self.program.style = *style,
            UndoEntry::Comments(comments) => self.program.source.comments = comments,
            UndoEntry::Frame(frame) => self.program.frame = frame,
            UndoEntry::Names(names) => self.program.given = *names,
            UndoEntry::Hints(hints) => self.program.hints = *hints,
            UndoEntry::Definitions(block) => self.program.index_definitions = block,
        }
    }
}

/// The parts of a program that an edit changed, for work that is to be done again for these alone.
#[derive(Debug)]
pub struct EditedParts {
    /// By op: true if it is new or was replaced. The blocks that hold ops do not count.
    pub ops: IdVec<OpId, bool>,
    /// By tensor: true if it is new, or its type or a domain of it was replaced. Its memory, name and positions do not
    /// count.
    pub tensors: IdVec<TensorId, bool>,
    /// By domain: true if it is new or was replaced.
    pub domains: IdVec<DomainId, bool>,
    /// By unit: true if it is new.
    pub units: IdVec<UnitId, bool>,
    /// True if something was replaced on which any statement may depend: inputs, aliases, old units, spelling, names,
    /// hints or definitions.
    pub is_global: bool,
}

impl EditedParts {
    /// Marks the tensors with a domain that was replaced in its place; new domains belong to tensors that are marked.
    fn mark_tensors_of_domains(&mut self, program: &Program, old: usize) {
        let domains = self.domains.as_slice();
        if !domains[..old].contains(&true) {
            return;
        }
        for (id, tensor) in program.tensors.iter() {
            self.tensors[id] |= domains[tensor.domains_start as usize..tensor.domains_end as usize].contains(&true);
        }
    }
}

/// A table that is true from an id on.
fn flags_from<I: Id>(first: usize, len: usize) -> IdVec<I, bool> {
    let mut flags = IdVec::filled(false, first);
    flags.grow(len, true);
    flags
}

impl Drop for Edit<'_> {
    fn drop(&mut self) {
        if self.committed {
            return;
        }
        while let Some(entry) = self.journal.pop() {
            self.undo_entry(entry);
        }
        let lengths = &self.lengths;
        for mesh in &self.program.meshes.as_slice()[lengths.meshes..] {
            self.program.mesh_ids.remove(mesh);
        }
        self.program.meshes.truncate(lengths.meshes);
        self.program.domains.truncate(lengths.domains);
        self.program.tensors.truncate(lengths.tensors);
        self.program.ops.truncate(lengths.ops);
        self.program.blocks.truncate(lengths.blocks);
        self.program.units.truncate(lengths.units);
        self.program.source.ops.truncate(lengths.ops);
        self.program.source.tensors.truncate(lengths.tensors);
    }
}
