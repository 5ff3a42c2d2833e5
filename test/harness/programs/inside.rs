//! The tools and FileCheck as function calls inside this process.

use super::{CRASHED, Finished, Invocation};
use crate::exec::Context;
use hostir_tool_support::ToolIo;
use hostir_tool_support::io::ToolFn;
use std::cell::RefCell;
use std::ffi::OsString;
use std::io::{self, Write};
use std::rc::Rc;

/// Stack of a tool's thread: what a program's main thread has.
const STACK: usize = 8 << 20;

/// Runs `hir-opt` or `hir-run`; a panic is a crash, not the end of the test run.
pub(super) fn tool(name: &str, args: &[String], invocation: Invocation<'_>) -> Finished {
    let Invocation { stdin, merge, context, .. } = invocation;
    let more = if name == "hir-run" { &context.flags[..] } else { &[] };
    let words = std::iter::once(name).chain(args.iter().chain(more).map(String::as_str));
    let words: Vec<OsString> = words.map(OsString::from).collect();
    let tool: ToolFn = if name == "hir-opt" { hostir_opt::main_with } else { hostir_run::run::main_with };
    std::thread::scope(|scope| {
        let body = move || call(tool, &words, &stdin, context, merge);
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, body);
        match thread.map(|thread| thread.join()) {
            Ok(Ok(finished)) => finished,
            Ok(Err(panic)) => Finished::failure(CRASHED, &format!("{name} panicked: {}", text_of(&*panic))),
            Err(error) => Finished::failure(CRASHED, &error.to_string()),
        }
    })
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

fn call(tool: ToolFn, words: &[OsString], mut stdin: &[u8], context: &Context, merge: bool) -> Finished {
    // On GPUs compiled kernels are kept; everywhere else tests see no environment.
    let env: fn(&str) -> Option<OsString> =
        if context.flags.is_empty() { |_| None } else { |name| std::env::var_os(name) };
    let out = Buffer::default();
    let err = if merge { out.clone() } else { Buffer::default() };
    let mut io = ToolIo {
        stdin: &mut stdin,
        stdout: &mut out.clone(),
        stderr: &mut err.clone(),
        cwd: context.scratch.clone(),
        color: false,
        terminal: false,
        env,
        exe: None,
        gpus: context.gpus.clone(),
        columns: None,
        error_columns: None,
    };
    let code = tool(words, &mut io);
    let out = out.take();
    Finished { code, out, err: err.take() }
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

/// Runs FileCheck with its standard input.
pub(super) fn file_check(args: &[String], invocation: &Invocation<'_>) -> Finished {
    match compare(args, invocation) {
        Ok(()) => Finished::success(Vec::new()),
        Err((code, message)) => Finished { code, out: Vec::new(), err: message.into_bytes() },
    }
}

fn compare(args: &[String], invocation: &Invocation<'_>) -> Result<(), (i32, String)> {
    let usage = |message: String| (2, format!("error: {message}\n"));
    let line = filecheck_rs::Options::from_args(args).map_err(usage)?;
    let file = line.check_file.ok_or_else(|| usage("no check file".to_owned()))?;
    let load = |name: &str| {
        let path = invocation.context.scratch.join(name);
        let bytes = std::fs::read(&path).map_err(|error| usage(format!("{}: {error}", path.display())))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = match line.input_file.as_deref() {
        None | Some("-") => String::from_utf8_lossy(&invocation.stdin).into_owned(),
        Some(name) => load(name)?,
    };
    let failed = |failure: filecheck_rs::Failure| (i32::from(failure.exit_code()), failure.to_string());
    let checks = filecheck_rs::parse_checks(&load(&file)?, &file, &line.options).map_err(failed)?;
    checks.check_input(&text, &line.options).map_err(failed)
}
