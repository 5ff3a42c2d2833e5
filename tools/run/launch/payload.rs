//! Payloads of frames and messages: values one after the other, in the form of the crate `postcard`.
//!
//! A reader takes them one by one, and borrows texts and bytes from the payload, so that a received length never
//! determines an allocation: lists are numbers of entries followed by the entries.

use hostir::backend::control_plane::ControlPlaneError;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Most bytes of a number.
pub(super) const NUMBER_BYTES: usize = 10;

/// Writes values one after the other.
#[derive(Default)]
pub(super) struct Encoder(Vec<u8>);

impl Encoder {
    /// Adds a value.
    pub(super) fn push(&mut self, value: &impl Serialize) {
        // Encoding fails only for values of unknown length; a reader refuses a missing value.
        self.0 = postcard::to_extend(value, std::mem::take(&mut self.0)).unwrap_or_default();
    }

    /// Adds bytes after their number.
    pub(super) fn push_bytes(&mut self, bytes: &[u8]) {
        self.push(&bytes.len());
        self.0.extend_from_slice(bytes);
    }

    /// The payload.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// The payload of one value.
pub(super) fn encode_value(value: &impl Serialize) -> Vec<u8> {
    let mut encoder = Encoder::default();
    encoder.push(value);
    encoder.into_bytes()
}

/// Reads values one after the other.
pub(super) struct Decoder<'a>(&'a [u8]);

impl<'a> Decoder<'a> {
    /// A reader of a payload.
    pub(super) fn new(payload: &'a [u8]) -> Self {
        Self(payload)
    }

    /// Takes the next value; `None` if the bytes do not encode one.
    pub(super) fn take<T: Deserialize<'a>>(&mut self) -> Option<T> {
        let (value, rest) = postcard::take_from_bytes(self.0).ok()?;
        self.0 = rest;
        Some(value)
    }

    /// Whether everything was taken.
    pub(super) fn is_finished(&self) -> bool {
        self.0.is_empty()
    }
}

/// The frame that ends a process's message of a step.
#[derive(Serialize, Deserialize)]
pub(super) struct MessageHead<'a> {
    /// The number of the step.
    pub(super) number: u64,
    /// Its name.
    pub(super) step: &'a str,
    /// Only rank 0 gets the messages.
    pub(super) is_first_only: bool,
}

/// The reason of a failure. The late ranks follow it, as many as it states.
#[derive(Serialize, Deserialize)]
enum FailureRecord<'a> {
    Late { timeout_ms: u64, what: &'a str, ranks: usize },
    Lost { rank: u32, how: &'a str },
    Failed { rank: u32, why: &'a str },
    Broken { why: &'a str },
    Altered { rank: u32, how: &'a str },
}

/// The maximum number of bytes of a reason's text that others keep.
const MOST_TEXT: usize = 8192;
/// Most ranks that a reason names.
const MOST_NAMED: usize = 4096;

/// As much of a text as others keep of it.
pub(super) fn cut_text(text: &str) -> &str {
    let end = (0..=text.len().min(MOST_TEXT)).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// A reason as the payload of a frame.
pub(super) fn encode_failure(error: &ControlPlaneError) -> Vec<u8> {
    let mut encoder = Encoder::default();
    match error {
        ControlPlaneError::Late { ranks, what, timeout } => {
            let ranks = &ranks[..ranks.len().min(MOST_NAMED)];
            let timeout_ms = timeout.as_millis() as u64;
            let (what, count) = (cut_text(what), ranks.len());
            encoder.push(&FailureRecord::Late { timeout_ms, what, ranks: count });
            ranks.iter().for_each(|rank| encoder.push(rank));
        }
        ControlPlaneError::Lost { rank, how } => {
            encoder.push(&FailureRecord::Lost { rank: *rank, how: cut_text(how) });
        }
        ControlPlaneError::Failed { rank, why } => {
            encoder.push(&FailureRecord::Failed { rank: *rank, why: cut_text(why) });
        }
        ControlPlaneError::Broken { why } => {
            encoder.push(&FailureRecord::Broken { why: cut_text(why) });
        }
        ControlPlaneError::Altered { rank, how } => {
            encoder.push(&FailureRecord::Altered { rank: *rank, how: cut_text(how) });
        }
    }
    encoder.into_bytes()
}

/// The reason in a payload; `None` if it has none.
pub(super) fn decode_failure(payload: &[u8]) -> Option<ControlPlaneError> {
    let mut decoder = Decoder::new(payload);
    Some(match decoder.take()? {
        FailureRecord::Late { timeout_ms, what, ranks } => ControlPlaneError::Late {
            ranks: (0..ranks.min(MOST_NAMED)).map(|_| decoder.take()).collect::<Option<_>>()?,
            what: cut_text(what).to_owned(),
            timeout: Duration::from_millis(timeout_ms),
        },
        FailureRecord::Lost { rank, how } => ControlPlaneError::Lost { rank, how: cut_text(how).to_owned() },
        FailureRecord::Failed { rank, why } => ControlPlaneError::Failed { rank, why: cut_text(why).to_owned() },
        FailureRecord::Broken { why } => ControlPlaneError::Broken { why: cut_text(why).to_owned() },
        FailureRecord::Altered { rank, how } => ControlPlaneError::Altered { rank, how: cut_text(how).to_owned() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_come_back() {
        let late = ControlPlaneError::Late {
            ranks: vec![1, 300],
            what: "join".to_owned(),
            timeout: Duration::from_millis(70),
        };
        let text = || "x\ny".to_owned();
        let others = [
            ControlPlaneError::Lost { rank: 2, how: text() },
            ControlPlaneError::Failed { rank: 7, why: text() },
            ControlPlaneError::Broken { why: text() },
            ControlPlaneError::Altered { rank: 5, how: text() },
        ];
        for error in others.into_iter().chain([late]) {
            let payload = encode_failure(&error);
            assert_eq!(decode_failure(&payload), Some(error));
            for end in 0..payload.len() {
                assert_eq!(decode_failure(&payload[..end]), None);
            }
        }
        assert_eq!(decode_failure(&[9; 8]), None);
        // Both the sender and the receiver cut long texts between two letters.
        let why = format!("x{}", "ü".repeat(20_000));
        let long = encode_value(&FailureRecord::Broken { why: &why });
        let sent = encode_failure(&ControlPlaneError::Broken { why: why.clone() });
        for payload in [long, sent] {
            let Some(ControlPlaneError::Broken { why: kept }) = decode_failure(&payload) else { panic!() };
            assert_eq!((kept.len(), kept.as_str()), (8191, cut_text(&why)));
        }
    }

    /// A number of entries that are missing takes no memory for them.
    #[test]
    fn numbers_of_entries_are_not_believed() {
        let mut encoder = Encoder::default();
        encoder.push(&FailureRecord::Late { timeout_ms: 1, what: "join", ranks: usize::MAX });
        assert_eq!(decode_failure(&encoder.into_bytes()), None);
        assert_eq!(Decoder::new(&[0xff; NUMBER_BYTES]).take::<&[u8]>(), None);
        assert_eq!(Decoder::new(&[0x7f, 1]).take::<&str>(), None);
    }
}
