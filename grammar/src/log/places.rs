//! Texts made of pieces of another text, with the source of each piece.

use crate::span::Span;

/// The start of a piece: from here on a text continues another one from there on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PieceStart {
    here: u32,
    there: u32,
}

/// A text made of pieces of another text.
#[derive(Clone, Debug, Default)]
pub(crate) struct PiecedText {
    pub(crate) text: String,
    pieces: Vec<PieceStart>,
}

impl PiecedText {
    /// Appends a piece with offset `there` in the other text.
    pub(crate) fn push(&mut self, piece: &str, there: usize) {
        if piece.is_empty() {
            return;
        }
        let (here, there) = (self.text.len() as u32, there as u32);
        let continues = self.pieces.last().is_some_and(|last| last.there + (here - last.here) == there);
        if !continues {
            self.pieces.push(PieceStart { here, there });
        }
        self.text.push_str(piece);
    }

    /// The offset of the byte that is at `there` in the other text, if it is present.
    fn find_offset(&self, there: usize) -> Option<usize> {
        let ends = self.pieces.iter().skip(1).map(|next| next.here).chain([self.text.len() as u32]);
        self.pieces.iter().zip(ends).find_map(|(piece, end)| {
            let at = there.checked_sub(piece.there as usize)?;
            (at < (end - piece.here) as usize).then_some(piece.here as usize + at)
        })
    }

    /// The place of the other text's part at a place; empty at the start if nothing of it is left.
    pub(crate) fn find_span(&self, there: Span) -> Span {
        let start = self.find_offset(there.start as usize);
        let end = (there.end as usize).checked_sub(1).and_then(|last| self.find_offset(last)).map(|last| last + 1);
        let start = start.unwrap_or(0);
        Span::new(start, end.unwrap_or(start).max(start))
    }

    /// Appends a text that differs from `original`, at offset `there`, in white space only.
    pub(crate) fn push_reflowed(&mut self, text: &str, original: &str, there: usize) {
        let mut solid = original.char_indices().filter(|(_, c)| !c.is_whitespace());
        let mut at = 0;
        for (start, c) in text.char_indices() {
            if !c.is_whitespace() {
                at = solid.next().map_or(original.len(), |(place, _)| place);
            }
            self.push(&text[start..start + c.len_utf8()], there + at);
        }
    }
}

/// The places of a text in the text that it was made from, possibly in several steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlaceMap {
    /// The last step first.
    steps: Vec<Vec<PieceStart>>,
}

impl PlaceMap {
    /// Adds a step that came before the ones known.
    pub(crate) fn add_earlier(&mut self, text: &PiecedText) {
        self.steps.push(text.pieces.clone());
    }

    /// The offset in the first text of an offset in the last one.
    pub fn offset(&self, offset: usize) -> usize {
        self.steps.iter().fold(offset, |offset, pieces| {
            let after = pieces.partition_point(|piece| piece.here as usize <= offset);
            let Some(piece) = after.checked_sub(1).map(|at| pieces[at]) else { return offset };
            piece.there as usize + (offset - piece.here as usize)
        })
    }

    /// The place in the first text of a place in the last one.
    pub fn span(&self, span: Span) -> Span {
        let start = self.offset(span.start as usize);
        if span.start >= span.end {
            return Span::new(start, start);
        }
        // The end of a piece belongs to it, not to the next one.
        let end = self.offset(span.end as usize - 1) + 1;
        Span::new(start, end.max(start))
    }
}
