//! The language of tests: directives, conditions, substitutions, the shell and its programs.
#![allow(clippy::panic, reason = "a tool that panics")]

use hostir_lit::conditions::holds;
use hostir_lit::context::{Context, InProcessTool};
use hostir_lit::directives::{RunLine, parse_directives};
use hostir_lit::exec::run_single_line;
use hostir_lit::settings::Settings;
use hostir_lit::shell::{Command, Join, Redirect, Stream, parse_line};
use hostir_lit::substitutions::{Substitutions, TestPlace};
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[test]
fn run_lines_are_joined() {
    let text = "// RUN: hir-opt %s \\\n// RUN:   | FileCheck %s\n// REQUIRES: dumps, cuda\nx // XRUN: no\n\
                // ALLOW_RETRIES: 2\n// UPDATE: numbers\n// END.\n// RUN: later\n";
    let found = parse_directives(text).expect("directives");
    assert_eq!(found.runs, [RunLine { line: 1, command: "hir-opt %s | FileCheck %s".to_owned() }]);
    assert_eq!(found.requires, ["dumps", "cuda"]);
    assert_eq!((found.retries, &*found.updates), (2, &["numbers".to_owned()][..]));
    assert!(parse_directives("// RUN: a \\").is_err());
    assert!(parse_directives("// ALLOW_RETRIES: often").is_err());
}

