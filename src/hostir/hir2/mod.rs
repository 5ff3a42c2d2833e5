//! `hir 2`: the notation of the IR that people write.
//!
//! `read` turns a syntax tree into IR, `write` turns IR into text. Both use the op table (types of results)
//! and `defaults` (memory, sizes, teams) for the parts that a text leaves out, so that reading a written text gives the
//! same IR.

pub mod defaults;
pub mod forms;
mod link;
pub mod read;
mod version;
pub mod write;

pub use hostir_grammar::hir2::bundle::own_text;
pub use hostir_grammar::hir2::is_hir2;
pub use link::link_imports;

use crate::diag::{Diags, Notation};

/// The notation of a text.
pub fn notation_of(text: &str) -> Notation {
    if is_hir2(text) { Notation::Hir2 } else { Notation::Printed }
}

/// A text in `hir 2` in its canonical layout.
///
/// ```
/// let text = "hir 2\nf( A:f32[n] )->(B : f32[n]):\n    B=relu( A )\n";
/// let formatted = hostir::hir2::format_text(text).expect("the text has no errors");
/// assert_eq!(formatted, "hir 2\n\nf(A: f32[n]) -> (B: f32[n]):\n  B = relu(A)\n");
/// ```
///
/// # Errors
/// If the text cannot be read without errors: all diagnostics of reading it.
pub fn format_text(text: &str) -> Result<String, Diags> {
    let (mut programs, diags) = read::read_text(text);
    if diags.has_errors() {
        return Err(diags);
    }
    Ok(write::write_layout(&mut programs, text, &hostir_grammar::hir2::parse(text).file))
}
