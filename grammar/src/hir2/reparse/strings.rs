//! The strings of a tree after an edit: those of the whole text, and no others, since readers ask for them.

use super::part::{PartPlace, ReadPart};
use crate::ast::{StringInterner, Symbol};
use crate::hir2::ast::{ExprNode, FileSyntax, ItemSyntax, LoopDomain, NameSyntax, StmtForm};
use crate::hir2::known::KNOWN_TEXTS;
use crate::hir2::restarts::{ArenaSizes, NodeSpans};
use crate::hir2::tokens::read_tokens;
use memchr::memmem;

/// The most strings that are looked for in the text after an edit.
const MOST_LOST: usize = 8;

/// The strings that a tree has no more once a part has been read again. `None` if some may be in the text elsewhere.
pub(super) fn find_lost_strings(
    file: &FileSyntax,
    part: &ReadPart,
    place: &PartPlace,
    before: &str,
    after: &str,
) -> Option<Vec<Symbol>> {
    let (old_text, new_text) = place.texts(before, after);
    let nodes = place.nodes(file);
    let mut lost = SymbolSet::of_strings(&file.strings);
    lost.add_tokens(&file.strings, &before[old_text]);
    visit_symbols(file, nodes, &mut |symbol| lost.add_symbol(symbol));
    file.answered.iter().for_each(|line| lost.add_symbol(line.name));
    file.restarts.strings.iter().for_each(|symbol| lost.add_symbol(*symbol));
    lost.remove_tokens(&file.strings, &after[new_text.clone()]);
    part.file.restarts.strings.iter().for_each(|symbol| lost.remove_symbol(*symbol));
    let none = ArenaSizes::default();
    let all = NodeSpans { from: none, to: part.file.arena_sizes() };
    visit_symbols(&part.file, all, &mut |symbol| lost.remove_symbol(symbol));
    if lost.members.contains(&true) {
        let mut found = |symbol| lost.remove_symbol(symbol);
        visit_symbols(file, NodeSpans { from: none, to: nodes.from }, &mut found);
        visit_symbols(file, NodeSpans { from: nodes.to, to: file.arena_sizes() }, &mut found);
        file.items.iter().for_each(|item| visit_item(item, &mut found));
    }
    // A token need not be a node: `G.0` of a loop is the name `G` and a number.
    let outside = [&after[..new_text.start], &after[new_text.end..]];
    let lost: Vec<Symbol> = file.strings.symbols().filter(|symbol| lost.members[symbol.index()]).collect();
    let mut texts = lost.iter().map(|symbol| file.symbol_text(*symbol));
    let is_sure = lost.len() <= MOST_LOST && !texts.any(|lost| outside.iter().any(|text| may_have_token(text, lost)));
    is_sure.then_some(lost)
}

fn is_letter(byte: &u8) -> bool {
    byte.is_ascii_alphabetic() || *byte == b'_'
}

/// Returns true unless a text certainly has no token of these letters.
fn may_have_token(text: &str, token: &str) -> bool {
    let is_name = token.bytes().all(|byte| is_letter(&byte) || byte.is_ascii_digit());
    memmem::find_iter(text.as_bytes(), token).any(|at| {
        let (before, after) = (text.as_bytes()[..at].last(), text.as_bytes().get(at + token.len()));
        let is_longer =
            before.is_some_and(is_letter) || after.is_some_and(|byte| is_letter(byte) || byte.is_ascii_digit());
        !(is_name && is_longer)
    })
}

/// A set of the symbols of an interner.
struct SymbolSet {
    members: Vec<bool>,
}

impl SymbolSet {
    fn of_strings(strings: &StringInterner) -> Self {
        Self { members: vec![false; strings.len()] }
    }

    /// Adds a symbol, unless it is one of those that every text has.
    fn add_symbol(&mut self, symbol: Symbol) {
        self.members[symbol.index()] |= symbol.index() >= KNOWN_TEXTS;
    }

    fn remove_symbol(&mut self, symbol: Symbol) {
        self.members[symbol.index()] = false;
    }

    fn add_tokens(&mut self, strings: &StringInterner, text: &str) {
        token_symbols(strings, text).into_iter().for_each(|symbol| self.add_symbol(symbol));
    }

