//! Doc comments of items and how they open.

use crate::sources::{Sources, is_test, item_name};
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, Field, ImplItem, Item, ItemImpl, Lit, Meta, TraitItem, Variant};

/// Openings that make a reader look at the item itself.
const OPENINGS: &[&str] = &["What", "Whether", "Who", "Whom", "Whose", "Where", "How"];

/// The first line of an item's doc comment.
pub struct Doc {
    /// The line.
    pub text: String,
    /// The item's name.
    pub item: String,
    /// Its file.
    pub file: usize,
    /// Its line.
    pub line: usize,
}

impl Doc {
    /// Whether it opens with What, Whether, Who, Where or How.
    pub fn opens_with_question(&self) -> bool {
        let word: String = self.text.chars().take_while(|c| c.is_alphanumeric()).collect();
        OPENINGS.contains(&word.as_str())
    }

    /// Whether the item is a predicate, of which such a doc may say what it tells: `is_*` or `has_*`.
    pub fn is_predicate(&self) -> bool {
        self.item.starts_with("is_") || self.item.starts_with("has_")
    }
}

/// Collects the docs of all items, fields and variants of the shipped code.
pub fn docs(sources: &Sources) -> Vec<Doc> {
    let mut all = Vec::new();
    for module in sources.shipped() {
        let mut found = Found { docs: &mut all, file: module.file };
        for item in &module.items {
            found.visit_item(item);
        }
    }
    all
}

struct Found<'d> {
    docs: &'d mut Vec<Doc>,
    file: usize,
}

impl Found<'_> {
    fn add(&mut self, attributes: &[Attribute], item: &str) {
        for attribute in attributes {
            let Meta::NameValue(pair) = &attribute.meta else { continue };
            if !pair.path.is_ident("doc") {
                continue;
            }
            let Expr::Lit(literal) = &pair.value else { continue };
            let Lit::Str(text) = &literal.lit else { continue };
            let (file, item) = (self.file, item.to_owned());
            let line = text.span().start().line;
            self.docs.push(Doc { text: text.value().trim().to_owned(), item, file, line });
            return;
        }
    }
}

impl<'ast> Visit<'ast> for Found<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        self.add(crate::sources::attributes(item), &item_name(item));
        visit::visit_item(self, item);
    }
    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        if !is_test(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }
    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        match item {
            ImplItem::Fn(item) => self.add(&item.attrs, &item.sig.ident.to_string()),
            ImplItem::Const(item) => self.add(&item.attrs, &item.ident.to_string()),
            _ => {}
        }
        visit::visit_impl_item(self, item);
    }
    fn visit_trait_item(&mut self, item: &'ast TraitItem) {
        match item {
            TraitItem::Fn(item) => self.add(&item.attrs, &item.sig.ident.to_string()),
            TraitItem::Const(item) => self.add(&item.attrs, &item.ident.to_string()),
            TraitItem::Type(item) => self.add(&item.attrs, &item.ident.to_string()),
            _ => {}
        }
        visit::visit_trait_item(self, item);
    }
    fn visit_field(&mut self, field: &'ast Field) {
        let name = field.ident.as_ref().map_or_else(String::new, ToString::to_string);
        self.add(&field.attrs, &name);
    }
    fn visit_variant(&mut self, variant: &'ast Variant) {
        self.add(&variant.attrs, &variant.ident.to_string());
        visit::visit_variant(self, variant);
    }
}
