//! The first bytes of a connection: identify the other end, prove knowledge of the token, and establish the keys of the
//! frames.
//!
//! ```text
//! joining      -> "HIRX" version:u16 rank:u32 world:u32 e[32] tag[16]      62 bytes
//! coordinator  -> "HIRX" version:u16 e[32] proof[16]                       54 bytes
//! joining      -> frame 0: Hello                                           29 bytes (`wire.rs`)
//! coordinator  -> frame 0: Verdict verdict:u8                              30 bytes
//! ```
//! Numbers are little-endian. Names that begin with `e` are the two messages of the handshake
//! `Noise_NNpsk2_25519_ChaChaPoly_SHA256` (The Noise Protocol Framework, revision 34, carried out by the crate `snow`):
//! ephemeral X25519 keys of both ends, and a shared key, which is derived from the token. The plain text, a label and
//! the first 14 bytes, is the prologue, so the proof also covers version, rank and world. The tag of the first message
//! has a key that everybody can derive from `e`. The handshake yields two keys, one for each direction. Nobody has them
//! who does not know the token, nor who learns it later: they depend on the ephemeral keys, which are gone then.
//!
//! The coordinator proves first, over a number of the joining end that was never used before; a joining process sends
//! nothing that depends on the token to an end that has not. The frames are the joining end's proof, and the proof that
//! the verdict is the coordinator's. Anything else, another version included, is unproven: [`UnprovenAnswer`].
//!
//! This module handles bytes alone; `join.rs` and `lobby.rs` have the connections.

use super::token::ConnectionKey;
use super::wire::SessionKeys;
use snow::{Builder, HandshakeState};
use std::io::{Error, Result};

const MAGIC: &[u8; 4] = b"HIRX";
/// Changes with every change of the messages. Version 1 had no keys: its frames were in the clear.
pub(super) const VERSION: u16 = 3;
/// Bytes that say which protocol it is.
pub(super) const HEAD: usize = 6;
/// Bytes of a joining process's greeting outside of the handshake.
const CLEAR: usize = HEAD + 8;
/// Bytes of the whole greeting.
pub(super) const HELLO: usize = CLEAR + 48;
/// Bytes of the coordinator's answer.
pub(super) const ANSWER: usize = HEAD + 48;
/// Bytes of a greeting that every version waits for.
const OLDEST: usize = 22;

const PATTERN: &str = "Noise_NNpsk2_25519_ChaChaPoly_SHA256";
const LABEL: &[u8] = b"hir-run rendezvous";

/// The coordinator's verdict on a process that knows the token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum JoinVerdict {
    Welcome = 0,
    World = 1,
    Rank = 2,
}

impl JoinVerdict {
    pub(super) fn from_byte(byte: u8) -> Option<Self> {
        let all = [JoinVerdict::Welcome, JoinVerdict::World, JoinVerdict::Rank];
        all.into_iter().find(|verdict| *verdict as u8 == byte)
    }
}

/// An answer to a joining process that nobody has proved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum UnprovenAnswer {
    /// No hir-run.
    Stranger,
    /// One of this version of the protocol.
    Version(u16),
    /// One that does not know the token.
    Token,
}

/// The claims of a process that wants to join. An end without the token may claim anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct JoinClaim {
    pub(super) rank: u32,
    pub(super) world: u32,
}

fn greeting_head() -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[..4].copy_from_slice(MAGIC);
    head[4..].copy_from_slice(&VERSION.to_le_bytes());
    head
}

/// The version of a greeting; `None` if it is not one of this protocol.
pub(super) fn greeting_version(head: &[u8; HEAD]) -> Option<u16> {
    let version = head.strip_prefix(MAGIC)?.first_chunk::<2>()?;
    Some(u16::from_le_bytes(*version))
}

fn begin_handshake(
    key: &ConnectionKey,
    clear: &[u8],
    joining: bool,
) -> std::result::Result<HandshakeState, snow::Error> {
    let prologue = [LABEL, clear].concat();
    let builder = Builder::new(PATTERN.parse()?).psk(2, &key.0)?.prologue(&prologue)?;
    if joining { builder.build_initiator() } else { builder.build_responder() }
}

/// A joining process between its greeting and the answer.
pub(super) struct JoinHandshake {
    noise: HandshakeState,
    hello: [u8; HELLO],
}

impl JoinHandshake {
    /// # Errors
    /// If the system has no random numbers.
    pub(super) fn new(key: &ConnectionKey, claim: JoinClaim) -> Result<Self> {
        let mut hello = [0; HELLO];
        hello[..HEAD].copy_from_slice(&greeting_head());
        hello[HEAD..HEAD + 4].copy_from_slice(&claim.rank.to_le_bytes());
        hello[HEAD + 4..CLEAR].copy_from_slice(&claim.world.to_le_bytes());
        let mut noise = begin_handshake(key, &hello[..CLEAR], true).map_err(Error::other)?;
        noise.write_message(&[], &mut hello[CLEAR..]).map_err(Error::other)?;
        Ok(Self { noise, hello })
    }

