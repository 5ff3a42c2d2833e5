//! The command line of hir-reduce.

use clap::builder::ValueHint;
use clap::{Command, CommandFactory as _, Parser};
use hostir::ir::GivenSizes;
use hostir_tool_support::command_line::{
    ColorArgument, GENERATED, ToolWords, format_parser, match_arguments, parse_size,
};
use hostir_tool_support::io::ToolIo;
use hostir_tool_support::render::DiagFormat;
use hostir_tool_support::status::ToolStatus;
use std::ffi::OsString;

const ABOUT: &str = "Shrinks a host program while a test of yours holds";
const AFTER: &str = "\
The script gets the file of a smaller program as its last argument, and exits
with 0 if that still shows what you look for. Write it so that other failures do
not count: look for the code of the error, not for any failure.

  #!/bin/sh
  hir-opt \"$1\" --pass=overlap-lower 2>&1 | grep -q H0332

A file of `hir-opt --reproducer` names the passes to run in its first line: they
shrink too, if the script runs them by `hir-opt --run-reproducer \"$1\"`.

What the file imports becomes part of it. If meshes have open sizes, say which
with -n or --set, and use the same ones in the script.

Examples:
  hir-reduce prog.hir --test=./fails.sh -o small.hir
      Write the smallest program found that is valid and for which the script
      exits with 0.
  hir-reduce failed.hir --test=./fails.sh --allow-invalid
      Reduce a text with errors, for instance to find the line that causes one.

Exit status: 0 success, 1 the program is invalid or the script does not hold for
it, 2 the command line is wrong, 3 a file cannot be read or written.";

/// The arguments, in the order of the help.
#[derive(Parser)]
#[command(name = "hir-reduce", version = hostir_tool_support::VERSION, about = ABOUT, after_help = AFTER)]
pub(super) struct ReduceArgs {
    #[arg(value_name = "FILE", default_value = "-", help = "The program; - is standard input")]
    pub(super) file: String,
    #[arg(long, value_name = "SCRIPT", required = false, required_unless_present_any = GENERATED, value_hint = ValueHint::FilePath,
        help = "Program that exits with 0 for a file that shows what you look for")]
    pub(super) test: String,
    #[arg(
        long,
        value_name = "ARG",
        allow_hyphen_values = true,
        help = "Argument of the script, before the file; repeatable"
    )]
    pub(super) test_arg: Vec<String>,
    #[arg(short, long, value_name = "FILE", default_value = "-", help = "File for the result")]
    pub(super) output: String,
    #[arg(long, value_name = "p=4,...", value_delimiter = ',', value_parser = parse_size,
        help = "Values of the sizes that give meshes, `mesh d = 0..p`, as the script's commands have them")]
    set: Vec<(String, i64)>,
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..),
        help = "Number of ranks, which gives the size of `mesh d = 0..p`")]
    devices: Option<u32>,
    #[arg(long, help = "Also try texts that are no valid programs")]
    pub(super) allow_invalid: bool,
    #[arg(long, value_name = "N", default_value = "60000", value_parser = clap::value_parser!(u64).range(1..),
        help = "Time limit of one run of the script; a run that takes longer does not count")]
    pub(super) timeout_ms: u64,
    #[arg(long, value_name = "N", help = "Stop after so many runs of the script")]
    pub(super) max_tests: Option<usize>,
    #[arg(short = 'q', long = "quiet", help = "Print errors only")]
    pub(super) errors_only: bool,
    #[arg(long, value_name = "FORMAT", default_value = "human", value_parser = format_parser(),
        help = "Format of diagnostics")]
    pub(super) error_format: DiagFormat,
    #[command(flatten)]
    pub(super) color: ColorArgument,
}

impl ReduceArgs {
    /// The values for which the text is read.
    pub(super) fn given_sizes(&self) -> GivenSizes {
        GivenSizes { set: self.set.iter().cloned().collect(), devices: self.devices, ..GivenSizes::default() }
    }
}

const WORDS: ToolWords<'_> = ToolWords { answer: &other_spelling, with_values: &std::convert::identity::<Command> };

/// Reads the arguments, the program's name first.
///
/// # Errors
/// The exit status of an error, which was reported; also for `--help` and `--version`.
pub(super) fn parse_args(args: &[OsString], io: &mut ToolIo<'_>) -> Result<ReduceArgs, ToolStatus> {
    let (arguments, _) = match_arguments::<ReduceArgs>(args, io, WORDS)?;
    io.apply_coloring(arguments.color.when);
    Ok(arguments)
}

/// The answer to flags of mlir-reduce.
fn other_spelling(error: &clap::Error) -> Option<String> {
    let text = error.to_string();
    let is_tree = text.contains("--reduction-tree");
    is_tree.then(|| {
        format!("`--reduction-tree` is mlir-reduce's; write `{} FILE --test=SCRIPT`", ReduceArgs::command().get_name())
    })
}
