//! The first bytes of a connection: who is it, does it know the token, does it belong to this run.
//!
//! ```text
//! joining      -> "HIRX" version:u16 nonce[16] rank:u32 world:u32
//! coordinator  -> "HIRX" version:u16 nonce[16]
//! joining      -> proof[32]   HMAC("joining", both nonces, rank, world)
//! coordinator  -> verdict:u8 proof[32]
//! ```
//! All of it has a fixed size and one deadline, so that a stranger costs little. The coordinator's proof
//! says that its verdict, too, comes from this run; only the verdict "wrong token" has none.

use super::token::{End, Key, NONCE, PROOF, nonce};
use std::io::{ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const MAGIC: &[u8; 4] = b"HIRX";
/// Changes with every change of what is sent.
const VERSION: u16 = 1;
/// How long a handshake may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// What the coordinator says to a process that wants to join.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Welcome = 0,
    Token = 1,
    Version = 2,
    World = 3,
    Rank = 4,
}

impl Verdict {
    fn of(byte: u8) -> Option<Self> {
        let all =
            [Verdict::Welcome, Verdict::Token, Verdict::Version, Verdict::World, Verdict::Rank];
        all.into_iter().find(|verdict| *verdict as u8 == byte)
    }
}

/// How joining can go.
#[derive(Debug)]
pub(super) enum Answer {
    /// The coordinator's verdict.
    Verdict(Verdict),
    /// What answers is no coordinator of ours.
    Stranger,
}

/// A connection whose reads and writes end at one time.
struct Within<'a> {
    stream: &'a TcpStream,
    deadline: Instant,
}

impl Within<'_> {
    fn left(&self) -> Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        let mut filled = 0;
        while filled < N {
            self.stream.set_read_timeout(Some(self.left()?))?;
            match (&mut &*self.stream).read(&mut bytes[filled..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(bytes)
    }
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        (&mut &*self.stream).write_all(bytes)
    }
}

fn greeting(nonce: &[u8; NONCE]) -> Vec<u8> {
    [MAGIC.as_slice(), &VERSION.to_le_bytes(), nonce].concat()
}

/// The version and random number of a greeting; `None` if it is none of ours.
fn greeted(bytes: &[u8; 6 + NONCE]) -> Option<(u16, &[u8])> {
    let (version, nonce) = bytes.strip_prefix(MAGIC)?.split_first_chunk::<2>()?;
    Some((u16::from_le_bytes(*version), nonce))
}

/// Asks to join as `rank` of `world`, and waits no longer than `left` for the answer.
pub(super) fn join(
    stream: &TcpStream,
    key: &Key,
    rank: u32,
    world: u32,
    left: Duration,
) -> Result<Answer> {
    let mut line = Within { stream, deadline: Instant::now() + left.min(PATIENCE) };
    let own = nonce()?;
    let (rank, world) = (rank.to_le_bytes(), world.to_le_bytes());
    line.put(&[greeting(&own).as_slice(), &rank, &world].concat())?;
    let answer = line.take::<{ 6 + NONCE }>()?;
    let Some((version, theirs)) = greeted(&answer) else { return Ok(Answer::Stranger) };
    if version != VERSION {
        return Ok(Answer::Verdict(Verdict::Version));
    }
    let parts = [&own, theirs, &rank, &world];
    line.put(&key.prove(End::Joining, &parts))?;
    let [code] = line.take::<1>()?;
    let proof = line.take::<PROOF>()?;
    Ok(match Verdict::of(code) {
        Some(Verdict::Token) => Answer::Verdict(Verdict::Token),
        Some(verdict)
            if key.check(End::Coordinator, &[&[code], &own, theirs, &rank, &world], &proof) =>
        {
            Answer::Verdict(verdict)
        }
        _ => Answer::Stranger,
    })
}

/// A process that asked to join, and what it was told. Whoever does not know the token may say anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Claim {
    pub(super) verdict: Verdict,
    pub(super) rank: u32,
    pub(super) world: u32,
}

/// Answers a process that wants to join. `admit` says what it thinks of a rank and a world that know the
/// token; nothing comes back of strangers that do not speak as we do.
pub(super) fn admit(
    stream: &TcpStream,
    key: &Key,
    admit: impl FnOnce(u32, u32) -> Verdict,
) -> Result<Option<Claim>> {
    let mut line = Within { stream, deadline: Instant::now() + PATIENCE };
    let hello = line.take::<{ 6 + NONCE }>()?;
    let Some((version, theirs)) = greeted(&hello) else { return Ok(None) };
    let own = nonce()?;
    line.put(&greeting(&own))?;
    let (rank, world) = (line.take::<4>()?, line.take::<4>()?);
    let claim = |verdict| {
        let (rank, world) = (u32::from_le_bytes(rank), u32::from_le_bytes(world));
        Some(Claim { verdict, rank, world })
    };
    if version != VERSION {
        return Ok(claim(Verdict::Version));
    }
    let proof = line.take::<PROOF>()?;
    let known = key.check(End::Joining, &[theirs, &own, &rank, &world], &proof);
    let number = u32::from_le_bytes(rank);
    let verdict = if known { admit(number, u32::from_le_bytes(world)) } else { Verdict::Token };
    let code = verdict as u8;
    let proof = match known {
        true => key.prove(End::Coordinator, &[&[code], theirs, &own, &rank, &world]),
        false => [0; PROOF],
    };
    line.put(&[&[code], proof.as_slice()].concat())?;
    stream.set_read_timeout(None)?;
    Ok(claim(verdict))
}
