//! The verdicts of the written cases, and what messages and options say.
#![allow(clippy::panic, reason = "a case that cannot be read")]

mod common;

use filecheck_rs::{CommandLine, DumpInput, FailureKind, Finished, Options, OutputOptions, parse_checks, run_command};

#[test]
fn every_case_has_its_verdict() {
    let cases = common::judged_cases();
    assert!(cases.len() >= 600);
    let wrong = cases.iter().filter_map(|case| {
        let finished = common::run_in_process(&case.case);
        let status = i32::from(finished.status);
        let text = || format!("{}: {status}, not {}\n{}", case.place, case.ours, common::describe(&case.case));
        (status != case.ours).then(|| format!("{}\n{}", text(), finished.stderr))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n=====\n"));
}

#[test]
fn few_cases_differ_from_llvm() {
    let cases = common::judged_cases();
    let differ = |llvm: fn(&common::JudgedCase) -> i32| cases.iter().filter(|case| case.ours != llvm(case)).count();
    let (from_19, from_14) = (differ(|case| case.llvm_19), differ(|case| case.llvm_14));
    assert!(from_19 * 50 < cases.len() && from_14 * 20 < cases.len(), "{from_19} and {from_14}");
}

fn message(checks: &str, input: &str) -> String {
    let output = OutputOptions { dump_input: DumpInput::Never, ..OutputOptions::default() };
    let options = Options { output, ..Options::default() };
    match parse_checks(checks, "t.check", &options).and_then(|file| file.check_input(input, &options)) {
        Ok(remarks) => remarks,
        Err(failure) => failure.message,
    }
}

#[test]
fn a_mismatch_names_positions_values_and_the_nearest_text() {
    let checks = "// CHECK: def [[R:%[0-9]+]]\n//   CHECK:   use [[R]]\n";
    let expected = "\
t.check:2:11: error: CHECK: expected string not found in input
// CHECK: use [[R]]
          ^
<stdin>:1:7: note: scanning from here
def %1
      ^
<stdin>:1:7: note: with \"R\" equal to \"%1\"
def %1
      ^
<stdin>:2:1: note: possible intended match here
use %2
^
";
    assert_eq!(message(checks, "def %1\nuse %2\n"), expected);
}

#[test]
fn a_next_on_a_later_line_names_the_line_that_matched() {
    let expected = "\
t.check:2:13: error: CHECK-NEXT: is not on the line after the previous match
CHECK-NEXT: b
            ^
<stdin>:3:2: note: 'next' match was here
 b
 ^
<stdin>:1:2: note: previous match ended here
a
 ^
<stdin>:2:1: note: non-matching line after previous match is here
other
^
";
    assert_eq!(message("CHECK: a\nCHECK-NEXT: b\n", "a\nother\n  b\n"), expected);
}

#[test]
fn a_not_names_what_it_found() {
    let expected = "\
t.check:1:12: error: CHECK-NOT: excluded string found in input
CHECK-NOT: xy
           ^
<stdin>:2:2: note: found here
axy
 ^~
";
    assert_eq!(message("CHECK-NOT: xy\n", "b\naxy\n"), expected);
}

#[test]
fn all_undefined_variables_of_a_directive_are_named() {
    let text = message("CHECK: [[X]] [[#N+M]]\n", "a\n");
    let names = ["undefined variable: X", "undefined variable: N", "undefined variable: M"];
    assert!(names.iter().all(|name| text.contains(name)), "{text}");
}

#[test]
fn the_input_is_printed_with_notes() {
    let args = ["c", "-vv", "--dump-input-context=1", "--dump-input-filter=error"].map(str::to_owned);
    let finished = run_command(&args, &mut |name| match name {
        "c" => Ok(b"CHECK: a\nCHECK-NEXT: c\n".to_vec()),
        _ => Ok(b"a\nb\nc\nd\ne\nf\ng\nh\n".to_vec()),
    });
    let dump = "\
Input was:
<<<<<<
         1: a 
check:1     ^
         2: b 
         3: c 
next:2      !  error: match on wrong line
         4: d 
         .
         .
         .
>>>>>>
";
    assert!(finished.status == 1 && finished.stderr.ends_with(dump), "{}", finished.stderr);
}

#[test]
fn a_word_like_a_directive_is_a_warning() {
    let args = ["c".to_owned()];
    let finished = run_command(&args, &mut |name| match name {
        "c" => Ok(b"CHECK-LABLE: f\nCHECK: a\n".to_vec()),
        _ => Ok(b"a\n".to_vec()),
    });
    let stderr = "\
c:1:1: warning: 'CHECK-LABLE:' is not a directive; did you mean 'CHECK-LABEL:'?
CHECK-LABLE: f
^
";
    assert_eq!(finished, Finished { status: 0, stdout: String::new(), stderr: stderr.to_owned() });
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
t.check:1:12: error: invalid regex: parentheses not balanced
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
    let line = CommandLine::parse(&args).expect("valid");
    assert_eq!(line.check_file.as_deref(), Some("t.mlir"));
    assert_eq!(line.input_file.as_deref(), Some("t.out"));
    assert_eq!(line.options.prefixes, ["A", "B", "C"]);
    assert!(CommandLine::parse(&["a".to_owned(), "b".to_owned()]).is_err());
    assert!(CommandLine::parse(&["--input-file".to_owned()]).is_err());
}

#[test]
fn errors_in_arguments_with_line_breaks_have_places() {
    for (arg, words) in [
        ("-DX\r\n=a", "invalid name in string variable definition"),
        ("-D#N=\r\n\r\n1+", "invalid matching constraint or operand format"),
        (
            "--implicit-check-not=a\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n{{(}}",
            "invalid regex: parentheses not balanced",
        ),
    ] {
        let finished = run_command(&["c".to_owned(), arg.to_owned()], &mut |_| Ok(b"CHECK: a\n".to_vec()));
        assert!(finished.status == 2 && finished.stderr.contains(words), "{arg:?}: {finished:?}");
    }
}

#[test]
fn misuse_of_the_command_line_is_an_error_line() {
    for (args, status, words) in [
        ("--nope", 1, "error: unknown command line argument '--nope'"),
        ("--ignorecase t", 1, "did you mean '--ignore-case'?"),
        ("-DX t", 2, "error: missing equal sign in command-line definition '-DX'"),
        ("--check-prefix= t", 2, "error: supplied check prefix must not be the empty string"),
        ("", 2, "error: <check-file> not specified"),
        ("no-such-file", 2, "error: could not open check file 'no-such-file'"),
    ] {
        let args: Vec<String> = args.split_whitespace().map(str::to_owned).collect();
        let finished = run_command(&args, &mut |_| Err(std::io::ErrorKind::NotFound.into()));
        assert!(finished.status == status && finished.stderr.contains(words), "{args:?}: {finished:?}");
        assert!(finished.stderr.starts_with("error: "), "{args:?}: {finished:?}");
    }
}
