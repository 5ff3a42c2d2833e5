//! Sets of bytes.

/// A set of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ByteSet([u64; 4]);

impl ByteSet {
    /// The set of one byte.
    pub(crate) fn single(byte: u8) -> ByteSet {
        let mut set = ByteSet::default();
        set.insert(byte);
        set
    }

    /// Adds a byte.
    pub(crate) fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte / 64)] |= 1 << (byte % 64);
    }

    /// True if the byte is in the set.
    pub(crate) fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte / 64)] >> (byte % 64) & 1 == 1
    }

    /// All other bytes.
    pub(crate) fn complement(self) -> ByteSet {
        ByteSet(self.0.map(|word| !word))
    }

    /// The set, and for each of its letters the one of the other case.
    pub(crate) fn with_both_cases(self) -> ByteSet {
        let mut set = self;
        for byte in (b'a'..=b'z').chain(b'A'..=b'Z').filter(|&byte| self.contains(byte)) {
            set.insert(byte ^ 0x20);
        }
        set
    }

    /// The bytes in order, as ranges with both ends.
    pub(crate) fn ranges(&self) -> Vec<(u8, u8)> {
        let mut ranges: Vec<(u8, u8)> = Vec::new();
        for byte in (0..=u8::MAX).filter(|&byte| self.contains(byte)) {
            match ranges.last_mut() {
                Some((_, last)) if u16::from(*last) + 1 == u16::from(byte) => *last = byte,
                _ => ranges.push((byte, byte)),
            }
        }
        ranges
    }
}
