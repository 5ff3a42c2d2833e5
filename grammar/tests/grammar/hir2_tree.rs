//! A rendering of the tree of `hir 2`, so that tests can say what a text is.

use hostir_grammar::ast::{BlockId, CommentPlaceSyntax, ExprId, StmtId};
use hostir_grammar::hir2::ast::{
    AxisSyntax, ExprNode, FileSyntax, IndexItem, ItemSyntax, LoopDomain, MeshItem, NodeRange, ParamSyntax, ProgramItem,
    SizedMeshSyntax, StmtForm, TypeId,
};
use hostir_grammar::hir2::parse;
use std::fmt::Write;

/// The tree of a text that has to be free of errors.
pub(crate) fn tree(text: &str) -> String {
    let parsed = parse(text);
    assert!(parsed.errors.is_empty(), "{:#?}\nin\n{text}", parsed.errors);
    render(&parsed.file, text)
}

/// The statements of a program's body: one line each, blocks indented.
pub(crate) fn body(statements: &str) -> String {
    let text = format!("hir 2\n\nf(A: f32[m]) -> (B: f32[m]):\n{statements}");
    let tree = tree(&text);
    let lines: Vec<&str> = tree.lines().skip(1).map(|line| &line[2..]).collect();
    lines.join("\n")
}

/// An expression of a statement `x = ..`.
pub(crate) fn expr(text: &str) -> String {
    let tree = body(&format!("  x = {text}\n"));
    tree.strip_prefix("x = ").expect("an assignment").to_owned()
}

/// All items, and comments at the end.
pub(crate) fn render(file: &FileSyntax, text: &str) -> String {
    let mut out = String::new();
    if let Some(style) = file.head.style {
        let _ = writeln!(out, "style {}", file.symbol_text(style.name));
    }
    for size in &file.head.sizes {
        let _ = writeln!(out, "size {} {}", file.symbol_text(size.name), size.value);
    }
    if let Some(streams) = file.head.streams {
        let _ = writeln!(out, "streams {}", streams.value);
    }
    for item in &file.items {
        match item {
            ItemSyntax::Import(import) => {
                let names: Vec<&str> = import.names.iter().map(|name| file.symbol_text(name.name)).collect();
                let _ = writeln!(out, "import {} from {}", names.join(" "), file.symbol_text(import.path));
            }
            ItemSyntax::Mesh(mesh) => {
                let name = file.symbol_text(mesh.name.name);
                let _ =
                    writeln!(out, "mesh {name} {:?} {:?}{}", mesh.shape, mesh.devices, sized_text(file, text, mesh));
            }
            ItemSyntax::Kernel(item) => program(file, &mut out, "kernel", item),
            ItemSyntax::Program(item) => program(file, &mut out, "program", item),
        }
    }
    for comment in &file.comments {
        let place = match comment.place {
            CommentPlaceSyntax::Above(stmt) => format!("above `{}`", stmt_text(file, text, stmt)),
            CommentPlaceSyntax::Trailing(stmt) => format!("behind `{}`", stmt_text(file, text, stmt)),
            CommentPlaceSyntax::StartOf(block) => format!("start of `{}`", block_text(file, text, block)),
            CommentPlaceSyntax::EndOf(block) => format!("end of `{}`", block_text(file, text, block)),
            place => format!("{place:?}"),
        };
        let _ = writeln!(out, "{:?} {place}", &text[comment.span.as_usize_range()]);
    }
    out
}

/// ` 0 .. p` of a mesh that is given by sizes.
fn sized_text(file: &FileSyntax, text: &str, mesh: &MeshItem) -> String {
    let quote = |id: &ExprId| format!(" {}", &text[file.expr_span(*id).as_usize_range()]);
    match mesh.sized {
        None => String::new(),
        Some(SizedMeshSyntax::Range(start, stop)) => format!("{} ..{}", quote(&start), quote(&stop)),
        Some(SizedMeshSyntax::Grid(extents)) => file.expr_lists[extents.indices()].iter().map(quote).collect(),
    }
}

fn stmt_text<'t>(file: &FileSyntax, text: &'t str, stmt: StmtId) -> &'t str {
    &text[file.stmts[stmt.index()].span.as_usize_range()]
}

/// The first line of a block.
fn block_text<'t>(file: &FileSyntax, text: &'t str, block: BlockId) -> &'t str {
    text[file.blocks[block.index()].span.as_usize_range()].lines().next().unwrap_or_default()
}

