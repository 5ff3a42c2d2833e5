//! The operations of reductions.

/// The operation with which reductions combine two elements.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RedOp {
    /// `a + b`
    Sum,
    /// `a * b`
    Product,
    /// The smaller.
    Min,
    /// The larger.
    Max,
    /// The smaller number; NaN only if both are NaN.
    FMin,
    /// The larger number; NaN only if both are NaN.
    FMax,
    /// Logical or bitwise and.
    And,
    /// Logical or bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
    /// The sum over the number of team members.
    Avg,
}

impl RedOp {
    /// All operations with their words; the first word of each is the usual one.
    pub const WORDS: &'static [(&'static str, RedOp)] = &[
        ("sum", RedOp::Sum),
        ("add", RedOp::Sum),
        ("product", RedOp::Product),
        ("prod", RedOp::Product),
        ("mul", RedOp::Product),
        ("min", RedOp::Min),
        ("fmin", RedOp::FMin),
        ("max", RedOp::Max),
        ("fmax", RedOp::FMax),
        ("band", RedOp::And),
        ("and", RedOp::And),
        ("logical_and", RedOp::And),
        ("bitwise_and", RedOp::And),
        ("bor", RedOp::Or),
        ("or", RedOp::Or),
        ("logical_or", RedOp::Or),
        ("bitwise_or", RedOp::Or),
        ("bxor", RedOp::Xor),
        ("xor", RedOp::Xor),
        ("bitwise_xor", RedOp::Xor),
        ("avg", RedOp::Avg),
    ];
    /// Parses a word (letter case is ignored).
    pub fn parse(word: &str) -> Option<RedOp> {
        Self::WORDS.iter().find(|(text, _)| text.eq_ignore_ascii_case(word)).map(|(_, op)| *op)
    }
    /// The operation without regard to NaN: communications do not define its result, and integers have none.
    pub fn ignoring_nan(self) -> RedOp {
        match self {
            RedOp::FMin => RedOp::Min,
            RedOp::FMax => RedOp::Max,
            op => op,
        }
    }
    /// The usual word.
    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, op)| *op == self).map_or("", |(text, _)| text)
    }
}
