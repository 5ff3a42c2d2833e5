//! `hir-lit` on a user's folder: a shell tool, with nothing of this project on the PATH. Each file has an expected
//! verdict; reports, filters, updates and blessed outputs are compared with what they have to say.
#![allow(clippy::panic, reason = "failures panic")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;
use tempfile::TempDir;

/// A tool that numbers the lines of a file which are no comments, and prints its comments too with `-c`.
const TOOL: &str = r##"
comments=0
if [ "$1" = -c ]; then comments=1; shift; fi
n=0
while read -r line; do
    case "$line" in
        '#'*) if [ $comments = 1 ]; then echo "$line"; fi ;;
        *) n=$((n + 1)); echo "$n: $line" ;;
    esac
done < "$1"
if [ "$n" = 0 ]; then echo "no lines" >&2; exit 3; fi
"##;

const SETTINGS: &str = r#"
name = "mine"
root = true
suffixes = [".test"]
features = ["shell", { name = "never", env = "HIR_NO_SUCH_VARIABLE", about = "a variable" }]

[substitutions]
tool = "sh %{here}/tool.sh"

[environment]
GREETING = "hello"
"#;

/// Files of the folder: name, text, the verdict, and words of the report.
const TESTS: &[(&str, &str, &str, &[&str])] = &[
    ("pass", "# RUN: %{tool} %s | FileCheck %s\na\nb\n# CHECK: 1: a\n# CHECK-NEXT: 2: b\n", "PASS", &[]),
    ("small", "# RUN: %{tool} %s | filecheck %s\na\n# CHECK: 1: a\n", "PASS", &[]),
    (
        "fail",
        "# RUN: %{tool} %s > %t\n# RUN: cat %t | FileCheck %s\nfirst\nsecnd\nthird\n# CHECK: 1: first\n# CHECK-NEXT: 2: second\n",
        "FAIL",
        &[
            "fail.test:2: RUN: cat %t | FileCheck %s",
            "exit status 1",
            "fail.test:7 | # CHECK-NEXT: 2: second",
            "input 2 > 2: secnd   <- nearest",
        ],
    ),
    ("xfail", "# XFAIL: *\n# RUN: false\n", "XFAIL", &[]),
    ("xpass", "# XFAIL: shell\n# RUN: true\n", "XPASS", &["XFAIL says that it fails"]),
    ("timeout", "# RUN: sleep 60\n", "TIMEOUT", &["timeout"]),
    ("unsupported", "# UNSUPPORTED: shell\n# RUN: false\n", "UNSUPPORTED", &["UNSUPPORTED: shell"]),
    ("requires", "# REQUIRES: shell && never\n# RUN: false\n", "UNSUPPORTED", &["needs"]),
    ("feature", "# REQUIRES: never\n# RUN: false\n", "UNSUPPORTED", &["needs a variable"]),
    ("empty", "no lines for the runner\n", "UNRESOLVED", &["no RUN line"]),
    ("condition", "# REQUIRES: (shell\n# RUN: true\n", "UNRESOLVED", &["missing `)`"]),
    ("unknown", "# RUN: %{tol} %s\n", "UNRESOLVED", &["did you mean `tool`?"]),
    ("status", "# RUN: %{tool} %s 2>&1 | cat\n# only comments\n", "FAIL", &["exit status 3"]),
    ("not", "# RUN: not %{tool} %s 2>&1 | FileCheck %s\n# CHECK: no lines\n", "PASS", &[]),
    ("environment", "# RUN: sh -c 'echo $GREETING $OTHER' | FileCheck %s\n# CHECK: {{^hello$}}\n", "PASS", &[]),
    ("flaky", "# ALLOW_RETRIES: 2\n# RUN: sh %S/Inputs/second.sh %S/Inputs/state\n", "FLAKYPASS", &[]),
    ("bless", "# RUN: %{tool} %s | diff %s.out -\na\n", "FAIL", &["-old", "+1: a"]),
    ("define", "# DEFINE: %{n} = a\n# RUN: echo %{n} | FileCheck %s\n# CHECK: a\n", "PASS", &[]),
    (
        "sub/inner",
        "# REQUIRES: inner\n# RUN: %{tool} %s | FileCheck %s --check-prefix=%{prefix}\nx\n# IN: 1: x\n",
        "PASS",
        &[],
    ),
];

/// A folder of a user outside of the repository.
struct UserFolder {
    folder: TempDir,
}

