//! Finds the statement or block of each comment.
//!
//! Comments are no tokens. When the parser reaches a token, it assigns the comments before it: those after other text
//! on their line belong to the last construct, the others wait until it is known which blocks end here and which
//! statement follows.

use crate::ast::{BlockId, CommentPlaceSyntax, CommentSyntax, SyntaxTree};
use crate::lex::RawComment;
use crate::span::Span;

/// Comments on lines of their own that wait for their place.
#[derive(Default)]
pub(crate) struct PendingComments {
    /// The number of assigned comments of the lexer.
    taken: usize,
    waiting: Vec<(Span, u32)>,
}

impl PendingComments {
    /// Takes the comments before `end`; those after other text go to `last`.
    pub(crate) fn take_before(&mut self, all: &[RawComment], end: u32, last: CommentPlaceSyntax, ast: &mut SyntaxTree) {
        while let Some(comment) = all.get(self.taken).filter(|comment| comment.span.start < end) {
            self.taken += 1;
            match comment.column {
                Some(column) => self.waiting.push((comment.span, column)),
                None => ast.comments.push(CommentSyntax { span: comment.span, place: last }),
            }
        }
    }

    /// Takes the comments before `end`, all for `place`.
    pub(crate) fn take_all(&mut self, all: &[RawComment], end: u32, place: CommentPlaceSyntax, ast: &mut SyntaxTree) {
        self.take_before(all, end, place, ast);
        self.attach_pending(place, ast);
    }

    /// Ends a block: leading comments that are indented at least to `column` belong to it.
    pub(crate) fn end_block(&mut self, block: BlockId, column: u32, ast: &mut SyntaxTree) {
        let count = self.waiting.iter().take_while(|&&(_, at)| at >= column).count();
        for (span, _) in self.waiting.drain(..count) {
            ast.comments.push(CommentSyntax { span, place: CommentPlaceSyntax::EndOf(block) });
        }
    }

    /// True if comments wait for their place.
    pub(crate) fn has_pending(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Assigns all waiting comments to `place`.
    pub(crate) fn attach_pending(&mut self, place: CommentPlaceSyntax, ast: &mut SyntaxTree) {
        for (span, _) in self.waiting.drain(..) {
            ast.comments.push(CommentSyntax { span, place });
        }
    }

    /// Assigns the comments before a container that starts at `start`: the lines directly above it are the container's,
    /// the others the file's.
    pub(crate) fn attach_before_container(&mut self, text: &str, start: u32, number: u32, ast: &mut SyntaxTree) {
        let mut next = start;
        let mut own = self.waiting.len();
        while own > 0 {
            let (span, _) = self.waiting[own - 1];
            let gap = &text[span.end as usize..next as usize];
            if gap.matches('\n').count() != 1 || !gap.trim().is_empty() {
                break;
            }
            next = span.start;
            own -= 1;
        }
        for (at, (span, _)) in self.waiting.drain(..).enumerate() {
            let place = if at < own { CommentPlaceSyntax::File } else { CommentPlaceSyntax::Container(number) };
            ast.comments.push(CommentSyntax { span, place });
        }
    }
}
