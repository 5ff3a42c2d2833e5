//! The programs as processes: what they write to and read from, and what of others' words reaches a terminal.

use crate::hir_opt::hir_opt;
use crate::signals;
use rustix::fs::{AtFlags, CWD, Gid, Mode, Uid};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const RUN: &str = env!("CARGO_BIN_EXE_hir-run");
/// Two outputs, and a comment of control characters.
const COPIES: &str = "// \u{1b}]0;title\u{7}\u{9b}2J\u{202e}
%HostIrContainer { (T0_g_float[iS0{4}]) -> (T1_g_float[iS1{4}], T2_g_float[iS2{4}]) :
  T1_g_float[iS1{4}] = Set( T0, cache_op=Streaming ) // \u{1b}[2J\u{9b}\u{202e}\u{200b}
  T2_g_float[iS2{4}] = Set( T1, cache_op=Streaming )
} // %HostIrContainer
";
/// A name that a file may have: a new title, a cleared screen, an order that is turned round, no text, a line.
const EVIL: &[u8] = b"\x1b]0;x\x07\x1b[2J\xc2\x9b31m\xe2\x80\xae\xff\x7f\nerror[H0001]";

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("p.hir"), COPIES).unwrap();
    folder
}

fn run(folder: &Path, program: &str, args: &[impl AsRef<OsStr>]) -> Output {
    let mut command = Command::new(program);
    command.args(args).current_dir(folder).env_clear().stdin(Stdio::null());
    command.output().unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

/// Status and standard error.
fn ended(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8(output.stderr.clone()).unwrap())
}

/// A program whose end does not wait for a stream.
const UNJOINED: &str = "%HostIrContainer { (T0_g_float[iS0{4}]) -> (T1_g_float[iS1{4}]) :
  GetCurrentStream into Stream 0
  SetCurrentStream to Stream 1
  T1
     = relu(T0); // on its own stream
  SetCurrentStream to Stream 0
} // %HostIrContainer
";

/// `--fix` changes no file that its owner has made read-only, and none that needs no fix.
#[test]
fn fixes_are_written_where_they_may_be() {
    let folder = folder();
    let file = folder.path().join("u.hir");
    let cases: [(&str, &[&str]); 2] = [
        (RUN, &["u.hir", "--backend=cpu", "--check-only", "--fix"]),
        (hir_opt(), &["u.hir", "--fix", "--pass=check-program"]),
    ];
    for (program, args) in cases {
        std::fs::write(&file, UNJOINED).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o444)).unwrap();
        let (status, said) = ended(&run(folder.path(), program, args));
        assert_eq!((status, said.contains("u.hir`: the file is read-only")), (Some(3), true), "{said}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), UNJOINED);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        let (status, said) = ended(&run(folder.path(), program, args));
        assert_eq!((status, said.contains("u.hir:7: + Synchronize Stream 1\n")), (Some(0), true), "{said}");
        let repaired = std::fs::read_to_string(&file).unwrap();
        assert_eq!(repaired, UNJOINED.replace("Stream 0\n}", "Stream 0\n  Synchronize Stream 1\n}"));
        let old = std::fs::metadata(&file).unwrap();
        assert_eq!(old.permissions().mode() & 0o777, 0o640);
        assert_eq!(ended(&run(folder.path(), program, args)).0, Some(0));
        let same = std::fs::metadata(&file).unwrap();
        assert_eq!((old.ino(), old.modified().unwrap()), (same.ino(), same.modified().unwrap()));
    }
}

