//! The command line of hir-opt, and answers to other tools' names of its flags.

use super::dump::DumpOptions;
use super::flag_values;
use super::form::OutputForm;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory as _, Parser};
use hostir::ReadOptions;
use hostir::diag::{Diag, Diags, Span};
use hostir::ir::edit::Edit;
use hostir::ir::{DType, Era, GivenSizes, Program};
use hostir::plan::cost::CostModel;
use hostir::print::PrintForm;
use hostir_passes::manager::VerifyEach;
use hostir_passes::pipeline::{self, Pipeline};
use hostir_passes::{PassInfo, PassRegistry, ToolRegistries};
use hostir_tool_support::command_line::{
    ColorArgument, ToolWords, format_parser, match_arguments, parse_element_type, parse_size,
};
use hostir_tool_support::events::DebugArgument;
use hostir_tool_support::io::ToolIo;
use hostir_tool_support::machines::MachineArgument;
use hostir_tool_support::render::DiagFormat;
use hostir_tool_support::source::NamedText;
use hostir_tool_support::status::ToolStatus;
use std::collections::BTreeMap;
use std::ffi::OsString;

/// The text of the command line that a step of the pipeline was read from.
#[derive(Clone, Debug)]
pub(super) struct OptionOrigin {
    /// `pass` or `pass-pipeline`.
    pub(super) flag: &'static str,
    /// Its value.
    pub(super) text: String,
}

/// The request of a command line.
#[derive(Debug)]
pub(super) struct OptArgs {
    /// The ops and passes that texts and flags may name.
    pub(super) registries: ToolRegistries,
    pub(super) file: String,
    /// The other files of `--format` and `--diff`.
    pub(super) others: Vec<String>,
    /// Writes texts in `hir 2` in their canonical layout.
    pub(super) format_files: bool,
    /// Lists the texts that would change, and changes none.
    pub(super) check: bool,
    /// Compares two files.
    pub(super) diff: bool,
    pub(super) output: String,
    /// True if the command line names the file for the result.
    pub(super) output_given: bool,
    /// Repairs the text instead of printing the program.
    pub(super) fix: bool,
    pub(super) pipeline: Pipeline,
    /// The text of each step of the pipeline.
    pub(super) origins: Vec<OptionOrigin>,
    /// The passes on standard error, as a pipeline.
    pub(super) dump_pass_pipeline: bool,
    /// All passes, or the one of this name.
    pub(super) list_passes: Option<String>,
    /// All ops, or the one of this name.
    pub(super) list_ops: Option<String>,
    pub(super) style: Option<Era>,
    pub(super) form: Option<OutputForm>,
    pub(super) renumber: bool,
    /// Counts from 1.
    pub(super) container: Option<usize>,
    /// The element type of tensors whose text has none.
    pub(super) element_type: DType,
    /// Values of the sizes that give meshes.
    pub(super) given: GivenSizes,
    pub(super) split_input_file: bool,
    pub(super) verify_diagnostics: bool,
    pub(super) verify_each: VerifyEach,
    /// Reads back the text of each program, before and after the pipeline.
    pub(super) verify_roundtrip: bool,
    pub(super) dumps: DumpOptions,
    /// The machine for which times are modelled.
    pub(super) model: CostModel,
    pub(super) disabled: Vec<&'static PassInfo>,
    pub(super) remarks: bool,
    pub(super) timing: bool,
    pub(super) statistics: bool,
    pub(super) reproducer: Option<String>,
    /// The file has the passes to run.
    pub(super) run_reproducer: bool,
    /// Lists and tables are data.
    pub(super) json: bool,
    /// Components whose events are shown.
    pub(super) debug_only: Vec<String>,
    pub(super) format: DiagFormat,
}

