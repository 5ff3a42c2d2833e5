//! A part of a text that is read again, and its place in the tree.

use crate::error::SyntaxError;
use crate::hir2::ast::{BlockSyntax, FileSyntax};
use crate::hir2::restarts::{NodeSpans, RestartPoint};
use std::ops::Range;

/// The place of the statements that are read again in the tree before an edit.
pub(super) struct PartPlace {
    pub(super) first: RestartPoint,
    /// The statement after them; `None` if they are the last of the text.
    pub(super) last: Option<RestartPoint>,
    /// The bytes that the edit adds.
    pub(super) growth: u32,
}

impl PartPlace {
    /// The nodes of the tree before the edit that go away.
    pub(super) fn nodes(&self, file: &FileSyntax) -> NodeSpans {
        let to = self.last.map_or_else(|| file.arena_sizes(), |last| last.sizes);
        NodeSpans { from: self.first.sizes, to }
    }

    /// The bytes of the statements before and after the edit.
    pub(super) fn texts(&self, before: &str, after: &str) -> (Range<usize>, Range<usize>) {
        let start = self.first.start as usize;
        let end = self.last.map(|last| (last.start as usize, last.start.wrapping_add(self.growth) as usize));
        let (old, new) = end.unwrap_or((before.len(), after.len()));
        (start..old, start..new)
    }
}

/// Statements that were read again.
pub(super) struct ReadPart {
    /// Their nodes. The first block stands for the body that they are in.
    pub(super) file: FileSyntax,
    pub(super) errors: Vec<SyntaxError>,
    /// The statements of the body.
    pub(super) body: BlockSyntax,
    /// The number of the restart at which they end; `None` if they are the last of the text.
    pub(super) met: Option<usize>,
    /// The end of their last token.
    pub(super) end: u32,
}
