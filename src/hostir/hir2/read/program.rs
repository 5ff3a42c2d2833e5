//! The state of reading one program with its kernels.

use super::comments::CommentPlacer;
use super::file_scope::{FilePlace, FileScope};
use super::given_memory::GivenMemory;
use super::numbering::{FirstNumbers, Numbering};
use super::report_names;
use super::scope::{Meaning, Scope};
use super::statement_index::StatementIndex;
use super::stream_scope::StreamScope;
use super::unbound::UnboundNames;
use super::word_table::{PostWord, WordTable};
use crate::diag::Diags;
use crate::hir2::defaults::{default_program_name, is_default_name};
use crate::ir::edit::Edit;
use crate::ir::{
    AttrValue, Block, DType, ExprId, HostUnit, Imports, MeshId, Op, OpId, OpKind, Program, Symbol, TensorId, TextFrame,
    UnitId, Value,
};
use crate::style::{mark_inferred_axes, restyle_program, style_that_spells};
use hostir_grammar::Span;
use hostir_grammar::ast;
use hostir_grammar::hir2::ast::{FileSyntax, ItemSyntax, ParamSyntax, ProgramItem, StmtForm};
use rustc_hash::FxHashMap;

/// Reads one program.
pub(super) struct ProgramReader<'a> {
    pub(super) file: &'a FileSyntax,
    pub(super) source: &'a str,
    pub(super) shared: &'a FileScope,
    pub(super) diags: &'a mut Diags,
    pub(super) program: Program,
    pub(super) kernels: KernelScope,
    pub(super) header_mesh: HeaderMesh,
    /// The file's words, names and statements.
    pub(super) tables: &'a mut ProgramTables,
    /// Ops of the block that is read.
    pub(super) ops: Vec<OpId>,
    /// The loops and streams around the statement that is read.
    pub(super) streams: StreamScope,
    pub(super) numbering: Numbering,
    pub(super) memory: GivenMemory,
    /// Scalar names that are not declared at their uses.
    pub(super) unbound: UnboundNames,
    /// The program's meshes that are given by sizes, by name.
    pub(super) sized_meshes: FxHashMap<ast::Symbol, MeshId>,
}

/// The kernels in front of a program.
#[derive(Default)]
pub(super) struct KernelScope {
    /// Units by the names of their kernels.
    pub(super) by_name: FxHashMap<ast::Symbol, UnitId>,
    /// The unit whose body is read.
    pub(super) open: Option<UnitId>,
    /// The numbers of the kernels among the items of the file; `None` for imported ones.
    items: Vec<Option<usize>>,
    /// True while an imported kernel is read.
    pub(super) is_imported: bool,
    /// The units of imported kernels.
    imported: Vec<UnitId>,
}

/// A kernel of a program.
#[derive(Clone, Copy)]
pub(super) struct KernelSource<'a> {
    /// Its number among the items of the file; `None` for an imported one.
    pub(super) number: Option<usize>,
    pub(super) item: &'a ProgramItem,
}

/// The mesh that a header names for its tensors.
#[derive(Clone, Copy)]
pub(super) enum HeaderMesh {
    /// This one, or none.
    Known(Option<MeshId>),
    /// One that has an error, which is none of the tensors'.
    Faulty,
}

/// Tables of the words, names and statements of a file, for the present program.
pub(super) struct ProgramTables {
    words: WordTable,
    pub(super) scope: Scope,
    /// The place of the program in the file.
    pub(super) place: FilePlace,
    pub(super) statements: StatementIndex,
    /// The names of communications and groups of the file; collected at the first query.
    pub(super) posted: Option<rustc_hash::FxHashSet<ast::Symbol>>,
    /// True if a construct was reported that needs a later version than the file's.
    pub(super) has_asked_version: bool,
    /// True if the comments of the file are in the order of the text.
    pub(super) has_sorted_comments: bool,
    /// The sizes of expressions inside of a `wrap`, as they are printed.
    pub(super) printed_sizes: FxHashMap<ExprId, usize>,
    numbers: FirstNumbers,
}

impl ProgramTables {
    pub(super) fn new(file: &FileSyntax) -> Self {
        Self {
            words: WordTable::new(file),
            scope: Scope::with_symbols(file.strings.len()),
            place: FilePlace::default(),
            statements: StatementIndex::new(file),
            posted: None,
            has_asked_version: false,
            has_sorted_comments: file.comments.is_sorted_by_key(|comment| comment.span.start),
            printed_sizes: FxHashMap::default(),
            numbers: FirstNumbers::of_names(file),
        }
    }

    /// Forgets the program that was read.
    fn begin_program(&mut self, place: FilePlace) {
        self.place = place;
        self.words.begin_program();
        self.scope.begin_program(place.position);
        self.statements.begin_program();
        self.printed_sizes = FxHashMap::default();
    }
}

