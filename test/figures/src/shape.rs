//! Shapes of code: lengths of functions, closures with names, tuple parameters, lines of code.

use crate::sources::{Sources, files_below, is_test, relative};
use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use std::collections::BTreeSet;
use std::path::Path;
use syn::visit::{self, Visit};
use syn::{Block, Expr, FnArg, ItemFn, Local, Pat, Signature, Type};

/// Something with a size at a place.
pub struct Spot {
    /// Its name.
    pub name: String,
    /// Its file.
    pub file: usize,
    /// Its line.
    pub line: usize,
    /// Its size in lines; 1 where only its presence counts.
    pub size: usize,
}

/// Shapes of the shipped code.
#[derive(Default)]
pub struct Shapes {
    /// Functions with bodies, from `fn` to the closing brace.
    pub functions: Vec<Spot>,
    /// `let name = |...| ...`.
    pub closures: Vec<Spot>,
    /// Parameters whose type is a tuple or a reference to one.
    pub tuples: Vec<Spot>,
}

impl Shapes {
    /// Collects the shapes of all shipped modules.
    pub fn of(sources: &Sources) -> Self {
        let mut shapes = Self::default();
        for module in sources.shipped() {
            let mut found = Found { shapes: &mut shapes, file: module.file };
            for item in &module.items {
                found.visit_item(item);
            }
        }
        shapes
    }
}

struct Found<'s> {
    shapes: &'s mut Shapes,
    file: usize,
}

impl Found<'_> {
    fn function(&mut self, signature: &Signature, body: &Block) {
        let line = signature.fn_token.span.start().line;
        let size = body.brace_token.span.close().end().line + 1 - line;
        let (name, file) = (signature.ident.to_string(), self.file);
        self.shapes.functions.push(Spot { name, file, line, size });
    }
}

impl<'ast> Visit<'ast> for Found<'_> {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        if !is_test(&item.attrs) {
            self.function(&item.sig, &item.block);
            visit::visit_item_fn(self, item);
        }
    }
    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }
    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.function(&item.sig, body);
        }
        visit::visit_trait_item_fn(self, item);
    }
    fn visit_signature(&mut self, signature: &'ast Signature) {
        for input in &signature.inputs {
            if let FnArg::Typed(input) = input
                && is_tuple(&input.ty)
            {
                let (name, file) = (signature.ident.to_string(), self.file);
                let line = input.colon_token.span.start().line;
                self.shapes.tuples.push(Spot { name, file, line, size: 1 });
            }
        }
        visit::visit_signature(self, signature);
    }
    fn visit_local(&mut self, local: &'ast Local) {
        let named = match &local.pat {
            Pat::Ident(name) => Some(&name.ident),
            Pat::Type(typed) => match &*typed.pat {
                Pat::Ident(name) => Some(&name.ident),
                _ => None,
            },
            _ => None,
        };
        if let (Some(name), Some(init)) = (named, &local.init)
            && matches!(&*init.expr, Expr::Closure(_))
        {
            let (line, size) = (local.let_token.span.start().line, 1);
            let (name, file) = (name.to_string(), self.file);
            self.shapes.closures.push(Spot { name, file, line, size });
        }
        visit::visit_local(self, local);
    }
}

fn is_tuple(found: &Type) -> bool {
    match found {
        Type::Tuple(tuple) => tuple.elems.len() > 1,
        Type::Reference(reference) => is_tuple(&reference.elem),
        _ => false,
    }
}

/// Lines of Rust, by what they are for.
#[derive(Clone, Copy, Default, Debug)]
pub struct Lines {
    /// Shipped code without blanks, comments and unit tests.
    pub shipped: usize,
    /// All lines of shipped files, unit tests included.
    pub shipped_all: usize,
    /// Code of tests, without blanks and comments: unit tests, and all files outside of `src` folders.
    pub tests: usize,
    /// Code of examples.
    pub examples: usize,
}

/// Counts the lines of all Rust files below a root.
///
/// # Errors
/// Fails if a file cannot be read or parsed.
pub fn lines(root: &Path, sources: &Sources) -> Result<Lines, String> {
    let shipped: BTreeSet<&str> = sources.shipped().map(|module| sources.files[module.file].path.as_str()).collect();
    let mut lines = Lines::default();
    for path in files_below(root, ".rs") {
        let name = relative(root, &path);
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{name}: {error}"))?;
        let stream: TokenStream = text.parse().map_err(|error| format!("{name}: {error}"))?;
        let (mut code, mut tests) = (BTreeSet::new(), BTreeSet::new());
        code_lines(stream, &mut code, &mut tests);
        if shipped.contains(name.as_str()) {
            lines.shipped += code.len();
            lines.tests += tests.len();
            lines.shipped_all += text.lines().count();
        } else if name.contains("examples/") {
            lines.examples += code.len();
        } else {
            lines.tests += code.len() + tests.len();
        }
    }
    Ok(lines)
}

/// The lines with tokens other than docs; those of `#[cfg(test)]` items go to `tests`.
fn code_lines(stream: TokenStream, code: &mut BTreeSet<usize>, tests: &mut BTreeSet<usize>) {
    let mut tokens = stream.into_iter().peekable();
    let mut in_test = false;
    while let Some(token) = tokens.next() {
        if let TokenTree::Punct(mark) = &token
            && mark.as_char() == '#'
        {
            if let Some(TokenTree::Punct(next)) = tokens.peek()
                && next.as_char() == '!'
                && mark.spacing() == Spacing::Alone
            {
                tokens.next();
            }
            if let Some(TokenTree::Group(group)) = tokens.peek()
                && group.delimiter() == Delimiter::Bracket
            {
                let text = group.stream().to_string();
                if text.starts_with("doc =") || text.starts_with("doc=") {
                    tokens.next();
                    continue;
                }
                in_test |= text.replace(' ', "") == "cfg(test)";
            }
        }
        let ends_item = match &token {
            TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
            TokenTree::Punct(mark) => mark.as_char() == ';',
            _ => false,
        };
        let to = if in_test { &mut *tests } else { &mut *code };
        mark_lines(token, to);
        in_test &= !ends_item;
    }
    for line in tests.iter() {
        code.remove(line);
    }
}

/// Adds the lines of a token, and of all in it.
fn mark_lines(token: TokenTree, to: &mut BTreeSet<usize>) {
    match token {
        TokenTree::Group(group) => {
            to.insert(group.span_open().start().line);
            to.insert(group.span_close().end().line);
            let (mut code, mut tests) = (BTreeSet::new(), BTreeSet::new());
            code_lines(group.stream(), &mut code, &mut tests);
            to.append(&mut code);
            to.append(&mut tests);
        }
        other => {
            let span = other.span();
            to.extend(span.start().line..=span.end().line);
        }
    }
}
