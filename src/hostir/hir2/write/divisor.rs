//! Finds comments that the reader would take for the divisor of the statement before them: `k = rank // 2`.

use super::ProgramWriter;
use super::contract::StatementRun;
use crate::ir::{CommentPlace, OpId, OpKind};
use hostir_grammar::hir2::division::CommentedDivisor;

impl ProgramWriter<'_> {
    /// Moves the comment after a statement, whose text begins at `begin`, above it if it reads like a divisor there.
    pub(super) fn move_divisor_above(&mut self, ops: &[OpId], run: StatementRun, begin: usize) {
        let kind = self.program.op(ops[run.main]).kind;
        let names_stream = kind.is_stream_choice() || kind.is_synchronization();
        let divides = names_stream || kind.is_definition() || kind.is_pointwise();
        let trailing = CommentPlace::Trailing(ops[run.end - 1]);
        if !divides || !self.has_comments(trailing) {
            return;
        }
        let comments = self.trailing_comments(trailing);
        let written = self.out.strip_suffix('\n').and_then(|text| text.strip_suffix(comments.as_str()));
        let Some(end) = written.map(|text| text.trim_end().len()).filter(|end| *end >= begin) else { return };
        let line = self.out[..end].rfind('\n').map_or(0, |at| at + 1);
        if !self.is_divisor_after(&self.out[line.max(begin)..end], &comments, kind) {
            return;
        }
        self.out.truncate(end);
        self.out.push('\n');
        let statement = self.out.split_off(begin);
        self.begin_line();
        self.out.push_str(&comments);
        self.out.push('\n');
        self.out.push_str(&statement);
    }

    /// The comments after a statement, on its line.
    fn trailing_comments(&self, place: CommentPlace) -> String {
        let comments = &self.program.source().comments;
        let texts = self.comments_at(place).into_iter().map(|index| &*comments[index as usize].text);
        texts.filter(|text| !text.is_empty()).collect::<Vec<&str>>().join(" ")
    }

    /// Returns true if the reader may refuse a comment after a statement. It may return true for an accepted one.
    fn is_divisor_after(&self, statement: &str, comment: &str, kind: OpKind) -> bool {
        let divisor = CommentedDivisor::of_comment(comment.trim_end());
        let Some(divisor) = divisor.filter(|divisor| divisor.after.is_empty() && divisor.is_plain) else {
            return false;
        };
        let value = statement.split_once(" = ").map_or(statement, |(_, value)| value);
        if kind.is_pointwise() {
            let is_call = value.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_').starts_with('(');
            return divisor.is_number && (!is_call || value.starts_with('('));
        }
        let repeats = !value.ends_with(')') && divisor.repeats_part_of(value);
        !repeats && divisor.names.iter().all(|name| self.names_scalar(name))
    }

    /// Returns true if a name, perhaps with a field, may be that of a scalar.
    fn names_scalar(&self, name: &str) -> bool {
        let (first, has_field) = name.split_once('.').map_or((name, false), |(first, _)| (first, true));
        let is_mesh = has_field && self.file.meshes.iter().any(|mesh| mesh.name == first);
        let symbol = self.program.names().find_symbol(first);
        let is_known = symbol.is_some_and(|name| self.tables.names.is_scalar(name));
        let is_size = symbol.is_some_and(|name| self.program.run_hints().sizes.iter().any(|(size, _)| *size == name));
        is_mesh || is_known || is_size || matches!(first, "rank" | "streams")
    }
}
