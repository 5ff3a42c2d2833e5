//! From a file to one verified program.

use super::failure::RunFailure;
use hostir::ParsedFile;
use hostir::diag::{Diag, Diags};
use hostir::ir::Program;
use hostir_grammar::containers_in_log;
use hostir_tool_support::errors;
use hostir_tool_support::io::ToolIo;
use hostir_tool_support::source::NamedText;

/// A program with the text that messages about it quote.
#[derive(Debug)]
pub(super) struct SourceProgram {
    pub(super) source: NamedText,
    pub(super) program: Program,
    /// Warnings of the verifier.
    pub(super) warnings: Vec<Diag>,
}

impl SourceProgram {
    /// Reads, resolves and verifies the program in `path`, or its `container`-th (from 1).
    ///
    /// # Errors
    /// A file that cannot be read or holds no such program, and a program with errors.
    pub(super) fn read_program(path: &str, container: Option<usize>, io: &mut ToolIo<'_>) -> Result<Self, RunFailure> {
        if path.contains("%r") && !io.resolve_path(path).exists() {
            let message = format!("`{path}`: a directory with one program per rank is not supported");
            let note = "write one program for all ranks, which differ by `rank` and meshes";
            return Err(Diag::global_error(errors::NOT_YET, message).with_note(note).into());
        }
        Self::from_text(io.read_source(path)?, container)
    }

    /// Another program of the same text: the one of this name, or of this number (from 1).
    ///
    /// # Errors
    /// A text that holds no such program, and a program with errors.
    pub(super) fn read_sibling(&self, name: &str) -> Result<Self, RunFailure> {
        let source = self.source.clone();
        let (_, file, _) = parse_source(&source);
        let names = file.program_names();
        let number = names.iter().position(|known| known.as_deref() == Some(name)).map(|at| at + 1);
        let Some(number) = number.or_else(|| name.parse().ok()) else {
            let message = format!("`{}` has no program `{name}`", source.name);
            let known: Vec<String> = names.iter().flatten().map(|name| format!("`:{name}`")).collect();
            let note = match known.is_empty() {
                true => format!("write a number: `:1` to `:{}`", names.len()),
                false => format!("it has {}", known.join(", ")),
            };
            return Err(Diag::global_error(errors::CONTAINER, message).with_note(note).into());
        };
        Self::from_text(source, Some(number))
    }

    /// Resolves and verifies the program in a text, or its `container`-th (from 1).
    ///
    /// # Errors
    /// A text that holds no such program, and a program with errors.
    pub(super) fn from_text(raw: NamedText, container: Option<usize>) -> Result<Self, RunFailure> {
        let (text, file, mut diags) = parse_source(&raw);
        let chosen = if diags.has_errors() { Ok(0) } else { choose_container(&raw.name, &file, container) };
        let program = file.resolve_program(chosen?, &text, &mut diags);
        match diags.has_errors() {
            true => {
                let earlier = diags.primary_spans().collect::<Vec<_>>();
                hostir::verify::verify_partial(&program, &earlier, &mut diags);
            }
            false => hostir::verify::verify(&program, &mut diags),
        }
        diags.sort_by_place();
        let source = NamedText { name: raw.name, bytes: text.into_bytes() };
        if diags.has_errors() {
            return Err(RunFailure::from_diags(source, diags.items));
        }
        Ok(Self { source, program, warnings: diags.items })
    }
    /// Diagnostics about the program.
    pub(super) fn to_failure(&self, diags: Vec<Diag>) -> RunFailure {
        RunFailure::from_diags(self.source.clone(), diags)
    }
}

/// The text of a file without what a log adds, and its syntax.
fn parse_source(raw: &NamedText) -> (String, ParsedFile, Diags) {
    match std::str::from_utf8(&raw.bytes) {
        Ok(text) => {
            let text = containers_in_log(text).into_owned();
            let (file, diags) = ParsedFile::parse(&text);
            (text, file, diags)
        }
        Err(_) => {
            let (text, parsed) = hostir_grammar::parse_bytes(&raw.bytes);
            let items = parsed.errors.into_iter().map(hostir::syntax_error).collect();
            (text, ParsedFile::Printed(parsed.ast), Diags { items })
        }
    }
}

/// Which container of a file is meant. Without a number, a file in `hir 2` means its first program: what stands behind it
/// is mostly its reference.
fn choose_container(name: &str, file: &ParsedFile, wanted: Option<usize>) -> Result<usize, Diag> {
    let count = file.program_count();
    match wanted {
        Some(wanted) if (1..=count).contains(&wanted) => Ok(wanted - 1),
        Some(wanted) => Err(Diag::global_error(
            errors::CONTAINER,
            format!("`{name}` contains {count} programs, so there is no number {wanted}"),
        )),
        None if count == 1 || (count > 1 && file.is_hir2()) => Ok(0),
        None => Err(Diag::global_error(
            errors::CONTAINER,
            format!("`{name}` contains {count} programs, and none is selected"),
        )
        .with_note(format!("select one with `--container=N`, from 1 to {count}"))),
    }
}
