//! The names of a text in `hir 2`.

use super::{NamedSymbol, SymbolKind};
use crate::hir2::read::{DeclaredName, Meaning};
use crate::ir::is_reserved_word;
use hostir_grammar::Span;
use hostir_grammar::ast::{ExprId, Symbol};
use hostir_grammar::hir2::ast::{
    ExprNode, FileSyntax, ItemSyntax, LoopDomain, NameSyntax, ProgramItem, SizedMeshSyntax, StmtForm,
};
use hostir_grammar::hir2::bundle::own_text;
use rustc_hash::{FxHashMap, FxHashSet};

/// Keys of arguments whose values are words, not names of the program.
const WORD_KEYS: &[&str] = &["op", "via", "mem", "comm", "protocol", "accumulate"];

/// A name of the syntax tree with its place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FoundName {
    span: Span,
    name: Symbol,
    /// True for the name of a call, which may be a kernel's.
    is_call: bool,
}

/// The symbols of a text, in no order.
pub(super) fn find_symbols(file: &FileSyntax, text: &str, declared: &[DeclaredName]) -> Vec<NamedSymbol> {
    let end = own_text(text).len() as u32;
    let mut finder = SymbolFinder::new(file, end);
    finder.declare_file_names();
    finder.declare_program_names(declared);
    for found in collect_names(file, end) {
        finder.place_name(found);
    }
    let mut symbols = finder.symbols;
    let targets = target_places(file);
    for symbol in &mut symbols {
        symbol.places.sort_unstable();
        symbol.places.dedup();
        if symbol.kind == SymbolKind::Handle {
            move_declaration(symbol, &targets);
        }
    }
    symbols
}

/// The places of names on the left sides of assignments.
fn target_places(file: &FileSyntax) -> FxHashSet<Span> {
    let names = file.targets.iter().map(|target| match *file.expr(target.value) {
        ExprNode::Index(base, _) => file.expr_span(base),
        _ => file.expr_span(target.value),
    });
    names.collect()
}

/// A communication is declared where it starts, also if an earlier line waits for the one of the step before.
fn move_declaration(handle: &mut NamedSymbol, targets: &FxHashSet<Span>) {
    if let Some(start) = handle.places.iter().find(|place| targets.contains(place)) {
        handle.declaration = *start;
    }
}

/// A program or kernel of the text.
struct ItemScope {
    span: Span,
    /// Undeclared names that are scalars of the caller: in types, and parameters without a type.
    implicit: FxHashSet<Symbol>,
}

struct SymbolFinder<'a> {
    file: &'a FileSyntax,
    symbols: Vec<NamedSymbol>,
    /// The programs and kernels in the order of the text.
    items: Vec<ItemScope>,
    of_file: FxHashMap<Symbol, usize>,
    /// The symbols of a name in an item, by the item's index: a loop's index may have several.
    of_item: FxHashMap<(usize, Symbol), Vec<usize>>,
    /// The loops by the places of their indices: from the statement to the end of the block.
    loops: FxHashMap<Span, Span>,
}

impl<'a> SymbolFinder<'a> {
    fn new(file: &'a FileSyntax, end: u32) -> Self {
        let items = program_items(file).map(|item| ItemScope { span: item.span, implicit: implicit_names(file, item) });
        let loops = file.stmts.iter().filter(|stmt| stmt.span.end <= end).filter_map(|stmt| match stmt.form {
            StmtForm::For { index, body, .. } => Some((index.span, stmt.span.join(file.blocks[body.index()].span))),
            _ => None,
        });
        Self {
            file,
            symbols: Vec::new(),
            items: items.collect(),
            of_file: FxHashMap::default(),
            of_item: FxHashMap::default(),
            loops: loops.collect(),
        }
    }

    fn item_at(&self, place: u32) -> Option<usize> {
        let after = self.items.partition_point(|item| item.span.start <= place);
        after.checked_sub(1).filter(|&at| place < self.items[at].span.end)
    }

    fn add_symbol(&mut self, name: Symbol, kind: SymbolKind, declaration: Span) -> usize {
        self.symbols.push(NamedSymbol {
            name: self.file.symbol_text(name).to_owned(),
            kind,
            places: vec![declaration],
            declaration,
            scope: None,
            program: None,
            tensors: Vec::new(),
            handle: None,
        });
        self.symbols.len() - 1
    }

