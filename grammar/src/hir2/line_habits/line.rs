//! A line as words and signs.

use std::ops::Range;

/// A word or a sign of a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    pub(super) place: Range<usize>,
    /// The number of open brackets around it; a bracket counts as outside.
    pub(super) depth: usize,
}

/// A line of code without its indentation and comment.
pub(super) struct CodeLine<'a> {
    pub(super) code: &'a str,
    pub(super) pieces: Vec<Piece>,
}

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

impl<'a> CodeLine<'a> {
    pub(super) fn new(code: &'a str) -> Self {
        let mut pieces = Vec::new();
        let (mut depth, mut at) = (0usize, 0);
        while let Some(first) = code[at..].chars().next() {
            let length = piece_length(&code[at..], first);
            if !first.is_whitespace() {
                if matches!(first, ')' | ']' | '}') {
                    depth = depth.saturating_sub(1);
                }
                pieces.push(Piece { place: at..at + length, depth });
                if matches!(first, '(' | '[' | '{') {
                    depth += 1;
                }
            }
            at += length;
        }
        Self { code, pieces }
    }

    /// The text of a piece; empty after the last one.
    pub(super) fn piece_text(&self, piece: usize) -> &'a str {
        self.pieces.get(piece).map_or("", |piece| &self.code[piece.place.clone()])
    }

    /// The first piece of these words outside of brackets.
    pub(super) fn find_outside(&self, wanted: &str) -> Option<usize> {
        (0..self.pieces.len()).find(|&at| self.pieces[at].depth == 0 && self.piece_text(at) == wanted)
    }

    /// The text between two pieces, without them.
    pub(super) fn between(&self, first: usize, end: usize) -> &'a str {
        let from = self.pieces.get(first).map_or(self.code.len(), |piece| piece.place.end);
        let to = self.pieces.get(end).map_or(self.code.len(), |piece| piece.place.start);
        self.code.get(from..to).unwrap_or_default().trim()
    }

    /// The text from a piece to the end of another.
    pub(super) fn span_text(&self, first: usize, last: usize) -> &'a str {
        match (self.pieces.get(first), self.pieces.get(last)) {
            (Some(first), Some(last)) => self.code.get(first.place.start..last.place.end).unwrap_or_default(),
            _ => "",
        }
    }

    /// The piece that closes the bracket of a piece.
    pub(super) fn closing(&self, open: usize) -> Option<usize> {
        let depth = self.pieces.get(open)?.depth;
        let mut after = open + 1..self.pieces.len();
        after.find(|&at| self.pieces[at].depth == depth && matches!(self.piece_text(at), ")" | "]" | "}"))
    }

    /// The end of the code.
    pub(super) fn code_end(&self) -> usize {
        self.code.len()
    }

    /// True if a piece is a name.
    pub(super) fn is_name(&self, piece: usize) -> bool {
        is_name(self.piece_text(piece))
    }
}

/// True for a word that can be a name.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && text.chars().all(is_word)
}

/// Signs of several characters.
const SIGNS: &[&str] = &[
    "===", "!==", "...", "<<=", ">>=", "->", "=>", "==", "!=", "<=", ">=", "=<", "<>", "&&", "||", "<<", ">>", ":=",
    "..", "**", "++", "--", "+=", "-=", "*=", "/=",
];

fn piece_length(rest: &str, first: char) -> usize {
    if first == '"' || first == '\'' {
        let inside = &rest[1..];
        return inside.find(first).map_or(rest.len(), |at| at + 2);
    }
    if is_word(first) {
        let is_number = first.is_ascii_digit();
        let end = rest.char_indices().find(|(at, c)| {
            let is_point = is_number && *c == '.' && !rest[*at..].starts_with("..");
            !is_word(*c) && !is_point
        });
        return end.map_or(rest.len(), |(at, _)| at);
    }
    let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
    sign.map_or(first.len_utf8(), |sign| sign.len())
}

/// The parts of a text between commas outside of brackets.
pub(super) fn split_items(text: &str) -> Vec<&str> {
    let line = CodeLine::new(text);
    let mut items = Vec::new();
    let mut start = 0;
    for piece in line.pieces.iter().filter(|piece| piece.depth == 0 && &text[piece.place.clone()] == ",") {
        items.push(text[start..piece.place.start].trim());
        start = piece.place.end;
    }
    items.push(text[start..].trim());
    items
}

/// True if a text has a word.
pub(super) fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !is_word(c)).any(|other| other == word)
}
