//! The actions of the grammar: they fill the arenas of the [`SyntaxTree`].
//!
//! Elements of lists are on one scratch stack until their list closes, so a list costs no allocation of its own and its
//! elements end up next to each other in [`SyntaxTree::args`].

use crate::ast::{
    ArgRange, ArgSyntax, DomainId, DomainSyntax, ExprId, ExprSyntax, MeshSyntax, StmtId, StmtShape, StmtSyntax, Symbol,
    SyntaxTree, TensorRefId, ValueSyntax,
};
use crate::error::{Code, SyntaxEdit, SyntaxError};
use crate::limits::{MAX_DEVICE, MAX_ERRORS, MAX_NUMBER};
use crate::span::Span;
use crate::spelling::shorten_text;
use crate::token::Op;
use rustc_hash::FxHashMap;

/// The result of one run of the grammar.
#[derive(Clone, Copy, Debug)]
pub(crate) enum GrammarOutput {
    /// They are in [`Builder::batch`].
    Stmts,
    /// Inputs, outputs, and the name after them.
    Lists(ArgRange, ArgRange, Option<Symbol>),
    List(ArgRange),
    Expr(ExprId),
}

/// The first word of a statement and the number after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StmtHead {
    name: Symbol,
    span: Span,
    number: Option<u32>,
}

impl StmtHead {
    pub(crate) fn new(name: Symbol, start: u32, end: u32) -> Self {
        Self { name, span: Span { start, end }, number: None }
    }
}

/// A tensor reference that was read before.
#[derive(Clone, Copy)]
pub(crate) struct KnownReference {
    /// The reference.
    pub(crate) id: TensorRefId,
    /// One past its last byte at this place.
    pub(crate) end: usize,
}

/// Reads tensor references and domains. The extents of domains are expressions of their own, which need the lexer; so
/// the lexer calls these functions through the builder, and knows no references itself.
#[derive(Clone, Copy)]
pub(crate) struct ReferenceReader {
    /// Reads the short reference `T3`.
    pub(crate) short: for<'t> fn(&mut Builder<'t>, &'t str, Span) -> TensorRefId,
    /// Finds the full reference at a place of the text, if it is a known one.
    pub(crate) again: fn(&Builder<'_>, Span) -> Option<KnownReference>,
    /// Reads a full reference.
    pub(crate) full: fn(&mut Builder<'_>, Span) -> TensorRefId,
    /// Reads a single domain.
    pub(crate) domain: fn(&mut Builder<'_>, Span) -> Option<DomainId>,
}

/// The tree under construction, with the tables of known texts.
pub(crate) struct Builder<'t> {
    pub(crate) text: &'t str,
    pub(crate) ast: SyntaxTree,
    pub(crate) errors: Vec<SyntaxError>,
    pub(crate) references: ReferenceReader,
    /// Elements of the lists that are open.
    scratch: Vec<ArgSyntax>,
    /// Elements of open lists that follow their predecessor without a comma: index in `scratch`.
    glued: Vec<u32>,
    operators: Vec<Symbol>,
    /// The statements of this run of the grammar.
    pub(crate) batch: Vec<StmtId>,
    /// The references that were read before.
    pub(crate) seen: SeenReferences<'t>,
    /// Domains of the references being read.
    pub(crate) open_domains: Vec<DomainSyntax>,
    /// The number of tensor references that are being read inside each other.
    pub(crate) depth: u32,
    /// True once an error has ended the reading: the text has no more tokens.
    pub(crate) stopped: bool,
    /// The number of tokens and comments read so far.
    pub(crate) tokens: usize,
    /// True if the grammar reads all statements, plain ones too.
    pub(crate) by_grammar: bool,
}

/// The lengths of the arenas that the actions of the grammar fill.
#[derive(Clone, Copy)]
pub(crate) struct TreeSize {
    exprs: usize,
    args: usize,
    stmts: usize,
    open: usize,
}

/// Tensor references, domains and meshes by their text: each is read once.
#[derive(Default)]
pub(crate) struct SeenReferences<'t> {
    /// Tensor references by their text.
    pub(crate) tensors: FxHashMap<&'t str, TensorRefId>,
    /// The newest full reference of each number, by a few bits of it; empty while there are few.
    pub(crate) recent: Vec<TensorRefId>,
    /// The first tensor reference with a certain hash of its text without white space.
    pub(crate) squeezed: FxHashMap<u64, TensorRefId>,
    /// True while [`Self::squeezed`] is kept up to date.
    pub(crate) squeezing: bool,
    /// Domains outside of tensors by their text.
    pub(crate) domains: FxHashMap<&'t str, DomainId>,
    /// The mesh read last: its text is the most likely one of the next.
    pub(crate) last_mesh: Option<MeshSyntax>,
}

impl<'t> Builder<'t> {
    /// A builder for a part of `text`, with room for what `length` bytes have.
    pub(crate) fn new(text: &'t str, length: usize, references: ReferenceReader) -> Self {
        let mut ast = SyntaxTree::default();
        // Printed text has about this much of everything; memory that is not touched costs nothing.
        ast.exprs.reserve(length / 24);
        ast.args.reserve(length / 32);
        ast.domains.reserve(length / 48);
        ast.tensors.reserve(length / 256);
        ast.stmts.reserve(length / 128);
        let operators = Op::ALL.iter().map(|op| ast.strings.intern(op.text())).collect();
        Self {
            text,
            ast,
            errors: Vec::new(),
            references,
            scratch: Vec::new(),
            glued: Vec::new(),
            operators,
            batch: Vec::new(),
            seen: SeenReferences {
                tensors: FxHashMap::with_capacity_and_hasher(length / 400, Default::default()),
                ..SeenReferences::default()
            },
            open_domains: Vec::new(),
            depth: 0,
            stopped: false,
            tokens: 0,
            by_grammar: false,
        }
    }

