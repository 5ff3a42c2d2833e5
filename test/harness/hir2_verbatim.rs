//! Counts what `hir 2` has no spelling for: places of the printed form, in backquotes, in the `hir 2` text of every
//! `.hir` of the tree. `hir2_verbatim --list` names the files.
#![allow(clippy::print_stdout, reason = "a program's own output")]

use hostir_grammar::hir2::ast::{ExprNode, FileSyntax, StmtForm};
use hostir_test::tree;
use std::collections::BTreeMap;
use std::process::ExitCode;

fn main() -> ExitCode {
    let list = std::env::args().any(|word| word == "--list");
    let mut counts: BTreeMap<(String, &str), usize> = BTreeMap::new();
    let (mut written, mut wrong) = (0, 0);
    for path in tree::programs() {
        let name = tree::relative(&path);
        for part in tree::read(&path).split("\n// -----\n") {
            let Some(text) = convert(part) else { continue };
            written += 1;
            let parsed = hostir_grammar::hir2::parse(&text);
            for error in &parsed.errors {
                wrong += 1;
                let place = error.span.as_usize_range();
                let near = text.get(place.start..).and_then(|rest| rest.lines().next()).unwrap_or_default();
                println!("{name}: {} at `{near}`", error.message);
            }
            for (kind, count) in count_verbatim(&parsed.file) {
                let folder = name.split('/').take(2).collect::<Vec<_>>().join("/");
                *counts.entry((folder, kind)).or_default() += count;
                if list && count > 0 {
                    println!("{name}: {count} {kind}");
                }
            }
        }
    }
    for ((folder, kind), count) in counts.iter().filter(|(_, count)| **count > 0) {
        println!("{count:6} {kind:12} {folder}");
    }
    println!("{written} texts, {} places in backquotes", counts.values().sum::<usize>());
    if wrong > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// The `hir 2` text of a valid text.
fn convert(text: &str) -> Option<String> {
    let (mut programs, mut diags) = hostir::load(text);
    programs.iter().for_each(|program| hostir::verify::verify(program, &mut diags));
    let valid = !programs.is_empty() && !diags.has_errors();
    valid.then(|| hostir::hir2::write::write_file(&mut programs))
}

/// The number of verbatim texts of each kind in a file.
fn count_verbatim(file: &FileSyntax) -> [(&'static str, usize); 4] {
    let is_verbatim = |expr: &ExprNode| matches!(expr, ExprNode::Verbatim(_));
    let statements = file.stmts.iter().filter(|stmt| matches!(stmt.form, StmtForm::Verbatim(_))).count();
    let axes = file.axes.iter().filter(|axis| is_verbatim(file.expr(axis.extent)) && axis.parallel.is_none()).count();
    let positions = file.types.iter().filter(|ty| ty.positions.is_some()).count();
    let exprs = file.exprs.iter().filter(|(expr, _)| is_verbatim(expr)).count() - axes;
    [("statements", statements), ("axes", axes), ("positions", positions), ("expressions", exprs)]
}
