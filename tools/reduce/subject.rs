//! The text that shrinks: the programs, and the passes that a test case runs on them.

use hostir::ReadOptions;
use hostir::diag::Diags;
use hostir::ir::{GivenSizes, Program};
use hostir::print::{PrintForm, PrintOptions, VersionLine, print_into};
use hostir_passes::ToolRegistries;
use std::rc::Rc;

/// The start of the line with the passes, which `hir-opt --reproducer` writes.
const COMMAND: &str = "// hir-opt ";
const PIPELINE: &str = "--pass-pipeline='";

/// The passes of a test case, with the flags in front of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PassCommand {
    /// `// hir-opt --verify-each=always `
    pub(crate) head: String,
    /// Each pass with its options.
    pub(crate) steps: Vec<String>,
}

/// A text that is reduced.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    /// The ops and passes that it may name.
    pub(crate) registries: ToolRegistries,
    /// The passes, if the text is a test case.
    pub(crate) command: Option<PassCommand>,
    /// The rest of the text.
    pub(crate) body: String,
    /// Values of the sizes that give meshes, for which the text is read.
    pub(crate) given: Rc<GivenSizes>,
}

/// Subjects with one text are equal: all that are compared have the same registries.
impl PartialEq for Subject {
    fn eq(&self, other: &Self) -> bool {
        self.command == other.command && self.body == other.body
    }
}

impl Subject {
    /// Takes a text apart.
    pub(crate) fn from_text(text: &str, registries: ToolRegistries, given: GivenSizes) -> Self {
        let given = Rc::new(given);
        let found = text.lines().find_map(|line| Some((line, read_command(line)?)));
        let Some((line, command)) = found else {
            return Self { registries, command: None, body: text.to_owned(), given };
        };
        let body: String = text.split_inclusive('\n').filter(|other| other.trim_end() != line.trim_end()).collect();
        Self { registries, command: Some(command), body, given }
    }

    /// The whole text.
    pub(crate) fn whole_text(&self) -> String {
        match &self.command {
            Some(command) => {
                format!("{}{PIPELINE}{}'\n{}", command.head, command.steps.join(","), self.body)
            }
            None => self.body.clone(),
        }
    }

    fn read_programs(&self) -> (Vec<Program>, Diags) {
        let options = ReadOptions { ops: self.registries.ops, given: self.given.as_ref().clone() };
        hostir::load_with_options(&self.body, &options)
    }

    /// The programs; `None` if the text has errors.
    pub(crate) fn programs(&self) -> Option<Vec<Program>> {
        let (programs, diags) = self.read_programs();
        (!diags.has_errors()).then_some(programs)
    }

    /// The same passes with other programs, in the notation of the text. What they import becomes their own: the text
    /// is the only one.
    pub(crate) fn with_programs(&self, programs: &mut [Program]) -> Self {
        programs.iter_mut().for_each(Program::own_imports);
        let body = if hostir::hir2::is_hir2(&self.body) {
            hostir::hir2::write::write_file(programs)
        } else {
            printed_text(programs)
        };
        self.with_body(body)
    }

    /// The same passes on another text.
    pub(crate) fn with_body(&self, body: String) -> Self {
        Self { body, ..self.clone() }
    }

    /// The errors of the programs.
    pub(crate) fn errors(&self) -> Diags {
        let (programs, mut diags) = self.read_programs();
        if !diags.has_errors() {
            programs.iter().for_each(|program| hostir::verify::verify(program, &mut diags));
        }
        diags
    }

    /// Lines with anything on them.
    pub(crate) fn line_count(&self) -> usize {
        usize::from(self.command.is_some()) + self.body.lines().filter(|line| !line.trim().is_empty()).count()
    }
}

/// The passes of a line.
fn read_command(line: &str) -> Option<PassCommand> {
    let flags = line.strip_prefix(COMMAND)?;
    let (head, rest) = flags.split_once(PIPELINE)?;
    let pipeline = rest.trim_end().strip_suffix('\'')?;
    Some(PassCommand { head: format!("{COMMAND}{head}"), steps: split_list(pipeline) })
}

/// The parts between commas that are in no braces.
pub(crate) fn split_list(text: &str) -> Vec<String> {
    let mut depth = 0_i32;
    let parts = text.split(|c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    parts.map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

fn printed_text(programs: &[Program]) -> String {
    let mut out = String::new();
    let is_named = programs.len() > 1 && programs.iter().any(Program::has_names);
    let mut version = if is_named { VersionLine::Always } else { VersionLine::AsRead };
    for program in programs {
        print_into(program, PrintOptions { form: PrintForm::Full, version }, &mut out);
        version = VersionLine::Never;
    }
    out
}