    /// The size of the tree before a statement.
    pub(crate) fn tree_size(&self) -> TreeSize {
        let SyntaxTree { exprs, args, stmts, .. } = &self.ast;
        TreeSize { exprs: exprs.len(), args: args.len(), stmts: stmts.len(), open: self.scratch.len() }
    }

    /// Forgets a statement that was read in part.
    pub(crate) fn shrink_tree(&mut self, size: TreeSize) {
        self.ast.exprs.truncate(size.exprs);
        self.ast.args.truncate(size.args);
        self.ast.stmts.truncate(size.stmts);
        self.unwind_lists(size.open);
    }

    /// Forgets the open lists of a statement that failed, down to `length` elements.
    pub(crate) fn unwind_lists(&mut self, length: usize) {
        self.scratch.truncate(length);
        self.glued.retain(|&at| (at as usize) < length);
    }

    /// The number of elements in open lists.
    pub(crate) fn open_element_count(&self) -> usize {
        self.scratch.len()
    }

    /// Records an error; too many end the reading.
    pub(crate) fn report_error(&mut self, error: SyntaxError) {
        if self.stopped {
            return;
        }
        let span = error.span;
        self.errors.push(error);
        if self.errors.len() == MAX_ERRORS {
            let message = format!("the text has at least {} errors; parsing stops here", MAX_ERRORS);
            self.report_last_error(
                SyntaxError::new(Code::TooManyErrors, span, message)
                    .with_note("the text after this place is not checked"),
            );
        }
    }

    /// Records the last error: the rest of the text is not read.
    pub(crate) fn report_last_error(&mut self, error: SyntaxError) {
        if !self.stopped {
            self.errors.push(error);
            self.stopped = true;
        }
    }

    // ---- lists ----

    fn push(&mut self, arg: ArgSyntax) -> u32 {
        self.scratch.push(arg);
        1
    }

    /// Records that the element just pushed follows its predecessor without a comma.
    pub(crate) fn mark_glued(&mut self, count: u32) -> u32 {
        self.glued.push(self.scratch.len() as u32 - 1);
        count
    }

    /// Closes a list: its `count` elements move to the arena.
    pub(crate) fn close_list(&mut self, count: u32) -> ArgRange {
        let first = self.scratch.len() - count as usize;
        self.check_glued(first);
        let start = self.ast.args.len() as u32;
        self.ast.args.extend_from_slice(&self.scratch[first..]);
        self.scratch.truncate(first);
        ArgRange { start, end: self.ast.args.len() as u32 }
    }

    /// Checks for forgotten commas. nvFuser leaves a comma out after an element that equals the list's last one,
    /// between braces and after empty braces; everywhere else it was forgotten.
    fn check_glued(&mut self, first: usize) {
        while let Some(&at) = self.glued.last() {
            let at = at as usize;
            if at < first {
                return;
            }
            self.glued.pop();
            let before = self.scratch[at - 1];
            let Some(&last) = self.scratch.last() else { return };
            let after_braces = matches!(before.value, ValueSyntax::List(_));
            if !after_braces && !self.same_tensor(before, last) {
                self.report_no_comma(before.span, self.scratch[at].span);
            }
        }
    }

