//! hir-reduce: shrinks a host program, and the pipeline of a test case of `hir-opt --reproducer`, while a script of the
//! user's exits with 0.
//!
//! `subject` is the text that shrinks. `reducer` adopts a smaller text if it is valid and the script still holds.
//! `shrink` proposes smaller texts, stage by stage: edits of the IR by delta debugging (`delta`), then parts and lines
//! of the text. The stages repeat until none finds anything. All is deterministic, as far as the script is.

mod cli;
mod delta;
mod reducer;
mod script;
mod shrink;
mod subject;

use cli::ReduceArgs;
use hostir_passes::ToolRegistries;
use hostir_tool_support::errors;
use hostir_tool_support::io::ToolIo;
use hostir_tool_support::source::NamedText;
use hostir_tool_support::staged::write_whole;
use hostir_tool_support::status::ToolStatus;
use reducer::{Reducer, ReducerLimits};
use script::ScriptTest;
use std::ffi::OsString;
use std::time::Instant;
use subject::Subject;

/// Runs hir-reduce: `args` with the program's name first. Returns the exit status: 0 success, 1 the program is invalid
/// or the script does not hold for it, 2 the command line is wrong, 3 a file cannot be read or written.
pub fn main_with(args: &[OsString], io: &mut ToolIo<'_>) -> i32 {
    main_with_registries(args, io, ToolRegistries::default())
}

/// Runs hir-reduce, as [`main_with`] does, on a text that may name these ops and passes.
pub fn main_with_registries(args: &[OsString], io: &mut ToolIo<'_>, registries: ToolRegistries) -> i32 {
    let result = cli::parse_args(args, io).and_then(|cli| reduce_file(&cli, registries, io));
    result.map_or_else(ToolStatus::exit_code, |()| ToolStatus::Ok.exit_code())
}

fn reduce_file(cli: &ReduceArgs, registries: ToolRegistries, io: &mut ToolIo<'_>) -> Result<(), ToolStatus> {
    let source = io.read_linked_source(&cli.file).map_err(|diag| {
        let status = errors::status_of_code(diag.code);
        io.report(cli.error_format, &NamedText::new(cli.file.clone(), ""), &[diag]);
        status
    })?;
    let subject = Subject::from_text(&source.decoded_text(), registries, cli.given_sizes());
    if !cli.allow_invalid {
        let diags = subject.errors();
        if diags.has_errors() {
            io.report(cli.error_format, &source, &diags.items);
            return Err(complain(io, "the program is invalid; `--allow-invalid` reduces its text all the same"));
        }
    }
    let start = Instant::now();
    let mut script = ScriptTest::new(cli, io).map_err(|message| complain(io, &message))?;
    match script.holds_for(&subject.whole_text()) {
        Ok(true) => {}
        Ok(false) => return Err(complain(io, &script.reason_of_failure())),
        Err(message) => return Err(complain(io, &message)),
    }
    let limits = ReducerLimits { most_tests: cli.max_tests, allow_invalid: cli.allow_invalid };
    let mut reducer = Reducer::new(subject, script, limits);
    shrink::run_stages(&mut reducer, &mut |line| {
        if !cli.errors_only {
            io.print_message(&format!("hir-reduce: {line}"));
        }
    });
    if !cli.errors_only {
        io.print_message(&format!("hir-reduce: {} in {:.1} s", reducer.summary(), start.elapsed().as_secs_f64()));
    }
    write_result(cli, &reducer.best().whole_text(), io)
}

fn write_result(cli: &ReduceArgs, text: &str, io: &mut ToolIo<'_>) -> Result<(), ToolStatus> {
    if cli.output == "-" {
        return match io.print_output(text) {
            ToolStatus::Ok => Ok(()),
            status => Err(status),
        };
    }
    write_whole(&cli.output, io.resolve_path(&cli.output), text.as_bytes()).map_err(|diag| {
        io.report(cli.error_format, &NamedText::default(), &[diag]);
        ToolStatus::Environment
    })
}

fn complain(io: &mut ToolIo<'_>, message: &str) -> ToolStatus {
    io.print_message(&format!("error: {message}"));
    ToolStatus::Program
}
