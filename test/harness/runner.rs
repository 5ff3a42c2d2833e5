//! The runner of `.hir` files itself: directives, conditions, the shell and the programs of RUN lines.

use hostir_test::directives::{RunLine, parse, substitute};
use hostir_test::exec::{Context, run_line};
use hostir_test::features::holds;
use hostir_test::shell::{self, Command, Join, Redirect};
use hostir_tool_support::SharedState;
use std::collections::BTreeSet;
use std::path::Path;

#[test]
fn run_lines_are_joined() {
    let text = "// RUN: hir-opt %s \\\n// RUN:   | FileCheck %s\n// REQUIRES: dumps, cuda\nx // XRUN: no\n";
    let found = parse(text).expect("directives");
    assert_eq!(found.runs, [RunLine { line: 1, command: "hir-opt %s | FileCheck %s".to_owned() }]);
    assert_eq!(found.requires, ["dumps", "cuda"]);
    assert!(!found.invalid);
    assert!(parse("// RUN: a \\").is_err());
}

#[test]
fn definitions_are_replaced_in_place() {
    let text = "// DEFINE: %{n} = 1\n// DEFINE: %{run} = hir-run \\\n// DEFINE:   -n %{n}\n\
                    // RUN: %{run}\n// REDEFINE: %{n} = 2\n// RUN: %{run} && %{run}\n";
    let found = parse(text).expect("directives").runs;
    let commands: Vec<&str> = found.iter().map(|run| run.command.as_str()).collect();
    assert_eq!(commands, ["hir-run -n 1", "hir-run -n 2 && hir-run -n 2"]);
    for wrong in [
        "// REDEFINE: %{n} = 1",
        "// DEFINE: %{n} = 1\n// DEFINE: %{n} = 1",
        "// DEFINE: n = 1",
        "// DEFINE: %{n} = 1 \\\n// RUN: x",
    ] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn rejected_files_are_marked() {
    assert!(parse("// RUN: not hir-opt %s").expect("directives").invalid);
    assert!(parse("// INVALID: no container\n").expect("directives").invalid);
    assert!(parse("// RUN: hir-opt %s\n\n// -----\n").expect("directives").split);
}

#[test]
fn substitutions() {
    let (source, scratch) = (Path::new("/a/b.hir"), Path::new("/tmp/x"));
    let text = substitute("hir-opt %s %S/c %t.out %% x.%r.hir", source, scratch);
    assert_eq!(text.expect("text"), "hir-opt /a/b.hir /a/c /tmp/x/b.hir.tmp.out % x.%r.hir");
    assert!(substitute("%{nothing}", source, scratch).is_err());
}

#[test]
fn conditions() {
    let features = BTreeSet::from(["a".to_owned(), "b-2".to_owned()]);
    for (text, expected) in
        [("a", true), ("c", false), ("a && b-2", true), ("!c && (c || a)", true), ("*", true), ("!a||c", false)]
    {
        assert_eq!(holds(text, &features), Ok(expected), "{text}");
    }
    for text in ["", "a &&", "(a", "a b"] {
        assert!(holds(text, &features).is_err(), "{text}");
    }
}

fn words(command: &Command) -> Vec<&str> {
    command.words.iter().map(String::as_str).collect()
}

#[test]
fn pipes_and_redirections() {
    let lists = shell::parse("a 'b c' \"d\\\"e\" <in 2>&1 | f -x=1>out && ! g; h").expect("a command line");
    assert_eq!(lists.len(), 3);
    assert_eq!(words(&lists[0].1[0]), ["a", "b c", "d\"e"]);
    assert_eq!(lists[0].1[0].redirects, [Redirect::Input("in".into()), Redirect::Merge]);
    assert_eq!(words(&lists[0].1[1]), ["f", "-x=1"]);
    assert_eq!((lists[1].0, lists[2].0), (Join::IfOk, Join::Always));
    assert_eq!(words(&lists[1].1[0]), ["!", "g"]);
}

#[test]
fn mistakes() {
    for line in ["", "| a", "a >", "a && && b", "a 'b"] {
        assert!(shell::parse(line).is_err(), "{line}");
    }
    assert_eq!(shell::parse("a;").expect("a command line").len(), 1);
}

fn run(line: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    run_line(
        line,
        &Context {
            scratch: folder.path().to_path_buf(),
            bless: false,
            spawn: false,
            flags: Vec::new(),
            gpus: SharedState::default(),
        },
    )
}

#[test]
fn exit_statuses() {
    for line in ["true", "not false", "! false", "false || true", "false ; true", "not env A=b false"] {
        assert_eq!(run(line), Ok(()), "{line}");
    }
    for line in ["false", "not true", "true && false", "false | true", "no-such-program", "not no-such-program"] {
        assert!(run(line).is_err(), "{line}");
    }
}

#[test]
fn files_and_pipes() {
    for line in [
        "echo a > x && echo b >> x && echo a > y && echo b >> y && diff x y",
        "mkdir -p d/e && echo c > d/e/f && cat d/e/f | diff d/e/f - && rm -rf d && not cat d/e/f",
        "echo a > x && cat < x | diff x -",
        "not cat nothing 2> errors && not diff errors /dev/null",
        "not cat nothing 2>&1 | not diff /dev/null -",
    ] {
        assert_eq!(run(line), Ok(()), "{line}");
    }
    let report = run("echo a > x && echo b | diff x -").expect_err("a difference");
    assert!(report.contains("-a") && report.contains("+b"), "{report}");
}
