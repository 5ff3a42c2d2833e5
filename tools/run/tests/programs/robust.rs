//! The programs as processes: full devices, names that are no UTF-8, little memory.

use crate::hir_opt::hir_opt;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Output, Stdio};

const RUN: &str = env!("CARGO_BIN_EXE_hir-run");
const COPY: &str = "%HostIrContainer { (T0_g_float[iS0{4}]) -> (T1_g_float[iS1{4}]) :
  T1
     = Set( T0, cache_op=Streaming )
} // %HostIrContainer
";

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a program in a folder that holds `p.hir`.
fn run(folder: &tempfile::TempDir, program: &str, args: &[&OsStr]) -> Output {
    let mut command = Command::new(program);
    command.args(args).current_dir(folder.path()).env_clear().stdin(Stdio::null());
    command.output().unwrap()
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("p.hir"), COPY).unwrap();
    folder
}

/// Output that cannot be written is not taken for written.
#[test]
fn a_full_device_is_an_error() {
    let folder = folder();
    let cases: [(&str, &[&str]); 8] = [
        (hir_opt(), &["--list-passes"]),
        (hir_opt(), &["--help"]),
        (hir_opt(), &["--version"]),
        (hir_opt(), &["p.hir"]),
        (RUN, &["--help"]),
        (RUN, &["--version"]),
        (RUN, &["p.hir", "--backend=cpu", "--print-plan"]),
        (RUN, &["p.hir", "--backend=cpu", "--summary"]),
    ];
    for (program, args) in cases {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(program);
        command.args(args).current_dir(folder.path()).env_clear().stdin(Stdio::null());
        let output = command.stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{args:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains("error[H0602]: cannot write `standard output`"));
    }
}

#[test]
fn names_of_files_need_not_be_text() {
    let folder = folder();
    let name = OsStr::from_bytes(b"p\xff\xfe.hir");
    std::fs::rename(folder.path().join("p.hir"), folder.path().join(name)).unwrap();
    let out = OsStr::from_bytes(b"out\x80.hir");
    let flag = OsStr::new;
    let opt = run(&folder, hir_opt(), &[name, flag("-o"), out]);
    assert_eq!(opt.status.code(), Some(0), "{}", text(&opt.stderr));
    assert_eq!(std::fs::read(folder.path().join(out)).unwrap(), { run(&folder, hir_opt(), &[name]).stdout });
    let data = OsStr::from_bytes(b"T1=out\x80.npy");
    let args = [out, flag("--backend=cpu"), flag("--output"), data, flag("--reference"), name];
    let ran = run(&folder, RUN, &args);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    assert!(folder.path().join(OsStr::from_bytes(b"out\x80.npy")).is_file());
    let said = std::str::from_utf8(&ran.stdout).unwrap();
    assert!(said.contains("`p\u{fffd}\u{fffd}.hir`"), "{said}");
    for program in [hir_opt(), RUN] {
        let missing = run(&folder, program, &[OsStr::from_bytes(b"no\xff.hir")]);
        let said = std::str::from_utf8(&missing.stderr).unwrap();
        assert_eq!(missing.status.code(), Some(3));
        assert!(said.contains("cannot read `no\u{fffd}.hir`"), "{said}");
    }
}

/// Runs hir-opt on a file with little memory: its status, and the code of its first error.
fn with_little_memory(folder: &tempfile::TempDir, file: &str) -> (Option<i32>, String) {
    // What is there without doing anything is reserved, not used: threads' stacks, arenas.
    let opt = hir_opt();
    let script = format!("ulimit -v 3000000; exec {opt} {file}");
    let output = Command::new("sh").args(["-c", &script]).env_clear().current_dir(folder.path()).output();
    let output = output.unwrap();
    let said = text(&output.stderr);
    let code = said.split("error[").nth(1).and_then(|rest| rest.get(..5)).unwrap_or(&said);
    (output.status.code(), code.to_owned())
}

#[test]
fn little_memory_is_enough_to_refuse() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let head = COPY.lines().next().unwrap();
    let filled = |byte: u8| [head.as_bytes(), b"\n  i1 = ", &vec![byte; 20 << 20]].concat();
    for (name, byte, code) in [("lines", b'\n', "H0004"), ("word", b'a', "H0004"), ("bytes", b'\xff', "H0019")] {
        std::fs::write(at(name), filled(byte)).unwrap();
        assert_eq!(with_little_memory(&folder, name), (Some(1), code.to_owned()), "{name}");
    }
    std::fs::write(at("brackets"), filled(b'(')).unwrap();
    assert_eq!(with_little_memory(&folder, "brackets").0, Some(1));
    // A file of holes takes no room on the disk.
    let holes = std::fs::File::create(at("holes")).unwrap();
    holes.set_len(1 << 34).unwrap();
    assert_eq!(with_little_memory(&folder, "holes"), (Some(3), "H0650".to_owned()));
}

/// A run that exceeds its time ends with status 5.
#[test]
fn time_is_limited_on_the_cpu() {
    let folder = folder();
    // Few instructions, each of which takes long.
    let long = "%HostIrContainer { (T0_g_float[iS0{1000000}]) -> (T1_g_float[iS1{1000000}]) :
  FOR i from 0 to 20000:
    T1
       = relu(T0);
} // %HostIrContainer
";
    std::fs::write(folder.path().join("long.hir"), long).unwrap();
    let args = ["long.hir", "--backend=cpu", "--input=T0=ones", "--timeout-ms=2000"];
    let ran = run(&folder, RUN, &args.map(OsStr::new));
    assert_eq!(ran.status.code(), Some(5), "{}", text(&ran.stderr));
    assert!(text(&ran.stderr).contains("error[H0511]"), "{}", text(&ran.stderr));
}

/// A limit of the size of files is an error as a full device is, and leaves no temporary file.
#[test]
fn a_file_beyond_the_limit_of_sizes() {
    let folder = folder();
    let copies = COPY.repeat(100);
    std::fs::write(folder.path().join("large.hir"), copies).unwrap();
    let line = format!("ulimit -f 1; exec '{}' large.hir -o out.hir", hir_opt());
    let output = run(&folder, "/bin/bash", &[OsStr::new("-c"), OsStr::new(&line)]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("error[H0602]: cannot write `out.hir`: file too large"));
    let mut left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["large.hir", "p.hir"]);
}