const ABOUT: &str = "Verifies, transforms and prints host programs";
const AFTER: &str = "\
Examples:
  hir-opt prog.hir
      Verify the program and print it.
  hir-opt prog.hir --pass=canonicalize --pass=dce -o small.hir
      Run two passes and write what comes out.
  hir-opt annotated.hir --pass=host-ir-lower{allgather=ring,p2p_stream=own}
      Lower an annotated program; options of a pass stand in braces.
  hir-opt prog.hir --pass=cse --remarks --print-ir-after-change -o -
      Say what a pass did and show each program that differs.
  nvfuser_test 2>&1 | hir-opt --container=2 --form=abbreviated --renumber
      Take the second program of a log and print it so that people can read it.
  hir-opt prog.hir --fix --pass='check-program{devices=4,i0=64}'
      Repair the text of a program where that is sure.
  hir-opt --format --check tests/
      List the lines in which texts in hir 2 differ from the canonical layout.
  hir-opt --diff dump.hir mine.hir
      Print how two programs differ in more than names and numbers.
  hir-opt prog.hir --pass-pipeline=cse,dce --print-ir-after-change=diff
      Print what each pass changed, as a unified diff.
  hir-opt failed.hir --run-reproducer
      Run the passes of a test case that --reproducer=failed.hir wrote.
  hir-opt --list-ops=Communication
      Say how an op is written, and what its arguments may be.
  hir-opt --list-passes=chunk
      Say what a pass does, with its options and an example.

Exit status: 0 success, 1 the program is wrong, 2 the command line is wrong, 3 a
file cannot be read or written, 4 programs differ, or a text is not formatted
and --check was given, 101 a part of the tool panicked, a bug. Results go to
standard output, everything else to standard error; nothing is printed when
something is wrong.";

/// Reads the arguments, the program's name first. An error was reported and is given as the exit status;
/// so are `--help` and `--version`.
///
/// # Errors
/// The exit status of an error, which was reported; also for `--help` and `--version`.
pub(super) fn parse_args(
    args: &[OsString],
    registries: ToolRegistries,
    io: &mut ToolIo<'_>,
) -> Result<OptArgs, ToolStatus> {
    let passes = registries.passes;
    if let Some(text) = args.iter().skip(1).find_map(|arg| single_dash(&arg.to_string_lossy(), passes)) {
        io.print_message(&format!("error: {text}"));
        return Err(ToolStatus::Usage);
    }
    let words = ToolWords {
        answer: &|error| other_spelling(error, passes),
        with_values: &|command| flag_values::add_values(command, registries),
    };
    let (arguments, matches) = match_arguments::<Arguments>(args, io, words)?;
    read_values(arguments, &matches, registries, io)
}

