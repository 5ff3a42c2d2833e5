//! Statements: their first words, and what the tokens after those are.

use super::{Frame, Layout};
use crate::token::{Sign, Tok, Word};
use hostir_grammar::Span;
use hostir_grammar::hir2::ast::NameSyntax;
use hostir_grammar::hir2::tokens::{LineTok, LineToken, foreign_statement_note, minor_version};

/// A kind of statement.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum StatementKind {
    /// A line of the head, or a statement without a block.
    #[default]
    Simple,
    /// `import`
    Import,
    /// `mesh`
    Mesh,
    /// The header of a program or kernel.
    Program,
    /// `for`
    For,
    /// `if`, `else`, `define`
    Header,
    /// `launch`
    Launch,
    /// `stream e`, which may have a block.
    Stream,
    /// `stream e` where it has none.
    InnerStream,
}

impl StatementKind {
    /// True if a colon outside of brackets ends it.
    fn is_header(self) -> bool {
        matches!(self, StatementKind::Program | StatementKind::For | StatementKind::Header | StatementKind::Stream)
    }

    /// True if it is `stream e` or `stream e = current`.
    pub(super) fn is_stream(self) -> bool {
        matches!(self, StatementKind::Stream | StatementKind::InnerStream)
    }
}

/// The part of a declaration's type that was laid out.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum TypePart {
    /// No type is next.
    #[default]
    None,
    /// The colon.
    Colon,
    /// The element type.
    Element,
    /// Its dot.
    Dot,
    /// The memory.
    Memory,
}

/// The statement that is laid out.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Statement {
    pub(super) kind: StatementKind,
    /// The column of its line.
    pub(super) column: u32,
    /// True if its first token is next.
    pub(super) is_at_start: bool,
    /// True on the line of a header and in a group, where a statement has no block.
    pub(super) is_inner: bool,
    /// True at its start and after its `=`, where a group may be.
    pub(super) is_at_value: bool,
    pub(super) type_part: TypePart,
}

