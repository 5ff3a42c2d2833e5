//! Comments: from places in the tree to places in the program.

use super::Resolver;
use crate::ir::{Comment, CommentPlace};
use hostir_grammar::ast;

impl Resolver<'_> {
    /// Hands the comments of container number `container` on. Those of a statement with an error go
    /// with it; the file's own belong to the container that follows, or to the last one.
    pub(super) fn comments(&mut self, container: usize) {
        let ast = self.ast;
        for comment in &ast.comments {
            let Some(place) = self.comment_place(comment, container) else { continue };
            let text = self.source.get(comment.span.range()).unwrap_or("").trim_end();
            self.program.source.comments.push(Comment { place, text: text.into() });
        }
    }

    fn comment_place(&self, comment: &ast::Comment, container: usize) -> Option<CommentPlace> {
        let number = container as u32;
        match comment.place {
            ast::CommentPlace::Above(stmt) => self.ops.get(&stmt).copied().map(CommentPlace::Above),
            ast::CommentPlace::Trailing(stmt) => {
                self.ops.get(&stmt).copied().map(CommentPlace::Trailing)
            }
            ast::CommentPlace::StartOf(block) => {
                self.blocks.get(&block).copied().map(CommentPlace::StartOf)
            }
            ast::CommentPlace::EndOf(block) => {
                self.blocks.get(&block).copied().map(CommentPlace::EndOf)
            }
            ast::CommentPlace::Container(n) => (n == number).then_some(CommentPlace::Container),
            ast::CommentPlace::Header(n) => (n == number).then_some(CommentPlace::Header),
            ast::CommentPlace::File => {
                let start = comment.span.start;
                let next = self.ast.containers.iter().position(|node| node.span.start > start);
                (next == Some(container)).then_some(CommentPlace::File)
            }
            ast::CommentPlace::EndOfFile => {
                (container + 1 == self.ast.containers.len()).then_some(CommentPlace::End)
            }
        }
    }
}
