//! `cargo test --test lit`: every `.hir` file of the tree.
//!
//! Three kinds of cases: `run::<file>` executes the RUN lines of a file below `test/` as `hir-lit test` does, or of the
//! example of docs/out-of-tree.md as its own hir-lit does; `roundtrip::<file>` prints, parses and prints again what any
//! other `.hir` file of the repository holds; `explain::<code>` runs the programs of a page of
//! docs/errors. `spawned` compares the verdicts of some folders with those of tools as processes.
//! `HIR_SPAWN=1` runs the real binaries. A name given on the command line selects cases, as with any Rust test.

mod explanations;

use hostir_lit::case::{RunSettings, TestCase};
use hostir_lit::context::{Context, built_in_tools};
use hostir_lit::directives::parse_directives;
use hostir_lit::discovery::find_tests;
use hostir_lit::outcome::Verdict;
use hostir_lit::programs::{self, Finished, Invocation};
use hostir_test::out_of_tree::TOOLS;
use hostir_test::tree;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    if let Some(status) = explanations::run_as_tool() {
        return status;
    }
    let args = Arguments::from_args();
    let mut trials = Vec::new();
    for path in tree::programs() {
        let (name, text) = (tree::relative(&path), tree::read(&path));
        match parse_directives(&text) {
            Ok(directives) if tree::is_rejected(&text, &directives) => {}
            Ok(_) => {
                let split = text.lines().any(|line| line.trim_end() == "// -----");
                trials.push(Trial::test(format!("roundtrip::{name}"), move || round_trip(&path, split)));
            }
            Err(error) => trials.push(Trial::test(name, move || Err(error.into()))),
        }
    }
    let own = RunSettings { tools: built_in_tools(), spawn: is_spawning(), ..RunSettings::default() };
    add_folder(&tree::root().join("test"), own, &mut trials);
    let out_of_tree = RunSettings { tools: TOOLS.to_vec(), ..RunSettings::default() };
    add_folder(&tree::out_of_tree_tests(), out_of_tree, &mut trials);
    trials.extend(explanations::trials());
    trials.push(Trial::ignorable_test("spawned", compare_with_processes));
    libtest_mimic::run(&args, trials).exit_code()
}

/// Adds the tests of a folder.
fn add_folder(folder: &Path, run: RunSettings, trials: &mut Vec<Trial>) {
    let run = Arc::new(run);
    match find_tests(&[folder.to_path_buf()]) {
        Ok(tests) => trials.extend(tests.into_iter().map(|test| run_case(test, &run))),
        Err(error) => trials.push(Trial::test("lit.toml", move || Err(error.into()))),
    }
}

/// Folders whose tests start every tool, with streams, files, pipes, failures and default options.
const SPAWNED: [&str; 4] = ["opt", "errors/files", "syntax/hir2", "run/communication"];

/// Tests have the verdicts that they have where each tool is a process.
fn compare_with_processes() -> Result<Completion, Failed> {
    let programs = std::env::current_exe()?.ancestors().nth(2).map(Path::to_path_buf).unwrap_or_default();
    let missing = ["hir-opt", "hir-run", "filecheck"].into_iter().find(|name| !programs.join(name).exists());
    if let Some(name) = missing {
        return Ok(Completion::ignored_with(format!("needs the program {name}: cargo build --workspace")));
    }
    let settings = |spawn| RunSettings { tools: built_in_tools(), spawn, ..RunSettings::default() };
    let (inside, spawned) = (settings(false), settings(true));
    let folders = SPAWNED.map(|folder| tree::root().join("test").join(folder));
    for test in find_tests(&folders)? {
        let [inside, spawned] = [&inside, &spawned].map(|run| test.run_test(run));
        if inside.verdict != spawned.verdict {
            let (one, other) = (inside.verdict.name(), spawned.verdict.name());
            let reports = inside.report + &spawned.report;
            let name = test.full_name();
            let hint = "programs of an older build differ, too: cargo build --workspace";
            return Err(format!("{name}: {one} inside, {other} spawned ({hint})\n{reports}").into());
        }
    }
    Ok(Completion::Completed)
}

fn is_spawning() -> bool {
    std::env::var_os("HIR_SPAWN").is_some_and(|value| value == "1")
}

fn run_case(test: TestCase, run: &Arc<RunSettings>) -> Trial {
    let run = Arc::clone(run);
    Trial::ignorable_test(format!("run::{}", tree::relative(&test.path)), move || {
        let outcome = test.run_test(&run);
        match outcome.verdict {
            Verdict::Unsupported => Ok(Completion::ignored_with(outcome.report.trim_end())),
            verdict if verdict.is_failure() => Err(format!("{}\n{}", verdict.name(), outcome.report).into()),
            _ => Ok(Completion::Completed),
        }
    })
}

/// What `hir-opt` prints for the file must be a fixpoint.
fn round_trip(path: &Path, split: bool) -> Result<(), Failed> {
    // The imports of a text from standard input begin where the tool does; the tool writes no file here.
    let folder = path.parent().unwrap_or(Path::new("."));
    let context = Context { spawn: is_spawning(), ..tree::context(folder) };
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    let once = print(bytes, split, &context)?;
    let twice = print(once.clone(), split, &context)?;
    if once == twice {
        return Ok(());
    }
    let (once, twice) = (String::from_utf8_lossy(&once), String::from_utf8_lossy(&twice));
    let at = once.lines().zip(twice.lines()).take_while(|(a, b)| a == b).count();
    let line = |text: &str| text.lines().nth(at).unwrap_or("<end>").to_owned();
    Err(format!("line {} changes when printed again:\n- {}\n+ {}", at + 1, line(&once), line(&twice)).into())
}

fn print(stdin: Vec<u8>, split: bool, context: &Context) -> Result<Vec<u8>, String> {
    let mut words = vec!["hir-opt".to_owned(), "-".to_owned()];
    words.extend(split.then(|| "--split-input-file".to_owned()));
    let Finished { code, out, err } = programs::run_program(&words, Invocation::with_input(stdin, context));
    if code == 0 { Ok(out) } else { Err(format!("hir-opt ends with {code}:\n{}", String::from_utf8_lossy(&err))) }
}