impl Layout<'_> {
    /// Begins a statement. Adds the next token if that is a word of the language, or what no statement begins with.
    pub(super) fn begin_statement(&mut self, token: LineToken) {
        self.statement.is_at_start = false;
        self.statement.is_at_value = true;
        let word = self.word_text(token);
        if self.out.is_empty() {
            self.add_version(token);
        } else if self.statement.is_inner {
            self.begin_simple(word, token);
        } else if self.levels.len() == 1 {
            self.begin_item(word, token);
        } else {
            self.begin_in_block(word, token);
        }
    }

    /// A statement on a line of its own.
    fn begin_in_block(&mut self, word: &str, token: LineToken) {
        let Some(level) = self.levels.last_mut() else { return };
        let was_after_if = std::mem::replace(&mut level.is_after_if, word == "if");
        match word {
            "for" => self.add_first_word(Word::For, StatementKind::For, token),
            "if" => self.add_first_word(Word::If, StatementKind::Header, token),
            "else" if was_after_if => self.add_first_word(Word::Else, StatementKind::Header, token),
            "elif" | "ELSE" if was_after_if => self.reject_token(token),
            "FOR" | "IF" => self.reject_token(token),
            "define" if self.follows() == LineTok::Colon => {
                self.add_first_word(Word::Define, StatementKind::Header, token);
            }
            _ => self.begin_simple(word, token),
        }
    }

    fn add_first_word(&mut self, word: Word, kind: StatementKind, token: LineToken) {
        self.statement.kind = kind;
        self.statement.is_at_value = word == Word::Wait;
        self.push(Tok::Word(word), token.span);
        self.at += 1;
    }

    fn reject_token(&mut self, token: LineToken) {
        self.push(Tok::Error, token.span);
        self.at += 1;
    }

    /// `hir 2.1`
    fn add_version(&mut self, token: LineToken) {
        let version = self.token(1);
        let minor = minor_version(&self.text[version.span.as_usize_range()]);
        match minor.filter(|_| self.word_text(token) == "hir" && !version.starts_line()) {
            Some(minor) => {
                self.push(Tok::Word(Word::Hir), token.span);
                self.push(Tok::Version(minor), version.span);
                self.at += 2;
            }
            None => self.reject_token(token),
        }
    }

    /// A line outside of programs.
    fn begin_item(&mut self, word: &str, token: LineToken) {
        if self.follows() == LineTok::LParen {
            self.statement.kind = StatementKind::Program;
            return;
        }
        match word {
            "style" => self.add_style(token),
            "sizes" => self.add_first_word(Word::Sizes, StatementKind::Simple, token),
            "streams" => self.add_first_word(Word::Streams, StatementKind::Simple, token),
            "names" => self.add_first_word(Word::Names, StatementKind::Simple, token),
            "mesh" => self.add_first_word(Word::Mesh, StatementKind::Mesh, token),
            "import" => self.add_first_word(Word::Import, StatementKind::Import, token),
            "kernel" => self.add_first_word(Word::Kernel, StatementKind::Program, token),
            _ => self.reject_token(token),
        }
    }

    /// `style` and the rest of the line.
    fn add_style(&mut self, token: LineToken) {
        self.add_first_word(Word::Style, StatementKind::Simple, token);
        let start = self.token(0).span.start;
        let mut end = None;
        while self.token(0).tok != LineTok::End && !self.token(0).starts_line() {
            end = Some(self.token(0).span.end);
            self.at += 1;
        }
        let Some(end) = end else { return };
        let span = Span { start, end };
        let name = self.strings.intern(&self.text[span.as_usize_range()]);
        self.push(Tok::Text(NameSyntax { name, span }), span);
    }

    /// A statement without a block; `stream` may have one.
    fn begin_simple(&mut self, word: &str, token: LineToken) {
        let follows = self.follows();
        let is_named = matches!(follows, LineTok::Equals | LineTok::Colon | LineTok::LBracket | LineTok::Comma);
        let is_alone = !is_named && follows != LineTok::LParen;
        let of_stream = if self.statement.is_inner { StatementKind::InnerStream } else { StatementKind::Stream };
        match word {
            "wait" if !is_named => self.add_first_word(Word::Wait, StatementKind::Simple, token),
            "sync" if !is_named => self.add_first_word(Word::Sync, StatementKind::Simple, token),
            "stream" if !is_named => self.add_first_word(Word::Stream, of_stream, token),
            "assert" if !is_named => self.add_first_word(Word::Assert, StatementKind::Simple, token),
            "launch" if follows == LineTok::Quoted => self.add_first_word(Word::Launch, StatementKind::Launch, token),
            "free" if is_alone => self.add_first_word(Word::Free, StatementKind::Simple, token),
            "print" if is_alone && follows != LineTok::LineEnd => {
                self.add_first_word(Word::Print, StatementKind::Simple, token);
            }
            "alias" if is_alone => self.add_first_word(Word::Alias, StatementKind::Simple, token),
            "share" if follows == LineTok::LBrace => self.add_first_word(Word::Share, StatementKind::Simple, token),
            "for" | "if" if !is_named => self.reject_token(token),
            _ if matches!(follows, LineTok::Equals | LineTok::Comma | LineTok::LBracket) => {}
            _ if foreign_statement_note(word).is_some() => self.reject_token(token),
            _ => {}
        }
    }

    // Colons.

    /// The colon of a block, of a declaration, or in brackets.
    pub(super) fn add_colon(&mut self, span: Span) {
        let depth = self.frames.iter().rev().take_while(|frame| matches!(frame, Frame::Bracket { .. })).count();
        let kind = self.statement.kind;
        if depth > 0 || !kind.is_header() {
            // In a launch the two colons before the name of the kernel are outside of brackets, types inside.
            let is_declaration = match kind {
                StatementKind::Launch => depth == 1,
                StatementKind::Program => depth <= 1,
                _ => depth == 0,
            };
            self.statement.type_part = if is_declaration { TypePart::Colon } else { TypePart::None };
            return self.push(Tok::Sign(Sign::Colon), span);
        }
        self.push(Tok::Sign(Sign::BlockColon), span);
        let column = self.statement.column;
        // A statement may follow on the line.
        let is_at_start = !self.token(1).starts_line();
        self.statement = Statement { column, is_inner: true, is_at_start, ..Statement::default() };
    }

    /// Follows the tokens of a type up to its bracket.
    pub(super) fn follow_type(&mut self, tok: LineTok) {
        self.statement.type_part = match (self.statement.type_part, tok) {
            (TypePart::Colon, LineTok::Name(_) | LineTok::Verbatim(_)) => TypePart::Element,
            (TypePart::Element, LineTok::Dot) => TypePart::Dot,
            (TypePart::Dot, LineTok::Name(_)) => TypePart::Memory,
            (part, LineTok::Colon) => part,
            _ => TypePart::None,
        };
    }

    /// Returns true if a bracket that is next is that of the axes of a type, or of a loop's domain.
    pub(super) fn begins_axes(&self) -> bool {
        matches!(self.statement.type_part, TypePart::Element | TypePart::Memory)
            || self.last() == Some(Tok::Word(Word::In))
    }
}
