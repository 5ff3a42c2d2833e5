//! Plain statements: reads most statements of long texts in less time than the tables of the grammar.
//!
//! `hir.lalrpop` defines the language. The parser here knows a part of it, and calls the grammar's actions in the order
//! of its reductions, so that both make the same tree. Where a statement is not of that part, or has an error, it gives
//! up: the tree is as it was before, and the grammar reads the statement. So it needs no messages of its own.

use crate::ast::{ArgRange, ExprId, StmtId, StmtShape, Symbol, ValueSyntax};
use crate::builder::{Builder, StmtHead, TreeSize};
use crate::token::{Tok, Token};

/// Reads the statement of `tokens`. `None` if it is not plain; the builder then has the tree as it was.
pub(crate) fn read_plain_statement(b: &mut Builder<'_>, tokens: &[Token]) -> Option<StmtId> {
    let before = b.tree_size();
    let mut reader = PlainReader { b, tokens, at: 0 };
    let found = reader.read_statement().filter(|_| reader.at == tokens.len());
    keep_or_shrink(b, before, found)
}

/// Reads the expression of `tokens` in the same way.
pub(crate) fn read_plain_expression(b: &mut Builder<'_>, tokens: &[Token]) -> Option<ExprId> {
    let before = b.tree_size();
    let mut reader = PlainReader { b, tokens, at: 0 };
    let found = reader.read_expr().filter(|_| reader.at == tokens.len());
    keep_or_shrink(b, before, found)
}

fn keep_or_shrink<T>(b: &mut Builder<'_>, before: TreeSize, found: Option<T>) -> Option<T> {
    if found.is_none() {
        b.shrink_tree(before);
    }
    found
}

/// The tokens of one statement, and the tree.
struct PlainReader<'r, 'b, 't> {
    b: &'b mut Builder<'t>,
    tokens: &'r [Token],
    at: usize,
}

