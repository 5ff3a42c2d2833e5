//! Expressions.

use super::{Checked, TreeBuilder, reject, require};
use hostir_grammar::Span;
use hostir_grammar::ast::{ExprId, Symbol};
use hostir_grammar::hir2::ast::{ArgNode, ExprNode, IndexItem, NameSyntax, NodeRange};
use hostir_grammar::hir2::tokens::MAX_DEPTH;

/// The height that a call, an index or a field adds to an expression, as in the printed form.
const POSTFIX_HEIGHT: u32 = 2;
/// The height that `wrap(e, n)` adds.
const WRAP_HEIGHT: u32 = 4;

impl TreeBuilder<'_> {
    fn add_expr(&mut self, node: ExprNode, span: Span, height: u32) -> ExprId {
        self.file.exprs.push((node, span));
        self.heights.push(height);
        ExprId(self.file.exprs.len() as u32 - 1)
    }

    fn add_high(&mut self, node: ExprNode, span: Span, height: u32) -> Checked<ExprId> {
        require(height <= MAX_DEPTH)?;
        Ok(self.add_expr(node, span, height))
    }

    fn height(&self, expr: ExprId) -> u32 {
        self.heights[expr.index()]
    }

    fn greatest_height(&self, exprs: &[ExprId]) -> u32 {
        exprs.iter().map(|expr| self.height(*expr)).max().unwrap_or(0)
    }

    /// A number of at most 63 bits.
    pub fn add_int(&mut self, value: i64, start: u32, end: u32) -> Checked<ExprId> {
        require(value >= 0)?;
        Ok(self.add_expr(ExprNode::Int(value), Span { start, end }, 0))
    }

    /// `-1`
    pub fn add_negative_int(&mut self, value: i64, start: u32, end: u32) -> ExprId {
        self.add_expr(ExprNode::Int(value.wrapping_neg()), Span { start, end }, 0)
    }

    /// `0x1f`
    pub fn add_hex(&mut self, value: u64, start: u32, end: u32) -> ExprId {
        self.add_expr(ExprNode::Hex(value), Span { start, end }, 0)
    }

    /// `0.5`
    pub fn add_float(&mut self, text: Symbol, start: u32, end: u32) -> ExprId {
        self.add_expr(ExprNode::Float(text), Span { start, end }, 0)
    }

    /// `true`
    pub fn add_bool(&mut self, value: bool, start: u32, end: u32) -> ExprId {
        self.add_expr(ExprNode::Bool(value), Span { start, end }, 0)
    }

    /// A name.
    pub fn add_name(&mut self, name: Symbol, start: u32, end: u32) -> ExprId {
        self.add_expr(ExprNode::Name(name), Span { start, end }, 0)
    }

    /// A text in backquotes.
    pub fn add_verbatim(&mut self, text: Symbol, start: u32, end: u32) -> ExprId {
        self.add_expr(ExprNode::Verbatim(text), Span { start, end }, 0)
    }

    /// `( a )`
    pub fn add_paren(&mut self, inner: ExprId, start: u32, end: u32) -> ExprId {
        self.add_expr(ExprNode::Paren(inner), Span { start, end }, self.height(inner))
    }

    /// `[a, b]`
    pub fn add_list_node(&mut self, items: &[ExprId], start: u32, end: u32) -> Checked<ExprId> {
        let range = self.add_list(items);
        self.add_high(ExprNode::List(range), Span { start, end }, self.greatest_height(items))
    }

    /// `{ a, b }`
    pub fn add_braces(&mut self, items: &[ExprId], start: u32, end: u32) -> Checked<ExprId> {
        let range = self.add_list(items);
        self.add_high(ExprNode::Braces(range), Span { start, end }, self.greatest_height(items) + POSTFIX_HEIGHT)
    }

    /// `-a`, `!a`
    pub fn add_unary(&mut self, operator: &str, operand: ExprId, start: u32, end: u32) -> Checked<ExprId> {
        let symbol = self.file.strings.intern(operator);
        self.add_high(ExprNode::Unary(symbol, operand), Span { start, end }, self.height(operand) + 1)
    }

    /// `a + b`; rejects `a < b < c`, which is a range elsewhere.
    pub fn add_binary(&mut self, left: ExprId, operator: &str, right: ExprId) -> Checked<ExprId> {
        if let ExprNode::Binary(inner, ..) = *self.file.expr(left) {
            let inner = direction_of(self.file.symbol_text(inner));
            require(inner.is_none() || inner != direction_of(operator))?;
        }
        let symbol = self.file.strings.intern(operator);
        let span = self.file.expr_span(left).join(self.file.expr_span(right));
        let height = self.height(left).max(self.height(right)) + 1;
        self.add_high(ExprNode::Binary(symbol, left, right), span, height)
    }

    /// `A[own, :, i]`
    pub fn add_index(&mut self, base: ExprId, items: &[IndexItem], start: u32, end: u32) -> Checked<ExprId> {
        require(!items.is_empty())?;
        let heights = items.iter().map(|item| match item {
            IndexItem::All(_) => 0,
            IndexItem::At(expr) => self.height(*expr),
        });
        let height = heights.max().unwrap_or(0).max(self.height(base)) + POSTFIX_HEIGHT;
        let first = self.file.index_items.len() as u32;
        self.file.index_items.extend_from_slice(items);
        let range = NodeRange { start: first, end: self.file.index_items.len() as u32 };
        self.add_high(ExprNode::Index(base, range), Span { start, end }, height)
    }

    /// `d.x`
    pub fn add_field(&mut self, base: ExprId, name: NameSyntax, start: u32, end: u32) -> Checked<ExprId> {
        require(!self.file.symbol_text(name.name).contains('.'))?;
        let height = self.height(base) + POSTFIX_HEIGHT;
        self.add_high(ExprNode::Field(base, name), Span { start, end }, height)
    }

    /// `f(a)`: `middle` is the end of the name.
    pub fn add_call(&mut self, name: Symbol, middle: u32, args: &[ArgNode], start: u32, end: u32) -> Checked<ExprId> {
        let name = self.name(name, start, middle);
        self.call(name, args, end)
    }

    /// `Set.Permute(a)`
    pub fn add_dotted_call(
        &mut self,
        base: ExprId,
        name: NameSyntax,
        args: &[ArgNode],
        start: u32,
        end: u32,
    ) -> Checked<ExprId> {
        let ExprNode::Name(first) = *self.file.expr(base) else { return reject() };
        require(!self.file.symbol_text(name.name).contains('.'))?;
        let joined = format!("{}.{}", self.file.symbol_text(first), self.file.symbol_text(name.name));
        let callee = NameSyntax { name: self.file.strings.intern(&joined), span: self.span(start, name.span.end) };
        self.call(callee, args, end)
    }

    pub(super) fn add_args(&mut self, args: &[ArgNode]) -> NodeRange {
        let start = self.file.args.len() as u32;
        self.file.args.extend_from_slice(args);
        NodeRange { start, end: self.file.args.len() as u32 }
    }

    fn call(&mut self, name: NameSyntax, args: &[ArgNode], end: u32) -> Checked<ExprId> {
        let range = self.add_args(args);
        let heights = args.iter().map(|arg| self.height(arg.value));
        let own = if self.file.symbol_text(name.name) == "wrap" { WRAP_HEIGHT } else { POSTFIX_HEIGHT };
        let height = heights.max().unwrap_or(0) + own;
        self.add_high(ExprNode::Call(name, range), self.span(name.span.start, end), height)
    }

    /// `value`, `key=value`, `A -> B`
    pub fn argument(
        &mut self,
        key: Option<NameSyntax>,
        value: ExprId,
        target: Option<ExprId>,
        start: u32,
        end: u32,
    ) -> ArgNode {
        let value = match target {
            None => value,
            Some(target) => {
                let span = self.file.expr_span(value).join(self.file.expr_span(target));
                let height = self.height(value).max(self.height(target));
                self.add_expr(ExprNode::Arrow(value, target), span, height)
            }
        };
        ArgNode { span: Span { start, end }, key, value }
    }

    /// `{ a; b }` as a value.
    pub fn add_group_value(&mut self, group: hostir_grammar::ast::BlockId, start: u32, end: u32) -> ExprId {
        self.add_expr(ExprNode::Group(group), Span { start, end }, 0)
    }

    /// The first node of an expression in the order of the text.
    pub(super) fn leftmost(&self, mut expr: ExprId) -> ExprId {
        while let ExprNode::Binary(_, first, _) | ExprNode::Index(first, _) | ExprNode::Field(first, _) =
            *self.file.expr(expr)
        {
            expr = first;
        }
        expr
    }
}

/// True of `<` and `<=`, false of `>` and `>=`.
fn direction_of(operator: &str) -> Option<bool> {
    match operator {
        "<" | "<=" => Some(true),
        ">" | ">=" => Some(false),
        _ => None,
    }
}
