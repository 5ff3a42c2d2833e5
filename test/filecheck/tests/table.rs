//! The table of hand-written cases, and what messages and options say.

mod common;

use filecheck_rs::{FailureKind, Options, parse_checks};

#[test]
fn every_case_is_as_the_table_says() {
    let cases = common::cases();
    assert!(cases.len() >= 60);
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|(case, passes)| {
            let result = common::check_in_process(case);
            (result.is_ok() != *passes)
                .then(|| format!("{:?}\n{}\n--\n{}\n--\n{result:?}", case.args, case.checks, case.input))
        })
        .collect();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n=====\n"));
}

fn message(checks: &str, input: &str) -> String {
    let options = Options::default();
    match parse_checks(checks, "t.check", &options).and_then(|file| file.check_input(input, &options)) {
        Ok(()) => String::new(),
        Err(failure) => failure.message,
    }
}

#[test]
fn a_mismatch_names_positions_and_values() {
    let checks = "// CHECK: def [[R:%[0-9]+]]\n//   CHECK:   use [[R]]\n";
    let expected = "\
t.check:2:15: error: CHECK: expected string not found in input
//   CHECK:   use [[R]]
              ^
<input>:1:7: note: scanning from here
def %1
      ^
<input>:1:7: note: with \"R\" equal to \"%1\"
def %1
      ^
variables: R = \"%1\"
";
    assert_eq!(message(checks, "def %1\nuse %2\n"), expected);
}

#[test]
fn a_next_on_a_later_line_names_the_line_that_matched() {
    let expected = "\
t.check:2:13: error: CHECK-NEXT: is not on the line after the previous match
CHECK-NEXT: b
            ^
<input>:3:3: note: the match is here
  b
  ^
<input>:1:2: note: previous match ended here
a
 ^
<input>:2:1: note: non-matching line after previous match is here
other
^
";
    assert_eq!(message("CHECK: a\nCHECK-NEXT: b\n", "a\nother\n  b\n"), expected);
}

#[test]
fn a_not_names_what_it_found() {
    let expected = "\
t.check:1:12: error: CHECK-NOT: excluded string found in input
CHECK-NOT: x
           ^
<input>:2:2: note: found here
ax
 ^
";
    assert_eq!(message("CHECK-NOT: x\n", "b\nax\n"), expected);
}

#[test]
fn each_label_block_reports_its_own_failure() {
    let checks = "CHECK-LABEL: f:\nCHECK: x\nCHECK-LABEL: g:\nCHECK: y\n";
    let text = message(checks, "f:\n1\ng:\n2\n");
    assert!(text.contains("t.check:2:8: error") && text.contains("t.check:4:8: error"), "{text}");
}

#[test]
fn a_syntax_error_points_into_the_pattern() {
    let expected = "\
t.check:1:13: error: CHECK: invalid regex: parentheses not balanced
  CHECK: a{{(}}
            ^
";
    assert_eq!(message("  CHECK: a{{(}}\n", "a(\n"), expected);
}

#[test]
fn kinds_and_exit_codes() {
    let options = Options::default();
    let unusable = parse_checks("nothing", "t", &options).expect_err("no directives");
    assert_eq!((unusable.kind, unusable.exit_code()), (FailureKind::Usage, 2));
    let checks = parse_checks("CHECK: a", "t", &options).expect("it parses");
    let mismatch = checks.check_input("b", &options).expect_err("no match");
    assert_eq!((mismatch.kind, mismatch.exit_code()), (FailureKind::Mismatch, 1));
    let empty = checks.check_input("", &options).expect_err("empty");
    assert_eq!((empty.kind, empty.exit_code()), (FailureKind::Usage, 2));
}

#[test]
fn a_command_line_names_two_files() {
    let args = ["t.mlir", "--input-file", "t.out", "--check-prefixes=A,B", "--check-prefix", "C"];
    let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
    let line = Options::from_args(&args).expect("valid");
    assert_eq!(line.check_file.as_deref(), Some("t.mlir"));
    assert_eq!(line.input_file.as_deref(), Some("t.out"));
    assert_eq!(line.options.prefixes, ["A", "B", "C"]);
    assert!(Options::from_args(&["a".to_owned(), "b".to_owned()]).is_err());
    assert!(Options::from_args(&["--input-file".to_owned()]).is_err());
}

/// FileCheck accepts these; here an error says what is not supported.
#[test]
fn the_rest_of_the_language_is_refused_by_name() {
    for (pattern, words) in [
        ("[[#N:]]", "numeric blocks"),
        ("[[#N+1]]", "numeric blocks"),
        ("[[@LINE+1]]", "`@LINE+1` are not supported"),
        ("[[$X:a]]", "`$X:a` are not supported"),
        ("[[X:a]] [[X]]", "`X` is used in the directive that defines it"),
        ("{{(a)\\1}}", "back-references are not supported"),
        ("{{[[:<:]]a}}", "the character class `[:<:]` is not supported"),
        ("{{[[.-.]]}}", "collating elements are not supported"),
    ] {
        let text = message(&format!("CHECK: {pattern}\n"), "a\n");
        assert!(text.contains(words), "{pattern}: {text}");
    }
    let text = message("CHECK: [[X:a|ab]]\n", "ab\n");
    assert!(text.contains("put longer alternatives first"), "{text}");
    for option in ["-DX=1", "--implicit-check-not=x", "--ignore-case", "--enable-var-scope"] {
        let error = Options::from_args(&[option.to_owned()]).expect_err("refused");
        assert_eq!(error, format!("the argument '{option}' is not supported"));
    }
}