    /// Sizes, meshes, kernels, programs and imported names. The first declaration of a name counts.
    fn declare_file_names(&mut self) {
        let file = self.file;
        for item in &file.items {
            let kind = match item {
                ItemSyntax::Mesh(_) => SymbolKind::Mesh,
                ItemSyntax::Kernel(_) | ItemSyntax::Import(_) => SymbolKind::Kernel,
                ItemSyntax::Program(_) => SymbolKind::Program,
            };
            for name in item.names() {
                self.declare_in_file(*name, kind);
            }
        }
        for size in &file.head.sizes {
            let length = file.symbol_text(size.name).len() as u32;
            let span = Span { start: size.span.start, end: size.span.start + length };
            self.declare_in_file(NameSyntax { name: size.name, span }, SymbolKind::Size);
        }
        for name in mesh_sizes(file) {
            self.declare_in_file(name, SymbolKind::Size);
        }
    }

    fn declare_in_file(&mut self, name: NameSyntax, kind: SymbolKind) {
        if !self.of_file.contains_key(&name.name) {
            let symbol = self.add_symbol(name.name, kind, name.span);
            self.of_file.insert(name.name, symbol);
        }
    }

    fn declare_program_names(&mut self, declared: &[DeclaredName]) {
        let mut seen = FxHashSet::default();
        for one in declared.iter().filter(|one| seen.insert((one.name, one.span))) {
            let Some(item) = self.item_at(one.span.start) else { continue };
            let body = self.loops.get(&one.span).copied();
            let is_known = body.is_none() && self.find_plain(item, one.name).is_some();
            if is_known {
                continue;
            }
            let kind = match one.meaning {
                Meaning::Tensor(_) => SymbolKind::Tensor,
                Meaning::Handle(_) => SymbolKind::Handle,
                Meaning::Stream(_) => SymbolKind::Stream,
                Meaning::Scalar if body.is_some() => SymbolKind::Index,
                Meaning::Scalar => SymbolKind::Scalar,
                Meaning::Poisoned => SymbolKind::Unknown,
            };
            let symbol = self.add_symbol(one.name, kind, one.span);
            let entry = &mut self.symbols[symbol];
            entry.scope = body.or(Some(self.items[item].span));
            entry.program = Some(one.program);
            match one.meaning {
                Meaning::Tensor(tensor) => entry.tensors.push(tensor),
                Meaning::Handle(number) => entry.handle = Some(number),
                Meaning::Stream(_) | Meaning::Scalar | Meaning::Poisoned => {}
            }
            self.of_item.entry((item, one.name)).or_default().push(symbol);
        }
    }

    /// The symbol of a name in an item that is no index of a loop.
    fn find_plain(&self, item: usize, name: Symbol) -> Option<usize> {
        let symbols = self.of_item.get(&(item, name))?;
        symbols.iter().copied().find(|&symbol| self.symbols[symbol].kind != SymbolKind::Index)
    }

    /// The index of the innermost loop around a place that has the name, else another symbol of the item.
    fn find_local(&self, item: usize, found: FoundName) -> Option<usize> {
        let symbols = self.of_item.get(&(item, found.name))?;
        let around = symbols.iter().copied().filter(|&symbol| {
            let entry = &self.symbols[symbol];
            let is_inside =
                entry.scope.is_some_and(|scope| scope.start <= found.span.start && found.span.end <= scope.end);
            entry.kind == SymbolKind::Index && is_inside
        });
        let innermost = around.max_by_key(|&symbol| self.symbols[symbol].scope.map(|scope| scope.start));
        innermost.or_else(|| self.find_plain(item, found.name))
    }

    fn place_name(&mut self, found: FoundName) {
        let item = self.item_at(found.span.start);
        let local = item.filter(|_| !found.is_call).and_then(|item| self.find_local(item, found));
        let symbol = local.or_else(|| self.find_in_file(found)).or_else(|| self.find_implicit(item?, found));
        if let Some(symbol) = symbol {
            self.symbols[symbol].places.push(found.span);
        }
    }

    fn find_in_file(&self, found: FoundName) -> Option<usize> {
        let symbol = *self.of_file.get(&found.name)?;
        let is_called = matches!(self.symbols[symbol].kind, SymbolKind::Kernel | SymbolKind::Program);
        (!found.is_call || is_called).then_some(symbol)
    }

    /// The scalar of the caller that no place declares; its first place counts as its declaration.
    fn find_implicit(&mut self, item: usize, found: FoundName) -> Option<usize> {
        if found.is_call || !self.items[item].implicit.contains(&found.name) {
            return None;
        }
        let symbol = self.add_symbol(found.name, SymbolKind::Size, found.span);
        self.symbols[symbol].scope = Some(self.items[item].span);
        self.of_item.entry((item, found.name)).or_default().push(symbol);
        Some(symbol)
    }
}

fn program_items(file: &FileSyntax) -> impl Iterator<Item = &ProgramItem> {
    file.items.iter().filter_map(|item| match item {
        ItemSyntax::Kernel(item) | ItemSyntax::Program(item) => Some(item),
        ItemSyntax::Mesh(_) | ItemSyntax::Import(_) => None,
    })
}

