//! hir-opt as a function of its arguments and streams, and as a process.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use hostir_tool_support::io::ToolIo;
use std::ffi::OsString;
use std::process::Command;

const COPY: &str = "%HostIrContainer { (T0_g_float[iS0{4}]) -> (T1_g_float[iS1{4}]) :
  T1
     = Set( T0, cache_op=Streaming )
} // %HostIrContainer
";

/// Runs `hir-opt - ARGS` on a text: the exit status, standard output, standard error.
fn run(text: &str, args: &[&str]) -> (i32, String, String) {
    run_words(text, &[&["-"], args].concat())
}

/// Runs `hir-opt ARGS` without an input.
fn run_alone(args: &[&str]) -> (i32, String, String) {
    run_words("", args)
}

fn run_words(text: &str, args: &[&str]) -> (i32, String, String) {
    let words: Vec<OsString> = ["hir-opt"].iter().chain(args).map(Into::into).collect();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut io = ToolIo {
        stdin: &mut text.as_bytes(),
        stdout: &mut out,
        stderr: &mut err,
        cwd: std::env::temp_dir(),
        color: false,
        terminal: false,
        columns: None,
        error_columns: None,
        exe: None,
        gpus: hostir_tool_support::SharedState::default(),
        env: |_| None,
    };
    let status = hostir_opt::main_with(&words, &mut io);
    (status, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

/// A wrong value of an option is a wrong command line, whichever part finds it; a conflict of a program and a value is
/// about the program.
#[test]
fn options_are_the_command_lines_fault() {
    let cases: [(&str, &str, i32, &str); 6] = [
        (COPY, "--pass=chunk{axis=T0.0,factor=2}", 0, ""),
        (COPY, "--pass=chunk{axis=T0.0,factor=0}", 2, "H0304"),
        (COPY, "--pass=chunk{axis=T9.0,factor=2}", 2, "H0386"),
        (COPY, "--pass=ring-stream-buffers{buffers=T9}", 2, "H0390"),
        (COPY, "--pass=chunk{axis=T0.0,factor=3}", 1, "H0388"),
        ("%HostIrContainer {", "--pass=chunk{axis=T9.0,factor=2}", 1, "H00"),
    ];
    for (text, flag, wanted, code) in cases {
        let (status, out, err) = run(text, &[flag]);
        assert_eq!(status, wanted, "{flag}\n{err}");
        assert!(err.contains(code), "{flag}\n{err}");
        assert_eq!(out.is_empty(), status != 0, "{flag}\n{out}");
    }
}

/// A wrong option for one of two programs, and an error in the other: both are reported, and the command line is to be
/// repaired first.
#[test]
fn faults_and_errors_are_both_reported() {
    let text = format!("{}{COPY}", COPY.replace("Set( T0", "Set( T5"));
    let (status, _, err) = run(&text, &["--pass=chunk{axis=T9.0,factor=2}"]);
    assert_eq!(status, 2, "{err}");
    assert!(err.contains("H0386") && err.contains("`T5`"), "{err}");
}

#[test]
fn prints_its_version() {
    let output = Command::new(env!("CARGO_BIN_EXE_hir-opt")).arg("--version").output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("hir-opt "), "{text}");
}

/// Runs a script in bash; `None` where there is no such shell.
fn run_bash(script: &str) -> Option<(bool, String)> {
    let found = Command::new("bash").args(["--norc", "-c", script]).output().ok()?;
    let text = [found.stdout, found.stderr].concat();
    Some((found.status.success(), String::from_utf8(text).unwrap()))
}

/// What bash offers for the last of these words. It takes the `=` of a flag for a word of its own.
fn bash_offers(script: &str, words: &[&str]) -> Option<Vec<String>> {
    let last = words.len() - 1;
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let call = format!(
        "{script}\nCOMP_WORDS=({}); COMP_CWORD={last}; _hir__opt hir-opt {} {}; echo \"${{COMPREPLY[@]}}\"",
        quoted.join(" "),
        quoted[last],
        quoted[last - 1]
    );
    let (is_fine, text) = run_bash(&call)?;
    assert!(is_fine, "{text}");
    Some(text.split_whitespace().map(str::to_owned).collect())
}

/// The scripts parse where the shell exists, know all passes, and bash completes a value after `=` too.
#[test]
fn shells_complete_names_of_passes() {
    for shell in ["bash", "zsh", "fish"] {
        let (status, script, _) = run_alone(&["--completions", shell]);
        assert_eq!(status, 0);
        for pass in hostir_passes::PASSES {
            assert!(script.contains(pass.name), "{shell}: {}", pass.name);
        }
        if let Ok(checked) = Command::new(shell).args(["-n", "-c", &script]).output() {
            assert!(checked.status.success(), "{shell}: {}", String::from_utf8_lossy(&checked.stderr));
        }
    }
    let (_, script, _) = run_alone(&["--completions=bash"]);
    let cases: [(&[&str], &[&str]); 5] = [
        (&["hir-opt", "--pass", "can"], &["canonicalize"]),
        (&["hir-opt", "x.hir", "--pass", "=", "ds"], &[]),
        (&["hir-opt", "x.hir", "--pass", "=", "dc"], &["dce"]),
        (&["hir-opt", "x.hir", "--form", "="], &["printed", "abbreviated", "hir2"]),
        (&["hir-opt", "--list-p"], &["--list-passes"]),
    ];
    for (words, expected) in cases {
        let Some(offers) = bash_offers(&script, words) else { return };
        assert_eq!(offers, expected, "{words:?}");
    }
}

/// The page has the options and keeps the lines of the examples.
#[test]
fn man_page_has_options_and_examples() {
    let (status, page, _) = run_alone(&["--man-page"]);
    assert_eq!(status, 0);
    assert!(page.contains(".TH hir-opt 1"), "{page}");
    assert!(page.contains("\\fB\\-\\-pass\\-pipeline\\fR"), "{page}");
    assert!(page.contains("\n  hir\\-opt prog.hir \\-\\-pass=canonicalize \\-\\-pass=dce \\-o small.hir\n"), "{page}");
}
