//! After any edits a server says what a new one says about the same text, and no request fails.

use crate::client::{Client, file, position_of, root, untitled};
use crate::names::{hover, references};
use fastrand::Rng;
use lsp_types::{Position, Range};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Texts that edits insert: words and brackets of both notations, and characters of several bytes or units.
const INSERTED: &[&str] = &[
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ":",
    ",",
    "=",
    "->",
    "\n",
    "\n  ",
    "  ",
    "wait ",
    "for i in p:\n    ",
    "if rank == 0: ",
    "A",
    "X[own]",
    "relu(",
    "alloc",
    "stream ",
    "T1",
    "T1_g_float[iS0{i0}]",
    "Communication 1",
    "// é𝄞\n",
    "𝄞",
    "\"",
    "`",
    "\r\n",
    "hir 2\n",
    "// -----\n",
    "// RUN: hir-run %s --split-input-file -n 3\n",
    "import a from \"b.hir\"\n",
    "0",
    "9999999999",
    "-",
    "..",
    "%HostIrContainer { () -> () :\n",
    "}",
    "mesh d = 0..p\n",
    "sizes p=2\n",
];

fn random_byte(text: &str, rng: &mut Rng) -> usize {
    let mut at = rng.usize(0..=text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// A replacement of a short range, mostly by a few characters or a line of the text.
fn random_edit(text: &str, rng: &mut Rng) -> (usize, usize, String) {
    let start = random_byte(text, rng);
    let mut end = match rng.u8(0..4) {
        0 | 1 => start,
        2 => (start + rng.usize(0..4)).min(text.len()),
        _ => (start + rng.usize(0..40)).min(text.len()),
    };
    while !text.is_char_boundary(end) {
        end += 1;
    }
    let inserted = match rng.u8(0..5) {
        0 => String::new(),
        1 => {
            let lines: Vec<&str> = text.split_inclusive('\n').collect();
            if lines.is_empty() { String::new() } else { lines[rng.usize(..lines.len())].to_owned() }
        }
        _ => INSERTED[rng.usize(..INSERTED.len())].to_owned(),
    };
    (start, end, inserted)
}

/// Programs to begin with, in both notations.
fn sources() -> Vec<String> {
    let folders = ["docs/tutorial", "docs/examples", "docs/examples/printed", "docs/statements", "test/syntax"];
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(root().join(folder)).unwrap());
    let mut paths: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "hir"));
    paths.sort();
    paths.iter().map(|path| file(path.to_str().unwrap()).1).filter(|text| text.len() < 6000).collect()
}

/// All answers about a document that need no position.
fn whole_answers(client: &mut Client) -> Vec<Value> {
    let document = json!({ "textDocument": { "uri": "untitled:one" } });
    let mut answers = Vec::new();
    for method in ["documentSymbol", "foldingRange", "semanticTokens/full", "codeLens"] {
        answers.push(client.ask(&format!("textDocument/{method}"), document.clone()).unwrap());
    }
    let mut hints = document;
    hints["range"] = serde_json::to_value(Range::new(Position::default(), Position::new(u32::MAX, 0))).unwrap();
    answers.push(client.ask("textDocument/inlayHint", hints).unwrap());
    answers
}

/// The answers of a server about a text at some positions.
fn all_answers(client: &mut Client, version: i32, positions: &[Position]) -> (Vec<Value>, Vec<Value>) {
    let diagnostics = client.diagnostics(&untitled(), version);
    let mut at_positions = vec![json!(diagnostics)];
    for position in positions {
        at_positions.push(json!(hover(client, &untitled(), *position)));
        at_positions.push(json!(references(client, &untitled(), *position)));
        let place = json!({ "textDocument": { "uri": "untitled:one" }, "position": position });
        client.ask("textDocument/completion", place).unwrap();
    }
    (at_positions, whole_answers(client))
}

fn edit_and_compare(count: usize, seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let sources = sources();
    assert!(sources.len() > 30, "programs to begin with");
    let settings = json!({ "proof": false });
    let mut client = Client::start(&settings);
    let (mut text, mut version) = (String::new(), 0);
    client.open(&untitled(), &text);
    for number in 0..count {
        version += 1;
        if number % 12 == 0 || text.len() > 20_000 {
            text = sources[rng.usize(..sources.len())].clone();
            client.change(&untitled(), version, None, &text);
            version += 1;
        }
        let (start, end, inserted) = random_edit(&text, &mut rng);
        let range = Range::new(position_of(&text, start), position_of(&text, end));
        text.replace_range(start..end, &inserted);
        client.change(&untitled(), version, Some(range), &inserted);
        let positions: Vec<Position> = (0..3).map(|_| position_of(&text, random_byte(&text, &mut rng))).collect();
        let found = all_answers(&mut client, version, &positions);
        let mut new_client = Client::start(&settings);
        new_client.open(&untitled(), &text);
        let expected = all_answers(&mut new_client, 0, &positions);
        assert_eq!(found, expected, "after edit {number} of seed {seed}, {text:?}");
        new_client.finish();
    }
    client.finish();
}

#[test]
fn edits_leave_no_trace() {
    edit_and_compare(300, 1);
}

#[test]
#[ignore = "takes minutes: cargo test --release -p hostir-lsp -- --ignored ten_thousand"]
fn ten_thousand_edits_leave_no_trace() {
    edit_and_compare(10_000, 2);
}

/// A proof that was cancelled says nothing about the text after it.
#[test]
fn proofs_of_earlier_texts_are_dropped() {
    let (uri, right) = file("docs/tutorial/6_ring.hir");
    let (_, wrong) = file("docs/tutorial/race.hir");
    let mut client = Client::start(&json!({}));
    client.open(&uri, &right);
    for version in 1..6 {
        let text = if version % 2 == 0 { &right } else { &wrong };
        client.change(&uri, version, None, text);
    }
    // The last text is the wrong one. Whatever was proved before, its race is the last word.
    while !client
        .diagnostics(&uri, 5)
        .iter()
        .any(|one| one.message.contains("race") || one.related_information.is_some())
    {
        client.proved_diagnostics(&uri);
    }
    client.change(&uri, 6, None, &right);
    assert_eq!(client.diagnostics(&uri, 6), []);
    assert_eq!(client.proved_diagnostics(&uri), []);
    client.finish();
}
