//! The blocks that define scalars. A definition gives no new value to a scalar of a block around it, so a name has one
//! definition in the blocks around a statement.

use hostir_grammar::ast::Symbol;
use rustc_hash::FxHashMap;

/// The blocks around the statement that is read, and those that define scalars.
#[derive(Default)]
pub(super) struct ScalarBlocks {
    /// The numbers of the blocks around the statement, the outermost first.
    open: Vec<u32>,
    /// The number of blocks that have begun.
    begun: u32,
    /// By scalar: the number of the block of its last definition.
    defined: FxHashMap<Symbol, u32>,
}

/// The place of an earlier definition of a scalar.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EarlierDefinition {
    /// In the same block.
    SameBlock,
    /// In a block around it; a loop's index is defined there, too.
    OuterBlock,
}

impl ScalarBlocks {
    pub(super) fn begin_block(&mut self) {
        self.begun += 1;
        self.open.push(self.begun);
    }

    pub(super) fn end_block(&mut self) {
        self.open.pop();
    }

    /// The earlier definition of a scalar that a statement of the innermost block sees.
    pub(super) fn earlier_definition(&self, name: Symbol) -> Option<EarlierDefinition> {
        let block = self.defined.get(&name)?;
        let depth = self.open.iter().rposition(|open| open == block)?;
        Some(if depth + 1 == self.open.len() { EarlierDefinition::SameBlock } else { EarlierDefinition::OuterBlock })
    }

    /// Notes a definition in the innermost block.
    pub(super) fn note_definition(&mut self, name: Symbol) {
        let block = self.open.last().copied().unwrap_or_default();
        self.defined.insert(name, block);
    }

    /// Forgets a loop's index at its end.
    pub(super) fn forget(&mut self, name: Symbol) {
        self.defined.remove(&name);
    }
}
