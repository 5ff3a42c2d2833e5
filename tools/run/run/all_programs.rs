//! `--check-only --container=all`: proves every program of a file.

use super::backend_choice::RunEngine;
use super::cli::{ContainerChoice, KeyedValues, Options, ScalarNumber};
use super::failure::RunFailure;
use super::preparation::{announce_program, prepare_program};
use super::program::{ProgramPlace, SourceProgram};
use super::tensor_options::known_scalars;
use super::{fix, inputs, proof, summary, tensor_options};
use crate::launch::LaunchedProcess;
use hostir::diag::message;
use hostir::diag::{Diag, visible};
use hostir_tool_support::errors;
use hostir_tool_support::io::ToolIo;

/// Proves every program of the file, and returns a line for each. Errors of all programs are reported, with fixes.
///
/// # Errors
/// If options are about one program, or a program is wrong: the failure of the last wrong one, with the status of the
/// first. The lines of the others are on standard error.
pub(super) fn check_all_programs(
    options: &Options,
    here: Option<&LaunchedProcess>,
    io: &mut ToolIo<'_>,
) -> Result<String, RunFailure> {
    refuse_options(options)?;
    let engine = RunEngine::choose_backend(options, here, io)?;
    let raw = io.read_linked_source(&options.file)?;
    let (mut text, mut failed) = (String::new(), None::<RunFailure>);
    let mut used = SetUses::new(options);
    for (number, loaded) in (1..).zip(SourceProgram::read_all(&raw, options.program_choice())) {
        // The first line on standard error is for the first program, warnings are for all.
        let container = Some(ContainerChoice::Number(number));
        let set = loaded.as_ref().map_or_else(|_| options.set.clone(), |loaded| used.of_program(loaded));
        let own = Options { container, set, quiet: options.quiet || number > 1, ..options.clone() };
        let failure = match loaded.and_then(|loaded| prove_program(&loaded, &own, &engine, io)) {
            Ok(line) => {
                text += &line;
                continue;
            }
            Err(failure) => failure,
        };
        failed = Some(replace_failure(failed, failure, &own, io));
    }
    let text = if options.quiet { String::new() } else { visible::escape_block(&text).into_owned() };
    match failed {
        None => Ok(text),
        Some(failure) => {
            if !text.is_empty() {
                io.print_message(&text);
            }
            Err(failure)
        }
    }
}

/// The values of `--set`, each for the programs that have such a scalar.
struct SetUses<'a> {
    set: &'a KeyedValues<ScalarNumber>,
    /// By value: whether some program has the scalar.
    used: Vec<bool>,
}

impl<'a> SetUses<'a> {
    fn new(options: &'a Options) -> Self {
        Self { set: &options.set, used: vec![false; options.set.len()] }
    }

    /// The values for a program. The last one gets those that no program has, and its error names them.
    fn of_program(&mut self, loaded: &SourceProgram) -> KeyedValues<ScalarNumber> {
        let known = known_scalars(&loaded.program, self.set);
        known.iter().for_each(|&index| self.used[index] = true);
        let is_last = loaded.place.as_ref().is_none_or(ProgramPlace::is_last);
        let wanted = (0..self.set.len()).filter(|index| known.contains(index) || (is_last && !self.used[*index]));
        wanted.map(|index| self.set[index].clone()).collect()
    }
}

/// Reports an earlier failure, and returns the next one with the status of the earlier.
fn replace_failure(
    earlier: Option<RunFailure>,
    mut failure: RunFailure,
    options: &Options,
    io: &mut ToolIo<'_>,
) -> RunFailure {
    fix::complete_errors(&failure.source, &mut failure.diags, options, io);
    if let Some(earlier) = earlier {
        io.report(options.format, &earlier.source, &earlier.diags);
        failure.status = earlier.status;
    }
    failure
}

/// Proves a program, and returns the line about it.
fn prove_program(
    loaded: &SourceProgram,
    options: &Options,
    engine: &RunEngine,
    io: &mut ToolIo<'_>,
) -> Result<String, RunFailure> {
    let bound = tensor_options::bind_options(&loaded.program, options)?;
    let whole = inputs::read_whole(&loaded.program, &bound, io)?;
    let prepared = prepare_program(loaded, options, engine, &bound, &whole)?;
    announce_program(options, &prepared, loaded, engine, io);
    proof::judge_loaded(&prepared, loaded, options, io)?;
    Ok(summary::proof_line(&prepared, &loaded.program, loaded.place.as_ref()))
}

/// Refuses what is not the proof of one program after the other.
fn refuse_options(options: &Options) -> Result<(), Diag> {
    if !options.check_only {
        let message = "`--container=all` proves all programs of a file, but `--check-only` is not given";
        return Err(Diag::global_error(errors::CONFLICT, message)
            .with_note("add `--check-only`, or select one program with `--container=N`"));
    }
    let asked = [
        ("--fix", options.fix),
        ("--exact", options.exact),
        ("--timeline", options.traced.is_any()),
        ("--permute-schedule", options.permuted.is_some()),
        ("--print-plan", options.print_plan.is_some()),
        ("--print-calls", options.print_calls.is_some()),
    ];
    let asked = asked.into_iter().find_map(|(flag, given)| given.then_some(flag));
    let others = (!options.others.is_empty()).then_some("several FILEs");
    let Some(flag) = options.wants_results().or(asked).or(others) else { return Ok(()) };
    let message = message!("`{}` cannot be combined with `--container=all`, which only proves programs", flag);
    Err(Diag::global_error(errors::CONFLICT, message).with_note("select one program with `--container=N`"))
}
