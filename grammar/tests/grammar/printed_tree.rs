//! A rendering of the tree without spans, so that differently laid out texts can be compared.

use hostir_grammar::ast::{
    ArgRange, ArgSyntax, BlockId, DomainId, ExprId, ExprSyntax, StmtId, StmtSyntax, TensorRefId, ValueSyntax,
};
use hostir_grammar::{SyntaxTree, parse};
use std::fmt::Write;

/// The tree of a text that has to be free of errors.
pub(crate) fn tree(text: &str) -> String {
    let parsed = parse(text);
    assert!(parsed.errors.is_empty(), "{:#?}\nin\n{text}", parsed.errors);
    render(&parsed.ast)
}

/// The codes of a text's errors.
pub(crate) fn codes(text: &str) -> Vec<&'static str> {
    parse(text).errors.iter().map(|error| error.code).collect()
}

/// All containers.
pub(crate) fn render(ast: &SyntaxTree) -> String {
    let mut out = String::new();
    for container in &ast.containers {
        let (inputs, outputs) = (list(ast, container.inputs), list(ast, container.outputs));
        let _ = writeln!(out, "container ({inputs}) -> ({outputs})");
        block(ast, &mut out, container.body, 1);
        for unit in &container.units {
            let _ = writeln!(
                out,
                "unit {} {{{}}} -> {{{}}} attrs {{{}}} fusion ({}) -> ({})",
                unit.number,
                list(ast, unit.inputs),
                list(ast, unit.outputs),
                list(ast, unit.attrs),
                list(ast, unit.fusion_inputs),
                list(ast, unit.fusion_outputs)
            );
            block(ast, &mut out, unit.body, 1);
        }
        for (new, original) in container.aliases.iter().flatten() {
            let _ = writeln!(out, "alias {} -> {}", arg(ast, new), arg(ast, original));
        }
        if let Some(index) = container.index_definitions {
            out.push_str("index definitions\n");
            block(ast, &mut out, index, 1);
        }
    }
    out
}

fn block(ast: &SyntaxTree, out: &mut String, id: BlockId, depth: usize) {
    for &stmt in &ast.blocks[id.index()].stmts {
        let node = &ast.stmts[stmt.index()];
        let _ = writeln!(out, "{}{}", "  ".repeat(depth), statement(ast, node));
        if let Some(body) = node.body {
            block(ast, out, body, depth + 1);
        }
        if let Some(body) = node.else_body {
            let _ = writeln!(out, "{}else", "  ".repeat(depth));
            block(ast, out, body, depth + 1);
        }
    }
}

fn statement(ast: &SyntaxTree, stmt: &StmtSyntax) -> String {
    let number = stmt.number.map_or(String::new(), |n| format!(" #{n}"));
    let results = list(ast, stmt.results);
    let name = ast.symbol_text(stmt.name);
    format!("{:?} [{results}] {name}{number} ({})", stmt.shape, list(ast, stmt.args))
}

fn list(ast: &SyntaxTree, range: ArgRange) -> String {
    ast.args_in(range).iter().map(|a| arg(ast, a)).collect::<Vec<_>>().join(", ")
}

fn arg(ast: &SyntaxTree, arg: &ArgSyntax) -> String {
    let key = arg.key.map_or(String::new(), |key| format!("{}: ", ast.symbol_text(key)));
    key + &value(ast, arg.value)
}

fn value(ast: &SyntaxTree, value: ValueSyntax) -> String {
    match value {
        ValueSyntax::Expr(id) => expr(ast, id),
        ValueSyntax::Domain(id) => domain(ast, id),
        ValueSyntax::Stream(id) => format!("Stream<{}>", expr(ast, id)),
        ValueSyntax::Handle(word, number) => format!("{}#{number}", ast.symbol_text(word)),
        ValueSyntax::List(range) => format!("{{{}}}", list(ast, range)),
        ValueSyntax::Text(text) => format!("{:?}", ast.symbol_text(text)),
        ValueSyntax::Team(range, cut) => {
            format!("team<{}>{}", list(ast, range), if cut { "+" } else { "" })
        }
        ValueSyntax::Stmt(StmtId(id)) => format!("<{}>", statement(ast, &ast.stmts[id as usize])),
        ValueSyntax::Error => "error".to_owned(),
    }
}

fn expr(ast: &SyntaxTree, id: ExprId) -> String {
    let s = |symbol| ast.symbol_text(symbol);
    match ast.exprs[id.index()].0 {
        ExprSyntax::Int(n) => n.to_string(),
        ExprSyntax::Hex(n) => format!("{n:#x}"),
        ExprSyntax::Bool(value, capital) => format!("{value}{}", if capital { "!" } else { "" }),
        ExprSyntax::Typed(dtype, text) => format!("{}`{}`", s(dtype), s(text)),
        ExprSyntax::Float(text) => format!("f`{}`", s(text)),
        ExprSyntax::Name(name) => s(name).to_owned(),
        ExprSyntax::Tensor(id) => tensor(ast, id),
        ExprSyntax::Unary(op, a) => format!("<{}{}>", s(op), expr(ast, a)),
        ExprSyntax::Binary(op, a, b) => format!("<{} {} {}>", expr(ast, a), s(op), expr(ast, b)),
        ExprSyntax::Call(name, args) => format!("{}({})", s(name), list(ast, args)),
        ExprSyntax::Group(a) => format!("({})", expr(ast, a)),
        ExprSyntax::Index(a, b) => format!("{}[{}]", expr(ast, a), expr(ast, b)),
        ExprSyntax::Field(a, field) => format!("{}.{}", expr(ast, a), s(field)),
        ExprSyntax::Braces(args) => format!("b{{{}}}", list(ast, args)),
        ExprSyntax::Error => "error".to_owned(),
    }
}

fn tensor(ast: &SyntaxTree, id: TensorRefId) -> String {
    let tensor = &ast.tensors[id.index()];
    let Some(full) = &tensor.full else { return format!("T{}", tensor.number) };
    let domains = (full.domains_start..full.domains_end).map(|id| domain(ast, DomainId(id)));
    let domains = domains.collect::<Vec<_>>().join(", ");
    let (memory, dtype) = (ast.symbol_text(full.memory), ast.symbol_text(full.dtype));
    let mut out = format!("T{}:{memory}:{dtype}[{domains}]", tensor.number);
    if full.positions.0 != 0 {
        let words: Vec<_> = ast.symbol_text(full.positions).split_whitespace().collect();
        let _ = write!(out, "@{}", words.join(" "));
    }
    if let Some(mesh) = &full.mesh {
        let _ = write!(out, "@{:?}{:?}", mesh.shape, mesh.devices);
    }
    if !full.attrs.is_empty() {
        let _ = write!(out, "@{{{}}}", list(ast, full.attrs));
    }
    out
}

fn domain(ast: &SyntaxTree, id: DomainId) -> String {
    let d = &ast.domains[id.index()];
    let number = d.number.map_or(String::new(), |n| n.to_string());
    let mut out = format!("{}{}{number}{{", d.iter as char, ast.symbol_text(d.parallel));
    for bound in [d.start, d.stop].into_iter().flatten() {
        let _ = write!(out, "{} : ", expr(ast, bound));
    }
    out += &expr(ast, d.extent);
    if let Some(expanded) = d.expanded {
        let _ = write!(out, " ex {}", expr(ast, expanded));
    }
    out.push('}');
    for (flag, text) in [(d.rfactor, "rf"), (d.padded, "_p"), (d.clustered, "_c")] {
        if flag {
            out += text;
        }
    }
    out
}
