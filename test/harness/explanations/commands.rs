//! Runs the commands of a page.
//!
//! Tools that are to be processes are this test program under another name: [`run_as_tool`] makes it behave as the
//! tool that it was started as, so that no other build is needed.

use super::examples;
use super::page::Setting;
use hostir_lit::context::{Context, built_in_tools};
use hostir_lit::exec::Shell;
use hostir_test::tree;
use hostir_tool_support::io::process_main_with;
use std::ffi::OsStr;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// The port that pages use; the run of a page takes another one.
const PORT: &str = "29600";
/// The program that runs an example in Rust: `page-example H0523 wrong`.
pub(super) const EXAMPLE: &str = "page-example";
/// The folder of the libraries that stand in for NVIDIA's.
const LIBRARIES: &str = "libraries";

/// The end of the commands of a block.
pub(super) struct CommandsEnd {
    /// True if all succeed.
    pub(super) end_well: bool,
    /// The text that they print on standard error.
    pub(super) errors: String,
}

/// The tool as which a page's command started this program, if one did.
pub(crate) fn run_as_tool() -> Option<ExitCode> {
    let own = std::env::args_os().next().map(PathBuf::from).unwrap_or_default();
    // hir-run starts the processes of a run from its own file, which has the test program's name.
    let is_rank = std::env::var_os("HIR_PARENT").is_some();
    let name = if is_rank { Some(OsStr::new("hir-run")) } else { own.file_name() };
    if name == Some(OsStr::new(EXAMPLE)) {
        return Some(examples::run_example(&std::env::args().skip(1).collect::<Vec<_>>()));
    }
    let tool = built_in_tools().into_iter().find(|tool| name == Some(OsStr::new(tool.name)))?;
    hostir_tool_support::process_limits::prepare_process();
    hostir_run::run::request_hardware_queues();
    Some(process_main_with(tool.main, hostir_run::library_calls::finish_library_calls))
}

/// Runs commands in a folder that has the page's files.
pub(super) fn run_commands(commands: &[String], setting: Setting, folder: &Path) -> std::io::Result<CommandsEnd> {
    match setting {
        Setting::Inside => Ok(run_inside(commands, tree::context(folder))),
        Setting::OwnPasses => {
            Ok(run_inside(commands, Context { tools: examples::tools_with_passes(), ..tree::context(folder) }))
        }
        Setting::Processes { gpus } => run_as_processes(commands, gpus, folder),
    }
}

fn run_inside(commands: &[String], context: Context) -> CommandsEnd {
    let folder = context.scratch.clone();
    let mut shell = Shell::new(context);
    let mut end = CommandsEnd { end_well: true, errors: String::new() };
    for command in commands {
        // Other commands prepare files, and have redirections of their own.
        let is_ours = command.split(' ').any(|word| word == "hir-opt" || word == "hir-run");
        let line = if is_ours { format!("{command} > output.txt 2> errors.txt") } else { command.clone() };
        end.end_well &= shell.run_line(&line).is_ok();
        end.errors += &if is_ours { tree::read(&folder.join("errors.txt")) } else { shell.take_log() };
    }
    end
}

fn run_as_processes(commands: &[String], gpus: u32, folder: &Path) -> std::io::Result<CommandsEnd> {
    // Folders of temporary files can forbid to run what lies there.
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let (programs, libraries) = (place.path().join("bin"), place.path().join(LIBRARIES));
    std::fs::create_dir(&programs)?;
    std::fs::create_dir(&libraries)?;
    let own = std::env::current_exe()?;
    let names = built_in_tools().into_iter().map(|tool| tool.name).chain([EXAMPLE]);
    names.into_iter().try_for_each(|name| symlink(&own, programs.join(name)))?;
    if gpus > 0 {
        hostir_fakes::install(&libraries)?;
    }
    let system = std::env::var("PATH").unwrap_or_default();
    let port = free_port().to_string();
    // One shell for all, in which variables, limits and processes that go on stay.
    let lines = commands.join("\n").replace(PORT, &port);
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{lines}\nstatus=$?\nwait\nexit $status")]).current_dir(folder);
    shell.stdin(Stdio::null()).env_clear().env("PATH", format!("{}:{system}", programs.display()));
    shell.env("LD_LIBRARY_PATH", &libraries).env("HIR_FAKE_DEVICES", gpus.to_string());
    shell.env("HIR_FAKE_NCCL", tempfile::tempdir_in(&libraries)?.keep());
    shell.envs(std::env::var_os("LLVM_PROFILE_FILE").map(|path| ("LLVM_PROFILE_FILE", path)));
    let output = shell.output()?;
    let errors = String::from_utf8_lossy(&output.stderr).replace(&port, PORT);
    Ok(CommandsEnd { end_well: output.status.success(), errors })
}

/// A port on which nobody listens, and below those that the kernel hands out.
fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let numbers = std::iter::repeat_with(|| std::process::id() * 64 + NEXT.fetch_add(1, Ordering::Relaxed));
    let mut ports = numbers.map(|number| (20_000 + number % 12_000) as u16).take(1000);
    ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap_or(0)
}