/// The arguments, in the order of the help.
#[derive(Parser)]
#[command(name = "hir-opt", version = hostir_tool_support::VERSION, about = ABOUT, after_help = AFTER)]
struct Arguments {
    #[arg(value_name = "FILE", default_value = "-", help = "The program or log; - is standard input")]
    files: Vec<String>,
    #[arg(long, value_name = "NAME[{key=val,...}]", help = "Run a pass; repeatable, in the order given")]
    pass: Vec<String>,
    #[arg(long, value_name = "a,b{k=v}", help = "Run several passes")]
    pass_pipeline: Vec<String>,
    #[arg(short, long, value_name = "FILE", default_value = "-", help = "File for the result")]
    output: String,
    #[arg(long, conflicts_with_all = ["split_input_file", "verify_diagnostics", "reproducer"],
        help = "Apply the fixes of errors and warnings, also those of passes such as check-program, to the text of FILE; \
                with -o or from standard input, write the repaired text to the result")]
    fix: bool,
    #[arg(long, conflicts_with_all = ["diff", "fix", "pass", "pass_pipeline", "form", "style", "renumber", "container", "verify_diagnostics"],
        help = "Write texts in hir 2 in their canonical layout, in their files; of a folder, all .hir files")]
    format: bool,
    #[arg(long, requires = "format", help = "With --format: change nothing, list the lines that would change")]
    check: bool,
    #[arg(long, conflicts_with_all = ["fix", "pass", "pass_pipeline", "form", "style", "renumber", "split_input_file", "verify_diagnostics"],
        help = "Compare the programs of two FILEs up to names and numbers, and print the lines of hir 2 that differ")]
    diff: bool,
    #[arg(long, help = "Print the passes to standard error, as --pass-pipeline takes them")]
    dump_pass_pipeline: bool,
    #[arg(long, value_name = "PASS", num_args = 0..=1, require_equals = true, default_missing_value = "",
        help = "List all passes with their options, or all about one of them")]
    list_passes: Option<String>,
    #[arg(long, value_name = "OP", num_args = 0..=1, require_equals = true, default_missing_value = "",
        help = "List the syntax of all ops, or all about one of them")]
    list_ops: Option<String>,
    #[arg(
        long,
        value_name = "printed|abbreviated|hir2",
        help = "Notation of the result: nvFuser's, the same with `T3` for a tensor that was defined before, or hir 2"
    )]
    form: Option<String>,
    #[arg(long, value_name = "ERA", help = "Print the spelling of an nvFuser version: 2024-07 to 2026-04")]
    style: Option<String>,
    #[arg(long, help = "Number tensors, scalars and communications in order of appearance")]
    renumber: bool,
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..),
        help = "Use only the N-th program of the input, from 1")]
    container: Option<u32>,
    #[arg(long, value_name = "NAME", default_value = "float", value_parser = parse_element_type,
        help = "Element type of tensors without one, as nvFuser printed them before December 2024")]
    element_type: DType,
    #[arg(
        long,
        value_name = "p=4,...",
        help = "Values of the sizes that give meshes, `mesh d = 0..p`; other sizes have names only"
    )]
    set: Vec<String>,
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..),
        help = "Number of ranks, which gives the size of `mesh d = 0..p`")]
    devices: Option<u32>,
    #[arg(long, help = "Process the parts between lines `// -----` separately")]
    split_input_file: bool,
    #[arg(long, help = "Compare diagnostics with `// expected-error@+1 {{text}}` comments")]
    verify_diagnostics: bool,
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_value = "changed",
        default_missing_value = "always", value_parser = verify_each_parser(),
        help = "Verify after passes that changed something, after each pass, or never")]
    verify_each: VerifyEach,
    #[arg(
        long,
        help = "Verify that the text of each program, in all forms, reads back as the program, before and after the passes"
    )]
    verify_roundtrip: bool,
    #[arg(long, value_name = "PASS", num_args = 0..=1, require_equals = true, default_missing_value = "",
        help = "Print the program before a pass, or before all")]
    print_ir_before: Vec<String>,
    #[arg(long, value_name = "PASS", num_args = 0..=1, require_equals = true, default_missing_value = "",
        help = "Print the program after a pass, or after all")]
    print_ir_after: Vec<String>,
    #[arg(long, help = "Print the program after every pass")]
    print_ir_after_all: bool,
    #[arg(long, value_name = "FORM", num_args = 0..=1, require_equals = true, default_missing_value = "program",
        value_parser = ["program", "diff"],
        help = "Print the program after passes that changed it, or the lines that differ")]
    print_ir_after_change: Option<String>,
    #[arg(long, help = "Print the program that a pass failed on, or the invalid one that it left")]
    print_ir_after_failure: bool,
    #[arg(long, value_name = "PASS", help = "Skip all occurrences of a pass")]
    disable_pass: Vec<String>,
    #[arg(long, help = "Print the changes of passes, and why they did not change more")]
    remarks: bool,
    #[arg(long, help = "Print the time of each step")]
    timing: bool,
    #[arg(long, help = "Print the statistics of passes")]
    statistics: bool,
    #[arg(long, help = "Print passes, ops, times and statistics as JSON")]
    json: bool,
    #[arg(
        long,
        value_name = "FILE",
        help = "Write a test case to FILE if a pass fails or panics: the program and the passes"
    )]
    reproducer: Option<String>,
    #[arg(long, conflicts_with_all = ["pass", "pass_pipeline", "format", "diff", "fix"],
        help = "Run the passes that FILE, a test case of --reproducer, names")]
    run_reproducer: bool,
    #[arg(long, value_name = "human|json", default_value = "human",
        value_parser = format_parser(), help = "Format of diagnostics")]
    error_format: DiagFormat,
    #[command(flatten)]
    machine: MachineArgument,
    #[command(flatten)]
    debug: DebugArgument,
    #[command(flatten)]
    color: ColorArgument,
}

