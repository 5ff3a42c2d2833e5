//! Frames between processes that have joined, sealed with the keys of their handshake.
//!
//! ```text
//! len:u32     bytes of what is sealed, 17 to 65535
//! number:u64  frames sent before in this direction
//! sealed[len] ChaCha20-Poly1305 (RFC 8439) of kind:u8 and payload, with its tag of 16 bytes
//! ```
//! Numbers are little-endian. Each direction has its own key, and a frame's number is its nonce
//! (The Noise Protocol Framework, section 5), so that each is used once. Frames come over a connection that
//! keeps their order: one whose number is not the next, or that cannot be opened, was repeated, left out,
//! sent back, moved or changed by somebody in between ([`Fault::Altered`]). The number in the clear is for
//! the message alone; with another one than the sender's the frame does not open.
//!
//! A reader takes no more memory than the largest frame before it has opened one.

use hostir::backend::exchange::ExchangeError;
use snow::StatelessTransportState;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::sync::Arc;
use std::time::Duration;

/// Most bytes that the keys of a handshake seal at once.
const MOST: usize = 65_535;
/// Bytes of a seal.
const TAG: usize = 16;
/// Most bytes of a frame's payload; longer messages go in parts.
pub(super) const PART: usize = MOST - TAG - 1;
/// Bytes before what is sealed.
const CLEAR: usize = 12;

/// The kind of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// A sign of life.
    Alive = 1,
    /// The next part of a message.
    Part = 2,
    /// The end of a process's message of a step: number and name of the step, whether rank 0 alone gets it.
    Message = 3,
    /// The end of the messages of all ranks of a step: its number.
    Result = 4,
    /// Why the run cannot go on.
    Error = 5,
    /// The sender is done, and its connection may close.
    Bye = 6,
    /// A joining process's first frame, which proves that it has the keys.
    Hello = 7,
    /// The coordinator's first frame: whether the process is let in.
    Verdict = 8,
}

impl Kind {
    const ALL: [Self; 8] = [
        Kind::Alive,
        Kind::Part,
        Kind::Message,
        Kind::Result,
        Kind::Error,
        Kind::Bye,
        Kind::Hello,
        Kind::Verdict,
    ];

    fn of(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// The keys of a connection.
pub(super) struct Session(StatelessTransportState);

impl Session {
    pub(super) fn new(state: StatelessTransportState) -> Self {
        Self(state)
    }

    /// The two directions, as this end has them.
    pub(super) fn split(self) -> (Sealer, Opener) {
        let keys = Arc::new(self.0);
        (Sealer { keys: keys.clone(), next: 0 }, Opener { keys, next: 0 })
    }
}

/// The sending half of this end of a connection.
pub(super) struct Sealer {
    keys: Arc<StatelessTransportState>,
    next: u64,
}

impl Sealer {
    /// The next frame, as it is sent.
    ///
    /// # Errors
    /// A payload that is longer than [`PART`].
    pub(super) fn seal(&mut self, kind: Kind, payload: &[u8]) -> Result<Vec<u8>> {
        let text = [&[kind as u8], payload].concat();
        let mut frame = vec![0; CLEAR + text.len() + TAG];
        let length = (text.len() + TAG) as u32;
        frame[..4].copy_from_slice(&length.to_le_bytes());
        frame[4..CLEAR].copy_from_slice(&self.next.to_le_bytes());
        let sealed = self.keys.write_message(self.next, &text, &mut frame[CLEAR..]);
        sealed.map_err(Error::other)?;
        self.next += 1;
        Ok(frame)
    }

    /// Writes a frame.
    ///
    /// # Errors
    /// A connection that does not take it.
    pub(super) fn write(&mut self, out: &mut impl Write, kind: Kind, payload: &[u8]) -> Result<()> {
        out.write_all(&self.seal(kind, payload)?)
    }
}

/// An error of a frame that arrives.
#[derive(Debug)]
pub(super) enum Fault {
    /// The connection broke.
    Broken(Error),
    /// Somebody in between was at work.
    Altered(String),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Fault::Broken(error)
    }
}

/// The receiving half of this end of a connection.
pub(super) struct Opener {
    keys: Arc<StatelessTransportState>,
    next: u64,
}

impl Opener {
    /// Reads a frame; `None` where the connection ends between two.
    ///
    /// # Errors
    /// A connection that broke, and a frame that is not the one that was sent.
    pub(super) fn read(
        &mut self,
        from: &mut impl Read,
    ) -> std::result::Result<Option<(Kind, Vec<u8>)>, Fault> {
        let mut head = [0; CLEAR];
        if from.read(&mut head[..1])? == 0 {
            return Ok(None);
        }
        from.read_exact(&mut head[1..])?;
        let (length, number) = self.head(&head)?;
        let mut sealed = vec![0; length];
        from.read_exact(&mut sealed)?;
        self.open(number, &sealed).map(Some)
    }