    fn report_no_comma(&mut self, before: Span, next: Span) {
        let span = Span { start: before.end, end: before.end };
        let [first, second] = [before, next].map(|place| shorten_text(&self.text[place.as_usize_range()]));
        self.report_error(
            SyntaxError::new(Code::NoComma, span, "missing `,` between two list elements")
                .with_second_label(next, "the next element")
                .with_note(format!("write `,` between `{first}` and `{second}`"))
                .with_edit(SyntaxEdit { span, text: ",".to_owned() }),
        );
    }

    /// Checks for commas that were forgotten between equal operands of a function, `fmax(T0 T0)`.
    fn check_operands(&mut self, name: Symbol, args: ArgRange) {
        let operands = self.ast.args[args.start as usize..args.end as usize].to_vec();
        let Some(&last) = operands.last() else { return };
        // Names in capitals are those of ops, in whose lists nvFuser leaves commas out.
        let is_function = self.ast.symbol_text(name).starts_with(|c: char| c.is_ascii_lowercase());
        if !is_function || operands.iter().any(|operand| operand.key.is_some() || !self.same_tensor(*operand, *operand))
        {
            return;
        }
        for pair in operands.windows(2) {
            let between = self.text.get(pair[0].span.end as usize..pair[1].span.start as usize);
            if between.is_some_and(|between| !between.contains(',')) && self.same_tensor(pair[0], last) {
                self.report_no_comma(pair[0].span, pair[1].span);
            }
        }
    }

    fn same_tensor(&self, a: ArgSyntax, b: ArgSyntax) -> bool {
        match (a.value, b.value) {
            (ValueSyntax::Expr(a), ValueSyntax::Expr(b)) => {
                let (ExprSyntax::Tensor(a), ExprSyntax::Tensor(b)) =
                    (self.ast.exprs[a.index()].0, self.ast.exprs[b.index()].0)
                else {
                    return false;
                };
                a == b
            }
            _ => false,
        }
    }

    /// Pushes an element without a key.
    pub(crate) fn push_item(&mut self, value: ValueSyntax, start: u32, end: u32) -> u32 {
        self.push(ArgSyntax { span: Span { start, end }, key: None, spaced: false, value })
    }

    /// Pushes a member of a team.
    pub(crate) fn push_member(&mut self, n: i64, l: u32, r: u32) -> u32 {
        let member = self.int_expr(n, l, r);
        self.push_item(ValueSyntax::Expr(member), l, r)
    }

    /// Gives the element just pushed its key.
    pub(crate) fn set_key(&mut self, key: Symbol, spaced: bool, count: u32, start: u32) -> u32 {
        if let Some(arg) = self.scratch.last_mut() {
            *arg = ArgSyntax { span: Span { start, ..arg.span }, key: Some(key), spaced, ..*arg };
        }
        count
    }

    /// `T0(Avg)`, `float(0)(Avg)`: keyed with `Avg`.
    pub(crate) fn push_marked(&mut self, value: ExprId, word: Symbol, l: u32, r: u32) -> u32 {
        let value = ValueSyntax::Expr(value);
        self.push(ArgSyntax { span: Span { start: l, end: r }, key: Some(word), spaced: false, value })
    }

    pub(crate) fn intern_symbol(&mut self, text: &str) -> Symbol {
        self.ast.strings.intern(text)
    }

    /// The key of several words.
    pub(crate) fn join_key(&mut self, key: Symbol, word: Symbol) -> Symbol {
        let joined = format!("{} {}", self.ast.symbol_text(key), self.ast.symbol_text(word));
        self.intern_symbol(&joined)
    }

    /// An expression as an argument: braces become a list.
    pub(crate) fn expr_value(&mut self, expr: ExprId) -> ValueSyntax {
        let last = expr.index() + 1 == self.ast.exprs.len();
        match self.ast.exprs[expr.index()].0 {
            ExprSyntax::Braces(list) if last => {
                self.ast.exprs.pop();
                ValueSyntax::List(list)
            }
            ExprSyntax::Braces(list) => ValueSyntax::List(list),
            _ => ValueSyntax::Expr(expr),
        }
    }

    pub(crate) fn handle_value(&mut self, word: Symbol, n: i64, l: u32, r: u32) -> ValueSyntax {
        ValueSyntax::Handle(word, self.checked_number(n, Span { start: l, end: r }))
    }

