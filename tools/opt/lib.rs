//! hir-opt: reads host programs, verifies them, runs passes and prints the result. It is a function of arguments and
//! streams, and does not depend on CUDA.
//!
//! `cli` reads the command line, and `chunk` splits the input into texts. Each text is parsed, resolved, verified, sent
//! through the pipeline and printed; `expect` compares its diagnostics with those that a test expects. Results are
//! written at the end, and only if nothing failed.

mod chunk;
mod cli;
mod difference;
mod dump;
mod expect;
mod faults;
mod fixing;
mod flag_values;
mod form;
mod formatting;
mod lists;
mod mistakes;
mod output;
mod pass_page;
mod reproducer;
mod roundtrip;
mod tables;

use chunk::InputChunk;
use cli::OptArgs;
use dump::DumpWriter;
use faults::PipelineFaults;
use fixing::JudgedText;
use form::OutputForm;
use hostir::ParsedFile;
use hostir::diag::{Diag, Diags, Message, codes};
use hostir::ir::{OpKind, Program};
use hostir::print::{PrintOptions, VersionLine};
use hostir::verify::VerifiedState;
use hostir_passes::ToolRegistries;
use hostir_passes::manager::{self, PipelineFailure, PipelineReport};
use hostir_tool_support::errors;
use hostir_tool_support::events;
use hostir_tool_support::io::ToolIo;
use hostir_tool_support::panics;
use hostir_tool_support::source::NamedText;
use hostir_tool_support::status::ToolStatus;
use hostir_tool_support::terminal::help_width;
pub use mistakes::OpMistake;
use std::borrow::Cow;
use std::ffi::OsString;
use std::time::Instant;

/// Runs hir-opt: `args` with the program's name first. Returns the exit status: 0 success, 1 the program
/// is wrong, 2 the command line is wrong, 3 a file cannot be read or written, 4 texts differ, 101 a pass panicked.
pub fn main_with(args: &[OsString], io: &mut ToolIo<'_>) -> i32 {
    main_with_registries(args, io, ToolRegistries::default())
}

/// Runs hir-opt, as [`main_with`] does, with these ops and passes.
pub fn main_with_registries(args: &[OsString], io: &mut ToolIo<'_>, registries: ToolRegistries) -> i32 {
    let mut cli = match cli::parse_args(args, registries, io) {
        Ok(cli) => cli,
        Err(status) => return status.exit_code(),
    };
    let components = std::mem::take(&mut cli.debug_only);
    events::run_with_events(&components, io, |io| run_request(cli, io))
}

fn run_request(mut cli: OptArgs, io: &mut ToolIo<'_>) -> i32 {
    if cli.list_passes.is_some() || cli.list_ops.is_some() {
        return print_lists(&cli, io).exit_code();
    }
    if cli.format_files {
        return formatting::format_files(&cli, io).exit_code();
    }
    if cli.diff {
        return difference::compare_files(&cli, io).exit_code();
    }
    // The parts of a divided input import nothing.
    let source = match cli.split_input_file {
        true => io.read_source(&cli.file),
        false => io.read_linked_source(&cli.file),
    };
    let source = match source {
        Ok(source) => source,
        Err(diag) => return report_failure(io, &cli, diag),
    };
    if cli.run_reproducer
        && let Err(status) = reproducer::apply_settings(&mut cli, &source, io)
    {
        return status.exit_code();
    }
    if cli.dump_pass_pipeline {
        io.print_message(&cli.pipeline.to_string());
    }
    if !cli.fix {
        return OptSession::new(&cli, &source).run(io).exit_code();
    }
    match fixing::repair_input(judge_text, &cli, &source, io) {
        Ok(repaired) => OptSession::new(&cli, &repaired).run(io).exit_code(),
        Err(diag) => report_failure(io, &cli, diag),
    }
}

/// The mistake of docs/ops with an op, with all that hir-opt says about it; `None` if there is none.
pub fn find_op_mistake(kind: OpKind) -> Option<OpMistake> {
    OpMistake::of_op(judge_text, kind)
}

