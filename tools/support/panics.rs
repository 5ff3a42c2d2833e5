//! Panics: the report of one that ends the process, and the place of one that somebody contains.
//!
//! A panic is told to the process's hook before anybody can catch it, and only the hook knows its place. So a thread
//! says beforehand that its panics are contained; the hook then keeps the place for the error that takes the panic's
//! stead, and says nothing.

use hostir::diag::{codes, visible};
use std::cell::Cell;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, resume_unwind, set_hook};

pub use hostir::diag::panic_text;

thread_local! {
    /// True while panics of this thread are contained.
    static IS_CONTAINED: Cell<bool> = const { Cell::new(false) };
    /// The place of the last contained panic of this thread.
    static PLACE: Cell<Option<String>> = const { Cell::new(None) };
}

/// Makes the hook of this process one that calls `report` for panics that nobody contains.
pub fn set_panic_hook(report: impl Fn(&PanicHookInfo<'_>) + Send + Sync + 'static) {
    set_hook(Box::new(move |info| match IS_CONTAINED.get() {
        true => PLACE.set(info.location().map(ToString::to_string)),
        false => report(info),
    }));
}

/// Turns a panic that nobody contains into a request to report it; the process then exits with 101.
pub fn report_panics() {
    set_panic_hook(|info| {
        let place = info.location().map(ToString::to_string);
        report_panic(place.as_deref(), panic_text(info.payload()));
    });
}

/// Contains all later panics of this thread.
pub fn contain_thread_panics() {
    IS_CONTAINED.set(true);
}

/// Carries out work that contains its panics. One that escapes is reported, and goes on.
pub fn contain_panics<T>(work: impl FnOnce() -> T) -> T {
    let is_contained = IS_CONTAINED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    IS_CONTAINED.set(is_contained);
    done.unwrap_or_else(|panic| {
        if !is_contained {
            report_panic(take_panic_place().as_deref(), panic_text(&*panic));
        }
        resume_unwind(panic)
    })
}

/// The place in the code of the last contained panic of this thread, once.
pub fn take_panic_place() -> Option<String> {
    PLACE.take()
}

/// The request to report a bug, for a note.
pub fn report_request() -> String {
    format!(
        "this is a bug in the Host IR toolchain, not in your program; please report it with the command line and the \
         input file (version {})",
        crate::VERSION
    )
}

/// Writes a panic to standard error.
fn report_panic(place: Option<&str>, text: &str) {
    let place = place.map(|place| format!(" at {place}")).unwrap_or_default();
    let text = format!("error[{}]: internal error{place}: {text}\n  = {}", codes::INTERNAL, report_request());
    // If nobody reads standard error, there is nobody to report to.
    let _ = writeln!(std::io::stderr().lock(), "{}", visible::escape_block(&text));
}