    pub(super) fn hello_bytes(&self) -> &[u8; HELLO] {
        &self.hello
    }

    /// The keys of a connection whose other end knows the token.
    ///
    /// # Errors
    /// If it does not.
    pub(super) fn verify_answer(mut self, answer: &[u8; ANSWER]) -> std::result::Result<SessionKeys, UnprovenAnswer> {
        self.noise.read_message(&answer[HEAD..], &mut []).map_err(|_| UnprovenAnswer::Token)?;
        self.noise.into_stateless_transport_mode().map(SessionKeys::new).map_err(|_| UnprovenAnswer::Token)
    }
}

/// The coordinator's answer to a greeting.
pub(super) enum GreetingAnswer {
    /// The coordinator's proof, the other end's claims, and the keys, which only an end with the token has.
    Proof(Box<([u8; ANSWER], JoinClaim, SessionKeys)>),
    /// To a process of another version, so that it can say so.
    Version(u16, [u8; OLDEST]),
    /// Nothing.
    NoAnswer,
}

/// Answers the beginning of a greeting; `None` if it is incomplete.
pub(super) fn answer_greeting(key: &ConnectionKey, heard: &[u8]) -> Option<GreetingAnswer> {
    let known = heard.len().min(MAGIC.len());
    if heard[..known] != MAGIC[..known] {
        return Some(GreetingAnswer::NoAnswer);
    }
    let version = greeting_version(heard.first_chunk()?)?;
    if version != VERSION {
        let mut greeting = [0; OLDEST];
        greeting[..HEAD].copy_from_slice(&greeting_head());
        return Some(GreetingAnswer::Version(version, greeting));
    }
    let hello: &[u8; HELLO] = heard.first_chunk()?;
    Some(prove_token(key, hello).unwrap_or(GreetingAnswer::NoAnswer))
}

fn prove_token(key: &ConnectionKey, hello: &[u8; HELLO]) -> std::result::Result<GreetingAnswer, snow::Error> {
    let (clear, message) = hello.split_at(CLEAR);
    let mut noise = begin_handshake(key, clear, false)?;
    noise.read_message(message, &mut [])?;
    let mut answer = [0; ANSWER];
    answer[..HEAD].copy_from_slice(&greeting_head());
    noise.write_message(&[], &mut answer[HEAD..])?;
    let claim = JoinClaim { rank: word_at(clear, HEAD), world: word_at(clear, HEAD + 4) };
    let session = SessionKeys::new(noise.into_stateless_transport_mode()?);
    Ok(GreetingAnswer::Proof(Box::new((answer, claim, session))))
}

/// A number of a message; 0 after its end.
fn word_at(message: &[u8], at: usize) -> u32 {
    let rest = message.get(at..).and_then(|rest| rest.first_chunk());
    rest.map_or(0, |word| u32::from_le_bytes(*word))
}

