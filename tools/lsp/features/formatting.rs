//! Formatting: the layout that `hir-opt --format` writes.

use crate::publish::protocol_edit;
use crate::session::RequestContext;
use crate::snapshot::TextSection;
use hostir::diag::TextEdit;
use hostir::diag::fix::line_edits;
use hostir::hir2::{format_text, is_hir2};
use lsp_types::DocumentFormattingParams;

/// The edits that give a document in `hir 2` its canonical layout, by lines, so that the client keeps the cursor. None
/// for a text with errors and for the printed form, which has no layout of its own.
///
/// # Errors
/// None.
pub fn format_document(
    context: &RequestContext<'_>,
    _: DocumentFormattingParams,
) -> Result<Option<Vec<lsp_types::TextEdit>>, String> {
    let edits: Option<Vec<Vec<TextEdit>>> = context.snapshot.sections.iter().map(format_section).collect();
    let edits = edits.map(|edits| edits.iter().flatten().map(|edit| protocol_edit(context.document(), edit)).collect());
    Ok(edits)
}

fn format_section(section: &TextSection) -> Option<Vec<TextEdit>> {
    if section.has_errors() || !is_hir2(&section.text) {
        return None;
    }
    let formatted = format_text(&section.text).ok()?;
    let mut edits = line_edits(section.own_text(), &formatted);
    edits.iter_mut().for_each(|edit| edit.span = section.span_in_document(edit.span));
    Some(edits)
}
