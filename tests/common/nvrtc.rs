//! NVRTC for tests: from the system, or from where `tools/setup --test-deps` puts it.
#![allow(clippy::panic, clippy::print_stdout, reason = "failures panic; skips are told")]

use hostir::backend::cuda::nvrtc;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Set in a test process that was started again with the library's folder.
const AGAIN: &str = "HIR_NVRTC_AGAIN";

/// Runs a test's body where NVRTC can be opened. The loader reads its search path once, when a process
/// starts: if the repository has a copy that this process does not find, the test runs again in a
/// process that does.
pub(crate) fn with(test: &str, body: impl FnOnce()) {
    if nvrtc::is_present() {
        return body();
    }
    let folder = folder();
    if !folder.is_dir() || std::env::var_os(AGAIN).is_some() {
        println!("skipped: NVRTC cannot be opened (tools/setup --test-deps installs it)");
        return;
    }
    let program = std::env::current_exe().unwrap_or_else(|error| panic!("{error}"));
    let mut path = folder.into_os_string();
    if let Some(old) = std::env::var_os("LD_LIBRARY_PATH") {
        path.push(":");
        path.push(old);
    }
    let mut command = Command::new(program);
    command.args(["--exact", test, "--nocapture"]);
    command.env("LD_LIBRARY_PATH", path).env(AGAIN, "1");
    let output = command.output().unwrap_or_else(|error| panic!("{error}"));
    print!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The repository's copy.
fn folder() -> PathBuf {
    let mut root = Path::new(env!("CARGO_MANIFEST_DIR"));
    while !root.join("tools/setup").is_file() {
        root = root.parent().unwrap_or_else(|| panic!("no tools/setup above the test"));
    }
    root.join(".deps/nvidia/cu13/lib")
}

/// Compiles texts for an architecture, one after the other: NVRTC holds one lock.
/// Fails with the first text that does not compile.
pub(crate) fn compile_all<'t>(
    texts: impl IntoIterator<Item = &'t str>,
    architecture: u32,
) -> usize {
    let mut count = 0;
    for text in texts {
        match nvrtc::compile(text, architecture) {
            Ok(image) => assert!(image.starts_with(b"\x7fELF"), "no machine code for\n{text}"),
            Err(error) => panic!("sm_{architecture}: {error}\n{text}"),
        }
        count += 1;
    }
    count
}
