//! Host IR: a language for host programs that drive several devices, with a verifier, plans and backends.
//!
//! Data flows in one direction: text -> AST (`hostir_grammar`) -> [`resolve`] -> [`ir`] -> [`verify`] -> passes
//! -> [`mod@print`] or [`plan`] -> [`backend`].

pub mod analysis;
pub mod axes;
pub mod backend;
pub mod data;
pub mod diag;
pub mod ir;
pub mod lower;
pub mod ops;
pub mod plan;
pub mod plan_checks;
pub mod print;
pub mod resolve;
pub mod style;
pub mod verify;

use diag::{Diag, DiagLabel, Diags};
use hostir_grammar::SyntaxError;

/// Reads a text. Returns one program for each container, and all diagnostics in text order.
///
/// Never fails: if there are errors, the programs hold everything that could be read.
pub fn load(text: &str) -> (Vec<ir::Program>, Diags) {
    let parsed = hostir_grammar::parse(text);
    let mut diags = Diags { items: parsed.errors.into_iter().map(syntax_error).collect() };
    let containers = 0..parsed.ast.containers.len();
    let programs = containers.map(|at| resolve::resolve(&parsed.ast, at, text, &mut diags)).collect();
    diags.sort_by_place();
    (programs, diags)
}

/// Converts an error of the grammar to a diagnostic.
pub fn syntax_error(error: SyntaxError) -> Diag {
    let labels = error.others.into_iter().map(|other| DiagLabel { span: other.span, text: other.text });
    let mut diag = Diag::error(error.code, error.span, error.message).with_primary_text(error.label);
    diag.labels.extend(labels);
    diag.notes = error.notes;
    diag
}
