//! The state of reading one program with its kernels.

use super::file_scope::{FilePlace, FileScope};
use super::report;
use super::scope::{Meaning, Scope};
use super::unbound::UnboundNames;
use super::verbatim::NumberedTensors;
use super::word_table::{PostWord, WordTable};
use crate::diag::Diags;
use crate::hir2::defaults::{default_memories, default_program_name, is_default_name};
use crate::ir::edit::Edit;
use crate::ir::order::first_free_number;
use crate::ir::{
    AttrKey, AttrValue, Block, BlockId, DType, ExprId, HostUnit, MemoryType, MeshId, Op, OpId, OpKind, Program, Symbol,
    TensorId, TextFrame, UnitId, Value,
};
use crate::style::{mark_inferred_axes, restyle_program, style_that_spells};
use hostir_grammar::Span;
use hostir_grammar::ast;
use hostir_grammar::hir2::ast::{FileSyntax, ParamSyntax, ProgramItem, StmtForm, StmtId};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// The first and last op of a statement.
pub(super) type StatementOps = (OpId, OpId);

/// Reads one program.
pub(super) struct ProgramReader<'a> {
    pub(super) file: &'a FileSyntax,
    pub(super) source: &'a str,
    pub(super) shared: &'a FileScope,
    place: FilePlace,
    pub(super) diags: &'a mut Diags,
    pub(super) program: Program,
    /// The unit whose body is read.
    pub(super) unit: Option<UnitId>,
    /// Units by the names of their kernels.
    pub(super) kernels: FxHashMap<ast::Symbol, UnitId>,
    pub(super) default_mesh: Option<MeshId>,
    /// True if the header names a mesh that has an error.
    pub(super) has_unknown_mesh: bool,
    /// The file's words, names and statements.
    pub(super) tables: &'a mut ProgramTables,
    /// Ops of the block that is read.
    pub(super) ops: Vec<OpId>,
    /// Loops around the statement that is read.
    pub(super) loops: u32,
    /// True once the caller's stream has a name.
    pub(super) has_caller: bool,
    /// The streams of the blocks around the present statement.
    pub(super) current: Vec<ExprId>,
    next_tensor: u32,
    next_domain: u32,
    next_handle: u32,
    pub(super) next_stream: u64,
    /// Tensors whose type says their memory.
    given_memory: Vec<bool>,
    /// ALLOCATEs without `mem=`.
    pub(super) plain_allocations: Vec<OpId>,
    pub(super) blocks: FxHashMap<ast::BlockId, BlockId>,
    /// For a group: its first and last op.
    pub(super) groups: FxHashMap<ast::BlockId, StatementOps>,
    /// For a statement without ops: the first op after it in its block.
    pub(super) silent: FxHashMap<StmtId, OpId>,
    /// For the block of a `stream e:`: the op that makes the earlier stream current again.
    pub(super) stream_ends: FxHashMap<ast::BlockId, OpId>,
    item_numbers: Vec<usize>,
    /// Scalar names that are not declared at their uses.
    pub(super) unbound: UnboundNames,
    /// Tensors by number, for verbatim texts.
    pub(super) numbered: NumberedTensors,
    /// The printed sizes of expressions inside of a `wrap`.
    pub(super) printed_sizes: FxHashMap<ExprId, usize>,
}

/// Tables of the words, names and statements of a file, for the present program.
pub(super) struct ProgramTables {
    words: WordTable,
    pub(super) scope: Scope,
    /// The ops of statements; empty if not needed.
    pub(super) statements: Vec<Option<StatementOps>>,
    /// The statements whose ops are known.
    noted: Range<usize>,
    /// The names of communications and groups of the file; collected at the first query.
    pub(super) posted: Option<rustc_hash::FxHashSet<ast::Symbol>>,
    /// True if the comments of the file are in the order of the text.
    pub(super) has_sorted_comments: bool,
    numbers: NumberRange,
}

impl ProgramTables {
    pub(super) fn new(file: &FileSyntax) -> Self {
        Self {
            words: WordTable::new(file),
            scope: Scope::with_symbols(file.strings.len()),
            statements: vec![None; if file.comments.is_empty() { 0 } else { file.stmts.len() }],
            noted: 0..0,
            posted: None,
            has_sorted_comments: file.comments.is_sorted_by_key(|comment| comment.span.start),
            numbers: NumberRange::of_names(file),
        }
    }