/// Both ends of a connection.
#[cfg(test)]
pub(super) fn both_ends(rank: u32) -> (SessionKeys, SessionKeys) {
    let key = ConnectionKey::new(None);
    let joining = JoinHandshake::new(&key, JoinClaim { rank, world: rank + 1 }).unwrap();
    let Some(GreetingAnswer::Proof(parts)) = answer_greeting(&key, joining.hello_bytes()) else { panic!("no proof") };
    let (bytes, _, coordinator) = *parts;
    (joining.verify_answer(&bytes).unwrap(), coordinator)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAIM: JoinClaim = JoinClaim { rank: 3, world: 4 };

    fn keys() -> (ConnectionKey, ConnectionKey) {
        (ConnectionKey([1; 32]), ConnectionKey([2; 32]))
    }

    fn proof(key: &ConnectionKey, hello: &[u8]) -> ([u8; ANSWER], JoinClaim) {
        let Some(GreetingAnswer::Proof(parts)) = answer_greeting(key, hello) else { panic!("no proof") };
        (parts.0, parts.1)
    }

    #[test]
    fn both_ends_know_the_token() {
        let (key, other) = keys();
        let ask = || JoinHandshake::new(&key, CLAIM).unwrap();
        let joining = ask();
        let (bytes, claim) = proof(&key, joining.hello_bytes());
        assert_eq!(claim, CLAIM);
        // A proof is valid for one conversation: neither another greeting nor another token accepts it.
        assert_eq!(ask().verify_answer(&bytes).err(), Some(UnprovenAnswer::Token));
        assert!(joining.verify_answer(&bytes).is_ok());
        let joining = ask();
        let (bytes, _) = proof(&other, joining.hello_bytes());
        assert_eq!(joining.verify_answer(&bytes).err(), Some(UnprovenAnswer::Token));
    }

    /// A change of a greeting, of rank and world for instance, is detected, and so is a changed proof.
    #[test]
    fn proofs_are_of_all_that_was_said() {
        let (key, _) = keys();
        for at in HEAD..HELLO {
            let mut changed = *JoinHandshake::new(&key, CLAIM).unwrap().hello_bytes();
            changed[at] ^= 1;
            assert!(matches!(answer_greeting(&key, &changed), Some(GreetingAnswer::NoAnswer)), "{at}");
        }
        // The tag of a greeting detects accidents only; the proof of another rank is not valid for this one.
        let ephemeral = [7; 32];
        let ask = |clear: &[u8]| {
            let builder = Builder::new(PATTERN.parse().unwrap()).psk(2, &key.0).unwrap();
            let builder = builder.fixed_ephemeral_key_for_testing_only(&ephemeral);
            let prologue = [LABEL, clear].concat();
            let mut noise = builder.prologue(&prologue).unwrap().build_initiator().unwrap();
            let mut hello: [u8; HELLO] = [0; HELLO];
            hello[..CLEAR].copy_from_slice(clear);
            noise.write_message(&[], &mut hello[CLEAR..]).unwrap();
            JoinHandshake { noise, hello }
        };
        let own = *JoinHandshake::new(&key, CLAIM).unwrap().hello_bytes().first_chunk::<CLEAR>().unwrap();
        let other = JoinClaim { rank: 2, ..CLAIM };
        let other = *JoinHandshake::new(&key, other).unwrap().hello_bytes().first_chunk::<CLEAR>().unwrap();
        let (bytes, _) = proof(&key, ask(&other).hello_bytes());
        assert_eq!(ask(&own).verify_answer(&bytes).err(), Some(UnprovenAnswer::Token));
        assert!(ask(&other).verify_answer(&bytes).is_ok());
        for at in HEAD..ANSWER {
            let joining = JoinHandshake::new(&key, CLAIM).unwrap();
            let (mut bytes, _) = proof(&key, joining.hello_bytes());
            bytes[at] ^= 1;
            assert_eq!(joining.verify_answer(&bytes).err(), Some(UnprovenAnswer::Token), "{at}");
        }
    }

    /// A false coordinator hears nothing on which it could test guesses: two greetings under one token differ, and
    /// greetings under two tokens are alike, made of random bytes and plain text.
    #[test]
    fn greetings_do_not_depend_on_the_token() {
        let (key, other) = keys();
        let hello = |key: &ConnectionKey| {
            let builder = Builder::new(PATTERN.parse().unwrap()).psk(2, &key.0).unwrap();
            let builder = builder.fixed_ephemeral_key_for_testing_only(&[7; 32]);
            let mut noise = builder.prologue(b"x").unwrap().build_initiator().unwrap();
            let mut bytes = [0; 48];
            noise.write_message(&[], &mut bytes).unwrap();
            bytes
        };
        assert_eq!(hello(&key), hello(&other));
        let fresh = || *JoinHandshake::new(&key, CLAIM).unwrap().hello_bytes();
        assert_ne!(fresh(), fresh());
    }

    #[test]
    fn strangers_and_other_versions() {
        let (key, _) = keys();
        for start in [&b""[..], b"HI", b"HIRX", b"HIRX\x03\x00", b"HIRX\x03\x00abc"] {
            assert!(answer_greeting(&key, start).is_none(), "{start:?}");
        }
        for noise in [&b"G"[..], b"HIR ", b"HTTP/1.1 200", &[0xff; 64]] {
            assert!(matches!(answer_greeting(&key, noise), Some(GreetingAnswer::NoAnswer)), "{noise:?}");
        }
        // The first version's greeting; it waits for 22 bytes, of which the first six have the version.
        let old = [&b"HIRX\x01\x00"[..], &[9; 24]].concat();
        let Some(GreetingAnswer::Version(1, bytes)) = answer_greeting(&key, &old) else { panic!("no version") };
        assert_eq!((bytes.len(), greeting_version(bytes.first_chunk().unwrap())), (22, Some(3)));
        assert_eq!(greeting_version(b"HTTP/1"), None);
        let all = [JoinVerdict::Welcome, JoinVerdict::World, JoinVerdict::Rank];
        assert!(all.iter().all(|verdict| JoinVerdict::from_byte(*verdict as u8) == Some(*verdict)));
        assert_eq!(JoinVerdict::from_byte(9), None);
    }
}
