//! The outline of a document: its programs with their names, and the ranges that a client may fold.

use crate::documents::Document;
use crate::session::RequestContext;
use crate::snapshot::TextSection;
use hostir::ParsedFile;
use hostir::diag::Span;
use hostir::symbols::{NamedSymbol, SymbolKind};
use hostir_grammar::ast::SyntaxTree;
use hostir_grammar::hir2::ast::{FileSyntax, ItemSyntax, StmtForm};
use lsp_types::{
    DocumentSymbol, DocumentSymbolParams, DocumentSymbolResponse, FoldingRange, FoldingRangeKind, FoldingRangeParams,
};

/// Meshes, kernels and programs, with the tensors, communications and streams that each declares.
///
/// # Errors
/// None.
pub fn list_symbols(
    context: &RequestContext<'_>,
    _: DocumentSymbolParams,
) -> Result<Option<DocumentSymbolResponse>, String> {
    let document = context.document();
    let sections = context.snapshot.sections.iter();
    let symbols = sections.flat_map(|section| section_symbols(document, section)).collect();
    Ok(Some(DocumentSymbolResponse::Nested(symbols)))
}

/// A program, kernel or mesh of a text, or a name that one of them declares.
struct OutlineItem {
    name: String,
    kind: lsp_types::SymbolKind,
    whole: Span,
    header: Span,
}

fn section_symbols(document: &Document, section: &TextSection) -> Vec<DocumentSymbol> {
    let items = match &*section.file {
        ParsedFile::Hir2(file) => items_of_hir2(file),
        ParsedFile::Printed(tree) => items_of_printed(tree),
    };
    let own = items.into_iter().filter(|item| section.is_own(item.whole));
    let symbols = own.map(|item| {
        let inner = section.symbols().symbols().iter().filter(|symbol| is_declared_in(symbol, item.whole));
        let inner = inner.filter_map(|symbol| Some(document_symbol(document, section, inner_item(symbol)?)));
        let inner: Vec<DocumentSymbol> = inner.collect();
        DocumentSymbol { children: (!inner.is_empty()).then_some(inner), ..document_symbol(document, section, item) }
    });
    symbols.collect()
}

fn is_declared_in(symbol: &NamedSymbol, whole: Span) -> bool {
    symbol.scope.is_some() && whole.start <= symbol.declaration.start && symbol.declaration.end <= whole.end
}

/// The item of a name that a program or kernel declares; `None` for names that an outline leaves out.
fn inner_item(symbol: &NamedSymbol) -> Option<OutlineItem> {
    let kind = match symbol.kind {
        SymbolKind::Tensor => lsp_types::SymbolKind::ARRAY,
        SymbolKind::Handle => lsp_types::SymbolKind::EVENT,
        SymbolKind::Stream => lsp_types::SymbolKind::OBJECT,
        SymbolKind::Scalar => lsp_types::SymbolKind::NUMBER,
        _ => return None,
    };
    let name = match symbol.name.starts_with(|first: char| first.is_ascii_digit()) {
        true => format!("Communication {}", symbol.name),
        false => symbol.name.clone(),
    };
    Some(OutlineItem { name, kind, whole: symbol.declaration, header: symbol.declaration })
}

#[expect(deprecated, reason = "the protocol's type still has the field, which must be given")]
fn document_symbol(document: &Document, section: &TextSection, item: OutlineItem) -> DocumentSymbol {
    let OutlineItem { name, kind, whole, header } = item;
    let range = document.positions.range_of(section.span_in_document(whole));
    let selection_range = document.positions.range_of(section.span_in_document(header));
    DocumentSymbol { name, detail: None, kind, tags: None, deprecated: None, range, selection_range, children: None }
}

fn items_of_hir2(file: &FileSyntax) -> Vec<OutlineItem> {
    let items = file.items.iter().filter_map(|item| {
        let (kind, whole, name) = match item {
            ItemSyntax::Import(_) => return None,
            ItemSyntax::Mesh(mesh) => (lsp_types::SymbolKind::CONSTANT, mesh.span.join(mesh.name.span), mesh.name),
            ItemSyntax::Kernel(item) => (lsp_types::SymbolKind::METHOD, item.span, item.name),
            ItemSyntax::Program(item) => (lsp_types::SymbolKind::FUNCTION, item.span, item.name),
        };
        Some(OutlineItem { name: file.symbol_text(name.name).to_owned(), kind, whole, header: name.span })
    });
    items.collect()
}

