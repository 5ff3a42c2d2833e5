//! Expressions.

use super::ast::{ArgNode, ExprId, ExprNode, IndexItem, NameSyntax, NodeRange};
use super::known::{KnownWord, infix_level, infix_symbol, is_prefix, known_word};
use super::parser::{Failed, Parsed, Parser};
use super::token::{LineTok, LineToken};
use crate::ast::Symbol;
use crate::nesting::MAX_DEPTH;
use crate::span::Span;

/// The height that a call, an index or a field adds to an expression, as in the printed form.
const POSTFIX_HEIGHT: u32 = 2;
/// The height that `wrap(e, n)` adds, which is printed with three operators.
const WRAP_HEIGHT: u32 = 4;

/// An expression and the brackets that it is printed with at its deepest place.
#[derive(Clone, Copy)]
pub(super) struct Operand {
    pub(super) id: ExprId,
    pub(super) height: u32,
}

/// A comparison by order, `a < b`, without brackets around it.
struct Comparison {
    operator: Symbol,
    left: ExprId,
    right: ExprId,
}

/// The direction of a comparison by order: `<` and `<=` ascend.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Ascending,
    Descending,
}

/// The direction of an infix operator, if it compares by order.
fn direction_of(symbol: Symbol) -> Option<Direction> {
    let directions = [
        ("<", Direction::Ascending),
        ("<=", Direction::Ascending),
        (">", Direction::Descending),
        (">=", Direction::Descending),
    ];
    let found = directions.into_iter().find(|(text, _)| infix_symbol(text) == Some(symbol));
    found.map(|(_, direction)| direction)
}

/// An infix operator that comes next.
struct InfixHere {
    token: LineToken,
    symbol: Symbol,
    level: u8,
    /// True if it is an operator of another language, which is to be reported.
    is_foreign: bool,
}

