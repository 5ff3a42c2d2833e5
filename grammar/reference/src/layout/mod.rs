//! Makes the terminals of the grammar of the tokens: lines and blocks, and the meaning of words and brackets that
//! depends on their place.
//!
//! A word that begins a statement has that meaning at the start of one, unless the next token makes it a name:
//! `wait = 1`. A word that continues a header or a type (`on`, `step`, `order`) has its meaning after an operand, where
//! no name can be. So all words are names elsewhere, and an old text keeps its meaning when a word is added.

mod statements;
mod words;

use crate::token::{Sign, Tok, Word};
use hostir_grammar::Span;
use hostir_grammar::ast::StringInterner;
use hostir_grammar::hir2::tokens::{LineTok, LineToken, MAX_BLOCKS, MAX_BRACKETS, has_own_comma};
use statements::{Statement, StatementKind};

/// A terminal between two offsets of the text.
pub type Terminal = (u32, Tok, u32);

/// An open bracket.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Frame {
    /// A bracket in which lines do not matter.
    Bracket {
        /// The bracket.
        sign: Sign,
        /// Prefix operators around it whose operand has not ended.
        prefixes: usize,
    },
    /// The brace of a group: a statement ends with its line.
    Group {
        /// The column of the first of its statements that begins a line.
        column: Option<u32>,
        /// The statement around it.
        around: Statement,
    },
}

impl Frame {
    fn prefixes_around(&self) -> usize {
        match self {
            Frame::Bracket { prefixes, .. } => *prefixes,
            Frame::Group { .. } => 0,
        }
    }
}

/// The statements of one column.
#[derive(Clone, Copy)]
struct Level {
    column: u32,
    /// True after an `if`, which an `else` may follow.
    is_after_if: bool,
}

/// Lays out one text.
pub struct Layout<'a> {
    text: &'a str,
    tokens: &'a [LineToken],
    strings: &'a mut StringInterner,
    /// The next token.
    at: usize,
    out: Vec<Terminal>,
    levels: Vec<Level>,
    frames: Vec<Frame>,
    statement: Statement,
    /// Prefix operators of the statement outside of its brackets whose operand has not ended.
    prefixes: usize,
}

impl<'a> Layout<'a> {
    /// A layout of the tokens of a text; `strings` are those of the tokens.
    pub fn new(text: &'a str, tokens: &'a [LineToken], strings: &'a mut StringInterner) -> Self {
        let levels = vec![Level { column: 0, is_after_if: false }];
        Self {
            text,
            tokens,
            strings,
            at: 0,
            out: Vec::with_capacity(tokens.len() + tokens.len() / 8),
            levels,
            frames: Vec::new(),
            statement: Statement { is_at_start: true, ..Statement::default() },
            prefixes: 0,
        }
    }

    /// The terminals of the text.
    pub fn lay_out(mut self) -> Vec<Terminal> {
        while self.token(0).tok != LineTok::End {
            let token = self.token(0);
            if !self.out.is_empty() && token.starts_line() {
                self.begin_line(token);
            }
            let before = self.at;
            if self.statement.is_at_start {
                self.begin_statement(token);
            }
            if self.at == before {
                self.add_token(token);
            }
        }
        if !self.out.is_empty() {
            self.end_line(0);
        }
        self.out
    }

    // Tokens.

    /// The token so many places after the next one; the last one stays.
    fn token(&self, ahead: usize) -> LineToken {
        self.tokens[(self.at + ahead).min(self.tokens.len() - 1)]
    }

    /// The token of the statement after the next one.
    fn follows(&self) -> LineTok {
        let token = self.token(1);
        if token.starts_line() && !self.is_in_brackets() { LineTok::LineEnd } else { token.tok }
    }

    /// True in a bracket in which lines do not matter.
    fn is_in_brackets(&self) -> bool {
        matches!(self.frames.last(), Some(Frame::Bracket { .. }))
    }

