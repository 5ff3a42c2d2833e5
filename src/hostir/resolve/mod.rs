//! Name resolution: turns the syntax tree into IR, where names have a meaning and ops a kind.
//!
//! Resolving never fails: it reports a part that cannot be resolved (`H01`, see [`crate::diag::codes`]) and leaves it
//! out of the program. It walks the tree once in text order, looks up every name, tensor text and head word once per
//! file, and caches it by its dense id.

mod args;
mod comments;
mod expr;
mod features;
mod forms;
mod grouped;
mod launches;
mod names;
mod order;
mod report;
mod report_texts;
mod statement_map;
mod stmt;
mod style;
mod tables;
mod tensor;
mod tensor_scope;
mod value;

use crate::diag::Diags;
use crate::ir::{self, BlockId, DType, HostUnit, Program, Style, TensorId, TextFrame, UnitId};
use crate::ops::OpRegistry;
use crate::style::add_index_shifts;
use features::FileFeatures;
use hostir_grammar::ast::{self, ArgRange, SyntaxTree};
use rustc_hash::FxHashSet;
use statement_map::StatementMap;
use tables::ResolverTables;
use tensor_scope::TensorScope;

/// Resolves container number `container` of `ast`; `source` is the text that `ast` was read from.
/// A number past the last container gives an empty program.
///
/// For a text with several containers, use [`FileResolver`], whose time for each container depends on its own length
/// alone.
///
/// ```
/// use hostir::diag::Diags;
///
/// let text = "%HostIrContainer { (T0_g_float[iS0{i0}]) -> (T0_g_float[iS0{i0}]) :\n} // %HostIrContainer\n";
/// let parsed = hostir_grammar::parse(text);
/// let mut diags = Diags::default();
/// let program = hostir::resolve::resolve(&parsed.ast, 0, text, &mut diags);
/// assert!(diags.is_empty());
/// assert_eq!(program.inputs().len(), 1);
/// ```
pub fn resolve(ast: &SyntaxTree, container: usize, source: &str, diags: &mut Diags) -> Program {
    FileResolver::new(ast, source).resolve_container(container, diags)
}

/// Resolves the containers of one text, one after the other.
pub struct FileResolver<'a> {
    ast: &'a SyntaxTree,
    source: &'a str,
    features: FileFeatures,
    tables: ResolverTables,
    element_type: DType,
    ops: OpRegistry,
    has_untyped: bool,
}

impl<'a> FileResolver<'a> {
    /// A resolver for the containers of `ast`, which was read from `source`.
    pub fn new(ast: &'a SyntaxTree, source: &'a str) -> Self {
        let features = FileFeatures::of_file(ast);
        let ops = OpRegistry::OURS;
        let tables = ResolverTables::new(ast, ops);
        Self { ast, source, features, tables, element_type: DType::Float, ops, has_untyped: false }
    }

    /// With these ops.
    #[must_use]
    pub fn with_ops(self, ops: OpRegistry) -> Self {
        Self { tables: ResolverTables::new(self.ast, ops), ops, ..self }
    }

    /// Sets the element type of tensors whose text has none.
    #[must_use]
    pub fn with_element_type(self, element_type: DType) -> Self {
        Self { element_type, ..self }
    }

    /// Returns true if the last container has tensors whose text has no element type.
    pub(crate) fn has_untyped(&self) -> bool {
        self.has_untyped
    }

    /// Resolves one container. A number past the last one gives an empty program.
    pub fn resolve_container(&mut self, container: usize, diags: &mut Diags) -> Program {
        let shown = style::StyleEvidence::from_container(self.ast, container);
        let style = style::detect_style(&self.features, self.ast, self.ast.containers.get(container), shown);
        // An unusual element type has to be in the text.
        let element_types = style.element_types || self.element_type != DType::Float;
        let style = Style { element_types, ..style };
        self.tables.begin_container();
        let mut resolver = Resolver::new(self.ast, self.source, style, &mut self.tables, diags);
        resolver.element_types.element_type = self.element_type;
        self.ops.note_in(&mut resolver.program);
        if let Some(node) = self.ast.containers.get(container) {
            resolver.resolve_container(node);
            resolver.resolve_roots(shown);
            add_index_shifts(&mut resolver.program);
            resolver.resolve_comments(container);
            resolver.resolve_frame(container);
            resolver.report_untyped();
        }
        self.has_untyped = resolver.element_types.first.is_some();
        resolver.program
    }
}