/// All tools write through one door: what is closed to others stays so, and nothing else is left behind.
#[test]
fn every_writer_keeps_modes_and_links() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let cases: [(&str, &str, &[&str]); 7] = [
        (hir_opt(), "out.hir", &["p.hir", "-o", "out.hir"]),
        (RUN, "out.npy", &["p.hir", "--backend=cpu", "--output", "T1=out.npy"]),
        (RUN, "out.safetensors", &["p.hir", "--backend=cpu", "--output", "T1=out.safetensors"]),
        (RUN, "out.json", &["p.hir", "--backend=cpu", "--trace", "out.json"]),
        (RUN, "out.svg", &["p.hir", "--backend=cpu", "--timeline=out.svg"]),
        (RUN, "bench.json", &["p.hir", "--backend=cpu", "--bench", "--iters=1", "--json=bench.json"]),
        (RUN, "T2.npy", &["p.hir", "--backend=cpu", "--out-dir", "."]),
    ];
    for (program, name, args) in cases {
        std::fs::write(at("real"), "old").unwrap();
        std::fs::set_permissions(at("real"), std::fs::Permissions::from_mode(0o600)).unwrap();
        symlink("real", at(name)).unwrap();
        let output = run(folder.path(), program, args);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", ended(&output).1);
        assert_ne!(std::fs::read(at("real")).unwrap(), b"old", "{args:?}");
        assert_eq!(at("real").metadata().unwrap().permissions().mode() & 0o777, 0o600, "{args:?}");
        assert!(at(name).is_symlink(), "{args:?}");
        // What another user puts there, which only root can play, is not followed.
        let (user, group) = (Some(Uid::from_raw(65534)), Some(Gid::from_raw(65534)));
        let chown = || rustix::fs::chownat(CWD, at(name), user, group, AtFlags::SYMLINK_NOFOLLOW);
        if rustix::process::geteuid().is_root() && chown().is_ok() {
            std::fs::write(at("real"), "old").unwrap();
            let output = run(folder.path(), program, args);
            let (status, said) = ended(&output);
            assert_eq!(status, Some(3), "{args:?}: {said}");
            assert!(said.contains("error[H0660]") && said.contains("user 65534"), "{said}");
            assert!(said.contains("/real`, name it instead of the link"), "{said}");
            assert_eq!(std::fs::read(at("real")).unwrap(), b"old", "{args:?}");
        }
        for name in names(folder.path()).iter().filter(|name| *name != "p.hir") {
            assert!(!name.starts_with('.'), "{args:?}: {name}");
            std::fs::remove_file(at(name)).unwrap();
        }
    }
}

/// Two outputs in one file are noticed before anything runs, however its name is spelled.
#[test]
fn one_file_has_one_output() {
    let folder = folder();
    symlink("a.npy", folder.path().join("b.npy")).unwrap();
    let cases: [&[&str]; 4] = [
        &["--output=T1=a.npy", "--output=T2=./a.npy"],
        &["--output=T1=a.npy", "--output=T2=b.npy"],
        &["--output=T1=a.0.npy", "--output=T2=a.%r.npy"],
        &["--output=T1=a.safetensors:x", "--output=T2=./a.safetensors:x"],
    ];
    for case in cases {
        let args = [&["p.hir", "--backend=cpu"], case].concat();
        let (status, said) = ended(&run(folder.path(), RUN, &args));
        assert_eq!(status, Some(2), "{case:?}: {said}");
        assert!(said.contains("error[H0614]") && said.contains("both T1 and T2"), "{said}");
        assert_eq!(names(folder.path()), ["b.npy", "p.hir"]);
    }
    // Two entries of one file, and what takes all that is written to it.
    symlink("/dev/null", folder.path().join("null.npy")).unwrap();
    let two = ["--output=T1=a.safetensors:x", "--output=T2=./a.safetensors:y"];
    let none = ["--output=T1=null.npy", "--output=T2=./null.npy"];
    for case in [two, none] {
        let args = [&["p.hir", "--backend=cpu"], &case[..]].concat();
        assert_eq!(ended(&run(folder.path(), RUN, &args)).0, Some(0), "{case:?}");
    }
    let file = std::fs::read(folder.path().join("a.safetensors")).unwrap();
    let header = String::from_utf8_lossy(&file);
    assert!(header.contains("\"x\"") && header.contains("\"y\""), "{header}");
}

/// Inputs that do not end cost neither time nor memory.
/// A kernel's file is the one that all links lead to: it lies below the program's folder.
#[test]
fn files_of_kernels_are_below_the_program() {
    let folder = folder();
    let [inner, other] = ["inner", "other"].map(|name| folder.path().join(name));
    let source = "#include \"own.cuh\"\n__global__ void f(float* C) {}\n";
    for at in [&inner, &other] {
        std::fs::create_dir(at).unwrap();
        std::fs::write(at.join("k.cu"), source).unwrap();
    }
    std::fs::write(other.join("own.cuh"), "").unwrap();
    symlink("k.cu", inner.join("within.cu")).unwrap();
    symlink("../other/k.cu", inner.join("out.cu")).unwrap();
    symlink("../other", inner.join("away")).unwrap();
    symlink("nowhere", inner.join("lost.cu")).unwrap();
    let launched = |file: &str| {
        let text = format!("hir 2.1\nf() -> (C: f32[4]):\n  launch \"{file}\"::f[1, 1](C) writes(C)\n");
        std::fs::write(inner.join("p.hir"), text).unwrap();
        ended(&run(folder.path(), RUN, &["inner/p.hir", "--check-only", "--allow-kernels"]))
    };
    for (file, code) in [("out.cu", "H0682"), ("away/k.cu", "H0682"), ("lost.cu", "H0681")] {
        let (status, err) = launched(file);
        assert_eq!(status, Some(3), "{file}: {err}");
        assert!(err.contains(&format!("error[{code}]: the kernel's file `{file}`")), "{file}: {err}");
    }
    assert_eq!(launched("within.cu"), (Some(0), launched("k.cu").1));
    // What source includes is one of its files.
    symlink("../other/own.cuh", inner.join("own.cuh")).unwrap();
    let (status, err) = launched("k.cu");
    assert!(status == Some(3) && err.contains("error[H0682]: the kernel's file `own.cuh`"), "{err}");
}

