//! `cargo bench --bench text -- MB`: megabytes a second of parsing, resolving, verifying and printing a generated program
//! (50 MB), by CPU time where Linux tells it, so that other work on the machine does not count.

#![allow(clippy::print_stdout, reason = "a measurement")]

use hostir::diag::Diags;
use std::time::{Duration, Instant};

/// Loops over streams as nvFuser prints them, with tensors of their own.
fn program(bytes: usize) -> String {
    const MESH: &str = "(DeviceMesh{0 1 2 3 4 5 6 7})";
    const INPUT: &str = "T0_g_float[ideviceIdx.x0{8}, iS1{i3}] (DeviceMesh{0 1 2 3 4 5 6 7})";
    let mut text = format!("\n%HostIrContainer {{ ({INPUT}) -> () :\n");
    let mut number = 1;
    while text.len() < bytes {
        let (a, b, c) = (2 * number, 2 * number + 1, 2 * number + 2);
        let (whole, part) = (number, number + 1);
        number += 2;
        let whole = format!("T{whole}_g_float[iStreamIdx{a}{{i0}}, iS{b}{{8}}, iS{c}{{i3}}] {MESH}");
        let part = format!("T{part}_l_float[iS{b}{{8}}, iS{c}{{i3}}] {MESH}");
        text.push_str(&format!(
            "  {whole} = ALLOCATE(buffer={whole}, mem_type=global, size=( ( i0 * 8 ) * i3 ), zero_init=false, resets_to_zero=false)
  GetCurrentStream into Stream 0
  FOR StreamIdx in iStreamIdx{a}{{i0}}:
    SetCurrentStream to Stream ( StreamIdx % numberOfStreams )
    Synchronize Stream 0
    {part}
       = HirAliasSelect( {whole}, axis = iStreamIdx{a}{{i0}}, index = StreamIdx )
    Communication {a} (type=Allgather, team=(0 1 2 3 4 5 6 7), input={INPUT}, output={part}, backend=NCCL)
    Wait Communication {a}
    IF Manual ( StreamIdx == rank ):
      {part}
         = {part}
         + {part};
    SetCurrentStream to Stream 0
    Synchronize Stream ( StreamIdx % numberOfStreams )
"
        ));
    }
    text.push_str("} // %HostIrContainer\n\n");
    text
}

fn print_rate(what: &str, bytes: usize, time: Duration) {
    let rate = bytes as f64 / 1e6 / time.as_secs_f64();
    let per_byte = time.as_secs_f64() * 1e9 / bytes as f64;
    println!("{what:8} {rate:8.1} MB/s  {per_byte:6.2} ns/byte");
}

/// CPU time of this thread so far; where the system does not tell it, the time since `start`.
fn cpu_time(start: Instant) -> Duration {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let busy = stat.split(' ').next().and_then(|text| text.parse().ok());
    busy.map_or_else(|| start.elapsed(), Duration::from_nanos)
}

fn main() {
    let megabytes: usize = std::env::args().find_map(|text| text.parse().ok()).unwrap_or(50);
    let zero = Instant::now();
    let text = program(megabytes * 1_000_000);
    for _ in 0..3 {
        let mut times = vec![cpu_time(zero)];
        let mut diags = Diags::default();
        let parsed = hostir_grammar::parse(&text);
        times.push(cpu_time(zero));
        let program = hostir::resolve::resolve(&parsed.ast, 0, &text, &mut diags);
        times.push(cpu_time(zero));
        hostir::verify::verify(&program, &mut diags);
        times.push(cpu_time(zero));
        let printed = hostir::print::print_to_string(&program);
        times.push(cpu_time(zero));
        assert!(parsed.errors.is_empty(), "the generated program has syntax errors");
        let problems = hostir::diag::render::to_string("generated", &text, &diags.items);
        assert!(diags.is_empty(), "{}", &problems[..problems.len().min(2000)]);
        assert!(printed == text, "the generated program prints otherwise");
        for (phase, pair) in ["parse", "resolve", "verify", "print"].iter().zip(times.windows(2)) {
            print_rate(phase, text.len(), pair[1] - pair[0]);
        }
        print_rate("all", text.len(), times[4] - times[0]);
        println!("{} ops, {} tensors\n", program.ops().len(), program.tensors().len());
    }
}
