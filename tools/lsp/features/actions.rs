//! Code actions: the fixes of diagnostics.

use crate::publish::{diag_range, protocol_diagnostic, protocol_edits};
use crate::session::RequestContext;
use hostir::diag::{Applicability, Diag, Fix};
use lsp_types::{
    CodeAction, CodeActionKind, CodeActionOrCommand, CodeActionParams, CodeActionResponse, Range, WorkspaceEdit,
};
use std::collections::HashMap;

/// The fixes of the diagnostics that touch a range. Those that a tool may apply are preferred.
///
/// # Errors
/// None.
pub fn list_actions(
    context: &RequestContext<'_>,
    params: CodeActionParams,
) -> Result<Option<CodeActionResponse>, String> {
    let wants_fixes = params
        .context
        .only
        .as_ref()
        .is_none_or(|kinds| kinds.iter().any(|kind| kind.as_str().is_empty() || *kind == CodeActionKind::QUICKFIX));
    if !wants_fixes {
        return Ok(Some(Vec::new()));
    }
    let document = context.document();
    let near = context.open.diags().iter().filter(|diag| overlap(diag_range(document, diag), params.range));
    let actions = near.flat_map(|diag| {
        let fixes = diag.fixes.iter().filter(|fix| !fix.edits.is_empty());
        fixes.map(|fix| CodeActionOrCommand::CodeAction(fix_action(context, diag, fix)))
    });
    Ok(Some(actions.collect()))
}

fn overlap(a: Range, b: Range) -> bool {
    a.start <= b.end && b.start <= a.end
}

fn fix_action(context: &RequestContext<'_>, diag: &Diag, fix: &Fix) -> CodeAction {
    let document = context.document();
    let edits = protocol_edits(document, fix);
    let title = fix.message.as_str();
    CodeAction {
        title: match fix.applicability {
            Applicability::MachineApplicable => title.to_owned(),
            _ => format!("perhaps {title}"),
        },
        kind: Some(CodeActionKind::QUICKFIX),
        diagnostics: Some(vec![protocol_diagnostic(document, diag, context.settings.docs.as_deref())]),
        edit: Some(WorkspaceEdit::new(HashMap::from([(document.uri.clone(), edits)]))),
        is_preferred: Some(fix.is_machine_applicable()),
        ..CodeAction::default()
    }
}
