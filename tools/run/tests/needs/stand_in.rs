//! Libraries that stand for NVIDIA's: `driver.c`, compiled here.

use std::path::Path;
use std::process::Command;

/// The reason that the driver cannot be made here; `None` if it can.
pub(crate) fn missing() -> Option<&'static str> {
    if cfg!(target_env = "musl") {
        return Some("what is linked statically opens no libraries");
    }
    let compiles = compiler().arg("--version").output().is_ok_and(|output| output.status.success());
    (!compiles).then_some("needs a C compiler: cc, or CC=<command>")
}

/// The C compiler: `cc`, or what `CC` says.
fn compiler() -> Command {
    let given = std::env::var("CC").unwrap_or_default();
    let mut words = given.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or("cc"));
    command.args(words);
    command
}

/// Makes the libraries in a folder, which then has to be in `LD_LIBRARY_PATH`.
pub(crate) fn make(folder: &Path) {
    let text = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/needs/driver.c");
    let mut command = compiler();
    command.args(["-shared", "-fPIC", "-o", "libcuda.so.1", text]).current_dir(folder);
    assert!(command.status().unwrap().success());
    std::fs::copy(folder.join("libcuda.so.1"), folder.join("libnvrtc.so.13")).unwrap();
}
