//! `--list-passes=NAME`: all about one pass; `--list-passes --json`: all passes as data.

use hostir::ops::OpRegistry;
use hostir_passes::{OptionSpec, Options, PassInfo, doc};
use hostir_tool_support::terminal::wrap_text;
use serde_json::{Value, json};
use std::fmt::Write;

/// The description of a pass: its effect, options, statistics and example, which may name these ops.
pub(super) fn pass_page(pass: &PassInfo, ops: OpRegistry, width: usize) -> String {
    let mut out = format!("{}\n  {}\n\n", pass.name, wrap_text(&format!("{}.", pass.summary), 2, 2, width));
    out += &markdown_block(pass.description.trim(), width);
    if let Some(steps) = steps_text(pass) {
        let steps = steps.replace(',', ", ");
        let _ = write!(out, "\nSteps:\n  {}\n", wrap_text(&steps, 2, 2, width));
        out += "\nA step's own options: ";
        let _ = writeln!(out, "{}{{STEP={{option=value}}}}", pass.name);
    }
    if !pass.options.is_empty() {
        out += "\nOptions:\n";
    }
    for option in pass.options {
        out += &describe_option(option, width);
    }
    if !pass.statistics.is_empty() {
        out += "\nStatistics:\n";
    }
    for statistic in pass.statistics {
        let head = format!("{}: {}", statistic.name, statistic.help);
        let _ = writeln!(out, "  {}", wrap_text(&head, 2, 6, width));
    }
    if let Some(example) = pass.example {
        let _ = write!(out, "\nBefore --pass='{}{}':\n\n", pass.name, example.options);
        out += &indented(&doc::example_text(example.before, ops));
        out += "\nAfter:\n\n";
        out += &indented(&doc::example_text(example.after, ops));
    }
    out
}

/// An option with its values and its default, on lines of their own.
pub(super) fn describe_option(option: &OptionSpec, width: usize) -> String {
    let default = option.default.map_or("required".to_owned(), |text| format!("default {text}"));
    let head = format!("{}: {} ({default})", option.name, option.ty.type_description());
    format!("  {}\n      {}\n", wrap_text(&head, 2, 6, width), wrap_text(option.help, 6, 6, width))
}

/// The pipeline that the pass stands for with its defaults.
pub(super) fn steps_text(pass: &PassInfo) -> Option<String> {
    pass.action.pipeline_steps().map(|steps| steps(&Options::from_defaults(pass.options)))
}

/// A pass as data.
pub(super) fn pass_object(pass: &PassInfo, ops: OpRegistry) -> Value {
    let options = pass.options.iter().map(|option| {
        json!({
            "name": option.name,
            "type": option.ty.type_description(),
            "values": option.ty.words(),
            "default": option.default,
            "help": option.help,
        })
    });
    let statistics = pass.statistics.iter().map(|one| json!({ "name": one.name, "help": one.help }));
    let example = pass.example.map(|example| {
        json!({
            "options": example.options,
            "before": doc::example_text(example.before, ops),
            "after": doc::example_text(example.after, ops),
        })
    });
    json!({
        "name": pass.name,
        "summary": pass.summary,
        "description": pass.description.trim(),
        "options": options.collect::<Value>(),
        "statistics": statistics.collect::<Value>(),
        "steps": steps_text(pass),
        "example": example,
    })
}

/// Markdown for a terminal: paragraphs and items of lists are broken anew, tables and code stay as they are.
fn markdown_block(text: &str, width: usize) -> String {
    let mut out = String::new();
    let mut paragraph = String::new();
    let mut is_code = false;
    for line in text.lines().map(str::trim_end) {
        let is_fence = line.trim_start().starts_with("```");
        let is_verbatim = is_code || is_fence || line.starts_with('|') || line.starts_with("    ");
        is_code ^= is_fence;
        let starts_item = is_list_item(line);
        if is_verbatim || line.is_empty() || starts_item {
            end_paragraph(&mut paragraph, width, &mut out);
        }
        if is_verbatim || line.is_empty() {
            let indent = if line.is_empty() { "" } else { "  " };
            let _ = writeln!(out, "{indent}{line}");
        } else {
            paragraph.push_str(line);
            paragraph.push(' ');
        }
    }
    end_paragraph(&mut paragraph, width, &mut out);
    out
}

fn is_list_item(line: &str) -> bool {
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    line.starts_with("- ") || (number.len() < line.len() && number.starts_with(". "))
}

fn end_paragraph(paragraph: &mut String, width: usize, out: &mut String) {
    if !paragraph.is_empty() {
        let indent = if is_list_item(paragraph) { 4 } else { 2 };
        let _ = writeln!(out, "  {}", wrap_text(paragraph, 2, indent, width));
        paragraph.clear();
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}
