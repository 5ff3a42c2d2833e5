//! Inlay hints: the types of results that a text leaves out, what a wait waits for, and exposed time by the cost model.

use super::streams::StreamWork;
use super::types::type_text;
use crate::documents::Document;
use crate::session::RequestContext;
use crate::snapshot::TextSection;
use hostir::diag::Span;
use hostir::ir::{OpId, Program, Value, statement_label};
use hostir::symbols::SymbolKind;
use lsp_types::{InlayHint, InlayHintKind, InlayHintLabel, InlayHintParams, InlayHintTooltip};
use std::collections::BTreeMap;

/// The hints in a range of a document.
///
/// # Errors
/// None.
pub fn list_hints(context: &RequestContext<'_>, params: InlayHintParams) -> Result<Option<Vec<InlayHint>>, String> {
    if !context.settings.inlay_hints {
        return Ok(Some(Vec::new()));
    }
    let document = context.document();
    let range = document.positions.span_of(&document.text, params.range);
    let mut hints = Vec::new();
    for section in &context.snapshot.sections {
        hints.extend(type_hints(document, section, range));
        for program in &section.programs {
            hints.extend(wait_hints(document, section, program, range));
            hints.extend(sync_hints(document, section, program, range));
        }
    }
    hints.extend(exposed_hints(context, range));
    hints.sort_by_key(|hint| hint.position);
    Ok(Some(hints))
}

/// After each statement because of which ranks do not compute, for how long they do not. The text is proved then.
fn exposed_hints(context: &RequestContext<'_>, range: Span) -> Vec<InlayHint> {
    let Some(proof) = &context.open.proof else { return Vec::new() };
    let statements = proof.outcomes.times.iter().flat_map(|times| &times.exposed);
    let hints = statements.filter(|statement| is_inside(range, statement.span)).map(|statement| InlayHint {
        tooltip: Some(InlayHintTooltip::String(statement.about.clone())),
        ..hint(context.document(), statement.span.end, statement.label.clone(), None)
    });
    hints.collect()
}

fn is_inside(range: Span, place: Span) -> bool {
    range.start <= place.start && place.end <= range.end
}

/// `: f32[p, n]` after the name of a tensor whose type the reader has inferred. The printed form has all types.
fn type_hints(document: &Document, section: &TextSection, range: Span) -> Vec<InlayHint> {
    if !section.file.is_hir2() {
        return Vec::new();
    }
    let symbols = section.symbols().symbols().iter();
    let hints = symbols.filter(|symbol| symbol.kind == SymbolKind::Tensor).filter_map(|symbol| {
        let place = section.span_in_document(symbol.declaration);
        let after = &section.text[symbol.declaration.end as usize..];
        if !is_inside(range, place) || after.trim_start().starts_with(':') {
            return None;
        }
        let program = section.programs.get(symbol.program?)?;
        let text = type_text(program, *symbol.tensors.first()?);
        Some(hint(document, place.end, format!(": {text}"), Some(InlayHintKind::TYPE)))
    });
    hints.collect()
}

fn hint(document: &Document, offset: u32, label: String, kind: Option<InlayHintKind>) -> InlayHint {
    InlayHint {
        position: document.positions.position_of(offset),
        label: InlayHintLabel::String(label),
        kind,
        text_edits: None,
        tooltip: None,
        padding_left: Some(kind.is_none()),
        padding_right: None,
        data: None,
    }
}

/// After a `sync` the last statement on the stream that it waits for.
fn sync_hints(document: &Document, section: &TextSection, program: &Program, range: Span) -> Vec<InlayHint> {
    let work = StreamWork::from_program(program);
    let hints = work.syncs.iter().filter_map(|sync| {
        let span = program.op_span(sync.op);
        let place = section.span_in_document(span);
        // Loops on streams have waits of their own, which the text does not write.
        let is_written = section.text.get(span.as_usize_range()).is_some_and(is_sync);
        if !is_written || !section.is_own(span) || !is_inside(range, place) {
            return None;
        }
        Some(hint(document, place.end, statement_label(program, sync.last?), None))
    });
    hints.collect()
}

/// Returns true for the text of a statement that waits for a stream, in either notation.
fn is_sync(text: &str) -> bool {
    matches!(text.split_whitespace().next(), Some("sync" | "Synchronize"))
}

/// After a wait on a line of its own, the communications that it waits for.
fn wait_hints(document: &Document, section: &TextSection, program: &Program, range: Span) -> Vec<InlayHint> {
    let (mut started, mut waits): (BTreeMap<u32, Vec<OpId>>, Vec<OpId>) = Default::default();
    let (mut group, mut in_group): (Vec<OpId>, bool) = (Vec::new(), false);
    program.walk_with_units(&mut |id| {
        let op = program.op(id);
        if op.kind.is_wait() {
            waits.push(id);
        } else if op.kind.is_post() {
            if in_group {
                group.push(id);
            } else if let Some(number) = op.number() {
                started.entry(number).or_default().push(id);
            }
        } else if op.kind.is_group_start() {
            (in_group, group) = (true, Vec::new());
        } else if op.kind.is_group_end() {
            in_group = false;
            started.entry(op.number().unwrap_or_default()).or_default().append(&mut group);
        }
    });
    let hints = waits.into_iter().filter_map(|wait| {
        let span = program.op_span(wait);
        let place = section.span_in_document(span);
        let handles = program.op(wait).operands.iter().filter_map(|value| match value {
            Value::Handle(number) => started.get(number),
            _ => None,
        });
        // A communication in the statement of its wait is in front of the reader's eyes.
        let others = handles.flatten().filter(|op| !is_inside(span, program.op_span(**op)));
        let labels: Vec<String> = others.map(|op| statement_label(program, *op)).collect();
        if labels.is_empty() || !section.is_own(span) || !is_inside(range, place) {
            return None;
        }
        let more = if labels.len() > 3 { format!(", and {} more", labels.len() - 3) } else { String::new() };
        let text = format!("{}{more}", labels.iter().take(3).cloned().collect::<Vec<_>>().join(", "));
        Some(hint(document, place.end, text, None))
    });
    hints.collect()
}
