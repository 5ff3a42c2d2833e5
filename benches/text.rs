//! `cargo bench --bench text -- MB OPS`: the time of parsing, resolving, verifying and printing a generated program in the
//! printed form (50 MB) and two in `hir 2` (1,000,000 ops of the IR each), by CPU time of one thread where Linux tells it,
//! so that other work on the machine does not count.

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

/// What a text takes: seconds of each phase, from one call of [`Stopwatch::lap`] to the next.
struct Stopwatch {
    zero: Instant,
    times: Vec<Duration>,
}

impl Stopwatch {
    fn start() -> Self {
        let zero = Instant::now();
        Self { zero, times: vec![cpu_time(zero)] }
    }

    fn lap(&mut self) {
        self.times.push(cpu_time(self.zero));
    }

    /// One line a phase.
    fn print_rates(&self, bytes: usize, ops: usize) {
        let phases = ["parse", "resolve", "verify", "print"].iter().zip(self.times.windows(2));
        let (first, last) = (self.times[0], self.times[self.times.len() - 1]);
        let all = std::iter::once((&"all", last - first));
        for (what, time) in phases.map(|(phase, pair)| (phase, pair[1] - pair[0])).chain(all) {
            let rate = bytes as f64 / 1e6 / time.as_secs_f64();
            let (per_byte, per_op) = (time.as_secs_f64() * 1e9 / bytes as f64, time.as_secs_f64() * 1e9 / ops as f64);
            println!("{what:8} {rate:8.1} MB/s  {per_byte:6.2} ns/byte  {per_op:7.1} ns/op");
        }
    }
}

/// CPU time of this thread so far; where the system does not tell it, the time since `start`.
fn cpu_time(start: Instant) -> Duration {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let busy = stat.split(' ').next().and_then(|text| text.parse().ok());
    busy.map_or_else(|| start.elapsed(), Duration::from_nanos)
}

/// A text in `hir 2` of about so many ops: a template of `tools/bench/texts`, with its section repeated.
fn repeat_section(template: &str, ops: usize) -> String {
    let mut parts = template.split_inclusive('\n').collect::<Vec<_>>().into_iter();
    let mut text: String = parts.by_ref().take_while(|line| !line.starts_with("---")).collect();
    let separator = template.lines().find(|line| line.starts_with("---")).unwrap_or_default();
    let count: usize = separator.split(' ').find_map(|word| word.parse().ok()).expect("the ops of a section");
    let section: String = parts.by_ref().take_while(|line| !line.starts_with("---")).collect();
    for number in 0..ops.div_ceil(count) {
        text.push_str(&section.replace('#', &number.to_string()));
    }
    text.extend(parts);
    text
}

fn check_no_errors(text: &str, diags: &Diags) {
    let problems = hostir::diag::render::to_string("generated", text, &diags.items);
    assert!(diags.is_empty(), "{}", &problems[..problems.len().min(2000)]);
}

fn measure_printed(text: &str) {
    let mut diags = Diags::default();
    let mut watch = Stopwatch::start();
    let parsed = hostir_grammar::parse(text);
    watch.lap();
    let program = hostir::resolve::resolve(&parsed.ast, 0, text, &mut diags);
    watch.lap();
    hostir::verify::verify(&program, &mut diags);
    watch.lap();
    let printed = hostir::print::print_to_string(&program);
    watch.lap();
    assert!(parsed.errors.is_empty(), "the generated program has syntax errors");
    check_no_errors(text, &diags);
    assert!(printed == text, "the generated program prints otherwise");
    println!("printed form, {} ops, {} tensors", program.ops().len(), program.tensors().len());
    watch.print_rates(text.len(), program.ops().len());
}

fn measure_hir2(name: &str, text: &str) {
    let mut diags = Diags::default();
    let mut watch = Stopwatch::start();
    let parsed = hostir_grammar::hir2::parse(text);
    watch.lap();
    let program = hostir::hir2::read::read_program(&parsed.file, text, 0, &mut diags);
    watch.lap();
    hostir::verify::verify(&program, &mut diags);
    watch.lap();
    let (ops, tensors) = (program.ops().len(), program.tensors().len());
    let written = hostir::hir2::write::write_file(&mut [program]);
    watch.lap();
    assert!(parsed.errors.is_empty(), "the generated program has syntax errors");
    check_no_errors(text, &diags);
    assert!(written.ends_with(text.rsplit("\n\n").next().unwrap_or_default()), "{name} is written otherwise");
    println!("hir 2, {name}, {ops} ops, {tensors} tensors");
    watch.print_rates(text.len(), ops);
}

fn main() {
    let mut numbers = std::env::args().filter_map(|text| text.parse::<usize>().ok());
    let (megabytes, ops) = (numbers.next().unwrap_or(50), numbers.next().unwrap_or(1_000_000));
    let printed = program(megabytes * 1_000_000);
    let mixed = repeat_section(include_str!("../tools/bench/texts/mixed.txt"), ops);
    let flat = repeat_section(include_str!("../tools/bench/texts/flat.txt"), ops);
    for _ in 0..3 {
        measure_printed(&printed);
        measure_hir2("mixed", &mixed);
        measure_hir2("flat", &flat);
        println!();
    }
}
