//! The command line of hir-opt, and answers to what other tools call its flags.

use super::dump::Dumps;
use crate::io::Io;
use crate::render::Format;
use crate::source::Source;
use crate::status::Status;
use crate::terminal::{Coloring, color_arg, help_width, shown_error};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command};
use hostir::diag::{Diag, Diags, Span, visible};
use hostir::ir::edit::Edit;
use hostir::ir::{Era, Program};
use hostir::print::Form;
use hostir_passes::pipeline::{self, Pipeline};
use hostir_passes::{PASSES, PassInfo};
use std::ffi::OsString;

/// The text of the command line that a step of the pipeline was read from.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    /// `pass` or `pass-pipeline`.
    pub(super) flag: &'static str,
    /// Its value.
    pub(super) text: String,
}

/// What the command line asks for.
#[derive(Debug)]
pub(super) struct Cli {
    pub(super) file: String,
    pub(super) output: String,
    pub(super) pipeline: Pipeline,
    /// Where each step of the pipeline stands.
    pub(super) origins: Vec<Origin>,
    pub(super) list_passes: bool,
    /// All ops, or the one of this name.
    pub(super) list_ops: Option<String>,
    pub(super) style: Option<Era>,
    pub(super) form: Form,
    pub(super) renumber: bool,
    /// Counts from 1.
    pub(super) container: Option<usize>,
    pub(super) split_input_file: bool,
    pub(super) verify_diagnostics: bool,
    pub(super) verify_each: bool,
    pub(super) dumps: Dumps,
    pub(super) disabled: Vec<&'static PassInfo>,
    pub(super) remarks: bool,
    pub(super) timing: bool,
    pub(super) statistics: bool,
    pub(super) reproducer: Option<String>,
    pub(super) format: Format,
}

const ABOUT: &str = "Reads host programs, verifies them, runs passes over them and prints them";
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
  nvfuser_test 2>&1 | hir-opt --container=2 --form=short --renumber
      Take the second program of a log and print it so that people can read it.
  hir-opt --list-ops=Communication
      Say how an op is written, and what its arguments may be.

Exit status: 0 success, 1 the program is wrong, 2 the command line is wrong, 3 a
file cannot be read or written. Results go to standard output, everything else
to standard error; nothing is printed when something is wrong.";

/// Reads the arguments, the program's name first. An error was reported and is given as the exit status;
/// so are `--help` and `--version`.
pub(super) fn parse(args: &[OsString], io: &mut Io<'_>) -> Result<Cli, Status> {
    if let Some(text) = args.iter().skip(1).find_map(|arg| single_dash(&arg.to_string_lossy())) {
        io.say(&format!("error: {text}"));
        return Err(Status::Usage);
    }
    match command().term_width(help_width(io.env, io.columns)).try_get_matches_from(args) {
        Ok(matches) => read(&matches, io),
        Err(error)
            if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) =>
        {
            Err(io.print(&visible::block(&error.render().to_string())))
        }
        Err(error) => {
            let error =
                shown_error(error, args, command().term_width(help_width(io.env, io.columns)));
            io.say(&match other_spelling(&error) {
                Some(answer) => format!("error: {answer}"),
                None => error.render().to_string(),
            });
            Err(Status::Usage)
        }
    }
}

