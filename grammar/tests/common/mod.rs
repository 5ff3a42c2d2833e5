//! A rendering of the tree without spans, so that differently laid out texts can be compared.

use hostir_grammar::ast::{
    Arg, ArgRange, BlockId, DomainId, Expr, ExprId, Stmt, StmtId, TensorRefId, Value,
};
use hostir_grammar::{Ast, parse};
use std::fmt::Write;

#[allow(dead_code, reason = "not every test file needs it")]
/// The tree of a text that has to be free of errors.
pub(crate) fn tree(text: &str) -> String {
    let parsed = parse(text);
    assert!(parsed.errors.is_empty(), "{:#?}\nin\n{text}", parsed.errors);
    render(&parsed.ast)
}

/// The codes of a text's errors.
#[allow(dead_code, reason = "not every test file needs it")]
pub(crate) fn codes(text: &str) -> Vec<&'static str> {
    parse(text).errors.iter().map(|error| error.code).collect()
}

/// All containers.
#[allow(dead_code, reason = "not every test file needs it")]
pub(crate) fn render(ast: &Ast) -> String {
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

fn block(ast: &Ast, out: &mut String, id: BlockId, depth: usize) {
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

fn statement(ast: &Ast, stmt: &Stmt) -> String {
    let number = stmt.number.map_or(String::new(), |n| format!(" #{n}"));
    let results = list(ast, stmt.results);
    let name = ast.str(stmt.name);
    format!("{:?} [{results}] {name}{number} ({})", stmt.shape, list(ast, stmt.args))
}

fn list(ast: &Ast, range: ArgRange) -> String {
    ast.args(range).iter().map(|a| arg(ast, a)).collect::<Vec<_>>().join(", ")
}

fn arg(ast: &Ast, arg: &Arg) -> String {
    let key = arg.key.map_or(String::new(), |key| format!("{}: ", ast.str(key)));
    key + &value(ast, arg.value)
}

fn value(ast: &Ast, value: Value) -> String {
    match value {
        Value::Expr(id) => expr(ast, id),
        Value::Domain(id) => domain(ast, id),
        Value::Stream(id) => format!("Stream<{}>", expr(ast, id)),
        Value::Handle(word, number) => format!("{}#{number}", ast.str(word)),
        Value::List(range) => format!("{{{}}}", list(ast, range)),
        Value::Team(range, cut) => {
            format!("team<{}>{}", list(ast, range), if cut { "+" } else { "" })
        }
        Value::Stmt(StmtId(id)) => format!("<{}>", statement(ast, &ast.stmts[id as usize])),
        Value::Error => "error".to_owned(),
    }
}

fn expr(ast: &Ast, id: ExprId) -> String {
    let s = |symbol| ast.str(symbol);
    match ast.exprs[id.index()].0 {
        Expr::Int(n) => n.to_string(),
        Expr::Hex(n) => format!("{n:#x}"),
        Expr::Bool(value, capital) => format!("{value}{}", if capital { "!" } else { "" }),
        Expr::Typed(dtype, text) => format!("{}`{}`", s(dtype), s(text)),
        Expr::Float(text) => format!("f`{}`", s(text)),
        Expr::Name(name) => s(name).to_owned(),
        Expr::Tensor(id) => tensor(ast, id),
        Expr::Unary(op, a) => format!("<{}{}>", s(op), expr(ast, a)),
        Expr::Binary(op, a, b) => format!("<{} {} {}>", expr(ast, a), s(op), expr(ast, b)),
        Expr::Call(name, args) => format!("{}({})", s(name), list(ast, args)),
        Expr::Group(a) => format!("({})", expr(ast, a)),
        Expr::Index(a, b) => format!("{}[{}]", expr(ast, a), expr(ast, b)),
        Expr::Field(a, field) => format!("{}.{}", expr(ast, a), s(field)),
        Expr::Braces(args) => format!("b{{{}}}", list(ast, args)),
        Expr::Error => "error".to_owned(),
    }
}

fn tensor(ast: &Ast, id: TensorRefId) -> String {
    let tensor = &ast.tensors[id.index()];
    let Some(full) = &tensor.full else { return format!("T{}", tensor.number) };
    let domains = (full.domains_start..full.domains_end).map(|id| domain(ast, DomainId(id)));
    let domains = domains.collect::<Vec<_>>().join(", ");
    let (memory, dtype) = (ast.str(full.memory), ast.str(full.dtype));
    let mut out = format!("T{}:{memory}:{dtype}[{domains}]", tensor.number);
    if full.positions.0 != 0 {
        let words: Vec<_> = ast.str(full.positions).split_whitespace().collect();
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

fn domain(ast: &Ast, id: DomainId) -> String {
    let d = &ast.domains[id.index()];
    let number = d.number.map_or(String::new(), |n| n.to_string());
    let mut out = format!("{}{}{number}{{", d.iter as char, ast.str(d.parallel));
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
