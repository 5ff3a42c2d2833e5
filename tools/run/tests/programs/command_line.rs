//! hir-run as a function of its arguments and streams: which error ends with which exit status, whatever else a run
//! says.

use hostir_tool_support::io::ToolIo;
use std::ffi::OsString;

/// An allgather on two ranks; the size `i1` is open.
const GATHER: &str = "%HostIrContainer { (T0_g_float[ideviceIdx.x0{2}, iS1{i1}] (DeviceMesh{0 1})) -> (T1_g_float[iS2{2}, iS3{i1}] (DeviceMesh{0 1})) :
  T1 = ALLOCATE(buffer=T1, mem_type=global, size=( 2 * i1 ), zero_init=false, resets_to_zero=false)
  Communication 1 (type=Allgather, team=(0 1), input=T0, output=T1, backend=NCCL)
  Wait Communication 1
} // %HostIrContainer
";

/// Runs `hir-run - ARGS` on a text in an empty folder: the exit status, standard output, standard error, and the number
/// of files afterwards.
fn run(text: &str, args: &[&str]) -> (i32, String, String, usize) {
    run_file(text, "-", args)
}

fn run_file(text: &str, file: &str, args: &[&str]) -> (i32, String, String, usize) {
    let folder = tempfile::tempdir().unwrap();
    // On the CPU, also where there are GPUs; it has one process.
    let named = args.iter().any(|arg| arg.starts_with("--backend") || *arg == "--processes");
    let more: &[&str] = if named { &[] } else { &["--backend=cpu"] };
    let words: Vec<OsString> = ["hir-run", file].iter().chain(args).chain(more).map(Into::into).collect();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut io = ToolIo {
        stdin: &mut text.as_bytes(),
        stdout: &mut out,
        stderr: &mut err,
        cwd: folder.path().to_path_buf(),
        color: false,
        terminal: false,
        columns: None,
        error_columns: None,
        env: |_| None,
        exe: None,
        gpus: hostir_tool_support::SharedState::default(),
    };
    let status = hostir_run::run::main_with(&words, &mut io);
    let files = std::fs::read_dir(folder.path()).unwrap().count();
    (status, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap(), files)
}

#[test]
fn statuses() {
    let deadlock = GATHER.replace("  Comm", "  IF Manual ( rank == 0 ):\n    Comm").replace("  Wait", "    Wait");
    let wrong = GATHER.replace("input=T0", "input=T5");
    let late = GATHER.replace("  Wait", "  Wait Communication 1\n  Wait");
    let cases: [(&str, &[&str], i32, &str); 11] = [
        (GATHER, &["--set", "i1=3"], 0, ""),
        (&wrong, &["--set", "i1=3"], 1, "H0110"),
        (&late, &["--set", "i1=3"], 1, "H0414"),
        (GATHER, &[], 2, "H0401"),
        (GATHER, &["--set", "i1=3", "--devices", "1"], 2, "H0405"),
        (GATHER, &["--set", "i1=3", "--input", "T4=ones"], 2, "H0611"),
        (GATHER, &["--set", "i1=3", "--no-such-flag"], 2, "no-such-flag"),
        (GATHER, &["--set", "i1=3", "--input", "T0=x.npy"], 3, "H0601"),
        (&deadlock, &["--set", "i1=3"], 5, "H0510"),
        (&deadlock, &["--set", "i1=3", "--check-only"], 5, "H0510"),
        (GATHER, &["--help"], 0, ""),
    ];
    for (text, args, expected, code) in cases {
        let (status, out, err, _) = run(text, args);
        assert_eq!(status, expected, "{args:?}: {err}");
        assert!(err.contains(code), "{args:?}: {err}");
        assert_eq!(out.is_empty(), expected != 0, "{args:?}: {out}");
    }
}

/// The first example of `--help` runs on the file of the repository that it names.
#[test]
fn the_example_of_the_help_runs() {
    let (_, help, _, _) = run("", &["--help"]);
    let mut lines = help.lines().map(str::trim);
    let words = lines.find_map(|line| line.strip_prefix("hir-run docs/examples/")).unwrap();
    let (file, args) = words.split_once(' ').unwrap();
    assert_eq!(file, "ag_matmul_p2p.hir");
    let text = include_str!("../../../../docs/examples/ag_matmul_p2p.hir");
    let args: Vec<&str> = args.split(' ').collect();
    let (status, out, err, _) = run(text, &args);
    assert_eq!((status, out.as_str()), (0, "y: f32[4, 64, 64]\n"), "{err}");
}

/// Inside of another program there is no file that could be started again.
#[test]
fn processes_need_a_program() {
    let (status, _, err, _) = run_file("", "x.hir", &["-n", "2", "--processes"]);
    assert_eq!((status, err.starts_with("error[H0649]: cannot start rank 0")), (3, true));
}

/// The CPU backend cannot use several processes; the note names the backend that can without GPUs.
#[test]
fn processes_need_no_gpus_on_the_null_backend() {
    let args = ["-n", "2", "--processes", "--backend=cpu"];
    let (status, _, err, _) = run_file("", "x.hir", &args);
    assert_eq!((status, err.contains("error[H0614]")), (2, true), "{err}");
    assert!(err.contains("`--backend=null`"), "{err}");
}