/// All that hir-opt says about a text in `hir 2`, whose programs it proves, with fixes.
pub fn diagnose_program(text: &str) -> Option<Vec<Diag>> {
    mistakes::diagnose_text(judge_text, text)
}

/// All diagnostics about a text after so many containers; `None` if the command line is wrong.
fn judge_text(cli: &OptArgs, containers: usize, text: &str, io: &mut ToolIo<'_>) -> Option<JudgedText> {
    let source = NamedText::default();
    let mut session = OptSession { containers, ..OptSession::new(cli, &source) };
    let diags = session.process_chunk(&InputChunk::whole(text), io);
    // Each requested program has a report.
    let first = cli.container.map_or(0, |wanted| wanted.saturating_sub(containers + 1));
    let reports = session.reports.iter().zip(first..);
    let proofs = reports.filter_map(|(report, number)| Some((number, report.verdicts.last()?.clone())));
    session.faults.is_empty().then(|| JudgedText { diags, proofs: proofs.collect() })
}

/// Writes the lists that are asked for.
fn print_lists(cli: &OptArgs, io: &mut ToolIo<'_>) -> ToolStatus {
    let width = help_width(io.env, io.columns);
    let mut text = String::new();
    if let Some(name) = cli.list_passes.as_deref() {
        match lists::passes_text(name, cli.registries, cli.json, width) {
            Ok(passes) => text = passes,
            Err(diag) => {
                io.report(cli.format, &NamedText::new("--list-passes", name), &[diag]);
                return ToolStatus::Usage;
            }
        }
    }
    if let Some(name) = cli.list_ops.as_deref() {
        let ops = cli.registries.ops;
        let found = match (cli.json, name) {
            (true, name) => lists::ops_data(judge_text, name, ops),
            (false, "") => Ok(lists::list_ops(ops, width)),
            (false, name) => lists::describe_by_name(judge_text, name, ops, width),
        };
        match found {
            Ok(ops) => text += &ops,
            Err(message) => {
                io.print_message(&format!("error: {message}"));
                return ToolStatus::Usage;
            }
        }
    }
    io.print_output(&text)
}

/// Reports why the input cannot be read and returns the status.
fn report_failure(io: &mut ToolIo<'_>, cli: &OptArgs, diag: Diag) -> i32 {
    let source = NamedText::new(cli.file.clone(), "");
    let status = errors::status_of_code(diag.code);
    io.report(cli.format, &source, &[diag]);
    status.exit_code()
}

/// Programs that are printed after everything else, piece by piece.
#[derive(Default)]
struct LatePrinting {
    /// True if the input is one text, whose programs are printed so.
    is_wanted: bool,
    programs: Vec<Program>,
}

/// One run over one input.
struct OptSession<'a> {
    cli: &'a OptArgs,
    source: &'a NamedText,
    /// The input holds bytes that are not UTF-8.
    lossy: bool,
    /// The text to print if all goes well.
    out: String,
    late: LatePrinting,
    /// Diagnostics about the whole input, in the order of its chunks.
    diags: Diags,
    /// Errors of the command line.
    faults: PipelineFaults,
    /// Reports of all pipelines that ran.
    reports: Vec<PipelineReport>,
    /// Names of passes that ran.
    ran: Vec<&'static str>,
    /// Seconds spent outside of passes: parse, resolve, verify, print.
    phases: [f64; 4],
    /// A test case for the first pass that failed.
    reproducer: Option<String>,
    /// True if a pass panicked.
    has_panicked: bool,
    /// The number of containers so far.
    containers: usize,
    /// The notation of the result: the requested one, else that of the text.
    form: OutputForm,
}

impl<'a> OptSession<'a> {
    fn new(cli: &'a OptArgs, source: &'a NamedText) -> Self {
        Self {
            cli,
            source,
            lossy: false,
            out: String::new(),
            late: LatePrinting::default(),
            diags: Diags::default(),
            faults: PipelineFaults::default(),
            reports: Vec::new(),
            ran: Vec::new(),
            phases: [0.0; 4],
            reproducer: None,
            has_panicked: false,
            containers: 0,
            form: OutputForm::default(),
        }
    }