impl Parser<'_> {
    pub(super) fn parse_expr(&mut self) -> Parsed<ExprId> {
        Ok(self.parse_operators(0)?.id)
    }

    /// Operands and the operators between them, from a precedence on.
    fn parse_operators(&mut self, level: u8) -> Parsed<Operand> {
        let first = self.parse_operand()?;
        self.parse_operators_after(first, level)
    }

    /// The operators after an operand, and their right sides.
    pub(super) fn parse_operators_after(&mut self, mut left: Operand, level: u8) -> Parsed<Operand> {
        while let Some(infix) = self.infix_here().filter(|infix| infix.level >= level) {
            self.next();
            let right = self.parse_operators(infix.level + 1)?;
            let node = match infix.is_foreign {
                false => ExprNode::Binary(infix.symbol, left.id, right.id),
                true => self.read_foreign_infix(&infix, left.id, right.id),
            };
            let span = self.file.expr_span(left.id).join(self.file.expr_span(right.id));
            self.check_chain(infix.symbol, left.id, right.id, level);
            left = self.add_operand(node, span, left.height.max(right.height) + 1)?;
        }
        let ends_line = self.stmt.brackets > 0 && self.peek().starts_line();
        if ends_line && self.report_division_in_brackets() {
            return Err(Failed);
        }
        Ok(left)
    }

    fn bare_comparison(&self, id: ExprId) -> Option<Comparison> {
        match *self.file.expr(id) {
            ExprNode::Binary(operator, left, right) => {
                direction_of(operator).map(|_| Comparison { operator, left, right })
            }
            _ => None,
        }
    }

    /// True if a comparison and the operator after it are a range in other languages: `a < b <= c`.
    fn is_chain(&self, inner: &Comparison, infix: Symbol) -> bool {
        direction_of(inner.operator) == direction_of(infix)
    }

    /// `a < b < c` compares a truth value, as in C, and is an error: elsewhere it means `a < b` and `b < c`. Brackets
    /// decide. Comparisons that cannot be a range mean the same as in C: `a < b == c`, `a < b > c`.
    fn check_chain(&mut self, infix: Symbol, left: ExprId, right: ExprId, level: u8) {
        let Some(inner) = self.bare_comparison(left).filter(|inner| self.is_chain(inner, infix)) else { return };
        let first = self.bare_comparison(inner.left);
        if first.as_ref().is_some_and(|first| self.is_chain(first, inner.operator)) {
            // Reported with the first two.
            return;
        }
        let text = |id: ExprId| &self.text[self.file.expr_span(id).as_usize_range()];
        let (operator, shared) = (self.symbol_text(infix), text(inner.right));
        let chain = format!("{} && {shared} {operator} {}", text(left), text(right));
        let span = self.file.expr_span(left).join(self.file.expr_span(right));
        // A third comparison is not rewritten. Operators around it may bind more tightly than `&&`.
        let and = infix_symbol("&&").and_then(infix_level).unwrap_or(0);
        let next = self.infix_here();
        let is_longer = first.is_some() || next.as_ref().is_some_and(|next| direction_of(next.symbol).is_some());
        let is_inner = level > and || next.is_some_and(|next| next.level > and);
        let meant = if is_inner && !is_longer { format!("({chain})") } else { chain };
        self.report_chain(&meant, !is_longer, span);
    }

    fn add_operand(&mut self, node: ExprNode, span: Span, height: u32) -> Parsed<Operand> {
        if height > MAX_DEPTH {
            return Err(self.report_depth());
        }
        Ok(Operand { id: self.add_expr(node, span), height })
    }

    fn read_foreign_infix(&mut self, infix: &InfixHere, left: ExprId, right: ExprId) -> ExprNode {
        self.report_infix(infix.token, left, right);
        match infix.token.tok {
            LineTok::Name(_) => ExprNode::Binary(infix.symbol, left, right),
            _ => ExprNode::Error,
        }
    }

    /// The infix operator that is next.
    fn infix_here(&self) -> Option<InfixHere> {
        let token = self.peek();
        let symbol = match self.here() {
            LineTok::Op(symbol) => symbol,
            LineTok::At | LineTok::Name(_) => {
                let symbol = infix_symbol(self.foreign_infix(token)?)?;
                return Some(InfixHere { token, symbol, level: infix_level(symbol)?, is_foreign: true });
            }
            _ => return None,
        };
        let next = self.stream.window[1];
        if next.tok == LineTok::Equals && next.span.start == token.span.end {
            // `x += 1` is answered as a statement.
            return None;
        }
        Some(InfixHere { token, symbol, level: infix_level(symbol)?, is_foreign: false })
    }

    fn parse_operand(&mut self) -> Parsed<Operand> {
        let token = self.peek();
        match self.here() {
            LineTok::Op(symbol) => self.parse_prefix(token, symbol),
            LineTok::Name(symbol) if known_word(symbol) == Some(KnownWord::Not) => self.parse_not(),
            _ => {
                let first = self.parse_atom()?;
                let base = self.parse_postfix(first)?;
                self.parse_power(base)
            }
        }
    }

    /// `a ** b`, an error. As in Python it binds more tightly than an operator in front of `a`; `b` may have a sign, or
    /// be a power.
    fn parse_power(&mut self, base: Operand) -> Parsed<Operand> {
        if self.here() != LineTok::Power {
            return Ok(base);
        }
        let token = self.next();
        self.enter()?;
        let exponent = self.parse_operand()?;
        self.leave();
        self.report_infix(token, base.id, exponent.id);
        let span = self.file.expr_span(base.id).join(self.file.expr_span(exponent.id));
        self.add_operand(ExprNode::Error, span, base.height.max(exponent.height) + 1)
    }

    fn parse_prefix(&mut self, token: LineToken, symbol: Symbol) -> Parsed<Operand> {
        if !is_prefix(symbol) {
            let before = self.text.get(..token.span.start as usize).unwrap_or_default();
            let rest = self.text.get(token.span.start as usize..).unwrap_or_default();
            if before.ends_with('<') && (rest.starts_with("<<") || before.ends_with("<<")) {
                return Err(self.report_launch_brackets(token.span));
            }
            if let Some(failed) = self.report_sigil() {
                return Err(failed);
            }
            return Err(self.report_unexpected("an operand", "an operator stands between two operands"));
        }
        self.next();
        // A postfix binds more tightly than the sign, as in C.
        let is_base = matches!(self.stream.window[1].tok, LineTok::Power | LineTok::LBracket | LineTok::Dot);
        if let (LineTok::Int(value), true, false) = (self.here(), infix_level(symbol).is_some(), is_base) {
            let span = token.span.join(self.next().span);
            return self.add_operand(ExprNode::Int(value.wrapping_neg()), span, 0);
        }
        self.enter()?;
        let operand = self.parse_operand()?;
        self.leave();
        let span = token.span.join(self.file.expr_span(operand.id));
        self.add_operand(ExprNode::Unary(symbol, operand.id), span, operand.height + 1)
    }

    /// `not a`: an error, and the operand, which may be a comparison.
    fn parse_not(&mut self) -> Parsed<Operand> {
        let span = self.next().span;
        self.enter()?;
        let first = self.parse_operand()?;
        let comparison = infix_symbol("==").and_then(infix_level).unwrap_or(0);
        let operand = self.parse_operators_after(first, comparison)?;
        self.leave();
        let text = self.quote_expr(operand.id);
        let note = match self.file.expr(operand.id) {
            ExprNode::Binary(..) => format!("write `!({text})`"),
            ExprNode::Name(_) => format!("write `!{text}`, or `{text} == 0` for a number"),
            _ => format!("write `!{text}`"),
        };
        self.report_foreign(span, "`not` is no operator", note);
        Ok(operand)
    }

    pub(super) fn parse_postfix(&mut self, mut base: Operand) -> Parsed<Operand> {
        loop {
            match self.here() {
                LineTok::LBracket => {
                    let (items, height) = self.parse_index(base.id)?;
                    let span = self.file.expr_span(base.id).join(self.last_span());
                    let height = (base.height + POSTFIX_HEIGHT).max(height + POSTFIX_HEIGHT);
                    base = self.add_operand(ExprNode::Index(base.id, items), span, height)?;
                }
                LineTok::Dot => {
                    self.next();
                    let name = self.parse_name("the name of a field")?;
                    base = self.finish_field(base, name)?;
                }
                _ => return Ok(base),
            }
        }
    }

    /// `d.x`, or a call whose name has a dot (`Set.Permute(..)`).
    fn finish_field(&mut self, base: Operand, name: NameSyntax) -> Parsed<Operand> {
        let span = self.file.expr_span(base.id).join(name.span);
        if self.symbol_text(name.name).contains('.') {
            let message = format!("`{}` is no field: a field has no number behind it", self.symbol_text(name.name));
            return Err(self.report_noted(crate::error::Code::Unexpected, name.span, message, "remove the number"));
        }
        if let (LineTok::LParen, ExprNode::Name(first)) = (self.here(), *self.file.expr(base.id)) {
            let joined = format!("{}.{}", self.symbol_text(first), self.symbol_text(name.name));
            let callee = NameSyntax { name: self.add_string(&joined), span };
            return self.parse_call(callee);
        }
        self.add_operand(ExprNode::Field(base.id, name), span, base.height + POSTFIX_HEIGHT)
    }

    fn parse_atom(&mut self) -> Parsed<Operand> {
        let token = self.peek();
        let expr = match self.here() {
            LineTok::Int(value) if value < 0 => return Err(self.report_large_number(token.span)),
            LineTok::Int(value) => ExprNode::Int(value),
            LineTok::Hex(value) => ExprNode::Hex(value),
            LineTok::Float(text) => ExprNode::Float(text),
            LineTok::Verbatim(text) => ExprNode::Verbatim(text),
            LineTok::Name(name) => {
                self.next();
                return self.finish_name(NameSyntax { name, span: token.span });
            }
            LineTok::LParen => return self.parse_parens(),
            LineTok::LBracket => {
                let (items, height) = self.parse_items(LineTok::RBracket)?;
                return self.add_operand(ExprNode::List(items), self.span_from(token.span.start), height);
            }
            LineTok::LBrace => {
                let (items, height) = self.parse_items(LineTok::RBrace)?;
                let height = height + POSTFIX_HEIGHT;
                return self.add_operand(ExprNode::Braces(items), self.span_from(token.span.start), height);
            }
            _ => return Err(self.report_no_operand()),
        };
        self.next();
        Ok(Operand { id: self.add_expr(expr, token.span), height: 0 })
    }

    #[cold]
    fn report_no_operand(&mut self) -> Failed {
        if self.here() == LineTok::Colon
            && let Some(failed) = self.report_slice_colon()
        {
            return failed;
        }
        let note = "an operand is a number, a name, a call `f(a, b)` or a slice `A[i]`";
        self.report_unexpected("an operand", note)
    }

    fn finish_name(&mut self, name: NameSyntax) -> Parsed<Operand> {
        if self.here() == LineTok::LParen {
            return self.parse_call(name);
        }
        let expr = match known_word(name.name) {
            Some(KnownWord::True) => ExprNode::Bool(true),
            Some(KnownWord::False) => ExprNode::Bool(false),
            Some(word @ (KnownWord::CapitalTrue | KnownWord::CapitalFalse)) => {
                self.report_truth_value(name.name, name.span);
                ExprNode::Bool(word == KnownWord::CapitalTrue)
            }
            _ => ExprNode::Name(name.name),
        };
        Ok(Operand { id: self.add_expr(expr, name.span), height: 0 })
    }

    /// Skips an opening bracket.
    pub(super) fn open_bracket(&mut self) -> Parsed<Span> {
        self.enter()?;
        self.stmt.brackets += 1;
        Ok(self.next().span)
    }

    fn parse_parens(&mut self) -> Parsed<Operand> {
        let open = self.open_bracket()?;
        let inner = self.parse_operators(0)?;
        if self.here() == LineTok::Equals {
            return Err(self.report_comparison());
        }
        if self.here() == LineTok::Comma {
            return self.parse_tuple(open, inner);
        }
        self.close(LineTok::RParen, open)?;
        let id = self.add_expr(ExprNode::Paren(inner.id), self.span_from(open.start));
        Ok(Operand { id, height: inner.height })
    }

    /// `(1, 0)`, an error, and read as `[1, 0]`: the first comma is next.
    fn parse_tuple(&mut self, open: Span, item: Operand) -> Parsed<Operand> {
        let first = self.scratch.exprs.len();
        self.scratch.exprs.push(item.id);
        let mut height = item.height;
        while self.skip(LineTok::Comma) && self.here() != LineTok::RParen {
            let item = self.parse_operators(0)?;
            self.scratch.exprs.push(item.id);
            height = height.max(item.height);
        }
        self.close(LineTok::RParen, open)?;
        let span = self.span_from(open.start);
        let items = self.finish_list(first);
        self.report_tuple(items, span);
        self.add_operand(ExprNode::List(items), span, height)
    }

    /// A list in brackets of any kind; the opening one is next.
    pub(super) fn parse_items(&mut self, close: LineTok) -> Parsed<(NodeRange, u32)> {
        let open = self.open_bracket()?;
        let first = self.scratch.exprs.len();
        let mut height = 0;
        while self.here() != close {
            let item = self.parse_operators(0)?;
            self.scratch.exprs.push(item.id);
            height = height.max(item.height);
            if !self.skip(LineTok::Comma) {
                break;
            }
        }
        self.close(close, open)?;
        Ok((self.finish_list(first), height))
    }

    fn parse_index(&mut self, base: ExprId) -> Parsed<(NodeRange, u32)> {
        let open = self.open_bracket()?;
        let first = self.scratch.items.len();
        let mut height = 0;
        while self.here() != LineTok::RBracket {
            let (item, of_item) = self.parse_index_item(base)?;
            self.scratch.items.push(item);
            height = height.max(of_item);
            if !self.skip(LineTok::Comma) {
                break;
            }
        }
        if self.here() != LineTok::RBracket {
            return Err(self.report_open_index(base, open));
        }
        self.close(LineTok::RBracket, open)?;
        if self.scratch.items.len() == first {
            return Err(self.report_empty_index(base, open));
        }
        let start = self.file.index_items.len() as u32;
        self.file.index_items.extend(self.scratch.items.drain(first..));
        Ok((NodeRange { start, end: self.file.index_items.len() as u32 }, height))
    }

    fn parse_index_item(&mut self, base: ExprId) -> Parsed<(IndexItem, u32)> {
        if self.here() == LineTok::Colon {
            let span = self.next().span;
            if !matches!(self.here(), LineTok::Comma | LineTok::RBracket) {
                return Err(self.report_index_range(base, span));
            }
            return Ok((IndexItem::All(span), 0));
        }
        let item = self.parse_operators(0)?;
        if self.here() == LineTok::Colon {
            let span = self.peek().span;
            return Err(self.report_index_range(base, span));
        }
        Ok((IndexItem::At(item.id), item.height))
    }

    #[cold]
    fn report_empty_index(&mut self, base: ExprId, open: Span) -> Failed {
        if self.is_printed_tensor(base) {
            return self.report_printed_tensor(base);
        }
        let note = format!("write the number of a slice: `{}[i]`", self.quote_expr(base));
        let span = open.join(self.last_span());
        self.report_noted(crate::error::Code::Unexpected, span, "this index is empty", note)
    }

    /// The arguments of a call whose name was read.
    fn parse_call(&mut self, name: NameSyntax) -> Parsed<Operand> {
        let (range, height) = self.parse_arguments()?;
        let is_wrap = known_word(name.name) == Some(KnownWord::Wrap);
        let height = height + if is_wrap { WRAP_HEIGHT } else { POSTFIX_HEIGHT };
        self.add_operand(ExprNode::Call(name, range), name.span.join(self.last_span()), height)
    }

    /// Arguments in parentheses, of which the opening one is next.
    pub(super) fn parse_argument_list(&mut self) -> Parsed<NodeRange> {
        Ok(self.parse_arguments()?.0)
    }

    fn parse_arguments(&mut self) -> Parsed<(NodeRange, u32)> {
        let open = self.open_bracket()?;
        let first = self.scratch.args.len();
        let mut height = 0;
        while self.here() != LineTok::RParen {
            let (arg, of_arg) = self.parse_arg()?;
            self.scratch.args.push(arg);
            height = height.max(of_arg);
            if !self.skip(LineTok::Comma) {
                break;
            }
        }
        if self.here() == LineTok::Colon && !self.stream.window[1].starts_line() {
            let note = "an argument is `value` or `key=value`";
            return Err(self.report_unexpected("`,` or `)`", note));
        }
        self.close(LineTok::RParen, open)?;
        let start = self.file.args.len() as u32;
        self.file.args.extend(self.scratch.args.drain(first..));
        Ok((NodeRange { start, end: self.file.args.len() as u32 }, height))
    }

    fn parse_arg(&mut self) -> Parsed<(ArgNode, u32)> {
        let first = self.peek();
        let key = match (self.here(), self.lookahead()) {
            (LineTok::Name(name), LineTok::Equals) => {
                self.next();
                self.next();
                Some(NameSyntax { name, span: first.span })
            }
            _ => None,
        };
        let mut value = self.parse_operators(0)?;
        if self.skip(LineTok::Arrow) {
            let target = self.parse_operators(0)?;
            let span = self.file.expr_span(value.id).join(self.file.expr_span(target.id));
            let height = value.height.max(target.height);
            value = Operand { id: self.add_expr(ExprNode::Arrow(value.id, target.id), span), height };
        }
        Ok((ArgNode { span: self.span_from(first.span.start), key, value: value.id }, value.height))
    }
}
