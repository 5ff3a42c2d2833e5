//! Links a text with the texts of the files that it imports.

use hostir_grammar::MAX_TEXT;
use hostir_grammar::hir2::bundle::{bundle_parts, imported_paths, joined_path, push_part};
use hostir_grammar::hir2::is_hir2;
use rustc_hash::FxHashSet;

/// The largest number of files that a text imports from.
const MOST_FILES: usize = 1024;

/// The text with those of all files that it imports, directly or through other files: a bundle, which
/// [`load`](crate::load) and all other functions read as one text. `None` for a text without imports.
///
/// `read` gives the text of a file by its path from the folder of the first text, or the reason why there is none; it
/// is asked once for each file. Texts that the bundle has already are not asked for.
///
/// ```
/// let text = "hir 2.1\nimport twice from \"lib.hir\"\nf(A: f32[n]) -> (B: f32[n]):\n  B = twice(A)\n";
/// let lib = "hir 2.1\nkernel twice(X: f32[n]) -> (Y: f32[n]):\n  Y = X + X\n";
/// let linked = hostir::hir2::link_imports(text, &mut |path| match path {
///     "lib.hir" => Ok(lib.to_owned()),
///     _ => Err("there is no such file".to_owned()),
/// });
/// let (programs, diags) = hostir::load(&linked.expect("the text imports a file"));
/// assert!(diags.is_empty());
/// assert_eq!(programs[0].units().len(), 1);
/// ```
pub fn link_imports(text: &str, read: &mut dyn FnMut(&str) -> Result<String, String>) -> Option<String> {
    if !is_hir2(text) || imported_paths(text).next().is_none() {
        return None;
    }
    let parts = bundle_parts(text);
    let mut known: FxHashSet<String> = parts.iter().map(|part| part.path.to_owned()).collect();
    let own = &text[..parts.first().map_or(text.len(), |part| part.line)];
    let mut wanted: Vec<String> = Vec::new();
    add_paths("", own, &mut wanted);
    parts.iter().for_each(|part| add_paths(part.path, &text[part.text.clone()], &mut wanted));
    let mut bundle = text.to_owned();
    let mut at = 0;
    while let Some(path) = wanted.get(at).cloned() {
        at += 1;
        if !known.insert(path.clone()) {
            continue;
        }
        let found = match known.len() > MOST_FILES {
            true => Err(format!("these are more than {MOST_FILES} files")),
            false => read(&path),
        };
        let found = found.and_then(|found| match bundle.len() + found.len() > MAX_TEXT {
            true => Err(format!("the texts have more than {} MiB together", MAX_TEXT >> 20)),
            false => Ok(found),
        });
        if let Ok(found) = &found {
            add_paths(&path, hostir_grammar::hir2::bundle::own_text(found), &mut wanted);
        }
        push_part(&mut bundle, &path, found.as_deref().map_err(String::as_str));
    }
    Some(bundle)
}

/// Adds the files that a text imports. A wrong path is an error of reading the text.
fn add_paths(importer: &str, text: &str, wanted: &mut Vec<String>) {
    wanted.extend(imported_paths(text).filter_map(|path| joined_path(importer, path).ok()));
}
