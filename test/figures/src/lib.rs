//! Figures about this repository's own Rust sources: cycles of imports, names, docs, closures, sizes.
//!
//! Sources are parsed with `syn`, one module tree a crate. *Shipped* code is what is below a `src` folder of a
//! crate outside of `test/`, without unit tests (`#[cfg(test)]`); everything else is test code or an example.

pub mod cycles;
pub mod documentation;
pub mod imports;
pub mod names;
pub mod report;
pub mod shape;
pub mod sources;

/// Returns `part` of `whole` in percent; 0 of nothing.
pub fn percent(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}