    fn run(mut self, io: &mut ToolIo<'_>) -> ToolStatus {
        let source = self.source;
        let text = source.decoded_text();
        self.lossy = matches!(text, Cow::Owned(_));
        let chunks = chunk::split_input(&text, self.cli.split_input_file);
        // The time of printing is in a table that is printed before.
        self.late.is_wanted = chunks.len() == 1 && !self.cli.timing;
        let mut failed = false;
        for (index, chunk) in chunks.iter().enumerate() {
            // With `--container` one program is printed, without text before or after it.
            if index > 0 && self.cli.container.is_none() {
                self.out.push_str("// -----\n");
            }
            let containers = self.containers;
            let mut diags = self.process_chunk(chunk, io);
            fixing::add_fixes(judge_text, self.cli, &chunk.text, containers, &mut diags, io);
            failed |= diags.has_errors() || !self.faults.is_empty();
            if self.cli.verify_diagnostics {
                diags = expect::compare_diags(&chunk.text, &diags);
            }
            self.diags.items.extend(chunk.offset_diags(diags).items);
        }
        self.check_container();
        self.warn_never_ran();
        let expected = self.cli.verify_diagnostics && !self.diags.has_errors();
        let ok = expected || (!failed && !self.diags.has_errors());
        io.report(self.cli.format, self.source, &self.diags.items);
        for verdict in self.reports.iter().flat_map(|report| &report.verdicts) {
            io.report_verdict(self.cli.format, self.source, verdict);
        }
        self.faults.report_faults(self.cli, io);
        self.print_tables(io);
        self.finish(io, ok)
    }

    /// Runs one text and appends the result. Spans are those of the chunk.
    fn process_chunk(&mut self, chunk: &InputChunk<'_>, io: &mut ToolIo<'_>) -> Diags {
        let start = Instant::now();
        let (file, mut found) = ParsedFile::parse(&chunk.text);
        self.phases[0] += start.elapsed().as_secs_f64();
        if let Some(wanted) = self.cli.container {
            // Errors of the other programs do not matter.
            file.keep_errors_of(wanted.wrapping_sub(self.containers + 1), &mut found);
        }
        let mut diags = chunk.notices.clone();
        diags.items.extend(chunk.not_utf8(self.lossy));
        diags.items.extend(found.items);
        let sound = !diags.has_errors();
        self.form = self.cli.form.unwrap_or(match file.is_hir2() {
            true => OutputForm::Hir2,
            false => OutputForm::default(),
        });
        let programs = self.resolve_programs(&file, &chunk.text);
        // It is several times as large as the text; later steps can use the memory.
        drop(file);
        let mut processed = Vec::new();
        for (program, mut found) in programs {
            if sound && !found.has_errors() {
                processed.extend(self.process_program(program, &mut found, io));
            } else {
                let earlier = diags.primary_spans().chain(found.primary_spans()).collect::<Vec<_>>();
                hostir::verify::verify_partial(&program, &earlier, &mut found);
            }
            diags.items.extend(found.items);
        }
        if self.late.is_wanted && matches!(self.form, OutputForm::Printed(_)) {
            self.late.programs = processed;
        } else if !processed.is_empty() {
            let start = Instant::now();
            self.print_programs(&mut processed);
            self.phases[3] += start.elapsed().as_secs_f64();
            drop_in_background(processed);
        }
        if diags.has_errors() {
            // The checks run syntax first, then names, then types; users read a file from the top.
            diags.items.sort_by_key(|diag| diag.primary.as_ref().map(|label| label.span));
        }
        diags
    }

    /// Appends the text of the programs of one text.
    fn print_programs(&mut self, programs: &mut [Program]) {
        let OutputForm::Printed(form) = self.form else {
            let text = hostir::hir2::write::write_file(programs);
            match self.out.is_empty() {
                true => self.out = text,
                false => self.out.push_str(&text),
            }
            return;
        };
        // The text is about as long as the input, that of lowered programs longer: room that nobody writes to costs
        // nothing, but a text that outgrows it is copied. The memory of the syntax tree is free by now.
        let times = if self.cli.pipeline.steps.is_empty() { 1 } else { 2 };
        self.out.reserve((times * self.source.bytes.len()).saturating_sub(self.out.len()));
        for (program, version) in self.with_version_lines(programs) {
            hostir::print::print_into(program, PrintOptions { form, version }, &mut self.out);
        }
    }

