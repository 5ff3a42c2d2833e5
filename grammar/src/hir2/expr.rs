//! Expressions and types.

use super::ast::{ArgNode, AxisSyntax, ExprId, ExprNode, IndexItem, NameSyntax, NodeRange, TypeId, TypeSyntax};
use super::parser::{Failed, Parsed, Parser};
use super::token::{LineTok, LineToken};
use crate::error::{Code, SyntaxError};
use crate::span::Span;

/// Infix operators by precedence, the weakest first, as in C.
const LEVELS: &[&[&str]] = &[
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<", "<=", ">", ">="],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

/// The largest depth of an expression: operators of one level count as well.
const MAX_CHAIN: u32 = 240;

impl Parser<'_> {
    /// Whether the next token belongs to this statement: it is on its line, or a bracket is open.
    pub(super) fn continues(&self) -> bool {
        self.brackets > 0 || !self.peek().starts_line()
    }

    pub(super) fn parse_expr(&mut self) -> Parsed<ExprId> {
        self.enter()?;
        let expr = self.parse_level(0)?;
        self.leave();
        Ok(expr)
    }

    /// Operators from a level on.
    fn parse_level(&mut self, level: usize) -> Parsed<ExprId> {
        let mut left = self.parse_unary()?;
        let mut chain = 0;
        while let Some((symbol, found)) = self.infix_here().filter(|(_, found)| *found >= level) {
            self.next();
            chain += 1;
            if chain > MAX_CHAIN {
                return Err(self.too_deep());
            }
            self.enter()?;
            let right = self.parse_level(found + 1)?;
            self.leave();
            let span = self.file.expr_span(left).join(self.file.expr_span(right));
            left = self.add_expr(ExprNode::Binary(symbol, left, right), span);
        }
        Ok(left)
    }

    fn too_deep(&mut self) -> Failed {
        let span = self.peek().span;
        let error = SyntaxError::new(Code::TooDeep, span, "this expression has too many operators");
        self.report(error.with_note(format!("the limit is {MAX_CHAIN}: give parts of it names of their own")))
    }

    /// The infix operator that is next, and its level.
    fn infix_here(&mut self) -> Option<(crate::ast::Symbol, usize)> {
        if !self.continues() {
            return None;
        }
        let token = self.peek();
        let LineTok::Op(symbol) = token.tok else { return self.foreign_operator(token) };
        let next = self.peek_at(1);
        if next.tok == LineTok::Equals && next.span.start == token.span.end {
            // `x += 1` is answered as a statement.
            return None;
        }
        let text = self.symbol_text(symbol);
        let level = LEVELS.iter().position(|operators| operators.contains(&text))?;
        Some((symbol, level))
    }

    /// An operator of another language: an error, and the operator that is meant.
    fn foreign_operator(&mut self, token: LineToken) -> Option<(crate::ast::Symbol, usize)> {
        let (found, note, meant) = match token.tok {
            LineTok::Power => ("**", "write `pow(a, b)`", "*"),
            LineTok::At if self.peek_at(1).tok != LineTok::End && self.is_product_sign(token) => {
                ("@", "a product is written `matmul(A, B)`", "*")
            }
            LineTok::Name(_) => match self.word(token) {
                "and" => ("and", "write `&&`", "&&"),
                "or" => ("or", "write `||`", "||"),
                _ => return None,
            },
            _ => return None,
        };
        let error = SyntaxError::new(Code::Foreign, token.span, format!("`{found}` is no operator"));
        self.report(error.with_note(note));
        let symbol = self.file.strings.intern(meant);
        let level = LEVELS.iter().position(|operators| operators.contains(&meant))?;
        Some((symbol, level))
    }

    /// Whether an `@` stands between operands, and not before a mesh.
    fn is_product_sign(&self, token: LineToken) -> bool {
        self.text.get(token.span.start as usize..).is_some_and(|rest| rest.starts_with("@ "))
    }

    fn parse_unary(&mut self) -> Parsed<ExprId> {
        let token = self.peek();
        if self.word(token) == "not" && matches!(token.tok, LineTok::Name(_)) {
            let error = SyntaxError::new(Code::Foreign, token.span, "`not` is no operator");
            self.report(error.with_note("write `!`"));
            self.next();
            return self.parse_unary();
        }
        let LineTok::Op(symbol) = token.tok else { return self.parse_postfix() };
        let text = self.symbol_text(symbol).to_owned();
        if !["-", "!", "~"].contains(&text.as_str()) {
            return Err(self.unexpected("an operand", "an operator stands between two operands"));
        }
        self.next();
        let number = self.peek();
        if let (LineTok::Int(value), "-") = (number.tok, text.as_str()) {
            self.next();
            let span = token.span.join(number.span);
            return Ok(self.add_expr(ExprNode::Int(value.wrapping_neg()), span));
        }
        self.enter()?;
        let operand = self.parse_unary()?;
        self.leave();
        let span = token.span.join(self.file.expr_span(operand));
        Ok(self.add_expr(ExprNode::Unary(symbol, operand), span))
    }

    fn parse_postfix(&mut self) -> Parsed<ExprId> {
        let mut base = self.parse_atom()?;
        let mut chain = 0;
        while self.continues() {
            chain += 1;
            if chain > MAX_CHAIN {
                return Err(self.too_deep());
            }
            match self.peek().tok {
                LineTok::LBracket => {
                    let items = self.parse_index()?;
                    let span = self.file.expr_span(base).join(self.last_span());
                    base = self.add_expr(ExprNode::Index(base, items), span);
                }
                LineTok::Dot => {
                    self.next();
                    let name = self.name("the name of a field")?;
                    let span = self.file.expr_span(base).join(name.span);
                    base = self.finish_field(base, name, span)?;
                }
                _ => break,
            }
        }
        Ok(base)
    }

    /// `d.x`, or a call whose name has a dot (`Set.Permute(..)`).
    fn finish_field(&mut self, base: ExprId, name: NameSyntax, span: Span) -> Parsed<ExprId> {
        if let (LineTok::LParen, ExprNode::Name(first)) = (self.peek().tok, *self.file.expr(base)) {
            let joined = format!("{}.{}", self.symbol_text(first), self.symbol_text(name.name));
            let callee = NameSyntax { name: self.file.strings.intern(&joined), span };
            return self.parse_call(callee);
        }
        Ok(self.add_expr(ExprNode::Field(base, name), span))
    }

    fn parse_atom(&mut self) -> Parsed<ExprId> {
        let token = self.peek();
        let expr = match token.tok {
            LineTok::Int(value) => {
                if value < 0 {
                    let error = SyntaxError::new(Code::Number, token.span, "this number does not fit 64 bits");
                    self.report(error);
                }
                ExprNode::Int(value)
            }
            LineTok::Hex(value) => ExprNode::Hex(value),
            LineTok::Float(text) => ExprNode::Float(text),
            LineTok::Verbatim(text) => ExprNode::Verbatim(text),
            LineTok::Name(name) => {
                self.next();
                return self.finish_name(NameSyntax { name, span: token.span });
            }
            LineTok::LParen => return self.parse_parens(),
            LineTok::LBracket => {
                let (items, span) = self.parse_items(LineTok::RBracket, "]")?;
                return Ok(self.add_expr(ExprNode::List(items), span));
            }
            LineTok::LBrace => {
                let (items, span) = self.parse_items(LineTok::RBrace, "}")?;
                return Ok(self.add_expr(ExprNode::Braces(items), span));
            }
            LineTok::At => {
                let error = SyntaxError::new(Code::Foreign, token.span, "`@` is no operator");
                return Err(
                    self.report(error.with_note("a product is written `matmul(A, B)`; `@mesh` stands behind a type"))
                );
            }
            LineTok::Quoted => {
                let error = SyntaxError::new(Code::Foreign, token.span, "the language has no texts in quotes");
                return Err(self.report(error.with_note("words are written without quotes: `via=CUDA`")));
            }
            _ => {
                return Err(
                    self.unexpected("an operand", "an operand is a number, a name, a call `f(a, b)` or a slice `A[i]`")
                );
            }
        };
        self.next();
        Ok(self.add_expr(expr, token.span))
    }

    fn finish_name(&mut self, name: NameSyntax) -> Parsed<ExprId> {
        if self.continues() && self.is(LineTok::LParen) {
            return self.parse_call(name);
        }
        let expr = match self.symbol_text(name.name) {
            "true" => ExprNode::Bool(true),
            "false" => ExprNode::Bool(false),
            "True" | "False" => {
                let word = self.symbol_text(name.name).to_owned();
                let error = SyntaxError::new(Code::Foreign, name.span, format!("`{word}` is no truth value"));
                self.report(error.with_note(format!("write `{}`", word.to_lowercase())));
                ExprNode::Bool(word == "True")
            }
            _ => ExprNode::Name(name.name),
        };
        Ok(self.add_expr(expr, name.span))
    }

    fn parse_parens(&mut self) -> Parsed<ExprId> {
        let open = self.next().span;
        self.brackets += 1;
        let inner = self.parse_expr()?;
        self.close(LineTok::RParen, ")", open)?;
        self.brackets -= 1;
        Ok(self.add_expr(ExprNode::Paren(inner), open.join(self.last_span())))
    }

    fn parse_items(&mut self, close: LineTok, text: &str) -> Parsed<(NodeRange, Span)> {
        self.enter()?;
        let open = self.next().span;
        self.brackets += 1;
        let mut items = Vec::new();
        while !self.is(close) {
            items.push(self.parse_expr()?);
            if !self.skip(LineTok::Comma) {
                break;
            }
        }
        self.close(close, text, open)?;
        self.brackets -= 1;
        self.leave();
        Ok((self.add_list(&items), open.join(self.last_span())))
    }

    fn parse_index(&mut self) -> Parsed<NodeRange> {
        self.enter()?;
        let open = self.next().span;
        self.brackets += 1;
        let mut items = Vec::new();
        while !self.is(LineTok::RBracket) {
            if self.is(LineTok::Colon) {
                let span = self.next().span;
                items.push(IndexItem::All(span));
                if !matches!(self.peek().tok, LineTok::Comma | LineTok::RBracket) {
                    return Err(self.report_range(span));
                }
            } else {
                items.push(IndexItem::At(self.parse_expr()?));
                if self.is(LineTok::Colon) {
                    let span = self.peek().span;
                    return Err(self.report_range(span));
                }
            }
            if !self.skip(LineTok::Comma) {
                break;
            }
        }
        self.close(LineTok::RBracket, "]", open)?;
        self.brackets -= 1;
        self.leave();
        if items.is_empty() {
            let error = SyntaxError::new(Code::Unexpected, open.join(self.last_span()), "this index is empty");
            return Err(self.report(error.with_note("write the number of a slice: `A[i]`")));
        }
        let start = self.file.index_items.len() as u32;
        self.file.index_items.extend(items);
        Ok(NodeRange { start, end: self.file.index_items.len() as u32 })
    }

    fn report_range(&mut self, span: Span) -> Failed {
        let error = SyntaxError::new(Code::Foreign, span, "an index is one number, not a range");
        self.report(error.with_note(
            "`A[i]` is slice i, `A[:, i]` slice i of the second axis; a range is an op: `slice(A, ranges=[[0, 4, 1]])`",
        ))
    }

    /// The arguments of a call whose name was read.
    pub(super) fn parse_call(&mut self, name: NameSyntax) -> Parsed<ExprId> {
        self.enter()?;
        let open = self.next().span;
        self.brackets += 1;
        let mut args = Vec::new();
        while !self.is(LineTok::RParen) {
            args.push(self.parse_arg()?);
            if !self.skip(LineTok::Comma) {
                break;
            }
        }
        self.close(LineTok::RParen, ")", open)?;
        self.brackets -= 1;
        self.leave();
        let start = self.file.args.len() as u32;
        self.file.args.extend(args);
        let range = NodeRange { start, end: self.file.args.len() as u32 };
        Ok(self.add_expr(ExprNode::Call(name, range), name.span.join(self.last_span())))
    }

    fn parse_arg(&mut self) -> Parsed<ArgNode> {
        let first = self.peek();
        let key = match (first.tok, self.peek_at(1).tok) {
            (LineTok::Name(name), LineTok::Equals) => {
                self.next();
                self.next();
                Some(NameSyntax { name, span: first.span })
            }
            _ => None,
        };
        let mut value = self.parse_expr()?;
        if self.skip(LineTok::Arrow) {
            let target = self.parse_expr()?;
            let span = self.file.expr_span(value).join(self.file.expr_span(target));
            value = self.add_expr(ExprNode::Arrow(value, target), span);
        }
        Ok(ArgNode { span: first.span.join(self.last_span()), key, value })
    }

    // Types.

    pub(super) fn parse_type(&mut self) -> Parsed<TypeId> {
        let dtype = self.name("an element type such as `f32`")?;
        let memory = if self.skip(LineTok::Dot) { Some(self.name("a memory such as `l`")?) } else { None };
        if !self.is(LineTok::LBracket) {
            return Err(self.unexpected("`[`", "a type is an element type and axes: `f32[m, n]`"));
        }
        let open = self.next().span;
        self.brackets += 1;
        let mut axes = Vec::new();
        while !self.is(LineTok::RBracket) {
            axes.push(self.parse_axis()?);
            if !self.skip(LineTok::Comma) {
                break;
            }
        }
        self.close(LineTok::RBracket, "]", open)?;
        self.brackets -= 1;
        let start = self.file.axes.len() as u32;
        self.file.axes.extend(axes);
        let axes = NodeRange { start, end: self.file.axes.len() as u32 };
        let mut ty = TypeSyntax {
            span: dtype.span,
            dtype,
            memory,
            axes,
            order: None,
            logical: None,
            split: false,
            positions: None,
            mesh: None,
        };
        self.parse_suffixes(&mut ty)?;
        ty.span = dtype.span.join(self.last_span());
        self.file.types.push(ty);
        Ok(TypeId(self.file.types.len() as u32 - 1))
    }

    fn parse_suffixes(&mut self, ty: &mut TypeSyntax) -> Parsed<()> {
        while self.continues() {
            let token = self.peek();
            match token.tok {
                LineTok::Name(_)
                    if matches!(self.word(token), "order" | "logical") && self.peek_at(1).tok == LineTok::LParen =>
                {
                    let is_order = self.word(token) == "order";
                    self.next();
                    let (items, _) = self.parse_items(LineTok::RParen, ")")?;
                    *(if is_order { &mut ty.order } else { &mut ty.logical }) = Some(items);
                }
                LineTok::Name(_) if self.word(token) == "split" => {
                    self.next();
                    ty.split = true;
                }
                LineTok::Verbatim(text) => {
                    self.next();
                    ty.positions = Some(text);
                }
                LineTok::At => {
                    self.next();
                    ty.mesh = Some(self.name("the name of a mesh, or `all`")?);
                }
                _ => break,
            }
        }
        Ok(())
    }

    /// `r.x:4`, `b.1 ex n`, or a domain verbatim.
    pub(super) fn parse_axis(&mut self) -> Parsed<AxisSyntax> {
        let start = self.peek().span;
        let mut iter = None;
        if matches!(self.peek_at(1).tok, LineTok::Op(_) | LineTok::DotDot) {
            self.split_axis_word();
        } else if let Some((word, value, span)) = self.numbered_axis() {
            self.next();
            let extent = self.add_expr(ExprNode::Int(value), span);
            let expanded = if self.skip_word("ex") { Some(self.parse_expr()?) } else { None };
            return Ok(AxisSyntax {
                span: start.join(self.last_span()),
                iter: Some(word),
                parallel: None,
                extent,
                expanded,
            });
        }
        if let (LineTok::Name(name), LineTok::Dot) = (self.peek().tok, self.peek_at(1).tok)
            && matches!(self.symbol_text(name), "r" | "b" | "i")
        {
            iter = Some(NameSyntax { name, span: self.next().span });
            self.next();
        }
        let mut parallel = None;
        if let (LineTok::Name(name), LineTok::Colon) = (self.peek().tok, self.peek_at(1).tok) {
            parallel = Some(NameSyntax { name, span: self.next().span });
            self.next();
        }
        let extent = self.parse_expr()?;
        let expanded = if self.skip_word("ex") { Some(self.parse_expr()?) } else { None };
        Ok(AxisSyntax { span: start.join(self.last_span()), iter, parallel, extent, expanded })
    }

    /// `b` and `1` of a token `b.1`, which the lexer takes for a name.
    fn numbered_axis(&mut self) -> Option<(NameSyntax, i64, Span)> {
        let token = self.peek();
        let (iter, number) = self.word(token).split_once('.')?;
        let value = number.parse::<i64>().ok().filter(|_| matches!(iter, "r" | "b" | "i"))?;
        let (start, dot) = (token.span.start as usize, token.span.start as usize + iter.len());
        let name = self.file.strings.intern(&self.text[start..dot]);
        let word = NameSyntax { name, span: Span::new(start, dot) };
        Some((word, value, Span::new(dot + 1, token.span.end as usize)))
    }

    /// Puts the three tokens of `b.1` in the place of its one.
    fn split_axis_word(&mut self) {
        let Some((word, value, span)) = self.numbered_axis() else { return };
        let token = self.peek();
        let dot = Span { start: word.span.end, end: span.start };
        let behind = LineToken { tok: LineTok::Dot, span: dot, column: u32::MAX, after_blank: false };
        self.replace_token(&[
            LineToken { tok: LineTok::Name(word.name), span: word.span, ..token },
            behind,
            LineToken { tok: LineTok::Int(value), span, ..behind },
        ]);
    }
}
