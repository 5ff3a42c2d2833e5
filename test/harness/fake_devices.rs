//! The programs of all tests on stand-ins for GPUs (`test/fakes`), so that the CUDA backend runs everywhere.
//!
//! Every RUN line that runs a program runs again with `--backend=cuda`, in three ways: communications are copied
//! between two devices, which ranks share; they are copied in recorded runs; they go over NCCL. Each line also runs on
//! the CPU, once for all ways, and the outputs of both are the same, bit for bit. Lines that expect a failure, look at plans or choose a
//! backend are left out, and FileCheck is, since messages name the backend.
//!
//! The libraries are found when a process starts, so this program starts itself once for each way.
//! Sessions ([`sessions`]) run beside. `HIR_FAKE_SEED=N` lets devices carry operations out in another order.

#[path = "fake_devices/sessions.rs"]
mod sessions;

use hostir_lit::directives::{self, Directives, RunLine};
use hostir_lit::exec::run_single_line;
use hostir_test::device_lines::{is_for_devices, runs_program};
use hostir_test::out_of_tree::TOOLS;
use hostir_test::tree;
use hostir_tool_support::SharedState;
use libtest_mimic::{Arguments, Completion, Trial};
use sessions::Scenario;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Seconds after which a line is taken to hang.
const LINE: u64 = 60;
/// Flags of lines that write outputs themselves, or none.
const NO_OUTPUTS: [&str; 4] = ["--out-dir", "--bench", "--check-only", "--tune"];

/// A way to run programs.
struct Way {
    name: &'static str,
    flags: &'static [&'static str],
    devices: &'static str,
}

const COPIES: [&str; 3] = ["--backend=cuda", "--map-backend=NCCL=CUDA", "--map-backend=UCC=CUDA"];
const SESSIONS: &str = "sessions";
const WAYS: [Way; 4] = [
    Way { name: "copies", flags: &COPIES, devices: "2" },
    Way { name: "graph", flags: &[COPIES[0], COPIES[1], COPIES[2], "--graph"], devices: "16" },
    Way { name: "nccl", flags: &[COPIES[0], "--map-backend=UCC=NCCL"], devices: "16" },
    // No lines, but sessions.
    Way { name: SESSIONS, flags: &[], devices: "4" },
];

/// Lines that cannot run yet: the way, the file and the line's number, and why. One that runs fails the test.
const CANNOT: [(&str, &str, &str); 0] = [];

/// The variable that says to a process which way it runs programs.
const VARIABLE: &str = "HIR_FAKE_WAY";
/// The variable that names the folder of what lines write on the CPU, for all processes.
const EXPECTED: &str = "HIR_FAKE_EXPECTED";

/// Files that a line writes, by name.
type Outputs = BTreeMap<String, Vec<u8>>;

fn main() -> ExitCode {
    if cfg!(target_env = "musl") {
        // What is linked statically opens no libraries.
        let none = Trial::test("fake_devices", || Ok(())).with_ignored_flag(true);
        return libtest_mimic::run(&Arguments::from_args(), vec![none]).exit_code();
    }
    match std::env::var(VARIABLE) {
        Ok(name) => match WAYS.iter().find(|way| way.name == name) {
            Some(way) => run_way(way),
            None => ExitCode::FAILURE,
        },
        Err(_) => start_all(),
    }
}

/// Starts a process for each way; whether all end well.
#[allow(clippy::print_stdout, clippy::print_stderr, reason = "a test program's own report")]
fn start_all() -> ExitCode {
    let folder = match tempfile::tempdir() {
        Ok(folder) => folder,
        Err(error) => {
            eprintln!("no temporary folder: {error}");
            return ExitCode::FAILURE;
        }
    };
    if let Err(error) = hostir_fakes::install(folder.path()) {
        eprintln!("the stand-ins cannot be installed: {error}");
        return ExitCode::FAILURE;
    }
    let started: Vec<std::io::Result<Child>> = WAYS.iter().map(|way| start(way, folder.path())).collect();
    let mut fine = true;
    for child in started {
        let output = child.and_then(Child::wait_with_output);
        fine &= output.is_ok_and(|output| {
            print!("{}", String::from_utf8_lossy(&output.stdout));
            output.status.success()
        });
    }
    if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn start(way: &Way, folder: &Path) -> std::io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(std::env::args_os().skip(1)).env_clear();
    for name in ["PATH", "TMPDIR", "HIR_FAKE_SEED", "LLVM_PROFILE_FILE"] {
        command.envs(std::env::var_os(name).map(|value| (name, value)));
    }
    command.env("LD_LIBRARY_PATH", folder).env("HIR_FAKE_DEVICES", way.devices);
    command.env(VARIABLE, way.name).env(EXPECTED, folder.join("expected")).stdout(Stdio::piped()).spawn()
}