impl<'a> ProgramReader<'a> {
    pub(super) fn new(
        file: &'a FileSyntax,
        source: &'a str,
        shared: &'a FileScope,
        tables: &'a mut ProgramTables,
        place: FilePlace,
        diags: &'a mut Diags,
    ) -> Self {
        tables.begin_program(place);
        let numbers = tables.numbers;
        let mut program = Program::default();
        shared.ops.note_in(&mut program);
        // The inference looks up the extents of new axes.
        program.exprs.intern_int(1);
        program.exprs.intern_int(2);
        if shared.programs.len() == 1 {
            tables.words.share_strings(file, &mut program);
            reserve_arenas(&mut program, file);
        }
        Self {
            file,
            source,
            shared,
            diags,
            program,
            kernels: KernelScope::default(),
            header_mesh: HeaderMesh::Known(None),
            tables,
            ops: Vec::new(),
            streams: StreamScope::new(),
            numbering: Numbering::new(numbers),
            memory: GivenMemory::default(),
            unbound: UnboundNames::default(),
            sized_meshes: FxHashMap::default(),
        }
    }

    /// Reads a program and the kernels in front of it.
    pub(super) fn read_program(&mut self, kernels: &[KernelSource<'_>], item: &ProgramItem) {
        for (position, kernel) in kernels.iter().enumerate() {
            self.kernels.items.push(kernel.number);
            self.kernels.is_imported = kernel.number.is_none();
            self.read_kernel(position, kernel.item);
        }
        self.kernels.is_imported = false;
        self.tables.scope.clear_scope();
        self.program.source.header = item.header;
        self.unbound.is_silent |= item.header_failed;
        if item.header_failed {
            self.program.source.unread.lose_order();
        }
        self.name_program(item);
        self.header_mesh = self.mesh_of_header(item);
        self.program.inputs = self.read_params(&item.inputs);
        self.program.outputs = self.read_params(&item.outputs);
        let body = self.program.body;
        self.read_block_into(item.body, body);
        self.take_hints();
        self.report_unbound_names();
    }

    fn read_kernel(&mut self, position: usize, item: &ProgramItem) {
        self.tables.scope.clear_scope();
        self.unbound.is_silent |= item.header_failed;
        report_names::check_kernel_name(self.shared.ops, self.file, item.name, self.diags);
        let body = self.program.blocks.push(Block::default());
        let prefix = if self.tables.place.position == 0 {
            String::new()
        } else {
            format!("_{}", self.tables.place.position + 1)
        };
        let text = self.file.symbol_text(item.name.name);
        let numbered = Some(text).filter(|_| !self.kernels.is_imported);
        let number = numbered.and_then(|text| text.strip_prefix("HostUnit")?.strip_suffix(prefix.as_str()));
        let number = number.and_then(|digits| digits.parse::<u32>().ok());
        let name = if number.is_some() { None } else { Some(self.symbol(item.name.name)) };
        let number = number.unwrap_or(position as u32);
        let unit = HostUnit { number, name, inputs: Vec::new(), outputs: Vec::new(), body, is_elided: false };
        let id = self.program.units.push(unit);
        self.kernels.imported.extend(self.kernels.is_imported.then_some(id));
        self.kernels.open = Some(id);
        self.header_mesh = self.mesh_of_header(item);
        let inputs = self.read_params(&item.inputs);
        let outputs = self.read_params(&item.outputs);
        let unit = &mut self.program.units[id];
        (unit.inputs, unit.outputs) = (inputs, outputs);
        self.kernels.by_name.insert(item.name.name, id);
        self.read_block_into(item.body, body);
        self.kernels.open = None;
    }

    /// Names the program, unless it has the name that a writer gives to a program without one.
    fn name_program(&mut self, item: &ProgramItem) {
        let default = default_program_name(self.tables.place.position);
        let (file, name) = (self.file, item.name.name);
        let is_given = self.shared.given_names.contains(&name);
        if is_given || !is_default_name(file.symbol_text(name), &default, |text| is_item_name(file, text)) {
            self.program.given.program = Some(self.symbol(item.name.name));
        }
    }

    fn mesh_of_header(&mut self, item: &ProgramItem) -> HeaderMesh {
        let Some(name) = item.mesh else { return HeaderMesh::Known(None) };
        self.find_mesh(name).map_or(HeaderMesh::Faulty, |mesh| HeaderMesh::Known(Some(mesh)))
    }

    /// Declares tensors, or names them again; other names are scalars.
    fn read_params(&mut self, params: &[ParamSyntax]) -> Vec<Value> {
        if matches!(self.header_mesh, HeaderMesh::Faulty) {
            self.report_params_twice(params);
        }
        params.iter().filter_map(|param| self.read_param(param)).collect()
    }

    /// A tensor on a mesh with an error is not declared, but its name counts.
    fn report_params_twice(&mut self, params: &[ParamSyntax]) {
        let mut first: FxHashMap<ast::Symbol, Span> = FxHashMap::default();
        for name in params.iter().filter(|param| param.ty.is_some()).map(|param| param.name) {
            if let Some(span) = first.insert(name.name, name.span) {
                report_names::report_taken(self.file, name, Meaning::Tensor(TensorId(0)), span, self.diags);
            }
        }
    }

    fn read_param(&mut self, param: &ParamSyntax) -> Option<Value> {
        if let Some(ty) = param.ty {
            return self.declare_tensor(param.name, ty).map(Value::Tensor);
        }
        match self.tables.scope.get(param.name.name).map(|entry| entry.meaning) {
            Some(Meaning::Tensor(tensor)) => Some(Value::Tensor(tensor)),
            Some(Meaning::Poisoned) => None,
            _ => {
                if !self.check_name(param.name, Meaning::Scalar) {
                    return None;
                }
                Some(Value::Scalar(self.name_expr(param.name.name)))
            }
        }
    }

    fn take_hints(&mut self) {
        if self.tables.place.position != 0 && self.file.head.sizes.is_empty() && self.file.head.streams.is_none() {
            return;
        }
        let file = self.file;
        let proposed = file.head.sizes.iter().filter(|size| self.shared.sizes.number_of(size.name).is_none());
        for size in proposed {
            let name = self.symbol(size.name);
            self.program.hints.sizes.push((name, size.value));
        }
        if self.tables.place.position == 0 {
            report_names::check_hints(file, self.diags);
        }
        self.program.hints.streams = file.head.streams.and_then(|streams| u32::try_from(streams.value).ok());
    }

    /// Returns the program in the style of the file; gives tensors memory if their types name none.
    pub(super) fn finish(mut self) -> Program {
        std::mem::take(&mut self.memory).fill_defaults(&mut self.program);
        self.place_comments();
        let blank_before = self.program.source.has_detached_comments();
        self.program.frame = TextFrame { blank_before, blank_after: 0, blank_end: 0, version: Some(2) };
        if self.program.aliases.is_some() {
            self.program.resolve_aliases();
        }
        mark_inferred_axes(&mut self.program);
        let style = style_that_spells(&self.program, self.shared.style);
        if style != self.program.style {
            let mut edit = Edit::new(&mut self.program);
            restyle_program(&mut edit, style);
            edit.commit();
        }
        self.program.imports = Imports { lines: self.shared.imports.lines.clone(), units: self.kernels.imported };
        self.program
    }

    fn place_comments(&mut self) {
        let placer = CommentPlacer {
            file: self.file,
            source: self.source,
            shared: self.shared,
            program: &self.program,
            sized_meshes: &self.sized_meshes,
            statements: &self.tables.statements,
            is_sorted: self.tables.has_sorted_comments,
            kernels: &self.kernels.items,
            number: self.tables.place.number,
        };
        let placed = placer.place_comments();
        self.program.source.comments.extend(placed);
    }

    // Building.

    /// The text of a name.
    pub(super) fn name_text(&self, name: ast::Symbol) -> &'a str {
        self.file.symbol_text(name)
    }

