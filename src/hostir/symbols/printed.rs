//! The names of a text in the printed form: `T3`, `i0`, `Communication 39`, `HostUnit0`.
//!
//! A full tensor text that occurs several times is one node of the tree, whose extents have places in the first
//! occurrence only; the others are as far from it as the occurrences are from each other.

use super::{NamedSymbol, SymbolKind};
use crate::ir::{Program, TensorId, UnitId, is_reserved_word};
use hostir_grammar::Span;
use hostir_grammar::ast::{ArgRange, ContainerSyntax, ExprSyntax, StmtShape, Symbol, SyntaxTree, ValueSyntax};
use rustc_hash::{FxHashMap, FxHashSet};

/// The thing that a name of a container stands for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum PrintedName {
    /// A tensor, in the container or in a unit of it.
    Tensor(Option<usize>, u32),
    Scalar(Symbol),
    Handle(u32),
    Unit(u32),
}

/// The symbols of a text, in no order.
pub(super) fn find_symbols(tree: &SyntaxTree, text: &str, programs: &[Program]) -> Vec<NamedSymbol> {
    let mut finder = PrintedFinder { tree, text, places: FxHashMap::default() };
    let scalars = scalar_names(tree);
    finder.add_tensors();
    finder.add_scalars(&scalars);
    finder.add_handles();
    finder.add_units();
    let maker = SymbolMaker { tree, text, indices: index_names(tree), tensors: number_tensors(programs) };
    let found = finder.places.into_iter().map(|((container, name), mut places)| {
        places.sort_unstable();
        places.dedup();
        maker.make_symbol(container, name, places)
    });
    // Their order is that of a hash table; the caller sorts them by their places.
    found.collect()
}

/// The tensors of each number, by program and unit.
type NumberedTensors = FxHashMap<(usize, Option<UnitId>, u32), Vec<TensorId>>;

fn number_tensors(programs: &[Program]) -> NumberedTensors {
    let mut found = NumberedTensors::default();
    for (at, program) in programs.iter().enumerate() {
        for (id, tensor) in program.tensors().iter() {
            found.entry((at, tensor.unit, tensor.number)).or_default().push(id);
        }
    }
    found
}

struct SymbolMaker<'a> {
    tree: &'a SyntaxTree,
    text: &'a str,
    /// The names of indices of loops.
    indices: FxHashSet<Symbol>,
    tensors: NumberedTensors,
}

impl SymbolMaker<'_> {
    fn make_symbol(&self, container: usize, name: PrintedName, places: Vec<Span>) -> NamedSymbol {
        let node = &self.tree.containers[container];
        let whole = node.span.join(node.header);
        let (kind, tensors, handle, scope) = match name {
            PrintedName::Tensor(unit, number) => {
                let key = (container, unit.map(|unit| UnitId(unit as u32)), number);
                let scope = unit.map_or(whole, |unit| node.units[unit].span);
                (SymbolKind::Tensor, self.tensors.get(&key).cloned().unwrap_or_default(), None, scope)
            }
            PrintedName::Scalar(name) if self.indices.contains(&name) => (SymbolKind::Index, Vec::new(), None, whole),
            PrintedName::Scalar(_) => (SymbolKind::Size, Vec::new(), None, whole),
            PrintedName::Handle(number) => (SymbolKind::Handle, Vec::new(), Some(number), whole),
            PrintedName::Unit(_) => (SymbolKind::Kernel, Vec::new(), None, whole),
        };
        // A unit's section comes after the statements that post it.
        let declared = if kind == SymbolKind::Kernel { places.last() } else { places.first() };
        NamedSymbol {
            name: self.text.get(places[0].as_usize_range()).unwrap_or_default().to_owned(),
            kind,
            declaration: declared.copied().unwrap_or_default(),
            places,
            scope: Some(scope),
            program: Some(container),
            tensors,
            handle,
        }
    }
}

struct PrintedFinder<'a> {
    tree: &'a SyntaxTree,
    text: &'a str,
    /// The places of each name of a container.
    places: FxHashMap<(usize, PrintedName), Vec<Span>>,
}