#[test]
fn endless_inputs_are_refused() {
    let folder = folder();
    for name in ["zero.npy", "zero.safetensors"] {
        symlink("/dev/zero", folder.path().join(name)).unwrap();
        let began = Instant::now();
        let args = ["p.hir".to_owned(), "--backend=cpu".to_owned(), format!("--input=T0={name}")];
        let (status, said) = ended(&run(folder.path(), RUN, &args));
        assert_eq!(status, Some(3), "{said}");
        assert!(said.contains("error[H0604]"), "{said}");
        assert!(began.elapsed() < Duration::from_secs(20), "{name}");
    }
}

/// A program whose name holds `%r` is read if it is there.
#[test]
fn names_of_programs_are_names() {
    let folder = folder();
    std::fs::copy(folder.path().join("p.hir"), folder.path().join("p.%r.hir")).unwrap();
    let found = run(folder.path(), RUN, &["p.%r.hir", "--backend=cpu", "-q"]);
    assert_eq!(ended(&found), (Some(0), String::new()));
}

/// A shell's `>&-`.
#[test]
fn a_closed_output_is_an_error() {
    let folder = folder();
    let cases = [
        (hir_opt(), "p.hir", 3),
        (hir_opt(), "--list-passes", 3),
        (hir_opt(), "--help", 3),
        (hir_opt(), "p.hir -o out.hir", 0),
        (RUN, "p.hir --backend=cpu", 3),
        (RUN, "p.hir --backend=cpu -q --output=T1=out.npy", 0),
        (RUN, "p.hir --backend=cpu -q --trace=/dev/stdout", 3),
    ];
    for (program, args, status) in cases {
        let shell = |stream: &str| {
            let script = format!("exec {program} {args} {stream}");
            let output = Command::new("sh").args(["-c", &script]).env_clear().current_dir(folder.path()).output();
            ended(&output.unwrap())
        };
        let (found, said) = shell(">&-");
        assert_eq!(found, Some(status), "{args}: {said}");
        assert_eq!(said.contains("error[H0602]: cannot write `"), status == 3, "{args}: {said}");
        assert_eq!(shell("> /dev/null").0, Some(0), "{args}: what goes nowhere was meant to");
        assert_eq!(shell("<> /dev/null >&0").0, Some(0), "{args}: also where it could be read");
    }
}

/// Output to the name of standard output is appended to earlier output, in a file too.
#[test]
fn standard_output_by_name() {
    let folder = folder();
    let opt = hir_opt();
    let script = format!("(echo first; exec {opt} p.hir -o /dev/stdout; ) > all; echo last >> all");
    Command::new("sh").args(["-c", &script]).env_clear().current_dir(folder.path()).status().unwrap();
    let all = std::fs::read_to_string(folder.path().join("all")).unwrap();
    assert!(all.starts_with("first\n// ") && all.ends_with("// %HostIrContainer\nlast\n"), "{all:?}");
}

/// A signal that ends a run takes its temporary files along. One that stays open for a while: its pipe has no reader.
#[test]
fn signals_leave_no_temporary_files() {
    let folder = folder();
    let pipe = folder.path().join("z.npy");
    rustix::fs::mkfifoat(CWD, &pipe, Mode::from_raw_mode(0o600)).unwrap();
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
        let mut command = Command::new(RUN);
        command.args(["p.hir", "--backend=cpu", "--out-dir=new", "--output=T2=z.npy"]);
        command.current_dir(folder.path()).env_clear().stdin(Stdio::null()).stdout(Stdio::null());
        signals::children_heed_signals();
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let began = Instant::now();
        let new = folder.path().join("new");
        while !new.is_dir() || names(&new).is_empty() {
            assert!(began.elapsed() < Duration::from_secs(60), "no temporary file");
            std::thread::sleep(Duration::from_millis(5));
        }
        let [name] = &names(&new)[..] else { panic!("one file is under way") };
        assert!(name.starts_with(".T1.npy.") && name.ends_with(".tmp"), "{name}");
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), None);
        assert_eq!(names(folder.path()), ["p.hir", "z.npy"]);
    }
}

/// A `.safetensors` file whose names of tensors act on a terminal.
fn evil_entries() -> Vec<u8> {
    let tensor = |name: &str, at: usize| {
        format!("\"{name}\":{{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[{at},{}]}}", at + 4)
    };
    let header = format!("{{{},{}}}", tensor("\\u001b[2J\\u009b", 0), tensor("\u{202e}b\\n", 4));
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 8]].concat()
}

