//! Joins the trees of two parts of one text: the ids of the second follow those of the first.

use crate::ast::{
    ArgRange, ArgSyntax, BlankLines, BlockId, BlockSyntax, CommentPlaceSyntax, CommentSyntax, ContainerSyntax,
    DomainId, DomainSyntax, ExprId, ExprSyntax, HostUnitSyntax, StmtId, StmtSyntax, Symbol, SyntaxTree, TensorRef,
    TensorRefId, TensorText, ValueSyntax,
};
use crate::builder::Builder;
use crate::span::Span;
use crate::tensor;

/// The new ids of everything in the second tree.
struct IdRemap {
    symbols: Vec<Symbol>,
    tensors: Vec<TensorRefId>,
    /// Domains outside of tensors are merged with equal earlier ones.
    domains: Vec<DomainId>,
    exprs: u32,
    args: u32,
    stmts: u32,
    blocks: u32,
    /// The block of the first tree in which the second one's first container continues, and that container's own.
    body: Option<(BlockId, BlockId)>,
}

/// Appends the second of two parts. The text between them is cut in the body of a container: the
/// first container of `second` is the rest of the last one of `first`.
pub(crate) fn append_tree<'t>(first: &mut Builder<'t>, second: Builder<'t>) {
    let moved = IdRemap {
        symbols: map_symbols(&mut first.ast, &second.ast),
        tensors: Vec::with_capacity(second.ast.tensors.len()),
        domains: map_domains(first, &second),
        exprs: first.ast.exprs.len() as u32,
        args: first.ast.args.len() as u32,
        stmts: first.ast.stmts.len() as u32,
        blocks: first.ast.blocks.len() as u32,
        body: bodies_to_join(&first.ast, &second.ast),
    };
    let moved = add_tensors(first, &second, moved);
    let (ast, from) = (&mut first.ast, second.ast);
    ast.exprs.extend(from.exprs.iter().map(|&(expr, span)| (moved.map_expr(expr), span)));
    ast.domains.extend(from.domains.iter().map(|domain| moved.map_iter_domain(domain)));
    ast.args.extend(from.args.iter().map(|arg| moved.map_arg(arg)));
    ast.stmts.extend(from.stmts.iter().map(|stmt| moved.map_stmt(stmt)));
    let containers = (ast.containers.len() as u32).saturating_sub(1);
    ast.comments.extend(
        from.comments
            .iter()
            .map(|comment| CommentSyntax { place: moved.map_comment_place(comment.place, containers), ..*comment }),
    );
    ast.blocks.extend(from.blocks.into_iter().map(|block| moved.map_block(block)));
    moved.join_bodies(&mut ast.blocks);
    let mut rest = from.containers.into_iter().map(|container| moved.map_container(container));
    if let (Some(rest), Some(open)) = (rest.next(), ast.containers.last_mut()) {
        let ContainerSyntax { header, given_name, inputs, outputs, body, blanks, .. } = *open;
        let span = Span { start: open.span.start, end: rest.span.end };
        let blanks = BlankLines { before: blanks.before, ..rest.blanks };
        *open = ContainerSyntax { span, header, given_name, inputs, outputs, body, blanks, ..rest };
    }
    ast.containers.extend(rest);
}

fn bodies_to_join(first: &SyntaxTree, second: &SyntaxTree) -> Option<(BlockId, BlockId)> {
    Some((first.containers.last()?.body, second.containers.first()?.body))
}

fn map_symbols(first: &mut SyntaxTree, second: &SyntaxTree) -> Vec<Symbol> {
    (0..second.strings.len() as u32).map(|at| first.strings.intern(second.strings.get(Symbol(at)))).collect()
}

fn map_domains<'t>(first: &mut Builder<'t>, second: &Builder<'t>) -> Vec<DomainId> {
    let start = first.ast.domains.len() as u32;
    let mut moved: Vec<_> = (0..second.ast.domains.len() as u32).map(|at| DomainId(start + at)).collect();
    let mut alone: Vec<(DomainId, &'t str)> = second.seen.domains.iter().map(|(&text, &id)| (id, text)).collect();
    alone.sort_unstable();
    for (id, text) in alone {
        moved[id.index()] = *first.seen.domains.entry(text).or_insert(moved[id.index()]);
    }
    moved
}

