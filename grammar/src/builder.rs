//! The actions of the grammar: they fill the arenas of the [`Ast`].
//!
//! Elements of lists wait on one scratch stack until their list closes, so a list costs no
//! allocation of its own and its elements end up next to each other in [`Ast::args`].

use crate::ast::{
    Arg, ArgRange, Ast, DomainId, Expr, ExprId, Shape, Stmt, StmtId, Symbol, TensorRefId, Value,
};
use crate::error::{Code, SyntaxError};
use crate::span::Span;
use crate::token::Op;
use rustc_hash::FxHashMap;

/// What one run of the grammar yields.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Node {
    Stmt(StmtId),
    Lists(ArgRange, ArgRange),
    Pair(Arg, Arg),
    List(ArgRange),
    Expr(ExprId),
}

/// The first word of a statement and the number behind it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    name: Symbol,
    span: Span,
    number: Option<u32>,
}

impl Head {
    pub(crate) fn new(name: Symbol, start: u32, end: u32) -> Self {
        Self { name, span: Span { start, end }, number: None }
    }
}

/// The tree under construction, with the tables that find what was seen before.
pub(crate) struct Builder<'t> {
    pub(crate) text: &'t str,
    pub(crate) ast: Ast,
    pub(crate) errors: Vec<SyntaxError>,
    /// Elements of the lists that are open.
    scratch: Vec<Arg>,
    /// Elements of open lists that stand behind their predecessor without a comma: index in
    /// `scratch`.
    glued: Vec<u32>,
    operators: Vec<Symbol>,
    /// Tensor references by their text.
    pub(crate) tensors: FxHashMap<&'t str, TensorRefId>,
    /// The first tensor reference with a certain hash of its text without white space.
    pub(crate) squeezed: FxHashMap<u64, TensorRefId>,
    /// Domains outside of tensors by their text.
    pub(crate) domains: FxHashMap<&'t str, DomainId>,
    /// How many tensor references are being read inside each other.
    pub(crate) depth: u32,
}

