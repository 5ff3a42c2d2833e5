//! A server whose texts may name an op of a caller.

use crate::assistance::complete;
use crate::client::{Client, end_of, start_of, untitled};
use crate::names::hover;
use hostir::ir::OpIdentity;
use hostir::ops::{ArgKind, ArgSpec, Infer, OpRegistry, OpSpec, result_types};
use lsp_types::DiagnosticSeverity;
use serde_json::json;

static TWIST: OpSpec = OpSpec {
    identity: OpIdentity { name: "twist", spec: Some(&TWIST), ..OpIdentity::TENSOR_OP },
    summary: "Twists its operand.",
    args: &[ArgSpec::operand(ArgKind::Tensor)],
    infer: Infer::Result(result_types::infer_copy),
    ..OpSpec::TENSOR_OP
};

static WITH_TWIST: OpRegistry = OpRegistry::with_ops(&[TWIST.kind()]);

const TEXT: &str = "\
hir 2

twisted(A: f32[4]) -> (B: f32[4]):
  B = twist(A)
";

#[test]
fn callers_ops_are_known() {
    let mut client = Client::start_with_ops(&json!({ "proof": false }), WITH_TWIST);
    client.open(&untitled(), TEXT);
    assert_eq!(client.diagnostics(&untitled(), 0), []);
    let shown = hover(&mut client, &untitled(), start_of(TEXT, "twist(")).unwrap();
    assert!(shown.contains("T = twist(A)") && shown.contains("Twists its operand."), "{shown}");
    let items = complete(&mut client, &untitled(), end_of(TEXT, "B = tw"));
    assert!(items.iter().any(|item| item.label == "twist"));
    client.finish();
}

#[test]
fn another_server_does_not_know_them() {
    let mut client = Client::start(&json!({ "proof": false }));
    client.open(&untitled(), TEXT);
    let found = client.diagnostics(&untitled(), 0);
    assert_eq!(found[0].severity, Some(DiagnosticSeverity::ERROR));
    client.finish();
}
