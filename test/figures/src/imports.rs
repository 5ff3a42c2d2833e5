//! Arrows between files: which file mentions something that another file of its crate defines.
//!
//! Paths are resolved through `use`, globs and re-exports to the file that defines the item. A re-export alone
//! is no arrow, and neither is `mod`. Methods that are called on values are not followed, since that would need
//! types; whoever names no type of a file does not depend on where it is. Paths in arguments of macros count.

use crate::sources::{Module, Sources, item_name};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};
use syn::{Item, ItemUse, UseTree, Visibility};

/// A mention of an item in another file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Arrow {
    /// The file that mentions it.
    pub from: usize,
    /// The file that defines it.
    pub to: usize,
    /// The item.
    pub item: String,
    /// Line of the mention.
    pub line: usize,
}

/// Collects all arrows within crates, without repetition of one item by one file.
pub fn arrows(sources: &Sources) -> Vec<Arrow> {
    let resolver = Resolver::new(sources);
    let mut found: BTreeMap<(usize, usize, String), usize> = BTreeMap::new();
    for (number, module) in sources.modules.iter().enumerate() {
        for (path, line) in mentions(module, &resolver.scopes[number]) {
            for (file, item) in resolver.items(number, &path) {
                let same_crate = resolver.crate_of(file) == Some(module.krate);
                if file != module.file && same_crate {
                    found.entry((module.file, file, item)).or_insert(line);
                }
            }
        }
    }
    let arrow = |((from, to, item), line)| Arrow { from, to, item, line };
    found.into_iter().map(arrow).collect()
}

/// The meanings of the names of a module.
#[derive(Default)]
struct Scope {
    names: BTreeMap<String, Vec<Binding>>,
    globs: Vec<Vec<String>>,
    /// Paths of `use` that are no re-exports, with their lines.
    private: Vec<(Vec<String>, usize)>,
    /// Names that are re-exported: a mention of one in the code is an arrow.
    reexported: BTreeSet<String>,
}

#[derive(Clone)]
enum Binding {
    /// An item of the module.
    Own,
    /// A module in it, by number.
    Child(usize),
    /// Something elsewhere.
    Use(Vec<String>),
}

impl Scope {
    fn of(module: &Module) -> Self {
        let mut scope = Scope::default();
        for item in &module.items {
            scope.define(item);
        }
        for item in &module.items {
            Uses(&mut scope).visit_item(item);
        }
        scope
    }

    fn bind(&mut self, name: &str, binding: Binding) {
        self.names.entry(name.to_owned()).or_default().push(binding);
    }

    fn define(&mut self, item: &Item) {
        if let Item::Macro(item) = item {
            self.define_from_macro(item.mac.tokens.clone());
        }
        let name = item_name(item);
        if !name.is_empty() {
            self.bind(&name, Binding::Own);
        }
    }

    /// The types and constants that a macro defines by names in its arguments or its own text: the module that
    /// calls a macro is mostly the one that has it.
    fn define_from_macro(&mut self, tokens: TokenStream) {
        let mut keyword = false;
        for token in tokens {
            match token {
                TokenTree::Ident(name) if keyword => {
                    self.bind(&name.to_string(), Binding::Own);
                    keyword = false;
                }
                TokenTree::Ident(word) => {
                    let word = word.to_string();
                    keyword = ["struct", "enum", "union", "trait", "static", "type"].contains(&word.as_str());
                }
                TokenTree::Group(group) => {
                    self.define_from_macro(group.stream());
                    keyword = false;
                }
                _ => keyword = false,
            }
        }
    }

    fn import(&mut self, item: &ItemUse) {
        let exported = !matches!(item.vis, Visibility::Inherited);
        let line = item.use_token.span.start().line;
        let mut leaves = Vec::new();
        flatten(&item.tree, &mut Vec::new(), &mut leaves);
        for (path, name) in leaves {
            match name {
                None => self.globs.push(path),
                Some(name) => {
                    self.bind(&name, Binding::Use(path.clone()));
                    if exported {
                        self.reexported.insert(name);
                    } else {
                        self.private.push((path, line));
                    }
                }
            }
        }
    }
}

