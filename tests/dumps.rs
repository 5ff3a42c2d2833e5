//! Every dump of the folder `HIR_DUMPS` (and the folders in it) prints back byte for byte.

use std::path::{Path, PathBuf};

fn dumps(folder: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            dumps(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "hir") {
            found.push(path);
        }
    }
    Ok(())
}

#[test]
#[allow(clippy::print_stdout, reason = "tells that nothing was tested")]
fn dumps_print_back() -> std::io::Result<()> {
    let Some(folder) = std::env::var_os("HIR_DUMPS") else {
        println!("skipped: HIR_DUMPS names no folder");
        return Ok(());
    };
    let mut paths = Vec::new();
    dumps(Path::new(&folder), &mut paths)?;
    paths.sort();
    assert!(!paths.is_empty(), "no dumps in {}", folder.display());
    for path in paths {
        let text = std::fs::read_to_string(&path)?;
        let name = path.display().to_string();
        let (programs, diags) = hostir::load(&text);
        let rendered = hostir::diag::render::to_string(&name, &text, &diags.items);
        assert!(diags.is_empty(), "{rendered}");
        let printed: String = programs.iter().map(hostir::print::print).collect();
        assert_eq!(printed, text, "{name}");
    }
    Ok(())
}
