//! The path of hir-opt, which a package of its own builds.

use std::sync::LazyLock;

static PATH: LazyLock<String> = LazyLock::new(|| {
    let path = std::path::Path::new(env!("CARGO_BIN_EXE_hir-run")).with_file_name("hir-opt");
    assert!(path.exists(), "{} is not built: cargo build -p hostir-opt", path.display());
    path.to_string_lossy().into_owned()
});

/// The program beside hir-run.
pub(crate) fn hir_opt() -> &'static str {
    &PATH
}