fn program(file: &FileSyntax, out: &mut String, kind: &str, item: &ProgramItem) {
    let name = file.symbol_text(item.name.name);
    let (inputs, outputs) = (params(file, &item.inputs), params(file, &item.outputs));
    let mesh = item.mesh.map_or_else(String::new, |mesh| format!(" on {}", file.symbol_text(mesh.name)));
    let failed = if item.header_failed { " failed" } else { "" };
    let _ = writeln!(out, "{kind} {name} ({inputs}) -> ({outputs}){mesh}{failed}");
    block(file, out, item.body, 1);
}

fn params(file: &FileSyntax, params: &[ParamSyntax]) -> String {
    let texts = params.iter().map(|param| {
        let ty = param.ty.map_or_else(String::new, |ty| format!(": {}", tensor_type(file, ty)));
        format!("{}{ty}", file.symbol_text(param.name.name))
    });
    texts.collect::<Vec<_>>().join(", ")
}

fn tensor_type(file: &FileSyntax, ty: TypeId) -> String {
    let ty = file.tensor_type(ty);
    let memory = ty.memory.map_or_else(String::new, |memory| format!(".{}", file.symbol_text(memory.name)));
    let axes: Vec<String> = file.axes[ty.axes.indices()].iter().map(|found| axis(file, found)).collect();
    let mut out = format!("{}{memory}[{}]", file.symbol_text(ty.dtype.name), axes.join(", "));
    if let Some(order) = ty.order {
        let _ = write!(out, " order({})", list(file, order));
    }
    if let Some(logical) = ty.logical {
        let _ = write!(out, " logical({})", list(file, logical));
    }
    if ty.split {
        out.push_str(" split");
    }
    if let Some(positions) = ty.positions {
        let _ = write!(out, " `{}`", file.symbol_text(positions));
    }
    if let Some(mesh) = ty.mesh {
        let _ = write!(out, " @{}", file.symbol_text(mesh.name));
    }
    out
}

fn axis(file: &FileSyntax, axis: &AxisSyntax) -> String {
    let iter = axis.iter.map_or_else(String::new, |iter| format!("{}.", file.symbol_text(iter.name)));
    let parallel = axis.parallel.map_or_else(String::new, |parallel| format!("{}:", file.symbol_text(parallel.name)));
    let expanded = axis.expanded.map_or_else(String::new, |extent| format!(" ex {}", node(file, extent)));
    format!("{iter}{parallel}{}{expanded}", node(file, axis.extent))
}

fn list(file: &FileSyntax, range: NodeRange) -> String {
    let items = file.expr_lists[range.indices()].iter().map(|item| node(file, *item));
    items.collect::<Vec<_>>().join(", ")
}

fn block(file: &FileSyntax, out: &mut String, id: BlockId, depth: usize) {
    for stmt in &file.blocks[id.index()].stmts {
        statement(file, out, *stmt, depth);
    }
}

fn statement(file: &FileSyntax, out: &mut String, stmt: StmtId, depth: usize) {
    let (text, blocks) = statement_line(file, file.stmts[stmt.index()].form);
    let _ = writeln!(out, "{}{text}", "  ".repeat(depth));
    for (word, id) in blocks {
        if !word.is_empty() {
            let _ = writeln!(out, "{}{word}", "  ".repeat(depth));
        }
        block(file, out, id, depth + 1);
    }
}

