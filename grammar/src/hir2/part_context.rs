//! The tree around a part of a text that is read again after an edit.

use super::ast::{FileSyntax, ItemSyntax, TypeSyntax};
use super::restarts::RestartPoint;

/// The tree around a part that is read again.
pub(super) struct PartContext<'t> {
    /// The restarts of the same body after an edit, which end the reading.
    pub(super) points: &'t [RestartPoint],
    /// The bytes that the edit adds.
    pub(super) growth: u32,
    /// The one at which the reading ended.
    pub(super) met: Option<usize>,
    /// The tree from before the edit, without its strings and head.
    pub(super) file: &'t FileSyntax,
    /// The restart at which the reading began.
    pub(super) first: RestartPoint,
}

impl<'t> PartContext<'t> {
    /// The items before the part's.
    pub(super) fn items_before(&self) -> &'t [ItemSyntax] {
        &self.file.items[..self.first.item as usize]
    }

    /// The types before the part, and the tree that they are in.
    pub(super) fn types_before(&self) -> (&'t [TypeSyntax], &'t FileSyntax) {
        (&self.file.types[..self.first.sizes.types as usize], self.file)
    }
}
