//! The statements and blocks of a text by their places in the program that is read. Comments are placed by them.

use crate::ir::{BlockId, CommentPlace, OpId};
use hostir_grammar::ast;
use hostir_grammar::hir2::ast::{FileSyntax, StmtId};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// The first and last op of a statement or group.
pub(super) type StatementOps = (OpId, OpId);

/// The places of statements and blocks. Nothing is noted if the file has no comments.
pub(super) struct StatementIndex {
    has_comments: bool,
    /// The ops of statements.
    statements: Vec<Option<StatementOps>>,
    /// The statements whose ops are known.
    noted: Range<usize>,
    blocks: FxHashMap<ast::BlockId, BlockId>,
    /// For a group: its first and last op.
    groups: FxHashMap<ast::BlockId, StatementOps>,
    /// For a statement without ops: the first op after it in its block.
    silent: FxHashMap<StmtId, OpId>,
    /// For the block of a `stream e:`: the op that makes the stream of before current again.
    stream_ends: FxHashMap<ast::BlockId, OpId>,
}

impl StatementIndex {
    pub(super) fn new(file: &FileSyntax) -> Self {
        let has_comments = !file.comments.is_empty();
        Self {
            has_comments,
            statements: vec![None; if has_comments { file.stmts.len() } else { 0 }],
            noted: 0..0,
            blocks: FxHashMap::default(),
            groups: FxHashMap::default(),
            silent: FxHashMap::default(),
            stream_ends: FxHashMap::default(),
        }
    }

    /// Forgets the program that was read.
    pub(super) fn begin_program(&mut self) {
        self.statements[std::mem::take(&mut self.noted)].fill(None);
        self.blocks = FxHashMap::default();
        self.groups = FxHashMap::default();
        self.silent = FxHashMap::default();
        self.stream_ends = FxHashMap::default();
    }

    /// Notes the first and the last op of a statement.
    pub(super) fn note_statement(&mut self, stmt: StmtId, ops: StatementOps) {
        let at = stmt.index();
        if let Some(place) = self.statements.get_mut(at) {
            *place = Some(ops);
            self.noted = match self.noted.is_empty() {
                true => at..at + 1,
                false => self.noted.start.min(at)..self.noted.end.max(at + 1),
            };
        }
    }

    /// The first and the last op of a statement.
    pub(super) fn ops_of_statement(&self, stmt: StmtId) -> Option<StatementOps> {
        self.statements.get(stmt.index()).copied().flatten()
    }

    /// Notes for the statements of a block that have no op the first op of the next one that has.
    pub(super) fn note_silent_statements(&mut self, stmts: &[StmtId]) {
        if !self.has_comments {
            return;
        }
        let mut next = None;
        for stmt in stmts.iter().rev() {
            match (self.ops_of_statement(*stmt), next) {
                (Some((first, _)), _) => next = Some(first),
                (None, Some(next)) => {
                    self.silent.insert(*stmt, next);
                }
                (None, None) => {}
            }
        }
    }

    /// The first op after a statement that has no op.
    pub(super) fn op_after_silent(&self, stmt: StmtId) -> Option<OpId> {
        self.silent.get(&stmt).copied()
    }

    /// Notes the block of a block of the text.
    pub(super) fn note_block(&mut self, block: ast::BlockId, id: BlockId) {
        if self.has_comments {
            self.blocks.insert(block, id);
        }
    }

    /// Notes the first and the last op of a group.
    pub(super) fn note_group(&mut self, block: ast::BlockId, ops: StatementOps) {
        if self.has_comments {
            self.groups.insert(block, ops);
        }
    }

    /// Notes the op after the block of a `stream e:`.
    pub(super) fn note_stream_end(&mut self, block: ast::BlockId, back: OpId) {
        if self.has_comments {
            self.stream_ends.insert(block, back);
        }
    }

    /// The place of a comment at the start of a block of the text.
    pub(super) fn start_of_block(&self, block: ast::BlockId) -> Option<CommentPlace> {
        match self.groups.get(&block) {
            Some(&(start, _)) => Some(CommentPlace::Trailing(start)),
            None => self.blocks.get(&block).copied().map(CommentPlace::StartOf),
        }
    }

    /// The place of a comment at the end of a block of the text.
    pub(super) fn end_of_block(&self, block: ast::BlockId) -> Option<CommentPlace> {
        let group_end = self.groups.get(&block).map(|&(_, end)| end);
        match group_end.or_else(|| self.stream_ends.get(&block).copied()) {
            Some(end) => Some(CommentPlace::Above(end)),
            None => self.end_of_body(block),
        }
    }

    /// The end of a block that is one in the program.
    pub(super) fn end_of_body(&self, block: ast::BlockId) -> Option<CommentPlace> {
        self.blocks.get(&block).copied().map(CommentPlace::EndOf)
    }
}