    /// The length of what is sealed, and the frame's number, of bytes that came before anything else.
    fn head(&self, head: &[u8; CLEAR]) -> std::result::Result<(usize, u64), Fault> {
        let [a, b, c, d, number @ ..] = head;
        let length = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
        if !(TAG + 1..=MOST).contains(&length) {
            let how = format!("frame {} has a length that none has", self.next);
            return Err(Fault::Altered(how));
        }
        Ok((length, u64::from_le_bytes(*number)))
    }

    fn open(&mut self, number: u64, sealed: &[u8]) -> std::result::Result<(Kind, Vec<u8>), Fault> {
        let altered = |how: String| Err(Fault::Altered(how));
        let next = self.next;
        if number < next {
            return altered(format!("frame {number} came again where frame {next} is due"));
        }
        if number > next {
            return altered(format!("frame {number} came where frame {next} is due"));
        }
        let mut text = vec![0; sealed.len() - TAG];
        if self.keys.read_message(next, sealed, &mut text).is_err() {
            return altered(format!("frame {next} is not as it was sent"));
        }
        self.next += 1;
        match text.split_first().and_then(|(kind, payload)| Some((Kind::of(*kind)?, payload))) {
            Some((kind, payload)) => Ok((kind, payload.to_vec())),
            None => Err(invalid("an unknown kind of frame").into()),
        }
    }

    /// The frame that bytes begin with, of so long a payload; `None` if more of it has to come.
    ///
    /// # Errors
    /// A frame that is not the one that was sent, or of another length.
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        payload: usize,
    ) -> std::result::Result<Option<(Kind, Vec<u8>)>, Fault> {
        let Some((head, rest)) = bytes.split_first_chunk::<CLEAR>() else { return Ok(None) };
        let (length, number) = self.head(head)?;
        if CLEAR + length != frame_size(payload) {
            return Err(invalid("a frame of another length").into());
        }
        let Some(sealed) = rest.get(..length) else { return Ok(None) };
        self.open(number, sealed).map(Some)
    }
}

/// Bytes of a frame with so long a payload.
pub(super) const fn frame_size(payload: usize) -> usize {
    CLEAR + 1 + payload + TAG
}

pub(super) fn invalid(what: &'static str) -> Error {
    Error::new(ErrorKind::InvalidData, what)
}

/// Puts numbers and texts into a payload.
#[derive(Default)]
pub(super) struct Put(pub(super) Vec<u8>);

impl Put {
    pub(super) fn number(mut self, number: u64) -> Self {
        self.0.extend(number.to_le_bytes());
        self
    }
    pub(super) fn bytes(self, bytes: &[u8]) -> Self {
        let mut put = self.number(bytes.len() as u64);
        put.0.extend(bytes);
        put
    }
}

/// Takes them out again, in order; `None` for what is not there.
pub(super) struct Take<'a>(pub(super) &'a [u8]);

impl<'a> Take<'a> {
    pub(super) fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }
    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }
    pub(super) fn text(&mut self) -> Option<String> {
        Some(String::from_utf8_lossy(self.bytes()?).into_owned())
    }
}