/// The words of `--verify-each`; `true` and `false` are mlir-opt's.
const VERIFY_EACH: [(VerifyEach, &str, [&str; 2]); 3] = [
    (VerifyEach::Changed, "changed", ["changed", "changed"]),
    (VerifyEach::Always, "always", ["true", "1"]),
    (VerifyEach::Never, "never", ["false", "0"]),
];

/// The word of `--verify-each` for these passes.
pub(super) fn verify_each_word(when: VerifyEach) -> &'static str {
    VERIFY_EACH.iter().find(|(known, ..)| *known == when).map_or("", |(_, word, _)| word)
}

/// The passes that a value of `--verify-each` stands for.
pub(super) fn verify_each_of_word(text: &str) -> Option<VerifyEach> {
    VERIFY_EACH.iter().find(|(_, word, others)| *word == text || others.contains(&text)).map(|(when, ..)| *when)
}

/// Reads the value of `--verify-each`.
fn verify_each_parser() -> impl TypedValueParser<Value = VerifyEach> {
    let words = VERIFY_EACH.map(|(_, word, others)| PossibleValue::new(word).aliases(others));
    PossibleValuesParser::new(words).map(|text| verify_each_of_word(&text).unwrap_or_default())
}

/// Reads the values that clap does not check.
fn read_values(
    arguments: Arguments,
    matches: &ArgMatches,
    registries: ToolRegistries,
    io: &mut ToolIo<'_>,
) -> Result<OptArgs, ToolStatus> {
    io.apply_coloring(arguments.color.when);
    let model = CostModel::of_machine(arguments.machine.read_machine(arguments.error_format, io)?);
    let passes = registries.passes;
    let mut usage = UsageReporter { io, format: arguments.error_format, passes, failed: false };
    let (before_all, before) = usage.find_passes("print-ir-before", &arguments.print_ir_before);
    let (after_all, after) = usage.find_passes("print-ir-after", &arguments.print_ir_after);
    let (pipeline, origins) = usage.read_pipeline(&arguments, matches);
    let wanted = pipeline.wanted_devices();
    usage.check_files(&arguments);
    usage.check_json(&arguments);
    let mut files = arguments.files.into_iter();
    let cli = OptArgs {
        registries,
        pipeline,
        origins,
        form: usage.read_form(arguments.form.as_deref()),
        style: usage.read_style(arguments.style.as_deref()),
        dumps: DumpOptions {
            before_all,
            before,
            after_all: after_all || arguments.print_ir_after_all,
            after,
            only_changes: arguments.print_ir_after_change.is_some(),
            as_difference: arguments.print_ir_after_change.as_deref() == Some("diff"),
            after_failure: arguments.print_ir_after_failure,
            is_colored: usage.io.color,
        },
        model,
        disabled: usage.find_passes("disable-pass", &arguments.disable_pass).1,
        file: files.next().unwrap_or_else(|| "-".to_owned()),
        others: files.collect(),
        format_files: arguments.format,
        check: arguments.check,
        diff: arguments.diff,
        output_given: matches.value_source("output") == Some(ValueSource::CommandLine),
        output: arguments.output,
        fix: arguments.fix,
        dump_pass_pipeline: arguments.dump_pass_pipeline,
        list_passes: arguments.list_passes,
        list_ops: arguments.list_ops,
        renumber: arguments.renumber,
        container: arguments.container.map(|number| number as usize),
        element_type: arguments.element_type,
        given: GivenSizes {
            set: usage.read_sizes(&arguments.set),
            devices: arguments.devices.or(wanted),
            ..GivenSizes::default()
        },
        split_input_file: arguments.split_input_file,
        verify_diagnostics: arguments.verify_diagnostics,
        verify_each: arguments.verify_each,
        verify_roundtrip: arguments.verify_roundtrip,
        remarks: arguments.remarks,
        timing: arguments.timing,
        statistics: arguments.statistics,
        reproducer: arguments.reproducer,
        run_reproducer: arguments.run_reproducer,
        json: arguments.json,
        debug_only: arguments.debug.components,
        format: arguments.error_format,
    };
    if usage.failed { Err(ToolStatus::Usage) } else { Ok(cli) }
}

