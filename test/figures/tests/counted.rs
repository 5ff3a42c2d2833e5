//! Figures of a small workspace whose figures are counted by hand.
#![allow(clippy::unwrap_used, reason = "failures panic")]

use hostir_figures::cycles::against;
use hostir_figures::report::Figures;
use std::collections::BTreeSet;
use std::path::Path;

const LIB: &str = "\
//! A library.

pub mod low;
pub mod high;
pub mod far;
";

/// Needs `high`, through a re-export of its `mod.rs`.
const LOW: &str = "\
//! Low.

use crate::high::deep_sum;

/// Whether it is small.
pub struct Small(pub u32);

/// Adds. What it adds is a pair.
pub fn add_pair((a, b): (u32, u32)) -> u32 {
    let double = |x: u32| x * 2; // a comment behind code
    deep_sum(double(a) + b)
}

#[cfg(test)]
mod tests {
    #[test]
    fn counted_as_test() {
        let unused = |x: u32| x;
        assert_eq!(unused(1), 1);
    }
}
";

const HIGH: &str = "\
//! High.

mod deep;

pub use deep::deep_sum;

/// How many.
pub type HowMany = u32;
";

const DEEP: &str = "\
//! Deep.

/// Sums.
pub fn deep_sum(x: u32) -> u32 {
    println!(\"{}\", crate::low::Small(x).0);
    x
}
";

/// Mentions others, and nobody mentions it: no cycle.
const FAR: &str = "\
//! Far.

/// Another one of this name, and what opens with the word in its second sentence counts for nothing. What else.
pub struct Small;

impl Small {
    /// Has three.
    pub fn is_far_away(&self) -> bool {
        crate::low::add_pair((1, 2)) > 3
    }
    /// Whether it is near.
    pub fn is_near(&self) -> bool {
        false
    }
    /// Goes.
    pub fn go(&self) {}
}
";

fn write(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn figures() -> Figures {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    write(root, "Cargo.toml", "[package]\nname = \"a-library\"\n");
    write(root, "src/lib.rs", LIB);
    write(root, "src/low.rs", LOW);
    write(root, "src/high/mod.rs", HIGH);
    write(root, "src/high/deep.rs", DEEP);
    write(root, "src/far.rs", FAR);
    write(root, "tests/one.rs", "//! Tests.\n\n#[test]\nfn one() {}\n");
    write(root, "examples/two.rs", "//! An example.\n\nfn main() {}\n");
    Figures::of(root).unwrap()
}

#[test]
fn cycles_follow_re_exports() {
    let figures = figures();
    let files = |files: &[usize]| -> Vec<String> {
        files.iter().map(|&file| figures.sources.files[file].path.clone()).collect()
    };
    assert_eq!(figures.cycles.len(), 1);
    let cycle = &figures.cycles[0];
    assert_eq!(files(&cycle.files), ["src/low.rs", "src/high/deep.rs"]);
    assert_eq!(cycle.modules, BTreeSet::from(["low".to_owned(), "high".to_owned()]));
    let order = ["low", "high", "far"].map(str::to_owned);
    let against = against(&figures.sources, &figures.arrows, ("a_library", &order));
    assert_eq!(against.len(), 1);
    let arrow = against[0];
    assert_eq!((files(&[arrow.from, arrow.to]), arrow.line), (files(&cycle.files), 3));
    assert_eq!(arrow.item, "deep_sum");
}

#[test]
fn names_docs_and_shapes_are_counted() {
    let figures = figures();
    let names = &figures.names;
    // add_pair, deep_sum, is_far_away, is_near, go.
    assert_eq!((names.functions.len(), names.short_functions().len()), (5, 1));
    // Small, HowMany, Small.
    assert_eq!((names.types.len(), names.short_types().len()), (3, 2));
    assert_eq!(names.repeated_types().len(), 2);
    // Small, add_pair, HowMany, deep_sum, Small, is_far_away, is_near, go.
    assert_eq!((figures.docs.len(), figures.questions().len()), (8, 2));
    let shapes = &figures.shapes;
    assert_eq!((shapes.closures.len(), shapes.tuples.len()), (1, 1));
    let mut lengths: Vec<usize> = shapes.functions.iter().map(|spot| spot.size).collect();
    lengths.sort_unstable();
    assert_eq!(lengths, [1, 3, 3, 4, 4]);
}

#[test]
fn code_lines_leave_out_comments_and_unit_tests() {
    let lines = figures().lines;
    // lib 3; low 6: use, struct, fn, let, call, brace; high 3; deep 4; far 10.
    assert_eq!(lines.shipped, 3 + 6 + 3 + 4 + 10);
    // The unit tests of low are 8 lines with their attribute; tests/one.rs has 2.
    assert_eq!(lines.tests, 8 + 2);
    assert_eq!(lines.examples, 1);
}
