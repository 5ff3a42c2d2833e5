//! Frames between processes that have joined, sealed with the keys of their handshake.
//!
//! ```text
//! len:u32     bytes of what is sealed, 17 to 65535
//! number:u64  frames sent before in this direction
//! sealed[len] ChaCha20-Poly1305 (RFC 8439) of kind:u8 and payload, with its tag of 16 bytes
//! ```
//! Numbers are little-endian. Each direction has its own key, and a frame's number is its nonce (The Noise Protocol
//! Framework, section 5), so that each is used once. The connection keeps the order of frames: a frame with a wrong
//! number, or one that cannot be opened, was repeated, dropped, reflected, moved or changed on the way
//! ([`FrameError::Altered`]). The number in the clear is for the message alone; with another one than the sender's the
//! frame does not open.
//!
//! A reader takes no more memory than the largest frame before it has opened one.

use snow::StatelessTransportState;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::sync::Arc;

/// The maximum number of bytes that the keys of a handshake seal at once.
const MOST: usize = 65_535;
/// Bytes of a seal.
const TAG: usize = 16;
/// The maximum number of bytes of a frame's payload; longer messages go in parts.
pub(super) const PART: usize = MOST - TAG - 1;
/// Bytes before what is sealed.
const CLEAR: usize = 12;

/// The kind of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FrameType {
    /// A sign of life.
    Alive = 1,
    /// The next part of a message.
    Part = 2,
    /// The end of a process's message of a step: number and name of the step, and true if rank 0 alone gets it.
    Message = 3,
    /// The end of the messages of all ranks of a step: its number.
    Result = 4,
    /// The reason that the run cannot go on.
    Error = 5,
    /// The sender is done, and its connection may close.
    Bye = 6,
    /// A joining process's first frame, which proves that it has the keys.
    Hello = 7,
    /// The coordinator's first frame: whether it admits the process.
    Verdict = 8,
}

impl FrameType {
    const ALL: [Self; 8] = [
        FrameType::Alive,
        FrameType::Part,
        FrameType::Message,
        FrameType::Result,
        FrameType::Error,
        FrameType::Bye,
        FrameType::Hello,
        FrameType::Verdict,
    ];

    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// The keys of a connection.
pub(super) struct SessionKeys(StatelessTransportState);

impl SessionKeys {
    pub(super) fn new(state: StatelessTransportState) -> Self {
        Self(state)
    }

    /// The two directions, as this end has them.
    pub(super) fn split_directions(self) -> (FrameSealer, FrameOpener) {
        let keys = Arc::new(self.0);
        (FrameSealer { keys: keys.clone(), next: 0 }, FrameOpener { keys, next: 0 })
    }
}

/// The sending half of this end of a connection.
pub(super) struct FrameSealer {
    keys: Arc<StatelessTransportState>,
    next: u64,
}

impl FrameSealer {
    /// The next frame, as it is sent.
    ///
    /// # Errors
    /// A payload that is longer than [`PART`].
    pub(super) fn seal_frame(&mut self, kind: FrameType, payload: &[u8]) -> Result<Vec<u8>> {
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
    pub(super) fn write_frame(&mut self, out: &mut impl Write, kind: FrameType, payload: &[u8]) -> Result<()> {
        out.write_all(&self.seal_frame(kind, payload)?)
    }
}

/// An error of a frame that arrives.
#[derive(Debug)]
pub(super) enum FrameError {
    /// The connection broke.
    Broken(Error),
    /// Somebody in between was at work.
    Altered(String),
}

impl From<Error> for FrameError {
    fn from(error: Error) -> Self {
        FrameError::Broken(error)
    }
}

/// The receiving half of this end of a connection.
pub(super) struct FrameOpener {
    keys: Arc<StatelessTransportState>,
    next: u64,
}

impl FrameOpener {
    /// Reads a frame; `None` if the connection ends between two.
    ///
    /// # Errors
    /// If the connection breaks, or a frame was altered.
    pub(super) fn read_frame(
        &mut self,
        from: &mut impl Read,
    ) -> std::result::Result<Option<(FrameType, Vec<u8>)>, FrameError> {
        let mut head = [0; CLEAR];
        if from.read(&mut head[..1])? == 0 {
            return Ok(None);
        }
        from.read_exact(&mut head[1..])?;
        let (length, number) = self.parse_head(&head)?;
        let mut sealed = vec![0; length];
        from.read_exact(&mut sealed)?;
        self.open_payload(number, &sealed).map(Some)
    }

    /// The sealed length and the frame's number, from the bytes before the sealed part.
    fn parse_head(&self, head: &[u8; CLEAR]) -> std::result::Result<(usize, u64), FrameError> {
        let [a, b, c, d, number @ ..] = head;
        let length = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
        if !(TAG + 1..=MOST).contains(&length) {
            let how = format!("frame {} has an invalid length", self.next);
            return Err(FrameError::Altered(how));
        }
        Ok((length, u64::from_le_bytes(*number)))
    }

    fn open_payload(&mut self, number: u64, sealed: &[u8]) -> std::result::Result<(FrameType, Vec<u8>), FrameError> {
        let next = self.next;
        if number < next {
            return Err(FrameError::Altered(format!("frame {number} was repeated, but frame {next} was expected")));
        }
        if number > next {
            return Err(FrameError::Altered(format!("frame {number} arrived, but frame {next} was expected")));
        }
        let mut text = vec![0; sealed.len() - TAG];
        if self.keys.read_message(next, sealed, &mut text).is_err() {
            return Err(FrameError::Altered(format!("frame {next} was modified")));
        }
        self.next += 1;
        match text.split_first().and_then(|(kind, payload)| Some((FrameType::from_byte(*kind)?, payload))) {
            Some((kind, payload)) => Ok((kind, payload.to_vec())),
            None => Err(invalid_data("an unknown kind of frame").into()),
        }
    }

