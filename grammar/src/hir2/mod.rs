//! `hir 2`, the form of host programs that people write: bytes to tokens, tokens to statements, statements to a tree,
//! by recursive descent.

pub mod ast;
mod blocks;
pub mod bundle;
mod control;
pub mod division;
mod element_types;
mod elif_chain;
mod expr;
mod habit_notes;
mod habits;
mod head;
mod imports;
mod items;
mod known;
mod launch;
mod line_habits;
mod meshes;
mod parser;
mod part_context;
mod reparse;
mod restarts;
mod stmt;
mod stream;
mod token;
pub mod tokens;
mod type_habits;
mod types;

use crate::error::{Code, SyntaxError};
use crate::limits::MAX_TEXT;
use crate::span::Span;
use ast::FileSyntax;
use head::HeadFault;
pub use head::is_hir2;
pub use reparse::reparse;

/// The result of [`parse`].
#[derive(Debug, Default)]
pub struct Hir2Output {
    /// The tree; statements with errors are [`ast::StmtForm::Error`].
    pub file: FileSyntax,
    /// Errors in order of appearance.
    pub errors: Vec<SyntaxError>,
}

/// Reads a text in `hir 2`, and the texts that follow it in a bundle. Parsing never fails: the tree holds what could be
/// read. Lines of other languages are one error each, also those that the grammar accepts, such as `wait 1`.
pub fn parse(text: &str) -> Hir2Output {
    let Hir2Output { mut file, mut errors } = parse_by_grammar(text);
    let (exprs, stmts) = (0..file.exprs.len(), 0..file.stmts.len());
    line_habits::finish_tree(text, &mut file, &mut errors, exprs, stmts);
    Hir2Output { file, errors }
}

/// The same, with an error only where the grammar (`grammar/reference/src/hir2.lalrpop`) has one.
pub fn parse_by_grammar(text: &str) -> Hir2Output {
    if text.len() > MAX_TEXT {
        let message = format!("the text has more than {} MiB", MAX_TEXT >> 20);
        let errors = vec![SyntaxError::new(Code::TooLarge, Span::default(), message)];
        return Hir2Output { file: FileSyntax::default(), errors };
    }
    let parts = bundle::bundle_parts(text);
    let mut parser = parser::Parser::new(&text[..parts.first().map_or(text.len(), |part| part.line)]);
    parser.parse_file();
    let (mut file, mut errors) = (parser.file, parser.errors);
    parts.iter().for_each(|part| imports::read_part(text, part, &mut file, &mut errors));
    let mut errors = errors.items;
    match head::find_head_fault(text) {
        // Its other characters do not matter.
        Some(HeadFault::Misspelt(line)) => errors
            .retain(|error| error.code == Code::Version.text() || !(line.start..line.end).contains(&error.span.start)),
        // Nobody knows what a newer version permits.
        Some(HeadFault::Newer(_)) => errors.retain(|error| error.code == Code::Version.text()),
        Some(HeadFault::Missing(_)) | None => {}
    }
    Hir2Output { file, errors }
}
