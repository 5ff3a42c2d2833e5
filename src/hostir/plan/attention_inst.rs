//! Attention as one instruction.

use super::inst::InstKind;
use super::view::BufferView;

/// Attention of 16-bit floating-point factors without a bias or a mask: `softmax(scale * query * keyᵀ) * value`, row by
/// row. All views have three outer axes of the same extents, batches and heads: `key` and `value` may repeat heads.
#[derive(Clone, PartialEq, Debug)]
pub struct AttentionInst {
    /// `[.., L, E]`.
    pub query: BufferView,
    /// `[.., S, E]`.
    pub key: BufferView,
    /// `[.., S, D]`.
    pub value: BufferView,
    /// `[.., L, D]`, of the factors' type.
    pub result: BufferView,
    /// The logarithm of the sum of each row's exponentials: `[.., L]`, single precision.
    pub logsumexp: BufferView,
    /// True if a row sees only the keys up to its own place; `L` and `S` are equal then.
    pub is_causal: bool,
    /// The factor of the scores; positive.
    pub scale: f64,
    /// Instructions of memory and of one stream that compute the same, with scratch memory of their own.
    pub composition: Vec<InstKind>,
}

impl AttentionInst {
    /// The factors.
    pub fn factors(&self) -> [&BufferView; 3] {
        [&self.query, &self.key, &self.value]
    }
    /// The results.
    pub fn results(&self) -> [&BufferView; 2] {
        [&self.result, &self.logsumexp]
    }
    /// The extents of the outer axes.
    pub fn outer_extents(&self) -> [usize; 3] {
        [0, 1, 2].map(|axis| self.query.dims[axis].extent)
    }
    /// The number of queries of a head.
    pub fn rows(&self) -> usize {
        self.query.dims[3].extent
    }
    /// The number of keys of a head.
    pub fn columns(&self) -> usize {
        self.key.dims[3].extent
    }
    /// The elements of a query and of a value.
    pub fn widths(&self) -> [usize; 2] {
        [self.query.dims[4].extent, self.value.dims[4].extent]
    }
    /// The floating-point operations of both products; a triangle has about half of them.
    pub(super) fn flop_count(&self) -> u64 {
        let scores = self.logsumexp.len() as u64 * self.columns() as u64;
        2 * scores * self.widths().into_iter().sum::<usize>() as u64 / if self.is_causal { 2 } else { 1 }
    }
    /// All views, to be changed.
    pub(super) fn views_mut(&mut self) -> impl Iterator<Item = &mut BufferView> {
        [&mut self.query, &mut self.key, &mut self.value, &mut self.result, &mut self.logsumexp].into_iter()
    }
    /// The bytes of its composition.
    pub(super) fn list_bytes(&self) -> usize {
        self.composition.iter().map(|kind| size_of::<InstKind>() + kind.heap_bytes()).sum()
    }
}
