//! Adds the commit to the version of release builds from a checkout, and lists the pages of `--explain`.
//!
//! Other builds leave the commit out, since every commit would repeat them. A package of this crate has the pages in its folder
//! `errors` (tools/package-crates).

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    match is_release.then(read_commit).flatten() {
        Some(commit) => println!("cargo::rustc-env=HIR_VERSION={version} ({commit})"),
        None => println!("cargo::rustc-env=HIR_VERSION={version}"),
    }
    list_pages()
}

/// Writes `pages.rs`: the code and the text of each page of docs/errors, in order.
fn list_pages() -> std::io::Result<()> {
    let package = folder_of_variable("CARGO_MANIFEST_DIR");
    let packaged = package.join("errors");
    let folder = if packaged.is_dir() { packaged } else { package.join("../../docs/errors").canonicalize()? };
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut pages = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if let Some(code) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".md")) {
            pages.push(format!("    ({code:?}, include_str!({path:?})),\n"));
        }
    }
    pages.sort();
    std::fs::write(folder_of_variable("OUT_DIR").join("pages.rs"), format!("&[\n{}]\n", pages.concat()))
}

fn folder_of_variable(name: &str) -> PathBuf {
    std::env::var_os(name).map(PathBuf::from).unwrap_or_default()
}

/// The commit of the checkout; `None` outside of one.
fn read_commit() -> Option<String> {
    // A package that is unpacked below another project's checkout does not belong to its commit.
    let file = ask_git(&["ls-files", "--error-unmatch", "build.rs"])?;
    let commit = ask_git(&["rev-parse", "--short=12", "HEAD"])?;
    for name in ["HEAD", "logs/HEAD"] {
        let path = ask_git(&["rev-parse", "--git-path", name])?;
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    (file == "build.rs").then_some(commit)
}

fn ask_git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
