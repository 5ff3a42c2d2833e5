//! Lines and comments.

use super::ProgramWriter;
use crate::ir::CommentPlace;
use smallvec::SmallVec;

impl ProgramWriter<'_> {
    pub(super) fn push(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// The blanks in front of a statement.
    pub(super) fn begin_line(&mut self) {
        const BLANKS: &str = "                                ";
        let mut count = self.indent;
        while count > BLANKS.len() {
            self.out.push_str(BLANKS);
            count -= BLANKS.len();
        }
        self.out.push_str(&BLANKS[..count]);
    }

    /// The comments after a statement, and the line's end.
    pub(super) fn end_line(&mut self, place: CommentPlace) {
        let program = self.program;
        for index in self.comments_at(place) {
            let text = &program.source().comments[index as usize].text;
            if !text.is_empty() {
                self.out.push(' ');
                self.out.push_str(text);
            }
        }
        self.out.push('\n');
    }

    /// Comments on lines of their own; an empty one is a blank line, which never begins a block. Returns whether there
    /// are any.
    pub(super) fn write_comment_lines(&mut self, place: CommentPlace, block_start: usize) -> bool {
        let program = self.program;
        let comments = self.comments_at(place);
        for &index in &comments {
            let text = &program.source().comments[index as usize].text;
            if text.is_empty() {
                if self.out.len() > block_start && !self.out.ends_with("\n\n") {
                    self.out.push('\n');
                }
                continue;
            }
            self.begin_line();
            self.out.push_str(text);
            self.out.push('\n');
        }
        !comments.is_empty()
    }

    /// Writes the comments at the end of a block, which no blank line ends.
    pub(super) fn write_end_comments(&mut self, place: CommentPlace, block_start: usize) -> bool {
        let written = self.write_comment_lines(place, block_start);
        while written && self.out.ends_with("\n\n") {
            self.out.pop();
        }
        written
    }

    /// Returns true if a place has comments or a blank line.
    pub(super) fn has_comments(&self, place: CommentPlace) -> bool {
        self.tables.has_comments(place)
    }

    /// The comments of a place, as numbers of the program's comments.
    pub(super) fn comments_at(&self, place: CommentPlace) -> SmallVec<[u32; 2]> {
        self.tables.comments_at(place)
    }
}