/// Names in extents of the types inside of an item, and its parameters without a type.
fn implicit_names(file: &FileSyntax, item: &ProgramItem) -> FxHashSet<Symbol> {
    let params = item.inputs.iter().chain(&item.outputs).filter(|param| param.ty.is_none());
    let mut names: FxHashSet<Symbol> = params.map(|param| param.name.name).collect();
    let types = file.types.iter().filter(|ty| item.span.start <= ty.span.start && ty.span.end <= item.span.end);
    for axis in types.flat_map(|ty| &file.axes[ty.axes.indices()]) {
        for extent in [Some(axis.extent), axis.expanded].into_iter().flatten() {
            add_expr_names(file, extent, &mut |name| names.extend([name.name]));
        }
    }
    names
}

/// The names in the sizes of meshes.
fn mesh_sizes(file: &FileSyntax) -> Vec<NameSyntax> {
    let mut names = Vec::new();
    let meshes = file.items.iter().filter_map(|item| match item {
        ItemSyntax::Mesh(mesh) => mesh.sized,
        _ => None,
    });
    for mesh in meshes {
        let exprs = match mesh {
            SizedMeshSyntax::Range(first, end) => vec![first, end],
            SizedMeshSyntax::Grid(extents) => file.expr_lists[extents.indices()].to_vec(),
        };
        exprs.into_iter().for_each(|expr| add_expr_names(file, expr, &mut |name| names.push(name)));
    }
    names
}

/// Calls `add` for the names in a scalar expression that are no words of the language.
fn add_expr_names(file: &FileSyntax, expr: ExprId, add: &mut dyn FnMut(NameSyntax)) {
    let mut open = vec![expr];
    while let Some(expr) = open.pop() {
        match *file.expr(expr) {
            ExprNode::Name(name) if !is_reserved_word(file.symbol_text(name)) => {
                add(NameSyntax { name, span: file.expr_span(expr) });
            }
            ExprNode::Unary(_, inner) | ExprNode::Paren(inner) => open.push(inner),
            ExprNode::Binary(_, a, b) => open.extend([b, a]),
            ExprNode::Call(_, args) => open.extend(file.args[args.indices()].iter().rev().map(|arg| arg.value)),
            _ => {}
        }
    }
}

/// All names of the syntax tree that may be those of symbols, in the order of the text.
fn collect_names(file: &FileSyntax, end: u32) -> Vec<FoundName> {
    let mut names: Vec<FoundName> = Vec::with_capacity(file.exprs.len());
    let words: FxHashSet<ExprId> =
        file.args.iter().filter(|arg| has_word(file, arg.key)).map(|arg| arg.value).collect();
    for (at, (node, span)) in file.exprs.iter().enumerate() {
        match node {
            ExprNode::Name(name) if !words.contains(&ExprId(at as u32)) => {
                names.push(FoundName { span: *span, name: *name, is_call: false });
            }
            ExprNode::Call(name, _) => names.push(FoundName { span: name.span, name: name.name, is_call: true }),
            _ => {}
        }
    }
    add_item_names(file, &mut names);
    add_statement_names(file, &mut names);
    names.retain(|found| found.span.end <= end && found.span.start < found.span.end);
    names.sort_unstable();
    names.dedup_by_key(|found| found.span);
    names
}

fn has_word(file: &FileSyntax, key: Option<NameSyntax>) -> bool {
    key.is_some_and(|key| WORD_KEYS.contains(&file.symbol_text(key.name)))
}

fn plain(name: NameSyntax) -> FoundName {
    FoundName { span: name.span, name: name.name, is_call: false }
}

fn add_item_names(file: &FileSyntax, names: &mut Vec<FoundName>) {
    names.extend(file.head.given_names.iter().map(|name| plain(*name)));
    names.extend(file.items.iter().flat_map(ItemSyntax::names).map(|name| plain(*name)));
    for item in program_items(file) {
        let params = item.inputs.iter().chain(&item.outputs).map(|param| param.name);
        names.extend(params.chain(item.mesh).map(plain));
    }
    names.extend(file.types.iter().filter_map(|ty| ty.mesh).map(plain));
    names.extend(file.launches.iter().filter_map(|launch| launch.reference).map(plain));
}

fn add_statement_names(file: &FileSyntax, names: &mut Vec<FoundName>) {
    for stmt in &file.stmts {
        match stmt.form {
            StmtForm::Declare(name, _) => names.push(plain(name)),
            StmtForm::Alias(new, original) => names.extend([plain(new), plain(original)]),
            StmtForm::For { index, domain, .. } => {
                names.push(plain(index));
                if let LoopDomain::TensorAxis(tensor, _) = domain {
                    names.push(plain(tensor));
                }
            }
            _ => {}
        }
    }
}
