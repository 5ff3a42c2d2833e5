//! Completion: the names that can be meant, and the words of the op table with their forms.

use super::types::type_text;
use super::words::{LanguageWord, is_in_comment, language_words};
use crate::session::RequestContext;
use crate::snapshot::TextSection;
use hostir::hir2::is_hir2;
use hostir::symbols::{NamedSymbol, SymbolKind};
use lsp_types::{
    CompletionItem, CompletionItemKind, CompletionList, CompletionParams, CompletionResponse, Documentation,
    MarkupContent, MarkupKind,
};

/// The names in scope at a position, then the words of the language. The client chooses by what was typed.
///
/// # Errors
/// None.
pub fn list_completions(
    context: &RequestContext<'_>,
    params: CompletionParams,
) -> Result<Option<CompletionResponse>, String> {
    let document = context.document();
    let offset = document.positions.offset_of(&document.text, params.text_document_position.position);
    let section = context.snapshot.section_at(offset);
    if is_in_comment(&document.text, offset) {
        return Ok(None);
    }
    let offset = section.offset_in(offset);
    let names = section.symbols().visible_at(offset);
    let names = names.filter(|symbol| is_name(symbol) && !is_typed_now(symbol, offset));
    let mut items: Vec<CompletionItem> = names.map(|symbol| name_item(section, symbol)).collect();
    items.sort_by(|a, b| a.label.cmp(&b.label));
    items.dedup_by(|a, b| a.label == b.label);
    let ops = context.snapshot.values.ops;
    match is_hir2(&section.text) {
        true => items.extend(language_words(ops).into_iter().map(word_item)),
        false => items.extend(ops.head_words().map(|word| CompletionItem {
            label: word.to_owned(),
            kind: Some(CompletionItemKind::FUNCTION),
            ..CompletionItem::default()
        })),
    }
    Ok(Some(CompletionResponse::List(CompletionList { is_incomplete: false, items })))
}

fn is_name(symbol: &NamedSymbol) -> bool {
    !symbol.name.starts_with(|first: char| first.is_ascii_digit())
}

/// Returns true for the word that is being typed, if it occurs nowhere else.
fn is_typed_now(symbol: &NamedSymbol, offset: u32) -> bool {
    matches!(symbol.places[..], [place] if place.start <= offset && offset <= place.end)
}

fn name_item(section: &TextSection, symbol: &NamedSymbol) -> CompletionItem {
    let program = symbol.program.and_then(|number| section.programs.get(number));
    let tensor = symbol.tensors.first().copied();
    CompletionItem {
        label: symbol.name.clone(),
        kind: Some(match symbol.kind {
            SymbolKind::Tensor => CompletionItemKind::VARIABLE,
            SymbolKind::Kernel | SymbolKind::Program => CompletionItemKind::FUNCTION,
            SymbolKind::Handle => CompletionItemKind::EVENT,
            SymbolKind::Mesh | SymbolKind::Size => CompletionItemKind::CONSTANT,
            SymbolKind::Stream => CompletionItemKind::FIELD,
            SymbolKind::Scalar | SymbolKind::Index | SymbolKind::Unknown => CompletionItemKind::VALUE,
        }),
        detail: program.zip(tensor).map(|(program, tensor)| type_text(program, tensor)),
        // Names come before words.
        sort_text: Some(format!("0{}", symbol.name)),
        ..CompletionItem::default()
    }
}

fn word_item(word: LanguageWord) -> CompletionItem {
    let first = word.forms.lines().next().unwrap_or_default().to_owned();
    let value = format!("```hir\n{}\n```\n\n{}\n", word.forms, word.summary);
    CompletionItem {
        sort_text: Some(format!("1{}", word.word)),
        label: word.word,
        kind: Some(if word.is_statement { CompletionItemKind::KEYWORD } else { CompletionItemKind::FUNCTION }),
        detail: Some(first),
        documentation: Some(Documentation::MarkupContent(MarkupContent { kind: MarkupKind::Markdown, value })),
        ..CompletionItem::default()
    }
}