    /// Records the first and the last op of a statement.
    pub(super) fn note_statement(&mut self, stmt: StmtId, ops: StatementOps) {
        let at = stmt.index();
        if let Some(place) = self.statements.get_mut(at) {
            *place = Some(ops);
            self.noted = match self.noted.is_empty() {
                true => at..at + 1,
                false => self.noted.start.min(at)..self.noted.end.max(at + 1),
            };
        }
    }

    /// Forgets the program that was read.
    fn begin_program(&mut self) {
        self.words.begin_program();
        self.scope.clear_scope();
        self.statements[std::mem::take(&mut self.noted)].fill(None);
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
        tables.begin_program();
        let numbers = tables.numbers;
        let mut program = Program::default();
        shared.ops.note_in(&mut program);
        // The inference looks up the extent of new axes.
        program.exprs.intern_int(1);
        if shared.programs.len() == 1 {
            tables.words.share_strings(file, &mut program);
            reserve_arenas(&mut program, file);
        }
        Self {
            file,
            source,
            shared,
            place,
            diags,
            program,
            unit: None,
            kernels: FxHashMap::default(),
            default_mesh: None,
            has_unknown_mesh: false,
            tables,
            ops: Vec::new(),
            loops: 0,
            has_caller: false,
            current: Vec::new(),
            next_tensor: numbers.tensor,
            next_domain: 0,
            next_handle: numbers.handle,
            next_stream: 1,
            given_memory: Vec::new(),
            plain_allocations: Vec::new(),
            blocks: FxHashMap::default(),
            groups: FxHashMap::default(),
            silent: FxHashMap::default(),
            stream_ends: FxHashMap::default(),
            item_numbers: Vec::new(),
            unbound: UnboundNames::default(),
            numbered: NumberedTensors::default(),
            printed_sizes: FxHashMap::default(),
        }
    }

    /// Reads a program and the kernels in front of it.
    pub(super) fn read_program(&mut self, kernels: &[(usize, &ProgramItem)], item: &ProgramItem) {
        for (position, (number, kernel)) in kernels.iter().enumerate() {
            self.item_numbers.push(*number);
            self.read_kernel(position, kernel);
        }
        self.tables.scope.clear_scope();
        self.program.source.header = item.header;
        self.unbound.is_silent |= item.header_failed;
        if item.header_failed {
            self.program.source.unread.lose_order();
        }
        self.name_program(item);
        self.has_unknown_mesh = false;
        self.default_mesh = self.mesh_of_header(item);
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
        report::check_kernel_name(self.shared.ops, self.file, item.name, self.diags);
        let body = self.program.blocks.push(Block::default());
        let prefix = if self.place.position == 0 { String::new() } else { format!("_{}", self.place.position + 1) };
        let text = self.file.symbol_text(item.name.name);
        let number = text.strip_prefix("HostUnit").and_then(|rest| rest.strip_suffix(prefix.as_str()));
        let number = number.and_then(|digits| digits.parse::<u32>().ok());
        let name = if number.is_some() { None } else { Some(self.symbol(item.name.name)) };
        let number = number.unwrap_or(position as u32);
        let unit = HostUnit { number, name, inputs: Vec::new(), outputs: Vec::new(), body, is_elided: false };
        let id = self.program.units.push(unit);
        self.unit = Some(id);
        self.has_unknown_mesh = false;
        self.default_mesh = self.mesh_of_header(item);
        let inputs = self.read_params(&item.inputs);
        let outputs = self.read_params(&item.outputs);
        let unit = &mut self.program.units[id];
        (unit.inputs, unit.outputs) = (inputs, outputs);
        self.kernels.insert(item.name.name, id);
        self.read_block_into(item.body, body);
        self.unit = None;
    }

    /// Names the program, unless it has the name that a writer gives to a program without one.
    fn name_program(&mut self, item: &ProgramItem) {
        let default = default_program_name(self.place.position);
        let (file, name) = (self.file, item.name.name);
        let is_given = self.shared.given_names.contains(&name);
        if is_given || !is_default_name(file.symbol_text(name), &default, |text| is_item_name(file, text)) {
            self.program.given.program = Some(self.symbol(item.name.name));
        }
    }

    fn mesh_of_header(&mut self, item: &ProgramItem) -> Option<MeshId> {
        let name = item.mesh?;
        let found = self.find_mesh(name);
        self.has_unknown_mesh = found.is_none();
        found
    }

