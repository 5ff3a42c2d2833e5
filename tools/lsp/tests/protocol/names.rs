//! Names: hovers, definitions, references, renames, outlines, in both notations.

use crate::client::{Client, end_of, file, place, position_of, range_of, start_of, untitled, with_edits};
use lsp_types::request::{
    DocumentSymbolRequest, FoldingRangeRequest, GotoDefinition, HoverRequest, PrepareRenameRequest, References, Rename,
    Request as _,
};
use lsp_types::{
    DocumentSymbolParams, DocumentSymbolResponse, FoldingRangeParams, GotoDefinitionParams, GotoDefinitionResponse,
    HoverContents, HoverParams, Position, Range, ReferenceContext, ReferenceParams, RenameParams,
    TextDocumentIdentifier, Uri,
};
use serde_json::json;

pub(crate) fn hover(client: &mut Client, uri: &Uri, position: Position) -> Option<String> {
    let hover = client.request::<HoverRequest>(HoverParams {
        text_document_position_params: place(uri, position),
        work_done_progress_params: Default::default(),
    });
    hover.map(|hover| match hover.contents {
        HoverContents::Markup(text) => text.value,
        other => panic!("no Markdown: {other:?}"),
    })
}

pub(crate) fn definition(client: &mut Client, uri: &Uri, position: Position) -> Option<Range> {
    let answer = client.request::<GotoDefinition>(GotoDefinitionParams {
        text_document_position_params: place(uri, position),
        work_done_progress_params: Default::default(),
        partial_result_params: Default::default(),
    });
    answer.map(|answer| match answer {
        GotoDefinitionResponse::Scalar(location) => location.range,
        other => panic!("several: {other:?}"),
    })
}

pub(crate) fn references(client: &mut Client, uri: &Uri, position: Position) -> Vec<Range> {
    let answer = client.request::<References>(ReferenceParams {
        text_document_position: place(uri, position),
        work_done_progress_params: Default::default(),
        partial_result_params: Default::default(),
        context: ReferenceContext { include_declaration: true },
    });
    answer.unwrap_or_default().into_iter().map(|location| location.range).collect()
}

fn rename(client: &mut Client, uri: &Uri, position: Position, name: &str) -> Result<String, String> {
    let params = RenameParams {
        text_document_position: place(uri, position),
        new_name: name.to_owned(),
        work_done_progress_params: Default::default(),
    };
    let answer = client.ask(Rename::METHOD, serde_json::to_value(params).unwrap());
    let answer = answer.map_err(|error| error.message)?;
    let edit: lsp_types::WorkspaceEdit = serde_json::from_value(answer).unwrap();
    Ok(serde_json::to_string(&edit.changes.unwrap()[uri]).unwrap())
}

fn renamed(client: &mut Client, uri: &Uri, text: &str, at: Position, name: &str) -> Result<String, String> {
    let edits = rename(client, uri, at, name)?;
    Ok(with_edits(text, &serde_json::from_str::<Vec<lsp_types::TextEdit>>(&edits).unwrap()))
}

/// A program with one of each sort of name.
const RING: &str = "\
hir 2.1
sizes p=4, n=8
mesh d = 0..p

kernel twice(X: f32[n]) -> (Y: f32[n]):
  Y = X + X

ring(X: f32[x:p, n]) -> (G: f32[p, n], Y: f32[x:p, n]) on d:
  stream main = current
  G = alloc  // for all
  h = allgather(X -> G)
  next = (rank + 1) % p
  Y = alloc
  Y[own] = relu(X[own])
  wait h
  for i in p:
    Z = G[i]
    V = twice(Z)
    G[next] = exp(V)
  for i in p:
    G[i] = exp(G[i])
";

/// The positions where a part of the text begins, in order.
fn starts_of(text: &str, part: &str) -> Vec<Position> {
    text.match_indices(part).map(|(at, _)| position_of(text, at)).collect()
}

