//! `cargo test --test lit`: every `.hir` file of the tree.
//!
//! Two kinds of cases: `run::<file>` executes the RUN lines of a file below `test/`, and
//! `roundtrip::<file>` prints, parses and prints again what any `.hir` file of the repository holds.
//! `HIR_BLESS=1` rewrites expectations, `HIR_SPAWN=1` runs the real binaries. A name given on the
//! command line selects cases, as with any Rust test.

use hostir_test::directives::{self, Directives};
use hostir_test::exec::{self, Context};
use hostir_test::features;
use hostir_test::programs::{self, Finished, Invocation};
use hostir_test::tree;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = Arguments::from_args();
    let features = features::available();
    let mut trials = Vec::new();
    for path in tree::files(&tree::root(), ".hir") {
        let name = tree::relative(&path);
        let directives = directives::parse(&tree::read(&path));
        let auxiliary = name.contains("/Inputs/") || !name.starts_with("test/");
        match directives {
            Ok(directives) => {
                if !directives.invalid {
                    trials.push(round_trip_case(&name, &path, &directives));
                }
                if !auxiliary {
                    trials.push(run_case(&name, path, directives, &features));
                }
            }
            Err(error) => trials.push(Trial::test(name, move || Err(error.into()))),
        }
    }
    libtest_mimic::run(&args, trials).exit_code()
}

fn context(scratch: &Path) -> Context {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| value == "1");
    Context {
        scratch: scratch.to_path_buf(),
        bless: is_set("HIR_BLESS"),
        spawn: is_set("HIR_SPAWN"),
        flags: Vec::new(),
        gpus: hostir_tool_support::SharedState::default(),
    }
}

fn run_case(name: &str, path: PathBuf, directives: Directives, features: &BTreeSet<String>) -> Trial {
    let skipped = skips(&directives, features);
    let expected_to_fail = any(&directives.xfail, features).unwrap_or(false);
    Trial::ignorable_test(format!("run::{name}"), move || {
        if let Some(reason) = skipped? {
            return Ok(Completion::ignored_with(reason));
        }
        let result = run(&path, &directives);
        match (result, expected_to_fail) {
            (Err(report), false) => Err(report.into()),
            (Ok(()), true) => Err("it passes, although XFAIL says that it fails".into()),
            (Ok(()), false) | (Err(_), true) => Ok(Completion::Completed),
        }
    })
}

/// The reason that a file does not run here; `None` if it does.
fn skips(directives: &Directives, features: &BTreeSet<String>) -> Result<Option<String>, String> {
    for condition in &directives.requires {
        if !features::holds(condition, features)? {
            return Ok(Some(format!("needs {}", features::described(condition))));
        }
    }
    let unsupported = any(&directives.unsupported, features)?;
    Ok(unsupported.then(|| format!("UNSUPPORTED: {}", directives.unsupported.join(", "))))
}

fn any(conditions: &[String], features: &BTreeSet<String>) -> Result<bool, String> {
    for condition in conditions {
        if features::holds(condition, features)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn run(path: &Path, directives: &Directives) -> Result<(), String> {
    if directives.runs.is_empty() {
        return Err("the file has no RUN line (a file that other tests use belongs into a folder named Inputs)".into());
    }
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let context = context(scratch.path());
    for run in &directives.runs {
        let command = directives::substitute(&run.command, path, scratch.path())?;
        exec::run_line(&command, &context)
            .map_err(|report| format!("{}:{}: RUN: {}\n{report}", tree::relative(path), run.line, run.command))?;
    }
    Ok(())
}

fn round_trip_case(name: &str, path: &Path, directives: &Directives) -> Trial {
    let (path, split) = (path.to_path_buf(), directives.split);
    Trial::test(format!("roundtrip::{name}"), move || round_trip(&path, split))
}

/// What `hir-opt` prints for the file must be a fixpoint.
fn round_trip(path: &Path, split: bool) -> Result<(), Failed> {
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let context = context(scratch.path());
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
    let invocation = Invocation { stdin, merge: false, env: Vec::new(), context };
    let Finished { code, out, err } = programs::run(&words, invocation);
    if code == 0 { Ok(out) } else { Err(format!("hir-opt ends with {code}:\n{}", String::from_utf8_lossy(&err))) }
}
