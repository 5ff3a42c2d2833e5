//! From a file to one verified program.

use super::failure::RunFailure;
use hostir::diag::message;
use hostir::diag::{Diag, Diags, syntax_error};
use hostir::ir::{DType, Program};
use hostir::{ParsedFile, ReadOptions};
use hostir_grammar::{LogText, read_log};
use hostir_tool_support::errors;
use hostir_tool_support::io::ToolIo;
use hostir_tool_support::source::NamedText;

/// The chosen program of a file, and the way to read it.
#[derive(Clone, Default, Debug)]
pub(super) struct ProgramChoice {
    /// Its number, from 1; `None` for the only one.
    pub(super) container: Option<usize>,
    /// The element type of tensors whose text has none; `None` for `float`.
    pub(super) element_type: Option<DType>,
    /// The other settings with which the text is read.
    pub(super) read: ReadOptions,
}

/// A program with the text that messages about it quote.
#[derive(Debug)]
pub(super) struct SourceProgram {
    pub(super) source: NamedText,
    pub(super) program: Program,
    /// Warnings of the verifier.
    pub(super) warnings: Vec<Diag>,
    /// The way in which it was read.
    choice: ProgramChoice,
    /// Its place among several programs of the file.
    pub(super) place: Option<ProgramPlace>,
}

/// The place of a program among several of a file.
#[derive(Clone, Debug)]
pub(super) struct ProgramPlace {
    /// Its name, if the text gives one.
    name: Option<String>,
    /// Its number, from 1.
    number: usize,
    /// The number of programs.
    count: usize,
}

impl ProgramPlace {
    /// Whether it is the last program of the file.
    pub(super) fn is_last(&self) -> bool {
        self.number == self.count
    }
}

impl std::fmt::Display for ProgramPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (number, count) = (self.number, self.count);
        match &self.name {
            Some(name) => write!(f, "`{name}` ({number} of {count} programs)"),
            None => write!(f, "program {number} of {count}"),
        }
    }
}

impl SourceProgram {
    /// Reads, resolves and verifies the chosen program in `path`.
    ///
    /// # Errors
    /// If the file cannot be read or has no such program, or the program has errors.
    pub(super) fn read_program(path: &str, choice: ProgramChoice, io: &mut ToolIo<'_>) -> Result<Self, RunFailure> {
        if path.contains("%r") && !io.resolve_path(path).exists() {
            let message = message!("`{}`: a directory with one program per rank is not supported", path);
            let note = "write one program for all ranks, which differ by `rank` and meshes";
            return Err(Diag::global_error(errors::NOT_YET, message).with_note(note).into());
        }
        Self::from_text(io.read_linked_source(path)?, choice)
    }

    /// Returns true if the text has a program of this name.
    pub(super) fn has_sibling(&self, name: &str) -> bool {
        let source = self.source.clone();
        let names = FoundPrograms::in_text(&source).file.program_names();
        names.iter().any(|known| known.as_deref() == Some(name))
    }

    /// Another program of the same text: the one of this name, or of this number (from 1).
    ///
    /// # Errors
    /// If the text has no such program, or the program has errors.
    pub(super) fn read_sibling(&self, name: &str) -> Result<Self, RunFailure> {
        let source = self.source.clone();
        let file = FoundPrograms::in_text(&source).file;
        let names = file.program_names();
        let number = names.iter().position(|known| known.as_deref() == Some(name)).map(|at| at + 1);
        let Some(number) = number.or_else(|| name.parse().ok()) else {
            let message = message!("`{}` has no program `{}`", source.name, name);
            let known: Vec<String> = names.iter().flatten().map(|name| format!("`:{name}`")).collect();
            let note = match known.is_empty() {
                true => format!("write a number: `:1` to `:{}`", names.len()),
                false => format!("it has {}", known.join(", ")),
            };
            return Err(Diag::global_error(errors::CONTAINER, message).with_note(note).into());
        };
        Self::from_text(source, ProgramChoice { container: Some(number), ..self.choice.clone() })
    }

    /// Resolves and verifies the chosen program in a text.
    ///
    /// # Errors
    /// If the text has no such program, or the program has errors.
    pub(super) fn from_text(raw: NamedText, choice: ProgramChoice) -> Result<Self, RunFailure> {
        FoundPrograms::in_text(&raw).read(choice)
    }

    /// Resolves and verifies all programs of a text, each on its own.
    pub(super) fn read_all(
        raw: &NamedText,
        choice: ProgramChoice,
    ) -> impl Iterator<Item = Result<Self, RunFailure>> + use<> {
        let found = FoundPrograms::in_text(raw);
        // A text without programs has the error that says so.
        let count = found.file.program_count().max(1);
        (1..=count).map(move |number| found.read(ProgramChoice { container: Some(number), ..choice.clone() }))
    }

    /// Diagnostics about the program.
    pub(super) fn to_failure(&self, diags: Vec<Diag>) -> RunFailure {
        RunFailure::from_diags(self.source.clone(), diags)
    }
}