impl PrintedFinder<'_> {
    fn container_at(&self, place: u32) -> Option<usize> {
        let containers = &self.tree.containers;
        let after = containers.partition_point(|node| first_byte(node) <= place);
        after.checked_sub(1)
    }

    fn unit_at(&self, container: usize, place: u32) -> Option<usize> {
        let units = &self.tree.containers[container].units;
        let after = units.partition_point(|unit| unit.span.start <= place);
        after.checked_sub(1).filter(|&at| place < units[at].span.end)
    }

    fn add(&mut self, name: PrintedName, place: Span) {
        if let Some(container) = self.container_at(place.start) {
            self.places.entry((container, name)).or_default().push(place);
        }
    }

    fn add_tensors(&mut self) {
        for (node, span) in &self.tree.exprs {
            let ExprSyntax::Tensor(id) = node else { continue };
            let Some(container) = self.container_at(span.start) else { continue };
            let unit = self.unit_at(container, span.start);
            let length = 1 + digits_at(self.text, span.start as usize + 1);
            let place = Span { start: span.start, end: span.start + length };
            self.add(PrintedName::Tensor(unit, self.tree.tensors[id.index()].number), place);
        }
    }

    fn add_scalars(&mut self, scalars: &FxHashSet<Symbol>) {
        let names = self.tree.exprs.iter().filter_map(|(node, span)| match node {
            ExprSyntax::Name(name) if scalars.contains(name) => Some((*span, *name)),
            _ => None,
        });
        let mut names: Vec<(Span, Symbol)> = names.collect();
        names.sort_unstable();
        for &(span, name) in &names {
            self.add(PrintedName::Scalar(name), span);
        }
        for (node, span) in &self.tree.exprs {
            let ExprSyntax::Tensor(id) = node else { continue };
            let first = self.tree.tensors[id.index()].span;
            if first.start == span.start {
                continue;
            }
            let from = names.partition_point(|(name, _)| name.start < first.start);
            for (inner, name) in names[from..].iter().take_while(|(inner, _)| inner.end <= first.end) {
                let start = span.start + (inner.start - first.start);
                self.add(PrintedName::Scalar(*name), Span { start, end: start + (inner.end - inner.start) });
            }
        }
    }

    /// The numbers after `Communication` and the like, and those that are waited for.
    fn add_handles(&mut self) {
        for stmt in &self.tree.stmts {
            let Some(number) = stmt.number else { continue };
            let start = stmt.name_span.end as usize;
            let blanks = self.text[start..].bytes().take_while(|byte| *byte == b' ').count();
            self.add_number(number, start + blanks);
        }
        for arg in &self.tree.args {
            let ValueSyntax::Handle(_, number) = arg.value else { continue };
            let range = arg.span.as_usize_range();
            let written = self.text.get(range.clone()).unwrap_or_default();
            let digits = written.bytes().rev().take_while(u8::is_ascii_digit).count();
            self.add_number(number, range.end - digits);
        }
    }

    fn add_number(&mut self, number: u32, start: usize) {
        let length = digits_at(self.text, start);
        if length > 0 {
            self.add(PrintedName::Handle(number), Span { start: start as u32, end: start as u32 + length });
        }
    }

    /// `HostUnit0` at its section and where it is posted.
    fn add_units(&mut self) {
        let mut numbers: FxHashSet<(usize, u32)> = FxHashSet::default();
        for (container, node) in self.tree.containers.iter().enumerate() {
            for unit in &node.units {
                numbers.insert((container, unit.number));
                let length = format!("HostUnit{}", unit.number).len();
                let place = Span::new(unit.span.start as usize, unit.span.start as usize + length);
                self.add(PrintedName::Unit(unit.number), place);
            }
        }
        for (node, span) in &self.tree.exprs {
            let ExprSyntax::Name(name) = node else { continue };
            let number = self.tree.symbol_text(*name).strip_prefix("HostUnit").and_then(|digits| digits.parse().ok());
            let container = self.container_at(span.start);
            if let Some((container, number)) = container.zip(number)
                && numbers.contains(&(container, number))
            {
                self.add(PrintedName::Unit(number), *span);
            }
        }
    }
}

/// The first byte of a container: its header is in front of its body.
fn first_byte(node: &ContainerSyntax) -> u32 {
    node.span.start.min(node.header.start)
}

/// The number of digits at a place of a text.
fn digits_at(text: &str, start: usize) -> u32 {
    text.get(start..).unwrap_or_default().bytes().take_while(u8::is_ascii_digit).count() as u32
}

/// The names that are scalars: in extents of tensors, among inputs, as results and as indices of loops.
fn scalar_names(tree: &SyntaxTree) -> FxHashSet<Symbol> {
    let mut names = FxHashSet::default();
    for domain in &tree.domains {
        for expr in [Some(domain.extent), domain.start, domain.stop, domain.expanded].into_iter().flatten() {
            add_expr_names(tree, expr.index(), &mut names);
        }
    }
    let lists = tree.containers.iter().flat_map(|node| [node.inputs, node.outputs]);
    let results = tree.stmts.iter().map(|stmt| stmt.results);
    lists.chain(results).for_each(|list| add_list_names(tree, list, &mut names));
    names.extend(index_names(tree));
    names.retain(|name| !is_reserved_word(tree.symbol_text(*name)) && !tree.symbol_text(*name).contains('.'));
    names
}

fn index_names(tree: &SyntaxTree) -> FxHashSet<Symbol> {
    let loops = tree.stmts.iter().filter(|stmt| matches!(stmt.shape, StmtShape::ForIn | StmtShape::ForRange));
    let mut names = FxHashSet::default();
    for stmt in loops {
        let first = ArgRange { start: stmt.args.start, end: stmt.args.end.min(stmt.args.start + 1) };
        add_list_names(tree, first, &mut names);
    }
    names
}

fn add_list_names(tree: &SyntaxTree, list: ArgRange, names: &mut FxHashSet<Symbol>) {
    for arg in tree.args_in(list) {
        if let ValueSyntax::Expr(expr) = arg.value
            && let ExprSyntax::Name(name) = tree.exprs[expr.index()].0
        {
            names.insert(name);
        }
    }
}

fn add_expr_names(tree: &SyntaxTree, expr: usize, names: &mut FxHashSet<Symbol>) {
    let mut open = vec![expr];
    while let Some(at) = open.pop() {
        match tree.exprs[at].0 {
            ExprSyntax::Name(name) => names.extend([name]),
            ExprSyntax::Unary(_, inner) | ExprSyntax::Group(inner) => open.push(inner.index()),
            ExprSyntax::Binary(_, a, b) => open.extend([a.index(), b.index()]),
            ExprSyntax::Call(_, args) => open.extend(tree.args_in(args).iter().filter_map(|arg| match arg.value {
                ValueSyntax::Expr(expr) => Some(expr.index()),
                _ => None,
            })),
            _ => {}
        }
    }
}