/// Reads values that clap does not know about and reports what is wrong with them.
struct UsageReporter<'a, 'b> {
    io: &'a mut ToolIo<'b>,
    format: DiagFormat,
    /// The passes that flags may name.
    passes: PassRegistry,
    failed: bool,
}

impl OptArgs {
    /// The settings with which a text is read. Programs come out of it that have numbers in the place of the sizes that
    /// give meshes if `is_fixed`.
    pub(super) fn read_options(&self, is_fixed: bool) -> ReadOptions {
        ReadOptions { ops: self.registries.ops, given: GivenSizes { as_numbers: is_fixed, ..self.given.clone() } }
    }
}

impl UsageReporter<'_, '_> {
    fn report_diags(&mut self, flag: &str, text: &str, diags: &[Diag]) {
        self.failed = true;
        let source = NamedText::new(flag, text);
        self.io.report(self.format, &source, diags);
    }
    fn report_error(&mut self, message: impl std::fmt::Display) {
        self.failed = true;
        self.io.print_message(&format!("error: {message}"));
    }

    /// Refuses several files where one is read.
    fn check_files(&mut self, arguments: &Arguments) {
        if let [first, second, ..] = &arguments.files[..]
            && !arguments.format
            && !arguments.diff
        {
            self.report_error(format!(
                "one file is read at a time, but `{first}` and `{second}` were given; `--format` and `--diff` take several"
            ));
        }
    }

    /// Refuses `--json` where it changes nothing.
    fn check_json(&mut self, arguments: &Arguments) {
        let is_list = arguments.list_passes.is_some() || arguments.list_ops.is_some();
        if arguments.json && !is_list && !arguments.timing && !arguments.statistics {
            self.report_error(
                "`--json` is for `--list-passes`, `--list-ops`, `--timing` and `--statistics`; \
                 `--error-format=json` prints diagnostics as JSON",
            );
        }
    }

