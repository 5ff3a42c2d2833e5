//! `--diff`: two programs compared up to names and numbers.

use super::cli::OptArgs;
use super::output;
use hostir::ParsedFile;
use hostir::diag::message;
use hostir::diag::{Diag, visible};
use hostir::hir2::write::outline::{OutlineLine, OutlineName, outline_programs};
use hostir::ir::Program;
use hostir_grammar::read_log;
use hostir_tool_support::errors;
use hostir_tool_support::io::ToolIo;
use hostir_tool_support::source::NamedText;
use hostir_tool_support::status::ToolStatus;
use similar::{Algorithm, DiffOp, capture_diff_slices};
use std::collections::HashMap;

/// Equal lines around those that differ.
const CONTEXT: usize = 3;

/// Compares the programs of two files and writes the lines that differ.
pub(super) fn compare_files(cli: &OptArgs, io: &mut ToolIo<'_>) -> ToolStatus {
    let [other] = &cli.others[..] else {
        let count = 1 + cli.others.len();
        let given = if count == 1 { "1 was" } else { &format!("{count} were") };
        let message = message!("`--diff` compares two files, but {} given", given);
        let note = "write `hir-opt --diff a.hir b.hir`; `-` is standard input";
        return output::report_diag(io, cli, Diag::global_error(errors::CONFLICT, message).with_note(note));
    };
    let (a, b) = (read_outline(&cli.file, cli, io), read_outline(other, cli, io));
    let (a, b) = match (a, b) {
        (Ok(a), Ok(b)) => (a, b),
        (Err(status), _) | (_, Err(status)) => return status,
    };
    let rows = compare_outlines(&a, &b);
    let changed = rows.iter().filter(|row| row.sign != ' ').count();
    if changed == 0 {
        io.print_message(&format!("hir-opt: {} and {other} are equal up to names and numbers", cli.file));
        return ToolStatus::Ok;
    }
    let text = format!("--- {}\n+++ {other}\n{}", cli.file, show_rows(&rows));
    match output::write_output(io, &cli.output, &visible::escape_block(&text)) {
        Ok(()) => ToolStatus::Differs,
        Err(diag) => output::report_diag(io, cli, diag),
    }
}

/// The lines of a file's programs; errors are reported.
fn read_outline(file: &str, cli: &OptArgs, io: &mut ToolIo<'_>) -> Result<Vec<OutlineLine>, ToolStatus> {
    let source = match io.read_linked_source(file) {
        Ok(source) => source,
        Err(diag) => return Err(output::report_diag(io, cli, diag)),
    };
    let decoded = source.decoded_text();
    let source = NamedText::from_log(source.name.clone(), &decoded, read_log(&decoded));
    let text = source.decoded_text();
    let (parsed, mut diags) = ParsedFile::parse(&text);
    if let Some(wanted) = cli.container {
        parsed.keep_errors_of(wanted - 1, &mut diags);
    }
    let mut reader = parsed.reader_with_options(&text, &cli.read_options(false)).with_element_type(cli.element_type);
    let numbers = (0..parsed.program_count()).filter(|at| cli.container.is_none_or(|wanted| wanted == at + 1));
    let mut programs: Vec<Program> = numbers.map(|at| reader.read_program(at, &mut diags)).collect();
    if let Some(wanted) = cli.container.filter(|_| programs.is_empty() && !diags.has_errors()) {
        let message = message!("container {} does not exist: the input has {}", wanted, parsed.program_count());
        diags.push(Diag::global_error(errors::CONTAINER, message));
    }
    diags.sort_by_place();
    if diags.has_errors() {
        io.report(cli.format, &source, &diags.items);
        return Err(ToolStatus::Program);
    }
    Ok(outline_programs(&mut programs))
}

/// A line of the comparison: `-` only in the first file, `+` only in the second, a blank in both.
struct DiffRow<'a> {
    sign: char,
    line: &'a str,
}

/// Lines that differ in more than names, or whose names stand for others elsewhere.
fn compare_outlines<'a>(a: &'a [OutlineLine], b: &'a [OutlineLine]) -> Vec<DiffRow<'a>> {
    let skeletons = |lines: &'a [OutlineLine]| lines.iter().map(|line| line.skeleton.as_str()).collect::<Vec<_>>();
    let ops = capture_diff_slices(Algorithm::Patience, &skeletons(a), &skeletons(b));
    let mut rows = Vec::new();
    let mut pairs = NamePairs::default();
    for op in ops {
        if let DiffOp::Equal { old_index, new_index, len } = op {
            for (old, new) in a[old_index..old_index + len].iter().zip(&b[new_index..new_index + len]) {
                match pairs.join_lines(old, new) {
                    true => rows.push(DiffRow { sign: ' ', line: &old.text }),
                    false => push_changed(&mut rows, std::slice::from_ref(old), std::slice::from_ref(new)),
                }
            }
            continue;
        }
        push_changed(&mut rows, &a[op.old_range()], &b[op.new_range()]);
    }
    rows
}

fn push_changed<'a>(rows: &mut Vec<DiffRow<'a>>, old: &'a [OutlineLine], new: &'a [OutlineLine]) {
    rows.extend(old.iter().map(|line| DiffRow { sign: '-', line: &line.text }));
    rows.extend(new.iter().map(|line| DiffRow { sign: '+', line: &line.text }));
}

/// The pairs of names of the two files that stand for each other.
#[derive(Default)]
struct NamePairs<'a> {
    there: HashMap<&'a OutlineName, &'a OutlineName>,
    back: HashMap<&'a OutlineName, &'a OutlineName>,
}

impl<'a> NamePairs<'a> {
    /// Joins the names of two lines with one skeleton; returns false if one of them is joined with another name.
    fn join_lines(&mut self, old: &'a OutlineLine, new: &'a OutlineLine) -> bool {
        if old.begins_scope {
            self.there.retain(|name, _| name.is_of_file);
            self.back.retain(|name, _| name.is_of_file);
        }
        let mut pairs = old.names.iter().zip(&new.names);
        let fits = pairs.clone().all(|(old, new)| {
            self.there.get(old).is_none_or(|known| *known == new)
                && self.back.get(new).is_none_or(|known| *known == old)
        });
        fits && pairs.all(|(old, new)| {
            self.there.insert(old, new);
            self.back.insert(new, old).is_none_or(|known| known == old)
        })
    }
}

/// The rows that differ with their surroundings; `...` stands for the others.
fn show_rows(rows: &[DiffRow<'_>]) -> String {
    let near = |at: usize| {
        let around = at.saturating_sub(CONTEXT)..(at + CONTEXT + 1).min(rows.len());
        rows[around].iter().any(|row| row.sign != ' ')
    };
    let mut text = String::new();
    let mut left_out = false;
    for (at, row) in rows.iter().enumerate() {
        if !near(at) {
            left_out = true;
            continue;
        }
        if std::mem::take(&mut left_out) {
            text.push_str("...\n");
        }
        text.push(row.sign);
        text.push_str(row.line);
        text.push('\n');
    }
    if left_out {
        text.push_str("...\n");
    }
    text
}
