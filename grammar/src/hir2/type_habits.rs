//! Answers to types as other languages write them: `f32(m, n)`, `tensor<4x8xf32>`, `[m, n] f32`.

use super::ast::{AxisSyntax, ExprNode, NameSyntax, NodeRange, TypeId};
use super::element_types::other_element_type;
use super::parser::{Parsed, Parser};
use super::token::LineTok;
use crate::error::{Code, SyntaxEdit, SyntaxError};
use crate::span::Span;
use crate::spelling::shorten_text;

/// Modules whose names stand in front of element types in Python.
const MODULES: &[&str] = &["torch", "np", "numpy", "jnp", "tl", "jax"];

impl Parser<'_> {
    /// `torch.float32`, an error: the element type that is meant.
    pub(super) fn qualified_dtype(&mut self) -> Option<NameSyntax> {
        let (LineTok::Name(module), LineTok::Dot) = (self.here(), self.lookahead()) else { return None };
        let LineTok::Name(_) = self.stream.window[2].tok else { return None };
        if !MODULES.contains(&self.symbol_text(module)) {
            return None;
        }
        let start = self.next().span.start;
        self.next();
        let word = self.next().span;
        let meant = dtype_here(&self.text[word.as_usize_range()]).to_owned();
        let span = Span { start, end: word.end };
        let message = format!("`{}` is no element type", self.quote(span));
        let error = SyntaxError::new(Code::Foreign, span, message).with_note(format!("write `{meant}`"));
        self.report(error.with_edit(SyntaxEdit { span, text: meant.clone() }));
        Some(NameSyntax { name: self.add_string(&meant), span })
    }

    /// `f32(m, n)`: the axes are read as if they stood in square brackets.
    #[cold]
    pub(super) fn parse_axes_in_parentheses(&mut self, dtype: Span) -> Parsed<NodeRange> {
        let open = self.peek().span;
        let known = self.errors.items.len();
        let message = format!("expected `[`, found `{}`", self.quote(open));
        self.report_noted(Code::Unexpected, open, message, "the axes of a type stand in square brackets");
        let axes = self.parse_axes(LineTok::RParen)?;
        let inside = &self.text[open.end as usize..self.last_span().start as usize];
        let meant = format!("{}[{}]", &self.text[dtype.as_usize_range()], inside);
        let span = dtype.join(self.last_span());
        if let Some(error) = self.errors.items.get_mut(known) {
            error.notes = vec![format!("write `{}`", shorten_text(&meant))];
            error.edit = Some(SyntaxEdit { span, text: meant });
        }
        Ok(axes)
    }

    /// `tensor<4x8xf32>`, `f32<m, n>`, an error: the `<` is next. The type is read as meant.
    #[cold]
    pub(super) fn parse_angle_type(&mut self, word: Span) -> Parsed<TypeId> {
        let open = self.peek().span;
        let rest = self.rest_of_line().to_owned();
        let inside = rest.get(1..).and_then(|rest| rest.split_once('>')).map(|(inside, _)| inside.trim());
        let Some(inside) = inside.filter(|inside| !inside.is_empty()) else {
            return Err(self.report_unexpected("`[`", "a type is an element type and axes: `f32[m, n]`"));
        };
        let outer = self.text[word.as_usize_range()].to_owned();
        let (dtype, axes) = angle_parts(&outer, inside);
        let meant = format!("{dtype}[{}]", axes.join(", "));
        let close = open.start + rest.find('>').unwrap_or_default() as u32;
        let span = Span { start: word.start, end: close + 1 };
        let error = SyntaxError::new(Code::Foreign, span, "types have their axes in square brackets");
        let error = error.with_note(format!("write `{}`", shorten_text(&meant)));
        self.report(error.with_edit(SyntaxEdit { span, text: meant }));
        while self.peek().span.start < close {
            self.next();
        }
        self.next();
        let dtype = NameSyntax { name: self.add_string(dtype), span };
        let axes = self.add_plain_axes(&axes, span);
        self.finish_type(dtype, None, axes)
    }

    /// Axes that have only a name or a number as their extents.
    fn add_plain_axes(&mut self, axes: &[&str], span: Span) -> NodeRange {
        let start = self.file.axes.len() as u32;
        for axis in axes {
            let node = match axis.parse::<i64>() {
                Ok(extent) => ExprNode::Int(extent),
                Err(_) => ExprNode::Name(self.add_string(axis)),
            };
            let extent = self.add_expr(node, span);
            self.file.axes.push(AxisSyntax { span, iter: None, parallel: None, extent, expanded: None });
        }
        NodeRange { start, end: self.file.axes.len() as u32 }
    }

    /// `[m, n] f32` in the place of `f32[m, n]`, an error: the type is read as meant.
    #[cold]
    pub(super) fn parse_axes_first(&mut self) -> Parsed<TypeId> {
        let open = self.peek().span;
        let rest = self.rest_of_line().to_owned();
        let end = rest.find(']').map_or(rest.len(), |at| at + 1);
        let (axes, after) = rest.split_at(end);
        let word: String = after.trim_start().chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        if word.is_empty() || word == "on" {
            let meant = format!("f32{axes}");
            let note = format!("write `{}`", shorten_text(&meant));
            return Err(self.report_unexpected("an element type such as `f32`", note));
        }
        let dtype = dtype_here(&word).to_owned();
        let meant = format!("{dtype}{axes}");
        let blanks = after.len() - after.trim_start().len();
        let end = open.start + (axes.len() + blanks + word.len()) as u32;
        let edit = SyntaxEdit { span: Span { start: open.start, end }, text: meant.clone() };
        let note = format!("the element type stands first: `{}`", shorten_text(&meant));
        self.report_unexpected_with("an element type such as `f32`", note, edit);
        let axes = self.parse_axes(LineTok::RBracket)?;
        let span = self.next().span;
        let dtype = NameSyntax { name: self.add_string(&dtype), span };
        self.finish_type(dtype, None, axes)
    }
}

/// An element type by its name in another language.
fn dtype_here(word: &str) -> &str {
    other_element_type(word).unwrap_or(word)
}

/// Element type and axes of `tensor<4x?xf32>`, `Tensor<f32>` or `f32<m, n>`.
fn angle_parts<'t>(outer: &'t str, inside: &'t str) -> (&'t str, Vec<&'t str>) {
    if inside.contains(',') || !CONTAINERS.contains(&outer) {
        return (dtype_here(outer), inside.split(',').map(str::trim).collect());
    }
    let parts: Vec<&str> = inside.split('x').map(str::trim).map(|axis| if axis == "?" { "n" } else { axis }).collect();
    match parts.split_last() {
        Some((dtype, axes)) if !axes.is_empty() => (dtype_here(dtype), axes.to_vec()),
        _ => (dtype_here(inside), vec!["m", "n"]),
    }
}

/// Words of other languages in front of `<..>` with an element type in it.
const CONTAINERS: &[&str] = &["tensor", "memref", "vector", "Tensor", "array", "Array", "Ptr"];