/// Names of files, words of the command line and comments reach a terminal as text.
#[test]
#[allow(clippy::too_many_lines, reason = "a table of command lines")]
fn words_of_others_reach_a_terminal_as_text() {
    let folder = folder();
    let name = |end: &str| OsStr::from_bytes(&[EVIL, end.as_bytes()].concat()).to_owned();
    let joined = |start: &str, name: &OsStr| [OsStr::new(start), name].join(OsStr::new(""));
    std::fs::copy(folder.path().join("p.hir"), folder.path().join(name(".hir"))).unwrap();
    std::fs::write(folder.path().join("bad.hir"), COPIES.replace("T1, cache", "T9, cache")).unwrap();
    let entries = name(".safetensors");
    std::fs::write(folder.path().join(&entries), evil_entries()).unwrap();
    let flag = |text: &str| OsStr::new(text).to_owned();
    let cpu = || flag("--backend=cpu");
    let cases = [
        (hir_opt(), 0, vec![name(".hir"), flag("-o"), name(".out")]),
        (hir_opt(), 3, vec![name(".missing")]),
        (hir_opt(), 3, vec![flag("p.hir"), flag("-o"), joined("no/", &name(""))]),
        (hir_opt(), 1, vec![flag("bad.hir")]),
        (hir_opt(), 1, vec![flag("bad.hir"), flag("--error-format=json")]),
        (hir_opt(), 0, vec![flag("p.hir"), flag("--pass=cse"), flag("--print-ir-after-all"), flag("-o"), flag("out")]),
        (hir_opt(), 2, vec![joined("--pass=", &name(""))]),
        (hir_opt(), 2, vec![joined("--list-ops=", &name(""))]),
        (hir_opt(), 2, vec![joined("--", &name(""))]),
        (hir_opt(), 2, vec![joined("-", &name(""))]),
        (RUN, 0, vec![name(".hir"), cpu(), joined("--output=T1=", &name(".npy")), flag("--summary")]),
        (
            RUN,
            0,
            vec![
                name(".hir"),
                cpu(),
                joined("--expect=T1=", &name(".npy")),
                joined("--input=T0=", &name(".npy")),
                flag("--summary"),
            ],
        ),
        (
            RUN,
            0,
            vec![
                name(".hir"),
                cpu(),
                joined("--reference=", &name(".hir")),
                joined("--timeline=", &name(".svg")),
                flag("--timeline"),
            ],
        ),
        (RUN, 0, vec![name(".hir"), cpu(), flag("--bench"), flag("--iters=1"), flag("--json=-")]),
        (RUN, 0, vec![name(".hir"), cpu(), flag("--print-plan")]),
        (RUN, 3, vec![flag("p.hir"), cpu(), joined("--input=T0=", &entries)]),
        (RUN, 3, vec![flag("p.hir"), cpu(), joined("--input=T0=", &name(".safetensors:x"))]),
        (RUN, 2, vec![flag("p.hir"), cpu(), joined("--input=T0=", &name(""))]),
        (RUN, 2, vec![flag("p.hir"), cpu(), joined("--set=", &name("=3"))]),
        (RUN, 2, vec![flag("p.hir"), joined("--backend=", &name(""))]),
        (RUN, 2, vec![joined("--", &name(""))]),
        (RUN, 3, vec![flag("p.hir"), cpu(), joined("--output=T1=no/", &name(".npy"))]),
    ];
    for (program, status, args) in cases {
        let output = run(folder.path(), program, &args);
        let said = [output.stdout.clone(), output.stderr.clone()].concat();
        let said = String::from_utf8(said).unwrap();
        assert_eq!(output.status.code(), Some(status), "{args:?}: {said}");
        let acts = |c: char| hostir::diag::visible::is_hidden(c) && c != '\n';
        assert!(!said.contains(acts), "{args:?}: {said:?}");
        assert!(!said.is_empty() || args.contains(&flag("-o")), "{args:?}");
        if program == RUN {
            assert!(!said.lines().any(|line| line.starts_with("error[H0001]")), "{args:?}: {said}");
        }
    }
    // Programs are data: comments come out as they went in.
    let printed = run(folder.path(), hir_opt(), &["p.hir"]);
    assert!(String::from_utf8(printed.stdout).unwrap().contains("// \u{1b}[2J\u{9b}\u{202e}\u{200b}"));
    // XML has no control characters.
    let picture = std::fs::read_to_string(folder.path().join(name(".svg"))).unwrap();
    assert!(picture.contains("\\u{1b}]0;x\\u{7}"), "{picture}");
    assert!(!picture.contains(|c: char| c.is_control() && c != '\n'), "{picture}");
}
