//! Maps the positions of comments in the tree to positions in the program.

use super::Resolver;
use crate::ir::{CommentPlace, SourceComment};
use hostir_grammar::ast;

impl Resolver<'_> {
    /// Resolves the comments of container number `container`. A statement with an error takes its comments with it; the
    /// file's own belong to the container that follows, or to the last one.
    pub(super) fn resolve_comments(&mut self, container: usize) {
        let ast = self.ast;
        // Comments of a container are between the start of the previous one and the start of the next one.
        let start = container.checked_sub(1).map_or(0, |before| ast.containers[before].span.start);
        let end = ast.containers.get(container + 1).map_or(u32::MAX, |next| next.span.start);
        let first = ast.comments.partition_point(|comment| comment.span.start < start);
        for comment in ast.comments[first..].iter().take_while(|comment| comment.span.start < end) {
            let Some(place) = self.comment_place(comment, container) else { continue };
            let text = self.source.get(comment.span.as_usize_range()).unwrap_or("").trim_end();
            self.program.source.comments.push(SourceComment { place, text: text.into() });
        }
    }

    fn comment_place(&self, comment: &ast::CommentSyntax, container: usize) -> Option<CommentPlace> {
        let number = container as u32;
        match comment.place {
            ast::CommentPlaceSyntax::Above(stmt) => self.statements.op_of_statement(stmt).map(CommentPlace::Above),
            ast::CommentPlaceSyntax::Trailing(stmt) => {
                self.statements.op_of_statement(stmt).map(CommentPlace::Trailing)
            }
            ast::CommentPlaceSyntax::StartOf(block) => self.statements.block(block).map(CommentPlace::StartOf),
            ast::CommentPlaceSyntax::EndOf(block) => self.statements.block(block).map(CommentPlace::EndOf),
            ast::CommentPlaceSyntax::Container(n) => (n == number).then_some(CommentPlace::Container),
            ast::CommentPlaceSyntax::Header(n) => (n == number).then_some(CommentPlace::Header),
            ast::CommentPlaceSyntax::File => {
                let start = comment.span.start;
                let next = self.ast.containers.partition_point(|node| node.span.start <= start);
                (next == container).then_some(CommentPlace::File)
            }
            ast::CommentPlaceSyntax::EndOfFile => {
                (container + 1 == self.ast.containers.len()).then_some(CommentPlace::End)
            }
        }
    }
}
