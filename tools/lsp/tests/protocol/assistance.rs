//! Completion, semantic tokens, inlay hints and code lenses.

use crate::client::{Client, byte_of, end_of, file, place, range_of, untitled};
use crate::names::hover;
use lsp_types::request::{CodeLensRequest, Completion, InlayHintRequest, SemanticTokensFullRequest};
use lsp_types::{
    CodeLensParams, CompletionItem, CompletionParams, CompletionResponse, InlayHintLabel, InlayHintParams, Position,
    Range, SemanticTokensParams, SemanticTokensResult, TextDocumentIdentifier, Uri,
};
use serde_json::json;

const TEXT: &str = "\
hir 2.1
sizes p=4, n=8
mesh d = 0..p

kernel twice(X: f32[n]) -> (Y: f32[n]):
  Y = X + X

gathered(X: f32[x:p, n]) -> (G: f32[p, n], S: f32[n]) on d:
  G = alloc
  S = alloc
  h = allgather(X -> G)
  g = { allreduce(X -> S) }
  wait h
  wait g
  V = twice(S)  // é
  W = relu(V)
";

pub(crate) fn complete(client: &mut Client, uri: &Uri, position: Position) -> Vec<CompletionItem> {
    let answer = client.request::<Completion>(CompletionParams {
        text_document_position: place(uri, position),
        work_done_progress_params: Default::default(),
        partial_result_params: Default::default(),
        context: None,
    });
    match answer {
        Some(CompletionResponse::List(list)) => list.items,
        Some(CompletionResponse::Array(_)) => panic!("no list"),
        None => Vec::new(),
    }
}

#[test]
fn completion_has_names_and_ops_with_their_forms() {
    let mut client = Client::start(&json!({ "proof": false }));
    client.open(&untitled(), TEXT);
    let items = complete(&mut client, &untitled(), end_of(TEXT, "W = relu("));
    let find = |label: &str| items.iter().find(|item| item.label == label);
    assert_eq!(find("V").unwrap().detail.as_deref(), Some("f32[n]"));
    assert_eq!(find("G").unwrap().detail.as_deref(), Some("f32[p, n]"));
    for name in ["twice", "h", "d", "n", "p"] {
        assert!(find(name).is_some(), "{name}");
    }
    // The output of the kernel is no name here.
    assert!(find("Y").is_none());
    for (word, form) in [("matmul", "T = matmul(A, B)"), ("allgather", "h = allgather(A -> T"), ("wait", "wait h")] {
        let item = find(word).unwrap();
        assert!(item.detail.as_deref().unwrap().starts_with(form), "{item:?}");
        assert!(item.documentation.is_some());
    }
    assert_eq!(complete(&mut client, &untitled(), end_of(TEXT, "// ")), []);
    client.finish();
}

#[test]
fn completion_in_the_printed_form() {
    let (uri, text) = file("docs/examples/printed/allgather.hir");
    let mut client = Client::start(&json!({ "proof": false }));
    client.open(&uri, &text);
    let items = complete(&mut client, &uri, end_of(&text, "ALLOCATE("));
    assert!(items.iter().any(|item| item.label == "T1"));
    assert!(items.iter().any(|item| item.label == "P2PCommunication"));
    client.finish();
}

#[test]
fn tokens_say_what_names_are() {
    let mut client = Client::start(&json!({ "proof": false }));
    client.open(&untitled(), TEXT);
    let answer = client.request::<SemanticTokensFullRequest>(SemanticTokensParams {
        text_document: TextDocumentIdentifier::new(untitled()),
        work_done_progress_params: Default::default(),
        partial_result_params: Default::default(),
    });
    let Some(SemanticTokensResult::Tokens(tokens)) = answer else { panic!("no tokens") };
    let (mut line, mut column) = (0, 0);
    let mut found = Vec::new();
    for token in tokens.data {
        column = if token.delta_line > 0 { token.delta_start } else { column + token.delta_start };
        line += token.delta_line;
        let start = byte_of(TEXT, Position::new(line, column));
        let end = byte_of(TEXT, Position::new(line, column + token.length));
        found.push((line, TEXT[start..end].to_owned(), token.token_type, token.token_modifiers_bitset));
    }
    let of_line = |wanted: u32| found.iter().filter(move |(line, ..)| *line == wanted).cloned().collect::<Vec<_>>();
    let token = |line: u32, text: &str, number: u32, declared: u32| (line, text.to_owned(), number, declared);
    assert_eq!(of_line(2), [token(2, "d", 3, 1), token(2, "p", 1, 0)]);
    let expected = [token(10, "h", 2, 1), token(10, "allgather", 5, 0), token(10, "X", 0, 0), token(10, "G", 0, 0)];
    assert_eq!(of_line(10), expected);
    assert_eq!(of_line(14), [token(14, "V", 0, 1), token(14, "twice", 4, 0), token(14, "S", 0, 0)]);
    client.finish();
}