/// Adds the tensors of the second tree that the first does not have.
fn add_tensors(first: &mut Builder<'_>, second: &Builder<'_>, mut moved: IdRemap) -> IdRemap {
    let start = first.ast.domains.len() as u32;
    if second.seen.squeezing {
        tensor::start_squeezing(first);
    }
    for node in &second.ast.tensors {
        let node = moved.map_tensor(node, start);
        moved.tensors.push(tensor::adopt_ref(first, node));
    }
    moved
}

impl IdRemap {
    fn map_symbol(&self, symbol: Symbol) -> Symbol {
        self.symbols[symbol.index()]
    }

    fn map_expr_id(&self, expr: ExprId) -> ExprId {
        ExprId(expr.0 + self.exprs)
    }

    fn map_range(&self, range: ArgRange) -> ArgRange {
        ArgRange { start: range.start + self.args, end: range.end + self.args }
    }

    fn map_stmt_id(&self, stmt: StmtId) -> StmtId {
        StmtId(stmt.0 + self.stmts)
    }

    fn map_block_id(&self, block: BlockId) -> BlockId {
        match self.body {
            Some((open, rest)) if rest == block => open,
            _ => BlockId(block.0 + self.blocks),
        }
    }

    fn map_expr(&self, expr: ExprSyntax) -> ExprSyntax {
        match expr {
            ExprSyntax::Int(_) | ExprSyntax::Hex(_) | ExprSyntax::Bool(..) | ExprSyntax::Error => expr,
            ExprSyntax::Typed(dtype, text) => ExprSyntax::Typed(self.map_symbol(dtype), self.map_symbol(text)),
            ExprSyntax::Float(text) => ExprSyntax::Float(self.map_symbol(text)),
            ExprSyntax::Name(name) => ExprSyntax::Name(self.map_symbol(name)),
            ExprSyntax::Tensor(tensor) => ExprSyntax::Tensor(self.tensors[tensor.index()]),
            ExprSyntax::Unary(op, a) => ExprSyntax::Unary(self.map_symbol(op), self.map_expr_id(a)),
            ExprSyntax::Binary(op, a, b) => {
                ExprSyntax::Binary(self.map_symbol(op), self.map_expr_id(a), self.map_expr_id(b))
            }
            ExprSyntax::Call(name, list) => ExprSyntax::Call(self.map_symbol(name), self.map_range(list)),
            ExprSyntax::Group(a) => ExprSyntax::Group(self.map_expr_id(a)),
            ExprSyntax::Index(a, b) => ExprSyntax::Index(self.map_expr_id(a), self.map_expr_id(b)),
            ExprSyntax::Field(a, field) => ExprSyntax::Field(self.map_expr_id(a), self.map_symbol(field)),
            ExprSyntax::Braces(list) => ExprSyntax::Braces(self.map_range(list)),
        }
    }

    fn map_iter_domain(&self, domain: &DomainSyntax) -> DomainSyntax {
        DomainSyntax {
            parallel: self.map_symbol(domain.parallel),
            start: domain.start.map(|at| self.map_expr_id(at)),
            stop: domain.stop.map(|at| self.map_expr_id(at)),
            extent: self.map_expr_id(domain.extent),
            expanded: domain.expanded.map(|at| self.map_expr_id(at)),
            ..*domain
        }
    }

    fn map_tensor(&self, node: &TensorRef, domains: u32) -> TensorRef {
        let full = node.full.as_ref().map(|text| TensorText {
            memory: self.map_symbol(text.memory),
            dtype: self.map_symbol(text.dtype),
            dtype_span: text.dtype_span,
            domains_start: text.domains_start + domains,
            domains_end: text.domains_end + domains,
            positions: self.map_symbol(text.positions),
            mesh: text.mesh.clone(),
            attrs: self.map_range(text.attrs),
        });
        TensorRef { span: node.span, number: node.number, full }
    }

    fn map_arg(&self, arg: &ArgSyntax) -> ArgSyntax {
        ArgSyntax { key: arg.key.map(|key| self.map_symbol(key)), value: self.map_value(arg.value), ..*arg }
    }

