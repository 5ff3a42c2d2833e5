//! Twice the input takes at most 2.6 times the instructions, for each kind of input that a program may have many of.
//!
//! Valgrind counts the instructions of this program itself, which reads or proves one text as `growth --measure KIND
//! COUNT`. Time would depend on the machine's other work. Ignored where there is no Valgrind.
#![allow(clippy::unwrap_used, reason = "failures panic")]

#[path = "../library/common/needs.rs"]
mod needs;

use hostir::diag::Diags;
use hostir::lower::{SizeSettings, prepare_program};
use hostir::plan_checks::prove_program;
use hostir::print::print_to_string;
use hostir::verify::{verify, verify_partial};
use hostir_passes::manager::{Config, SilentObserver, run_pipeline};
use hostir_passes::{PASSES, pipeline};
use std::process::{Command, ExitCode};

/// The most that twice the input may take.
const MOST: f64 = 2.6;

/// The number that shows what the program takes by itself: two ranks can exchange messages.
const LEAST: usize = 2;

/// A kind of input.
struct InputKind {
    name: &'static str,
    /// The smaller of the two numbers.
    count: usize,
    text: fn(usize) -> String,
    job: fn(&str),
}

const KINDS: &[InputKind] = &[
    InputKind { name: "programs", count: 400, text: programs, job: read_all },
    InputKind { name: "tensors", count: 1000, text: tensors, job: read_all },
    InputKind { name: "streams", count: 128, text: streams, job: prove },
    InputKind { name: "meshes", count: 400, text: meshes, job: read_all },
    InputKind { name: "loops", count: 400, text: loops, job: prove },
    InputKind { name: "comments", count: 1000, text: comments, job: read_all },
    InputKind { name: "errors", count: 400, text: errors, job: read_all },
    InputKind { name: "columns", count: 128, text: columns, job: prove },
    InputKind { name: "widths", count: 40, text: widths, job: prove },
    InputKind { name: "ranks", count: 64, text: ranks, job: prove },
    InputKind { name: "handles", count: 400, text: handles, job: prove },
    InputKind { name: "copies", count: 400, text: copies, job: share_copies },
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, name, count] = words.as_slice()
        && flag == "--measure"
    {
        let kind = KINDS.iter().find(|kind| kind.name == name).unwrap();
        (kind.job)(&(kind.text)(count.parse().unwrap()));
        return ExitCode::SUCCESS;
    }
    let found = Command::new("valgrind").arg("--version").output().is_ok();
    let missing = (!found).then_some("needs valgrind");
    needs::run(needs::tests![
        missing;
        programs_are_linear,
        tensors_are_linear,
        streams_are_linear,
        meshes_are_linear,
        loops_are_linear,
        comments_are_linear,
        errors_are_linear,
        columns_are_linear,
        widths_are_linear,
        ranks_are_linear,
        handles_are_linear,
        copies_are_linear,
    ])
}

/// Declares a test for each kind.
macro_rules! growth_tests {
    ($($test:ident = $name:literal;)*) => {
        $(fn $test() {
            check_growth($name);
        })*
    };
}

growth_tests! {
    programs_are_linear = "programs";
    tensors_are_linear = "tensors";
    streams_are_linear = "streams";
    meshes_are_linear = "meshes";
    loops_are_linear = "loops";
    comments_are_linear = "comments";
    errors_are_linear = "errors";
    columns_are_linear = "columns";
    widths_are_linear = "widths";
    ranks_are_linear = "ranks";
    handles_are_linear = "handles";
    copies_are_linear = "copies";
}

fn check_growth(name: &str) {
    let kind = KINDS.iter().find(|kind| kind.name == name).unwrap();
    let start = count_instructions(name, LEAST);
    let [once, twice] = [kind.count, 2 * kind.count].map(|count| count_instructions(name, count) - start);
    let ratio = twice / once;
    assert!(ratio <= MOST, "{} {name}: {once} instructions; twice as many: {twice}, {ratio:.2} times", kind.count);
}