fn command() -> Command {
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).help(help).action(ArgAction::SetTrue)
    };
    let value = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    let many = |arg: Arg| arg.action(ArgAction::Append);
    let named = |name: &'static str, help: &'static str| {
        many(value(name, "PASS", help))
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("")
    };
    Command::new("hir-opt")
        .version(env!("CARGO_PKG_VERSION"))
        .about(ABOUT)
        .after_help(AFTER)
        .arg(Arg::new("FILE").default_value("-").help("The program or log; - is standard input"))
        .args([
            many(value(
                "pass",
                "NAME[{key=val,...}]",
                "Runs a pass; passes run in the order given",
            )),
            many(value("pass-pipeline", "a,b{k=v}", "Runs several passes")),
            value("output", "FILE", "Where the result goes").short('o').default_value("-"),
            flag("list-passes", "Lists all passes with their options"),
            value("list-ops", "OP", "Lists how ops are written, or all about one of them")
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value(""),
            value(
                "form",
                "full|short",
                "How tensors are written after their definition: in full, or `T3`",
            ),
            value(
                "style",
                "ERA",
                "Spells everything as nvFuser of that time did: 2024-12 to 2026-04",
            ),
            flag("renumber", "Numbers tensors, scalars and communications in order of appearance"),
            value("container", "N", "Takes only the N-th program of the input, from 1")
                .value_parser(clap::value_parser!(u32).range(1..)),
            flag("split-input-file", "Runs the parts between lines `// -----` on their own"),
            flag(
                "verify-diagnostics",
                "Compares diagnostics with `// expected-error@+1 {{text}}` comments",
            ),
            named_bool("verify-each", "Verifies after each pass (default true)"),
            named("print-ir-before", "Shows the program before a pass, or before all"),
            named("print-ir-after", "Shows the program after a pass, or after all"),
            flag("print-ir-after-all", "Shows the program after every pass"),
            flag("print-ir-after-change", "Shows the program after passes that changed it"),
            many(value("disable-pass", "PASS", "Skips a pass wherever it stands")),
            flag("remarks", "Says what passes did and why not more"),
            flag("timing", "Shows what each step took"),
            flag("statistics", "Shows what passes counted"),
            value("reproducer", "FILE", "Writes a test case there when a pass fails"),
            value("error-format", "human|json", "How diagnostics are written")
                .value_parser(["human", "json"])
                .default_value("human"),
            color_arg(),
        ])
}

fn named_bool(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .help(help)
        .value_name("BOOL")
        .num_args(0..=1)
        .require_equals(true)
        .default_value("true")
        .default_missing_value("true")
        .value_parser(clap::builder::BoolishValueParser::new())
}

fn read(matches: &ArgMatches, io: &mut Io<'_>) -> Result<Cli, Status> {
    io.apply_coloring(Coloring::from_matches(matches));
    let text = |name: &str| matches.get_one::<String>(name).cloned();
    let format =
        if text("error-format").as_deref() == Some("json") { Format::Json } else { Format::Human };
    let mut usage = Usage { io, format, failed: false };
    let (before_all, before) = usage.passes(matches, "print-ir-before");
    let (after_all, after) = usage.passes(matches, "print-ir-after");
    let (pipeline, origins) = usage.pipeline(matches);
    let cli = Cli {
        file: text("FILE").unwrap_or_default(),
        output: text("output").unwrap_or_default(),
        pipeline,
        origins,
        list_passes: matches.get_flag("list-passes"),
        list_ops: text("list-ops"),
        renumber: matches.get_flag("renumber"),
        form: usage.form(text("form")),
        style: usage.style(text("style")),
        container: matches.get_one::<u32>("container").map(|n| *n as usize),
        split_input_file: matches.get_flag("split-input-file"),
        verify_diagnostics: matches.get_flag("verify-diagnostics"),
        verify_each: matches.get_one::<bool>("verify-each").copied().unwrap_or(true),
        dumps: Dumps {
            before_all,
            before,
            after_all: after_all || matches.get_flag("print-ir-after-all"),
            after,
            only_changes: matches.get_flag("print-ir-after-change"),
        },
        disabled: usage.passes(matches, "disable-pass").1,
        remarks: matches.get_flag("remarks"),
        timing: matches.get_flag("timing"),
        statistics: matches.get_flag("statistics"),
        reproducer: text("reproducer"),
        format,
    };
    if usage.failed { Err(Status::Usage) } else { Ok(cli) }
}

/// Reads values that clap does not know about and reports what is wrong with them.
struct Usage<'a, 'b> {
    io: &'a mut Io<'b>,
    format: Format,
    failed: bool,
}

impl Usage<'_, '_> {
    fn report(&mut self, flag: &str, text: &str, diags: &[Diag]) {
        self.failed = true;
        let source = Source { name: flag.to_owned(), bytes: text.as_bytes().to_vec() };
        self.io.report(self.format, &source, diags);
    }
    fn error(&mut self, message: impl std::fmt::Display) {
        self.failed = true;
        self.io.say(&format!("error: {message}"));
    }