/// Most bytes of a reason's text that others keep.
const MOST_TEXT: usize = 8192;
/// Most ranks that a reason names.
const MOST_NAMED: usize = 4096;

/// As much of a text as others keep of it.
pub(super) fn cut(text: &str) -> &str {
    let end = (0..=text.len().min(MOST_TEXT)).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// A reason as the payload of a frame.
pub(super) fn put_error(error: &ExchangeError) -> Vec<u8> {
    let cut = |text: &str| cut(text).as_bytes().to_vec();
    match error {
        ExchangeError::Late { ranks, what, timeout } => {
            let head = Put::default().number(0).number(timeout.as_millis() as u64);
            let head = head.bytes(&cut(what)).number(ranks.len() as u64);
            ranks.iter().fold(head, |put, rank| put.number(u64::from(*rank)))
        }
        ExchangeError::Lost { rank, how } => {
            Put::default().number(1).number(u64::from(*rank)).bytes(&cut(how))
        }
        ExchangeError::Failed { rank, why } => {
            Put::default().number(2).number(u64::from(*rank)).bytes(&cut(why))
        }
        ExchangeError::Broken { why } => Put::default().number(3).bytes(&cut(why)),
        ExchangeError::Altered { rank, how } => {
            Put::default().number(4).number(u64::from(*rank)).bytes(&cut(how))
        }
    }
    .0
}

/// The reason in a payload.
pub(super) fn take_error(payload: &[u8]) -> Option<ExchangeError> {
    let mut take = Take(payload);
    let rank = |take: &mut Take<'_>| u32::try_from(take.number()?).ok();
    let text = |take: &mut Take<'_>| Some(cut(&take.text()?).to_owned());
    Some(match take.number()? {
        0 => {
            let timeout = Duration::from_millis(take.number()?);
            let what = text(&mut take)?;
            let count = usize::try_from(take.number()?).ok()?.min(MOST_NAMED);
            let ranks = (0..count).map(|_| rank(&mut take)).collect::<Option<_>>()?;
            ExchangeError::Late { ranks, what, timeout }
        }
        1 => ExchangeError::Lost { rank: rank(&mut take)?, how: text(&mut take)? },
        2 => ExchangeError::Failed { rank: rank(&mut take)?, why: text(&mut take)? },
        3 => ExchangeError::Broken { why: text(&mut take)? },
        4 => ExchangeError::Altered { rank: rank(&mut take)?, how: text(&mut take)? },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What both ends of a connection send and open.
    fn ends() -> ((Sealer, Opener), (Sealer, Opener)) {
        let (joining, coordinator) = super::super::handshake::both_ends(1);
        (joining.split(), coordinator.split())
    }

    fn altered(opener: &mut Opener, bytes: &[u8]) -> String {
        match opener.read(&mut &*bytes) {
            Err(Fault::Altered(how)) => how,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn frames_come_back() {
        let ((mut send, mut hear), (mut answer, mut from)) = ends();
        let mut bytes = Vec::new();
        send.write(&mut bytes, Kind::Part, b"abc").unwrap();
        assert_eq!(bytes.len(), frame_size(3));
        assert!(!bytes.windows(3).any(|window| window == b"abc"), "{bytes:?}");
        send.write(&mut bytes, Kind::Bye, b"").unwrap();
        let largest = vec![7; PART];
        send.write(&mut bytes, Kind::Part, &largest).unwrap();
        let mut read = bytes.as_slice();
        assert_eq!(from.read(&mut read).unwrap(), Some((Kind::Part, b"abc".to_vec())));
        assert_eq!(from.read(&mut read).unwrap(), Some((Kind::Bye, Vec::new())));
        assert_eq!(from.read(&mut read).unwrap(), Some((Kind::Part, largest)));
        assert_eq!(from.read(&mut read).unwrap(), None);
        assert!(send.seal(Kind::Part, &[0; PART + 1]).is_err());
        let back = answer.seal(Kind::Alive, b"").unwrap();
        assert_eq!(hear.take(&back[..back.len() - 1], 0).unwrap(), None);
        assert_eq!(hear.take(&back, 0).unwrap(), Some((Kind::Alive, Vec::new())));
    }

    /// No byte of a frame can be changed, none left out.
    #[test]
    fn changed_frames_are_found() {
        for at in 0..frame_size(5) {
            let ((mut send, _), (_, mut from)) = ends();
            let mut frame = send.seal(Kind::Part, b"12345").unwrap();
            frame[at] ^= 0x40;
            let result = from.read(&mut frame.as_slice());
            // A length that says more than there is ends with the connection.
            let longer = at < 4 && matches!(result, Err(Fault::Broken(_)));
            assert!(matches!(result, Err(Fault::Altered(_))) || longer, "{at}: {result:?}");
        }
        let ((mut send, _), (_, mut from)) = ends();
        let frame = send.seal(Kind::Part, b"12345").unwrap();
        for end in 1..frame.len() {
            assert!(matches!(from.read(&mut &frame[..end]), Err(Fault::Broken(_))), "{end}");
        }
        let mut shorter = frame.clone();
        shorter[0] -= 1;
        assert_eq!(altered(&mut from, &shorter), "frame 0 is not as it was sent");
        shorter[..4].fill(0xff);
        assert_eq!(altered(&mut from, &shorter), "frame 0 has a length that none has");
        shorter[..4].fill(0);
        assert_eq!(altered(&mut from, &shorter), "frame 0 has a length that none has");
    }

    #[test]
    fn repeated_moved_and_reflected_frames_are_found() {
        let ((mut send, mut own), (_, mut from)) = ends();
        let frames: Vec<Vec<u8>> =
            (0..3).map(|word| send.seal(Kind::Part, &[word]).unwrap()).collect();
        assert_eq!(altered(&mut from, &frames[1]), "frame 1 came where frame 0 is due");
        assert!(from.read(&mut frames[0].as_slice()).unwrap().is_some());
        assert_eq!(altered(&mut from, &frames[0]), "frame 0 came again where frame 1 is due");
        assert_eq!(altered(&mut from, &frames[2]), "frame 2 came where frame 1 is due");
        // With the number that is due it is another frame's nonce.
        let mut renumbered = frames[0].clone();
        renumbered[4] = 1;
        assert_eq!(altered(&mut from, &renumbered), "frame 1 is not as it was sent");
        assert_eq!(altered(&mut own, &frames[0]), "frame 0 is not as it was sent");
        // Another connection of the same token has other keys.
        let (_, (_, mut other)) = ends();
        assert_eq!(altered(&mut other, &frames[0]), "frame 0 is not as it was sent");
    }

    #[test]
    fn reasons_come_back() {
        let late = ExchangeError::Late {
            ranks: vec![1, 3],
            what: "join".to_owned(),
            timeout: Duration::from_millis(70),
        };
        let text = || "x\ny".to_owned();
        let others = [
            ExchangeError::Lost { rank: 2, how: text() },
            ExchangeError::Failed { rank: 7, why: text() },
            ExchangeError::Broken { why: text() },
            ExchangeError::Altered { rank: 5, how: text() },
        ];
        for error in others.into_iter().chain([late]) {
            let payload = put_error(&error);
            assert_eq!(take_error(&payload), Some(error));
            for end in 0..payload.len() {
                assert_eq!(take_error(&payload[..end]), None);
            }
        }
        assert_eq!(take_error(&[9; 8]), None);
        // Long texts are cut between two letters, by who sends them and by who gets them.
        let why = format!("x{}", "ü".repeat(20_000));
        let long = Put::default().number(3).bytes(why.as_bytes()).0;
        let sent = put_error(&ExchangeError::Broken { why: why.clone() });
        for payload in [long, sent] {
            let Some(ExchangeError::Broken { why: kept }) = take_error(&payload) else { panic!() };
            assert_eq!((kept.len(), kept.as_str()), (8191, cut(&why)));
        }
    }
}
