//! Numbers that are the same in every run, and the programs of the tree and of `HIR_DUMPS`.
#![allow(dead_code, reason = "each test program uses a part")]

use std::path::{Path, PathBuf};

/// A small generator.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// A number from 0 to `limit` exclusive; 0 if there is none.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

/// All programs: name and text.
pub(crate) fn programs() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = if root.join("test").is_dir() { root.to_owned() } else { root.join("..") };
    let mut paths = Vec::new();
    for folder in ["test", "docs"] {
        collect(&root.join(folder), &mut paths);
    }
    if let Some(folder) = std::env::var_os("HIR_DUMPS") {
        collect(Path::new(&folder), &mut paths);
    }
    paths.sort();
    let text = |path: &PathBuf| Some((path.display().to_string(), std::fs::read_to_string(path).ok()?));
    paths.iter().filter_map(text).collect()
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "hir") {
            found.push(path);
        }
    }
}

/// The text as it prints; `None` if it has errors.
pub(crate) fn canonical(text: &str) -> Option<String> {
    let (programs, diags) = hostir::load(text);
    let printed: String = programs.iter().map(hostir::print::print_to_string).collect();
    (diags.is_empty() && !programs.is_empty()).then_some(printed)
}

const TOKENS: &[&str] = &[
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    ",",
    "=",
    ":",
    ";",
    "\n",
    "\n  ",
    "    ",
    "T0",
    "T1",
    "T99",
    "i7",
    "-1",
    "iS0{4}",
    ".",
    "4294967295",
    "// x\n",
    "ELSE:",
    "FOR i in iS0{2}:",
    "Wait Communication 1",
    "rank",
    "\u{e4}",
    "\0",
    "float(0)",
    "Stream 0",
    "// -----\n",
];

/// The text with bytes, tokens or lines deleted, swapped, doubled or put in.
pub(crate) fn damage(text: &str, random: &mut Random) -> String {
    let mut text = text.to_owned();
    for _ in 0..=random.below(3) {
        text = match random.below(3) {
            0 => bytes(&text, random),
            1 => pieces(&text, random, |c| c == '\n'),
            _ => pieces(&text, random, |c| !c.is_alphanumeric() && c != '_'),
        };
    }
    text
}

fn bytes(text: &str, random: &mut Random) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let at = random.below(bytes.len());
    let to = (at + random.below(9)).min(bytes.len());
    match random.below(3) {
        0 => drop(bytes.drain(at..to)),
        1 => {
            let token = TOKENS[random.below(TOKENS.len())];
            drop(bytes.splice(at..to, token.bytes()));
        }
        _ if bytes.is_empty() => {}
        _ => {
            let other = random.below(bytes.len());
            bytes.swap(at, other);
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Deletes, swaps or doubles a piece of the text between two separators.
fn pieces(text: &str, random: &mut Random, separator: fn(char) -> bool) -> String {
    let mut pieces: Vec<&str> = text.split_inclusive(separator).collect();
    if pieces.is_empty() {
        return text.to_owned();
    }
    let (at, other) = (random.below(pieces.len()), random.below(pieces.len()));
    match random.below(3) {
        0 => drop(pieces.remove(at)),
        1 => pieces.swap(at, other),
        _ => pieces.insert(at, pieces[other]),
    }
    pieces.concat()
}
