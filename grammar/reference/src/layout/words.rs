//! The terminal of a token.

use super::statements::StatementKind;
use super::{Frame, Layout};
use crate::token::{Sign, Tok, Word};
use hostir_grammar::Span;
use hostir_grammar::ast::Symbol;
use hostir_grammar::hir2::ast::NameSyntax;
use hostir_grammar::hir2::tokens::{LineTok, LineToken};

/// The operators of the grammar.
const OPERATORS: [&str; 20] =
    ["||", "&&", "|", "^", "&", "==", "!=", "<", "<=", ">", ">=", "<<", ">>", "+", "-", "*", "/", "%", "!", "~"];

impl Layout<'_> {
    /// Adds a token.
    pub(super) fn add_token(&mut self, token: LineToken) {
        self.end_prefixes(token.tok);
        let span = token.span;
        match token.tok {
            LineTok::Name(symbol) => self.add_word(symbol, token),
            LineTok::Colon => self.add_colon(span),
            LineTok::LParen => self.open_bracket(self.paren_sign(span), span),
            LineTok::LBracket => self.open_bracket(self.bracket_sign(), span),
            LineTok::LBrace => self.open_bracket(self.brace_sign(), span),
            LineTok::RParen => self.close_bracket(Sign::RParen, span),
            LineTok::RBracket => self.close_bracket(Sign::RBracket, span),
            LineTok::RBrace => self.close_bracket(Sign::RBrace, span),
            LineTok::Semicolon => self.add_semicolon(span),
            LineTok::Op(_) => self.add_operator(token),
            LineTok::Quoted => self.add_text(span),
            tok => self.push(plain_terminal(tok), span),
        }
        self.follow_type(token.tok);
        if !self.statement.is_at_start {
            let is_clause = self.statement.kind == StatementKind::Launch;
            self.statement.is_at_value = token.tok == LineTok::Equals && !self.is_in_brackets() && !is_clause;
        }
        self.at += 1;
    }

    /// A sign between two statements of a group.
    fn add_semicolon(&mut self, span: Span) {
        self.push(Tok::Sign(Sign::Semicolon), span);
        if let Some(Frame::Group { around, .. }) = self.frames.last().copied() {
            self.begin_group_statement(around);
        }
    }

    /// A text in double quotes.
    fn add_text(&mut self, span: Span) {
        let inner = self.text[span.as_usize_range()].strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        let tok = inner.map_or(Tok::Error, |inner| Tok::Quote(self.strings.intern(inner)));
        self.push(tok, span);
    }

    // Operators.

    /// True if the terminal before ends an operand or a type.
    fn is_after_operand(&self) -> bool {
        use Sign::{RBrace, RBracket, RParen};
        match self.last() {
            Some(Tok::Sign(sign)) => matches!(sign, RParen | RBracket | RBrace),
            Some(Tok::Word(word)) => word == Word::Split,
            Some(Tok::Newline | Tok::Indent | Tok::Dedent | Tok::Op(_) | Tok::IterKind(_) | Tok::Error) | None => false,
            Some(_) => true,
        }
    }

    fn add_operator(&mut self, token: LineToken) {
        let text = &self.text[token.span.as_usize_range()];
        let is_prefix = !self.is_after_operand();
        let operator = OPERATORS.iter().find(|operator| **operator == text);
        self.push(operator.map_or(Tok::Error, |operator| Tok::Op(operator)), token.span);
        let is_number = text == "-"
            && matches!(self.token(1).tok, LineTok::Int(_))
            && !matches!(self.token(2).tok, LineTok::LBracket | LineTok::Dot);
        if is_prefix && !is_number {
            self.prefixes += 1;
            self.check_depth();
        }
    }

    /// The operand of prefix operators ends before a token that does not continue it.
    fn end_prefixes(&mut self, next: LineTok) {
        let goes_on = matches!(next, LineTok::LParen | LineTok::LBracket | LineTok::Dot);
        if self.is_after_operand() && !goes_on {
            self.prefixes = 0;
        }
    }

    // Words.

    fn add_word(&mut self, symbol: Symbol, token: LineToken) {
        let text = self.word_text(token);
        let is_named = self.last() == Some(Tok::Word(Word::In)) && self.add_position(text, token)
            || self.is_at_axis() && self.add_axis_kind(text, token);
        if is_named {
            return;
        }
        let is_call = self.follows() == LineTok::LParen;
        let tok = match text {
            "true" | "false" if !is_call => Tok::Bool(text == "true"),
            "True" | "False" if !is_call => Tok::NoOperand(symbol),
            "not" => Tok::NoOperand(symbol),
            // The index of a loop is missing.
            "in" if self.last() == Some(Tok::Word(Word::For)) => Tok::Error,
            _ => self.linking_word(text).map_or(Tok::Name(symbol), Tok::Word),
        };
        self.push(tok, token.span);
    }

    /// A word that links the parts of a header or a type, at a place where it does.
    fn linking_word(&self, text: &str) -> Option<Word> {
        let before = |count: usize| self.out.len().checked_sub(count).map(|place| self.out[place].1);
        let kind = self.statement.kind;
        let (word, is_here) = match text {
            "in" => (Word::In, before(2) == Some(Tok::Word(Word::For))),
            "streams" => (Word::Streams, kind == StatementKind::For && before(1) == Some(Tok::Word(Word::On))),
            "current" => (Word::Current, self.statement.is_at_value && kind.is_stream()),
            "from" => (Word::From, kind == StatementKind::Import && self.is_after_operand()),
            "reads" => (Word::Reads, self.is_at_clause()),
            "writes" => (Word::Writes, self.is_at_clause()),
            "reference" => (Word::Reference, self.is_at_clause()),
            "group" => (Word::Group, self.is_at_clause()),
            "on" => (Word::On, self.is_after_operand()),
            "order" => (Word::Order, self.is_after_operand()),
            "logical" => (Word::Logical, self.is_after_operand()),
            "split" => (Word::Split, self.is_after_operand()),
            "ex" => (Word::Ex, self.is_after_operand()),
            "step" => (Word::Step, self.is_after_operand()),
            _ => return None,
        };
        is_here.then_some(word)
    }

    /// True after the arguments of a launch, or after one of its clauses.
    fn is_at_clause(&self) -> bool {
        self.statement.kind == StatementKind::Launch && !self.is_in_brackets() && self.is_after_operand()
    }

    /// `G.0` after `in`; gives false if the word is no axis of a tensor.
    fn add_position(&mut self, text: &str, token: LineToken) -> bool {
        let found = text.rsplit_once('.').and_then(|(name, axis)| Some((name, axis.parse().ok()?)));
        let Some((name, axis)) = found else { return false };
        let start = token.span.start;
        let span = Span { start, end: start + name.len() as u32 };
        let name = NameSyntax { name: self.strings.intern(name), span };
        self.push(Tok::Position((name, axis)), token.span);
        true
    }

    /// True at the start of an axis.
    fn is_at_axis(&self) -> bool {
        let in_axes = matches!(self.frames.last(), Some(Frame::Bracket { sign: Sign::AxesBracket, .. }));
        in_axes && matches!(self.last(), Some(Tok::Sign(Sign::AxesBracket | Sign::Comma)))
    }

    /// `r.` of `r.k`, and of `r.4`, which is one token; gives false if the axis begins in another way.
    fn add_axis_kind(&mut self, text: &str, token: LineToken) -> bool {
        let start = token.span.start;
        let (kind, number) = match text.split_once('.') {
            Some((kind, number)) => (kind, number.parse::<i64>().ok()),
            None => (text, None),
        };
        let is_joined = number.is_some();
        let has_dot = !text.contains('.') && self.follows() == LineTok::Dot;
        if !matches!(kind, "r" | "b" | "i") || !is_joined && !has_dot {
            return false;
        }
        let span = Span { start, end: start + kind.len() as u32 };
        let name = NameSyntax { name: self.strings.intern(kind), span };
        self.push(Tok::IterKind(name), span);
        match number {
            Some(value) => self.push(Tok::Int(value), Span { start: span.end + 1, end: token.span.end }),
            None => self.at += 1,
        }
        true
    }
}

/// The terminal of a token whose place does not matter.
fn plain_terminal(tok: LineTok) -> Tok {
    match tok {
        LineTok::Int(value) => Tok::Int(value),
        LineTok::Hex(value) => Tok::Hex(value),
        LineTok::Float(text) => Tok::Float(text),
        LineTok::Verbatim(text) => Tok::Verbatim(text),
        LineTok::Comma => Tok::Sign(Sign::Comma),
        LineTok::Equals => Tok::Sign(Sign::Equals),
        LineTok::Arrow => Tok::Sign(Sign::Arrow),
        LineTok::DotDot => Tok::Sign(Sign::DotDot),
        LineTok::Dot => Tok::Sign(Sign::Dot),
        LineTok::At => Tok::Sign(Sign::At),
        _ => Tok::Error,
    }
}