    /// Programs of one text, with the kind of version line of each.
    fn with_version_lines<'p>(
        &self,
        programs: &'p [Program],
    ) -> impl Iterator<Item = (&'p Program, VersionLine)> + use<'p> {
        // Names need the version line, which is above the first program of a text only.
        let is_part = programs.len() > 1 || self.cli.container.is_some();
        let is_named = is_part && programs.iter().any(Program::has_names);
        let first = if is_named { VersionLine::Always } else { VersionLine::AsRead };
        programs.iter().zip(std::iter::once(first).chain(std::iter::repeat(VersionLine::Never)))
    }

    /// Writes the result.
    fn write_result(&mut self, io: &mut ToolIo<'_>) -> Result<(), Diag> {
        let programs = std::mem::take(&mut self.late.programs);
        let OutputForm::Printed(form) = self.form else {
            return output::write_output(io, &self.cli.output, &self.out);
        };
        if programs.is_empty() {
            return output::write_output(io, &self.cli.output, &self.out);
        }
        let written = output::write_pieces(io, &self.cli.output, |take| {
            for (program, version) in self.with_version_lines(&programs) {
                hostir::print::print_pieces(program, PrintOptions { form, version }, take);
            }
        });
        drop_in_background(programs);
        written
    }

    /// The requested programs, each with its diagnostics.
    fn resolve_programs(&mut self, file: &ParsedFile, text: &str) -> Vec<(Program, Diags)> {
        let start = Instant::now();
        let mut programs = Vec::new();
        // Passes work on one number of devices, and the printed form has no other.
        let is_fixed = !self.cli.pipeline.steps.is_empty() || self.form != OutputForm::Hir2;
        let options = self.cli.read_options(is_fixed);
        let mut reader = file.reader_with_options(text, &options).with_element_type(self.cli.element_type);
        for index in 0..file.program_count() {
            self.containers += 1;
            if self.cli.container.is_none_or(|wanted| wanted == self.containers) {
                let mut found = Diags::default();
                let program = reader.read_program(index, &mut found);
                programs.push((program, found));
            }
        }
        self.phases[1] += start.elapsed().as_secs_f64();
        programs
    }

    /// Verifies and transforms a program. `None` after an error.
    fn process_program(&mut self, mut program: Program, diags: &mut Diags, io: &mut ToolIo<'_>) -> Option<Program> {
        let start = Instant::now();
        let verified = hostir::verify::verify_with_state(&program, diags);
        self.phases[2] += start.elapsed().as_secs_f64();
        if diags.has_errors() {
            return None;
        }
        if self.cli.verify_roundtrip {
            roundtrip::verify_roundtrip(&program, self.cli.element_type, diags);
        }
        if !self.run_pipeline(&mut program, verified, diags, io) {
            return None;
        }
        if self.cli.verify_roundtrip && !self.cli.pipeline.steps.is_empty() && !diags.has_errors() {
            roundtrip::verify_roundtrip(&program, self.cli.element_type, diags);
        }
        cli::apply_style(&mut program, self.cli);
        if self.form == OutputForm::Hir2 {
            form::check_hir2_form(&program, diags);
        }
        Some(program)
    }

    fn run_pipeline(
        &mut self,
        program: &mut Program,
        verified: Option<VerifiedState>,
        diags: &mut Diags,
        io: &mut ToolIo<'_>,
    ) -> bool {
        let config = manager::Config {
            model: self.cli.model.clone(),
            verify_input: false,
            verify_each: self.cli.verify_each,
            disabled: self.cli.disabled.clone(),
            remarks: self.cli.remarks,
            contain_panics: true,
            ..manager::Config::for_passes(self.cli.registries.passes)
        };
        let mut dump = DumpWriter::new(&self.cli.dumps, self.form, &mut *io.stderr);
        let result = panics::contain_panics(|| {
            manager::run_verified_pipeline(program, verified, &self.cli.pipeline, &config, &mut dump)
        });
        self.ran.extend(dump.ran);
        match result {
            Ok(report) => {
                diags.items.extend(report.notices.items.iter().cloned());
                self.reports.push(report);
                true
            }
            Err(failure) => {
                self.record_failure(program, *failure, diags);
                false
            }
        }
    }

    fn record_failure(&mut self, program: &Program, mut failure: PipelineFailure, diags: &mut Diags) {
        for panic in failure.errors.items.iter_mut().filter(|diag| diag.code == codes::INTERNAL) {
            self.has_panicked = true;
            let place = panics::take_panic_place().map(|place| format!("it panicked at {place}"));
            panic.notes.extend(place.map(Message::from));
            panic.notes.push(panics::report_request().into());
        }
        diags.items.extend(failure.report.notices.items.iter().cloned());
        // Shown with the command line; a test's expectations are about the program.
        let shown = if self.cli.verify_diagnostics { 0 } else { failure.faults.len() };
        if shown > 0 {
            self.faults.record_failure(self.cli, &failure);
        }
        diags.items.extend(failure.errors.items.into_iter().skip(shown));
        if self.cli.reproducer.is_some() && self.reproducer.is_none() {
            self.reproducer = Some(reproducer::reproducer_text(program, &failure.remaining, self.cli));
        }
        self.reports.push(failure.report);
    }

    fn check_container(&mut self) {
        let Some(wanted) = self.cli.container.filter(|wanted| *wanted > self.containers) else {
            return;
        };
        let text = format!("container {wanted} does not exist: the input has {}", self.containers);
        self.diags.push(Diag::global_error(hostir_tool_support::errors::CONTAINER, text));
    }

    fn warn_never_ran(&mut self) {
        if self.reports.is_empty() || self.diags.has_errors() {
            return;
        }
        for (flag, name) in self.cli.dumps.named_passes() {
            if !self.ran.contains(&name) {
                self.diags.push(manager::never_run_warning(flag, name));
            }
        }
    }

    fn print_tables(&self, io: &mut ToolIo<'_>) {
        let (phases, reports) = (&self.phases, &self.reports);
        let texts = match self.cli.json {
            true => [
                self.cli.timing.then(|| format!("{}\n", tables::timing_object(phases, reports))),
                self.cli.statistics.then(|| format!("{}\n", tables::statistics_object(reports))),
            ],
            false => [
                self.cli.timing.then(|| tables::timing_table(phases, reports)),
                self.cli.statistics.then(|| tables::statistics_table(reports)),
            ],
        };
        for text in texts.into_iter().flatten() {
            let _ = io.stderr.write_all(text.as_bytes());
        }
    }

    fn finish(mut self, io: &mut ToolIo<'_>, ok: bool) -> ToolStatus {
        if let (Some(path), Some(text)) = (&self.cli.reproducer, &self.reproducer) {
            match output::write_output(io, path, text) {
                Ok(()) => {
                    io.print_message(&format!("a test case was written to {path}"));
                }
                Err(diag) => io.report(self.cli.format, self.source, &[diag]),
            }
        }
        if self.has_panicked {
            return ToolStatus::Internal;
        }
        if !ok {
            let absent = self.cli.container.is_some_and(|wanted| wanted > self.containers);
            return if absent || !self.faults.is_empty() { ToolStatus::Usage } else { ToolStatus::Program };
        }
        if self.cli.fix {
            // The repaired text is written.
            return ToolStatus::Ok;
        }
        match self.write_result(io) {
            Ok(()) => ToolStatus::Ok,
            Err(diag) => {
                io.report(self.cli.format, self.source, &[diag]);
                ToolStatus::Environment
            }
        }
    }
}

/// Drops programs; large ones on another thread, while other work goes on.
fn drop_in_background(programs: Vec<Program>) {
    const LARGE: usize = 1 << 16;
    if programs.iter().any(|program| program.ops().len() > LARGE) {
        rayon::spawn(move || drop(programs));
    }
}
