//! The folder of nvFuser's dumps, which is not part of the repository: `HIR_DUMPS` names it.

use std::path::{Path, PathBuf};

/// The reason that tests over the dumps cannot run; `None` if they can.
pub(crate) fn missing() -> Option<&'static str> {
    let given = std::env::var_os("HIR_DUMPS").is_some();
    (!given).then_some("needs nvFuser's dumps: HIR_DUMPS=<folder>")
}

/// The folder.
pub(crate) fn folder() -> PathBuf {
    std::env::var_os("HIR_DUMPS").map(PathBuf::from).unwrap_or_default()
}

/// All dumps in the folder and the folders in it, sorted. Fails where there are none.
#[allow(dead_code, reason = "not every test program reads all of them")]
pub(crate) fn paths() -> Vec<PathBuf> {
    let mut paths = Vec::new();
    collect(&folder(), &mut paths);
    paths.sort();
    assert!(!paths.is_empty(), "HIR_DUMPS={}: no .hir file is there", folder().display());
    paths
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "hir") {
            found.push(path);
        }
    }
}
