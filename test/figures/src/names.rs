//! Words in names of functions, types, fields, variants and parameters, and names that are used more than once.

use crate::sources::{Module, Sources, is_test};
use std::collections::BTreeMap;
use syn::visit::{self, Visit};
use syn::{Field, FnArg, ImplItem, ImplItemFn, Item, ItemFn, ItemImpl, ItemTrait, Pat, Signature};
use syn::{TraitItemFn, Variant, Visibility};

/// A name with its place.
pub struct Name {
    /// The name.
    pub text: String,
    /// Its file.
    pub file: usize,
    /// Its line.
    pub line: usize,
    /// Its crate's number.
    pub krate: usize,
    /// True if code outside of its module may use it by this name.
    pub visible: bool,
}

/// Function names that the standard library's traits and collections give their meaning.
const STANDARD_FUNCTIONS: &[&str] = &[
    "clear", "clone", "cmp", "contains", "default", "deref", "drop", "eq", "extend", "fmt", "from", "get", "hash",
    "index", "insert", "into", "iter", "len", "main", "new", "next", "pop", "push", "remove",
];

/// Type names that each crate may have for itself, in one word.
const ALLOWED_TYPES: &[&str] = &["Error", "Options", "Config", "Builder"];

/// Names of the shipped code.
#[derive(Default)]
pub struct Names {
    /// Functions, those of the standard library's names and of trait impls left out.
    pub functions: Vec<Name>,
    /// Structs, enums, unions, traits and type aliases; allowed names and associated types left out.
    pub types: Vec<Name>,
    /// Fields of structs and variants, and the variants.
    pub members: Vec<Name>,
    /// Parameters of functions, those of trait impls too.
    pub parameters: Vec<Name>,
}

impl Names {
    /// Collects the names of all shipped modules.
    pub fn of(sources: &Sources) -> Self {
        let mut names = Self::default();
        let mut loaded: BTreeMap<(usize, &str), usize> = BTreeMap::new();
        for module in sources.shipped() {
            // A module of two declarations, one without a feature, is loaded twice: `#[path]` is not followed.
            let place = (module.krate, sources.files[module.file].path.as_str());
            if *loaded.entry(place).or_insert(module.file) != module.file {
                continue;
            }
            let mut found = Found { names: &mut names, module, trait_visible: false };
            for item in &module.items {
                found.visit_item(item);
            }
        }
        names
    }

    /// Functions with one-word names.
    pub fn short_functions(&self) -> Vec<&Name> {
        self.functions.iter().filter(|name| snake_words(&name.text) == 1).collect()
    }

    /// Types with one-word names.
    pub fn short_types(&self) -> Vec<&Name> {
        self.types.iter().filter(|name| camel_words(&name.text) == 1).collect()
    }

    /// Types whose name another type of their crate has.
    pub fn repeated_in_crate(&self) -> Vec<&Name> {
        let mut counts: BTreeMap<(usize, &str), usize> = BTreeMap::new();
        for name in &self.types {
            *counts.entry((name.krate, &name.text)).or_default() += 1;
        }
        self.types.iter().filter(|name| counts[&(name.krate, name.text.as_str())] > 1).collect()
    }

    /// Types whose name another type of the workspace has.
    pub fn repeated_types(&self) -> Vec<&Name> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for name in &self.types {
            *counts.entry(&name.text).or_default() += 1;
        }
        self.types.iter().filter(|name| counts[name.text.as_str()] > 1).collect()
    }
}

/// `lower_cat` has two words.
pub fn snake_words(name: &str) -> usize {
    name.split('_').filter(|word| !word.is_empty()).count()
}

/// The words of a name in small letters: `AwaitReady` and `await_ready` have the same two.
pub fn lowercase_words(name: &str) -> Vec<String> {
    let mut words = Vec::new();
    for part in name.split('_') {
        let mut word = String::new();
        let mut after_small = false;
        for letter in part.chars() {
            if letter.is_uppercase() && after_small {
                words.push(std::mem::take(&mut word));
            }
            after_small = !letter.is_uppercase();
            word.extend(letter.to_lowercase());
        }
        if !word.is_empty() {
            words.push(word);
        }
    }
    words
}

