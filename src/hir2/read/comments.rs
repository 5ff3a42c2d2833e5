//! The places of comments in the program.

use super::program::ProgramReader;
use crate::ir::{CommentPlace, OpId, SourceComment};
use hostir_grammar::ast::{CommentPlaceSyntax, CommentSyntax};
use hostir_grammar::hir2::ast::{ItemSyntax, StmtForm, StmtId};

impl ProgramReader<'_> {
    /// Hands the comments of the program with this number among the items on, and those of its kernels.
    pub(super) fn place_comments(&mut self, kernels: &[usize], number: usize, position: usize) {
        let file = self.file;
        for comment in &file.comments {
            let Some(place) = self.comment_place(comment, kernels, number, position) else { continue };
            let text = self.source.get(comment.span.as_usize_range()).unwrap_or_default();
            self.program.source.comments.push(SourceComment { place, text: text.into() });
        }
    }

    fn comment_place(
        &self,
        comment: &CommentSyntax,
        kernels: &[usize],
        number: usize,
        position: usize,
    ) -> Option<CommentPlace> {
        match comment.place {
            CommentPlaceSyntax::Above(stmt) => self.first_op(stmt).map(CommentPlace::Above),
            CommentPlaceSyntax::Trailing(stmt) => self.trailing_op(stmt).map(CommentPlace::Trailing),
            CommentPlaceSyntax::StartOf(block) => match self.groups.get(&block) {
                Some(&(start, _)) => Some(CommentPlace::Trailing(start)),
                None => self.blocks.get(&block).copied().map(CommentPlace::StartOf),
            },
            CommentPlaceSyntax::EndOf(block) => match self.groups.get(&block) {
                Some(&(_, end)) => Some(CommentPlace::Above(end)),
                None => match self.stream_block_end(block) {
                    Some(back) => Some(CommentPlace::Above(back)),
                    None => self.blocks.get(&block).copied().map(CommentPlace::EndOf),
                },
            },
            CommentPlaceSyntax::Container(item) if kernels.contains(&(item as usize)) => Some(CommentPlace::File),
            CommentPlaceSyntax::Container(item) => (item as usize == number).then_some(CommentPlace::Container),
            CommentPlaceSyntax::Header(item) => (item as usize == number).then_some(CommentPlace::Header),
            CommentPlaceSyntax::File => {
                (self.owner_of_file_comment(comment) == Some(number)).then_some(CommentPlace::File)
            }
            CommentPlaceSyntax::EndOfFile => {
                let last = self.file.items.iter().rposition(|item| matches!(item, ItemSyntax::Program(_)));
                let _ = position;
                (last == Some(number)).then_some(CommentPlace::End)
            }
        }
    }

    /// The program that follows a comment outside of all of them.
    fn owner_of_file_comment(&self, comment: &CommentSyntax) -> Option<usize> {
        self.file.items.iter().position(|item| match item {
            ItemSyntax::Program(program) => program.span.start > comment.span.start,
            _ => false,
        })
    }

    /// The first op of a statement, or of the next one if it has none.
    fn first_op(&self, stmt: StmtId) -> Option<OpId> {
        if let Some(&(first, _)) = self.statements.get(&stmt) {
            return Some(first);
        }
        let block = self.file.blocks.iter().find(|block| block.stmts.contains(&stmt))?;
        let at = block.stmts.iter().position(|&other| other == stmt)?;
        block.stmts[at + 1..].iter().find_map(|other| self.statements.get(other)).map(|&(first, _)| first)
    }

    fn trailing_op(&self, stmt: StmtId) -> Option<OpId> {
        self.statements.get(&stmt).map(|&(_, last)| last).or_else(|| self.first_op(stmt))
    }

    /// The op that makes the stream of before current behind a `stream e:` block.
    fn stream_block_end(&self, block: hostir_grammar::ast::BlockId) -> Option<OpId> {
        let stmts = self.file.stmts.iter();
        let owner =
            stmts.zip(0..).find(|(stmt, _)| matches!(stmt.form, StmtForm::Stream(_, Some(found)) if found == block));
        owner.and_then(|(_, number)| self.statements.get(&StmtId(number))).map(|&(_, last)| last)
    }
}
