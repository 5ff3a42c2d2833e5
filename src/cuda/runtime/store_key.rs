//! Keys of what an image store keeps.

use sha2::{Digest, Sha256};

/// SHA-256, in hexadecimal digits, over this library's version and the parts. The length of each part precedes it, so
/// no two lists of parts give the same bytes.
pub(crate) fn store_key<'p>(kind: &'p str, parts: impl IntoIterator<Item = &'p str>) -> String {
    let mut digest = Sha256::new();
    for part in [kind, env!("CARGO_PKG_VERSION")].into_iter().chain(parts) {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part.as_bytes());
    }
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