/// The instructions of this program for one text.
fn count_instructions(name: &str, count: usize) -> f64 {
    let tool = ["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"];
    let own = std::env::current_exe().unwrap();
    let mut command = Command::new("valgrind");
    let output = command.args(tool).arg(own).args(["--measure", name, &count.to_string()]).output().unwrap();
    let report = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{report}");
    let (_, counted) = report.split_once("I ").and_then(|(_, rest)| rest.split_once("refs:")).unwrap();
    let digits: String = counted.lines().next().unwrap().chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

/// Reads, verifies and prints all programs of a text.
fn read_all(text: &str) {
    let (programs, found) = hostir::load(text);
    let is_wrong = text.contains("unknown");
    for program in &programs {
        let mut diags = Diags::default();
        if found.has_errors() {
            verify_partial(program, &[], &mut diags);
        } else {
            verify(program, &mut diags);
        }
        assert_eq!(diags.has_errors() || found.has_errors(), is_wrong);
        print_to_string(program);
    }
}

/// Proves the first program of a text, which is right.
fn prove(text: &str) {
    let (programs, found) = hostir::load(text);
    assert!(!found.has_errors(), "{:?}", found.items);
    let prepared = prepare_program(&programs[0], &SizeSettings::default()).unwrap();
    let report = prove_program(&prepared);
    assert!(report.errors.is_empty(), "{:?}", report.errors);
}

// ---- texts ----

/// `one(0) one(1) ..`
fn repeated(count: usize, one: impl Fn(usize) -> String) -> String {
    (0..count).map(one).collect()
}

/// The head of a program with so many rows.
fn head(rows: usize) -> String {
    format!("hir 2\nmesh d = 0..1\nf(X: f32[{rows}, 4]) -> (Y: f32[{rows}, 4]) on d:\n  Y = alloc\n")
}

fn programs(count: usize) -> String {
    format!("hir 2\n{}", repeated(count, |at| format!("f{at}(X: f32[4]) -> (Y: f32[4]):\n  Y = relu(X)\n\n")))
}

fn tensors(count: usize) -> String {
    let chain = repeated(count, |at| format!("  U{} = relu(U{at})\n", at + 1));
    format!("hir 2\nf(X: f32[4]) -> (Y: f32[4]):\n  U0 = relu(X)\n{chain}  Y = relu(U{count})\n")
}

fn streams(count: usize) -> String {
    let work = repeated(count, |at| format!("  stream {}:\n    sync 0\n    Y[{at}] = relu(X[{at}])\n", at + 1));
    head(count) + &work + &repeated(count, |at| format!("  sync {}\n", at + 1))
}

fn meshes(count: usize) -> String {
    let declared = repeated(count, |at| format!("mesh d{at} = {at}..{}\n", at + 1));
    let [inputs, outputs] = ["X", "Y"].map(|name| {
        let list: Vec<String> = (0..count).map(|at| format!("{name}{at}: f32[4] @d{at}")).collect();
        list.join(", ")
    });
    let work = repeated(count, |at| format!("  Y{at} = relu(X{at})\n"));
    format!("hir 2\n{declared}f({inputs}) -> ({outputs}):\n{work}")
}

fn loops(count: usize) -> String {
    head(4) + &repeated(count, |_| "  for i in 4:\n    Y[i] = relu(X[i])\n".to_owned())
}

fn comments(count: usize) -> String {
    head(4) + "  Y = Set(X)\n" + &repeated(count, |at| format!("  // comment {at}\n  Y = relu(Y)\n"))
}

fn errors(count: usize) -> String {
    head(4) + "  Y = Set(X)\n" + &repeated(count, |at| format!("  Y = relu(unknown{at})\n"))
}

/// All columns are written, then all rows read.
fn columns(count: usize) -> String {
    format!(
        "hir 2\nmesh d = 0..1\nf(X: f32[{count}, {count}]) -> (Y: f32[{count}, {count}]) on d:\n  Y = alloc\n  \
         S: f32[{count}, {count}] = alloc\n  for i in {count}:\n    S[:, i] = Set(X[:, i])\n  for i in {count}:\n    \
         Y[i] = Set(S[i])\n"
    )
}

/// Columns of four shapes of one memory.
fn widths(count: usize) -> String {
    let columns = ["Y", "A", "B", "C"].map(|name| format!("    {name}[:, i] = relu({name}[:, i])\n")).concat();
    format!(
        "hir 2\nmesh d = 0..1\nf(X: f32[96, 100]) -> (Y: f32[96, 100]) on d:\n  Y = alloc\n  Y = Set(X)\n  \
         A: f32[100, 96] = alloc(share=Y)\n  B: f32[80, 120] = alloc(share=Y)\n  C: f32[120, 80] = alloc(share=Y)\n  \
         for i in {count}:\n{columns}"
    )
}

/// A message round a ring.
fn ranks(count: usize) -> String {
    format!(
        "hir 2\nmesh d = 0..{count}\nf(X: f32[x:{count}, 4]) -> (Y: f32[x:{count}, 4]) on d:\n  Y = alloc\n  \
         wait {{ send(X, to=(rank + 1) % {count}); recv(Y, from=wrap(rank - 1, {count})) }}\n"
    )
}

fn handles(count: usize) -> String {
    let work = repeated(count, |at| format!("  h{at} = allgather(X -> Y)\n  wait h{at}\n"));
    format!("hir 2\nmesh d = 0..2\nf(X: f32[x:2, 4]) -> (Y: f32[2, 4]) on d:\n  Y = alloc\n{work}")
}

/// Operands that are gathered, each for two products.
fn copies(count: usize) -> String {
    let operands: String = (0..count).map(|at| format!(", A{at}: f32[x:2, 4, 4]")).collect();
    let product = |name: &str, at: usize| format!("  {name}{at}: f32[2, 4, 4, r.4] = matmul(A{at}, W)\n");
    let work = repeated(count, |at| product("P", at) + &product("Q", at));
    format!("hir 2\nmesh d = 0..2\nf(W: f32[4, 4]{operands}) -> (Y: f32[4, 4]) on d:\n{work}  Y = Set(W)\n")
}

/// Inserts one copy for the two products of an operand.
fn share_copies(text: &str) {
    let (mut programs, _) = hostir::load(text);
    let pipeline = pipeline::parse_pipeline("insert-reshardings{share_copies=true}", PASSES).unwrap();
    let ran = run_pipeline(&mut programs[0], &pipeline, &Config::default(), &mut SilentObserver);
    assert!(ran.is_ok());
}