    fn remove_tokens(&mut self, strings: &StringInterner, text: &str) {
        token_symbols(strings, text).into_iter().for_each(|symbol| self.remove_symbol(symbol));
    }
}

/// The symbols of the tokens of a text.
fn token_symbols(strings: &StringInterner, text: &str) -> Vec<Symbol> {
    let found = read_tokens(text).strings;
    found.symbols().filter_map(|symbol| strings.find_symbol(found.get(symbol))).collect()
}

/// Calls a function with the symbols of all nodes between these.
fn visit_symbols(file: &FileSyntax, nodes: NodeSpans, found: &mut impl FnMut(Symbol)) {
    let NodeSpans { from, to } = nodes;
    for (node, _) in &file.exprs[from.exprs as usize..to.exprs as usize] {
        match node {
            ExprNode::Float(symbol)
            | ExprNode::Name(symbol)
            | ExprNode::Verbatim(symbol)
            | ExprNode::Unary(symbol, _)
            | ExprNode::Binary(symbol, ..) => found(*symbol),
            ExprNode::Call(name, _) | ExprNode::Field(_, name) => found(name.name),
            ExprNode::Int(_)
            | ExprNode::Hex(_)
            | ExprNode::Bool(_)
            | ExprNode::Paren(_)
            | ExprNode::Index(..)
            | ExprNode::List(_)
            | ExprNode::Braces(_)
            | ExprNode::Arrow(..)
            | ExprNode::Group(_)
            | ExprNode::Error => {}
        }
    }
    let mut name = |name: &NameSyntax| found(name.name);
    file.args[from.args as usize..to.args as usize].iter().filter_map(|arg| arg.key.as_ref()).for_each(&mut name);
    for ty in &file.types[from.types as usize..to.types as usize] {
        [&ty.dtype].into_iter().chain(&ty.memory).chain(&ty.mesh).for_each(&mut name);
    }
    for axis in &file.axes[from.axes as usize..to.axes as usize] {
        axis.iter.iter().chain(&axis.parallel).for_each(&mut name);
    }
    for launch in &file.launches[from.launches as usize..to.launches as usize] {
        [&launch.file, &launch.entry].into_iter().chain(&launch.reference).for_each(&mut name);
    }
    file.types[from.types as usize..to.types as usize].iter().filter_map(|ty| ty.positions).for_each(&mut *found);
    for stmt in &file.stmts[from.stmts as usize..to.stmts as usize] {
        visit_statement(&stmt.form, found);
    }
}

/// Calls a function with the symbols that a statement has in no expression.
fn visit_statement(form: &StmtForm, found: &mut impl FnMut(Symbol)) {
    match form {
        StmtForm::Declare(name, _) => found(name.name),
        StmtForm::For { index, domain, .. } => {
            found(index.name);
            if let LoopDomain::TensorAxis(tensor, _) = domain {
                found(tensor.name);
            }
        }
        StmtForm::If { predicate, .. } => predicate.iter().for_each(|name| found(name.name)),
        StmtForm::Alias(new, original) => [new, original].into_iter().for_each(|name| found(name.name)),
        StmtForm::Assert { text, .. } => text.iter().for_each(|text| found(*text)),
        StmtForm::Verbatim(text) => found(*text),
        StmtForm::Assign { .. }
        | StmtForm::Call(_)
        | StmtForm::Wait(_)
        | StmtForm::Free(_)
        | StmtForm::BindStream(_)
        | StmtForm::Stream(..)
        | StmtForm::Sync(_)
        | StmtForm::Launch(_)
        | StmtForm::Share(_)
        | StmtForm::Print(_)
        | StmtForm::Define(_)
        | StmtForm::Error => {}
    }
}

/// Calls a function with the names that an item gives, and those of its parameters.
fn visit_item(item: &ItemSyntax, found: &mut impl FnMut(Symbol)) {
    item.names().iter().for_each(|name| found(name.name));
    if let ItemSyntax::Kernel(item) | ItemSyntax::Program(item) = item {
        item.inputs.iter().chain(&item.outputs).for_each(|param| found(param.name.name));
    }
}