#[test]
fn references_are_those_of_the_same_thing() {
    let mut client = Client::start(&json!({ "proof": false }));
    client.open(&untitled(), RING);
    assert_eq!(client.diagnostics(&untitled(), 0), []);
    // The `X` of the kernel and that of the program are different.
    let of_kernel = references(&mut client, &untitled(), start_of(RING, "X: f32[n]"));
    assert_eq!(of_kernel.len(), 3, "{of_kernel:?}");
    let of_program = references(&mut client, &untitled(), start_of(RING, "X -> G"));
    assert_eq!(of_program.len(), 3, "{of_program:?}");
    // Consecutive loops have an index each.
    let loops = starts_of(RING, "i in p");
    assert_eq!(references(&mut client, &untitled(), loops[0]).len(), 2);
    assert_eq!(references(&mut client, &untitled(), loops[1]).len(), 3);
    // Sizes, meshes and kernels are names of the file.
    let of_size = references(&mut client, &untitled(), start_of(RING, "p=4"));
    assert_eq!(of_size.len(), 8, "{of_size:?}");
    assert_eq!(references(&mut client, &untitled(), start_of(RING, "d = 0")).len(), 2);
    assert_eq!(references(&mut client, &untitled(), start_of(RING, "twice(Z")).len(), 2);
    assert_eq!(references(&mut client, &untitled(), start_of(RING, "relu")), []);
    // The end of a name counts as the name.
    assert_eq!(references(&mut client, &untitled(), end_of(RING, "wait h")).len(), 2);
    client.finish();
}

#[test]
fn definitions_are_declarations() {
    let mut client = Client::start(&json!({ "proof": false }));
    client.open(&untitled(), RING);
    let cases = [
        ("wait h", "h = allgather"),
        ("V)\n", "V = twice"),
        ("next] = exp", "next = (rank"),
        ("twice(Z)", "twice(X"),
        ("n], Y", "n=8"),
        ("d:\n", "d = 0"),
    ];
    for (used, declared) in cases {
        let used = if used == "wait h" { end_of(RING, used) } else { start_of(RING, used) };
        let found = definition(&mut client, &untitled(), used).expect(declared);
        assert_eq!(found.start, start_of(RING, declared), "{declared}");
    }
    assert_eq!(definition(&mut client, &untitled(), start_of(RING, "alloc")), None);
    client.finish();
}

/// A step waits for the messages of the step before, in an earlier line than the one that starts them.
#[test]
fn communications_are_defined_where_they_start() {
    let mut client = Client::start(&json!({ "proof": false }));
    let (uri, text) = file("docs/tutorial/race.hir");
    client.open(&uri, &text);
    let found = definition(&mut client, &uri, start_of(&text, "h\n"));
    assert_eq!(found.unwrap().start, start_of(&text, "h = { send"));
    client.finish();
}

#[test]
fn hovers_tell_types_shapes_and_uses() {
    let mut client = Client::start(&json!({ "proof": false }));
    client.open(&untitled(), RING);
    let tensor = hover(&mut client, &untitled(), start_of(RING, "X -> G")).unwrap();
    for part in
        ["X: f32[x:p, n]", "shape 4 x 8, on each rank 1 x 8", "`d`: devices 0 1 2 3", "line 11: `allgather(X -> G)`"]
    {
        assert!(tensor.contains(part), "{part} is not in {tensor}");
    }
    assert!(!tensor.contains("written by"), "{tensor}");
    let gathered = hover(&mut client, &untitled(), start_of(RING, "G: f32")).unwrap();
    assert!(gathered.contains("written by\n- line 11: `allgather(X -> G)`"), "{gathered}");
    let inferred = hover(&mut client, &untitled(), start_of(RING, "V = twice")).unwrap();
    assert!(inferred.contains("V: f32[n]") && inferred.contains("shape 8"), "{inferred}");
    let handle = hover(&mut client, &untitled(), end_of(RING, "wait h")).unwrap();
    assert!(handle.contains("started by\n- line 11") && handle.contains("waited for by\n- line 15"), "{handle}");
    let size = hover(&mut client, &untitled(), start_of(RING, "n], Y")).unwrap();
    assert!(size.contains("n = 8"), "{size}");
    let op = hover(&mut client, &untitled(), start_of(RING, "relu")).unwrap();
    assert!(op.contains("T = relu(A)"), "{op}");
    let word = hover(&mut client, &untitled(), start_of(RING, "wait h")).unwrap();
    assert!(word.contains("wait h"), "{word}");
    // An empty line, and a word of a comment.
    assert_eq!(hover(&mut client, &untitled(), Position::new(3, 0)), None);
    assert_eq!(hover(&mut client, &untitled(), start_of(RING, "for all")), None);
    client.finish();
}