/// The line of a statement, and its blocks with a word in front of each.
fn statement_line(file: &FileSyntax, form: StmtForm) -> (String, Vec<(&'static str, BlockId)>) {
    let simple = match form {
        StmtForm::Declare(name, ty) => format!("declare {}: {}", file.symbol_text(name.name), tensor_type(file, ty)),
        StmtForm::Assign { targets, value } => {
            let targets = file.targets[targets.indices()].iter().map(|target| {
                let ty = target.ty.map_or_else(String::new, |ty| format!(": {}", tensor_type(file, ty)));
                format!("{}{ty}", node(file, target.value))
            });
            format!("{} = {}", targets.collect::<Vec<_>>().join(", "), node(file, value))
        }
        StmtForm::Call(call) => node(file, call),
        StmtForm::Wait(value) => format!("wait {}", node(file, value)),
        StmtForm::Free(tensors) => format!("free {}", list(file, tensors)),
        StmtForm::BindStream(stream) => format!("bind stream {}", node(file, stream)),
        StmtForm::Stream(stream, None) => format!("stream {}", node(file, stream)),
        StmtForm::Stream(stream, Some(body)) => return (format!("stream {}:", node(file, stream)), vec![("", body)]),
        StmtForm::Sync(stream) => format!("sync {}", node(file, stream)),
        StmtForm::For { index, domain, start, stop, step, on_streams, body } => {
            let mut line = format!("for {} in", file.symbol_text(index.name));
            match domain {
                LoopDomain::Bounds => {}
                LoopDomain::TensorAxis(tensor, at) => {
                    let _ = write!(line, " axis {at} of {}", file.symbol_text(tensor.name));
                }
                LoopDomain::Axis(at) => {
                    let _ = write!(line, " [{}]", axis(file, &file.axes[at as usize]));
                }
            }
            for (word, bound) in [("from", start), ("to", stop), ("step", step)] {
                if let Some(bound) = bound {
                    let _ = write!(line, " {word} {}", node(file, bound));
                }
            }
            line += if on_streams { " on streams:" } else { ":" };
            return (line, vec![("", body)]);
        }
        StmtForm::If { predicate, condition, then, otherwise } => {
            let kind = predicate.map_or_else(String::new, |kind| format!(" [{}]", file.symbol_text(kind.name)));
            let condition = condition.map_or_else(String::new, |condition| format!(" {}", node(file, condition)));
            let mut blocks = vec![("", then)];
            blocks.extend(otherwise.map(|block| ("else:", block)));
            return (format!("if{kind}{condition}:"), blocks);
        }
        StmtForm::Share(body) => return ("share:".to_owned(), vec![("", body)]),
        StmtForm::Alias(new, original) => {
            format!("alias {} -> {}", file.symbol_text(new.name), file.symbol_text(original.name))
        }
        StmtForm::Assert { condition, text } => {
            let text = text.map_or_else(String::new, |text| format!(", {}", file.symbol_text(text)));
            format!("assert {}{text}", node(file, condition))
        }
        StmtForm::Print(values) => format!("print {}", list(file, values)),
        StmtForm::Launch(at) => {
            let launch = &file.launches[at as usize];
            let sizes = [launch.grid, launch.block].map(|extents| list(file, extents));
            format!("launch {} {}", file.symbol_text(launch.entry.name), sizes.join("; "))
        }
        StmtForm::Define(body) => return ("define:".to_owned(), vec![("", body)]),
        StmtForm::Verbatim(text) => format!("`{}`", file.symbol_text(text)),
        StmtForm::Error => "error".to_owned(),
    };
    (simple, Vec::new())
}

/// An expression; operators and brackets have parentheses of their own.
pub(crate) fn node(file: &FileSyntax, id: ExprId) -> String {
    match *file.expr(id) {
        ExprNode::Int(value) => value.to_string(),
        ExprNode::Hex(value) => format!("{value:#x}"),
        ExprNode::Bool(value) => format!("bool {value}"),
        ExprNode::Float(text) => format!("float {}", file.symbol_text(text)),
        ExprNode::Name(name) => file.symbol_text(name).to_owned(),
        ExprNode::Unary(operator, operand) => format!("({}{})", file.symbol_text(operator), node(file, operand)),
        ExprNode::Binary(operator, left, right) => {
            format!("({} {} {})", node(file, left), file.symbol_text(operator), node(file, right))
        }
        ExprNode::Paren(inner) => format!("paren{}", node(file, inner)),
        ExprNode::Call(name, args) => {
            let args = file.args[args.indices()].iter().map(|arg| {
                let key = arg.key.map_or_else(String::new, |key| format!("{}=", file.symbol_text(key.name)));
                format!("{key}{}", node(file, arg.value))
            });
            format!("{}({})", file.symbol_text(name.name), args.collect::<Vec<_>>().join(", "))
        }
        ExprNode::Index(base, items) => {
            let items = file.index_items[items.indices()].iter().map(|item| match item {
                IndexItem::All(_) => ":".to_owned(),
                IndexItem::At(item) => node(file, *item),
            });
            format!("{}[{}]", node(file, base), items.collect::<Vec<_>>().join(", "))
        }
        ExprNode::Field(base, name) => format!("{} field {}", node(file, base), file.symbol_text(name.name)),
        ExprNode::List(items) => format!("list[{}]", list(file, items)),
        ExprNode::Braces(items) => format!("braces{{{}}}", list(file, items)),
        ExprNode::Arrow(from, to) => format!("{} -> {}", node(file, from), node(file, to)),
        ExprNode::Group(block) => {
            let stmts = file.blocks[block.index()].stmts.iter();
            let texts = stmts.map(|stmt| statement_line(file, file.stmts[stmt.index()].form).0);
            format!("group{{{}}}", texts.collect::<Vec<_>>().join("; "))
        }
        ExprNode::Verbatim(text) => format!("`{}`", file.symbol_text(text)),
        ExprNode::Error => "error".to_owned(),
    }
}
