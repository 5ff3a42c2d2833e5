//! How long instructions take on a machine that is only thought of.
//!
//! It shows what a program's order permits, without running it: every rank is a device that does one
//! local instruction at a time, first come, first served, and every communicator's queue has a link of
//! its own. A message starts when both of its sides are there, a collective when all members are.

use crate::plan::{InstKind, View};

/// How fast the machine is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rates {
    /// Floating-point operations a nanosecond, of elements of up to 2 bytes.
    pub narrow_flop: f64,
    /// The same of wider elements.
    pub wide_flop: f64,
    /// Bytes a nanosecond that local instructions read and write.
    pub memory: f64,
    /// Bytes a nanosecond that one rank sends or receives.
    pub link: f64,
    /// Nanoseconds that every local instruction takes at least.
    pub launch_ns: u64,
    /// Nanoseconds that every communication takes at least.
    pub message_ns: u64,
}

impl Default for Rates {
    /// Round figures of an H200 with NVLink.
    fn default() -> Self {
        Self {
            narrow_flop: 600e3,
            wide_flop: 50e3,
            memory: 4e3,
            link: 360.0,
            launch_ns: 3_000,
            message_ns: 10_000,
        }
    }
}

impl Rates {
    /// Nanoseconds of a local instruction: the longer of arithmetic and memory.
    pub(super) fn local(&self, kind: &InstKind) -> u64 {
        let narrow = kind.writes().is_none_or(|view| view.dtype.size() <= 2);
        let rate = if narrow { self.narrow_flop } else { self.wide_flop };
        let arithmetic = crate::backend::trace::flop(kind) as f64 / rate;
        self.launch_ns + arithmetic.max(kind.bytes() as f64 / self.memory).ceil() as u64
    }

    /// Nanoseconds of a communication: what the rank sends, or receives, whichever is more.
    pub(super) fn communication(&self, sent: &[&View], received: Option<&View>) -> u64 {
        let bytes = |view: &View| view.len() * view.dtype.size();
        let sent: usize = sent.iter().map(|view| bytes(view)).sum();
        let most = sent.max(received.map_or(0, bytes));
        self.message_ns + (most as f64 / self.link).ceil() as u64
    }
}
