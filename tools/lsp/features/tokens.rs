//! Semantic tokens: what each name is, which a grammar of the editor cannot know.

use crate::session::RequestContext;
use crate::snapshot::TextSection;
use hostir::ParsedFile;
use hostir::diag::Span;
use hostir::symbols::SymbolKind;
use hostir_grammar::ast::StmtShape;
use hostir_grammar::hir2::ast::ExprNode;
use lsp_types::{
    SemanticToken, SemanticTokenModifier, SemanticTokenType, SemanticTokens, SemanticTokensLegend,
    SemanticTokensParams, SemanticTokensResult,
};

/// The types of tokens, by their numbers.
const TYPES: &[SemanticTokenType] = &[
    SemanticTokenType::VARIABLE,
    SemanticTokenType::PARAMETER,
    SemanticTokenType::EVENT,
    SemanticTokenType::NAMESPACE,
    SemanticTokenType::FUNCTION,
    SemanticTokenType::MACRO,
    SemanticTokenType::TYPE,
];

/// The number of the type of calls of ops.
const OP: u32 = 5;

/// The bit of a name's declaration.
const DECLARATION: u32 = 1;

/// The types and modifiers, as the server announces them.
pub fn token_legend() -> SemanticTokensLegend {
    SemanticTokensLegend { token_types: TYPES.to_vec(), token_modifiers: vec![SemanticTokenModifier::DECLARATION] }
}

/// A name with the number of its type.
struct TypedToken {
    place: Span,
    number: u32,
    modifiers: u32,
}

/// The tokens of a document in the order of its text.
///
/// # Errors
/// None.
pub fn list_tokens(
    context: &RequestContext<'_>,
    _: SemanticTokensParams,
) -> Result<Option<SemanticTokensResult>, String> {
    let positions = &context.document().positions;
    let (mut line, mut column) = (0, 0);
    let mut data = Vec::new();
    for section in &context.snapshot.sections {
        for token in section_tokens(section) {
            let range = positions.range_of(section.span_in_document(token.place));
            let delta_line = range.start.line - line;
            let delta_start = if delta_line == 0 { range.start.character - column } else { range.start.character };
            (line, column) = (range.start.line, range.start.character);
            data.push(SemanticToken {
                delta_line,
                delta_start,
                length: range.end.character.saturating_sub(range.start.character),
                token_type: token.number,
                token_modifiers_bitset: token.modifiers,
            });
        }
    }
    Ok(Some(SemanticTokensResult::Tokens(SemanticTokens { result_id: None, data })))
}

/// Names, and calls that are no kernels'. They do not overlap.
fn section_tokens(section: &TextSection) -> Vec<TypedToken> {
    let names = section.symbols().places().map(|(place, symbol)| TypedToken {
        place,
        number: type_number(symbol.kind),
        modifiers: if place == symbol.declaration { DECLARATION } else { 0 },
    });
    let mut tokens: Vec<TypedToken> = names.collect();
    let ops = op_places(section).into_iter().filter(|place| section.is_own(*place));
    tokens.extend(ops.map(|place| TypedToken { place, number: OP, modifiers: 0 }));
    // Of a name and an op at one place, the name comes first and counts.
    tokens.sort_by_key(|token| (token.place.start, token.number == OP));
    let mut end = 0;
    tokens.retain(|token| {
        let is_after = token.place.start >= end && token.place.start < token.place.end;
        if is_after {
            end = token.place.end;
        }
        is_after
    });
    tokens
}

fn type_number(kind: SymbolKind) -> u32 {
    match kind {
        SymbolKind::Tensor | SymbolKind::Unknown => 0,
        SymbolKind::Scalar | SymbolKind::Index | SymbolKind::Size => 1,
        SymbolKind::Handle => 2,
        SymbolKind::Stream | SymbolKind::Mesh => 3,
        SymbolKind::Kernel | SymbolKind::Program => 4,
    }
}

/// The places of the words of calls.
fn op_places(section: &TextSection) -> Vec<Span> {
    match &*section.file {
        ParsedFile::Hir2(file) => {
            let calls = file.exprs.iter().filter_map(|(node, _)| match node {
                ExprNode::Call(name, _) => Some(name.span),
                _ => None,
            });
            calls.collect()
        }
        ParsedFile::Printed(tree) => {
            let calls = tree.stmts.iter().filter(|stmt| matches!(stmt.shape, StmtShape::Call | StmtShape::Words));
            calls.map(|stmt| stmt.name_span).collect()
        }
    }
}
