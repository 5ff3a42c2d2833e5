//! Bundles: a text and, after it, the texts of the files that it imports.
//!
//! Each imported text follows a line `file "lib/axpy.hir"`, with its path from the folder of the first text. So all
//! that a program needs is one text with one range of places, and reading a text needs no files. A file that has no
//! text is `file "lib/axpy.hir" missing "no such file"`.

use memchr::memmem;
use std::ops::Range;

/// The text of an imported file in a bundle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BundlePart<'t> {
    /// The path of the file, from the folder of the first text.
    pub path: &'t str,
    /// The reason why there is no text.
    pub fault: Option<&'t str>,
    /// The start of the line `file`.
    pub line: usize,
    /// The place of the text.
    pub text: Range<usize>,
}

/// The parts of a bundle; none if the text imports nothing, or is no bundle yet.
pub fn bundle_parts(text: &str) -> Vec<BundlePart<'_>> {
    let mut parts: Vec<BundlePart<'_>> = Vec::new();
    for at in memmem::find_iter(text.as_bytes(), b"\nfile \"") {
        let line = at + 1;
        let end = memchr::memchr(b'\n', &text.as_bytes()[line..]).map_or(text.len(), |length| line + length + 1);
        let Some((path, rest)) = text[line + "file \"".len()..end].split_once('"') else { continue };
        let fault = rest.trim().strip_prefix("missing \"").and_then(|rest| rest.strip_suffix('"'));
        if fault.is_none() && !rest.trim().is_empty() {
            continue;
        }
        if let Some(last) = parts.last_mut() {
            last.text.end = line;
        }
        parts.push(BundlePart { path, fault, line, text: end..text.len() });
    }
    parts
}

/// The text itself, without those that it imports.
pub fn own_text(text: &str) -> &str {
    &text[..bundle_parts(text).first().map_or(text.len(), |part| part.line)]
}

/// The paths that a text imports from, as it writes them.
pub fn imported_paths(text: &str) -> impl Iterator<Item = &str> {
    let starts = memmem::find_iter(text.as_bytes(), b"\nimport ").map(|at| at + 1);
    let first = text.starts_with("import ").then_some(0);
    let imports = first.into_iter().chain(starts).filter_map(|start| text[start..].lines().next());
    imports.filter_map(|line| line.split('"').nth(1))
}

/// The path of a file that another one imports, from the folder of the first text.
///
/// # Errors
/// If the path leaves the folder of the importing file, or is no path of a program: the reason.
pub fn joined_path(importer: &str, path: &str) -> Result<String, &'static str> {
    if path.starts_with('/') || path.contains('\\') {
        return Err("is not a path from the folder of the importing file, with `/` between its parts");
    }
    if path.split('/').any(|part| part == "..") {
        return Err("leads out of the folder of the importing file");
    }
    if path.split('/').any(|part| matches!(part, "" | ".")) || path.chars().any(char::is_control) {
        return Err("is not in its shortest form");
    }
    if !path.ends_with(".hir") {
        return Err("does not end in `.hir`");
    }
    Ok(match importer.rsplit_once('/') {
        Some((folder, _)) => format!("{folder}/{path}"),
        None => path.to_owned(),
    })
}

/// Appends the text of a file, or the reason why there is none, to a bundle.
pub fn push_part(bundle: &mut String, path: &str, text: Result<&str, &str>) {
    if !bundle.ends_with('\n') {
        bundle.push('\n');
    }
    bundle.push_str("file \"");
    bundle.push_str(path);
    match text {
        Ok(text) => {
            bundle.push_str("\"\n");
            bundle.push_str(own_text(text));
        }
        Err(reason) => {
            bundle.push_str("\" missing \"");
            bundle.extend(reason.chars().map(|c| if c == '"' || c.is_control() { '\'' } else { c }));
            bundle.push_str("\"\n");
        }
    }
}