fn hints(client: &mut Client, uri: &Uri, range: Range) -> Vec<(Position, String)> {
    let answer = client.request::<InlayHintRequest>(InlayHintParams {
        text_document: TextDocumentIdentifier::new(uri.clone()),
        range,
        work_done_progress_params: Default::default(),
    });
    let hints = answer.unwrap().into_iter().map(|hint| match hint.label {
        InlayHintLabel::String(text) => (hint.position, text),
        InlayHintLabel::LabelParts(_) => panic!("no text"),
    });
    hints.collect()
}

#[test]
fn hints_show_types_and_waits() {
    let mut client = Client::start(&json!({ "proof": false }));
    client.open(&untitled(), TEXT);
    let whole = Range::new(Position::new(0, 0), Position::new(99, 0));
    let expected = [
        (Position::new(12, 8), "allgather(X -> G)".to_owned()),
        (Position::new(13, 8), "allreduce(X -> S)".to_owned()),
        (Position::new(14, 3), ": f32[n]".to_owned()),
        (Position::new(15, 3), ": f32[n]".to_owned()),
    ];
    assert_eq!(hints(&mut client, &untitled(), whole), expected);
    let line = Range::new(Position::new(13, 0), Position::new(14, 0));
    assert_eq!(hints(&mut client, &untitled(), line), expected[1..2]);
    client.notify("workspace/didChangeConfiguration", json!({ "settings": { "inlayHints": false } }));
    assert_eq!(hints(&mut client, &untitled(), whole), []);
    client.finish();
}

#[test]
fn streams_show_their_work() {
    let (uri, text) = file("docs/statements/streams.hir");
    let mut client = Client::start(&json!({ "proof": false }));
    client.open(&uri, &text);
    let hints = hints(&mut client, &uri, Range::new(Position::new(0, 0), Position::new(99, 0)));
    // `sync 1` waits for the statement of the block on stream 1; nothing comes before the first `sync main`.
    assert!(hints.contains(&(end_of(&text, "sync 1"), "Y[0] = exp".to_owned())), "{hints:?}");
    assert!(hints.iter().all(|(position, _)| *position != end_of(&text, "sync main")), "{hints:?}");
    let last = end_of(&text, "sync 2");
    assert!(hints.iter().any(|(position, _)| *position == last), "{hints:?}");
    let stream = hover(&mut client, &uri, end_of(&text, "stream main")).unwrap();
    assert!(stream.contains("waited for by\n- line"), "{stream}");
    client.finish();
}

fn lenses(client: &mut Client, uri: &Uri) -> Vec<(u32, String)> {
    let answer = client.request::<CodeLensRequest>(CodeLensParams {
        text_document: TextDocumentIdentifier::new(uri.clone()),
        work_done_progress_params: Default::default(),
        partial_result_params: Default::default(),
    });
    let lenses = answer.unwrap().into_iter().map(|lens| (lens.range.start.line, lens.command.unwrap().title));
    lenses.collect()
}

#[test]
fn lenses_have_verdicts() {
    let mut client = Client::start(&json!({}));
    let (uri, text) = file("docs/tutorial/1_collective.hir");
    client.open(&uri, &text);
    client.proved_diagnostics(&uri);
    let header = text.lines().position(|line| line.starts_with("gather(")).unwrap() as u32;
    assert_eq!(lenses(&mut client, &uri)[0], (header, "proved for n=8, p=4, 4 ranks".to_owned()));
    // The sizes of the client come first; the command proves again.
    client.notify("workspace/didChangeConfiguration", json!({ "settings": { "sizes": { "p": 2 } } }));
    client.proved_diagnostics(&uri);
    assert_eq!(lenses(&mut client, &uri)[0].1, "proved for n=8, p=2, 2 ranks");
    let command = json!({ "command": "hir.prove", "arguments": [uri.as_str()] });
    assert!(client.ask("workspace/executeCommand", command).is_ok());
    client.proved_diagnostics(&uri);
    assert!(
        client.ask("workspace/executeCommand", json!({ "command": "hir.none", "arguments": [uri.as_str()] })).is_err()
    );
    assert!(client.ask("workspace/executeCommand", json!({ "command": "hir.prove" })).is_err());
    let (deadlock, text) = file("docs/examples/deadlock.hir");
    client.open(&deadlock, &text);
    client.proved_diagnostics(&deadlock);
    let found = lenses(&mut client, &deadlock);
    assert!(found[0].1.starts_with("hangs"), "{found:?}");
    client.finish();
}

