//! Code lenses: the verdict of the proof above each program.

use crate::documents::Document;
use crate::session::RequestContext;
use hostir::diag::Span;
use lsp_types::{CodeLens, CodeLensParams, Command};
use serde_json::json;

/// The command that proves a document again; its argument is the URI.
pub const PROVE: &str = "hir.prove";

/// The command with which a client shows the timeline of a document; its argument is the URI.
pub const TIMELINE: &str = "hir.timeline";

/// A lens above each program: its verdict, or that the proof is under way. A client that shows timelines has one for
/// that, too.
///
/// # Errors
/// None.
pub fn list_lenses(context: &RequestContext<'_>, _: CodeLensParams) -> Result<Option<Vec<CodeLens>>, String> {
    if !context.settings.proof {
        return Ok(Some(Vec::new()));
    }
    let document = context.document();
    let mut lenses: Vec<CodeLens> = match &context.open.proof {
        Some(proof) => {
            proof.verdicts.iter().map(|verdict| lens(document, verdict.header, verdict.title.clone())).collect()
        }
        None => {
            let sections = context.snapshot.sections.iter().filter(|section| !section.has_errors());
            let headers = sections.flat_map(|section| {
                let programs = section.programs.iter();
                programs.map(|program| section.span_in_document(program.source().header))
            });
            headers.map(|header| lens(document, header, "proving ..".to_owned())).collect()
        }
    };
    if context.settings.timeline_lens {
        let timelines: Vec<CodeLens> = lenses.iter().map(timeline_beside).collect();
        lenses.extend(timelines);
    }
    Ok(Some(lenses))
}

/// A lens beside another one, which shows the timeline.
fn timeline_beside(lens: &CodeLens) -> CodeLens {
    let command = lens.command.clone();
    let command = command.map(|prove| Command { title: "timeline".to_owned(), command: TIMELINE.to_owned(), ..prove });
    CodeLens { command, ..lens.clone() }
}

/// A lens with this title, which proves the document again.
fn lens(document: &Document, header: Span, title: String) -> CodeLens {
    CodeLens {
        range: document.positions.range_of(header),
        command: Some(Command {
            title,
            command: PROVE.to_owned(),
            arguments: Some(vec![json!(document.uri.as_str())]),
        }),
        data: None,
    }
}