/// Resolves statements of the printed form as part of a program: their ops are in no block. `known` has the tensors of
/// the numbers, `unit` is the unit whose body contains them, and all their places are `span`.
pub(crate) fn resolve_fragment(
    program: Program,
    known: &[(u32, TensorId)],
    unit: Option<UnitId>,
    text: &str,
    span: crate::diag::Span,
    diags: &mut Diags,
) -> (Program, Vec<ir::OpId>) {
    let source = format!("%HostIrContainer {{ () -> () :\n  {text}\n}} // %HostIrContainer\n");
    let parsed = hostir_grammar::parse(&source);
    diags.items.extend(parsed.errors.into_iter().map(crate::diag::syntax_error));
    let Some(container) = parsed.ast.containers.first().filter(|_| diags.items.is_empty()) else {
        return (program, Vec::new());
    };
    let (ops, tensors) = (program.ops.len(), program.tensors.len());
    let style = program.style;
    let mut tables = ResolverTables::new(&parsed.ast, OpRegistry::of_program(&program));
    tables.short_form = true;
    let mut resolver = Resolver::new(&parsed.ast, &source, style, &mut tables, diags);
    resolver.program = program;
    resolver.scope = TensorScope::with_tensors(unit, known);
    resolver.note_permuted(&[container.body]);
    let block = resolver.resolve_block(container.body);
    resolver.decide_splits();
    let mut program = resolver.program;
    let found = std::mem::take(&mut program.blocks[block].ops);
    (ops..program.ops.len()).for_each(|op| program.source.ops[ir::OpId(op as u32)] = span);
    (tensors..program.tensors.len()).for_each(|tensor| program.source.tensors[TensorId(tensor as u32)] = span);
    (program, found)
}

/// The state of one walk.
struct Resolver<'a> {
    ast: &'a SyntaxTree,
    source: &'a str,
    diags: &'a mut Diags,
    program: Program,
    /// Tables of the symbols, tensor texts and domains of the tree.
    tables: &'a mut ResolverTables,
    element_types: UntypedTensors,
    scope: TensorScope,
    reported: ReportedErrors,
    /// Tensors without `axes=` and `logical=` that have domains over devices or streams: these may be parts of axes.
    in_doubt: Vec<TensorId>,
    statements: StatementMap,
}

/// The tensors whose text has no element type.
struct UntypedTensors {
    /// The element type that they get.
    element_type: DType,
    /// The number and the place of the first.
    first: Option<(u32, crate::diag::Span)>,
}

/// The errors after which others are not reported.
#[derive(Default)]
struct ReportedErrors {
    /// True if an error about nested operations was reported for this statement.
    nested_operation: bool,
    /// True if the header, where most tensors are written in full, has an error.
    header: bool,
    /// Undefined numbers, with their scope.
    undefined: FxHashSet<(u32, u32)>,
}

impl<'a> Resolver<'a> {
    fn new(
        ast: &'a SyntaxTree,
        source: &'a str,
        style: Style,
        tables: &'a mut ResolverTables,
        diags: &'a mut Diags,
    ) -> Self {
        let mut program = Program { style, ..Program::default() };
        if ast.containers.len() == 1 {
            program.ops.reserve(ast.stmts.len());
            program.source.ops.reserve(ast.stmts.len());
            program.tensors.reserve(ast.tensors.len());
            program.source.tensors.reserve(ast.tensors.len());
            program.domains.reserve(ast.domains.len());
            program.blocks.reserve(ast.blocks.len());
        }
        Self {
            ast,
            source,
            diags,
            program,
            tables,
            element_types: UntypedTensors { element_type: DType::Float, first: None },
            scope: TensorScope::default(),
            reported: ReportedErrors::default(),
            in_doubt: Vec::new(),
            statements: StatementMap::new(ast),
        }
    }

    fn resolve_container(&mut self, node: &ast::ContainerSyntax) {
        self.reported.header = node.header_failed;
        if node.header_failed {
            self.program.source.unread.lose_order();
        }
        self.program.source.header = node.header;
        let blocks: Vec<ast::BlockId> = std::iter::once(node.body).chain(node.index_definitions).collect();
        self.note_permuted(&blocks);
        self.resolve_container_names(node);
        self.program.inputs = self.resolve_values(node.inputs);
        self.program.outputs = self.resolve_values(node.outputs);
        let body = self.program.body;
        self.resolve_block_into(node.body, body);
        if let Some(pairs) = &node.aliases {
            self.program.aliases = Some(self.resolve_aliases(pairs));
            self.program.resolve_aliases();
        }
        if let Some(block) = node.index_definitions {
            self.program.index_definitions = Some(self.resolve_block(block));
        }
        for unit in &node.units {
            self.resolve_host_unit(unit);
        }
        self.decide_splits();
    }

    /// The values of a list; those with errors are left out.
    fn resolve_values(&mut self, list: ArgRange) -> Vec<ir::Value> {
        let ast = self.ast;
        ast.args_in(list).iter().filter_map(|arg| self.resolve_value(arg)).collect()
    }