/// `HostTensor` has two words, and so has `DType`; `TF32` has one.
pub fn camel_words(name: &str) -> usize {
    let letters: Vec<char> = name.chars().collect();
    let starts = letters.iter().enumerate().filter(|(at, letter)| {
        let next_is_lower = letters.get(at + 1).is_some_and(|next| next.is_lowercase());
        let after_lower = *at > 0 && !letters[at - 1].is_uppercase();
        letter.is_uppercase() && (*at == 0 || next_is_lower || after_lower)
    });
    starts.count().max(1)
}

struct Found<'n, 'm> {
    names: &'n mut Names,
    module: &'m Module,
    /// The visibility of the trait around.
    trait_visible: bool,
}

impl Found<'_, '_> {
    fn place_of(&self, ident: &syn::Ident, visible: bool) -> Name {
        let line = ident.span().start().line;
        Name { text: ident.to_string(), file: self.module.file, line, krate: self.module.krate, visible }
    }

    fn function(&mut self, ident: &syn::Ident, visible: bool) {
        let name = self.place_of(ident, visible);
        if !STANDARD_FUNCTIONS.contains(&name.text.as_str()) {
            self.names.functions.push(name);
        }
    }

    fn named_type(&mut self, ident: &syn::Ident, visibility: &Visibility) {
        let name = self.place_of(ident, is_visible(visibility));
        if !ALLOWED_TYPES.contains(&name.text.as_str()) {
            self.names.types.push(name);
        }
    }
}

impl Found<'_, '_> {
    fn member(&mut self, ident: &syn::Ident) {
        let name = self.place_of(ident, true);
        self.names.members.push(name);
    }

    fn parameters(&mut self, signature: &Signature) {
        for argument in &signature.inputs {
            if let FnArg::Typed(argument) = argument
                && let Pat::Ident(pattern) = &*argument.pat
            {
                let name = self.place_of(&pattern.ident, false);
                self.names.parameters.push(name);
            }
        }
    }
}

/// Whether code outside of a module sees an item of it.
fn is_visible(visibility: &Visibility) -> bool {
    !matches!(visibility, Visibility::Inherited)
}

impl<'ast> Visit<'ast> for Found<'_, '_> {
    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Struct(item) => self.named_type(&item.ident, &item.vis),
            Item::Enum(item) => self.named_type(&item.ident, &item.vis),
            Item::Union(item) => self.named_type(&item.ident, &item.vis),
            Item::Trait(item) => self.named_type(&item.ident, &item.vis),
            Item::Type(item) => self.named_type(&item.ident, &item.vis),
            _ => {}
        }
        visit::visit_item(self, item);
    }
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        if !is_test(&item.attrs) {
            self.function(&item.sig.ident, is_visible(&item.vis));
            self.parameters(&item.sig);
            visit::visit_item_fn(self, item);
        }
    }
    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        // The names of a trait's functions and types are the trait's; items in bodies are not.
        if item.trait_.is_none() {
            visit::visit_item_impl(self, item);
            return;
        }
        for method in &item.items {
            if let ImplItem::Fn(method) = method {
                self.parameters(&method.sig);
            }
        }
    }
    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.function(&item.sig.ident, is_visible(&item.vis));
        self.parameters(&item.sig);
        visit::visit_impl_item_fn(self, item);
    }
    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        let around = std::mem::replace(&mut self.trait_visible, is_visible(&item.vis));
        visit::visit_item_trait(self, item);
        self.trait_visible = around;
    }
    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        self.function(&item.sig.ident, self.trait_visible);
        self.parameters(&item.sig);
        visit::visit_trait_item_fn(self, item);
    }
    fn visit_field(&mut self, field: &'ast Field) {
        if let Some(ident) = &field.ident {
            self.member(ident);
        }
    }
    fn visit_variant(&mut self, variant: &'ast Variant) {
        self.member(&variant.ident);
        visit::visit_variant(self, variant);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted() {
        let snake = ["place", "_of", "lower_cat", "is_a_b"].map(snake_words);
        assert_eq!(snake, [1, 1, 2, 3]);
        let camel = ["View", "HostTensor", "DType", "TF32", "InstKind", "GPUList"].map(camel_words);
        assert_eq!(camel, [1, 2, 2, 1, 2, 2]);
    }

    #[test]
    fn words_are_written_in_small_letters() {
        let words = ["done_mark", "AwaitReady", "_of", "TF32", "DType"].map(lowercase_words);
        assert_eq!(words.map(|words| words.join(" ")), ["done mark", "await ready", "of", "tf32", "dtype"]);
    }
}