    fn word_text(&self, token: LineToken) -> &'a str {
        match token.tok {
            LineTok::Name(_) => &self.text[token.span.as_usize_range()],
            _ => "",
        }
    }

    /// The terminal before.
    fn last(&self) -> Option<Tok> {
        self.out.last().map(|(_, tok, _)| *tok)
    }

    fn last_end(&self) -> u32 {
        self.out.last().map_or(0, |(_, _, end)| *end)
    }

    fn push(&mut self, tok: Tok, span: Span) {
        self.out.push((span.start, tok, span.end));
    }

    /// Adds a terminal without a text.
    fn push_empty(&mut self, tok: Tok) {
        let end = self.last_end();
        self.push(tok, Span { start: end, end });
    }

    // Lines and blocks.

    /// A token that begins a line ends the statement before it, unless a bracket is open.
    fn begin_line(&mut self, token: LineToken) {
        match self.frames.last().copied() {
            None => self.end_line(token.column),
            Some(Frame::Group { column, around }) => self.begin_group_line(token, column, around),
            Some(Frame::Bracket { .. }) => {}
        }
    }

    /// Ends a line; the next one begins in `column`.
    fn end_line(&mut self, column: u32) {
        let opens_block = self.last() == Some(Tok::Sign(Sign::BlockColon));
        self.push_empty(Tok::Newline);
        let own = self.levels.last().map_or(0, |level| level.column);
        if opens_block && column > own {
            if self.levels.len() > MAX_BLOCKS {
                self.push_empty(Tok::Error);
            }
            self.levels.push(Level { column, is_after_if: false });
            self.push_empty(Tok::Indent);
        } else if column > own {
            self.push_empty(Tok::Error);
        }
        while self.levels.len() > 1 && self.levels.last().is_some_and(|level| column < level.column) {
            self.levels.pop();
            self.push_empty(Tok::Dedent);
        }
        if self.levels.last().is_some_and(|level| level.column != column) {
            self.push_empty(Tok::Error);
        }
        self.statement = Statement { is_at_start: true, column, ..Statement::default() };
        self.prefixes = 0;
    }

    /// A line in a group is a statement, unless it begins with the sign between two statements or the end.
    fn begin_group_line(&mut self, token: LineToken, column: Option<u32>, around: Statement) {
        if token.tok == LineTok::RBrace || token.tok == LineTok::Semicolon && !self.statement.is_at_start {
            return;
        }
        if !self.statement.is_at_start {
            self.push_empty(Tok::Newline);
        }
        let column = column.unwrap_or(token.column);
        if token.column < column && token.column <= around.column {
            self.push_empty(Tok::Error);
        }
        if let Some(frame) = self.frames.last_mut() {
            *frame = Frame::Group { column: Some(column), around };
        }
        self.begin_group_statement(around);
    }

    fn begin_group_statement(&mut self, around: Statement) {
        self.statement = Statement { is_at_start: true, is_inner: true, column: around.column, ..Statement::default() };
        self.prefixes = 0;
    }

    // Brackets.

    fn open_bracket(&mut self, sign: Sign, span: Span) {
        self.push(Tok::Sign(sign), span);
        let frame = match sign {
            Sign::GroupBrace => Frame::Group { column: None, around: self.statement },
            _ => Frame::Bracket { sign, prefixes: self.prefixes },
        };
        self.frames.push(frame);
        if let Frame::Group { around, .. } = frame {
            self.begin_group_statement(around);
        } else {
            self.prefixes = 0;
        }
        self.check_depth();
    }

    fn close_bracket(&mut self, sign: Sign, span: Span) {
        self.push(Tok::Sign(sign), span);
        match self.frames.pop() {
            Some(Frame::Group { around, .. }) => {
                self.statement = Statement { is_at_start: false, ..around };
                self.prefixes = 0;
            }
            Some(Frame::Bracket { prefixes, .. }) => self.prefixes = prefixes,
            None => {}
        }
    }

    /// Open brackets and prefix operators have a limit together.
    fn check_depth(&mut self) {
        let around: usize = self.frames.iter().map(Frame::prefixes_around).sum();
        if self.frames.len() + self.prefixes + around > MAX_BRACKETS {
            self.push_empty(Tok::Error);
        }
    }

    fn bracket_sign(&self) -> Sign {
        use Sign::{AxesBracket, Comma, DevicesBracket, Equals, GridBracket, KindBracket, LBracket};
        let is_grid = matches!(self.token(1).tok, LineTok::Name(_)) && self.token(2).tok == LineTok::Colon;
        let is_in_devices = matches!(self.frames.last(), Some(Frame::Bracket { sign: DevicesBracket, .. }));
        match self.last() {
            Some(Tok::Word(Word::If)) => KindBracket,
            _ if self.begins_axes() => AxesBracket,
            Some(Tok::Sign(Equals)) if self.statement.kind == StatementKind::Mesh && self.frames.is_empty() => {
                if is_grid {
                    GridBracket
                } else {
                    DevicesBracket
                }
            }
            Some(Tok::Sign(DevicesBracket | Comma)) if is_in_devices => DevicesBracket,
            _ => LBracket,
        }
    }

    /// A list of extents has a comma of its own; other expressions in parentheses have none.
    fn paren_sign(&self, span: Span) -> Sign {
        let depth = self.frames.iter().rev().take_while(|frame| matches!(frame, Frame::Bracket { .. })).count();
        let is_place = self.statement.kind == StatementKind::Launch
            && depth == 1
            && matches!(self.frames.last(), Some(Frame::Bracket { sign: Sign::LBracket, .. }))
            && matches!(self.last(), Some(Tok::Sign(Sign::LBracket | Sign::Comma)));
        if is_place && has_own_comma(&self.text[span.start as usize..]) { Sign::ExtentsParen } else { Sign::LParen }
    }

    fn brace_sign(&self) -> Sign {
        let is_value = self.statement.is_at_value;
        let is_forced = self.last() == Some(Tok::Word(Word::Share));
        let is_group = match self.token(1).tok {
            LineTok::RBrace | LineTok::Verbatim(_) => true,
            LineTok::Name(_) => matches!(
                self.token(2).tok,
                LineTok::LParen | LineTok::Equals | LineTok::Colon | LineTok::LBracket | LineTok::Name(_)
            ),
            _ => false,
        };
        if is_forced || is_value && is_group { Sign::GroupBrace } else { Sign::LBrace }
    }
}
