//! Neovim as the client: an editor that people use starts hir-lsp by the files of `tools/vim`, and `client.lua` does in
//! it what its user does. Ignored where there is no Neovim (`tools/setup --neovim` installs it); `HIR_NVIM` is the
//! command.
#![allow(clippy::unwrap_used, reason = "failures panic")]

#[path = "../../../../test/library/common/needs.rs"]
mod needs;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The command of Neovim.
fn neovim() -> String {
    std::env::var("HIR_NVIM").unwrap_or_else(|_| "nvim".to_owned())
}

fn main() -> ExitCode {
    let found = Command::new(neovim()).arg("--version").output().is_ok();
    let missing = (!found).then_some("needs nvim");
    needs::run(needs::tests![missing; a_race_is_found_and_repaired])
}

/// The folder of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

fn a_race_is_found_and_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("race.hir");
    std::fs::copy(root().join("docs/tutorial/race.hir"), &file).unwrap();
    let output = Command::new(neovim())
        .args(["--headless", "-u", "NONE", "-i", "NONE", "-n", "-S"])
        .arg(root().join("tools/lsp/tests/neovim/client.lua"))
        .env("HIR_VIM", root().join("tools/vim"))
        .env("HIR_LSP", env!("CARGO_BIN_EXE_hir-lsp"))
        .env("HIR_FILE", &file)
        .env("HOME", folder.path())
        .env("XDG_STATE_HOME", folder.path())
        .env("XDG_CACHE_HOME", folder.path())
        .current_dir(folder.path())
        .output()
        .unwrap();
    let [seen, messages] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{seen}{messages}");
    assert!(seen.contains("seen: the verdict above the program"), "{seen}{messages}");
}
