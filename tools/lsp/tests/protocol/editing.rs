//! Formatting and code actions.

use crate::client::{Client, file, untitled, with_edits};
use lsp_types::request::{CodeActionRequest, Formatting};
use lsp_types::{
    CodeAction, CodeActionContext, CodeActionOrCommand, CodeActionParams, DocumentFormattingParams, FormattingOptions,
    Range, TextDocumentIdentifier, TextEdit, Uri,
};
use serde_json::json;

fn format(client: &mut Client, uri: &Uri) -> Option<Vec<TextEdit>> {
    client.request::<Formatting>(DocumentFormattingParams {
        text_document: TextDocumentIdentifier::new(uri.clone()),
        options: FormattingOptions::default(),
        work_done_progress_params: Default::default(),
    })
}

#[test]
fn formatting_writes_the_canonical_layout() {
    let text = "hir 2\n// é𝄞\nf( A:f32[n] )->(B : f32[n]):\n    B=relu( A ) // é𝄞\n";
    let mut client = Client::start(&json!({ "proof": false }));
    client.open(&untitled(), text);
    let edits = format(&mut client, &untitled()).unwrap();
    let expected = "hir 2\n\n// é𝄞\nf(A: f32[n]) -> (B: f32[n]):\n  B = relu(A)  // é𝄞\n";
    let formatted = with_edits(text, &edits);
    assert_eq!(formatted, hostir::hir2::format_text(text).unwrap());
    assert_eq!(formatted.replace(' ', ""), expected.replace(' ', ""));
    client.change(&untitled(), 1, None, &formatted);
    assert_eq!(format(&mut client, &untitled()), Some(Vec::new()));
    // A wrong text, and the printed form, stay as they are.
    client.change(&untitled(), 2, None, "hir 2\nf( A:f32[n] )->():\n  B=(A\n");
    assert_eq!(format(&mut client, &untitled()), None);
    client.finish();
}

/// The fixes of all diagnostics of a document.
pub(crate) fn actions(client: &mut Client, uri: &Uri, range: Range) -> Vec<CodeAction> {
    let answer = client.request::<CodeActionRequest>(CodeActionParams {
        text_document: TextDocumentIdentifier::new(uri.clone()),
        range,
        context: CodeActionContext::default(),
        work_done_progress_params: Default::default(),
        partial_result_params: Default::default(),
    });
    let actions = answer.unwrap_or_default().into_iter().map(|action| match action {
        CodeActionOrCommand::CodeAction(action) => action,
        CodeActionOrCommand::Command(command) => panic!("a command: {command:?}"),
    });
    actions.collect()
}

fn apply(text: &str, uri: &Uri, action: CodeAction) -> String {
    with_edits(text, &action.edit.unwrap().changes.unwrap()[uri])
}

#[test]
fn a_misspelt_name_is_mended() {
    let text = "hir 2\n\nf(A: f32[n]) -> (B: f32[n]):\n  B = Relu(A)\n";
    let mut client = Client::start(&json!({ "proof": false }));
    client.open(&untitled(), text);
    let found = client.diagnostics(&untitled(), 0);
    let action = actions(&mut client, &untitled(), found[0].range).remove(0);
    assert_eq!(action.diagnostics, Some(vec![found[0].clone()]));
    let mended = apply(text, &untitled(), action);
    assert_eq!(mended, text.replace("Relu", "relu"));
    client.change(&untitled(), 1, None, &mended);
    assert_eq!(client.diagnostics(&untitled(), 1), []);
    client.finish();
}

#[test]
fn a_race_is_mended_by_a_proved_fix() {
    let (uri, text) = file("docs/tutorial/race.hir");
    let mut client = Client::start(&json!({}));
    client.open(&uri, &text);
    let found = client.proved_diagnostics(&uri);
    let place = found.iter().find(|one| one.message.contains("wait")).unwrap_or(&found[0]).range;
    let mut actions = actions(&mut client, &uri, place);
    actions.retain(|action| action.is_preferred == Some(true));
    let mended = apply(&text, &uri, actions.remove(0));
    client.change(&uri, 1, None, &mended);
    let after = client.proved_diagnostics(&uri);
    assert_eq!(after, [], "{mended}");
    client.finish();
}
