//! Figures about the Rust sources of this repository: cycles of imports, names, docs, closures, sizes.
//!
//! `syn` parses the sources, one module tree for each crate. *Shipped* code is code below a `src` folder of a crate outside
//! of `test/`, without unit tests (`#[cfg(test)]`); all other code is test code or an example.

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