/// Finds `use` also inside functions.
struct Uses<'s>(&'s mut Scope);

impl<'ast> Visit<'ast> for Uses<'_> {
    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.0.import(item);
    }
}

/// The paths of a `use` with the names that they bind; `None` is a glob.
fn flatten(tree: &UseTree, prefix: &mut Vec<String>, leaves: &mut Vec<(Vec<String>, Option<String>)>) {
    let joined = |name: &str| {
        let mut path = prefix.clone();
        path.push(name.to_owned());
        path
    };
    match tree {
        UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            flatten(&path.tree, prefix, leaves);
            prefix.pop();
        }
        UseTree::Name(name) if name.ident == "self" => {
            leaves.push((prefix.clone(), prefix.last().cloned()));
        }
        UseTree::Name(name) => {
            let name = name.ident.to_string();
            leaves.push((joined(&name), Some(name)));
        }
        UseTree::Rename(rename) if rename.ident == "self" => {
            leaves.push((prefix.clone(), Some(rename.rename.to_string())));
        }
        UseTree::Rename(rename) => {
            leaves.push((joined(&rename.ident.to_string()), Some(rename.rename.to_string())));
        }
        UseTree::Glob(_) => leaves.push((prefix.clone(), None)),
        UseTree::Group(group) => {
            for tree in &group.items {
                flatten(tree, prefix, leaves);
            }
        }
    }
}

/// All paths that a module's code mentions, with their lines.
fn mentions(module: &Module, scope: &Scope) -> Vec<(Vec<String>, usize)> {
    let mut paths = Paths { scope, found: scope.private.clone() };
    for item in &module.items {
        paths.visit_item(item);
    }
    paths.found
}

struct Paths<'s> {
    scope: &'s Scope,
    found: Vec<(Vec<String>, usize)>,
}

impl Paths<'_> {
    fn mention(&mut self, path: Vec<String>, line: usize) {
        let single = path.len() == 1;
        if !single || self.scope.reexported.contains(&path[0]) || self.is_glob(&path[0]) {
            self.found.push((path, line));
        }
    }

    /// Whether a name can come from a glob only.
    fn is_glob(&self, name: &str) -> bool {
        !self.scope.globs.is_empty() && !self.scope.names.contains_key(name)
    }

    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let (mut line, mut colons) = (0, 0);
        for token in tokens {
            match &token {
                TokenTree::Ident(name) if colons == 2 && !path.is_empty() => {
                    path.push(name.to_string());
                }
                TokenTree::Ident(name) => {
                    self.flush(&mut path, line);
                    line = name.span().start().line;
                    path.push(name.to_string());
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                TokenTree::Group(group) => {
                    self.flush(&mut path, line);
                    self.tokens(group.stream());
                }
                _ => self.flush(&mut path, line),
            }
            colons = 0;
        }
        self.flush(&mut path, line);
    }

    fn flush(&mut self, path: &mut Vec<String>, line: usize) {
        if !path.is_empty() {
            self.mention(std::mem::take(path), line);
        }
    }
}

impl<'ast> Visit<'ast> for Paths<'_> {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let line = path.segments.first().map_or(0, |segment| segment.ident.span().start().line);
        self.mention(names, line);
        visit::visit_path(self, path);
    }
    fn visit_macro(&mut self, found: &'ast syn::Macro) {
        self.tokens(found.tokens.clone());
        visit::visit_macro(self, found);
    }
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
}

fn children(sources: &Sources) -> Vec<Vec<usize>> {
    let mut children = vec![Vec::new(); sources.modules.len()];
    for (number, module) in sources.modules.iter().enumerate() {
        if let Some(parent) = module.parent {
            children[parent].push(number);
        }
    }
    children
}

/// The target of a path.
enum Target {
    Module(usize),
    Item(usize, String),
}

