//! Proofs that both ends of a connection know the token, which itself is never sent.
//!
//! Each end sends a random number, and proves with an HMAC-SHA-256 over both numbers and what the joining
//! process says of itself. The two ends' proofs differ by a word, so that neither can be sent back as the
//! other. What follows on the connection is not encrypted: this keeps strangers out, not spies.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// Bytes of a random number.
pub(super) const NONCE: usize = 16;
/// Bytes of a proof.
pub(super) const PROOF: usize = 32;

/// The key made of a token.
#[derive(Clone)]
pub(super) struct Key([u8; 32]);

/// Which end proves.
#[derive(Clone, Copy)]
pub(super) enum End {
    Joining,
    Coordinator,
}

impl Key {
    pub(super) fn new(token: &str) -> Self {
        Self(
            Sha256::new()
                .chain_update(b"hir-run rendezvous\0")
                .chain_update(token)
                .finalize()
                .into(),
        )
    }

    fn mac(&self, end: End, parts: &[&[u8]]) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        mac.update(match end {
            End::Joining => b"joining",
            End::Coordinator => b"coordinator",
        });
        parts.iter().for_each(|part| mac.update(part));
        Some(mac)
    }

    /// The proof of an end over these parts, whose lengths are fixed.
    pub(super) fn prove(&self, end: End, parts: &[&[u8]]) -> [u8; PROOF] {
        self.mac(end, parts).map_or([0; PROOF], |mac| mac.finalize().into_bytes().into())
    }

    /// Whether a proof is right; takes the same time wherever it is wrong.
    pub(super) fn check(&self, end: End, parts: &[&[u8]], proof: &[u8]) -> bool {
        self.mac(end, parts).is_some_and(|mac| mac.verify_slice(proof).is_ok())
    }
}

/// A number that nobody can guess or has seen.
pub(super) fn nonce() -> std::io::Result<[u8; NONCE]> {
    let mut bytes = [0; NONCE];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(bytes)
}

/// A token for a run that has none.
pub(super) fn random() -> std::io::Result<String> {
    Ok(nonce()?.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// SHA-256 of some bytes.
pub(super) fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231's second case, through the same crates: the key there is used as it is.
    #[test]
    fn hmac_is_hmac() {
        let mut mac = Hmac::<Sha256>::new_from_slice(b"Jefe").unwrap();
        mac.update(b"what do ya want for nothing?");
        let found: Vec<u8> = mac.finalize().into_bytes().to_vec();
        let start = [0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e];
        assert_eq!(found[..8], start);
    }

    #[test]
    fn proofs_are_of_one_end_token_and_conversation() {
        let (key, parts) = (Key::new("a"), [b"12".as_slice(), b"34"]);
        let proof = key.prove(End::Joining, &parts);
        assert!(key.check(End::Joining, &parts, &proof));
        assert!(!key.check(End::Coordinator, &parts, &proof));
        assert!(!key.check(End::Joining, &[b"12", b"35"], &proof));
        assert!(!Key::new("b").check(End::Joining, &parts, &proof));
        assert!(!key.check(End::Joining, &parts, &proof[..31]));
        assert_ne!(random().unwrap(), random().unwrap());
    }
}
