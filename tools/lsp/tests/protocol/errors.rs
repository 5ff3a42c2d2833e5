//! Requests that cannot be answered, and messages in the wrong order.

use crate::client::{Client, untitled};
use lsp_server::ErrorCode;
use serde_json::{Value, json};

fn error_code(client: &mut Client, method: &str, params: Value) -> i32 {
    client.ask(method, params).expect_err("no answer").code
}

#[test]
fn bad_requests_are_answered_with_errors() {
    let mut client = Client::start(&json!({ "sizes": "none" }));
    let invalid = ErrorCode::InvalidParams as i32;
    assert_eq!(error_code(&mut client, "hir/none", json!({})), ErrorCode::MethodNotFound as i32);
    assert_eq!(error_code(&mut client, "textDocument/formatting", json!({ "textDocument": 3 })), invalid);
    assert_eq!(error_code(&mut client, "textDocument/formatting", Value::Null), invalid);
    let unknown = json!({
        "textDocument": { "uri": "untitled:unknown" },
        "options": { "tabSize": 2, "insertSpaces": true },
    });
    assert_eq!(error_code(&mut client, "textDocument/formatting", unknown), invalid);
    client.finish();
}

#[test]
fn bad_notices_are_ignored() {
    let mut client = Client::start(&json!(17));
    client.notify("textDocument/didOpen", json!({ "textDocument": { "uri": 3 } }));
    client.notify("textDocument/didChange", Value::Null);
    client.notify("workspace/didChangeConfiguration", json!({ "settings": null }));
    client.notify("textDocument/unheardOf", json!([]));
    client.close(&untitled());
    client.change(&untitled(), 4, None, "hir 2\n");
    client.open(&untitled(), "hir 2\nf( -> ():\n");
    assert_ne!(client.diagnostics(&untitled(), 0), []);
    client.finish();
}

#[test]
fn cancelled_requests_are_not_answered() {
    let mut client = Client::start(&json!({ "proof": false }));
    // The server reads this text first, while the messages after it arrive.
    let statements = "  B = relu(A)\n".repeat(20_000);
    client.open(&untitled(), &format!("hir 2\n\nf(A: f32[n]) -> (B: f32[n]):\n{statements}"));
    let params = json!({
        "textDocument": { "uri": "untitled:one" },
        "options": { "tabSize": 2, "insertSpaces": true },
    });
    let first = client.send("textDocument/formatting", params.clone());
    let second = client.send("textDocument/formatting", params);
    client.notify("$/cancelRequest", json!({ "id": second }));
    assert!(client.answer(first).is_ok());
    assert_eq!(client.answer(second).expect_err("it is cancelled").code, ErrorCode::RequestCanceled as i32);
    client.finish();
}

#[test]
fn nothing_is_answered_after_shutdown() {
    let mut client = Client::start(&json!({}));
    assert!(client.ask("shutdown", Value::Null).is_ok());
    assert_eq!(error_code(&mut client, "textDocument/formatting", json!({})), ErrorCode::InvalidRequest as i32);
    client.notify("exit", Value::Null);
}
