//! The part of a text that differs from another.

/// The bytes that differ between two texts.
pub(super) struct TextEdit {
    /// The first.
    pub(super) start: usize,
    /// Their end in the text before.
    pub(super) old_end: usize,
    /// Their end in the text after.
    pub(super) new_end: usize,
}

impl TextEdit {
    pub(super) fn between(before: &str, after: &str) -> Self {
        let (before, after) = (before.as_bytes(), after.as_bytes());
        let start = common_start(before, after);
        let common = common_end(&before[start..], &after[start..]);
        Self { start, old_end: before.len() - common, new_end: after.len() - common }
    }

    /// Extends it over bytes of the text before.
    pub(super) fn extend_over(&mut self, bytes: std::ops::Range<usize>) {
        if self.is_empty() {
            (self.start, self.old_end, self.new_end) = (bytes.start, bytes.start, bytes.start);
        }
        self.start = self.start.min(bytes.start);
        let more = bytes.end.saturating_sub(self.old_end);
        (self.old_end, self.new_end) = (self.old_end + more, self.new_end + more);
    }

    /// True if the texts are the same.
    pub(super) fn is_empty(&self) -> bool {
        self.start == self.old_end && self.start == self.new_end
    }

    /// The bytes that the text after is longer, modulo 2^32.
    pub(super) fn growth(&self) -> u32 {
        (self.new_end as u32).wrapping_sub(self.old_end as u32)
    }
}

/// The bytes that are compared at once.
const BLOCK: usize = 1024;

fn common_start(a: &[u8], b: &[u8]) -> usize {
    let blocks = a.chunks(BLOCK).zip(b.chunks(BLOCK)).take_while(|(a, b)| a == b).count();
    let start = (blocks * BLOCK).min(a.len()).min(b.len());
    start + a[start..].iter().zip(&b[start..]).take_while(|(a, b)| a == b).count()
}

fn common_end(a: &[u8], b: &[u8]) -> usize {
    let blocks = a.rchunks(BLOCK).zip(b.rchunks(BLOCK)).take_while(|(a, b)| a == b).count();
    let end = (blocks * BLOCK).min(a.len()).min(b.len());
    let (a, b) = (&a[..a.len() - end], &b[..b.len() - end]);
    end + a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count()
}
