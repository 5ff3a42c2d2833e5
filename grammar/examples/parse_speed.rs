//! Parses a generated program in nvFuser's printed form and prints MB/s: `parse_speed [MB]`.

#![allow(clippy::print_stdout, reason = "it prints its measurements")]

use std::fmt::Write;
use std::time::Instant;

const MESH: &str = " (DeviceMesh{0 1 2 3 4 5 6 7})";

/// One overlapped loop: select, allocate, gather, wait, matmul, with tensors of its own.
fn push_loop(out: &mut String, n: usize) {
    let t = |k: usize, mem: char| {
        let (a, d) = (n * 8 + k, n * 40 + k * 4);
        format!(
            "T{a}_{mem}_float[iS{d}{{i0}}, ideviceIdx.x{}{{i2}}, iS{}{{i3}}, iS{}{{i4}}]{MESH}",
            d + 1,
            d + 2,
            d + 3
        )
    };
    let _ = writeln!(out, "  FOR StreamIdx in iStreamIdx{n}{{i0}}:");
    out.push_str("    SetCurrentStream to Stream ( StreamIdx % numberOfStreams )\n");
    for (to, from) in [(1, 0), (3, 2)] {
        let _ = writeln!(
            out,
            "    {}\n       = HirAliasSelect( {}, axis = iS{}{{i0}}, index = StreamIdx )",
            t(to, 'l'),
            t(from, 'g'),
            n * 40
        );
    }
    let _ = writeln!(
        out,
        "    {0} = ALLOCATE(buffer={0}, mem_type=global, size=( ( i2 * i3 ) * i4 ), zero_init=false, resets_to_zero=false)",
        t(3, 'l')
    );
    let _ = writeln!(
        out,
        "    Communication {n} (type=Allgather, team=(0 1 2 3 4 5 6 7), input={}, output={}, backend=NCCL)\n    Wait Communication {n}",
        t(1, 'l'),
        t(3, 'l')
    );
    let _ = writeln!(
        out,
        "    {}\n       = matmul({},\n                {})",
        t(4, 'l'),
        t(3, 'l'),
        t(5, 'g')
    );
    out.push_str("    SetCurrentStream to Stream 0\n    Synchronize Stream ( StreamIdx % numberOfStreams )\n");
}

fn main() {
    let megabytes: usize = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(50);
    let mut text =
        String::from("\n%HostIrContainer { () -> () :\n  GetCurrentStream into Stream 0\n");
    let mut loops = 0;
    while text.len() < megabytes * 1_000_000 {
        push_loop(&mut text, loops);
        loops += 1;
    }
    text.push_str("} // %HostIrContainer\n\n");
    let mut best = f64::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        let parsed = hostir_grammar::parse(&text);
        best = best.min(start.elapsed().as_secs_f64());
        assert!(parsed.errors.is_empty(), "{:#?}", &parsed.errors[..parsed.errors.len().min(3)]);
        std::hint::black_box(&parsed.ast.stmts.len());
    }
    let size = text.len() as f64 / 1e6;
    println!("{size:.1} MB, {loops} loops, {best:.3} s, {:.0} MB/s", size / best);
}
