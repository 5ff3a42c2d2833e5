//! Measures planning and proof of large programs: `proof_scale [CASE | FILE]...`
//!
//! Prints one line for each case (all of them without arguments), or for a program of the caller's whose sizes are
//! constant: instructions of all ranks, those that the plans store, and of planning and of the proof the time and the peak
//! memory of the process. Each case runs in a process of its own. The bars are those of docs/benchmarks.md: 8 ranks of a
//! million instructions are planned in 2 s and 512 MiB and proved in 2 s and 1.5 GiB more; a ring of 1,024 ranks takes
//! 10 s.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program's own output")]

use hostir::lower::{SizeSettings, prepare_program};
use hostir::plan::{Plan, PlanLimits};
use hostir::plan_checks::prove_program;
use std::process::{Command, ExitCode};
use std::time::Instant;

/// A program and what it may cost.
struct ScaleCase {
    name: &'static str,
    text: fn() -> String,
    about: &'static str,
}

const CASES: &[ScaleCase] = &[
    ScaleCase { name: "ring", text: || ring(8, 111_100, 2, ""), about: "8 ranks, a block round a ring, two slots" },
    ScaleCase { name: "rows", text: || rows(8, 125_000), about: "8 ranks, a row an iteration, 4 streams" },
    ScaleCase {
        name: "uneven",
        text: || ring(8, 111_100, 2, "IF Manual ( rank == 0 ):\n    T13\n       = Set( T11, cache_op=Streaming )\n  "),
        about: "the ring with one statement more on rank 0: all ranks are walked",
    },
    ScaleCase { name: "ring1024", text: || ring(1024, 1024, 2, ""), about: "1,024 ranks, a block once round the ring" },
    ScaleCase {
        name: "blocks1024",
        text: || ring(1024, 1023, 1024, ""),
        about: "1,024 ranks, the block in a slot of its own in each step",
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [flag, subject] if flag == "--measure" => measure(subject),
        _ => {
            println!("case         instructions     stored   plan s  plan MiB  proof s  proof MiB  errors");
            let all = CASES.iter().map(|case| case.name.to_owned()).collect();
            let subjects = if arguments.is_empty() { all } else { arguments };
            subjects.iter().for_each(|subject| run_apart(subject));
            println!("bars: plan 2 s, 512 MiB; proof 2 s, 1536 MiB more; 10 s in all for the rings of 1,024");
            CASES.iter().for_each(|case| println!("{}: {}", case.name, case.about));
            ExitCode::SUCCESS
        }
    }
}

/// Measures a subject in a process of its own, whose peak memory is the subject's.
fn run_apart(subject: &str) {
    let own = std::env::current_exe().expect("the path of this program");
    let status = Command::new(own).args(["--measure", subject]).status();
    if !status.is_ok_and(|status| status.success()) {
        println!("{subject:<12} failed");
    }
}

fn measure(subject: &str) -> ExitCode {
    let text = match CASES.iter().find(|case| case.name == subject) {
        Some(case) => (case.text)(),
        None => std::fs::read_to_string(subject).unwrap_or_default(),
    };
    let (programs, _) = hostir::load(&text);
    let limits = PlanLimits { bytes: 1 << 40, time: None };
    let sizes = SizeSettings { limits, ..SizeSettings::default() };
    let began = Instant::now();
    let prepared = programs.first().and_then(|program| prepare_program(program, &sizes).ok());
    let Some(prepared) = prepared else {
        eprintln!("{subject}: no plan");
        return ExitCode::FAILURE;
    };
    let (planned, plan_peak) = (began.elapsed().as_secs_f64(), peak_mebibytes());
    let insts: usize = prepared.plans.iter().map(Plan::inst_count).sum();
    let stored: usize = prepared.plans.iter().map(Plan::stored_insts).sum();
    let began = Instant::now();
    let report = prove_program(&prepared);
    let (proved, all_peak) = (began.elapsed().as_secs_f64(), peak_mebibytes());
    let (more, errors) = (all_peak - plan_peak, report.errors.len());
    println!(
        "{subject:<12} {insts:>12} {stored:>10} {planned:>8.2} {plan_peak:>9} {proved:>8.2} {more:>10} {errors:>7}"
    );
    ExitCode::SUCCESS
}

/// The peak of this process's memory, on Linux.
fn peak_mebibytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
}

fn with_sizes(text: &str, ranks: usize, sizes: &[(&str, usize)]) -> String {
    let mesh: Vec<String> = (0..ranks).map(|rank| rank.to_string()).collect();
    let text = text.replace("MESH", &format!("(DeviceMesh{{{}}})", mesh.join(" ")));
    let text = text.replace("RANKS", &ranks.to_string());
    sizes.iter().fold(text, |text, (name, size)| text.replace(name, &size.to_string()))
}