    /// All `--pass` and `--pass-pipeline` in the order given, and for each step where it stands.
    fn pipeline(&mut self, matches: &ArgMatches) -> (Pipeline, Vec<Origin>) {
        let mut texts: Vec<(usize, &'static str, &String)> = Vec::new();
        for flag in ["pass", "pass-pipeline"] {
            let indices = matches.indices_of(flag).into_iter().flatten();
            let values = matches.get_many::<String>(flag).into_iter().flatten();
            texts.extend(indices.zip(values).map(|(index, text)| (index, flag, text)));
        }
        texts.sort_by_key(|(index, ..)| *index);
        let mut pipeline = Pipeline::default();
        let mut origins = Vec::new();
        for (_, flag, text) in texts {
            match pipeline::parse(text, PASSES) {
                Ok(more) => {
                    let origin = Origin { flag, text: text.clone() };
                    origins.resize(origins.len() + more.steps.len(), origin);
                    pipeline.steps.extend(more.steps);
                }
                Err(diags) => self.report(&format!("--{flag}"), text, &diags.items),
            }
        }
        (pipeline, origins)
    }

    /// The passes that a flag names, and whether it stands without a name.
    fn passes(&mut self, matches: &ArgMatches, flag: &str) -> (bool, Vec<&'static PassInfo>) {
        let mut all = false;
        let mut passes = Vec::new();
        for text in matches.get_many::<String>(flag).into_iter().flatten() {
            if text.is_empty() {
                all = true;
                continue;
            }
            let mut at = 0;
            let mut diags = Diags::default();
            for name in text.split(',') {
                match pipeline::find(name.trim(), Span::new(at, at + name.len()), PASSES) {
                    Ok(pass) => passes.push(pass),
                    Err(diag) => diags.push(diag),
                }
                at += name.len() + 1;
            }
            if diags.has_errors() {
                self.report(&format!("--{flag}"), text, &diags.items);
            }
        }
        (all, passes)
    }

    fn style(&mut self, text: Option<String>) -> Option<Era> {
        let text = text?;
        let era = Era::parse(&text);
        if era.is_none() {
            let names: Vec<&str> = Era::ALL.iter().map(|(_, name)| *name).collect();
            self.error(format!("there is no style `{text}`: the styles are {}", names.join(", ")));
        }
        era
    }

    fn form(&mut self, text: Option<String>) -> Form {
        match text.as_deref() {
            None | Some("full") => {}
            Some("short") => return Form::Short,
            Some(other) => {
                self.error(format!("there is no form `{other}`: the forms are full and short"))
            }
        }
        Form::Full
    }
}

/// Applies `--style` and `--renumber`.
pub(super) fn restyle(program: &mut Program, cli: &Cli) {
    if let Some(era) = cli.style {
        let mut edit = Edit::new(program);
        hostir::ir::restyle(&mut edit, era.style());
        edit.commit();
    }
    if cli.renumber {
        hostir::ir::renumber(program);
    }
}

/// Flags of mlir-opt and opt, and what they are here.
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
    ("print-changed", "print-ir-after-change"),
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
fn other_spelling(error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(arg)) = error.get(ContextKind::InvalidArg) else { return None };
    let name = arg.trim_start_matches('-').split('=').next().unwrap_or("");
    if let Some(pass) = PASSES.iter().find(|pass| pass.is_named(name)) {
        return Some(format!("there is no flag `--{name}`: write `--pass={}`", pass.name));
    }
    let flag =
        |name: &str| OTHER_FLAGS.iter().find(|(other, _)| *other == name).map(|(_, ours)| *ours);
    flag(name).map(|ours| format!("there is no flag `--{name}`: write `--{ours}`"))
}

/// The answer to a long flag with one dash.
fn single_dash(arg: &str) -> Option<String> {
    let name = arg.strip_prefix('-')?;
    if name.starts_with('-') || name.len() < 3 {
        return None;
    }
    let word = name.split('=').next().unwrap_or("");
    let known = command().get_arguments().any(|known| known.get_long() == Some(word));
    if known {
        return Some(format!("long flags have two dashes: write `--{name}`"));
    }
    let pass = PASSES.iter().find(|pass| pass.is_named(word))?;
    Some(format!("there is no flag `-{word}`: write `--pass={}`", pass.name))
}
