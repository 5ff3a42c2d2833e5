//! Collects the programs of docs/ops that have an error, `NAME.error.hir`, for `--list-ops=NAME`.
//!
//! A package of this crate has the folder as `ops` (tools/package-crates).

use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

fn main() -> io::Result<()> {
    let package = variable("CARGO_MANIFEST_DIR")?;
    let packaged = package.join("ops");
    let folder = if packaged.is_dir() { packaged } else { package.join("../../docs/ops").canonicalize()? };
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut table = String::new();
    for (name, path) in find_programs(&folder)? {
        let _ = writeln!(table, "    ({name:?}, include_str!({path:?})),");
    }
    std::fs::write(variable("OUT_DIR")?.join("mistakes.rs"), format!("&[\n{table}]\n"))
}

/// The files of the folder, each with the name of its op, sorted.
fn find_programs(folder: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".error.hir"));
        if let Some(name) = name.map(str::to_owned) {
            found.push((name, path));
        }
    }
    found.sort();
    Ok(found)
}

fn variable(name: &str) -> io::Result<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).ok_or_else(|| io::Error::other(format!("cargo sets {name}")))
}