/// A block that goes round a ring for so many steps, on two streams, through `slots` places of a buffer; with as many
/// slots as ranks, a rank begins at its own.
fn ring(ranks: usize, steps: usize, slots: usize, last_statement: &str) -> String {
    let own = if slots == ranks { "rank + " } else { "" };
    let text =
        RING.replace("SLOT", &format!("( {own}i0 ) % COUNT")).replace("NEXT", &format!("( {own}i0 + 1 ) % COUNT"));
    let text = text.replace("FIRST", if slots == ranks { "rank" } else { "0" });
    let text = text.replace("FINAL", &format!("( {own}STEPS ) % COUNT")).replace("LAST", last_statement);
    with_sizes(&text, ranks, &[("STEPS", steps), ("COUNT", slots)])
}

/// Each iteration computes a row through a buffer of its own, on one of the streams.
fn rows(ranks: usize, count: usize) -> String {
    with_sizes(ROWS, ranks, &[("COUNT", count)])
}

const RING: &str = "\
%HostIrContainer { (T0_g_float[ideviceIdx.x0{RANKS}, iS1{4}] MESH) -> (T1_g_float[ideviceIdx.x2{RANKS}, iS3{4}] MESH) :
  T2_g_float[iS4{COUNT}, iS5{4}] MESH = ALLOCATE(buffer=T2, mem_type=global, size=( COUNT * 4 ), zero_init=false, resets_to_zero=false)
  T1 = ALLOCATE(buffer=T1, mem_type=global, size=( 4 * RANKS ), zero_init=false, resets_to_zero=false)
  T10_g_float[iS20{4}] MESH
     = HirAliasSelect( T2, axis = iS4{COUNT}, index = FIRST )
  T11_g_float[iS21{4}] MESH
     = HirAliasSelect( T0, axis = ideviceIdx.x0{RANKS}, index = 0 )
  T10
     = Set( T11, cache_op=Streaming )
  GetCurrentStream into Stream 0
  FOR i0 from 0 to STEPS step 1:
    SetCurrentStream to Stream ( ( i0 % 2 ) + 1 )
    Synchronize Stream 0
    T4_g_float[iS6{4}] MESH
       = HirAliasSelect( T2, axis = iS4{COUNT}, index = ( SLOT ) )
    T5_g_float[iS7{4}] MESH
       = HirAliasSelect( T2, axis = iS4{COUNT}, index = ( NEXT ) )
    StartCoalescing
    P2PCommunication 20 (type=recv, buffer=T5, peer=( ( rank + 1 ) % RANKS ), backend=NCCL)
    P2PCommunication 21 (type=send, buffer=T4, peer=( ( rank + ( RANKS - 1 ) ) % RANKS ), backend=NCCL)
    EndCoalescing 22
    Wait Communication 22
    SetCurrentStream to Stream 0
    Synchronize Stream ( ( i0 % 2 ) + 1 )
  T12_g_float[iS22{4}] MESH
     = HirAliasSelect( T2, axis = iS4{COUNT}, index = ( FINAL ) )
  T13_g_float[iS23{4}] MESH
     = HirAliasSelect( T1, axis = ideviceIdx.x2{RANKS}, index = 0 )
  LASTT13
     = Set( T12, cache_op=Streaming )
} // %HostIrContainer
";

const ROWS: &str = "\
%HostIrContainer { (T0_g_float[ideviceIdx.x0{RANKS}, iS1{COUNT}, iS2{2}] MESH) -> (T1_g_float[ideviceIdx.x3{RANKS}, iS4{COUNT}, iS5{2}] MESH) :
  T1 = ALLOCATE(buffer=T1, mem_type=global, size=( ( COUNT * 2 ) * RANKS ), zero_init=false, resets_to_zero=false)
  GetCurrentStream into Stream 0
  FOR i0 from 0 to COUNT step 1:
    SetCurrentStream to Stream ( i0 % 4 )
    Synchronize Stream 0
    T2_g_float[ideviceIdx.x6{RANKS}, iS7{2}] MESH
       = HirAliasSelect( T0, axis = iS1{COUNT}, index = i0 )
    T3_g_float[ideviceIdx.x8{RANKS}, iS9{2}] MESH
       = HirAliasSelect( T1, axis = iS4{COUNT}, index = i0 )
    T4_g_float[ideviceIdx.x10{RANKS}, iS11{2}] MESH = ALLOCATE(buffer=T4, mem_type=global, size=( 2 * RANKS ), zero_init=false, resets_to_zero=false)
    T4
       = relu(T2);
    T3
       = -T4;
    Deallocate {
    T4_g_float[ideviceIdx.x10{RANKS}, iS11{2}] MESH }
  FOR i1 from 0 to COUNT step 1:
    SetCurrentStream to Stream 0
    Synchronize Stream ( i1 % 4 )
} // %HostIrContainer
";