    /// All `--pass` and `--pass-pipeline` in order, and for each step its place.
    fn read_pipeline(&mut self, arguments: &Arguments, matches: &ArgMatches) -> (Pipeline, Vec<OptionOrigin>) {
        let mut texts: Vec<(usize, &'static str, &String)> = Vec::new();
        for (flag, id, values) in
            [("pass", "pass", &arguments.pass), ("pass-pipeline", "pass_pipeline", &arguments.pass_pipeline)]
        {
            let indices = matches.indices_of(id).into_iter().flatten();
            texts.extend(indices.zip(values).map(|(index, text)| (index, flag, text)));
        }
        texts.sort_by_key(|(index, ..)| *index);
        let mut pipeline = Pipeline::default();
        let mut origins = Vec::new();
        for (_, flag, text) in texts {
            match pipeline::parse_pipeline(text, self.passes) {
                Ok(more) => {
                    let origin = OptionOrigin { flag, text: text.clone() };
                    origins.resize(origins.len() + more.steps.len(), origin);
                    pipeline.steps.extend(more.steps);
                }
                Err(diags) => self.report_diags(&format!("--{flag}"), text, &diags.items),
            }
        }
        (pipeline, origins)
    }

    /// The passes that a flag names, and whether it has no name.
    fn find_passes(&mut self, flag: &str, texts: &[String]) -> (bool, Vec<&'static PassInfo>) {
        let mut all = false;
        let mut passes = Vec::new();
        for text in texts {
            if text.is_empty() {
                all = true;
                continue;
            }
            let mut at = 0;
            let mut diags = Diags::default();
            for name in text.split(',') {
                match pipeline::find_pass(name.trim(), Span::new(at, at + name.len()), self.passes) {
                    Ok(pass) => passes.push(pass),
                    Err(diag) => diags.push(diag),
                }
                at += name.len() + 1;
            }
            if diags.has_errors() {
                self.report_diags(&format!("--{flag}"), text, &diags.items);
            }
        }
        (all, passes)
    }

    /// `p=4,q=2` of `--set`.
    fn read_sizes(&mut self, texts: &[String]) -> BTreeMap<String, i64> {
        let mut sizes = BTreeMap::new();
        for pair in texts.iter().flat_map(|text| text.split(',')) {
            match parse_size(pair) {
                Ok((name, value)) => {
                    sizes.insert(name, value);
                }
                Err(wrong) => self.report_error(format!("`--set {pair}`: {wrong}")),
            }
        }
        sizes
    }

    fn read_style(&mut self, text: Option<&str>) -> Option<Era> {
        let text = text?;
        let era = Era::parse(text);
        if era.is_none() {
            let names: Vec<&str> = Era::ALL.iter().map(|(_, name)| *name).collect();
            self.report_error(format!("unknown style `{text}`; valid styles are {}", names.join(", ")));
        }
        era
    }

    fn read_form(&mut self, text: Option<&str>) -> Option<OutputForm> {
        match text? {
            "printed" | "full" => Some(OutputForm::Printed(PrintForm::Full)),
            "abbreviated" | "short" => Some(OutputForm::Printed(PrintForm::Short)),
            "hir2" => Some(OutputForm::Hir2),
            other => {
                self.report_error(format!("unknown form `{other}`; valid forms are printed, abbreviated and hir2"));
                None
            }
        }
    }
}

/// Applies `--style` and `--renumber`.
pub(super) fn apply_style(program: &mut Program, cli: &OptArgs) {
    if let Some(era) = cli.style {
        let mut edit = Edit::new(program);
        hostir::style::restyle_program(&mut edit, era.style());
        edit.commit();
    }
    if cli.renumber {
        hostir::style::renumber_program(program);
    }
}

/// Flags of mlir-opt and opt, and their equivalents here.
const OTHER_FLAGS: &[(&str, &str)] = &[
    ("mlir-print-ir-before", "print-ir-before"),
    ("mlir-print-ir-before-all", "print-ir-before"),
    ("print-ir-before-all", "print-ir-before"),
    ("print-before", "print-ir-before"),
    ("print-before-all", "print-ir-before"),
    ("mlir-print-ir-after", "print-ir-after"),
    ("mlir-print-ir-after-all", "print-ir-after-all"),
    ("mlir-print-ir-after-change", "print-ir-after-change"),
    ("print-after", "print-ir-after"),
    ("print-after-all", "print-ir-after-all"),
    ("print-changed", "print-ir-after-change=diff"),
    ("mlir-print-ir-after-failure", "print-ir-after-failure"),
    ("mlir-timing", "timing"),
    ("time-passes", "timing"),
    ("mlir-pass-statistics", "statistics"),
    ("stats", "statistics"),
    ("mlir-pass-pipeline-crash-reproducer", "reproducer"),
    ("mlir-generate-reproducer", "reproducer"),
    ("passes", "pass-pipeline"),
    ("remarks-filter", "remarks"),
];

/// The answer to a flag that is a pass's name or another tool's flag.
fn other_spelling(error: &clap::Error, passes: PassRegistry) -> Option<String> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(arg)) = error.get(ContextKind::InvalidArg) else { return None };
    let name = arg.trim_start_matches('-').split('=').next().unwrap_or("");
    if let Some(pass) = passes.passes().find(|pass| pass.is_named(name)) {
        return Some(format!("unknown flag `--{name}`; write `--pass={}`", pass.name));
    }
    let (_, ours) = OTHER_FLAGS.iter().find(|(other, _)| *other == name)?;
    Some(format!("unknown flag `--{name}`; write `--{ours}`"))
}

/// The answer to a long flag with one dash.
fn single_dash(arg: &str, passes: PassRegistry) -> Option<String> {
    let name = arg.strip_prefix('-')?;
    if name.starts_with('-') || name.len() < 3 {
        return None;
    }
    let word = name.split('=').next().unwrap_or("");
    let known = Arguments::command().get_arguments().any(|known| known.get_long() == Some(word));
    if known {
        return Some(format!("long flags start with two dashes: write `--{name}`"));
    }
    let pass = passes.passes().find(|pass| pass.is_named(word))?;
    Some(format!("unknown flag `-{word}`; write `--pass={}`", pass.name))
}
