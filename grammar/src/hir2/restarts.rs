//! Restarts: statements of a body at which reading can begin again after an edit.

use crate::ast::{BlockId, Symbol};
use crate::span::Span;

/// The numbers of nodes in the arenas of a tree.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct ArenaSizes {
    pub(super) exprs: u32,
    pub(super) expr_lists: u32,
    pub(super) args: u32,
    pub(super) index_items: u32,
    pub(super) targets: u32,
    pub(super) launches: u32,
    pub(super) types: u32,
    pub(super) axes: u32,
    pub(super) stmts: u32,
    pub(super) blocks: u32,
    pub(super) comments: u32,
}

impl ArenaSizes {
    /// The sizes of one and the other together, or, of opposite ones, their difference.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            exprs: self.exprs.wrapping_add(other.exprs),
            expr_lists: self.expr_lists.wrapping_add(other.expr_lists),
            args: self.args.wrapping_add(other.args),
            index_items: self.index_items.wrapping_add(other.index_items),
            targets: self.targets.wrapping_add(other.targets),
            launches: self.launches.wrapping_add(other.launches),
            types: self.types.wrapping_add(other.types),
            axes: self.axes.wrapping_add(other.axes),
            stmts: self.stmts.wrapping_add(other.stmts),
            blocks: self.blocks.wrapping_add(other.blocks),
            comments: self.comments.wrapping_add(other.comments),
        }
    }

    /// The sizes that are added to take these away.
    pub(super) fn opposite(self) -> Self {
        Self {
            exprs: self.exprs.wrapping_neg(),
            expr_lists: self.expr_lists.wrapping_neg(),
            args: self.args.wrapping_neg(),
            index_items: self.index_items.wrapping_neg(),
            targets: self.targets.wrapping_neg(),
            launches: self.launches.wrapping_neg(),
            types: self.types.wrapping_neg(),
            axes: self.axes.wrapping_neg(),
            stmts: self.stmts.wrapping_neg(),
            blocks: self.blocks.wrapping_neg(),
            comments: self.comments.wrapping_neg(),
        }
    }
}

/// The nodes between two numbers, in each arena.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeSpans {
    pub(super) from: ArenaSizes,
    pub(super) to: ArenaSizes,
}

/// A statement of a body at which reading can begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct RestartPoint {
    /// The start of its line.
    pub(super) start: u32,
    /// The column of its first token.
    pub(super) column: u32,
    /// The number of its program or kernel among the items.
    pub(super) item: u32,
    /// The block that it is in.
    pub(super) body: BlockId,
    /// Its number in the block.
    pub(super) stmt: u32,
    /// The nodes before it.
    pub(super) sizes: ArenaSizes,
}

/// The restarts of a text.
#[derive(Clone, Default, Debug)]
pub(super) struct RestartTable {
    /// In the order of the text.
    pub(super) points: Vec<RestartPoint>,
    /// The smallest place with all errors, statements with errors, and lines that look like other languages.
    pub(super) faults: Option<Span>,
    /// Strings that are no tokens of the text, and in a statement with an error no part of the tree.
    pub(super) strings: Vec<Symbol>,
}

impl RestartTable {
    /// Notes a string that is no token.
    pub(super) fn note_string(&mut self, symbol: Symbol) {
        self.strings.push(symbol);
    }

    /// Notes the places of errors after a text was read.
    pub(super) fn note_faults(&mut self, faults: impl Iterator<Item = Span>) {
        self.faults = faults.reduce(Span::join);
    }
}
