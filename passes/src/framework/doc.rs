//! `docs/passes.md`, generated from the pass table.

use crate::framework::pass::PassInfo;
use hostir::ReadOptions;
use hostir::ops::OpRegistry;
use hostir::print::{PrintForm, PrintOptions, print_into};
use std::fmt::Write;

const HEAD: &str = "\
# Passes

<!-- Generated from the pass table; do not edit. `HIR_BLESS=1 cargo test -p hostir-passes` rewrites it. -->

`hir-opt --pass=NAME{option=value,...}` runs one pass, `--pass-pipeline='a,b{option=value}'` several.
Options are separated by commas or blanks, `-` and `_` are the same in names, lists are in braces.
A pass that is an alias for several takes options for each of them by its name:
`overlap-lower{allreduce_chunks=2,host-ir-lower={allgather=ring}}`. These replace those that the alias gives.
A pass turns a valid program into a valid one; a pass that rejects a program leaves it unchanged.

";

/// Documents all passes of a table in Markdown, in its order.
pub fn table_markdown(table: &[&PassInfo]) -> String {
    let mut out = HEAD.to_owned();
    out.push_str("| pass | what it does |\n|---|---|\n");
    for pass in table {
        let _ = writeln!(out, "| [`{0}`](#{0}) | {1} |", pass.name, pass.summary);
    }
    for pass in table {
        pass_markdown(pass, &mut out);
    }
    out
}

fn pass_markdown(pass: &PassInfo, out: &mut String) {
    // Writing to a string cannot fail.
    let _ = write!(out, "\n## {}\n\n{}.\n\n{}\n", pass.name, pass.summary, pass.description.trim());
    if let Some(steps) = pass.action.pipeline_steps() {
        let defaults = crate::framework::options::Options::from_defaults(pass.options);
        let _ = write!(out, "\nAlias for `{}`.\n", steps(&defaults));
    }
    if !pass.options.is_empty() {
        out.push_str("\n| option | value | default | |\n|---|---|---|---|\n");
    }
    for option in pass.options {
        let default = option.default.map_or("(required)".to_owned(), |text| format!("`{text}`"));
        let _ = writeln!(out, "| `{}` | {} | {default} | {} |", option.name, option.ty.type_description(), option.help);
    }
    if !pass.statistics.is_empty() {
        out.push_str("\nStatistics:\n\n");
    }
    for statistic in pass.statistics {
        let _ = writeln!(out, "- `{}`: {}", statistic.name, statistic.help);
    }
    if let Some(example) = pass.example {
        let _ =
            write!(out, "\nBefore:\n\n```hir\n{}\n```\n", example_text(example.before, OpRegistry::OURS).trim_end());
        let _ = write!(out, "\nAfter:\n\n```hir\n{}\n```\n", example_text(example.after, OpRegistry::OURS).trim_end());
    }
}

/// The text of an example, which may name these ops, in the form for people.
pub fn example_text(text: &str, ops: OpRegistry) -> String {
    if hostir::hir2::is_hir2(text) {
        return text.to_owned();
    }
    let (programs, _) = hostir::load_with_options(text, &ReadOptions::with_ops(ops));
    let mut out = String::new();
    for program in &programs {
        print_into(program, PrintOptions { form: PrintForm::Short, ..PrintOptions::default() }, &mut out);
    }
    out
}
