//! hir-reduce on artificial failures: what is left is small, valid, and still fails.

#![allow(clippy::unwrap_used, clippy::panic, reason = "failures panic")]

mod history;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// The most lines of a result, and the most time for it.
const MOST_LINES: usize = 15;
const MOST_TIME: Duration = Duration::from_secs(30);

/// The folder of the programs, hir-opt and hir-run among them, which packages of their own build.
fn programs() -> PathBuf {
    let reduce = Path::new(env!("CARGO_BIN_EXE_hir-reduce"));
    for program in ["hir-opt", "hir-run"] {
        assert!(
            reduce.with_file_name(program).exists(),
            "{program} is not built: cargo build -p hostir-opt -p hostir-run"
        );
    }
    reduce.parent().unwrap().to_owned()
}

/// A program of the repository.
fn example(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).unwrap()
}

/// Runs a command with our programs on the PATH.
fn run(mut command: Command) -> Output {
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", programs().display())).output().unwrap()
}

/// The text that `hir-opt ARGS` makes of another one.
fn opt(text: &str, args: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("prog.hir");
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new("hir-opt");
    command.arg(&file).args(args);
    let output = run(command);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs `hir-reduce FILE --test=SCRIPT ARGS`: exit status, result, messages. The script is a line for the shell.
fn reduce(text: &str, script: &str, args: &[&str]) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let (file, test) = (folder.path().join("prog.hir"), folder.path().join("fails.sh"));
    std::fs::write(&file, text).unwrap();
    std::fs::write(&test, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&test, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hir-reduce"));
    command.arg(&file).arg(format!("--test={}", test.display())).args(args);
    let output = run(command);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Reduces a text; what is left is small, was found in time, and is the same in a second run.
fn reduced(text: &str, script: &str, args: &[&str]) -> String {
    let start = Instant::now();
    let (status, result, messages) = reduce(text, script, args);
    assert_eq!(status, Some(0), "{messages}");
    assert!(start.elapsed() < MOST_TIME, "{:?}\n{messages}", start.elapsed());
    assert!(result.lines().count() <= MOST_LINES, "{result}");
    // The result still fails, and nothing of it can go.
    let (status, again, messages) = reduce(&result, script, args);
    assert_eq!(status, Some(0), "{messages}\n{result}");
    assert_eq!(again, result, "{messages}");
    result
}

/// A program of 300 statements, of which one matters.
#[test]
fn one_op_among_many() {
    let mut text = "hir 2\n\nmany(A: f32[16, 8]) -> (B: f32[16, 8]):\n  V0 = relu(A)\n".to_owned();
    for at in 1..300 {
        let function = if at == 217 { "tanh" } else { "relu" };
        text += &format!("  V{at} = {function}(V{})\n", at - 1);
    }
    text += "  B = V299 + V3\n";
    let result = reduced(&text, "hir-opt \"$1\" | grep -q 'tanh('", &[]);
    assert_eq!(result.matches("relu").count(), 0, "{result}");
    assert!(result.lines().filter(|line| !line.is_empty()).count() <= 3, "{result}");
}

/// An op in a loop of a lowered program, in both notations.
#[test]
fn an_op_in_a_loop() {
    for form in ["--form=hir2", "--form=printed"] {
        let text = opt(&example("docs/examples/ag_matmul.hir"), &["--pass=host-ir-lower", form]);
        let result = reduced(&text, "hir-opt \"$1\" --form=printed | grep -q 'type=send'", &[]);
        assert!(!result.contains("matmul") && !result.contains("recv"), "{result}");
    }
}

/// The passes of a test case shrink: of a composed one a step is left, with the option that matters.
#[test]
fn passes_of_a_test_case() {
    let passes = "canonicalize,cse,host-ir-lower{communicator_backend=UCC,merge=graph,own_part=last},dce";
    let text = format!("// hir-opt --pass-pipeline='{passes}'\n{}", example("docs/examples/ag_matmul.hir"));
    let result = reduced(&text, "hir-opt --run-reproducer \"$1\" 2>&1 | grep -q 'error.H0332'", &[]);
    let line = result.lines().next().unwrap();
    assert!(line.starts_with("// hir-opt --pass-pipeline='"), "{result}");
    assert!(line.contains("stream-parallel-type{communicator_backend=UCC}"), "{result}");
    for gone in ["canonicalize", "cse", "merge", "own_part", "dce", "convert-op"] {
        assert!(!line.contains(gone), "{result}");
    }
}

/// A message of a pass about a program with a race.
#[test]
fn a_race() {
    let script = "hir-opt \"$1\" --pass='check-program{devices=4}' 2>&1 | grep -q 'error.H0701'";
    let result = reduced(&example("docs/tutorial/race.hir"), script, &[]);
    assert!(result.contains("recv("), "{result}");
}

/// Several programs of a file, of which one matters; the sizes become 1.
#[test]
fn one_program_of_a_file() {
    let text = example("docs/patterns/ring_attention.hir");
    let result = reduced(&text, "hir-opt \"$1\" --form=printed 2>/dev/null | grep -q matmul", &[]);
    assert!(!result.contains("for ") && !result.contains("128"), "{result}");
}

/// A text with errors shrinks only on request.
#[test]
fn an_invalid_program() {
    let text =
        "hir 2\n\nfour(A: f32[4, 8]) -> (B: f32[4, 8]):\n  C = relu(Q)\n  D = relu(A)\n  E = relu(D)\n  B = C + E\n";
    let script = "hir-opt \"$1\" 2>&1 | grep -q 'error.H0217'";
    let (status, result, messages) = reduce(text, script, &[]);
    assert_eq!((status, result.as_str()), (Some(1), ""));
    assert!(messages.contains("the program is invalid; `--allow-invalid` reduces its text all the same"), "{messages}");
    let result = reduced(text, script, &["--allow-invalid"]);
    assert!(result.contains('Q') && !result.contains('E'), "{result}");
}

/// What is wrong with a script is said, and one that does not end does not count.
#[test]
fn wrong_scripts() {
    let text = "hir 2\n\ncopy(A: f32[4]) -> (B: f32[4]):\n  B = relu(A)\n";
    let cases = [
        ("exit 3", "the script must exit with 0 for the file itself, but it exits with 3"),
        ("kill -9 $$", "but it is ended by a signal"),
        ("sleep 60", "but it takes longer than 200 ms"),
    ];
    for (script, expected) in cases {
        let (status, result, messages) = reduce(text, script, &["--timeout-ms=200"]);
        assert_eq!((status, result.as_str()), (Some(1), ""), "{script}");
        assert!(messages.contains(expected), "{messages}");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_hir-reduce"));
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/ag_matmul.hir");
    command.arg(file).arg("--test=./no-such-script");
    let messages = String::from_utf8(run(command).stderr).unwrap();
    assert!(messages.contains("cannot run the script"), "{messages}");
}

/// A limit on runs of the script ends the search; the result is the best so far.
#[test]
fn a_limit_on_runs() {
    let text = "hir 2\n\ncopy(A: f32[4]) -> (B: f32[4]):\n  C = relu(A)\n  D = tanh(C)\n  B = relu(D)\n";
    let (status, result, messages) = reduce(text, "grep -q tanh \"$1\"", &["--max-tests=1"]);
    assert_eq!(status, Some(0), "{messages}");
    assert!(result.contains("tanh") && messages.contains("1 runs of the script"), "{messages}");
}

/// The file that is read imports another one: the result is one file, with the kernel that matters.
#[test]
fn imported_kernels_become_the_files_own() {
    let folder = tempfile::tempdir().unwrap();
    let text = "hir 2.1\n\nimport twice, thrice from \"k.hir\"\n\n\
                f(A: f32[n]) -> (B: f32[n]):\n  V = twice(A)\n  W = thrice(V)\n  B = relu(W)\n";
    let kernels = "hir 2\n\nkernel twice(X: f32[n]) -> (Y: f32[n]):\n  Y = X + X\n\n\
                   kernel thrice(X: f32[n]) -> (Y: f32[n]):\n  U = X + X\n  Y = tanh(U)\n";
    std::fs::write(folder.path().join("main.hir"), text).unwrap();
    std::fs::write(folder.path().join("k.hir"), kernels).unwrap();
    let script = folder.path().join("fails.sh");
    std::fs::write(&script, "#!/bin/sh\nhir-opt \"$1\" --form=printed | grep -q 'tanh('\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hir-reduce"));
    command.arg(folder.path().join("main.hir")).arg("--test").arg(script);
    let output = run(command);
    let [result, messages] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert_eq!(output.status.code(), Some(0), "{messages}");
    assert!(result.contains("tanh(") && result.contains("kernel "), "{result}");
    for gone in ["import", "file \"", "relu"] {
        assert!(!result.contains(gone), "{gone}\n{result}");
    }
}

/// A text is read for the sizes of the command line: what is valid for some is not so for others.
#[test]
fn sizes_of_meshes() {
    let text = "hir 2.1\nmesh d = 0..p\n\nf(A: f32[x:4, 4]) -> (C: f32[4, 4]) on d:\n  \
                B = relu(A)\n  C = alloc\n  wait allgather(B -> C)\n";
    let script = "grep -q allgather \"$1\"";
    for sizes in [&["-n", "4"][..], &["--set=p=4"]] {
        let (status, result, messages) = reduce(text, script, sizes);
        assert_eq!(status, Some(0), "{messages}");
        assert!(result.contains("allgather") && !result.contains("relu"), "{result}");
    }
    for sizes in [&["-n", "2"][..], &["--set=p=2"]] {
        let (status, _, messages) = reduce(text, script, sizes);
        assert_eq!(status, Some(1), "{messages}");
        assert!(messages.contains("error[H0206]") && messages.contains("the program is invalid"), "{messages}");
    }
    let (status, _, messages) = reduce(text, script, &["--set=p"]);
    assert_eq!(status, Some(2), "{messages}");
    assert!(messages.contains("write a name and an integer"), "{messages}");
}
