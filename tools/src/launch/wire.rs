//! Frames between processes that have joined: a length, a kind, a payload.
//!
//! `len: u32 little-endian, kind: u8, payload: len bytes`. Whoever reads says how long a payload may be,
//! and memory grows with what arrives, not with what was announced.

use hostir::backend::exchange::ExchangeError;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::time::Duration;

/// Most bytes of one frame; longer messages go in parts.
pub(super) const PART: usize = 1 << 20;

/// What a frame is.
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
}

impl Kind {
    fn of(byte: u8) -> Option<Self> {
        let all = [Kind::Alive, Kind::Part, Kind::Message, Kind::Result, Kind::Error, Kind::Bye];
        all.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// Writes a frame.
pub(super) fn write(out: &mut impl Write, kind: Kind, payload: &[u8]) -> Result<()> {
    let mut frame = Vec::with_capacity(5 + payload.len());
    frame.extend((payload.len() as u32).to_le_bytes());
    frame.push(kind as u8);
    frame.extend(payload);
    out.write_all(&frame)
}

/// Reads a frame; `None` where the connection ends between two.
pub(super) fn read(from: &mut impl Read) -> Result<Option<(Kind, Vec<u8>)>> {
    let mut head = [0; 5];
    if from.read(&mut head[..1])? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut head[1..])?;
    let [a, b, c, d, kind] = head;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    let kind = Kind::of(kind).ok_or_else(|| invalid("an unknown kind of frame"))?;
    if length > PART {
        return Err(invalid("a frame that is too long"));
    }
    let mut payload = Vec::new();
    from.take(length as u64).read_to_end(&mut payload)?;
    if payload.len() < length {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(Some((kind, payload)))
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

/// A reason as the payload of a frame, cut to what one frame holds.
pub(super) fn put_error(error: &ExchangeError) -> Vec<u8> {
    let cut = |text: &str| text.as_bytes().get(..PART / 2).unwrap_or(text.as_bytes()).to_vec();
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
    }
    .0
}

/// The reason in a payload.
pub(super) fn take_error(payload: &[u8]) -> Option<ExchangeError> {
    let mut take = Take(payload);
    let rank = |take: &mut Take<'_>| u32::try_from(take.number()?).ok();
    Some(match take.number()? {
        0 => {
            let timeout = Duration::from_millis(take.number()?);
            let what = take.text()?;
            let count = usize::try_from(take.number()?).ok()?.min(payload.len());
            let ranks = (0..count).map(|_| rank(&mut take)).collect::<Option<_>>()?;
            ExchangeError::Late { ranks, what, timeout }
        }
        1 => ExchangeError::Lost { rank: rank(&mut take)?, how: take.text()? },
        2 => ExchangeError::Failed { rank: rank(&mut take)?, why: take.text()? },
        3 => ExchangeError::Broken { why: take.text()? },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back() {
        let mut bytes = Vec::new();
        write(&mut bytes, Kind::Part, b"abc").unwrap();
        write(&mut bytes, Kind::Bye, b"").unwrap();
        let mut from = bytes.as_slice();
        assert_eq!(read(&mut from).unwrap(), Some((Kind::Part, b"abc".to_vec())));
        assert_eq!(read(&mut from).unwrap(), Some((Kind::Bye, Vec::new())));
        assert_eq!(read(&mut from).unwrap(), None);
    }

    #[test]
    fn damaged_frames_are_errors() {
        for bytes in
            [&[1u8][..], &[0, 0, 0, 0, 99], &[0xff, 0xff, 0xff, 0xff, 1], &[3, 0, 0, 0, 2, 1, 2]]
        {
            assert!(read(&mut &*bytes).is_err(), "{bytes:?}");
        }
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
        ];
        for error in others.into_iter().chain([late]) {
            let payload = put_error(&error);
            assert_eq!(take_error(&payload), Some(error));
            for end in 0..payload.len() {
                assert_eq!(take_error(&payload[..end]), None);
            }
        }
        assert_eq!(take_error(&[9; 8]), None);
    }
}
