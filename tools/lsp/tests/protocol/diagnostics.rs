//! Diagnostics: those of the tools, at the right places, for the right version of a text.

use crate::client::{Client, end_of, file, range_of, root, start_of, untitled};
use lsp_types::{Diagnostic, DiagnosticSeverity, NumberOrString, Position, Range};
use serde_json::json;

fn codes(diagnostics: &[Diagnostic]) -> Vec<String> {
    let codes = diagnostics.iter().map(|diagnostic| match &diagnostic.code {
        Some(NumberOrString::String(code)) => code.clone(),
        other => panic!("no code: {other:?}"),
    });
    codes.collect()
}

/// Errors of syntax, of names and of ops, and an output that nothing writes.
const WRONG: &str = "hir 2\n\nf(A: f32[n]) -> (B: f32[n], C: f32[n]):\n  B = rel(A)\n  free Q\n  C = = A\n";

#[test]
fn errors_have_code_place_and_severity() {
    let mut client = Client::start(&json!({ "docs": "https://example.org/docs" }));
    client.open(&untitled(), WRONG);
    let found = client.diagnostics(&untitled(), 0);
    assert_eq!(codes(&found)[0], "H0101");
    assert_eq!(found[0].range.start, start_of(WRONG, "rel"));
    assert!(found.iter().all(|one| one.severity == Some(DiagnosticSeverity::ERROR)));
    assert!(found.iter().any(|one| one.range.start.line == 4), "{found:?}");
    assert!(found.iter().any(|one| one.range.start.line == 5), "{found:?}");
    let page = found[0].code_description.as_ref().unwrap().href.as_str().to_owned();
    assert_eq!(page, "https://example.org/docs/errors/H0101.md");
    client.finish();
}

#[test]
fn pages_of_codes_may_be_those_of_a_site() {
    let mut client = Client::start(&json!({ "docs": "https://example.org/{code}.html" }));
    client.open(&untitled(), WRONG);
    let found = client.diagnostics(&untitled(), 0);
    let page = found[0].code_description.as_ref().unwrap().href.as_str().to_owned();
    assert_eq!(page, "https://example.org/H0101.html");
    client.finish();
}

#[test]
fn other_places_are_related() {
    let text = "hir 2\n\nf(A: f32[n]) -> (A: f32[n]):\n  A = relu(A)\n";
    let mut client = Client::start(&json!({}));
    client.open(&untitled(), text);
    let found = client.diagnostics(&untitled(), 0);
    let related = found[0].related_information.as_ref().unwrap();
    assert_eq!(related[0].location.uri, untitled());
    assert_eq!(related[0].location.range.start, start_of(text, "A: f32"));
    client.finish();
}

#[test]
fn columns_count_utf16() {
    let text = "hir 2.1\n\nf(A: f32[n]) -> (B: f32[n]):\n  assert n > 1, \"é𝄞\" ]\n  B = relu(A)\n";
    let mut client = Client::start(&json!({}));
    client.open(&untitled(), text);
    let found = client.diagnostics(&untitled(), 0);
    assert_eq!(found[0].range.start, start_of(text, "]\n  B"));
    // The bracket goes, and a character of two units comes in front of where it was.
    client.change(&untitled(), 1, Some(range_of(text, " ]")), "");
    assert_eq!(client.diagnostics(&untitled(), 1), []);
    let inside = range_of(text, "𝄞");
    client.change(&untitled(), 2, Some(Range::new(inside.start, inside.start)), "𝄞𝄞");
    assert_eq!(client.diagnostics(&untitled(), 2), []);
    let end = end_of(text, "𝄞\"");
    let moved = Position::new(end.line, end.character + 4);
    client.change(&untitled(), 3, Some(Range::new(moved, moved)), " ]");
    let found = client.diagnostics(&untitled(), 3);
    assert_eq!(found[0].range.start, Position::new(moved.line, moved.character + 1));
    client.finish();
}

#[test]
fn a_closed_document_has_none() {
    let mut client = Client::start(&json!({}));
    client.open(&untitled(), WRONG);
    assert_ne!(client.diagnostics(&untitled(), 0), []);
    client.close(&untitled());
    // An answer comes after what was published before.
    let _ = client.ask("hir/none", json!({}));
    assert_eq!(client.published(&untitled()).unwrap().diagnostics, []);
    client.finish();
}