/// Runs all programs in a way.
fn run_way(way: &'static Way) -> ExitCode {
    hostir_run::run::request_hardware_queues();
    let mut args = Arguments::from_args();
    args.test_threads = Some(1);
    let watch = Watch::start();
    if way.name == SESSIONS {
        let trial = |one: Scenario| Trial::test(format!("{SESSIONS}::{}", one.name), move || Ok((one.run)()?));
        return libtest_mimic::run(
            &args,
            sessions::ALL.into_iter().chain(sessions::symmetric::ALL).map(trial).collect(),
        )
        .exit_code();
    }
    let gpus = SharedState::default();
    // The stand-ins compile kernels of users.
    let can_compile = Command::new("g++").arg("--version").output().is_ok_and(|output| output.status.success());
    let trials = tree::files(&tree::root(), ".hir").into_iter().filter_map(|path| {
        let directives = directives::parse_directives(&tree::read(&path)).ok()?;
        let runs = directives.runs.iter().any(|run| is_wanted(run, way) && runs_program(&run.command));
        let has_kernels = directives.runs.iter().any(|run| run.command.contains("--allow-kernels"));
        let (gpus, watch) = (gpus.clone(), watch.clone());
        let name = format!("{}::{}", way.name, tree::relative(&path));
        runs.then(|| {
            Trial::ignorable_test(name, move || {
                if has_kernels && !can_compile {
                    return Ok(Completion::ignored_with("needs a C++ compiler: g++"));
                }
                let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
                let expected = expected_folder(&path).map_err(|error| error.to_string())?;
                let file = File { way, path: &path, folder: folder.path(), expected: &expected, gpus, watch };
                file.run_all(&directives)?;
                Ok(Completion::Completed)
            })
        })
    });
    libtest_mimic::run(&args, trials.collect()).exit_code()
}

/// Whether a line can run in a way.
fn is_wanted(run: &RunLine, way: &Way) -> bool {
    is_for_devices(&run.command, way.flags.contains(&"--graph"))
}

/// The folder of what a test file's lines write on the CPU.
fn expected_folder(path: &Path) -> std::io::Result<PathBuf> {
    let all = std::env::var_os(EXPECTED).map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = all.join(tree::relative(path).replace(['/', '\\'], "+"));
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// A test file in a way.
struct File<'f> {
    way: &'static Way,
    path: &'f Path,
    folder: &'f Path,
    expected: &'f Path,
    gpus: SharedState,
    watch: Watch,
}

