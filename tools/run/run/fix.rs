//! Fixes of hir-run: tried for reported errors, and applied with `--fix`.

use super::cli::{ContainerChoice, Options};
use super::failure::RunFailure;
use super::inputs::{self, WholeTensors};
use super::preparation::plan_ranks;
use super::program::{ProgramChoice, SourceProgram};
use super::tensor_options;
use hostir::ReadOptions;
use hostir::backend::weigh_program;
use hostir::diag::Diag;
use hostir::hir2::own_text;
use hostir::ir::Program;
use hostir::lower::PreparedProgram;
use hostir::repair::{TextJudge, TextVerdict, TextWeight, add_further_errors, add_tested_fixes};
use hostir::verdict::judge_program;
use hostir_tool_support::errors;
use hostir_tool_support::io::ToolIo;
use hostir_tool_support::repairs::{MOST_JUDGED, RepairedSource, editable_text, is_about_text, repair_source};
use hostir_tool_support::source::NamedText;
use std::io::Cursor;
use std::time::{Duration, Instant};

/// The time after which no more texts are judged.
const MOST_TIME: Duration = Duration::from_secs(10);

/// Judges texts as `--check-only` judges the program.
struct RunJudge<'a, 'io> {
    name: &'a str,
    options: &'a Options,
    io: &'a ToolIo<'io>,
    /// The number of the text's program, from 1, also in a printed text, where no number means an only program.
    container: usize,
    /// The contents of input files, once they were needed.
    whole: Option<WholeTensors>,
    end: Instant,
}

impl<'a, 'io> RunJudge<'a, 'io> {
    fn new(name: &'a str, options: &'a Options, io: &'a ToolIo<'io>) -> Self {
        let container = options.container.and_then(ContainerChoice::number).unwrap_or(1);
        Self { name, options, io, container, whole: None, end: Instant::now() + MOST_TIME }
    }

    fn prove_text(&mut self, text: &str) -> Result<TextVerdict, RunFailure> {
        let planned = self.plan_text(text)?;
        let mut diags = planned.warnings;
        if planned.instructions <= MOST_JUDGED {
            let report =
                judge_program(&planned.program, &planned.prepared, &self.options.model, self.options.strict).report;
            diags.extend(report.errors.into_iter().chain(report.warnings));
        }
        Ok(TextVerdict { diags, instructions: planned.instructions })
    }

    fn plan_text(&mut self, text: &str) -> Result<PlannedText, RunFailure> {
        let source = NamedText::new(self.name, text);
        let choice = ProgramChoice { container: Some(self.container), ..self.options.program_choice() };
        let loaded = SourceProgram::from_text(source, choice)?;
        let bound = tensor_options::bind_options(&loaded.program, self.options)?;
        let whole = match self.whole.take().filter(|whole| whole.len() == bound.inputs.len()) {
            Some(whole) => whole,
            None => inputs::read_whole(&loaded.program, &bound, self.io)?,
        };
        let mut sizes = bound.fixed_sizes(self.options, &loaded.program);
        sizes.memory_limit = u64::MAX;
        inputs::add_shapes(&mut sizes, &loaded.program, &bound, &whole);
        self.whole = Some(whole);
        let prepared = plan_ranks(&loaded.program, &sizes, &bound.kept)?;
        let instructions = prepared.plans.iter().map(|plan| plan.inst_count() as u64).sum();
        Ok(PlannedText { program: loaded.program, warnings: loaded.warnings, prepared, instructions })
    }
}

/// The program of a text with its plans.
struct PlannedText {
    program: Program,
    warnings: Vec<Diag>,
    prepared: PreparedProgram,
    /// Of all plans.
    instructions: u64,
}

impl TextJudge for RunJudge<'_, '_> {
    fn is_proving(&self) -> bool {
        true
    }

    fn read_options(&self) -> ReadOptions {
        self.options.read_options()
    }

