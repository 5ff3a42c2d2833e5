//! NVRTC for tests: the one that `tools/setup --test-deps` installs, or one that is asked for by name. What else a
//! machine has may be of any version.
#![allow(clippy::panic, reason = "failures panic")]

use crate::effort;
use hostir_cuda::nvrtc;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

/// Names the folder of another NVRTC.
const FOLDER: &str = "HIR_NVRTC";
/// Set in a test process that was started again with the library's folder.
const AGAIN: &str = "HIR_NVRTC_AGAIN";
/// Names the folder of the texts that a process compiles, instead of running tests.
const SHARE: &str = "HIR_NVRTC_SHARE";

/// To be called first of all: runs this test program again where the loader finds NVRTC, since the loader reads its
/// search path once, when a process starts. `None` if this process is to go on. A process that [`compile_all`] started
/// compiles its share here, and ends.
pub(crate) fn again() -> Option<ExitCode> {
    if let Some(share) = std::env::var_os(SHARE) {
        compile_share(Path::new(&share));
        return Some(ExitCode::SUCCESS);
    }
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

/// Compiles texts for an architecture, in one process for each processor: within a process, NVRTC holds one lock.
/// Fails with the first text of a process that does not compile.
pub(crate) fn compile_all<'t>(texts: impl IntoIterator<Item = &'t str>, architecture: u32) -> usize {
    let texts: Vec<&str> = texts.into_iter().collect();
    let processes = std::thread::available_parallelism().map_or(1, usize::from).min(texts.len());
    let started: Vec<(tempfile::TempDir, Child)> =
        (0..processes).map(|first| start_share(texts.iter().skip(first).step_by(processes), architecture)).collect();
    for (_folder, child) in started {
        let output = child.wait_with_output().unwrap_or_else(|error| panic!("{error}"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    texts.len()
}

/// The first of all texts that differ in nothing but numbers (extents, strides, constants); `HIR_FULL=1` asks for all.
pub(crate) fn representatives<'t>(texts: impl IntoIterator<Item = &'t str>) -> Vec<&'t str> {
    if effort::number("HIR_FULL") == Some(1) {
        return texts.into_iter().collect();
    }
    let mut first: BTreeMap<String, &str> = BTreeMap::new();
    for text in texts {
        first.entry(without_numbers(text)).or_insert(text);
    }
    first.into_values().collect()
}

/// A text with 0 in the place of each number; digits of names such as `float4` stay.
fn without_numbers(text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut rest = text;
    let mut pattern = String::with_capacity(text.len());
    while let Some(start) = rest.find(is_word) {
        let (before, word) = rest.split_at(start);
        let end = word.find(|c| !is_word(c)).unwrap_or(word.len());
        pattern += before;
        pattern += if word.starts_with(|c: char| c.is_ascii_digit()) { "0" } else { &word[..end] };
        rest = &word[end..];
    }
    pattern + rest
}

/// Starts a process that compiles these texts. They lie in the folder, which is to live as long as the process.
fn start_share<'t>(texts: impl Iterator<Item = &'t &'t str>, architecture: u32) -> (tempfile::TempDir, Child) {
    let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    for (number, text) in texts.enumerate() {
        let path = folder.path().join(format!("{number}.sm_{architecture}"));
        std::fs::write(path, text).unwrap_or_else(|error| panic!("{error}"));
    }
    let program = std::env::current_exe().unwrap_or_else(|error| panic!("{error}"));
    let mut command = Command::new(program);
    command.env(SHARE, folder.path()).stdout(Stdio::null()).stderr(Stdio::piped());
    (folder, command.spawn().unwrap_or_else(|error| panic!("{error}")))
}

/// Compiles the texts of a folder, each for the architecture that its ending names.
fn compile_share(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{error}")) {
        let path = entry.unwrap_or_else(|error| panic!("{error}")).path();
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{error}"));
        let ending = path.extension().and_then(OsStr::to_str).unwrap_or_default();
        let architecture = ending.trim_start_matches("sm_").parse().unwrap_or_else(|error| panic!("{error}"));
        match nvrtc::compile_cubin(&text, architecture) {
            Ok(image) => assert!(image.starts_with(b"\x7fELF"), "no machine code for\n{text}"),
            Err(error) => panic!("{ending}: {error}\n{text}"),
        }
    }
}
