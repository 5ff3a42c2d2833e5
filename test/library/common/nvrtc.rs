//! NVRTC for tests: the one that `tools/setup --test-deps` installs, or one that is asked for by name. What else a
//! machine has may be of any version.
#![allow(clippy::panic, reason = "failures panic")]

use hostir_cuda::nvrtc;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Names the folder of another NVRTC.
const FOLDER: &str = "HIR_NVRTC";
/// Set in a test process that was started again with the library's folder.
const AGAIN: &str = "HIR_NVRTC_AGAIN";

/// To be called first of all: runs this test program again where the loader finds NVRTC, since the loader reads its
/// search path once, when a process starts. `None` if this process is to go on.
pub(crate) fn again() -> Option<ExitCode> {
    let folder = folder();
    if !folder.is_dir() || std::env::var_os(AGAIN).is_some() {
        return None;
    }
    let program = std::env::current_exe().unwrap_or_else(|error| panic!("{error}"));
    let mut path = folder.into_os_string();
    if let Some(old) = std::env::var_os("LD_LIBRARY_PATH") {
        path.push(":");
        path.push(old);
    }
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1)).env("LD_LIBRARY_PATH", path).env(AGAIN, "1");
    let status = command.status().unwrap_or_else(|error| panic!("{error}"));
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Some(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// The reason that kernels cannot be compiled here; `None` if they can.
pub(crate) fn missing() -> Option<&'static str> {
    let present = std::env::var_os(AGAIN).is_some() && nvrtc::is_present();
    (!present).then_some("needs NVRTC: `tools/setup --test-deps`, or HIR_NVRTC=<folder of libnvrtc.so>")
}

/// The folder in which the library is looked for.
fn folder() -> PathBuf {
    if let Some(given) = std::env::var_os(FOLDER) {
        return given.into();
    }
    let mut root = Path::new(env!("CARGO_MANIFEST_DIR"));
    while !root.join("tools/setup").is_file() {
        root = root.parent().unwrap_or_else(|| panic!("no tools/setup above the test"));
    }
    root.join(".deps/nvidia/cu13/lib")
}

/// Compiles texts for an architecture, one after the other: NVRTC holds one lock.
/// Fails with the first text that does not compile.
pub(crate) fn compile_all<'t>(texts: impl IntoIterator<Item = &'t str>, architecture: u32) -> usize {
    let mut count = 0;
    for text in texts {
        match nvrtc::compile_cubin(text, architecture) {
            Ok(image) => assert!(image.starts_with(b"\x7fELF"), "no machine code for\n{text}"),
            Err(error) => panic!("sm_{architecture}: {error}\n{text}"),
        }
        count += 1;
    }
    count
}
