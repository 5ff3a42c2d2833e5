//! The tools and FileCheck as function calls inside this process.

use super::call::{CRASHED, Finished, Invocation};
use crate::checks::{CheckArguments, compare};
use crate::context::{Environment, InProcessTool};
use filecheck_rs::split_arguments;
use hostir_tool_support::panics::{self, panic_text};
use hostir_tool_support::{SharedState, ToolIo};
use std::cell::RefCell;
use std::ffi::OsString;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Instant;

/// Stack of a tool's thread: what a program's main thread has.
const STACK: usize = 8 << 20;

/// The arguments of a tool's thread.
struct ToolCall {
    tool: InProcessTool,
    words: Vec<OsString>,
    stdin: Vec<u8>,
    merge: bool,
    cwd: PathBuf,
    env: Environment,
    gpus: SharedState,
    /// True if the tool sees the environment of this process.
    on_devices: bool,
}

/// Runs a tool; a panic is a crash, not the end of the test run. A tool that takes too long goes on without anybody who
/// waits for it: a thread cannot be ended.
pub(super) fn run_tool(tool: InProcessTool, args: &[String], invocation: Invocation<'_>) -> Finished {
    let Invocation { stdin, merge, cwd, env, context } = invocation;
    let words = std::iter::once(tool.name).chain(args.iter().map(String::as_str));
    let words = words.map(OsString::from).collect();
    let (gpus, on_devices) = (context.gpus.clone(), !context.flags.is_empty());
    let call = ToolCall { tool, words, stdin, merge, cwd, env, gpus, on_devices };
    let (sender, receiver) = mpsc::channel();
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(move || {
        let name = call.tool.name;
        let finished = catch_unwind(AssertUnwindSafe(|| call.carry_out()));
        // Nobody may wait any more.
        let _ = sender.send(finished.unwrap_or_else(|panic| {
            let place = panics::take_panic_place().map(|place| format!(" at {place}")).unwrap_or_default();
            let message = format!("{name} panicked{place}: {}", panic_text(&*panic));
            Finished::failure(CRASHED, &message).merged(merge)
        }));
    });
    if let Err(error) = thread {
        return Finished::failure(CRASHED, &error.to_string());
    }
    match context.deadline {
        None => receiver.recv().ok(),
        Some(deadline) => receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok(),
    }
    .unwrap_or_else(|| Finished::timed_out().merged(merge))
}

/// Lets panics of tools be part of the report of their test only, with their places.
pub(crate) fn collect_tool_panics() {
    panics::set_panic_hook(std::panic::take_hook());
}

thread_local! {
    /// The environment of the tool that this thread runs: a tool asks a function that has no state for it.
    static VARIABLES: RefCell<Environment> = RefCell::default();
}

fn variable(name: &str) -> Option<OsString> {
    VARIABLES.with_borrow(|variables| variables.get(name).map(OsString::from))
}

impl ToolCall {
    fn carry_out(self) -> Finished {
        VARIABLES.set(self.env);
        panics::contain_thread_panics();
        let out = Buffer::default();
        let err = if self.merge { out.clone() } else { Buffer::default() };
        let mut io = ToolIo {
            stdin: &mut &self.stdin[..],
            stdout: &mut out.clone(),
            stderr: &mut err.clone(),
            cwd: self.cwd,
            color: false,
            terminal: false,
            env: if self.on_devices { |name| std::env::var_os(name) } else { variable },
            exe: None,
            gpus: self.gpus,
            columns: None,
            error_columns: None,
        };
        let code = (self.tool.main)(&self.words, &mut io);
        let out = out.take();
        Finished { code, out, err: err.take() }
    }
}

/// Bytes that two writers may share.
#[derive(Clone, Default)]
struct Buffer(Rc<RefCell<Vec<u8>>>);

impl Buffer {
    fn take(&self) -> Vec<u8> {
        self.0.take()
    }
}

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs FileCheck with its standard input, and the options that its variable holds.
pub(super) fn file_check(args: &[String], invocation: &Invocation<'_>) -> Finished {
    let mut all = invocation.env.get("FILECHECK_OPTS").map(|options| split_arguments(options)).unwrap_or_default();
    all.extend_from_slice(args);
    let done = compare(&all, &mut |name| invocation.load(name));
    Finished { code: i32::from(done.status), out: done.stdout.into_bytes(), err: done.stderr.into_bytes() }
}

/// The input of a call of FileCheck.
pub(super) fn checked_input(args: &[String], invocation: &Invocation<'_>) -> Result<String, String> {
    let input = invocation.load(&CheckArguments::parse(args)?.input_file)?;
    Ok(String::from_utf8_lossy(&input).into_owned())
}
