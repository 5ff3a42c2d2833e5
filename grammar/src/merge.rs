//! Joins the trees of two parts of one text: the ids of the second move behind those of the first.

use crate::ast::{
    Arg, ArgRange, Ast, Block, BlockId, Comment, CommentPlace, Container, Domain, DomainId, Expr,
    ExprId, Stmt, StmtId, Symbol, TensorRef, TensorRefId, TensorText, Unit, Value,
};
use crate::builder::Builder;
use crate::span::Span;
use crate::tensor;

/// The new ids of everything in the second tree.
struct Moved {
    symbols: Vec<Symbol>,
    tensors: Vec<TensorRefId>,
    /// Domains outside of tensors meet those that were written before.
    domains: Vec<DomainId>,
    exprs: u32,
    args: u32,
    stmts: u32,
    blocks: u32,
    /// The block of the first tree that the second one's first container goes on with, and that
    /// container's own.
    body: Option<(BlockId, BlockId)>,
}

/// Appends the second of two parts. The text between them is cut in the body of a container: the
/// first container of `second` is the rest of the last one of `first`.
pub(crate) fn append<'t>(first: &mut Builder<'t>, second: Builder<'t>) {
    let moved = Moved {
        symbols: symbols(&mut first.ast, &second.ast),
        tensors: Vec::with_capacity(second.ast.tensors.len()),
        domains: domains(first, &second),
        exprs: first.ast.exprs.len() as u32,
        args: first.ast.args.len() as u32,
        stmts: first.ast.stmts.len() as u32,
        blocks: first.ast.blocks.len() as u32,
        body: bodies(&first.ast, &second.ast),
    };
    let moved = tensors(first, &second, moved);
    let (ast, from) = (&mut first.ast, second.ast);
    ast.exprs.extend(from.exprs.iter().map(|&(expr, span)| (moved.node(expr), span)));
    ast.domains.extend(from.domains.iter().map(|domain| moved.iter_domain(domain)));
    ast.args.extend(from.args.iter().map(|arg| moved.arg(arg)));
    ast.stmts.extend(from.stmts.iter().map(|stmt| moved.statement(stmt)));
    let containers = (ast.containers.len() as u32).saturating_sub(1);
    ast.comments.extend(
        from.comments
            .iter()
            .map(|comment| Comment { place: moved.place(comment.place, containers), ..*comment }),
    );
    ast.blocks.extend(from.blocks.into_iter().map(|block| moved.moved_block(block)));
    moved.join_bodies(&mut ast.blocks);
    let mut rest = from.containers.into_iter().map(|container| moved.container(container));
    if let (Some(rest), Some(open)) = (rest.next(), ast.containers.last_mut()) {
        let Container { header, inputs, outputs, body, blank_before, .. } = *open;
        let span = Span { start: open.span.start, end: rest.span.end };
        *open = Container { span, header, inputs, outputs, body, blank_before, ..rest };
    }
    ast.containers.extend(rest);
}

fn bodies(first: &Ast, second: &Ast) -> Option<(BlockId, BlockId)> {
    Some((first.containers.last()?.body, second.containers.first()?.body))
}

fn symbols(first: &mut Ast, second: &Ast) -> Vec<Symbol> {
    (0..second.strings.len() as u32)
        .map(|at| first.strings.intern(second.strings.get(Symbol(at))))
        .collect()
}

fn domains<'t>(first: &mut Builder<'t>, second: &Builder<'t>) -> Vec<DomainId> {
    let start = first.ast.domains.len() as u32;
    let mut moved: Vec<_> =
        (0..second.ast.domains.len() as u32).map(|at| DomainId(start + at)).collect();
    let mut alone: Vec<(DomainId, &'t str)> =
        second.domains.iter().map(|(&text, &id)| (id, text)).collect();
    alone.sort_unstable();
    for (id, text) in alone {
        moved[id.index()] = *first.domains.entry(text).or_insert(moved[id.index()]);
    }
    moved
}

/// Adds the tensors of the second tree that the first does not have.
fn tensors(first: &mut Builder<'_>, second: &Builder<'_>, mut moved: Moved) -> Moved {
    let start = first.ast.domains.len() as u32;
    if second.squeezing {
        tensor::start_squeezing(first);
    }
    for node in &second.ast.tensors {
        let node = moved.tensor(node, start);
        moved.tensors.push(tensor::adopt(first, node));
    }
    moved
}

impl Moved {
    fn symbol(&self, symbol: Symbol) -> Symbol {
        self.symbols[symbol.index()]
    }

    fn expr(&self, expr: ExprId) -> ExprId {
        ExprId(expr.0 + self.exprs)
    }

    fn range(&self, range: ArgRange) -> ArgRange {
        ArgRange { start: range.start + self.args, end: range.end + self.args }
    }

    fn stmt(&self, stmt: StmtId) -> StmtId {
        StmtId(stmt.0 + self.stmts)
    }

    fn block(&self, block: BlockId) -> BlockId {
        match self.body {
            Some((open, rest)) if rest == block => open,
            _ => BlockId(block.0 + self.blocks),
        }
    }

