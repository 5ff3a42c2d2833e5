//! `cargo test --test devices`: the programs of all tests on the GPUs of this machine.
//!
//! Every RUN line that runs a program runs again with `--backend=cuda`, against what it compares with
//! there (`--expect`, `--reference`). Lines that expect a failure, look at plans or choose a backend are
//! left out, and FileCheck is, since messages name the backend. `HIR_GPU_FLAGS` replaces the flags:
//! by default all communications are copied, so that one GPU runs any number of ranks; with
//! `HIR_GPU_FLAGS="--backend=cuda --map-backend=UCC=NCCL"` they go over NCCL, and lines with more ranks
//! than GPUs are counted. Without a GPU all are reported as ignored. Programs run one after the other;
//! `HIR_SHARD=1/4` takes every fourth file, for several processes beside each other. A line that does not end
//! is told after `HIR_LINE_SECONDS` (120), and ends the process.

use hostir_lit::directives::{self, Directives};
use hostir_lit::exec::run_single_line;
use hostir_test::device_lines::{is_for_devices, runs_program};
use hostir_test::tree;
use hostir_tool_support::SharedState;
use libtest_mimic::{Arguments, Completion, Trial};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Seconds after which a line is taken to hang: hir-run's own limit is 60.
const LINE: u64 = 120;
const COPIES: &str = "--backend=cuda --map-backend=NCCL=CUDA --map-backend=UCC=CUDA";

#[allow(clippy::print_stderr, reason = "a test program's own report")]
fn main() -> ExitCode {
    hostir_run::run::request_hardware_queues();
    let mut args = Arguments::from_args();
    args.test_threads = Some(1);
    let count = hostir_cuda::device_count().unwrap_or(0);
    let flags = std::env::var("HIR_GPU_FLAGS").unwrap_or_else(|_| COPIES.to_owned());
    let flags: Vec<String> = flags.split_whitespace().map(str::to_owned).collect();
    let graph = flags.iter().any(|flag| flag == "--graph");
    let tally = Arc::new(Tally::default());
    tally.clone().end_if_stuck();
    let none = count == 0;
    // Programs leave contexts, communicators, memory and kernels for the next ones.
    let gpus = SharedState::default();
    let shard = shard();
    let files = tree::programs().into_iter().enumerate();
    let files = files.filter(|(number, _)| number % shard.1 == shard.0).map(|(_, path)| path);
    let trials = files.filter_map(|path| {
        let directives = directives::parse_directives(&tree::read(&path)).ok()?;
        let runs = directives.runs.iter().any(|run| is_for_devices(&run.command, graph) && runs_program(&run.command));
        let (flags, tally, gpus) = (flags.clone(), tally.clone(), gpus.clone());
        let name = format!("gpu::{}", tree::relative(&path));
        runs.then(|| {
            Trial::ignorable_test(name, move || {
                if none {
                    return Ok(Completion::ignored_with("needs a GPU"));
                }
                file(&path, &directives, (&flags, &gpus), &tally)?;
                Ok(Completion::Completed)
            })
        })
    });
    let conclusion = libtest_mimic::run(&args, trials.collect());
    let (ran, few) = (tally.ran.load(Ordering::Relaxed), tally.few.load(Ordering::Relaxed));
    if !none {
        eprintln!("{ran} lines ran on {count} GPUs, {few} need more");
    }
    conclusion.exit_code()
}

/// `HIR_SHARD=1/4`: the second of four parts of the files. Programs that run beside each other in one
/// process share the driver's locks and hardware queues, and one that waits for its own ranks can keep
/// another from going on; processes do not.
fn shard() -> (usize, usize) {
    let given = std::env::var("HIR_SHARD").unwrap_or_default();
    let parts = given.split_once('/').and_then(|(at, of)| Some((at.parse().ok()?, of.parse().ok()?)));
    parts.filter(|(at, of)| at < of).unwrap_or((0, 1))
}

/// Lines that ran, and lines that need more GPUs.
#[derive(Default)]
struct Tally {
    ran: AtomicUsize,
    few: AtomicUsize,
    /// The line that runs, and since when.
    now: Mutex<Option<(String, Instant)>>,
}

impl Tally {
    /// The line that runs, if any.
    fn note(&self, line: Option<String>) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = line.map(|line| (line, Instant::now()));
    }

    /// A call of the driver that does not return cannot be ended, but told.
    #[allow(clippy::print_stderr, reason = "a test program's own report")]
    fn end_if_stuck(self: Arc<Self>) {
        let given = std::env::var("HIR_LINE_SECONDS").ok().and_then(|text| text.parse().ok());
        let limit = Duration::from_secs(given.unwrap_or(LINE));
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_millis(250));
                let now = self.now.lock().unwrap_or_else(PoisonError::into_inner).clone();
                if let Some((line, since)) = now.filter(|(_, since)| since.elapsed() > limit) {
                    eprintln!("\nno end after {} s: {line}", since.elapsed().as_secs());
                    std::process::exit(101);
                }
            }
        });
    }
}

/// Runs a file's lines in order: those that run no program may make what the next ones read.
fn file(
    path: &Path,
    directives: &Directives,
    (flags, gpus): (&[String], &SharedState),
    tally: &Tally,
) -> Result<(), String> {
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let context = tree::context(scratch.path()).on_devices(flags.to_vec(), gpus);
    let graph = flags.iter().any(|flag| flag == "--graph");
    let mut left_out = false;
    for run in &directives.runs {
        // What compares files alone may compare those of lines that are left out.
        let compares = run.command.contains("diff ") && !runs_program(&run.command);
        if !is_for_devices(&run.command, graph) || (left_out && compares) {
            left_out = true;
            continue;
        }
        let command = tree::substitute(&run.command, path, scratch.path())?;
        // What goes wrong is to be seen here, not by FileCheck, which is left out.
        let command =
            command.replace("2>&1 | FileCheck", "| FileCheck").replace("2>/dev/null | FileCheck", "| FileCheck");
        let place = format!("{}:{}", tree::relative(path), run.line);
        tally.note(Some(format!("{place}: RUN: {}", run.command)));
        let done = run_single_line(&command, &context);
        tally.note(None);
        match done {
            Ok(()) => tally.ran.fetch_add(usize::from(runs_program(&command)), Ordering::Relaxed),
            Err(report) if report.contains("H0520") && report.contains(" GPUs") => {
                tally.few.fetch_add(1, Ordering::Relaxed)
            }
            Err(report) => {
                return Err(format!("{place}: RUN: {}\n{report}", run.command));
            }
        };
    }
    Ok(())
}
