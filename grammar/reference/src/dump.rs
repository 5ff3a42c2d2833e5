//! The text of a tree with the places of its nodes, so that two trees can be compared. Comments are left out, and so are
//! the places of blocks without statements.

use hostir_grammar::Span;
use hostir_grammar::ast::{BlockId, ExprId, Symbol};
use hostir_grammar::hir2::ast::{
    AxisSyntax, ExprNode, FileSyntax, ImportItem, IndexItem, ItemSyntax, LaunchSyntax, LoopDomain, MeshItem,
    NameSyntax, NodeRange, ParamSyntax, ProgramItem, SizedMeshSyntax, StmtForm, TypeId,
};
use std::fmt::Write;

/// The text of a tree: one line for each item and statement.
pub fn dump_tree(file: &FileSyntax) -> String {
    let mut dump = Dump { file, out: String::new() };
    dump.add_head();
    for item in &file.items {
        match item {
            ItemSyntax::Import(import) => dump.add_import(import),
            ItemSyntax::Mesh(mesh) => dump.add_mesh(mesh),
            ItemSyntax::Kernel(program) => dump.add_program("kernel", program),
            ItemSyntax::Program(program) => dump.add_program("program", program),
        }
    }
    dump.out
}

/// Writes a tree.
struct Dump<'f> {
    file: &'f FileSyntax,
    out: String,
}

