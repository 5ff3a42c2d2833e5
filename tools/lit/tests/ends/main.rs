//! Tools that end the process of the tests, or never end: every test has a verdict all the same, that of `--spawn`.
//!
//! Started with `HIR_LIT_TOOLS`, this program is a hir-lit with such tools in its process.
#![allow(clippy::panic, reason = "failures panic")]

use hostir_lit::command::main_with;
use hostir_lit::context::InProcessTool;
use hostir_tool_support::ToolIo;
use libtest_mimic::{Arguments, Trial};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

const AS_LIT: &str = "HIR_LIT_TOOLS";

fn main() -> ExitCode {
    if std::env::var_os(AS_LIT).is_some() {
        let tool = |name, main| InProcessTool { name, main };
        let tools = vec![tool("overflow", overflow), tool("leave", leave), tool("spin", spin), tool("greet", greet)];
        return ExitCode::from(main_with(&std::env::args_os().collect::<Vec<_>>(), tools));
    }
    let trials = [
        Trial::test("tools_that_end_the_process", || {
            tools_that_end_the_process();
            Ok(())
        }),
        Trial::test("tools_that_never_end", || {
            tools_that_never_end();
            Ok(())
        }),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit_code()
}

fn overflow(_: &[OsString], _: &mut ToolIo<'_>) -> i32 {
    #[allow(unconditional_recursion, reason = "the stack is to overflow")]
    fn deeper(depth: u64) -> u64 {
        deeper(black_box(depth + 1)) + black_box(depth)
    }
    i32::try_from(deeper(0)).unwrap_or(0)
}

fn leave(_: &[OsString], _: &mut ToolIo<'_>) -> i32 {
    std::process::exit(3)
}

fn spin(_: &[OsString], _: &mut ToolIo<'_>) -> i32 {
    loop {
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn greet(_: &[OsString], io: &mut ToolIo<'_>) -> i32 {
    i32::from(writeln!(io.stdout, "hello").is_err())
}

/// Files of the folder: name, text, the verdict, words of the report.
const TESTS: &[(&str, &str, &str, &str)] = &[
    ("overflow", "# RUN: overflow\n", "FAIL", "hir-lit was ended by signal 6 while the test ran; this is with --spawn"),
    ("expected", "# XFAIL: *\n# RUN: overflow\n", "XFAIL", ""),
    ("leave", "# RUN: leave\n", "FAIL", "hir-lit exited with 3 while the test ran; this is with --spawn"),
    ("not", "# RUN: not leave\n", "PASS", ""),
    ("a", "# RUN: greet | cat\n", "PASS", ""),
    ("b", "# RUN: greet && false\n", "FAIL", "$ false"),
    ("z", "# RUN: greet\n", "PASS", ""),
];

/// A folder with such tests, and the tools as programs of their own.
fn user_folder(tests: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    let settings = "name = \"mine\"\nroot = true\nsuffixes = [\".test\"]\npath = [\"bin\"]\n";
    add_file(&folder.path().join("lit.toml"), settings);
    for (name, text) in [("overflow", "kill -ABRT $$"), ("leave", "exit 3"), ("greet", "echo hello")] {
        let path = folder.path().join("bin").join(name);
        add_file(&path, &format!("#!/bin/sh\n{text}\n"));
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(path, mode).unwrap_or_else(|error| panic!("{error}"));
    }
    for (name, text) in tests {
        add_file(&folder.path().join(format!("{name}.test")), text);
    }
    folder
}

fn add_file(path: &Path, text: &str) {
    let made = path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(path, text));
    made.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// Runs this program as hir-lit: the status, its messages, and the verdict and report of each test.
fn run_lit(folder: &Path, args: &[&str]) -> (Option<i32>, String, BTreeMap<String, (String, String)>) {
    let report = folder.join("report.json");
    let this = std::env::current_exe().unwrap_or_else(|error| panic!("{error}"));
    let temporary = folder.join("tmp");
    add_file(&temporary.join("x"), "");
    let mut command = Command::new(this);
    command.arg(folder).args(args).arg("--json").arg(&report);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("TMPDIR", &temporary).env(AS_LIT, "1");
    let output = command.output().unwrap_or_else(|error| panic!("{error}"));
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert_eq!(std::fs::read_dir(&temporary).map(Iterator::count).ok(), Some(1), "files are left\n{said}");
    let json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(report).unwrap_or_default()).unwrap_or_default();
    let text = |test: &serde_json::Value, key: &str| test[key].as_str().unwrap_or_default().to_owned();
    let tests = json["tests"].as_array().map(Vec::as_slice).unwrap_or_default().iter();
    let verdicts = tests.map(|test| {
        let name = text(test, "name").replace("mine :: ", "").replace(".test", "");
        (name, (text(test, "code"), text(test, "output")))
    });
    (output.status.code(), said, verdicts.collect())
}

fn tools_that_end_the_process() {
    let tests: Vec<(&str, &str)> = TESTS.iter().map(|(name, text, ..)| (*name, *text)).collect();
    let folder = user_folder(&tests);
    for args in [&["-j1"][..], &["-j4"], &["-j4", "--spawn"]] {
        let (status, said, found) = run_lit(folder.path(), args);
        assert_eq!(status, Some(1), "{said}");
        assert_eq!(found.len(), TESTS.len(), "{args:?}\n{said}");
        for (name, _, verdict, words) in TESTS {
            let (code, report) = &found[*name];
            assert_eq!(code, verdict, "{name} {args:?}\n{report}\n{said}");
            let is_spawned = args.contains(&"--spawn") && words.contains("--spawn");
            assert!(is_spawned || report.contains(words), "{name} {args:?}\n{report}");
        }
        let says_why = said.contains("hir-lit: the process of the tests was ended by signal 6");
        assert_eq!(says_why, !args.contains(&"--spawn"), "{said}");
    }
}

/// The time of a test ends hir-lit's patience with a tool in its process; the run ends with it.
fn tools_that_never_end() {
    let folder = user_folder(&[("spin", "# RUN: spin\n"), ("z", "# RUN: greet\n")]);
    let start = Instant::now();
    let (status, said, found) = run_lit(folder.path(), &["--timeout", "1"]);
    assert_eq!((status, found["spin"].0.as_str(), found["z"].0.as_str()), (Some(1), "TIMEOUT", "PASS"), "{said}");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}
