//! `cargo bench --bench text -- MB OPS`: the time of parsing, resolving, verifying and printing a generated program in the
//! printed form (50 MB) and two in `hir 2` (1,000,000 ops of the IR each), and the CPU time of all threads, in which other
//! work on the machine does not count.

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

/// Wall and CPU time so far, at the ends of phases.
struct Stopwatch {
    zero: Instant,
    times: Vec<[Duration; 2]>,
}

impl Stopwatch {
    fn started() -> Self {
        let mut watch = Self { zero: Instant::now(), times: Vec::new() };
        watch.end_phase();
        watch
    }

    fn end_phase(&mut self) {
        self.times.push([self.zero.elapsed(), cpu_time()]);
    }

    /// One line a phase.
    fn print_rates(&self, bytes: usize, ops: usize) {
        let phases = ["parse", "resolve", "verify", "print"].iter().zip(self.times.windows(2));
        let phases = phases.map(|(phase, pair)| (*phase, pair[0], pair[1]));
        for (what, start, end) in phases.chain([("all", self.times[0], self.times[self.times.len() - 1])]) {
            let [wall, busy] = [0, 1].map(|at| (end[at] - start[at]).as_secs_f64());
            let rate = bytes as f64 / 1e6 / wall;
            let [wall_of_op, busy_of_op] = [wall, busy].map(|time| time * 1e9 / ops as f64);
            println!(
                "{what:8} {wall:7.3} s {rate:8.1} MB/s {wall_of_op:7.0} ns/op; CPU {busy:7.3} s {busy_of_op:7.0} ns/op"
            );
        }
    }
}

/// CPU time of all threads so far.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// A text in `hir 2` of about so many ops: a template of `tools/bench/generators/texts`, with its section repeated.
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
    let mut watch = Stopwatch::started();
    let parsed = hostir_grammar::parse(text);
    watch.end_phase();
    let program = hostir::resolve::resolve(&parsed.ast, 0, text, &mut diags);
    watch.end_phase();
    hostir::verify::verify(&program, &mut diags);
    watch.end_phase();
    let printed = hostir::print::print_to_string(&program);
    watch.end_phase();
    assert!(parsed.errors.is_empty(), "the generated program has syntax errors");
    check_no_errors(text, &diags);
    assert!(printed == text, "the generated program prints otherwise");
    println!("printed form, {} ops, {} tensors", program.ops().len(), program.tensors().len());
    watch.print_rates(text.len(), program.ops().len());
}

fn measure_hir2(name: &str, text: &str) {
    let mut diags = Diags::default();
    let mut watch = Stopwatch::started();
    let parsed = hostir_grammar::hir2::parse(text);
    watch.end_phase();
    let program = hostir::hir2::read::read_program(&parsed.file, text, 0, &mut diags);
    watch.end_phase();
    hostir::verify::verify(&program, &mut diags);
    watch.end_phase();
    let (ops, tensors) = (program.ops().len(), program.tensors().len());
    let written = hostir::hir2::write::write_file(&mut [program]);
    watch.end_phase();
    assert!(parsed.errors.is_empty(), "the generated program has syntax errors");
    check_no_errors(text, &diags);
    assert!(written == text, "the generated program is written otherwise");
    println!("hir 2, {name}, {ops} ops, {tensors} tensors");
    watch.print_rates(text.len(), ops);
}

fn main() {
    let mut numbers = std::env::args().filter_map(|text| text.parse::<usize>().ok());
    let (megabytes, ops) = (numbers.next().unwrap_or(50), numbers.next().unwrap_or(1_000_000));
    let printed = program(megabytes * 1_000_000);
    let mixed = repeat_section(include_str!("../tools/bench/generators/texts/mixed.txt"), ops);
    let flat = repeat_section(include_str!("../tools/bench/generators/texts/flat.txt"), ops);
    for _ in 0..3 {
        measure_printed(&printed);
        measure_hir2("mixed", &mixed);
        measure_hir2("flat", &flat);
        println!();
    }
}
