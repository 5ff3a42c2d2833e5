//! Types of tensors.

use super::ast::{AxisSyntax, ExprNode, NameSyntax, NodeRange, TypeId, TypeSyntax};
use super::expr::Operand;
use super::known::{KnownWord, known_word};
use super::parser::{Parsed, Parser};
use super::token::LineTok;
use crate::span::Span;

impl Parser<'_> {
    pub(super) fn parse_type(&mut self) -> Parsed<TypeId> {
        if self.here() == LineTok::LBracket {
            return self.parse_axes_first();
        }
        let dtype = match self.qualified_dtype() {
            Some(dtype) => dtype,
            None => self.parse_element_type()?,
        };
        let memory = match self.skip(LineTok::Dot) {
            true => Some(self.parse_name("a memory such as `l`")?),
            false => None,
        };
        match self.here() {
            LineTok::LBracket => {
                let axes = self.parse_axes(LineTok::RBracket)?;
                self.finish_type(dtype, memory, axes)
            }
            LineTok::LParen => {
                let axes = self.parse_axes_in_parentheses(dtype.span)?;
                self.finish_type(dtype, memory, axes)
            }
            LineTok::Op(operator) if self.symbol_text(operator) == "<" => self.parse_angle_type(dtype.span),
            _ => Err(self.report_unexpected("`[`", "a type is an element type and axes: `f32[m, n]`")),
        }
    }

    /// A type of an element type and axes, and what follows them.
    pub(super) fn finish_type(
        &mut self,
        dtype: NameSyntax,
        memory: Option<NameSyntax>,
        axes: NodeRange,
    ) -> Parsed<TypeId> {
        if self.here() == LineTok::LBracket {
            return Err(self.report_more_brackets(dtype.span));
        }
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

    /// A word, or a type of kernels verbatim.
    fn parse_element_type(&mut self) -> Parsed<NameSyntax> {
        match self.here() {
            LineTok::Verbatim(name) => Ok(NameSyntax { name, span: self.next().span }),
            _ => self.parse_name("an element type such as `f32`"),
        }
    }

    /// The axes in brackets of which this is the closing one.
    pub(super) fn parse_axes(&mut self, closing: LineTok) -> Parsed<NodeRange> {
        let open = self.open_bracket()?;
        let first = self.scratch.axes.len();
        while self.here() != closing {
            let axis = self.parse_axis()?;
            self.scratch.axes.push(axis);
            if self.here() == LineTok::Equals && matches!(self.quote(axis.span).as_str(), "x" | "y" | "z" | "st") {
                let axis = self.quote(axis.span);
                return Err(self.report_unexpected("`,` or `]`", format!("a spread axis is written `{axis}:4`")));
            }
            if !self.skip(LineTok::Comma) {
                break;
            }
        }
        self.close(closing, open)?;
        let start = self.file.axes.len() as u32;
        self.file.axes.extend(self.scratch.axes.drain(first..));
        Ok(NodeRange { start, end: self.file.axes.len() as u32 })
    }

    fn parse_suffixes(&mut self, ty: &mut TypeSyntax) -> Parsed<()> {
        loop {
            match self.here() {
                LineTok::Name(symbol) => match (known_word(symbol), self.lookahead()) {
                    (Some(word @ (KnownWord::Order | KnownWord::Logical)), LineTok::LParen) => {
                        self.next();
                        let (items, _) = self.parse_items(LineTok::RParen)?;
                        *(if word == KnownWord::Order { &mut ty.order } else { &mut ty.logical }) = Some(items);
                    }
                    (Some(KnownWord::Split), _) => {
                        self.next();
                        ty.split = true;
                    }
                    _ => return Ok(()),
                },
                LineTok::Verbatim(text) => {
                    self.next();
                    ty.positions = Some(text);
                }
                LineTok::At => {
                    self.next();
                    ty.mesh = Some(self.parse_name("the name of a mesh, or `all`")?);
                }
                _ => return Ok(()),
            }
        }
    }

    /// `r.x:4`, `b.1 ex n`, or a domain verbatim.
    pub(super) fn parse_axis(&mut self) -> Parsed<AxisSyntax> {
        let start = self.peek().span.start;
        let (mut iter, mut parallel) = (None, None);
        let extent = if let Some((word, value, span)) = self.numbered_axis() {
            self.next();
            iter = Some(word);
            let first = Operand { id: self.add_expr(ExprNode::Int(value), span), height: 0 };
            let base = self.parse_postfix(first)?;
            self.parse_operators_after(base, 0)?.id
        } else {
            if let (LineTok::Name(name), LineTok::Dot) = (self.here(), self.lookahead())
                && matches!(self.symbol_text(name), "r" | "b" | "i")
            {
                iter = Some(NameSyntax { name, span: self.next().span });
                self.next();
            }
            if let (LineTok::Name(name), LineTok::Colon) = (self.here(), self.lookahead()) {
                parallel = Some(NameSyntax { name, span: self.next().span });
                self.next();
            }
            self.parse_expr()?
        };
        let expanded = if self.skip_word(KnownWord::Ex) { Some(self.parse_expr()?) } else { None };
        Ok(AxisSyntax { span: self.span_from(start), iter, parallel, extent, expanded })
    }

    /// `b` and `1` of a token `b.1`, which the lexer takes for a name.
    fn numbered_axis(&mut self) -> Option<(NameSyntax, i64, Span)> {
        let LineTok::Name(symbol) = self.here() else { return None };
        let (iter, number) = self.symbol_text(symbol).split_once('.')?;
        let value = number.parse::<i64>().ok().filter(|_| matches!(iter, "r" | "b" | "i"))?;
        let span = self.peek().span;
        let (start, dot) = (span.start as usize, span.start as usize + iter.len());
        let name = self.add_string(&self.text[start..dot]);
        Some((NameSyntax { name, span: Span::new(start, dot) }, value, Span::new(dot + 1, span.end as usize)))
    }
}