    fn judge_text(&mut self, text: &str) -> TextVerdict {
        if Instant::now() > self.end {
            return TextVerdict { diags: Vec::new(), instructions: u64::MAX / 4 };
        }
        self.prove_text(text).unwrap_or_else(|failure| TextVerdict { diags: failure.diags, instructions: 0 })
    }

    fn weigh_text(&mut self, text: &str) -> Option<TextWeight> {
        if Instant::now() > self.end {
            return None;
        }
        let planned = self.plan_text(text).ok().filter(|planned| planned.instructions <= MOST_JUDGED)?;
        weigh_program(&planned.prepared, &self.options.model)
    }
}

/// Adds to the errors about a program's text those that are found after their repair, and fixes to all.
pub(super) fn complete_errors(source: &NamedText, diags: &mut Vec<Diag>, options: &Options, io: &ToolIo<'_>) {
    let Ok(text) = std::str::from_utf8(&source.bytes) else { return };
    if is_about_text(source, diags) && options.bench.is_none() && source.log.is_none() {
        add_further_errors(text, diags, &mut RunJudge::new(&source.name, options, io));
    }
    add_fixes(source, diags, options, io);
}

/// Adds fixes to diagnostics about a program's text.
pub(super) fn add_fixes(source: &NamedText, diags: &mut Vec<Diag>, options: &Options, io: &ToolIo<'_>) {
    let Ok(text) = std::str::from_utf8(&source.bytes) else { return };
    if is_about_text(source, diags) && options.bench.is_none() {
        add_tested_fixes(text, diags, &mut RunJudge::new(&source.name, options, io));
    }
}

/// The error for several processes, which would write one file.
pub(super) fn one_process_error() -> Diag {
    let message = "`--fix` writes one file, and a launcher has started several processes";
    Diag::global_error(errors::CONFLICT, message)
        .with_note("run hir-run without the launcher: all ranks are proved together")
}

/// Repairs the program in its file, or from standard input to standard output, and continues with the result, which
/// `check` judges.
///
/// # Errors
/// Those of reading and of writing, and the errors of the repaired program.
pub(super) fn check_repaired(
    options: &Options,
    io: &mut ToolIo<'_>,
    check: impl FnOnce(&Options, &mut ToolIo<'_>) -> Result<String, RunFailure>,
) -> Result<String, RunFailure> {
    let source = io.read_linked_source(&options.file)?;
    let text = editable_text(&source)?;
    let repaired = repair_source(&source, text, &mut RunJudge::new(&source.name, options, io));
    if options.file != "-" {
        repaired.write_back(&options.file, io)?;
        repaired.report_changes("hir-run", &source.name, options.format, io);
        return check(options, io);
    }
    repaired.report_changes("hir-run", &source.name, options.format, io);
    let summary = check_text(&repaired, options, io, check);
    // A partly repaired program is worth having too.
    let written = io.stdout.write_all(own_text(&repaired.text).as_bytes());
    written.map_err(|error| errors::cannot_write("standard output", &error))?;
    io.print_message(&summary?);
    Ok(String::new())
}

/// Judges a text in place of standard input.
fn check_text(
    repaired: &RepairedSource,
    options: &Options,
    io: &mut ToolIo<'_>,
    check: impl FnOnce(&Options, &mut ToolIo<'_>) -> Result<String, RunFailure>,
) -> Result<String, RunFailure> {
    let mut input = Cursor::new(repaired.text.as_bytes());
    let mut own = ToolIo {
        stdin: &mut input,
        stdout: &mut *io.stdout,
        stderr: &mut *io.stderr,
        cwd: io.cwd.clone(),
        color: io.color,
        terminal: io.terminal,
        columns: io.columns,
        error_columns: io.error_columns,
        env: io.env,
        exe: io.exe.clone(),
        gpus: io.gpus.clone(),
    };
    check(options, &mut own)
}