    /// A statement's number as 32 bits.
    fn checked_number(&mut self, number: i64, span: Span) -> u32 {
        u32::try_from(number).unwrap_or_else(|_| {
            let text = format!("the number {number} is too large for a statement");
            self.report_error(
                SyntaxError::new(Code::Number, span, text)
                    .with_note(format!("the largest number of a statement is {}", MAX_NUMBER)),
            );
            u32::MAX
        })
    }

    /// The number of a tensor, a domain or a HostUnit.
    pub(crate) fn reference_number(&mut self, digits: &str, span: Span) -> u32 {
        self.bounded_number(digits, span, MAX_NUMBER, "tensor, domain or HostUnit")
    }

    /// The number of a device.
    pub(crate) fn device_number(&mut self, digits: &str, span: Span) -> u32 {
        self.bounded_number(digits, span, MAX_DEVICE, "device")
    }

    fn bounded_number(&mut self, digits: &str, span: Span, largest: u32, what: &str) -> u32 {
        let known = digits.parse().ok().filter(|&number| number <= largest);
        known.unwrap_or_else(|| {
            self.report_error(SyntaxError::large_number(digits, what, largest, span));
            u32::MAX
        })
    }

    // ---- expressions ----

    fn push_expr(&mut self, expr: ExprSyntax, start: u32, end: u32) -> ExprId {
        let id = ExprId(self.ast.exprs.len() as u32);
        self.ast.exprs.push((expr, Span { start, end }));
        id
    }

    pub(crate) fn int_expr(&mut self, n: i64, l: u32, r: u32) -> ExprId {
        self.push_expr(ExprSyntax::Int(n), l, r)
    }

    pub(crate) fn hex_expr(&mut self, n: u64, l: u32, r: u32) -> ExprId {
        self.push_expr(ExprSyntax::Hex(n), l, r)
    }

    pub(crate) fn float_expr(&mut self, text: Symbol, l: u32, r: u32) -> ExprId {
        self.push_expr(ExprSyntax::Float(text), l, r)
    }

    pub(crate) fn bool_expr(&mut self, value: bool, capital: bool, l: u32, r: u32) -> ExprId {
        self.push_expr(ExprSyntax::Bool(value, capital), l, r)
    }

    pub(crate) fn typed_expr(&mut self, dtype: Symbol, text: Symbol, l: u32, r: u32) -> ExprId {
        self.push_expr(ExprSyntax::Typed(dtype, text), l, r)
    }

    pub(crate) fn tensor_expr(&mut self, tensor: TensorRefId, l: u32, r: u32) -> ExprId {
        self.push_expr(ExprSyntax::Tensor(tensor), l, r)
    }

    /// A name; `s5.field` is a field of the scalar `s5`, while `blockIdx.x` and `i5.2` are one name.
    pub(crate) fn name_expr(&mut self, name: Symbol, l: u32, r: u32) -> ExprId {
        let text = self.ast.symbol_text(name);
        if let Some(dot) = text.bytes().position(|byte| byte == b'.') {
            let (base, field) = (&text[..dot], &text[dot + 1..]);
            if is_scalar_name(base) && !field.starts_with(|first: char| first.is_ascii_digit()) {
                let (base, field) = (base.to_owned(), field.to_owned());
                let (base, field) = (self.intern_symbol(&base), self.intern_symbol(&field));
                let base = self.push_expr(ExprSyntax::Name(base), l, l + dot as u32);
                return self.push_expr(ExprSyntax::Field(base, field), l, r);
            }
        }
        self.push_expr(ExprSyntax::Name(name), l, r)
    }

    /// A name without a dot.
    pub(crate) fn plain_name(&mut self, name: Symbol, l: u32, r: u32) -> ExprId {
        self.push_expr(ExprSyntax::Name(name), l, r)
    }

    pub(crate) fn call_expr(&mut self, name: Symbol, args: ArgRange, l: u32, r: u32) -> ExprId {
        self.check_operands(name, args);
        self.push_expr(ExprSyntax::Call(name, args), l, r)
    }

    pub(crate) fn group_expr(&mut self, inner: ExprId, l: u32, r: u32) -> ExprId {
        self.push_expr(ExprSyntax::Group(inner), l, r)
    }

    pub(crate) fn braces_expr(&mut self, list: ArgRange, l: u32, r: u32) -> ExprId {
        self.push_expr(ExprSyntax::Braces(list), l, r)
    }