    /// The op of the table that a name stands for.
    pub(super) fn table_op(&self, name: ast::Symbol) -> Option<OpKind> {
        self.tables.words.word_meaning(self.file, self.shared.ops, name).op
    }

    /// The element type that a name stands for.
    pub(super) fn word_dtype(&self, name: ast::Symbol) -> Option<DType> {
        self.tables.words.word_meaning(self.file, self.shared.ops, name).dtype
    }

    /// The kind of communication that a call of a name starts.
    pub(super) fn post_word(&self, name: ast::Symbol) -> PostWord {
        self.tables.words.word_meaning(self.file, self.shared.ops, name).post
    }

    /// The IR's symbol of a name.
    pub(super) fn symbol(&mut self, name: ast::Symbol) -> Symbol {
        self.tables.words.name_symbol(self.file, name, &mut self.program)
    }

    /// Adds an op to the block that is read.
    pub(super) fn emit(&mut self, op: Op, span: Span) -> OpId {
        let id = self.add_op(op, span);
        self.ops.push(id);
        id
    }

    /// Adds an op to no block.
    pub(super) fn add_op(&mut self, op: Op, span: Span) -> OpId {
        let id = self.program.ops.push(op);
        self.program.source.ops.push(span);
        id
    }

    pub(super) fn word(&mut self, text: &str) -> AttrValue {
        AttrValue::Word(self.program.names.intern(text))
    }
}

/// Reserves memory for the program of a file: about as many ops and tensors as it has statements and slices.
fn reserve_arenas(program: &mut Program, file: &FileSyntax) {
    let loops = file.stmts.iter().filter(|stmt| matches!(stmt.form, StmtForm::For { on_streams: true, .. })).count();
    // A loop on streams has seven ops of its own; a group, or a communication with its Wait, has one more than
    // statements.
    let ops = file.stmts.len() + file.stmts.len() / 4 + file.index_items.len() + 7 * loops;
    let tensors = file.targets.len() + file.types.len() + file.index_items.len();
    program.ops.try_reserve_exact(ops);
    program.source.ops.try_reserve_exact(ops);
    program.tensors.try_reserve_exact(tensors);
    program.source.tensors.try_reserve_exact(tensors);
    program.domains.try_reserve_exact(3 * tensors);
    program.blocks.try_reserve_exact(file.blocks.len() + loops);
}

/// Returns true if a mesh, kernel or program of the file has a name.
fn is_item_name(file: &FileSyntax, text: &str) -> bool {
    file.items.iter().flat_map(ItemSyntax::names).any(|name| file.symbol_text(name.name) == text)
}