impl File<'_> {
    /// Runs the lines in order: those that run no program may make what the next ones read.
    fn run_all(&self, directives: &Directives) -> Result<(), String> {
        let mut left_out = false;
        for run in &directives.runs {
            // What compares files alone may compare those of lines that are left out.
            let compares = run.command.contains("diff ") && !runs_program(&run.command);
            if !is_wanted(run, self.way) || (left_out && compares) {
                left_out = true;
                continue;
            }
            let place = format!("{}:{}", tree::relative(self.path), run.line);
            self.watch.note(Some(format!("{} {place}", self.way.name)));
            let done = self.compare(run);
            self.watch.note(None);
            let cannot = CANNOT.iter().find(|(way, at, _)| *way == self.way.name && *at == place);
            match (done, cannot) {
                (Ok(()), None) => {}
                (Err(_), Some(_)) => left_out = true,
                (Ok(()), Some((.., why))) => {
                    return Err(format!("{place} runs, but is listed as one that cannot: {why}"));
                }
                (Err(report), None) => {
                    return Err(format!("{place}: RUN: {}\n{report}", run.command));
                }
            }
        }
        Ok(())
    }

    /// Runs a line on the CPU and on devices; the outputs are the same.
    fn compare(&self, run: &RunLine) -> Result<(), String> {
        let expected = self.expected_outputs(run)?;
        let found = self.run_line(run, self.folder, self.way.flags)?;
        let found = read_outputs(&found).map_err(|error| error.to_string())?;
        for (name, bytes) in &expected {
            if found.get(name) != Some(bytes) {
                return Err(difference(name, bytes, found.get(name)));
            }
        }
        Ok(())
    }

    /// The files that a line writes on the CPU. The first process that comes to a line runs it, the others read the files.
    fn expected_outputs(&self, run: &RunLine) -> Result<Outputs, String> {
        let failed = |error: std::io::Error| error.to_string();
        let lock = std::fs::File::create(self.expected.join("lock")).map_err(failed)?;
        lock.lock().map_err(failed)?;
        let kept = self.expected.join(format!("line{}", run.line));
        if !kept.is_dir() {
            let written = self.run_line(run, self.expected, &["--backend=cpu"])?;
            std::fs::create_dir_all(&written).and_then(|()| std::fs::rename(&written, &kept)).map_err(failed)?;
        }
        read_outputs(&kept).map_err(failed)
    }

    /// Runs a line, with scratch files in a folder; returns the folder of its outputs, which exists if it wrote any.
    fn run_line(&self, run: &RunLine, folder: &Path, flags: &[&str]) -> Result<PathBuf, String> {
        let failed = |error: std::io::Error| error.to_string();
        let (scratch, outputs) = (folder.join("scratch"), folder.join("outputs"));
        std::fs::create_dir_all(&scratch).map_err(failed)?;
        if outputs.is_dir() {
            std::fs::remove_dir_all(&outputs).map_err(failed)?;
        }
        let mut flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        if !NO_OUTPUTS.iter().any(|flag| run.command.contains(flag)) {
            flags.push(format!("--out-dir={}", outputs.display()));
        }
        let command = tree::substitute(&run.command, self.path, &scratch)?;
        // What goes wrong is to be seen here, not by FileCheck, which is left out.
        let command = command.replace("2>&1 | FileCheck", "| FileCheck");
        let mut context = tree::context(&scratch).on_devices(flags, &self.gpus);
        if tree::is_out_of_tree(self.path) {
            context.tools = TOOLS.to_vec();
        }
        run_single_line(&command, &context)?;
        Ok(outputs)
    }
}

/// The files of a folder; none if there is no such folder.
fn read_outputs(folder: &Path) -> std::io::Result<Outputs> {
    let mut files = Outputs::new();
    if folder.is_dir() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            files.insert(entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path())?);
        }
    }
    Ok(files)
}

/// The place where two outputs differ first.
fn difference(name: &str, expected: &[u8], found: Option<&Vec<u8>>) -> String {
    let Some(found) = found else { return format!("{name} is written on the CPU only") };
    let at = expected.iter().zip(found).position(|(a, b)| a != b).unwrap_or(expected.len());
    let some = |bytes: &[u8]| bytes[at.min(bytes.len())..].iter().take(16).copied().collect::<Vec<u8>>();
    format!(
        "{name} ({} bytes) differs from byte {at} on: {:02x?} on the CPU, {:02x?} on devices",
        expected.len(),
        some(expected),
        some(found)
    )
}

/// Ends the process if a line does not end: a call that does not return cannot be ended.
#[derive(Clone, Default)]
struct Watch {
    now: Arc<Mutex<Option<(String, Instant)>>>,
}

impl Watch {
    #[allow(clippy::print_stderr, reason = "a test program's own report")]
    fn start() -> Self {
        let watch = Self::default();
        let own = watch.clone();
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_millis(250));
                let now = own.now.lock().unwrap_or_else(PoisonError::into_inner).clone();
                if let Some((line, _)) = now.filter(|(_, since)| since.elapsed() > Duration::from_secs(LINE)) {
                    eprintln!("\nno end after {LINE} s: {line}");
                    std::process::exit(101);
                }
            }
        });
        watch
    }

    /// The line that runs, if any.
    fn note(&self, line: Option<String>) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = line.map(|line| (line, Instant::now()));
    }
}
