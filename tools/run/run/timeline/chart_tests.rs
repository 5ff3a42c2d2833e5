//! Lanes and figures.

use super::*;
use hostir::ir::OpId;
use hostir::plan::{InstOrigin, IterationId};

fn span(kind: SpanKind, start_ns: u64, end_ns: u64) -> TraceSpan {
    let origin = InstOrigin { op: OpId(0), iteration: IterationId(0) };
    let more = Box::default();
    TraceSpan { rank: 0, track: 0, start_ns, end_ns, origin, more, kind, bytes: 0, flop: 0 }
}

/// The row of these spans in 10 columns of 10 ns.
fn row(spans: &[(SpanKind, u64, u64)]) -> String {
    let spans: Vec<TraceSpan> = spans.iter().map(|&(kind, from, to)| span(kind, from, to)).collect();
    let kinds = dominant_kinds(&spans.iter().collect::<Vec<_>>(), 100, 10);
    kinds.iter().map(|kind| kind.map_or(' ', |kind| kind_glyph(kind).0)).collect()
}

#[test]
fn lanes_show_what_takes_most_and_lose_nothing() {
    use SpanKind::{Communication, Compute, Copy, Wait};
    assert_eq!(row(&[]), "          ");
    assert_eq!(row(&[(Compute, 0, 50), (Wait, 50, 80)]), "#####...  ");
    assert_eq!(row(&[(Compute, 0, 26), (Communication, 26, 100)]), "###=======");
    assert_eq!(row(&[(Compute, 0, 24), (Communication, 24, 100)]), "##========");
    // A moment of work between waits, and one at the very end.
    assert_eq!(row(&[(Wait, 0, 44), (Copy, 44, 45), (Wait, 45, 100)]), "....+.....");
    assert_eq!(row(&[(Copy, 100, 100)]), "         +");
}

#[test]
fn times_have_four_digits() {
    let cases = [
        (0, "0 ns"),
        (999, "999 ns"),
        (1_234, "1.234 us"),
        (12_345, "12.35 us"),
        (123_456, "123.5 us"),
        (1_000_000, "1.000 ms"),
        (61_000_000_000, "61.00 s"),
    ];
    for (ns, expected) in cases {
        assert_eq!(time_text(ns), expected);
    }
}

#[test]
fn names_that_are_cut_say_so() {
    assert_eq!(truncate_text("rank 0 NCCL 0-15", 16), "rank 0 NCCL 0-15");
    assert_eq!(truncate_text("rank 0 NCCL 0-15", 15), "rank 0 NCCL 0-…");
    assert_eq!(truncate_text("rank", 0), "…");
}