struct Resolver<'s> {
    sources: &'s Sources,
    scopes: Vec<Scope>,
    children: Vec<Vec<usize>>,
}

impl<'s> Resolver<'s> {
    fn new(sources: &'s Sources) -> Self {
        let scopes = sources.modules.iter().map(Scope::of).collect();
        let mut resolver = Self { sources, scopes, children: children(sources) };
        resolver.name_children();
        resolver
    }

    fn name_children(&mut self) {
        for (scope, children) in self.scopes.iter_mut().zip(&self.children) {
            for &child in children {
                if let Some(name) = self.sources.modules[child].path.last() {
                    scope.bind(name, Binding::Child(child));
                }
            }
        }
    }

    fn crate_of(&self, file: usize) -> Option<usize> {
        let module = self.sources.modules.iter().find(|module| module.file == file)?;
        Some(module.krate)
    }

    /// The items that a path in a module means, by file and name.
    fn items(&self, module: usize, path: &[String]) -> Vec<(usize, String)> {
        let mut seen = BTreeSet::new();
        let targets = self.resolve(module, path, &mut seen);
        let item = |target| match target {
            Target::Item(file, name) => Some((file, name)),
            Target::Module(_) => None,
        };
        targets.into_iter().filter_map(item).collect()
    }

    fn resolve(&self, module: usize, path: &[String], seen: &mut BTreeSet<(usize, String)>) -> Vec<Target> {
        let Some(first) = path.first() else { return Vec::new() };
        let here = &self.sources.modules[module];
        let mut targets = match first.as_str() {
            "crate" => vec![Target::Module(self.sources.crates[here.krate].root)],
            "self" => vec![Target::Module(module)],
            "super" => here.parent.map(Target::Module).into_iter().collect(),
            name => self.lookup(module, name, seen),
        };
        for name in &path[1..] {
            let mut next = Vec::new();
            // A function may share its name with the module: only the module is followed by `::`.
            if targets.iter().any(|target| matches!(target, Target::Module(_))) {
                targets.retain(|target| matches!(target, Target::Module(_)));
            }
            for target in targets {
                match target {
                    Target::Item(..) => next.push(target),
                    Target::Module(module) if name == "super" => {
                        next.extend(self.sources.modules[module].parent.map(Target::Module));
                    }
                    Target::Module(module) => next.extend(self.member(module, name, seen)),
                }
            }
            targets = next;
        }
        targets
    }

    /// The meaning of a name after a module's. What is not found there is made by a macro of the module.
    fn member(&self, module: usize, name: &str, seen: &mut BTreeSet<(usize, String)>) -> Vec<Target> {
        if seen.contains(&(module, name.to_owned())) {
            return Vec::new();
        }
        let targets = self.lookup(module, name, seen);
        if targets.is_empty() && !self.scopes[module].names.contains_key(name) {
            return vec![Target::Item(self.sources.modules[module].file, name.to_owned())];
        }
        targets
    }

    /// The meanings of a name in a module.
    fn lookup(&self, module: usize, name: &str, seen: &mut BTreeSet<(usize, String)>) -> Vec<Target> {
        if !seen.insert((module, name.to_owned())) {
            return Vec::new();
        }
        let scope = &self.scopes[module];
        let mut targets = Vec::new();
        for binding in scope.names.get(name).into_iter().flatten() {
            match binding {
                Binding::Own => {
                    targets.push(Target::Item(self.sources.modules[module].file, name.to_owned()));
                }
                Binding::Child(child) => targets.push(Target::Module(*child)),
                Binding::Use(path) => targets.extend(self.resolve(module, path, seen)),
            }
        }
        if targets.is_empty() {
            for glob in &scope.globs {
                let modules = self.resolve(module, glob, seen);
                for target in modules {
                    if let Target::Module(module) = target {
                        targets.extend(self.lookup(module, name, seen));
                    }
                }
            }
        }
        seen.remove(&(module, name.to_owned()));
        targets
    }
}