    pub(crate) fn index(&mut self, array: ExprId, index: ExprId, l: u32, r: u32) -> ExprId {
        self.push_expr(ExprSyntax::Index(array, index), l, r)
    }

    pub(crate) fn field_expr(&mut self, base: ExprId, field: Symbol, l: u32, r: u32) -> ExprId {
        self.push_expr(ExprSyntax::Field(base, field), l, r)
    }

    /// A prefix operator; a minus right before digits is part of the literal.
    pub(crate) fn prefix_expr(&mut self, op: Op, operand: ExprId, l: u32, r: u32) -> ExprId {
        let (expr, span) = &mut self.ast.exprs[operand.index()];
        if let (Op::Sub, ExprSyntax::Int(n)) = (op, *expr)
            && span.start == l + 1
            && self.text.as_bytes()[span.start as usize].is_ascii_digit()
        {
            // The smallest number is its own negative.
            *expr = ExprSyntax::Int(n.wrapping_neg());
            span.start = l;
            return operand;
        }
        let symbol = self.operators[op as usize];
        self.push_expr(ExprSyntax::Unary(symbol, operand), l, r)
    }

    /// `left op right`, where `left` is the expression read so far: an operator that binds tighter than those on the
    /// right edge of `left` takes their right operand. The edge has at most one node per level of precedence.
    pub(crate) fn infix_expr(&mut self, left: ExprId, op: Op, right: ExprId) -> ExprId {
        let end = self.ast.exprs[right.index()].1.end;
        let mut edge = None;
        let mut at = left;
        while let (ExprSyntax::Binary(other, _, inner), span) = &mut self.ast.exprs[at.index()] {
            if Op::level_of(self.ast.strings.get(*other)) >= op.level() {
                break;
            }
            span.end = end;
            edge = Some(at);
            at = *inner;
        }
        let start = self.ast.exprs[at.index()].1.start;
        let symbol = self.operators[op as usize];
        let node = self.push_expr(ExprSyntax::Binary(symbol, at, right), start, end);
        let Some(edge) = edge else { return node };
        if let (ExprSyntax::Binary(_, _, inner), _) = &mut self.ast.exprs[edge.index()] {
            *inner = node;
        }
        left
    }

    // ---- statements ----

    pub(crate) fn number_head(&mut self, head: StmtHead, number: i64) -> StmtHead {
        let number = self.checked_number(number, head.span);
        StmtHead { number: Some(number), ..head }
    }

    /// A statement of the batch is complete.
    pub(crate) fn finish_statement(&mut self, stmt: StmtId) {
        self.batch.push(stmt);
    }

    fn push_stmt(&mut self, stmt: StmtSyntax) -> StmtId {
        let id = StmtId(self.ast.stmts.len() as u32);
        self.ast.stmts.push(stmt);
        id
    }

    /// A statement that could not be read.
    pub(crate) fn push_bad_stmt(&mut self, span: Span) -> StmtId {
        self.push_stmt(StmtSyntax {
            span,
            ..blank_stmt(StmtShape::Error, StmtHead::new(Symbol(0), span.start, span.start))
        })
    }

    pub(crate) fn add_statement(
        &mut self,
        shape: StmtShape,
        head: StmtHead,
        args: ArgRange,
        terminated: bool,
        l: u32,
        r: u32,
    ) -> StmtId {
        let span = Span { start: l, end: r };
        self.push_stmt(StmtSyntax { span, args, terminated, ..blank_stmt(shape, head) })
    }

    /// Words with `count` operands on the scratch stack.
    pub(crate) fn add_word_statement(
        &mut self,
        head: StmtHead,
        count: u32,
        terminated: bool,
        l: u32,
        r: u32,
    ) -> StmtId {
        let args = self.close_list(count);
        self.add_statement(StmtShape::Words, head, args, terminated, l, r)
    }

    /// Gives a statement the name after it.
    pub(crate) fn name_statement(&mut self, stmt: StmtId, name: Option<Symbol>) -> StmtId {
        self.ast.stmts[stmt.index()].given_name = name;
        stmt
    }

    /// `name` and `h` of `{name=h}`.
    pub(crate) fn read_name_tag(&mut self, key: Symbol, name: Symbol, l: u32, r: u32) -> Option<Symbol> {
        if self.ast.symbol_text(key) == "name" {
            return Some(name);
        }
        let message = format!("unknown attribute `{}`", self.ast.symbol_text(key));
        let error = SyntaxError::new(Code::Unexpected, Span { start: l, end: r }, message);
        self.report_error(error.with_note("the only one is `{name=..}`"));
        None
    }