    /// Declares tensors, or names them again; other names are scalars.
    fn read_params(&mut self, params: &[ParamSyntax]) -> Vec<Value> {
        if self.has_unknown_mesh {
            self.report_params_twice(params);
        }
        params.iter().filter_map(|param| self.read_param(param)).collect()
    }

    /// A tensor on a mesh with an error is not declared, but its name counts.
    fn report_params_twice(&mut self, params: &[ParamSyntax]) {
        let mut first: FxHashMap<ast::Symbol, Span> = FxHashMap::default();
        for name in params.iter().filter(|param| param.ty.is_some()).map(|param| param.name) {
            if let Some(span) = first.insert(name.name, name.span) {
                report::report_taken(self.file, name, Meaning::Tensor(TensorId(0)), span, self.diags);
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
        if self.place.position != 0 && self.file.head.sizes.is_empty() && self.file.head.streams.is_none() {
            return;
        }
        let file = self.file;
        for size in &file.head.sizes {
            let name = self.symbol(size.name);
            self.program.hints.sizes.push((name, size.value));
        }
        if self.place.position == 0 {
            report::check_hints(file, self.diags);
        }
        self.program.hints.streams = file.head.streams.and_then(|streams| u32::try_from(streams.value).ok());
    }

    /// Returns the program in the style of the file; gives tensors memory if their types name none.
    pub(super) fn finish(mut self) -> Program {
        self.settle_memory();
        let numbers = std::mem::take(&mut self.item_numbers);
        self.place_comments(&numbers, self.place.number);
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
        self.program
    }

    fn settle_memory(&mut self) {
        let memories = default_memories(&self.program);
        let tensors: Vec<TensorId> = self.program.tensors.ids().collect();
        for tensor in tensors {
            if !self.given_memory.get(tensor.0 as usize).copied().unwrap_or(false) {
                self.program.tensors[tensor].memory = memories[tensor.0 as usize];
            }
        }
        for id in std::mem::take(&mut self.plain_allocations) {
            let Some(tensor) = self.program.ops[id].output_tensors().next() else { continue };
            let word = self.program.names.intern(self.program.tensors[tensor].memory.word());
            self.program.ops[id].set_attr(AttrKey::MemType, &AttrValue::Word(word));
        }
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

    pub(super) fn note_memory(&mut self, tensor: TensorId, memory: Option<MemoryType>) {
        self.given_memory.resize(tensor.0 as usize, false);
        self.given_memory.push(memory.is_some());
    }

    /// Records the memory of the tensors up to this count: those not recorded yet come from verbatim texts, which
    /// contain it.
    pub(super) fn note_verbatim_memory(&mut self, count: usize) {
        self.given_memory.resize(count, true);
    }

    pub(super) fn fresh_tensor(&mut self) -> u32 {
        self.next_tensor += 1;
        self.next_tensor - 1
    }

    /// The first of so many new domain numbers.
    pub(super) fn fresh_domains(&mut self, count: usize) -> u32 {
        let first = self.next_domain;
        self.next_domain += count as u32;
        first
    }

    pub(super) fn fresh_handle(&mut self) -> u32 {
        self.next_handle += 1;
        self.next_handle - 1
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

/// The first number that no name of the file denotes.
#[derive(Clone, Copy)]
struct NumberRange {
    tensor: u32,
    handle: u32,
}

impl NumberRange {
    fn of_names(file: &FileSyntax) -> Self {
        let (mut tensors, mut handles) = (Vec::new(), Vec::new());
        for number in 0..file.strings.len() as u32 {
            let text = file.symbol_text(ast::Symbol(number));
            match text.as_bytes().first() {
                Some(b'T') => tensors.extend(leading_number(&text[1..])),
                Some(b'h') => handles.extend(leading_number(&text[1..])),
                _ => {}
            }
            // Verbatim texts may name tensors and communications anywhere.
            if text.bytes().any(|byte| matches!(byte, b' ' | b'(')) {
                let start = tensors.len();
                tensors
                    .extend(text.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse::<u32>().ok()));
                handles.extend_from_slice(&tensors[start..]);
            }
        }
        Self { tensor: first_free_number(tensors.into_iter()), handle: first_free_number(handles.into_iter()) }
    }
}

/// The number that a text begins with.
fn leading_number(text: &str) -> Option<u32> {
    text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Returns true if a mesh, kernel or program of the file has a name.
fn is_item_name(file: &FileSyntax, text: &str) -> bool {
    file.items.iter().any(|item| file.symbol_text(item.name().name) == text)
}