    fn node(&self, expr: Expr) -> Expr {
        match expr {
            Expr::Int(_) | Expr::Hex(_) | Expr::Bool(..) | Expr::Error => expr,
            Expr::Typed(dtype, text) => Expr::Typed(self.symbol(dtype), self.symbol(text)),
            Expr::Float(text) => Expr::Float(self.symbol(text)),
            Expr::Name(name) => Expr::Name(self.symbol(name)),
            Expr::Tensor(tensor) => Expr::Tensor(self.tensors[tensor.index()]),
            Expr::Unary(op, a) => Expr::Unary(self.symbol(op), self.expr(a)),
            Expr::Binary(op, a, b) => Expr::Binary(self.symbol(op), self.expr(a), self.expr(b)),
            Expr::Call(name, list) => Expr::Call(self.symbol(name), self.range(list)),
            Expr::Group(a) => Expr::Group(self.expr(a)),
            Expr::Index(a, b) => Expr::Index(self.expr(a), self.expr(b)),
            Expr::Field(a, field) => Expr::Field(self.expr(a), self.symbol(field)),
            Expr::Braces(list) => Expr::Braces(self.range(list)),
        }
    }

    fn iter_domain(&self, domain: &Domain) -> Domain {
        Domain {
            parallel: self.symbol(domain.parallel),
            start: domain.start.map(|at| self.expr(at)),
            stop: domain.stop.map(|at| self.expr(at)),
            extent: self.expr(domain.extent),
            expanded: domain.expanded.map(|at| self.expr(at)),
            ..*domain
        }
    }

    fn tensor(&self, node: &TensorRef, domains: u32) -> TensorRef {
        let full = node.full.as_ref().map(|text| TensorText {
            memory: self.symbol(text.memory),
            dtype: self.symbol(text.dtype),
            dtype_span: text.dtype_span,
            domains_start: text.domains_start + domains,
            domains_end: text.domains_end + domains,
            positions: self.symbol(text.positions),
            mesh: text.mesh.clone(),
            attrs: self.range(text.attrs),
        });
        TensorRef { span: node.span, number: node.number, full }
    }

    fn arg(&self, arg: &Arg) -> Arg {
        Arg { key: arg.key.map(|key| self.symbol(key)), value: self.value(arg.value), ..*arg }
    }

    fn value(&self, value: Value) -> Value {
        match value {
            Value::Expr(expr) => Value::Expr(self.expr(expr)),
            Value::Domain(domain) => Value::Domain(self.domains[domain.index()]),
            Value::Stream(expr) => Value::Stream(self.expr(expr)),
            Value::Handle(word, number) => Value::Handle(self.symbol(word), number),
            Value::List(list) => Value::List(self.range(list)),
            Value::Team(list, truncated) => Value::Team(self.range(list), truncated),
            Value::Stmt(stmt) => Value::Stmt(self.stmt(stmt)),
            Value::Error => Value::Error,
        }
    }

    fn statement(&self, stmt: &Stmt) -> Stmt {
        Stmt {
            name: self.symbol(stmt.name),
            results: self.range(stmt.results),
            args: self.range(stmt.args),
            body: stmt.body.map(|block| self.block(block)),
            else_body: stmt.else_body.map(|block| self.block(block)),
            ..*stmt
        }
    }

    fn moved_block(&self, mut block: Block) -> Block {
        for stmt in &mut block.stmts {
            *stmt = self.stmt(*stmt);
        }
        block
    }

    fn container(&self, container: Container) -> Container {
        let units = container.units.into_iter().map(|unit| self.unit(unit)).collect();
        Container {
            inputs: self.range(container.inputs),
            outputs: self.range(container.outputs),
            body: self.block(container.body),
            units,
            aliases: container.aliases.map(|pairs| {
                pairs.iter().map(|(new, old)| (self.arg(new), self.arg(old))).collect()
            }),
            index_definitions: container.index_definitions.map(|block| self.block(block)),
            ..container
        }
    }

    fn unit(&self, unit: Unit) -> Unit {
        Unit {
            inputs: self.range(unit.inputs),
            outputs: self.range(unit.outputs),
            fusion_inputs: self.range(unit.fusion_inputs),
            fusion_outputs: self.range(unit.fusion_outputs),
            body: self.block(unit.body),
            attrs: self.range(unit.attrs),
            ..unit
        }
    }

    /// The statements of the second part follow those of the first.
    fn join_bodies(&self, blocks: &mut [Block]) {
        let Some((open, rest)) = self.body else { return };
        let rest = std::mem::take(&mut blocks[rest.index() + self.blocks as usize]);
        let open = &mut blocks[open.index()];
        if !rest.stmts.is_empty() {
            open.span = if open.stmts.is_empty() { rest.span } else { open.span.join(rest.span) };
            open.stmts.extend(rest.stmts);
        }
    }

    /// `containers` is the number of the container that the second part starts in.
    fn place(&self, place: CommentPlace, containers: u32) -> CommentPlace {
        match place {
            CommentPlace::Above(stmt) => CommentPlace::Above(self.stmt(stmt)),
            CommentPlace::Trailing(stmt) => CommentPlace::Trailing(self.stmt(stmt)),
            CommentPlace::StartOf(block) => CommentPlace::StartOf(self.block(block)),
            CommentPlace::EndOf(block) => CommentPlace::EndOf(self.block(block)),
            CommentPlace::Container(number) => CommentPlace::Container(number + containers),
            CommentPlace::Header(number) => CommentPlace::Header(number + containers),
            CommentPlace::File | CommentPlace::EndOfFile => place,
        }
    }
}
