//! The statements and blocks of a tree by their places in the program. Comments are placed by them.

use crate::ir::{BlockId, OpId};
use hostir_grammar::ast::{self, SyntaxTree};
use rustc_hash::FxHashMap;

/// The op of each statement and the block of each block. Nothing is noted if the text has no comments.
pub(super) struct StatementMap {
    has_comments: bool,
    ops: FxHashMap<ast::StmtId, OpId>,
    blocks: FxHashMap<ast::BlockId, BlockId>,
}

impl StatementMap {
    pub(super) fn new(ast: &SyntaxTree) -> Self {
        Self { has_comments: !ast.comments.is_empty(), ops: FxHashMap::default(), blocks: FxHashMap::default() }
    }

    /// Notes the op of a statement.
    pub(super) fn note_statement(&mut self, stmt: ast::StmtId, op: OpId) {
        if self.has_comments {
            self.ops.insert(stmt, op);
        }
    }

    /// Notes the block of a block of the tree.
    pub(super) fn note_block(&mut self, block: ast::BlockId, id: BlockId) {
        if self.has_comments {
            self.blocks.insert(block, id);
        }
    }

    /// The op of a statement; `None` if it has an error.
    pub(super) fn op_of_statement(&self, stmt: ast::StmtId) -> Option<OpId> {
        self.ops.get(&stmt).copied()
    }

    /// The block of a block of the tree.
    pub(super) fn block(&self, block: ast::BlockId) -> Option<BlockId> {
        self.blocks.get(&block).copied()
    }
}