impl PlainReader<'_, '_, '_> {
    // ---- tokens ----

    fn current_token(&self) -> Tok {
        self.token_ahead(0)
    }

    fn token_ahead(&self, ahead: usize) -> Tok {
        self.tokens.get(self.at + ahead).map_or(Tok::End, |token| token.tok)
    }

    /// The start of the next token.
    fn start(&self) -> u32 {
        self.tokens.get(self.at).map_or(0, |token| token.span.start)
    }

    /// The end of the token before.
    fn end(&self) -> u32 {
        let before = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        before.map_or(0, |token| token.span.end)
    }

    fn skip(&mut self) {
        self.at += 1;
    }

    fn expect(&mut self, tok: Tok) -> Option<()> {
        (self.current_token() == tok).then(|| self.skip())
    }

    /// `;`, if there is one.
    fn read_terminator(&mut self) -> bool {
        self.expect(Tok::Semi).is_some()
    }

    // ---- statements ----

    fn read_statement(&mut self) -> Option<StmtId> {
        match (self.current_token(), self.token_ahead(1)) {
            (Tok::Word(_) | Tok::Tensor(_), Tok::Equal | Tok::Comma) => self.read_assignment(),
            (Tok::Word(name), _) => self.read_headed(name),
            (Tok::For, _) => self.read_loop(),
            _ => None,
        }
    }

    /// `a, b = value.alias=c`
    fn read_assignment(&mut self) -> Option<StmtId> {
        let l = self.start();
        let mut count = 0;
        loop {
            let l = self.start();
            let result = match self.current_token() {
                Tok::Word(name) => self.b.name_expr(name, l, self.tokens[self.at].span.end),
                Tok::Tensor(tensor) => self.b.tensor_expr(tensor, l, self.tokens[self.at].span.end),
                _ => return None,
            };
            self.skip();
            count += self.b.push_item(ValueSyntax::Expr(result), l, self.end());
            match self.current_token() {
                Tok::Comma => self.skip(),
                Tok::Equal => break,
                _ => return None,
            }
        }
        self.skip();
        let value = self.read_expr()?;
        let mut aliases = 0;
        if self.expect(Tok::Alias).is_some() {
            self.expect(Tok::Equal)?;
            aliases = self.read_plain_item()?;
        }
        let terminated = self.read_terminator();
        Some(self.b.add_assignment(count, value, aliases, terminated, l, self.end()))
    }

    /// A statement that begins with a word: a call, words, or `Deallocate { T }`.
    fn read_headed(&mut self, name: Symbol) -> Option<StmtId> {
        let l = self.start();
        self.skip();
        let mut head = StmtHead::new(name, l, self.end());
        let mut shape = StmtShape::Words;
        let mut operands = 0;
        let mut args = ArgRange::default();
        match self.current_token() {
            Tok::LParen => (shape, args) = (StmtShape::Call, self.read_list(Tok::RParen)?),
            Tok::LBrace => (shape, args) = (StmtShape::Braces, self.read_list(Tok::RBrace)?),
            Tok::Int(number) => {
                u32::try_from(number).ok()?;
                self.skip();
                head = self.b.number_head(head, number);
                if self.current_token() == Tok::LParen {
                    (shape, args) = (StmtShape::Call, self.read_list(Tok::RParen)?);
                }
            }
            Tok::To | Tok::Into => {
                self.skip();
                operands = self.read_stream_item()?;
            }
            Tok::Stream => operands = self.read_stream_item()?,
            Tok::Word(word) => operands = self.read_handle_item(word)?,
            _ => {}
        }
        let terminated = self.read_terminator();
        let r = self.end();
        Some(match shape {
            StmtShape::Words => self.b.add_word_statement(head, operands, terminated, l, r),
            _ => self.b.add_statement(shape, head, args, terminated, l, r),
        })
    }

    /// `FOR index in domain`
    fn read_loop(&mut self) -> Option<StmtId> {
        let l = self.start();
        self.skip();
        let first = self.start();
        let index = self.read_expr()?;
        let mut count = self.b.push_item(ValueSyntax::Expr(index), first, self.end());
        self.expect(Tok::In)?;
        let Tok::Domain(domain) = self.current_token() else { return None };
        let start = self.start();
        self.skip();
        count += self.b.push_item(ValueSyntax::Domain(domain), start, self.end());
        Some(self.b.for_loop(StmtShape::ForIn, count, l, self.end()))
    }

    // ---- lists ----

    /// A list with its brackets, of which the opening one is next.
    fn read_list(&mut self, closer: Tok) -> Option<ArgRange> {
        self.skip();
        let mut count = 0;
        while self.current_token() != closer {
            count += self.read_item()?;
            if self.current_token() != closer {
                self.expect(Tok::Comma)?;
            }
        }
        self.skip();
        Some(self.b.close_list(count))
    }

    fn read_item(&mut self) -> Option<u32> {
        match (self.current_token(), self.token_ahead(1)) {
            (Tok::Word(key), Tok::Equal | Tok::Colon | Tok::Word(_)) => self.read_keyed(key),
            _ => self.read_plain_item(),
        }
    }

    /// `key = value`, `Group ID: value`
    fn read_keyed(&mut self, mut key: Symbol) -> Option<u32> {
        let l = self.start();
        self.skip();
        while let Tok::Word(word) = self.current_token() {
            key = self.b.join_key(key, word);
            self.skip();
        }
        let spaced = match self.current_token() {
            Tok::Equal => {
                let spaced = self.start() > self.end();
                self.skip();
                spaced
            }
            Tok::Colon => {
                self.skip();
                self.start() > self.end()
            }
            _ => return None,
        };
        let start = self.start();
        let count = match self.current_token() {
            Tok::Quoted(text) => {
                self.skip();
                self.b.push_item(ValueSyntax::Text(text), start, self.end())
            }
            _ => self.read_plain_item()?,
        };
        Some(self.b.set_key(key, spaced, count, l))
    }

    /// A value without a key.
    fn read_plain_item(&mut self) -> Option<u32> {
        let l = self.start();
        let value = match (self.current_token(), self.token_ahead(1)) {
            (Tok::Domain(domain), _) => {
                self.skip();
                ValueSyntax::Domain(domain)
            }
            (Tok::Stream, _) => return self.read_stream_item(),
            (Tok::Word(word), Tok::Int(number)) if self.token_ahead(2) == Tok::LParen => {
                self.read_nested(word, number)?
            }
            (Tok::Word(word), Tok::Int(_)) => return self.read_handle_item(word),
            (Tok::LParen, Tok::Int(_)) if matches!(self.token_ahead(2), Tok::Int(_)) => self.read_team()?,
            _ => {
                let expr = self.read_expr()?;
                self.b.expr_value(expr)
            }
        };
        Some(self.b.push_item(value, l, self.end()))
    }

    /// `Stream i`
    fn read_stream_item(&mut self) -> Option<u32> {
        let l = self.start();
        self.expect(Tok::Stream)?;
        let stream = self.read_expr()?;
        Some(self.b.push_item(ValueSyntax::Stream(stream), l, self.end()))
    }

    /// `Communication 39`, of which the word is next.
    fn read_handle_item(&mut self, word: Symbol) -> Option<u32> {
        let l = self.start();
        self.skip();
        let Tok::Int(number) = self.current_token() else { return None };
        u32::try_from(number).ok()?;
        self.skip();
        let value = self.b.handle_value(word, number, l, self.end());
        Some(self.b.push_item(value, l, self.end()))
    }

    /// `P2PCommunication 37 ( .. )`
    fn read_nested(&mut self, word: Symbol, number: i64) -> Option<ValueSyntax> {
        u32::try_from(number).ok()?;
        let l = self.start();
        self.skip();
        let head = StmtHead::new(word, l, self.end());
        self.skip();
        let args = self.read_list(Tok::RParen)?;
        Some(self.b.nest_statement(head, number, args, l, self.end()))
    }

    /// `(0 1 2)`, `(0 1 ...)`
    fn read_team(&mut self) -> Option<ValueSyntax> {
        self.skip();
        let mut count = 0;
        while let Tok::Int(member) = self.current_token() {
            let l = self.start();
            self.skip();
            count += self.b.push_member(member, l, self.end());
        }
        let truncated = self.expect(Tok::Ellipsis).is_some();
        self.expect(Tok::RParen)?;
        Some(ValueSyntax::Team(self.b.close_list(count), truncated))
    }

    // ---- expressions ----

    fn read_expr(&mut self) -> Option<ExprId> {
        let mut left = self.read_operand()?;
        while let Tok::Infix(op) | Tok::Both(op) = self.current_token() {
            self.skip();
            let right = self.read_operand()?;
            left = self.b.infix_expr(left, op, right);
        }
        Some(left)
    }

    fn read_operand(&mut self) -> Option<ExprId> {
        let l = self.start();
        let (Tok::Prefix(op) | Tok::Both(op)) = self.current_token() else { return self.read_postfix() };
        self.skip();
        let operand = self.read_operand()?;
        Some(self.b.prefix_expr(op, operand, l, self.end()))
    }

    fn read_postfix(&mut self) -> Option<ExprId> {
        let l = self.start();
        let mut expr = self.read_atom()?;
        loop {
            match self.current_token() {
                Tok::LBracket => {
                    self.skip();
                    let index = self.read_expr()?;
                    self.expect(Tok::RBracket)?;
                    expr = self.b.index(expr, index, l, self.end());
                }
                Tok::Field(field) => {
                    self.skip();
                    expr = self.b.field_expr(expr, field, l, self.end());
                }
                _ => return Some(expr),
            }
        }
    }

    fn read_atom(&mut self) -> Option<ExprId> {
        let (l, tok) = (self.start(), self.current_token());
        match tok {
            Tok::LBrace => {
                let list = self.read_list(Tok::RBrace)?;
                return Some(self.b.braces_expr(list, l, self.end()));
            }
            Tok::Word(name) | Tok::Cast(name) if self.token_ahead(1) == Tok::LParen => {
                self.skip();
                let args = self.read_list(Tok::RParen)?;
                return Some(self.b.call_expr(name, args, l, self.end()));
            }
            _ => self.skip(),
        }
        let r = self.end();
        Some(match tok {
            Tok::Tensor(tensor) => self.b.tensor_expr(tensor, l, r),
            Tok::Word(name) => self.b.name_expr(name, l, r),
            Tok::Int(number) => self.b.int_expr(number, l, r),
            Tok::Hex(number) => self.b.hex_expr(number, l, r),
            Tok::Float(text) => self.b.float_expr(text, l, r),
            Tok::Bool(value, capital) => self.b.bool_expr(value, capital, l, r),
            Tok::Typed(dtype, text) => self.b.typed_expr(dtype, text, l, r),
            Tok::LParen => {
                let inner = self.read_expr()?;
                self.expect(Tok::RParen)?;
                self.b.group_expr(inner, l, self.end())
            }
            _ => return None,
        })
    }
}
