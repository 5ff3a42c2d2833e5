//! The exit of a process, as NVIDIA's libraries take part in it: what they register when they are opened destroys their
//! state, and a thread that is inside of one of them then uses what is gone. The stand-ins report that and abort.
//! `HIR_FAKE_FREE_MS=N` makes calls that free memory, handles and communicators take so long.
#![allow(unsafe_code, reason = "an entry of the table of functions that run when the library is opened")]

use std::io::Write as _;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Threads in calls that free.
static FREEING: AtomicUsize = AtomicUsize::new(0);
static FREE_TIME: LazyLock<Duration> = LazyLock::new(|| {
    let given = std::env::var("HIR_FAKE_FREE_MS").ok().and_then(|text| text.parse().ok());
    Duration::from_millis(given.unwrap_or(0))
});

unsafe extern "C" {
    fn atexit(handler: extern "C" fn()) -> std::ffi::c_int;
}

/// Runs when the library is opened.
#[used]
#[unsafe(link_section = ".init_array")]
static CREATE_LIBRARY: extern "C" fn() = {
    extern "C" fn create_library() {
        // SAFETY: the handler is a function of this library, which stays open.
        unsafe { atexit(destroy_library) };
    }
    create_library
};

extern "C" fn destroy_library() {
    if FREEING.load(Ordering::SeqCst) > 0 {
        let _ = writeln!(std::io::stderr(), "fake CUDA: the library is destroyed while a thread is inside of it");
        std::process::abort();
    }
}

/// A call that frees something.
pub(crate) fn free_slowly<T>(free: impl FnOnce() -> T) -> T {
    FREEING.fetch_add(1, Ordering::SeqCst);
    std::thread::sleep(*FREE_TIME);
    let freed = free();
    FREEING.fetch_sub(1, Ordering::SeqCst);
    freed
}