#[test]
fn definitions_are_replaced_in_place() {
    let text = "// DEFINE: %{n} = 1\n// DEFINE: %{run} = hir-run \\\n// DEFINE:   -n %{n}\n\
                    // RUN: %{run}\n// REDEFINE: %{n} = 2\n// RUN: %{run} && %{run}\n";
    let found = parse_directives(text).expect("directives").runs;
    let commands: Vec<&str> = found.iter().map(|run| run.command.as_str()).collect();
    assert_eq!(commands, ["hir-run -n 1", "hir-run -n 2 && hir-run -n 2"]);
    for wrong in [
        "// REDEFINE: %{n} = 1",
        "// DEFINE: %{n} = 1\n// DEFINE: %{n} = 1",
        "// DEFINE: n = 1",
        "// DEFINE: %{n} = 1 \\\n// RUN: x",
    ] {
        assert!(parse_directives(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn substitutions_are_replaced() {
    let place = TestPlace { source: PathBuf::from("/a/b.hir"), scratch: PathBuf::from("/tmp/x") };
    let mut own = Substitutions::default();
    own.define("tool", "sh %S/tool.sh");
    own.define("%two", "2");
    own.define("round", "%{round}");
    let text = own.expand("hir-opt %s %S/c %p %t.out %T %% x.%r.hir %basename_t %{s:basename} %two %{tool}", &place);
    assert_eq!(
        text.expect("text"),
        "hir-opt /a/b.hir /a/c /a /tmp/x/b.hir.tmp.out /tmp/x % x.%r.hir b.hir.tmp b.hir 2 sh /a/tool.sh"
    );
    assert_eq!(own.expand("%{tol}", &place), Err("unknown substitution `%{tol}`: did you mean `tool`?".to_owned()));
    assert!(own.expand("%{round}", &place).is_err());
    assert!(own.expand("%{env:HIR_NO_SUCH_VARIABLE}", &place).is_err());
}

#[test]
fn conditions_hold() {
    let has = |name: &str| ["a", "b-2"].contains(&name);
    for (text, expected) in
        [("a", true), ("c", false), ("a && b-2", true), ("!c && (c || a)", true), ("*", true), ("!a||c", false)]
    {
        assert_eq!(holds(text, &has), Ok(expected), "{text}");
    }
    for text in ["", "a &&", "(a", "a b", &"(".repeat(100_000)] {
        assert!(holds(text, &has).is_err(), "{text}");
    }
}

fn words(command: &Command) -> Vec<&str> {
    command.words.iter().map(|word| word.text.as_str()).collect()
}

#[test]
fn pipes_and_redirections_are_parsed() {
    let lists = parse_line("a 'b c' \"d\\\"e\" <in 2>&1 | f -x=1>out && ! g; h").expect("a command line");
    assert_eq!(lists.len(), 3);
    assert_eq!(words(&lists[0].1[0]), ["a", "b c", "d\"e"]);
    let merge = Redirect::Copy { stream: Stream::Errors, target: Stream::Output };
    assert_eq!(lists[0].1[0].redirects, [Redirect::Input("in".into()), merge]);
    assert_eq!(words(&lists[0].1[1]), ["f", "-x=1"]);
    assert_eq!((lists[1].0, lists[2].0), (Join::IfOk, Join::Always));
    assert_eq!(words(&lists[1].1[0]), ["!", "g"]);
}

#[test]
fn wrong_lines_are_refused() {
    for line in ["", "| a", "a >", "a && && b", "a 'b", "a & b", "a |& b", "a << b"] {
        assert!(parse_line(line).is_err(), "{line}");
    }
    assert_eq!(parse_line("a;").expect("a command line").len(), 1);
}

fn run(line: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let settings = Settings::of_folder(folder.path()).expect("no settings");
    run_single_line(line, &settings.context(folder.path()))
}

#[test]
fn exit_statuses_are_a_shells() {
    for line in [
        "true",
        "not false",
        "! false",
        "false || true",
        "false ; true",
        "not env A=b false",
        "not --crash sh -c 'kill -9 $$'",
        "sh -c 'exit 3' || true",
    ] {
        assert_eq!(run(line), Ok(()), "{line}");
    }
    for line in [
        "false",
        "not true",
        "true && false",
        "false | true",
        "no-such-program",
        "not no-such-program",
        "not sh -c 'kill -9 $$'",
        "not --crash false",
    ] {
        assert!(run(line).is_err(), "{line}");
    }
}

#[test]
fn files_and_pipes_are_a_shells() {
    for line in [
        "echo a > x && echo b >> x && echo a > y && echo b >> y && diff x y",
        "mkdir -p d/e && echo c > d/e/f && cat d/e/f | diff d/e/f - && rm -rf d && not cat d/e/f",
        "echo a > x && cat < x | diff x -",
        "not cat nothing 2> errors && not diff errors /dev/null",
        "not cat nothing 2>&1 | not diff /dev/null -",
        "mkdir d && cd d && echo a > x && cd .. && diff d/x d/x && not mkdir d",
        "export A=b && sh -c 'echo $A' | grep b",
        "env A=b sh -c 'echo $A' | grep b",
        "env -u A env -i B=c env | grep B=c",
        "sh -c 'echo out; echo err >&2' > both 2>&1 && grep -c . both | grep 2",
        "sh -c 'echo out; echo err >&2' 2>&1 > x | grep err && grep out x",
        "sh -c 'echo out; echo err >&2' &> both && sh -c 'echo more' &>> both && grep -c . both | grep 3",
        "echo a > x.1 && echo b > x.2 && cat x.* | grep -c . | grep 2 && echo 'x.*' | grep '[*]'",
        "echo no.file.* | grep 'no.file.[*]'",
        "echo a >&2 2> x && not grep a x",
    ] {
        assert_eq!(run(line), Ok(()), "{line}");
    }
    let report = run("echo a > x && echo b | diff x -").expect_err("a difference");
    assert!(report.contains("-a") && report.contains("+b"), "{report}");
}

#[test]
fn sed_is_the_systems() {
    for line in [
        "echo 'a+b' | sed 's/a+/c/' | grep -x cb",
        "echo '(a)(a)' | sed 's/(a)/[&$1]/g' | grep -x '\\[(a)$1\\]\\[(a)$1\\]'",
        "echo aab | sed 's/[^b]*/x/' | grep -x xb",
        "echo aXbXc | sed -e s/X/1/ -e s/X/2/ | grep -x a1b2c",
        "echo a/b | sed 's/\\(.\\)\\/\\(.\\)/\\2,\\1/' | grep -x b,a",
        "echo a/b | sed 's/a\\/b/c/' | grep -x c",
        "echo abc | sed -n 's/b/x/p' | grep -x axc",
        "echo abc | sed y/abc/xyz/ | grep -x xyz",
        "echo abc | sed 's/[[:alpha:]]/x/2' | grep -x axc",
        "not sed 's/(/' x",
    ] {
        assert_eq!(run(line), Ok(()), "{line}");
    }
}

fn panicking_tool(_: &[std::ffi::OsString], _: &mut hostir_tool_support::ToolIo<'_>) -> i32 {
    panic!("of the tool")
}

fn endless_tool(_: &[std::ffi::OsString], _: &mut hostir_tool_support::ToolIo<'_>) -> i32 {
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Panics and endless loops of tools in this process end a command, not the run.
#[test]
fn tools_are_contained() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut context = Context::in_folder(folder.path());
    context.tools = vec![
        InProcessTool { name: "panicking", main: panicking_tool },
        InProcessTool { name: "endless", main: endless_tool },
    ];
    let report = run_single_line("not panicking", &context).expect_err("a crash");
    assert!(report.contains("signal 6") && report.contains("of the tool"), "{report}");
    assert_eq!(run_single_line("not --crash panicking", &context), Ok(()));
    context.deadline = Some(Instant::now() + Duration::from_millis(50));
    let report = run_single_line("not endless || true", &context).expect_err("no end");
    assert!(report.contains("timeout"), "{report}");
}
