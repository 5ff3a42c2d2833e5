//! The grammar of `hir 2`, `hir2.lalrpop`, as a parser. It accepts or rejects a text and builds the same tree as
//! [`hostir_grammar::hir2::parse`], which the tools use for its messages. Tests compare the two.
//!
//! Both read the tokens of one lexer. The tree of the grammar has no comments.

pub mod dump;
mod hir2;
pub mod layout;
pub mod token;
pub mod tree;

use hostir_grammar::MAX_TEXT;
use hostir_grammar::hir2::ast::{FileSyntax, ItemSyntax};
use hostir_grammar::hir2::tokens::read_tokens;

/// The text of the grammar, from which docs/language.md is printed.
pub const GRAMMAR: &str = include_str!("hir2.lalrpop");

/// The tree of a text; `None` if the text is not in the language. The text has no texts of imported files after it, as
/// a bundle has.
///
/// ```
/// let text = "hir 2\nf(A: f32[m]) -> (B: f32[m]):\n  B = A + f32(1)\n";
/// assert!(hostir_grammar_reference::parse(text).is_some());
/// assert!(hostir_grammar_reference::parse(&text.replace('=', ":=")).is_none());
/// ```
pub fn parse(text: &str) -> Option<FileSyntax> {
    if text.len() > MAX_TEXT {
        return None;
    }
    let list = read_tokens(text);
    if !list.errors.is_empty() {
        return None;
    }
    let mut builder = tree::TreeBuilder::new(text, list.strings);
    let terminals = layout::Layout::new(text, &list.tokens, &mut builder.file.strings).lay_out();
    let parsed = hir2::FileParser::new().parse(&mut builder, terminals.into_iter().map(Ok));
    let file = builder.file;
    let has_program = file.items.iter().any(|item| matches!(item, ItemSyntax::Program(_)));
    (parsed.is_ok() && has_program).then_some(file)
}