fn items_of_printed(tree: &SyntaxTree) -> Vec<OutlineItem> {
    let mut items = Vec::new();
    for (at, node) in tree.containers.iter().enumerate() {
        let name = node.given_name.map(|name| tree.symbol_text(name).to_owned());
        items.push(OutlineItem {
            name: name.unwrap_or_else(|| format!("program {}", at + 1)),
            kind: lsp_types::SymbolKind::FUNCTION,
            whole: node.span.join(node.header),
            header: node.header,
        });
    }
    items
}

/// Blocks and programs, and runs of comments.
///
/// # Errors
/// None.
pub fn list_folds(context: &RequestContext<'_>, _: FoldingRangeParams) -> Result<Option<Vec<FoldingRange>>, String> {
    let document = context.document();
    let mut folds = Vec::new();
    for section in &context.snapshot.sections {
        let spans = match &*section.file {
            ParsedFile::Hir2(file) => folds_of_hir2(file),
            ParsedFile::Printed(tree) => folds_of_printed(tree),
        };
        let own = spans.into_iter().filter(|span| section.is_own(*span));
        folds.extend(own.filter_map(|span| fold(document, section.span_in_document(span))));
    }
    folds.extend(comment_folds(&document.text));
    folds.sort_by_key(|fold| (fold.start_line, fold.end_line));
    folds.dedup_by_key(|fold| (fold.start_line, fold.end_line));
    Ok(Some(folds))
}

/// The lines of a place, if there are several.
fn fold(document: &Document, span: Span) -> Option<FoldingRange> {
    let text = document.text.get(span.as_usize_range())?;
    let end = span.start + text.trim_end().len() as u32;
    let (start_line, end_line) =
        (document.positions.position_of(span.start).line, document.positions.position_of(end).line);
    (start_line < end_line).then(|| FoldingRange { start_line, end_line, ..FoldingRange::default() })
}

/// Programs, and statements with their blocks.
fn folds_of_hir2(file: &FileSyntax) -> Vec<Span> {
    let items = file.items.iter().filter_map(|item| match item {
        ItemSyntax::Kernel(item) | ItemSyntax::Program(item) => Some(item.span),
        ItemSyntax::Import(_) | ItemSyntax::Mesh(_) => None,
    });
    let statements = file.stmts.iter().flat_map(|stmt| {
        let blocks = match stmt.form {
            StmtForm::For { body, .. } => [Some(body), None],
            StmtForm::If { then, otherwise, .. } => [Some(then), otherwise],
            StmtForm::Stream(_, block) => [block, None],
            StmtForm::Define(block) | StmtForm::Share(block) => [Some(block), None],
            _ => [None, None],
        };
        let spans = blocks.into_iter().flatten().map(|block| file.blocks[block.index()].span);
        spans.map(move |block| stmt.span.join(block))
    });
    items.chain(statements).collect()
}

fn folds_of_printed(tree: &SyntaxTree) -> Vec<Span> {
    let programs = tree.containers.iter().map(|node| node.span.join(node.header));
    let units = tree.containers.iter().flat_map(|node| &node.units).map(|unit| unit.span);
    let statements = tree.stmts.iter().flat_map(|stmt| {
        let blocks = [stmt.body, stmt.else_body].into_iter().flatten();
        blocks.map(|block| stmt.span.join(tree.blocks[block.index()].span))
    });
    programs.chain(units).chain(statements).collect()
}

/// Runs of lines that are comments.
fn comment_folds(text: &str) -> Vec<FoldingRange> {
    let (mut folds, mut start) = (Vec::new(), None);
    let lines = text.lines().chain([""]);
    for (number, line) in (0..).zip(lines) {
        match (line.trim_start().starts_with("//"), start) {
            (true, None) => start = Some(number),
            (false, Some(first)) => {
                if first + 1 < number {
                    folds.push(FoldingRange {
                        start_line: first,
                        end_line: number - 1,
                        kind: Some(FoldingRangeKind::Comment),
                        ..FoldingRange::default()
                    });
                }
                start = None;
            }
            _ => {}
        }
    }
    folds
}