    fn map_value(&self, value: ValueSyntax) -> ValueSyntax {
        match value {
            ValueSyntax::Expr(expr) => ValueSyntax::Expr(self.map_expr_id(expr)),
            ValueSyntax::Domain(domain) => ValueSyntax::Domain(self.domains[domain.index()]),
            ValueSyntax::Stream(expr) => ValueSyntax::Stream(self.map_expr_id(expr)),
            ValueSyntax::Handle(word, number) => ValueSyntax::Handle(self.map_symbol(word), number),
            ValueSyntax::List(list) => ValueSyntax::List(self.map_range(list)),
            ValueSyntax::Team(list, truncated) => ValueSyntax::Team(self.map_range(list), truncated),
            ValueSyntax::Text(text) => ValueSyntax::Text(self.map_symbol(text)),
            ValueSyntax::Stmt(stmt) => ValueSyntax::Stmt(self.map_stmt_id(stmt)),
            ValueSyntax::Error => ValueSyntax::Error,
        }
    }

    fn map_stmt(&self, stmt: &StmtSyntax) -> StmtSyntax {
        StmtSyntax {
            name: self.map_symbol(stmt.name),
            given_name: stmt.given_name.map(|name| self.map_symbol(name)),
            results: self.map_range(stmt.results),
            args: self.map_range(stmt.args),
            body: stmt.body.map(|block| self.map_block_id(block)),
            else_body: stmt.else_body.map(|block| self.map_block_id(block)),
            ..*stmt
        }
    }

    fn map_block(&self, mut block: BlockSyntax) -> BlockSyntax {
        for stmt in &mut block.stmts {
            *stmt = self.map_stmt_id(*stmt);
        }
        block
    }

    fn map_container(&self, container: ContainerSyntax) -> ContainerSyntax {
        let units = container.units.into_iter().map(|unit| self.map_unit(unit)).collect();
        ContainerSyntax {
            given_name: container.given_name.map(|name| self.map_symbol(name)),
            inputs: self.map_range(container.inputs),
            outputs: self.map_range(container.outputs),
            body: self.map_block_id(container.body),
            units,
            aliases: container
                .aliases
                .map(|pairs| pairs.iter().map(|(new, old)| (self.map_arg(new), self.map_arg(old))).collect()),
            index_definitions: container.index_definitions.map(|block| self.map_block_id(block)),
            ..container
        }
    }

    fn map_unit(&self, unit: HostUnitSyntax) -> HostUnitSyntax {
        HostUnitSyntax {
            inputs: self.map_range(unit.inputs),
            outputs: self.map_range(unit.outputs),
            fusion_inputs: self.map_range(unit.fusion_inputs),
            fusion_outputs: self.map_range(unit.fusion_outputs),
            body: self.map_block_id(unit.body),
            attrs: self.map_range(unit.attrs),
            ..unit
        }
    }

    /// Appends the statements of the second part to those of the first.
    fn join_bodies(&self, blocks: &mut [BlockSyntax]) {
        let Some((open, rest)) = self.body else { return };
        let rest = std::mem::take(&mut blocks[rest.index() + self.blocks as usize]);
        let open = &mut blocks[open.index()];
        if !rest.stmts.is_empty() {
            open.span = if open.stmts.is_empty() { rest.span } else { open.span.join(rest.span) };
            open.stmts.extend(rest.stmts);
        }
    }

    /// Maps the place of a comment; `containers` is the number of the container in which the second part starts.
    fn map_comment_place(&self, place: CommentPlaceSyntax, containers: u32) -> CommentPlaceSyntax {
        match place {
            CommentPlaceSyntax::Above(stmt) => CommentPlaceSyntax::Above(self.map_stmt_id(stmt)),
            CommentPlaceSyntax::Trailing(stmt) => CommentPlaceSyntax::Trailing(self.map_stmt_id(stmt)),
            CommentPlaceSyntax::StartOf(block) => CommentPlaceSyntax::StartOf(self.map_block_id(block)),
            CommentPlaceSyntax::EndOf(block) => CommentPlaceSyntax::EndOf(self.map_block_id(block)),
            CommentPlaceSyntax::Container(number) => CommentPlaceSyntax::Container(number + containers),
            CommentPlaceSyntax::Header(number) => CommentPlaceSyntax::Header(number + containers),
            CommentPlaceSyntax::File | CommentPlaceSyntax::EndOfFile => place,
        }
    }
}