impl Dump<'_> {
    fn add_head(&mut self) {
        let head = &self.file.head;
        let version = place(head.version);
        let style = head.style.map(|style| self.name(style));
        let names: Vec<String> = head.given_names.iter().map(|name| self.name(*name)).collect();
        let sizes = head.sizes.iter().chain(&head.streams);
        let sizes: Vec<String> =
            sizes.map(|size| format!("{}={}{}", self.symbol(size.name), size.value, place(size.span))).collect();
        let has_streams = head.streams.is_some();
        let _ = writeln!(self.out, "hir 2.{}{version} {style:?} {names:?} {sizes:?} {has_streams}", head.minor);
    }

    fn add_import(&mut self, import: &ImportItem) {
        let names: Vec<String> = import.names.iter().map(|name| self.name(*name)).collect();
        let (span, path_span) = (place(import.span), place(import.path_span));
        let _ = writeln!(self.out, "import{span} {names:?} {}{path_span}", self.file.symbol_text(import.path));
    }

    fn add_mesh(&mut self, mesh: &MeshItem) {
        let MeshItem { span, name, shape, devices, sized } = mesh;
        let sized = match sized {
            None => String::new(),
            Some(SizedMeshSyntax::Range(first, end)) => format!("{} .. {}", self.expr(*first), self.expr(*end)),
            Some(SizedMeshSyntax::Grid(extents)) => self.list(*extents),
        };
        let _ = writeln!(self.out, "mesh{} {} {shape:?} {devices:?} {sized}", place(*span), self.name(*name));
    }

    fn add_program(&mut self, word: &str, program: &ProgramItem) {
        let (inputs, outputs) = (self.params(&program.inputs), self.params(&program.outputs));
        let (name, mesh) = (self.name(program.name), self.optional_name(program.mesh));
        let (span, header) = (place(program.span), place(program.header));
        let _ = writeln!(self.out, "{word}{span} {header} {name} {inputs:?} {outputs:?} {mesh}");
        self.add_block(program.body, 1);
    }

    fn add_block(&mut self, block: BlockId, depth: usize) {
        let block = &self.file.blocks[block.index()];
        if !block.stmts.is_empty() {
            let _ = writeln!(self.out, "{}block{}", "  ".repeat(depth), place(block.span));
        }
        for stmt in &block.stmts {
            let stmt = self.file.stmts[stmt.index()];
            let _ = write!(self.out, "{}{} ", "  ".repeat(depth), place(stmt.span));
            let (text, blocks) = self.statement(stmt.form);
            self.out += &text;
            self.out.push('\n');
            for block in blocks {
                self.add_block(block, depth + 1);
            }
        }
    }

    /// The line of a statement and its blocks.
    fn statement(&self, form: StmtForm) -> (String, Vec<BlockId>) {
        let text = match form {
            StmtForm::Declare(name, ty) => format!("declare {}: {}", self.name(name), self.type_text(ty)),
            StmtForm::Assign { targets, value } => {
                let targets = self.file.targets[targets.indices()].iter().map(|target| {
                    let ty = target.ty.map_or_else(String::new, |ty| self.type_text(ty));
                    format!("{}: {ty}", self.expr(target.value))
                });
                let targets: Vec<String> = targets.collect();
                format!("{} = {}", targets.join(", "), self.expr(value))
            }
            StmtForm::Call(call) => format!("call {}", self.expr(call)),
            StmtForm::Wait(value) => format!("wait {}", self.expr(value)),
            StmtForm::Free(tensors) => format!("free {}", self.list(tensors)),
            StmtForm::BindStream(stream) => format!("name stream {}", self.expr(stream)),
            StmtForm::Sync(stream) => format!("sync {}", self.expr(stream)),
            StmtForm::Alias(new, original) => format!("alias {} {}", self.name(new), self.name(original)),
            StmtForm::Assert { condition, text } => {
                format!("assert {} {:?}", self.expr(condition), text.map(|text| self.symbol(text)))
            }
            StmtForm::Print(values) => format!("print {}", self.list(values)),
            StmtForm::Launch(at) => self.launch(&self.file.launches[at as usize]),
            StmtForm::Verbatim(text) => format!("verbatim {}", self.symbol(text)),
            StmtForm::Error => "error".to_owned(),
            StmtForm::Stream(..)
            | StmtForm::For { .. }
            | StmtForm::If { .. }
            | StmtForm::Share(_)
            | StmtForm::Define(_) => return self.header(form),
        };
        (text, Vec::new())
    }

    fn launch(&self, launch: &LaunchSyntax) -> String {
        let [grid, block, reads] = [launch.grid, launch.block, launch.reads].map(|items| self.list(items));
        let targets = self.file.targets[launch.writes.indices()].iter().map(|target| {
            let ty = target.ty.map_or_else(String::new, |ty| self.type_text(ty));
            format!("{}: {ty}", self.expr(target.value))
        });
        let (writes, shared) = (targets.collect::<Vec<_>>().join(", "), self.optional(launch.shared));
        let (reference, group) = (self.optional_name(launch.reference), self.optional(launch.group));
        let (file, entry, args) = (self.name(launch.file), self.name(launch.entry), self.args(launch.args));
        format!("launch {file} {entry} {grid} {block} {shared} ({args}) {reads} {writes} {reference} {group}")
    }

    /// The line of a statement that has blocks.
    fn header(&self, form: StmtForm) -> (String, Vec<BlockId>) {
        match form {
            StmtForm::Stream(stream, block) => (format!("stream {}", self.expr(stream)), block.into_iter().collect()),
            StmtForm::For { index, domain, start, stop, step, on_streams, body } => {
                let domain = match domain {
                    LoopDomain::Bounds => String::new(),
                    LoopDomain::TensorAxis(tensor, axis) => format!("axis {axis} of {}", self.name(tensor)),
                    LoopDomain::Axis(axis) => self.axis(&self.file.axes[axis as usize]),
                };
                let bounds = [start, stop, step].map(|bound| self.optional(bound));
                (format!("for {} in {domain} {bounds:?} {on_streams}", self.name(index)), vec![body])
            }
            StmtForm::If { predicate, condition, then, otherwise } => {
                let (kind, condition) = (self.optional_name(predicate), self.optional(condition));
                let blocks = std::iter::once(then).chain(otherwise).collect();
                (format!("if {kind} {condition} {}", otherwise.is_some()), blocks)
            }
            StmtForm::Share(block) => ("share".to_owned(), vec![block]),
            StmtForm::Define(block) => ("define".to_owned(), vec![block]),
            _ => (String::new(), Vec::new()),
        }
    }

    // Types.

    fn params(&self, params: &[ParamSyntax]) -> Vec<String> {
        let texts = params.iter().map(|param| {
            let ty = param.ty.map_or_else(String::new, |ty| self.type_text(ty));
            format!("{}: {ty}", self.name(param.name))
        });
        texts.collect()
    }

    fn type_text(&self, ty: TypeId) -> String {
        let ty = self.file.tensor_type(ty);
        let axes: Vec<String> = self.file.axes[ty.axes.indices()].iter().map(|axis| self.axis(axis)).collect();
        let [order, logical] = [ty.order, ty.logical].map(|items| items.map(|items| self.list(items)));
        let (dtype, memory, mesh) = (self.name(ty.dtype), self.optional_name(ty.memory), self.optional_name(ty.mesh));
        let positions = ty.positions.map(|text| self.symbol(text));
        let span = place(ty.span);
        format!("type{span} {dtype} {memory} {axes:?} {order:?} {logical:?} {} {positions:?} {mesh}", ty.split)
    }

    fn axis(&self, axis: &AxisSyntax) -> String {
        let (iter, parallel) = (self.optional_name(axis.iter), self.optional_name(axis.parallel));
        let (extent, expanded) = (self.expr(axis.extent), self.optional(axis.expanded));
        format!("axis{} {iter} {parallel} {extent} {expanded}", place(axis.span))
    }

    // Expressions.

    fn expr(&self, id: ExprId) -> String {
        let span = place(self.file.expr_span(id));
        let node = match *self.file.expr(id) {
            ExprNode::Name(name) | ExprNode::Float(name) | ExprNode::Verbatim(name) => self.symbol(name).to_owned(),
            ExprNode::Unary(operator, operand) => format!("({} {})", self.symbol(operator), self.expr(operand)),
            ExprNode::Binary(operator, left, right) => {
                format!("({} {} {})", self.expr(left), self.symbol(operator), self.expr(right))
            }
            ExprNode::Paren(inner) => format!("paren {}", self.expr(inner)),
            ExprNode::Call(name, args) => format!("call {} {}", self.name(name), self.args(args)),
            ExprNode::Index(base, items) => format!("{}[{}]", self.expr(base), self.index(items)),
            ExprNode::Field(base, name) => format!("{} field {}", self.expr(base), self.name(name)),
            ExprNode::List(items) => format!("list {}", self.list(items)),
            ExprNode::Braces(items) => format!("braces {}", self.list(items)),
            ExprNode::Arrow(from, to) => format!("{} -> {}", self.expr(from), self.expr(to)),
            ExprNode::Group(block) => self.group(block),
            node @ (ExprNode::Int(_) | ExprNode::Hex(_) | ExprNode::Bool(_) | ExprNode::Error) => format!("{node:?}"),
        };
        format!("{span}{node}")
    }

    fn group(&self, block: BlockId) -> String {
        let block = &self.file.blocks[block.index()];
        let stmts = block.stmts.iter().map(|stmt| {
            let stmt = self.file.stmts[stmt.index()];
            format!("{} {}", place(stmt.span), self.statement(stmt.form).0)
        });
        format!("group{} {}", place(block.span), stmts.collect::<Vec<_>>().join("; "))
    }

    fn args(&self, args: NodeRange) -> String {
        let args = self.file.args[args.indices()].iter().map(|arg| {
            let key = self.optional_name(arg.key);
            format!("{}{key}={}", place(arg.span), self.expr(arg.value))
        });
        args.collect::<Vec<_>>().join(", ")
    }

    fn index(&self, items: NodeRange) -> String {
        let items = self.file.index_items[items.indices()].iter().map(|item| match item {
            IndexItem::All(span) => format!("{}:", place(*span)),
            IndexItem::At(expr) => self.expr(*expr),
        });
        items.collect::<Vec<_>>().join(", ")
    }

    fn list(&self, items: NodeRange) -> String {
        let items = self.file.expr_lists[items.indices()].iter().map(|item| self.expr(*item));
        format!("[{}]", items.collect::<Vec<_>>().join(", "))
    }

    fn optional(&self, expr: Option<ExprId>) -> String {
        expr.map_or_else(|| "-".to_owned(), |expr| self.expr(expr))
    }

    // Names.

    fn symbol(&self, symbol: Symbol) -> &str {
        self.file.symbol_text(symbol)
    }

    fn name(&self, name: NameSyntax) -> String {
        format!("{}{}", self.symbol(name.name), place(name.span))
    }

    fn optional_name(&self, name: Option<NameSyntax>) -> String {
        name.map_or_else(|| "-".to_owned(), |name| self.name(name))
    }
}

fn place(span: Span) -> String {
    format!("@{}..{}", span.start, span.end)
}