/// A ring step of 4 MB by the figures of h200x4: each rank sends 4e6 bytes at 158 a nanosecond after 30 us, 55.32 us,
/// and computes nothing meanwhile; then a relu of 1.5 us and 8e6 bytes at 4e3 a nanosecond, 3.5 us.
const STEP: &str = "hir 2
mesh d = 0..2

step(x: f32[1000000]) -> (y: f32[1000000], z: f32[1000000]) on d:
  y = alloc
  z = alloc
  h = { send(x, to=1 - rank); recv(y, from=1 - rank) }
  wait h
  z = relu(x)
";

#[test]
fn proved_programs_have_times() {
    let mut client = Client::start(&json!({}));
    client.open(&untitled(), STEP);
    assert_eq!(client.proved_diagnostics(&untitled()), []);
    let title = "timeline: 58.82 us by the model of h200x4, 0% of the communication hidden".to_owned();
    assert_eq!(lenses(&mut client, &untitled())[1], (3, title));
    let whole = Range::new(Position::new(0, 0), Position::new(99, 0));
    let exposed: Vec<(u32, String)> = hints(&mut client, &untitled(), whole)
        .into_iter()
        .filter(|(_, text)| text.contains("exposed"))
        .map(|(position, text)| (position.line, text))
        .collect();
    assert_eq!(exposed, [(6, "55.32 us exposed".to_owned())]);
    // By round figures: 4e6 bytes at 360 a nanosecond after 10 us, then 3 us and 8e6 bytes at 4e3 a nanosecond.
    let round = concat!(env!("CARGO_MANIFEST_DIR"), "/../../test/machines/round.toml");
    client.notify("workspace/didChangeConfiguration", json!({ "settings": { "machine": round } }));
    client.proved_diagnostics(&untitled());
    let title = "timeline: 26.11 us by the model of round, 0% of the communication hidden".to_owned();
    assert_eq!(lenses(&mut client, &untitled())[1], (3, title));
    client.change(&untitled(), 1, Some(range_of(STEP, "wait h\n  ")), "");
    client.proved_diagnostics(&untitled());
    let found = lenses(&mut client, &untitled());
    assert!(found[0].1.starts_with("refused") && found.len() == 1, "{found:?}");
    client.finish();
}

/// The page is drawn by the command of the settings: here a script that writes down what it is given.
#[test]
fn timelines_are_drawn_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("draw");
    std::fs::write(&script, "#!/bin/sh\ncat program.hir > timeline.html\necho \"$@\" >> timeline.html\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut client = Client::start(&json!({ "run": script, "sizes": { "n": 6 }, "ranks": 2, "machine": "h100x2" }));
    client.open(&untitled(), STEP);
    client.proved_diagnostics(&untitled());
    let command = json!({ "command": "hir.timeline", "arguments": ["untitled:one", 0, 0] });
    assert!(client.ask("workspace/executeCommand", command).is_ok());
    let page = client.shown_file();
    let arguments =
        "program.hir --check-only --quiet --timeline=timeline.html --container=1 --devices=2 --machine=machine.toml\n";
    assert_eq!(std::fs::read_to_string(&page).unwrap(), format!("{STEP}{arguments}"));
    std::fs::remove_dir_all(page.parent().unwrap()).unwrap();
    for arguments in [json!(["untitled:one", 0, 9]), json!(["untitled:one"]), json!(["untitled:two", 0, 0])] {
        let command = json!({ "command": "hir.timeline", "arguments": arguments });
        assert!(client.ask("workspace/executeCommand", command).is_err());
    }
    client.finish();
}

#[test]
fn open_sizes_are_named() {
    let mut client = Client::start(&json!({}));
    client.open(&untitled(), "hir 2\n\nf(A: f32[n]) -> (B: f32[n]):\n  B = relu(A)\n");
    assert_eq!(client.proved_diagnostics(&untitled()), []);
    let found = lenses(&mut client, &untitled());
    assert!(found[0].1.starts_with("not proved: ") && found[0].1.contains('n'), "{found:?}");
    client.finish();
}