impl UserFolder {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let user = Self { folder };
        user.add_file("tool.sh", TOOL);
        user.add_file("lit.toml", SETTINGS);
        user
    }

    fn with_tests() -> Self {
        let user = Self::new();
        for (name, text, _, _) in TESTS {
            user.add_file(&format!("{name}.test"), text);
        }
        user.add_file("bless.test.out", "old\n");
        user.add_file("Inputs/second.sh", "if [ -e \"$1\" ]; then exit 0; fi\ntouch \"$1\"\nexit 1\n");
        user.add_file("sub/lit.toml", "features = [\"inner\"]\n[substitutions]\n\"%{prefix}\" = \"IN\"\n");
        user
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn add_file(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        let folder = path.parent().expect("a folder");
        std::fs::create_dir_all(folder).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }

    fn read_file(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).expect("a file")
    }

    fn run_lit(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hir-lit"));
        command.arg(self.path()).args(args).env_clear().env("PATH", "/usr/bin:/bin").env("OTHER", "unseen");
        command.output().expect("hir-lit starts")
    }
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The verdicts and reports of all tests, by name.
fn verdicts(user: &UserFolder, args: &[&str]) -> BTreeMap<String, (String, String)> {
    let report = user.path().join("report.json");
    let report = report.to_str().expect("a path");
    let output = user.run_lit(&[args, &["--json", report]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    let json: serde_json::Value = serde_json::from_str(&user.read_file("report.json")).expect("JSON");
    let text = |test: &serde_json::Value, key: &str| test[key].as_str().unwrap_or_default().to_owned();
    let tests = json["tests"].as_array().expect("tests").iter();
    tests.map(|test| (text(test, "name"), (text(test, "code"), text(test, "output")))).collect()
}

#[test]
fn each_test_has_its_verdict() {
    for args in [&["--timeout", "2"][..], &["--timeout", "2", "--spawn", "-j1"]] {
        let user = UserFolder::with_tests();
        let found = verdicts(&user, args);
        assert_eq!(found.len(), TESTS.len(), "{:?}", found.keys());
        for (name, _, verdict, words) in TESTS {
            let Some((code, report)) = found.get(&format!("mine :: {name}.test")) else { panic!("{name} did not run") };
            if args.contains(&"--spawn") && report.contains("neither built into hir-lit") {
                // The program filecheck is not built by a test run of this crate alone.
                continue;
            }
            assert_eq!(code, verdict, "{name} {args:?}\n{report}");
            for word in *words {
                assert!(report.contains(word), "{name} {args:?}: no `{word}` in\n{report}");
            }
        }
    }
}

#[test]
fn reports_count_and_select() {
    let user = UserFolder::with_tests();
    let xunit = user.path().join("report.xml");
    let some = ["--filter", "pass|fail|requires", "--filter-out", "xpass", "-v", "--time-tests"];
    let output = user.run_lit(&[&some[..], &["--xunit", xunit.to_str().expect("a path")]].concat());
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1));
    for words in [
        "PASS: mine :: pass.test",
        "FAIL: mine :: fail.test",
        "XFAIL: mine :: xfail.test",
        "Failed Tests (1):\n  mine :: fail.test",
        "Total Discovered Tests: 4",
        "Slowest Tests:",
    ] {
        assert!(text.contains(words), "no `{words}` in\n{text}");
    }
    let xunit = user.read_file("report.xml");
    for words in ["<testsuite name=\"mine\" tests=\"4\"", "failures=\"1\"", "<skipped", "classname=\"mine\""] {
        assert!(xunit.contains(words), "no `{words}` in\n{xunit}");
    }
}