    /// A statement in an argument list.
    pub(crate) fn nest_statement(&mut self, head: StmtHead, n: i64, args: ArgRange, l: u32, r: u32) -> ValueSyntax {
        let head = self.number_head(head, n);
        ValueSyntax::Stmt(self.add_statement(StmtShape::Call, head, args, false, l, r))
    }

    /// `T1 = reduction( .. )` in an argument list; its results are on the scratch stack.
    pub(crate) fn nest_assignment(&mut self, results: u32, value: ExprId, l: u32, r: u32) -> ValueSyntax {
        ValueSyntax::Stmt(self.add_assignment(results, value, 0, false, l, r))
    }

    /// `results = value`, a call if the value is one. On the scratch stack are the results and, if
    /// `aliases` is 1, the tensor after `.alias=`.
    pub(crate) fn add_assignment(
        &mut self,
        results: u32,
        value: ExprId,
        aliases: u32,
        terminated: bool,
        l: u32,
        r: u32,
    ) -> StmtId {
        let alias = if aliases > 0 { self.scratch.pop() } else { None };
        let results = self.close_list(results);
        let (expr, span) = self.ast.exprs[value.index()];
        let (shape, head, mut args) = if let ExprSyntax::Call(name, list) = expr {
            if value.index() + 1 == self.ast.exprs.len() {
                self.ast.exprs.pop();
            }
            (StmtShape::Call, self.call_head(name, span), list)
        } else {
            let count = self.push_item(ValueSyntax::Expr(value), span.start, span.end);
            (StmtShape::Assign, StmtHead::new(Symbol(0), span.start, span.start), self.close_list(count))
        };
        if let Some(alias) = alias {
            let key = self.intern_symbol("alias");
            args = self.extend_args(args, ArgSyntax { key: Some(key), ..alias });
        }
        let span = Span { start: l, end: r };
        self.push_stmt(StmtSyntax { span, results, args, terminated, ..blank_stmt(shape, head) })
    }

    fn call_head(&self, name: Symbol, span: Span) -> StmtHead {
        StmtHead::new(name, span.start, span.start + self.ast.symbol_text(name).len() as u32)
    }

    /// A copy of `args` with one more element.
    fn extend_args(&mut self, args: ArgRange, arg: ArgSyntax) -> ArgRange {
        let start = self.ast.args.len() as u32;
        self.ast.args.extend_from_within(args.start as usize..args.end as usize);
        self.ast.args.push(arg);
        ArgRange { start, end: self.ast.args.len() as u32 }
    }

    /// Names the bounds of a loop, the last `count` elements on the scratch stack.
    pub(crate) fn key_loop_bounds(&mut self, count: u32) -> u32 {
        let first = self.scratch.len() - count as usize;
        for (at, key) in ["start", "stop"].into_iter().enumerate() {
            let key = self.intern_symbol(key);
            self.scratch[first + at].key = Some(key);
        }
        count
    }

    /// Names the step of a loop.
    pub(crate) fn key_loop_step(&mut self, count: u32) -> u32 {
        let key = self.intern_symbol("step");
        if let Some(arg) = self.scratch.last_mut() {
            arg.key = Some(key);
        }
        count
    }

    pub(crate) fn for_loop(&mut self, shape: StmtShape, count: u32, l: u32, r: u32) -> StmtId {
        let args = self.close_list(count);
        let name = self.intern_symbol("FOR");
        self.add_statement(shape, StmtHead::new(name, l, l + 3), args, false, l, r)
    }

    pub(crate) fn add_branch(&mut self, head: StmtHead, count: u32, l: u32, r: u32) -> StmtId {
        let args = self.close_list(count);
        self.add_statement(StmtShape::If, head, args, false, l, r)
    }
}

fn blank_stmt(shape: StmtShape, head: StmtHead) -> StmtSyntax {
    StmtSyntax {
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
        given_name: None,
    }
}

/// Returns true for a scalar that nvFuser numbered: letters, then digits (`i84`, `ptr4`).
fn is_scalar_name(text: &str) -> bool {
    let digits = text.trim_start_matches(|c: char| c.is_ascii_lowercase());
    !digits.is_empty() && digits.len() < text.len() && digits.bytes().all(|b| b.is_ascii_digit())
}
