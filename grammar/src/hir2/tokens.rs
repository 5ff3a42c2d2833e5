//! The tokens of a whole text in `hir 2`, and the limits of its parser, for the grammar that checks the parser.

use super::head::find_head_fault;
use super::stream::{ErrorList, LexerSinks, TokenStream};
use crate::ast::StringInterner;
use crate::error::SyntaxError;

pub use super::habits::foreign_statement_note;
pub use super::head::minor_version;
pub use super::items::MAX_DEVICES;
pub use super::meshes::GRID_AXES;
pub use super::token::{LineTok, LineToken, has_own_comma};
pub use crate::limits::MAX_DEVICE;
pub use crate::nesting::{MAX_BRACKETS, MAX_DEPTH};
pub use crate::parse::MAX_BLOCKS;

/// The tokens of a text.
#[derive(Debug)]
pub struct TokenList {
    /// The tokens; the last one is [`LineTok::End`].
    pub tokens: Vec<LineToken>,
    /// The strings of their symbols.
    pub strings: StringInterner,
    /// Errors of the first line, and of characters that begin no token.
    pub errors: Vec<SyntaxError>,
}

/// Reads the tokens of a text.
///
/// ```
/// use hostir_grammar::hir2::tokens::{LineTok, read_tokens};
///
/// let list = read_tokens("hir 2\n  wait h // all");
/// let columns: Vec<u32> = list.tokens.iter().filter(|token| token.starts_line()).map(|token| token.column).collect();
/// assert_eq!(columns, [0, 2, 0]);
/// assert_eq!(list.tokens.last().map(|token| token.tok), Some(LineTok::End));
/// ```
pub fn read_tokens(text: &str) -> TokenList {
    let (mut strings, mut errors) = (StringInterner::default(), ErrorList::default());
    if let Some(fault) = find_head_fault(text) {
        errors.add_error(fault.to_error(text));
    }
    let mut stream = TokenStream::new(text, 0, LexerSinks { strings: &mut strings, errors: &mut errors });
    let mut tokens = vec![stream.window[0]];
    while stream.window[0].tok != LineTok::End {
        stream.advance(LexerSinks { strings: &mut strings, errors: &mut errors });
        tokens.push(stream.window[0]);
    }
    TokenList { tokens, strings, errors: errors.items }
}
