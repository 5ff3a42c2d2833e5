//! The time from an edit to its diagnostics, as a measurement of a release build.

use crate::client::{Client, position_of, untitled};
use lsp_types::Range;
use serde_json::json;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// A program of about this many ops: pointwise functions, slices, communications and their waits.
fn program_of(ops: usize) -> String {
    let mut text = String::from(
        "hir 2.1\nsizes p=4, n=8\nmesh d = 0..p\n\nf(X: f32[x:p, n], A: f32[n]) -> (G: f32[p, n], Y: f32[n]) on d:\n  G = alloc\n  V0 = relu(A)\n",
    );
    for at in 1..=ops / 5 {
        let before = at - 1;
        let _ = write!(
            text,
            "  h{at}x = allgather(X -> G)\n  W{at} = exp(V{before})\n  wait h{at}x\n  V{at} = W{at} + G[{}]\n",
            at % 4
        );
    }
    let _ = writeln!(text, "  Y = relu(V{})", ops / 5);
    text
}

/// The 95th percentile of the times from edits to their diagnostics.
fn latency(ops: usize) -> Duration {
    let text = program_of(ops);
    let mut client = Client::start(&json!({ "proof": true }));
    client.open(&untitled(), &text);
    assert_eq!(client.diagnostics(&untitled(), 0), []);
    let mut times = Vec::new();
    for version in 1..=40 {
        // A letter comes to a name, or goes from it.
        let at = text.find("relu(A)").unwrap();
        let (end, inserted) = if version % 2 == 1 { (at, "z") } else { (at + 1, "") };
        let range = Range::new(position_of(&text, at), position_of(&text, end));
        let start = Instant::now();
        client.change(&untitled(), version, Some(range), inserted);
        let found = client.diagnostics(&untitled(), version);
        times.push(start.elapsed());
        assert_eq!(found.is_empty(), version % 2 == 0, "{found:?}");
    }
    client.finish();
    times.sort();
    times[times.len() * 95 / 100]
}

#[test]
#[ignore = "a measurement: cargo test --release -p hostir-lsp -- --ignored --nocapture diagnostics_come"]
fn diagnostics_come_soon_after_an_edit() {
    for (ops, bar) in [(10_000, 50), (100_000, 150)] {
        let found = latency(ops);
        println!("{ops} ops: {:.1} ms from an edit to its diagnostics (95th percentile)", found.as_secs_f64() * 1e3);
        assert!(found < Duration::from_millis(bar), "{ops} ops: {found:?}");
    }
}
