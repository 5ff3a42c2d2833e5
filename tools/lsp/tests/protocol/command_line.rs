//! The command line of hir-lsp, as a process.

use std::process::Command;

/// Exit status, standard output and standard error of `hir-lsp` with these arguments.
fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_hir-lsp")).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn codes_are_explained() {
    for arguments in [&["--explain", "H0701"][..], &["--explain=h0701"], &["--explain", "error[H0701]: race on U"]] {
        let (status, out, err) = run(arguments);
        assert_eq!((status, out.lines().next(), err.as_str()), (Some(0), Some("# H0701"), ""), "{arguments:?}");
    }
    let (status, out, err) = run(&["--explain", "H9999"]);
    assert_eq!((status, out.as_str()), (Some(2), ""));
    assert!(err.starts_with("hir-lsp: error: there is no code `H9999`; the nearest are:\nH0"), "{err}");
    // Without a code all are listed.
    let (status, out, _) = run(&["--explain"]);
    assert!(status == Some(0) && out.lines().any(|line| line.starts_with("H0510  A deadlock")), "{out}");
}
