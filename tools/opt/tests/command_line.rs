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
    let words: Vec<OsString> = ["hir-opt", "-"].iter().chain(args).map(Into::into).collect();
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
