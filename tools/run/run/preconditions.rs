//! Refusals before anything runs: options that `--bench` does not support, and files that could not be written
//! afterwards.

use super::cli::Options;
use super::failure::RunFailure;
use crate::launch::LaunchedProcess;
use hostir::diag::Diag;
use hostir::diag::message;
use hostir_tool_support::errors;
use hostir_tool_support::io::ToolIo;
use hostir_tool_support::staged::{self, PlaceKey};

/// Refuses options for results that the run will not have. Only the process that writes checks the places.
///
/// # Errors
/// The first refusal.
pub(super) fn check_run(options: &Options, here: Option<&LaunchedProcess>, io: &ToolIo<'_>) -> Result<(), RunFailure> {
    check_bench_options(options)?;
    if here.is_none_or(LaunchedProcess::is_first) {
        check_files(options, io)?;
    }
    Ok(())
}

/// Refuses options that `--bench` would silently ignore. `--check-only` and `--print-plan` do check the names in other
/// options.
fn check_bench_options(options: &Options) -> Result<(), Diag> {
    if options.bench.is_none() {
        return Ok(());
    }
    let modes = [("--check-only", options.check_only), ("--print-plan", options.print_plan.is_some())];
    let mode = modes.into_iter().find_map(|(flag, given)| given.then_some(flag));
    let Some(other) = options.wants_results().or(mode) else { return Ok(()) };
    let message = message!(
        "`{}` cannot be combined with `--bench`, which only times programs and compares them with each other",
        other
    );
    Err(Diag::global_error(errors::CONFLICT, message)
        .with_note("remove one of them, or check a program in a separate run"))
}

/// A file to be written: its purpose, and its name on the command line.
struct OutputPlace {
    what: &'static str,
    name: String,
}

/// If places cannot be written, or two results have one place.
fn check_files(options: &Options, io: &ToolIo<'_>) -> Result<(), Diag> {
    let targets = output_places(options);
    for target in &targets {
        staged::check_file(&target.name, &io.resolve_path(&target.name))?;
    }
    let programs = [&options.file].into_iter().chain(&options.others).chain(&options.reference);
    // `:name` is a program of the same file.
    let programs = programs.filter(|file| *file != "-" && !file.starts_with(':'));
    let read = programs.map(|file| OutputPlace { what: "the program", name: file.clone() });
    let mut places: Vec<(Result<PlaceKey, String>, OutputPlace)> = Vec::new();
    for target in read.chain(targets) {
        let place = PlaceKey::for_path(&io.resolve_path(&target.name)).ok_or_else(|| target.name.clone());
        // Several tensors may go to one file, and a program may be run against itself.
        let other = places.iter().find(|(other, old)| *other == place && old.what != target.what);
        if let Some((_, old)) = other {
            let message = message!("`{}` is used for both {} and {}", target.name, old.what, target.what);
            return Err(Diag::global_error(errors::CONFLICT, message).with_note("use two different files"));
        }
        places.push((place, target));
    }
    check_folder(options, io)
}

fn output_places(options: &Options) -> Vec<OutputPlace> {
    let outputs = options.outputs.iter().map(|(_, file)| file.of_rank(0).path);
    let mut targets: Vec<OutputPlace> = outputs.map(|name| OutputPlace { what: "an output", name }).collect();
    let traced = &options.traced;
    let runs = options.bench.as_ref().or(options.tune.as_ref().map(|tune| &tune.runs));
    let json = runs.and_then(|runs| runs.json.as_ref());
    let choices = options.tune.as_ref().and_then(|tune| tune.file.as_ref());
    let others = [
        ("the trace", traced.file.as_ref()),
        ("the picture", traced.picture.as_ref()),
        ("the page", traced.page.as_ref()),
        ("the figures", json),
        ("the choices", choices),
    ];
    for (what, name) in others {
        targets.extend(name.map(|name| OutputPlace { what, name: name.clone() }));
    }
    targets
}

/// Refuses a path for a folder of outputs that is not a folder.
fn check_folder(options: &Options, io: &ToolIo<'_>) -> Result<(), Diag> {
    let Some(folder) = &options.out_dir else { return Ok(()) };
    if !staged::is_folder_or_free(folder, &io.resolve_path(folder))? {
        let message = message!("cannot write to `{}`: it is not a folder", folder);
        let note = "use an existing folder or a new name; nothing was run or written";
        return Err(Diag::global_error(errors::WRITE, message).with_note(note));
    }
    Ok(())
}
