//! Code lenses: the verdict of the proof and the time by the cost model above each program.

use crate::documents::Document;
use crate::model_times::ModelTimes;
use crate::session::RequestContext;
use hostir::diag::Span;
use lsp_types::{CodeLens, CodeLensParams, Command};
use serde_json::json;

/// The command that proves a document again; its argument is the URI.
pub const PROVE: &str = "hir.prove";

/// The command that shows the timeline of a program; its arguments are the URI and the numbers of text and program.
pub const TIMELINE: &str = "hir.timeline";

/// Lenses above each program: its verdict, or that the proof is under way, and the time of a proved one.
///
/// # Errors
/// None.
pub fn list_lenses(context: &RequestContext<'_>, _: CodeLensParams) -> Result<Option<Vec<CodeLens>>, String> {
    if !context.settings.proof {
        return Ok(Some(Vec::new()));
    }
    let document = context.document();
    let lenses = match &context.open.proof {
        Some(proof) => {
            let verdicts = &proof.outcomes.verdicts;
            let proved = verdicts.iter().map(|verdict| proof_lens(document, verdict.header, verdict.title.clone()));
            proved.chain(proof.outcomes.times.iter().map(|times| timeline_lens(document, times))).collect()
        }
        None => {
            let sections = context.snapshot.sections.iter().filter(|section| !section.has_errors());
            let headers = sections.flat_map(|section| {
                let programs = section.programs.iter();
                programs.map(|program| section.span_in_document(program.source().header))
            });
            headers.map(|header| proof_lens(document, header, "proving ..".to_owned())).collect()
        }
    };
    Ok(Some(lenses))
}

/// A lens with this title, which proves the document again.
fn proof_lens(document: &Document, header: Span, title: String) -> CodeLens {
    let arguments = vec![json!(document.uri.as_str())];
    command_lens(document, header, Command { title, command: PROVE.to_owned(), arguments: Some(arguments) })
}

/// A lens with the time of a program, which shows its timeline.
fn timeline_lens(document: &Document, times: &ModelTimes) -> CodeLens {
    let arguments = vec![json!(document.uri.as_str()), json!(times.place.section), json!(times.place.program)];
    let title = format!("timeline: {}", times.title);
    command_lens(document, times.header, Command { title, command: TIMELINE.to_owned(), arguments: Some(arguments) })
}

fn command_lens(document: &Document, header: Span, command: Command) -> CodeLens {
    CodeLens { range: document.positions.range_of(header), command: Some(command), data: None }
}
