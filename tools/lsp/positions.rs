//! Places in a text: the library counts bytes, the protocol lines and UTF-16 code units.

use hostir::diag::Span;
use line_index::{LineCol, LineIndex, TextSize, WideEncoding, WideLineCol};
use lsp_types::{Position, Range};

/// The lines of a text.
#[derive(Clone, Debug)]
pub struct TextPositions {
    lines: LineIndex,
}

impl TextPositions {
    /// The lines of this text.
    pub fn new(text: &str) -> Self {
        Self { lines: LineIndex::new(text) }
    }

    /// The position of a byte; of one inside of a character that of the character, of one past the end the end.
    pub fn position_of(&self, offset: u32) -> Position {
        let end = u32::from(self.lines.len());
        let mut at = offset.min(end);
        let found = loop {
            match self.lines.try_line_col(TextSize::from(at)) {
                Some(found) => break found,
                None if at > 0 => at -= 1,
                None => break LineCol { line: 0, col: 0 },
            }
        };
        let wide = self.lines.to_wide(WideEncoding::Utf16, found);
        wide.map_or(Position::new(found.line, found.col), |wide| Position::new(wide.line, wide.col))
    }

    /// The range of a place.
    pub fn range_of(&self, span: Span) -> Range {
        let start = self.position_of(span.start);
        Range::new(start, self.position_of(span.end.max(span.start)))
    }

    /// The byte of a position. As the protocol says, a column past the end of its line means the end of the line; a line
    /// past the last one means the end of the text. `text` is the text of these lines.
    pub fn offset_of(&self, text: &str, position: Position) -> u32 {
        let Some(line) = self.lines.line(position.line) else { return text.len() as u32 };
        let (start, end) = (u32::from(line.start()), u32::from(line.end()));
        let content = text.get(start as usize..end as usize).unwrap_or_default();
        let last = start + content.trim_end_matches(['\n', '\r']).len() as u32;
        let wide = WideLineCol { line: position.line, col: position.character };
        let column = self.lines.to_utf8(WideEncoding::Utf16, wide).map_or(u32::MAX, |found| found.col);
        let mut at = start.saturating_add(column).min(last);
        while !text.is_char_boundary(at as usize) {
            at -= 1;
        }
        at
    }

    /// The bytes of a range; one whose end is in front of its start is taken the other way round.
    pub fn span_of(&self, text: &str, range: Range) -> Span {
        let (a, b) = (self.offset_of(text, range.start), self.offset_of(text, range.end));
        Span { start: a.min(b), end: a.max(b) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A letter of two bytes, one of four bytes that UTF-16 writes with two units, and a line break of two bytes.
    const TEXT: &str = "aé𝄞b\r\nxy\n";

    #[test]
    fn columns_count_utf16() {
        let positions = TextPositions::new(TEXT);
        let found: Vec<(u32, u32)> = [0, 1, 3, 7, 8, 10, 12, 13]
            .into_iter()
            .map(|offset| positions.position_of(offset))
            .map(|position| (position.line, position.character))
            .collect();
        assert_eq!(found, [(0, 0), (0, 1), (0, 2), (0, 4), (0, 5), (1, 0), (1, 2), (2, 0)]);
    }

    #[test]
    fn every_position_has_an_offset() {
        let positions = TextPositions::new(TEXT);
        for (offset, _) in TEXT.char_indices().filter(|(_, char)| *char != '\n') {
            assert_eq!(positions.offset_of(TEXT, positions.position_of(offset as u32)), offset as u32);
        }
        // Inside of the pair, past the end of a line, past the last line.
        assert_eq!(positions.offset_of(TEXT, Position::new(0, 3)), 3);
        assert_eq!(positions.offset_of(TEXT, Position::new(0, 99)), 8);
        assert_eq!(positions.offset_of(TEXT, Position::new(99, 0)), TEXT.len() as u32);
    }
}