#[test]
fn proofs_find_races_and_deadlocks() {
    let mut client = Client::start(&json!({}));
    for (path, code) in [("docs/tutorial/race.hir", "H0701"), ("docs/examples/deadlock.hir", "H0510")] {
        let (uri, text) = file(path);
        client.open(&uri, &text);
        assert_eq!(client.diagnostics(&uri, 0), [], "{path} reads");
        let found = client.proved_diagnostics(&uri);
        assert!(codes(&found).iter().any(|found| found == code), "{path}: {:?}", codes(&found));
    }
    client.finish();
}

/// The programs that a new user meets have nothing to say, in either notation.
#[test]
fn right_programs_have_none() {
    let mut client = Client::start(&json!({ "sizes": { "*": 8 } }));
    for folder in ["docs/tutorial", "docs/examples", "docs/examples/printed", "docs/statements"] {
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            if path.extension().is_none_or(|end| end != "hir") || ["race", "deadlock"].contains(&name.as_str()) {
                continue;
            }
            let (uri, text) = file(path.to_str().unwrap());
            client.open(&uri, &text);
            let found = client.proved_diagnostics(&uri);
            let errors = found.iter().filter(|one| one.severity == Some(DiagnosticSeverity::ERROR));
            assert_eq!(errors.count(), 0, "{}: {found:?}", path.display());
            client.close(&uri);
        }
    }
    client.finish();
}

/// A loop of exchanges whose receive has no partner if `p` is odd.
const PAIRS: &str = "\
hir 2.1
mesh d = 0..p

pairs(X: f32[x:p, n]) -> (R: f32[x:p, n]) on d:
  R = alloc
  h = { send(X, to=(rank + 1) % p); recv(R, from=(rank + 1) % p) }
  wait h
";

#[test]
fn sizes_come_from_run_lines_and_settings() {
    let mut client = Client::start(&json!({}));
    client.open(&untitled(), PAIRS);
    assert_eq!(client.diagnostics(&untitled(), 0), []);
    // Without sizes nothing is proved, which is no mistake of the text.
    assert_eq!(client.proved_diagnostics(&untitled()), []);
    let with_run_line = format!("{PAIRS}// RUN: hir-run %s --set p=2 --set n=4\n");
    client.change(&untitled(), 1, None, &with_run_line);
    assert_eq!(client.proved_diagnostics(&untitled()), []);
    let settings = json!({ "settings": { "hir": { "sizes": { "p": 3, "n": 4 } } } });
    client.notify("workspace/didChangeConfiguration", settings);
    assert_ne!(client.proved_diagnostics(&untitled()), []);
    client.finish();
}

#[test]
fn imports_are_read_from_open_documents_and_files() {
    let (uri, _) = file("docs/tutorial/1_collective.hir");
    let folder = uri.as_str().rsplit_once('/').unwrap().0.to_owned();
    let main = "hir 2.1\nimport twice from \"lib.hir\"\n\nf(A: f32[n]) -> (B: f32[n]):\n  B = twice(A)\n";
    let [lib, user] = ["lib.hir", "user.hir"].map(|name| format!("{folder}/{name}").parse().unwrap());
    let mut client = Client::start(&json!({ "proof": false }));
    client.open(&user, main);
    let found = client.diagnostics(&user, 0);
    assert_eq!(found[0].range.start.line, 1, "no such file: {found:?}");
    client.open(&lib, "hir 2.1\nkernel twice(X: f32[n]) -> (Y: f32[n]):\n  Y = X + X\n");
    let _ = client.ask("hir/none", json!({}));
    let _ = client.diagnostics(&lib, 0);
    client.change(&user, 1, None, main);
    assert_eq!(client.diagnostics(&user, 1), []);
    // An error in the other file is at its import.
    client.change(&lib, 1, None, "hir 2.1\nkernel twice(X: f32[n]) -> (Y: f32[n]):\n  Y = foo(X)\n");
    client.change(&user, 2, None, main);
    let found = client.diagnostics(&user, 2);
    assert_eq!(found[0].range, range_of(main, "\"lib.hir\""), "{found:?}");
    client.finish();
}

#[test]
fn divided_texts_are_read_apart() {
    let text = "\
// RUN: hir-opt %s --split-input-file
hir 2

f(A: f32[n]) -> (B: f32[n]):
  B = relu(A)
// -----
hir 2

f(A: f32[n]) -> (B: f32[n]):
  B = rela(A)
";
    let mut client = Client::start(&json!({ "proof": false }));
    client.open(&untitled(), text);
    let found = client.diagnostics(&untitled(), 0);
    assert_eq!(codes(&found).len(), 1, "{found:?}");
    assert_eq!(found[0].range.start, start_of(text, "rela"));
    client.finish();
}
