//! The tools and FileCheck as function calls inside this process.

use super::{CRASHED, Finished, Invocation};
use std::cell::RefCell;
use std::ffi::OsString;
use std::io::{self, Write};
use std::rc::Rc;

/// Stack of a tool's thread: what a program's main thread has.
const STACK: usize = 8 << 20;

/// Runs `hir-opt` or `hir-run`; a panic is a crash, not the end of the test run.
pub(super) fn tool(name: &str, args: &[String], invocation: Invocation<'_>) -> Finished {
    let words: Vec<OsString> =
        std::iter::once(name).chain(args.iter().map(String::as_str)).map(OsString::from).collect();
    let Invocation { stdin, merge, .. } = invocation;
    std::thread::scope(|scope| {
        let body = move || call(&words, &stdin, merge);
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, body);
        match thread.map(|thread| thread.join()) {
            Ok(Ok(finished)) => finished,
            Ok(Err(panic)) => {
                Finished::failure(CRASHED, &format!("{name} panicked: {}", text_of(&*panic)))
            }
            Err(error) => Finished::failure(CRASHED, &error.to_string()),
        }
    })
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

fn call(words: &[OsString], stdin: &[u8], merge: bool) -> Finished {
    let out = Buffer::default();
    let err = if merge { out.clone() } else { Buffer::default() };
    let code = stub(words, stdin, &mut out.clone(), &mut err.clone());
    let err = if merge { Vec::new() } else { err.take() };
    Finished { code, out: out.take(), err }
}

fn stub(_: &[OsString], _: &[u8], _: &mut dyn Write, err: &mut dyn Write) -> i32 {
    let _ = writeln!(err, "not built");
    3
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
pub(super) fn file_check(_: &[String], _: &Invocation<'_>) -> Finished {
    Finished::failure(2, "not built")
}
