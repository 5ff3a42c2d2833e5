//! Megabytes a second of reading, resolving and printing a generated program of 50 MB, by time on the
//! processor where Linux tells it, so that other work on the machine does not count.

#![allow(clippy::print_stdout, reason = "a measurement")]

use hostir::diag::Diags;
use std::time::{Duration, Instant};

/// Loops over streams as nvFuser prints them, with tensors of their own.
fn program(bytes: usize) -> String {
    const MESH: &str = "(DeviceMesh{0 1 2 3 4 5 6 7})";
    let mut text =
        String::from("\n%HostIrContainer { (T0_g_float[iS0{i0}, ideviceIdx.x1{i2}]) -> () :\n");
    let mut number = 1;
    while text.len() < bytes {
        let (a, b, c) = (number, number + 1, number + 2);
        number += 3;
        let whole = format!("T{a}_g_float[iStreamIdx{a}{{i0}}, iS{b}{{i2}}, iS{c}{{i3}}] {MESH}");
        let input = format!("T{b}_g_float[ideviceIdx.x{b}{{i2}}, iS{c}{{i3}}] {MESH}");
        let output = format!("T{c}_l_float[iS{b}{{i2}}, iS{c}{{i3}}] {MESH}");
        text.push_str(&format!(
            "  {whole} = ALLOCATE(buffer={whole}, mem_type=global, size=( ( i0 * i2 ) * i3 ), zero_init=false, resets_to_zero=false)
  GetCurrentStream into Stream 0
  FOR StreamIdx in iStreamIdx{a}{{i0}}:
    SetCurrentStream to Stream ( StreamIdx % numberOfStreams )
    Synchronize Stream 0
    {output}
       = HirAliasSelect( {whole}, axis = iStreamIdx{a}{{i0}}, index = StreamIdx )
    Communication {a} (type=Allgather, team=(0 1 2 3 4 5 6 7), input={input}, output={output}, backend=NCCL)
    Wait Communication {a}
    IF Manual ( StreamIdx == rank ):
      {output}
         = matmul({output},
                  {input})
    {output}
       = {output}
       + {input};
    SetCurrentStream to Stream 0
    Synchronize Stream ( StreamIdx % numberOfStreams )
"
        ));
    }
    text.push_str("} // %HostIrContainer\n\n");
    text
}

fn report(what: &str, bytes: usize, time: Duration) {
    let rate = bytes as f64 / 1e6 / time.as_secs_f64();
    let per_byte = time.as_secs_f64() * 1e9 / bytes as f64;
    println!("{what:8} {rate:8.1} MB/s  {per_byte:6.2} ns/byte");
}

/// Time on the processor so far, else the time since some moment.
fn now(start: Instant) -> Duration {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let busy = stat.split(' ').next().and_then(|text| text.parse().ok());
    busy.map_or_else(|| start.elapsed(), Duration::from_nanos)
}

fn main() {
    let zero = Instant::now();
    let text = program(50_000_000);
    for _ in 0..3 {
        let start = now(zero);
        let parsed = hostir_grammar::parse(&text);
        let parse = now(zero) - start;
        let mut diags = Diags::default();
        let start = now(zero);
        let program = hostir::resolve::resolve(&parsed.ast, 0, &text, &mut diags);
        let resolve = now(zero) - start;
        let start = now(zero);
        let printed = hostir::print::print(&program);
        let print = now(zero) - start;
        report("parse", text.len(), parse);
        report("resolve", text.len(), resolve);
        report("print", text.len(), print);
        report("all", text.len(), parse + resolve + print);
        println!(
            "{} ops, {} tensors, same text: {}\n",
            program.ops().len(),
            program.tensors().len(),
            printed == text
        );
        assert!(diags.is_empty() && parsed.errors.is_empty());
    }
}