    /// The frame at the start of the bytes, with a payload of this length; `None` if it is incomplete.
    ///
    /// # Errors
    /// If the frame was altered, or has another length.
    pub(super) fn take_frame(
        &mut self,
        bytes: &[u8],
        payload: usize,
    ) -> std::result::Result<Option<(FrameType, Vec<u8>)>, FrameError> {
        let Some((head, rest)) = bytes.split_first_chunk::<CLEAR>() else { return Ok(None) };
        let (length, number) = self.parse_head(head)?;
        if CLEAR + length != frame_size(payload) {
            return Err(invalid_data("a frame of an unexpected length").into());
        }
        let Some(sealed) = rest.get(..length) else { return Ok(None) };
        self.open_payload(number, sealed).map(Some)
    }
}

/// Bytes of a frame with so long a payload.
pub(super) const fn frame_size(payload: usize) -> usize {
    CLEAR + 1 + payload + TAG
}

pub(super) fn invalid_data(what: &'static str) -> Error {
    Error::new(ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sealers and openers of both ends of a connection.
    fn ends() -> ((FrameSealer, FrameOpener), (FrameSealer, FrameOpener)) {
        let (joining, coordinator) = super::super::handshake::both_ends(1);
        (joining.split_directions(), coordinator.split_directions())
    }

    fn altered(opener: &mut FrameOpener, bytes: &[u8]) -> String {
        match opener.read_frame(&mut &*bytes) {
            Err(FrameError::Altered(how)) => how,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn frames_come_back() {
        let ((mut send, mut hear), (mut answer, mut from)) = ends();
        let mut bytes = Vec::new();
        send.write_frame(&mut bytes, FrameType::Part, b"abc").unwrap();
        assert_eq!(bytes.len(), frame_size(3));
        assert!(!bytes.windows(3).any(|window| window == b"abc"), "{bytes:?}");
        send.write_frame(&mut bytes, FrameType::Bye, b"").unwrap();
        let largest = vec![7; PART];
        send.write_frame(&mut bytes, FrameType::Part, &largest).unwrap();
        let mut read = bytes.as_slice();
        assert_eq!(from.read_frame(&mut read).unwrap(), Some((FrameType::Part, b"abc".to_vec())));
        assert_eq!(from.read_frame(&mut read).unwrap(), Some((FrameType::Bye, Vec::new())));
        assert_eq!(from.read_frame(&mut read).unwrap(), Some((FrameType::Part, largest)));
        assert_eq!(from.read_frame(&mut read).unwrap(), None);
        assert!(send.seal_frame(FrameType::Part, &[0; PART + 1]).is_err());
        let back = answer.seal_frame(FrameType::Alive, b"").unwrap();
        assert_eq!(hear.take_frame(&back[..back.len() - 1], 0).unwrap(), None);
        assert_eq!(hear.take_frame(&back, 0).unwrap(), Some((FrameType::Alive, Vec::new())));
    }

    /// Changed or missing bytes of a frame are detected.
    #[test]
    fn changed_frames_are_found() {
        for at in 0..frame_size(5) {
            let ((mut send, _), (_, mut from)) = ends();
            let mut frame = send.seal_frame(FrameType::Part, b"12345").unwrap();
            frame[at] ^= 0x40;
            let result = from.read_frame(&mut frame.as_slice());
            // A length beyond the data ends with the connection.
            let longer = at < 4 && matches!(result, Err(FrameError::Broken(_)));
            assert!(matches!(result, Err(FrameError::Altered(_))) || longer, "{at}: {result:?}");
        }
        let ((mut send, _), (_, mut from)) = ends();
        let frame = send.seal_frame(FrameType::Part, b"12345").unwrap();
        for end in 1..frame.len() {
            assert!(matches!(from.read_frame(&mut &frame[..end]), Err(FrameError::Broken(_))), "{end}");
        }
        let mut shorter = frame.clone();
        shorter[0] -= 1;
        assert_eq!(altered(&mut from, &shorter), "frame 0 was modified");
        shorter[..4].fill(0xff);
        assert_eq!(altered(&mut from, &shorter), "frame 0 has an invalid length");
        shorter[..4].fill(0);
        assert_eq!(altered(&mut from, &shorter), "frame 0 has an invalid length");
    }

    #[test]
    fn repeated_moved_and_reflected_frames_are_found() {
        let ((mut send, mut own), (_, mut from)) = ends();
        let frames: Vec<Vec<u8>> = (0..3).map(|word| send.seal_frame(FrameType::Part, &[word]).unwrap()).collect();
        assert_eq!(altered(&mut from, &frames[1]), "frame 1 arrived, but frame 0 was expected");
        assert!(from.read_frame(&mut frames[0].as_slice()).unwrap().is_some());
        assert_eq!(altered(&mut from, &frames[0]), "frame 0 was repeated, but frame 1 was expected");
        assert_eq!(altered(&mut from, &frames[2]), "frame 2 arrived, but frame 1 was expected");
        // With the due number it has another frame's nonce.
        let mut renumbered = frames[0].clone();
        renumbered[4] = 1;
        assert_eq!(altered(&mut from, &renumbered), "frame 1 was modified");
        assert_eq!(altered(&mut own, &frames[0]), "frame 0 was modified");
        // Another connection of the same token has other keys.
        let (_, (_, mut other)) = ends();
        assert_eq!(altered(&mut other, &frames[0]), "frame 0 was modified");
    }
}
