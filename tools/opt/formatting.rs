//! `--format`: writes texts in `hir 2` in their canonical layout, in their files.

use super::cli::OptArgs;
use super::output;
use hostir::diag::fix::{line_edits, list_edited};
use hostir::diag::{Diag, Diags, Span};
use hostir::hir2::{format_text, is_hir2};
use hostir_tool_support::errors;
use hostir_tool_support::io::ToolIo;
use hostir_tool_support::source::NamedText;
use hostir_tool_support::staged::replace_file;
use hostir_tool_support::status::ToolStatus;
use std::path::Path;

/// Folders that hold no sources.
const SKIPPED: &[&str] = &["target", "node_modules"];

/// The counts of a run.
#[derive(Default)]
struct FormatCounts {
    changed: usize,
    same: usize,
    /// True if files could not be read, written or parsed.
    failed: Option<ToolStatus>,
}

/// Formats every file, and every `.hir` file of a folder, or lists with `--check` those that would change.
pub(super) fn format_files(cli: &OptArgs, io: &mut ToolIo<'_>) -> ToolStatus {
    let mut counts = FormatCounts::default();
    for path in std::iter::once(&cli.file).chain(&cli.others) {
        let folder = io.resolve_path(path);
        if !folder.is_dir() {
            format_file(path, true, cli, &mut counts, io);
            continue;
        }
        let mut files = Vec::new();
        if let Err(error) = list_files(&folder, path, &mut files) {
            let diag = errors::cannot_read(path, &error);
            counts.failed = Some(output::report_diag(io, cli, diag));
        }
        files.sort_unstable();
        files.iter().for_each(|file| format_file(file, false, cli, &mut counts, io));
    }
    report_counts(cli, &counts, io);
    match counts.failed {
        Some(status) => status,
        None if cli.check && counts.changed > 0 => ToolStatus::Differs,
        None => ToolStatus::Ok,
    }
}

/// The `.hir` files below a folder, by the name that the user gave the folder.
fn list_files(folder: &Path, shown: &str, files: &mut Vec<String>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        // A name that is no text is nobody's program.
        let Ok(name) = entry.file_name().into_string() else { continue };
        let shown = format!("{}/{name}", shown.trim_end_matches('/'));
        let kind = entry.file_type()?;
        if kind.is_dir() && !name.starts_with('.') && !SKIPPED.contains(&name.as_str()) {
            list_files(&entry.path(), &shown, files)?;
        } else if kind.is_file() && name.ends_with(".hir") {
            files.push(shown);
        }
    }
    Ok(())
}

/// Formats a file; reports one that the user `named` if it is not in `hir 2`.
fn format_file(path: &str, named: bool, cli: &OptArgs, counts: &mut FormatCounts, io: &mut ToolIo<'_>) {
    let raw = match io.read_source(path) {
        Ok(raw) => raw,
        Err(diag) => {
            counts.failed = Some(output::report_diag(io, cli, diag));
            return;
        }
    };
    let text = raw.decoded_text();
    if !is_hir2(&text) {
        if named {
            let name = &raw.name;
            io.print_message(&format!(
                "hir-opt: {name} is left as it is: only texts in `hir 2` have a canonical layout"
            ));
        }
        return;
    }
    // The parts of a divided input import nothing.
    let source = if cli.split_input_file { raw.clone() } else { io.link_source(path, raw.clone()) };
    let linked = source.decoded_text();
    let formatted = match check_utf8(&raw).and_then(|()| format_parts(&linked, cli.split_input_file)) {
        Ok(formatted) => formatted,
        Err(diags) => {
            io.report(cli.format, &source, &diags.items);
            counts.failed = Some(ToolStatus::Program);
            return;
        }
    };
    let is_same = formatted.as_bytes() == raw.bytes;
    *if is_same { &mut counts.same } else { &mut counts.changed } += 1;
    if cli.check {
        list_changes(path, &text, &formatted, io);
    } else if let Err(diag) = write_formatted(path, &formatted, is_same, cli, io) {
        counts.failed = Some(output::report_diag(io, cli, diag));
    }
}

/// Refuses bytes that are not text, also in comments: the layout would have U+FFFD in their place.
fn check_utf8(source: &NamedText) -> Result<(), Diags> {
    let Err(error) = std::str::from_utf8(&source.bytes) else { return Ok(()) };
    // Up to there the decoded text has the same bytes, and then U+FFFD.
    let at = error.valid_up_to();
    let span = Span::new(at, at + char::REPLACEMENT_CHARACTER.len_utf8());
    let mut diags = Diags::default();
    diags.push(Diag::error("H0019", span, "bytes that are not UTF-8").with_note("save the file as UTF-8"));
    Err(diags)
}

/// The canonical layout of a text, or of each part between lines `// -----`.
fn format_parts(text: &str, at_separators: bool) -> Result<String, Diags> {
    let parts = if at_separators { hostir_grammar::split_input(text) } else { vec![(0, text)] };
    let (mut out, mut found) = (String::new(), Diags::default());
    for (at, (start, part)) in parts.into_iter().enumerate() {
        out.push_str(if at > 0 { "// -----\n" } else { "" });
        match format_text(part) {
            Ok(formatted) => out.push_str(&formatted),
            Err(diags) => found.items.extend(diags.items.into_iter().map(|diag| shift_diag(diag, start))),
        }
    }
    if found.has_errors() { Err(found) } else { Ok(out) }
}

/// Converts a diagnostic about a part to one about the text.
fn shift_diag(mut diag: Diag, by: usize) -> Diag {
    let shifted = |span: Span| Span::new(span.start as usize + by, span.end as usize + by);
    diag.labels_mut().for_each(|label| label.span = shifted(label.span));
    diag.fixes.clear();
    diag
}

/// Writes the text to its file if it changed; from standard input and with `-o` always.
fn write_formatted(path: &str, text: &str, is_same: bool, cli: &OptArgs, io: &mut ToolIo<'_>) -> Result<(), Diag> {
    if path == "-" || cli.output_given {
        return output::write_output(io, &cli.output, text);
    }
    if is_same {
        return Ok(());
    }
    replace_file(path, io.resolve_path(path), text.as_bytes())
}

/// The lines that would change, each with its place.
fn list_changes(path: &str, text: &str, formatted: &str, io: &mut ToolIo<'_>) {
    for row in list_edited(text, &line_edits(text, formatted)).into_iter().filter(|row| row.sign != ' ') {
        io.print_message(&format!("{path}:{}: {} {}", row.number, row.sign, row.line.trim_end()));
    }
}

fn report_counts(cli: &OptArgs, counts: &FormatCounts, io: &mut ToolIo<'_>) {
    let files = |count: usize| if count == 1 { "1 file".to_owned() } else { format!("{count} files") };
    let verb = if cli.check { "would be formatted" } else { "formatted" };
    if counts.changed + counts.same > 1 || counts.changed > 0 {
        io.print_message(&format!("hir-opt: {} {verb}, {} left as they are", files(counts.changed), counts.same));
    }
}
