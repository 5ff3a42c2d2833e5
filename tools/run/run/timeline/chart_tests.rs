//! Lanes and figures.

use super::*;
use hostir::backend::time_ranges::TimeRange;

/// The row of these parts in 10 columns of 10 ns.
fn row(parts: &[(PartKind, u64, u64)]) -> String {
    let parts = parts.iter().map(|&(kind, start_ns, end_ns)| SpanPart { kind, time: TimeRange { start_ns, end_ns } });
    let kinds = dominant_kinds(&parts.collect::<Vec<_>>(), 100, 10);
    kinds.iter().map(|kind| kind.map_or(' ', |kind| kind_glyph(kind).0)).collect()
}

#[test]
fn lanes_show_what_takes_most_and_lose_nothing() {
    use PartKind::{Compute, Copy, Exposed, Hidden, PeerWait, Wait};
    assert_eq!(row(&[]), "          ");
    assert_eq!(row(&[(Compute, 0, 50), (Wait, 50, 80)]), "#####...  ");
    assert_eq!(row(&[(Compute, 0, 26), (Hidden, 26, 100)]), "###=======");
    assert_eq!(row(&[(Compute, 0, 24), (Hidden, 24, 100)]), "##========");
    assert_eq!(row(&[(PeerWait, 0, 39), (Exposed, 39, 64), (Hidden, 64, 100)]), "~~~!!!====");
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