    fn resolve_aliases(&mut self, pairs: &[(ast::ArgSyntax, ast::ArgSyntax)]) -> Vec<(TensorId, TensorId)> {
        pairs
            .iter()
            .filter_map(|(new, original)| Some((self.resolve_tensor_arg(new)?, self.resolve_tensor_arg(original)?)))
            .collect()
    }

    fn resolve_host_unit(&mut self, node: &ast::HostUnitSyntax) {
        self.reported.header = false;
        self.tables.scope += 1;
        self.scope = TensorScope::default();
        self.note_permuted(&[node.body]);
        let body = self.program.blocks.push(ir::Block::default());
        let name = self.resolve_unit_name(node);
        let is_elided = node.is_elided;
        let unit = HostUnit { number: node.number, name, inputs: Vec::new(), outputs: Vec::new(), body, is_elided };
        let id = self.program.units.push(unit);
        self.scope.unit = Some(id);
        let inputs = self.resolve_values(node.inputs);
        let outputs = self.resolve_values(node.outputs);
        self.check_unit_lists(node, &inputs, &outputs);
        let unit = &mut self.program.units[id];
        unit.inputs = inputs;
        unit.outputs = outputs;
        self.resolve_block_into(node.body, body);
        self.scope.unit = None;
    }

    /// Checks that the lists of the section's first line are repeated in its `Inputs:` and `Outputs:` lines.
    fn check_unit_lists(&mut self, node: &ast::HostUnitSyntax, inputs: &[ir::Value], outputs: &[ir::Value]) {
        let lists = [
            ("Inputs", inputs, node.inputs, node.fusion_inputs),
            ("Outputs", outputs, node.outputs, node.fusion_outputs),
        ];
        for (title, values, first, again) in lists.into_iter().filter(|_| node.listed) {
            let repeated = self.resolve_values(again);
            if repeated != values && self.ast.args_in(first).len() == values.len() {
                self.report_unit_lists_differ(node, title);
            }
        }
        let ast = self.ast;
        for arg in ast.args_in(node.attrs) {
            if self.name_attribute(arg).is_none() {
                self.report_bad_unit_attribute(arg);
            }
        }
    }

    /// Blank lines and the version line. Those between two containers belong to the first of them.
    fn resolve_frame(&mut self, container: usize) {
        let node = &self.ast.containers[container];
        let next = self.ast.containers.get(container + 1);
        // Comments are between the blank lines after one container and those before the next.
        let shared =
            u32::from(next.is_some_and(|next| next.blanks.before && !has_comment_between(self.ast, node, next)));
        let sections = node.aliases.is_some() || node.index_definitions.is_some();
        let (mut after, mut end) = (node.blanks.after, node.blanks.after_sections);
        let last = if sections { &mut end } else { &mut after };
        *last = last.saturating_sub(shared);
        self.program.frame = TextFrame {
            blank_before: node.blanks.before,
            blank_after: after,
            blank_end: end,
            version: self.ast.version.filter(|_| container == 0),
        };
    }

    fn resolve_block(&mut self, block: ast::BlockId) -> BlockId {
        let id = self.program.blocks.push(ir::Block::default());
        self.resolve_block_into(block, id);
        id
    }

    fn resolve_block_into(&mut self, block: ast::BlockId, id: BlockId) {
        let ast = self.ast;
        let stmts = &ast.blocks[block.index()].stmts;
        let mut ops = Vec::with_capacity(stmts.len());
        for &stmt in stmts {
            if let Some(op) = self.resolve_stmt(stmt) {
                ops.push(op);
            }
        }
        self.program.blocks[id].ops = ops;
        self.statements.note_block(block, id);
    }

    /// The IR's symbol of a tree's symbol.
    fn resolve_symbol(&mut self, symbol: ast::Symbol) -> ir::Symbol {
        let word = self.tables.word(symbol);
        if let Some(name) = word.name {
            return name;
        }
        let name = self.program.names.intern(self.ast.symbol_text(symbol));
        word.name = Some(name);
        name
    }

    fn push_op(&mut self, op: ir::Op, span: crate::diag::Span) -> ir::OpId {
        let id = self.program.ops.push(op);
        self.program.source.ops.push(span);
        id
    }
}

/// Returns true if a comment between two consecutive containers belongs to neither.
fn has_comment_between(ast: &SyntaxTree, before: &ast::ContainerSyntax, next: &ast::ContainerSyntax) -> bool {
    let first = ast.comments.partition_point(|comment| comment.span.start < before.span.end);
    let mut between = ast.comments[first..].iter().take_while(|comment| comment.span.start < next.span.start);
    between
        .any(|comment| matches!(comment.place, ast::CommentPlaceSyntax::File | ast::CommentPlaceSyntax::Container(_)))
}