#[test]
fn renames_keep_the_program() {
    let mut client = Client::start(&json!({ "proof": false }));
    client.open(&untitled(), RING);
    let at = start_of(RING, "G: f32");
    let result = renamed(&mut client, &untitled(), RING, at, "Gathered").unwrap();
    assert_eq!(result.matches("Gathered").count(), RING.matches('G').count());
    let (before, after) = (hostir::load(RING), hostir::load(&result));
    assert!(!after.1.has_errors());
    assert_eq!(before.0[0].ops().len(), after.0[0].ops().len());
    let result = renamed(&mut client, &untitled(), RING, starts_of(RING, "i in p")[1], "j").unwrap();
    assert!(result.contains("  for j in p:\n    G[j] = exp(G[j])\n") && result.contains("Z = G[i]"), "{result}");
    // Names that are taken, words of the language, and what is no name.
    for (name, reason) in [("X", "taken"), ("wait", "word of the language"), ("h7", "h7"), ("a b", ""), ("", "")] {
        let refused = renamed(&mut client, &untitled(), RING, at, name).expect_err(name);
        assert!(refused.contains(reason), "{name}: {refused}");
    }
    assert!(renamed(&mut client, &untitled(), RING, start_of(RING, "relu"), "x").is_err());
    let range = client.request::<PrepareRenameRequest>(place(&untitled(), start_of(RING, "alloc")));
    assert!(range.is_none());
    client.finish();
}

#[test]
fn the_printed_form_has_numbers() {
    let (uri, text) = file("docs/examples/printed/allgather.hir");
    let mut client = Client::start(&json!({ "sizes": { "*": 8 }, "proof": false }));
    client.open(&uri, &text);
    assert_eq!(client.diagnostics(&uri, 0), []);
    let at = start_of(&text, "T1_g");
    let found = references(&mut client, &uri, at);
    // The first line is a comment, which has no names.
    let expected: Vec<Position> = starts_of(&text, "T1").into_iter().filter(|place| place.line > 0).collect();
    assert_eq!(found.iter().map(|range| range.start).collect::<Vec<_>>(), expected);
    assert!(hover(&mut client, &uri, at).unwrap().contains("written by"));
    let handle = end_of(&text, "Wait Communication 1");
    assert!(hover(&mut client, &uri, handle).unwrap().contains("started by"));
    assert_eq!(references(&mut client, &uri, handle).len(), text.matches("Communication 1").count());
    let result = renamed(&mut client, &uri, &text, at, "T77").unwrap();
    assert_eq!(
        result,
        text.replace("T1_", "T77_").replace("T1,", "T77,").replace("T1\n", "T77\n").replace("T1 ", "T77 ")
    );
    assert!(renamed(&mut client, &uri, &text, at, "T0").is_err());
    assert!(renamed(&mut client, &uri, &text, at, "G").is_err());
    client.finish();
}

#[test]
fn outlines_have_programs_with_their_names() {
    let mut client = Client::start(&json!({ "proof": false }));
    client.open(&untitled(), RING);
    let answer = client.request::<DocumentSymbolRequest>(DocumentSymbolParams {
        text_document: TextDocumentIdentifier::new(untitled()),
        work_done_progress_params: Default::default(),
        partial_result_params: Default::default(),
    });
    let Some(DocumentSymbolResponse::Nested(items)) = answer else { panic!("no outline") };
    let names: Vec<&str> = items.iter().map(|item| item.name.as_str()).collect();
    assert_eq!(names, ["d", "twice", "ring"]);
    assert_eq!(items[2].selection_range, range_of(&RING[..RING.find("(X: f32[x").unwrap()], "ring"));
    let inner: Vec<&str> = items[2].children.as_ref().unwrap().iter().map(|item| item.name.as_str()).collect();
    assert_eq!(inner, ["X", "G", "Y", "main", "h", "next", "Z", "V"]);
    client.finish();
}

#[test]
fn blocks_and_comments_fold() {
    let text = format!("// one\n// two\n{RING}");
    let mut client = Client::start(&json!({ "proof": false }));
    client.open(&untitled(), &text);
    let answer = client.request::<FoldingRangeRequest>(FoldingRangeParams {
        text_document: TextDocumentIdentifier::new(untitled()),
        work_done_progress_params: Default::default(),
        partial_result_params: Default::default(),
    });
    let folds: Vec<(u32, u32)> = answer.unwrap().iter().map(|fold| (fold.start_line, fold.end_line)).collect();
    assert_eq!(folds, [(0, 1), (6, 7), (9, 22), (17, 20), (21, 22)]);
    client.finish();
}
