//! Runs where the system allows few threads. The limit counts all threads of a user, and does not hold for root: a root
//! that can become a user that has none starts them.

use crate::needs;
use libtest_mimic::Trial;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A user that has no process: no package's, and not `nobody`.
const USER: &str = "61234";

const GATHER: &str = "hir 2
sizes n=4
mesh d = 0..2

gather(x: f32[x:2, n]) -> (y: f32[2, n]) on d:
  y = alloc
  wait allgather(x -> y)
";

/// The tests.
pub(crate) fn tests() -> Vec<Trial> {
    needs::tests![
        missing();
        one_thread_runs_a_program,
        processes_without_threads_are_told,
    ]
}

fn missing() -> Option<&'static str> {
    let done = Command::new("setpriv").args(["--reuid", USER, "--regid", USER, "--clear-groups", "true"]).output();
    match done {
        Ok(output) if output.status.success() => None,
        _ => Some("only root can become a user without processes (setpriv)"),
    }
}

/// `hir-run` with these arguments on the program, by a user who may have so many threads.
fn run(threads: u32, args: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("hir-run");
    std::fs::copy(Path::new(env!("CARGO_BIN_EXE_hir-run")), program).unwrap();
    std::fs::write(folder.path().join("gather.hir"), GATHER).unwrap();
    let line = format!("exec prlimit --nproc={threads} ./hir-run gather.hir {args}");
    let mut command = Command::new("setpriv");
    command.args(["--reuid", USER, "--regid", USER, "--clear-groups", "sh", "-c", &line]);
    command.current_dir(folder.path()).stdin(Stdio::null());
    command.output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// One thread does the work that several do elsewhere.
fn one_thread_runs_a_program() {
    for args in ["--quiet --backend=cpu", "--check-only"] {
        let output = run(1, args);
        assert_eq!(output.status.code(), Some(0), "{args}: {}", text(&output));
    }
}

/// Whatever the first thread or process is that cannot be started: an error of the environment, and no panic.
fn processes_without_threads_are_told() {
    for threads in 1..12 {
        let output = run(threads, "--quiet --processes --backend=null --timeout-ms=2000");
        let said = text(&output);
        assert!(matches!(output.status.code(), Some(0 | 3)), "{threads}: {:?} {said}", output.status);
        assert!(!said.contains("internal error"), "{threads}: {said}");
        assert!(output.status.success() || said.contains("error[H0"), "{threads}: {said}");
    }
}
