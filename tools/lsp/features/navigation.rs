//! Definitions, references, highlights and renames.

use crate::documents::Document;
use crate::session::RequestContext;
use crate::settings::RunValues;
use crate::snapshot::TextSection;
use hostir::diag::fix::apply_edits;
use hostir::diag::{Diag, Severity, Span, TextEdit};
use hostir::hir2::is_hir2;
use hostir::symbols::NamedSymbol;
use lsp_types::{
    DocumentHighlight, DocumentHighlightParams, GotoDefinitionParams, GotoDefinitionResponse, Location, Position,
    PrepareRenameResponse, ReferenceParams, RenameParams, TextDocumentPositionParams, WorkspaceEdit,
};
use std::collections::HashMap;

/// A name at a position.
pub struct NameAtPosition<'a> {
    /// The text that it is in.
    pub section: &'a TextSection,
    /// Its place there.
    pub place: Span,
    /// The thing that it stands for.
    pub symbol: &'a NamedSymbol,
}

/// The name at a position of the document.
pub fn name_at<'a>(context: &RequestContext<'a>, position: Position) -> Option<NameAtPosition<'a>> {
    let document = context.document();
    let offset = document.positions.offset_of(&document.text, position);
    let section = context.snapshot.section_at(offset);
    let (place, symbol) = section.symbols().place_at(section.offset_in(offset))?;
    Some(NameAtPosition { section, place, symbol })
}

impl NameAtPosition<'_> {
    fn location_of(&self, document: &Document, place: Span) -> Location {
        let span = self.section.span_in_document(place);
        Location::new(document.uri.clone(), document.positions.range_of(span))
    }
}

/// The place that declares the name at a position.
///
/// # Errors
/// None.
pub fn find_definition(
    context: &RequestContext<'_>,
    params: GotoDefinitionParams,
) -> Result<Option<GotoDefinitionResponse>, String> {
    let found = name_at(context, params.text_document_position_params.position);
    let location = found.map(|found| found.location_of(context.document(), found.symbol.declaration));
    Ok(location.map(GotoDefinitionResponse::Scalar))
}

/// All places of the name at a position.
///
/// # Errors
/// None.
pub fn find_references(context: &RequestContext<'_>, params: ReferenceParams) -> Result<Option<Vec<Location>>, String> {
    let Some(found) = name_at(context, params.text_document_position.position) else { return Ok(None) };
    let with_declaration = params.context.include_declaration;
    let places = found.symbol.places.iter().filter(|place| with_declaration || **place != found.symbol.declaration);
    Ok(Some(places.map(|place| found.location_of(context.document(), *place)).collect()))
}

/// The same places, which a client highlights.
///
/// # Errors
/// None.
pub fn find_highlights(
    context: &RequestContext<'_>,
    params: DocumentHighlightParams,
) -> Result<Option<Vec<DocumentHighlight>>, String> {
    let Some(found) = name_at(context, params.text_document_position_params.position) else { return Ok(None) };
    let places = found
        .symbol
        .places
        .iter()
        .map(|place| DocumentHighlight { range: found.location_of(context.document(), *place).range, kind: None });
    Ok(Some(places.collect()))
}

/// The range of the name that a rename would change.
///
/// # Errors
/// If the name is another file's.
pub fn prepare_rename(
    context: &RequestContext<'_>,
    params: TextDocumentPositionParams,
) -> Result<Option<PrepareRenameResponse>, String> {
    let Some(found) = name_at(context, params.position) else { return Ok(None) };
    check_own(&found)?;
    Ok(Some(PrepareRenameResponse::RangeWithPlaceholder {
        range: found.location_of(context.document(), found.place).range,
        placeholder: found.symbol.name.clone(),
    }))
}

/// The edits that give the name at a position another name. The text with these edits is read: a name that would bring
/// an error, or that has another meaning there, is refused.
///
/// # Errors
/// If there is no name, or the new one cannot be its name.
pub fn rename(context: &RequestContext<'_>, params: RenameParams) -> Result<Option<WorkspaceEdit>, String> {
    let Some(found) = name_at(context, params.text_document_position.position) else {
        return Err("there is no name here".to_owned());
    };
    check_own(&found)?;
    check_free(&found, &params.new_name)?;
    let places = found.symbol.places.iter();
    let edits: Vec<TextEdit> = places.map(|place| TextEdit { span: *place, text: params.new_name.clone() }).collect();
    check_renamed(&found, &edits, &context.snapshot.values, &params.new_name)?;
    let document = context.document();
    let edits =
        edits.into_iter().map(|edit| lsp_types::TextEdit::new(found.location_of(document, edit.span).range, edit.text));
    Ok(Some(WorkspaceEdit::new(HashMap::from([(document.uri.clone(), edits.collect())]))))
}

/// A kernel that is imported has its name from its own file.
fn check_own(found: &NameAtPosition<'_>) -> Result<(), String> {
    let before = &found.section.text[..found.symbol.declaration.start as usize];
    let line = before.rsplit('\n').next().unwrap_or_default();
    match line.split_whitespace().next() == Some("import") {
        true => Err(format!("`{}` is declared in the file that it is imported from", found.symbol.name)),
        false => Ok(()),
    }
}

/// A name that something else has, in a scope that shares a place with this one, is taken.
fn check_free(found: &NameAtPosition<'_>, name: &str) -> Result<(), String> {
    let mut others = found.section.symbols().symbols().iter();
    match others.any(|other| other.name == name && share_scope(other, found.symbol)) {
        true => Err(format!("`{name}` is taken")),
        false => Ok(()),
    }
}

/// True if a place may be in the scopes of both names.
fn share_scope(one: &NamedSymbol, other: &NamedSymbol) -> bool {
    match (one.scope, other.scope) {
        (Some(a), Some(b)) => a.start < b.end && b.start < a.end,
        _ => true,
    }
}

fn errors_of(diags: &[Diag]) -> impl Iterator<Item = &Diag> {
    diags.iter().filter(|diag| diag.severity == Severity::Error)
}

fn check_renamed(found: &NameAtPosition<'_>, edits: &[TextEdit], values: &RunValues, name: &str) -> Result<(), String> {
    let section = found.section;
    let text = apply_edits(&section.text, edits).ok_or("the places of the name overlap")?;
    let renamed = TextSection::read_linked(text, &values.read_options());
    if errors_of(&renamed.diags).count() > errors_of(&section.diags).count() {
        let placed = renamed.place_diags(&renamed.diags);
        let first = errors_of(&placed).next();
        return Err(
            first.map_or_else(|| format!("`{name}` cannot be its name"), |diag| diag.message.as_str().to_owned())
        );
    }
    // The same name must stand at the same places, and nothing else may have it.
    let symbols = renamed.symbols().symbols().iter();
    let again = symbols.filter(|symbol| symbol.name == name && symbol.kind == found.symbol.kind);
    match again.into_iter().any(|symbol| symbol.places.len() == found.symbol.places.len()) {
        true => Ok(()),
        false => Err(format!("`{name}` would mean something else {}", words_for(section))),
    }
}

fn words_for(section: &TextSection) -> &'static str {
    if is_hir2(&section.text) { "at one of its places" } else { "there: a tensor is `T` and its number" }
}