impl<'t> Builder<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        let mut ast = Ast::default();
        let operators = Op::ALL.iter().map(|op| ast.strings.intern(op.text())).collect();
        Self {
            text,
            ast,
            errors: Vec::new(),
            scratch: Vec::new(),
            glued: Vec::new(),
            operators,
            tensors: FxHashMap::default(),
            squeezed: FxHashMap::default(),
            domains: FxHashMap::default(),
            depth: 0,
        }
    }

    /// Forgets the open lists of a statement that failed, down to `mark` elements.
    pub(crate) fn unwind(&mut self, mark: usize) {
        self.scratch.truncate(mark);
        self.glued.retain(|&at| (at as usize) < mark);
    }

    /// The number of elements in open lists.
    pub(crate) fn mark(&self) -> usize {
        self.scratch.len()
    }

    pub(crate) fn error(&mut self, error: SyntaxError) {
        self.errors.push(error);
    }

    // ---- lists ----

    pub(crate) fn push(&mut self, arg: Arg) -> u32 {
        self.scratch.push(arg);
        1
    }

    /// Pushes an element that stands behind its predecessor without a comma.
    pub(crate) fn push_glued(&mut self, arg: Arg) -> u32 {
        self.glued.push(self.scratch.len() as u32);
        self.push(arg)
    }

    /// Closes a list: its `count` elements move to the arena.
    pub(crate) fn close(&mut self, count: u32) -> ArgRange {
        let first = self.scratch.len() - count as usize;
        self.check_glued(first);
        let start = self.ast.args.len() as u32;
        self.ast.args.extend_from_slice(&self.scratch[first..]);
        self.scratch.truncate(first);
        ArgRange { start, end: self.ast.args.len() as u32 }
    }

    /// nvFuser leaves a comma out behind an element that is the list's last one as well, between
    /// braces and behind empty braces; everywhere else it was forgotten.
    fn check_glued(&mut self, first: usize) {
        while let Some(&at) = self.glued.last() {
            let at = at as usize;
            if at < first {
                return;
            }
            self.glued.pop();
            let before = self.scratch[at - 1];
            let Some(&last) = self.scratch.last() else { return };
            let after_braces = matches!(before.value, Value::List(_));
            if !after_braces && !self.same_tensor(before, last) {
                let span = Span { start: before.span.end, end: before.span.end };
                self.error(
                    SyntaxError::new(Code::NoComma, span, "missing `,` between two list elements")
                        .other(self.scratch[at].span, "the next element")
                        .note("write `, ` between them"),
                );
            }
        }
    }

    fn same_tensor(&self, a: Arg, b: Arg) -> bool {
        match (a.value, b.value) {
            (Value::Expr(a), Value::Expr(b)) => {
                let (Expr::Tensor(a), Expr::Tensor(b)) =
                    (self.ast.exprs[a.index()].0, self.ast.exprs[b.index()].0)
                else {
                    return false;
                };
                a == b
            }
            _ => false,
        }
    }

    pub(crate) fn item(&mut self, value: Value, start: u32, end: u32) -> Arg {
        Arg { span: Span { start, end }, key: None, spaced: false, value }
    }

    pub(crate) fn keyed(&mut self, key: Symbol, spaced: bool, arg: Arg, start: u32) -> Arg {
        Arg { span: Span { start, end: arg.span.end }, key: Some(key), spaced, value: arg.value }
    }

    /// `T0(Avg)`: keyed with `Avg`.
    pub(crate) fn marked(&mut self, t: TensorRefId, word: Symbol, l: u32, e: u32, r: u32) -> Arg {
        let value = Value::Expr(self.tensor(t, l, e));
        Arg { span: Span { start: l, end: r }, key: Some(word), spaced: false, value }
    }

    pub(crate) fn symbol(&mut self, text: &str) -> Symbol {
        self.ast.strings.intern(text)
    }

    /// The key of several words.
    pub(crate) fn join(&mut self, key: Symbol, word: Symbol) -> Symbol {
        let joined = format!("{} {}", self.ast.str(key), self.ast.str(word));
        self.symbol(&joined)
    }

    /// An expression as an argument: braces become a list.
    pub(crate) fn value(&mut self, expr: ExprId) -> Value {
        let last = expr.index() + 1 == self.ast.exprs.len();
        match self.ast.exprs[expr.index()].0 {
            Expr::Braces(list) if last => {
                self.ast.exprs.pop();
                Value::List(list)
            }
            Expr::Braces(list) => Value::List(list),
            _ => Value::Expr(expr),
        }
    }

    pub(crate) fn handle(&mut self, word: Symbol, n: i64, l: u32, r: u32) -> Value {
        Value::Handle(word, self.small(n, Span { start: l, end: r }))
    }

    /// A statement's number as 32 bits.
    fn small(&mut self, number: i64, span: Span) -> u32 {
        u32::try_from(number).unwrap_or_else(|_| {
            let text = format!("the number {number} is too large here");
            self.error(
                SyntaxError::new(Code::Number, span, text)
                    .note(format!("numbers of statements end at {}", u32::MAX)),
            );
            u32::MAX
        })
    }

    // ---- expressions ----

    fn expr(&mut self, expr: Expr, start: u32, end: u32) -> ExprId {
        let id = ExprId(self.ast.exprs.len() as u32);
        self.ast.exprs.push((expr, Span { start, end }));
        id
    }

    pub(crate) fn int(&mut self, n: i64, l: u32, r: u32) -> ExprId {
        self.expr(Expr::Int(n), l, r)
    }

    pub(crate) fn hex(&mut self, n: u64, l: u32, r: u32) -> ExprId {
        self.expr(Expr::Hex(n), l, r)
    }

    pub(crate) fn float(&mut self, text: Symbol, l: u32, r: u32) -> ExprId {
        self.expr(Expr::Float(text), l, r)
    }

    pub(crate) fn boolean(&mut self, (value, capital): (bool, bool), l: u32, r: u32) -> ExprId {
        self.expr(Expr::Bool(value, capital), l, r)
    }

    pub(crate) fn typed(&mut self, (dtype, text): (Symbol, Symbol), l: u32, r: u32) -> ExprId {
        self.expr(Expr::Typed(dtype, text), l, r)
    }

    pub(crate) fn tensor(&mut self, tensor: TensorRefId, l: u32, r: u32) -> ExprId {
        self.expr(Expr::Tensor(tensor), l, r)
    }

    /// A name; `s5.field` is a field of the scalar `s5`, while `blockIdx.x` is one name.
    pub(crate) fn name(&mut self, name: Symbol, l: u32, r: u32) -> ExprId {
        let text = self.ast.str(name);
        if let Some(dot) = text.find('.') {
            let (base, field) = (&text[..dot], &text[dot + 1..]);
            if is_scalar_name(base) {
                let (base, field) = (base.to_owned(), field.to_owned());
                let (base, field) = (self.symbol(&base), self.symbol(&field));
                let base = self.expr(Expr::Name(base), l, l + dot as u32);
                return self.expr(Expr::Field(base, field), l, r);
            }
        }
        self.expr(Expr::Name(name), l, r)
    }

    pub(crate) fn call(&mut self, name: Symbol, args: ArgRange, l: u32, r: u32) -> ExprId {
        self.expr(Expr::Call(name, args), l, r)
    }

    pub(crate) fn group(&mut self, inner: ExprId, l: u32, r: u32) -> ExprId {
        self.expr(Expr::Group(inner), l, r)
    }

    pub(crate) fn braces(&mut self, list: ArgRange, l: u32, r: u32) -> ExprId {
        self.expr(Expr::Braces(list), l, r)
    }

    pub(crate) fn index(&mut self, array: ExprId, index: ExprId, l: u32, r: u32) -> ExprId {
        self.expr(Expr::Index(array, index), l, r)
    }

    pub(crate) fn field(&mut self, base: ExprId, field: Symbol, l: u32, r: u32) -> ExprId {
        self.expr(Expr::Field(base, field), l, r)
    }

    /// A prefix operator; a minus right before digits is part of the literal.
    pub(crate) fn prefix(&mut self, op: Op, operand: ExprId, l: u32, r: u32) -> ExprId {
        let (expr, span) = &mut self.ast.exprs[operand.index()];
        if let (Op::Sub, Expr::Int(n @ 0..)) = (op, *expr)
            && span.start == l + 1
        {
            *expr = Expr::Int(-n);
            span.start = l;
            return operand;
        }
        let symbol = self.operators[op as usize];
        self.expr(Expr::Unary(symbol, operand), l, r)
    }

    /// `left op right`, where `left` is all that was read so far: an operator that binds tighter
    /// than those on the right edge of `left` takes their right operand. The edge has at most one
    /// node per level of precedence.
    pub(crate) fn infix(&mut self, left: ExprId, op: Op, right: ExprId) -> ExprId {
        let end = self.ast.exprs[right.index()].1.end;
        let mut edge = None;
        let mut at = left;
        while let (Expr::Binary(other, _, inner), span) = &mut self.ast.exprs[at.index()] {
            if Op::level_of(self.ast.strings.get(*other)) >= op.level() {
                break;
            }
            span.end = end;
            edge = Some(at);
            at = *inner;
        }
        let start = self.ast.exprs[at.index()].1.start;
        let symbol = self.operators[op as usize];
        let node = self.expr(Expr::Binary(symbol, at, right), start, end);
        let Some(edge) = edge else { return node };
        if let (Expr::Binary(_, _, inner), _) = &mut self.ast.exprs[edge.index()] {
            *inner = node;
        }
        left
    }

    // ---- statements ----

    pub(crate) fn numbered(&mut self, head: Head, number: i64) -> Head {
        let number = self.small(number, head.span);
        Head { number: Some(number), ..head }
    }

    fn stmt(&mut self, stmt: Stmt) -> StmtId {
        let id = StmtId(self.ast.stmts.len() as u32);
        self.ast.stmts.push(stmt);
        id
    }

    /// A statement that could not be read.
    pub(crate) fn bad(&mut self, span: Span) -> StmtId {
        self.stmt(Stmt { span, ..blank(Shape::Error, Head::new(Symbol(0), span.start, span.start)) })
    }

    pub(crate) fn statement(
        &mut self,
        shape: Shape,
        head: Head,
        args: ArgRange,
        terminated: bool,
        l: u32,
        r: u32,
    ) -> StmtId {
        let span = Span { start: l, end: r };
        self.stmt(Stmt { span, args, terminated, ..blank(shape, head) })
    }

    pub(crate) fn words(&mut self, head: Head, arg: Arg, terminated: bool, l: u32, r: u32) -> StmtId {
        let args = self.one(arg);
        self.statement(Shape::Words, head, args, terminated, l, r)
    }

    /// A statement in an argument list.
    pub(crate) fn nested(&mut self, head: Head, n: i64, args: ArgRange, l: u32, r: u32) -> Value {
        let head = self.numbered(head, n);
        Value::Stmt(self.statement(Shape::Call, head, args, false, l, r))
    }

    /// `results = value`, a call if the value is one. The results are on the scratch stack.
    pub(crate) fn assignment(
        &mut self,
        results: u32,
        value: ExprId,
        alias: Option<Arg>,
        terminated: bool,
        l: u32,
        r: u32,
    ) -> StmtId {
        let results = self.close(results);
        let (expr, span) = self.ast.exprs[value.index()];
        let shape;
        let mut head = Head::new(Symbol(0), span.start, span.start);
        let mut args;
        if let Expr::Call(name, list) = expr {
            // The call is always the newest node: its arguments were made before it.
            self.ast.exprs.truncate(value.index());
            shape = Shape::Call;
            args = list;
            head = self.call_head(name, span);
        } else {
            shape = Shape::Assign;
            args = ArgRange::default();
            let arg = self.item(Value::Expr(value), span.start, span.end);
            self.push(arg);
            args = self.extend(args);
        }
        if let Some(alias) = alias {
            let key = self.symbol("alias");
            let alias = self.keyed(key, false, alias, alias.span.start);
            self.push(alias);
            args = self.extend(args);
        }
        let span = Span { start: l, end: r };
        self.stmt(Stmt { span, results, args, terminated, ..blank(shape, head) })
    }

    fn call_head(&self, name: Symbol, span: Span) -> Head {
        Head::new(name, span.start, span.start + self.ast.str(name).len() as u32)
    }

    /// `args` with the element on top of the scratch stack behind them.
    fn extend(&mut self, args: ArgRange) -> ArgRange {
        let Some(arg) = self.scratch.pop() else { return args };
        let start = self.ast.args.len() as u32;
        self.ast.args.extend_from_within(args.start as usize..args.end as usize);
        self.ast.args.push(arg);
        ArgRange { start, end: self.ast.args.len() as u32 }
    }

    fn one(&mut self, arg: Arg) -> ArgRange {
        let count = self.push(arg);
        self.close(count)
    }

    /// The bounds of a loop as keyed elements on the scratch stack.
    pub(crate) fn bounds(&mut self, start: Arg, stop: Arg, step: Option<Arg>) -> u32 {
        let mut count = 0;
        for (key, arg) in [("start", Some(start)), ("stop", Some(stop)), ("step", step)] {
            if let Some(arg) = arg {
                let key = self.symbol(key);
                count += self.push(Arg { key: Some(key), ..arg });
            }
        }
        count
    }

    pub(crate) fn for_in(&mut self, index: Arg, domain: Arg, bounds: u32, l: u32, r: u32) -> StmtId {
        let at = self.scratch.len() - bounds as usize;
        self.scratch.splice(at..at, [index, domain]);
        let args = self.close(bounds + 2);
        self.header(Shape::ForIn, args, l, r)
    }

    pub(crate) fn for_range(
        &mut self,
        index: Arg,
        start: Arg,
        stop: Arg,
        step: Option<Arg>,
        l: u32,
        r: u32,
    ) -> StmtId {
        let mut count = self.push(index) + self.push(start) + self.push(stop);
        if let Some(step) = step {
            let key = self.symbol("step");
            count += self.push(Arg { key: Some(key), ..step });
        }
        let args = self.close(count);
        self.header(Shape::ForRange, args, l, r)
    }

    fn header(&mut self, shape: Shape, args: ArgRange, l: u32, r: u32) -> StmtId {
        let name = self.symbol("FOR");
        self.statement(shape, Head::new(name, l, l + 3), args, false, l, r)
    }

    pub(crate) fn branch(&mut self, head: Head, condition: Option<Arg>, l: u32, r: u32) -> StmtId {
        let args = match condition {
            Some(condition) => self.one(condition),
            None => ArgRange::default(),
        };
        self.statement(Shape::If, head, args, false, l, r)
    }
}

fn blank(shape: Shape, head: Head) -> Stmt {
    Stmt {
        span: head.span,
        shape,
        name: head.name,
        name_span: head.span,
        number: head.number,
        results: ArgRange::default(),
        args: ArgRange::default(),
        body: None,
        else_body: None,
        terminated: false,
    }
}

/// Whether this is a scalar that nvFuser numbered: letters, then digits (`i84`, `ptr4`).
fn is_scalar_name(text: &str) -> bool {
    let digits = text.trim_start_matches(|c: char| c.is_ascii_lowercase());
    !digits.is_empty() && digits.len() < text.len() && digits.bytes().all(|b| b.is_ascii_digit())
}