#[test]
fn failures_write_nothing() {
    let differs = ["--set", "i1=3", "--output", "T1=y.npy", "--out-dir", "d", "--expect", "T1=y.%r.npy"];
    let (status, _, err, files) = run(GATHER, &differs);
    assert_eq!((status, files), (3, 0), "{err}");
    let missing = ["--set", "i1=3", "--output", "T1=y.npy", "--output", "T0=nowhere/x.npy"];
    let (status, _, err, files) = run(GATHER, &missing);
    assert_eq!((status, files), (3, 0), "{err}");
    let folder = ["--set", "i1=3", "--out-dir", "d", "--output", "T0=nowhere/x.npy"];
    let (status, _, err, files) = run(GATHER, &folder);
    assert_eq!((status, files), (3, 0), "{err}");
    let (status, _, err, files) = run(GATHER, &["--set", "i1=3", "--output", "T1=y.npy"]);
    assert_eq!((status, files), (0, 1), "{err}");
}

#[test]
fn runs_repeat() {
    let args = ["--set", "i1=3", "--summary"];
    assert_eq!(run(GATHER, &args), run(GATHER, &args));
    let args = ["--set", "i1=3", "--print-plan"];
    assert_eq!(run(GATHER, &args), run(GATHER, &args));
}

/// A failed comparison ends with 4 and leaves no output.
#[test]
fn differences() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("twice.hir");
    let twice = "%HostIrContainer { (T0_g_float[iS0{2}, iS1{i1}]) -> (T1_g_float[iS2{2}, iS3{i1}]) :
  T1
     = T0
     + T0;
} // %HostIrContainer
";
    std::fs::write(&path, twice).unwrap();
    let reference = path.to_string_lossy();
    let args = ["--set", "i1=3", "--reference", &*reference, "--output", "T1=y.npy"];
    let (status, _, err, files) = run(GATHER, &args);
    assert_eq!((status, files), (4, 0), "{err}");
    assert!(err.contains("H0630"), "{err}");
}

/// Replicas that differ are a wrong program, and a failed comparison if outputs are compared.
#[test]
fn replicas_that_differ() {
    let own_row_only = "%HostIrContainer { (T0_g_float[ideviceIdx.x0{2}, iS1{i1}] (DeviceMesh{0 1})) -> (T1_g_float[iS2{2}, iS3{i1}] (DeviceMesh{0 1})) :
  T1 = ALLOCATE(buffer=T1, mem_type=global, size=( 2 * i1 ), zero_init=true, resets_to_zero=false)
  T2_l_float[iS4{i1}] (DeviceMesh{0 1})
     = HirAliasSelect( T1, axis = iS2{2}, index = rank )
  T3_l_float[iS5{i1}] (DeviceMesh{0 1})
     = HirAliasSelect( T0, axis = ideviceIdx.x0{2}, index = 0 )
  T2
     = Set( T3, cache_op=Streaming )
} // %HostIrContainer
";
    let reference = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/printed/allgather.ref.hir");
    let with_reference = ["--set", "i1=3", "--reference", reference];
    for (args, expected) in [(&with_reference[..2], 1), (&with_reference[..], 4)] {
        let (status, _, err, _) = run(own_row_only, args);
        assert!(status == expected && err.contains("error[H0503]"), "{status}: {err}");
    }
    // The same comparison on a right program.
    let (status, out, err, _) = run(GATHER, &with_reference);
    assert!(status == 0 && out.contains("equal to the reference"), "{err}");
}

/// Looks a variable up.
type Environment = fn(&str) -> Option<OsString>;

/// No line is wider than the terminal; without one lines have the usual width.
#[test]
fn help_fits_the_terminal() {
    fn none(_: &str) -> Option<OsString> {
        None
    }
    fn sixty(name: &str) -> Option<OsString> {
        (name == "COLUMNS").then(|| "60".into())
    }
    fn damaged(name: &str) -> Option<OsString> {
        (name == "COLUMNS").then(|| "wide".into())
    }
    let cases: [(Environment, Option<usize>, usize); 6] = [
        (none, None, 80),
        (none, Some(80), 80),
        (none, Some(90), 90),
        (none, Some(300), 100),
        (sixty, Some(120), 60),
        (damaged, None, 80),
    ];
    let tools: [(hostir_tool_support::io::ToolFn, &[&str]); 4] = [
        (hostir_run::run::main_with, &["hir-run", "--help"]),
        (hostir_opt::main_with, &["hir-opt", "--help"]),
        (hostir_opt::main_with, &["hir-opt", "--list-passes"]),
        (hostir_opt::main_with, &["hir-opt", "--list-ops=pointwise"]),
    ];
    for (env, columns, width) in cases {
        for (tool, words) in tools {
            let text = said(tool, words, env, columns);
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
            // At the other end: wide terminals are used.
            assert!(widest <= width && widest + 15 > width.min(80), "{words:?}, {width}: {text}");
        }
    }
}

/// The text that a tool writes to standard output.
fn said(
    tool: hostir_tool_support::io::ToolFn,
    words: &[&str],
    env: fn(&str) -> Option<OsString>,
    columns: Option<usize>,
) -> String {
    let words: Vec<OsString> = words.iter().map(Into::into).collect();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut io = ToolIo {
        stdin: &mut std::io::empty(),
        stdout: &mut out,
        stderr: &mut err,
        cwd: std::env::temp_dir(),
        color: false,
        terminal: false,
        columns,
        error_columns: None,
        env,
        exe: None,
        gpus: hostir_tool_support::SharedState::default(),
    };
    assert_eq!(tool(&words, &mut io), 0);
    String::from_utf8(out).unwrap()
}