#[test]
fn exit_statuses_are_lits() {
    let user = UserFolder::with_tests();
    assert_eq!(user.run_lit(&["--filter", ":: pass"]).status.code(), Some(0));
    assert_eq!(user.run_lit(&["--filter", ":: fail", "-q"]).status.code(), Some(1));
    for args in [&["--filter", "nothing"][..], &["--filter", "("], &["--shard", "3/2"], &["--no-such-option"]] {
        assert_eq!(user.run_lit(args).status.code(), Some(2), "{args:?}");
    }
    let parts: Vec<String> = ["1/2", "2/2"].map(|part| stdout(&user.run_lit(&["--list", "--shard", part]))).into();
    let listed: usize = parts.iter().map(|part| part.lines().count()).sum();
    assert_eq!(listed, TESTS.len());
    user.add_file("lit.toml", "root = true\nsufixes = [\".test\"]\n");
    let output = user.run_lit(&["--list"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(message.contains("lit.toml:2: unknown key `sufixes`: did you mean `suffixes`?"), "{message}");
}

#[test]
fn files_with_run_lines_are_tests_without_settings() {
    let user = UserFolder::new();
    user.add_file("lit.toml", "root = true\n");
    user.add_file("a.txt", "# RUN: sh %S/tool.sh %s | FileCheck %s\nx\n# CHECK: 1: x\n");
    user.add_file("README.md", "RUN: is explained here\n");
    let text = stdout(&user.run_lit(&[]));
    assert!(text.contains("Total Discovered Tests: 1") && text.contains("Passed"), "{text}");
}

#[test]
fn bless_writes_expected_outputs() {
    let user = UserFolder::with_tests();
    assert_eq!(user.run_lit(&["--bless", "--filter", "bless"]).status.code(), Some(0));
    assert_eq!(user.read_file("bless.test.out"), "1: a\n");
}

/// Tests before and after `--update`.
const UPDATES: &[(&str, &str, &str)] = &[
    (
        "new",
        "# RUN: %{tool} %s | FileCheck %s\na [[b]]\n{{c\n",
        "# RUN: %{tool} %s | FileCheck %s\na [[b]]\n{{c\n\n# NOTE: `hir-lit --update` writes the CHECK lines below.\n\
         # CHECK: 1: a {{\\[\\[}}b]]\n# CHECK-NEXT: 2: {{[{][{]}}c\n# CHECK-NEXT: 3:\n",
    ),
    (
        "stale",
        "# What a person wrote.\n# RUN: %{tool} %s | FileCheck %s\n# CHECK: 1: old\n# CHECK-NEXT: 2: old\na\nb\n",
        "# What a person wrote.\n# RUN: %{tool} %s | FileCheck %s\n\
         # NOTE: `hir-lit --update` writes the CHECK lines below.\n# CHECK: 1: a\n# CHECK-NEXT: 2: b\na\nb\n",
    ),
    (
        "above",
        "# RUN: %{tool} %s | FileCheck %s\n# CHECK: 1: a\na\nb\nc\n\
         # NOTE: `hir-lit --update` writes the CHECK lines below.\n# CHECK-NEXT: gone\n",
        "# RUN: %{tool} %s | FileCheck %s\n# CHECK: 1: a\na\nb\nc\n\
         # NOTE: `hir-lit --update` writes the CHECK lines below.\n# CHECK: 2: b\n# CHECK-NEXT: 3: c\n",
    ),
    (
        "comments",
        "# RUN: %{tool} -c %s | FileCheck %s\na\n# note\nb\n",
        "# RUN: %{tool} -c %s | FileCheck %s\na\n# note\nb\n\n\
         # NOTE: `hir-lit --update` writes the CHECK lines below.\n# CHECK: {{^}}1: a{{$}}\n\
         # CHECK-NEXT: {{^}}# note{{$}}\n# CHECK-NEXT: {{^}}2: b{{$}}\n# CHECK-NEXT: {{^}}3: {{$}}\n",
    ),
    (
        "numbers",
        "# UPDATE: numbers\n# RUN: cat %S/Inputs/f | FileCheck %s --match-full-lines\n",
        "# UPDATE: numbers\n# RUN: cat %S/Inputs/f | FileCheck %s --match-full-lines\n\n\
         # NOTE: `hir-lit --update` writes the CHECK lines below.\n# CHECK: one(T[[N0:[0-9]+]]):\n\
         # CHECK-NEXT:   T[[N1:[0-9]+]] = T[[N0]] + {{[-+.0-9e]+}}\n\
         # CHECK-NEXT:   T[[N2:[0-9]+]] = T{{[0-9]+}} * T[[N1]]\n# CHECK-NEXT: two(T[[N2]]):\n# CHECK-NEXT:   return\n",
    ),
    (
        "functions",
        "# UPDATE: functions=two\n# RUN: cat %S/Inputs/f | FileCheck %s\n",
        "# UPDATE: functions=two\n# RUN: cat %S/Inputs/f | FileCheck %s\n\n\
         # NOTE: `hir-lit --update` writes the CHECK lines below.\n# CHECK-LABEL: two(T7):\n# CHECK-NEXT:   return\n",
    ),
    (
        "lines",
        "# UPDATE: lines=return|two\n# RUN: cat %S/Inputs/f | FileCheck %s --check-prefix=L\n",
        "# UPDATE: lines=return|two\n# RUN: cat %S/Inputs/f | FileCheck %s --check-prefix=L\n\n\
         # NOTE: `hir-lit --update` writes the CHECK lines below.\n# L: two(T7):\n# L-NEXT:   return\n",
    ),
    (
        "prefixes",
        "# RUN: echo a | FileCheck %s --check-prefix=A\n# RUN: echo b | FileCheck %s --check-prefix=B\n",
        "# RUN: echo a | FileCheck %s --check-prefix=A\n# RUN: echo b | FileCheck %s --check-prefix=B\n\n\
         # NOTE: `hir-lit --update` writes the CHECK lines below.\n# A: a\n#\n# B: b\n",
    ),
    ("kept", "# RUN: %{tool} %s | FileCheck %s\na\n# CHECK: a\n", "# RUN: %{tool} %s | FileCheck %s\na\n# CHECK: a\n"),
    (
        "none",
        "# UPDATE: none\n# RUN: echo a | FileCheck %s\n# CHECK: b\n",
        "# UPDATE: none\n# RUN: echo a | FileCheck %s\n# CHECK: b\n",
    ),
    ("fails", "# RUN: false | FileCheck %s\n# CHECK: b\n", "# RUN: false | FileCheck %s\n# CHECK: b\n"),
    ("word", "# UPDATE: number\n# RUN: echo a | FileCheck %s\n", "# UPDATE: number\n# RUN: echo a | FileCheck %s\n"),
];

#[test]
fn update_writes_check_lines() {
    let user = UserFolder::new();
    user.add_file("Inputs/f", "one(T5):\n  T6 = T5 + 1.5e-3\n  T7 = T7 * T6\ntwo(T7):\n  return\n");
    for (name, before, _) in UPDATES {
        user.add_file(&format!("{name}.test"), before);
    }
    let output = user.run_lit(&["--update"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for (name, _, after) in UPDATES {
        assert_eq!(user.read_file(&format!("{name}.test")), *after, "{name}\n{text}");
    }
    for words in
        ["UPDATED: mine :: new.test\n", "+# CHECK-NEXT: 2: b", "FAIL: mine :: fails.test", "did you mean `numbers`?"]
    {
        assert!(text.contains(words), "no `{words}` in\n{text}");
    }
    // What was written passes, and is written again as it is.
    let names = "new|stale|above|comments|numbers|functions|lines|prefixes|kept";
    let again = user.run_lit(&["--update", "--filter", names]);
    assert!(stdout(&again).contains("0 updated, 9 unchanged, 0 failed"), "{}", stdout(&again));
    let run = user.run_lit(&["--filter", names]);
    assert_eq!(run.status.code(), Some(0), "{}", stdout(&run));
}

/// A signal ends hir-lit, what its tests started, and their folders.
#[test]
fn signals_end_everything() {
    let user = UserFolder::new();
    user.add_file("long.test", "# RUN: sh -c 'echo $$ > %S/pid; mkdir %S/started; sleep 600; true'\n");
    let temporary = user.path().join("tmp");
    std::fs::create_dir(&temporary).expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_hir-lit"));
    command.arg(user.path()).args(["--timeout", "600"]).env("TMPDIR", &temporary);
    let mut child = command.stdout(std::process::Stdio::null()).spawn().expect("hir-lit starts");
    while !user.path().join("started").exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let running = PathBuf::from(format!("/proc/{}", user.read_file("pid").trim()));
    assert!(running.exists());
    let terminate = Command::new("kill").arg(child.id().to_string()).status();
    assert!(terminate.expect("kill starts").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(128 + 15));
    // A process that was ended is gone as soon as somebody has asked for its status.
    while std::fs::read_to_string(running.join("stat")).is_ok_and(|state| !state.contains(") Z ")) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(std::fs::read_dir(&temporary).expect("a folder").count(), 0);
}

/// Exit status, standard output and standard error of `hir-lit --explain`.
fn explain(asked: &str) -> (Option<i32>, String, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_hir-lit")).args(["--explain", asked]).output().expect("hir-lit starts");
    (output.status.code(), stdout(&output), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn codes_are_explained() {
    let (status, out, err) = explain("h0701");
    assert_eq!((status, out.lines().next(), err.as_str()), (Some(0), Some("# H0701"), ""));
    let (status, out, err) = explain("race");
    assert_eq!((status, out.as_str()), (Some(2), ""));
    let expected = "hir-lit: error: `race` is not a code, such as `H0701`; pages with the words:\nH0701  ";
    assert!(err.starts_with(expected), "{err}");
}
