//! Host IR text: bytes to tokens, tokens to statements, statements to a syntax tree.
//!
//! Parsing never fails: [`parse`] returns a tree and the errors it met, one per bad statement.

pub mod ast;
pub mod error;
pub mod span;

pub use ast::Ast;
pub use error::SyntaxError;
pub use span::Span;

/// What [`parse`] returns.
#[derive(Debug, Default)]
pub struct Parsed {
    /// The tree; statements with errors are [`ast::Shape::Error`].
    pub ast: Ast,
    /// Errors in order of appearance.
    pub errors: Vec<SyntaxError>,
}