/// The programs of a file.
struct FoundPrograms {
    /// The text without what a log adds.
    source: NamedText,
    file: ParsedFile,
    /// Errors of syntax, and warnings about the log.
    diags: Diags,
    /// For each program the tag of its lines in a log.
    tags: Vec<String>,
    /// True if the file is a log with the same program of several processes, and no other one.
    is_one_program: bool,
}

impl FoundPrograms {
    /// Resolves and verifies the chosen program.
    fn read(&self, choice: ProgramChoice) -> Result<SourceProgram, RunFailure> {
        let (source, file, mut diags) = (&self.source, &self.file, self.diags.clone());
        if let Some(wanted) = choice.container {
            // Errors of the other programs do not matter.
            file.keep_errors_of(wanted.wrapping_sub(1), &mut diags);
        }
        let has_none = self.file.is_hir2() && self.file.program_count() == 0;
        let is_unread = diags.has_errors() && (choice.container.is_none() || has_none);
        let chosen = if is_unread { Ok(0) } else { self.choose(&choice) };
        let place = chosen.as_ref().ok().and_then(|&index| self.place_of(index));
        let text = source.decoded_text();
        let reader = file.reader_with_options(&text, &choice.read);
        let mut reader = reader.with_element_type(choice.element_type.unwrap_or(DType::Float));
        let program = reader.read_program(chosen?, &mut diags);
        match diags.has_errors() {
            true => {
                let earlier = diags.primary_spans().collect::<Vec<_>>();
                hostir::verify::verify_partial(&program, &earlier, &mut diags);
            }
            false => {
                hostir::verify::verify(&program, &mut diags);
                if diags.has_errors() {
                    hostir::lower::add_independent_conflicts(&program, &choice.read.given, &mut diags);
                }
            }
        }
        diags.sort_by_place();
        if diags.has_errors() {
            return Err(RunFailure::from_diags(source.clone(), diags.items));
        }
        Ok(SourceProgram { source: source.clone(), program, warnings: diags.items, choice, place })
    }

    /// The place of a program, if there are several.
    fn place_of(&self, index: usize) -> Option<ProgramPlace> {
        let count = self.file.program_count();
        let name = || self.file.program_names().into_iter().nth(index).flatten();
        (count > 1).then(|| ProgramPlace { name: name(), number: index + 1, count })
    }

    fn in_text(raw: &NamedText) -> Self {
        let Ok(text) = std::str::from_utf8(&raw.bytes) else {
            let (text, parsed) = hostir_grammar::parse_bytes(&raw.bytes);
            let items = parsed.errors.into_iter().map(syntax_error).collect();
            let (source, file) = (NamedText::new(raw.name.clone(), text), ParsedFile::Printed(Box::new(parsed.ast)));
            return Self { source, file, diags: Diags { items }, tags: Vec::new(), is_one_program: false };
        };
        // A program from a log is no log itself.
        let mut log = if raw.log.is_some() { LogText::plain(text) } else { read_log(text) };
        let (file, found) = ParsedFile::parse(&log.text);
        let notices = std::mem::take(&mut log.notices);
        let mut diags = Diags { items: notices.into_iter().map(|one| syntax_error(one).into_warning()).collect() };
        diags.items.extend(found.items);
        let (tags, is_one_program) = (std::mem::take(&mut log.tags), log.is_one_program);
        let source = match &raw.log {
            Some(_) => raw.clone(),
            None => NamedText::from_log(raw.name.clone(), text, log),
        };
        Self { source, file, diags, tags, is_one_program }
    }

    /// The chosen program. Without a number, a file in `hir 2` means its first program, since the next one is mostly
    /// its reference; so does a log with the same program of several processes.
    fn choose(&self, choice: &ProgramChoice) -> Result<usize, Diag> {
        let (name, count) = (&self.source.name, self.file.program_count());
        match choice.container {
            Some(wanted) if (1..=count).contains(&wanted) => Ok(wanted - 1),
            Some(wanted) => Err(Diag::global_error(
                errors::CONTAINER,
                message!("`{}` contains {} programs, so there is no number {}", name, count, wanted),
            )),
            None if count == 1 || (count > 1 && (self.file.is_hir2() || self.is_one_program)) => Ok(0),
            None => Err(Diag::global_error(
                errors::CONTAINER,
                message!("`{}` contains {} programs, and none is selected", name, count),
            )
            .with_note(message!(
                "select one with `--container=N`, from 1 to {}{}",
                count,
                self.list_tags()
            ))),
        }
    }

    /// The programs by the tags of their lines, if a log has some.
    fn list_tags(&self) -> String {
        const MOST: usize = 8;
        if self.tags.len() != self.file.program_count() || self.tags.iter().all(String::is_empty) {
            return String::new();
        }
        let tagged = self.tags.iter().zip(1..).filter(|(tag, _)| !tag.is_empty()).take(MOST);
        let listed: Vec<String> = tagged.map(|(tag, number)| format!("{number} is of `{tag}`")).collect();
        format!("; number {}", listed.join(", "))
    }
}
