//! `--check-only` of several programs: proves each, and compares their cost models with the first one's.

use super::backend_choice::RunEngine;
use super::cli::Options;
use super::failure::RunFailure;
use super::preparation::{announce_program, prepare_program};
use super::program::SourceProgram;
use super::quantities::bytes_text;
use super::{inputs, proof, tensor_options};
use hostir::backend::simulation::simulate_run;
use hostir::backend::usage::{RankUsage, rank_usages};
use hostir::diag::message;
use hostir::diag::{Diag, count_text, visible};
use hostir::plan::cost::{is_tie, time_text};
use hostir_tool_support::errors;
use hostir_tool_support::io::ToolIo;
use std::fmt::Write as _;

/// The figures of a program by the cost model.
struct ModelFigures {
    file: String,
    ranks: u32,
    instructions: usize,
    /// The memory of the rank that needs most, in bytes.
    peak_bytes: u64,
    /// The time of the run, in nanoseconds.
    end_ns: u64,
    /// The share of the communication of all ranks that compute hides.
    hidden: Option<f64>,
}

/// Proves every program and compares their models: a line for each.
///
/// # Errors
/// If options are about one program, or a program is wrong.
pub(super) fn compare_models(options: &Options, engine: &RunEngine, io: &mut ToolIo<'_>) -> Result<String, RunFailure> {
    refuse_options(options)?;
    let mut figures: Vec<ModelFigures> = Vec::new();
    for file in std::iter::once(&options.file).chain(&options.others) {
        // The first line is for the first program, warnings are for all.
        let quiet = options.quiet || !figures.is_empty();
        let options = Options { file: file.clone(), quiet, ..options.clone() };
        figures.push(model_program(&options, engine, io)?);
    }
    let mut text = String::new();
    for (place, figure) in figures.iter().enumerate() {
        let first = figures.first().filter(|_| place > 0);
        let _ = writeln!(text, "{}", figure_line(figure, first, &options.model.machine.name));
    }
    Ok(visible::escape_block(&text).into_owned())
}

/// Refuses options that are about one program.
fn refuse_options(options: &Options) -> Result<(), Diag> {
    let asked = [
        ("--fix", options.fix),
        ("--exact", options.exact),
        ("--timeline", options.traced.is_any()),
        ("--permute-schedule", options.permuted.is_some()),
    ];
    let asked = asked.into_iter().find_map(|(flag, given)| given.then_some(flag));
    let Some(flag) = options.wants_results().or(asked) else { return Ok(()) };
    let message = message!("`{}` applies to one program, but several were given", flag);
    let note = "give it and each program in a run of its own: several programs are proved and their models compared";
    Err(Diag::global_error(errors::CONFLICT, message).with_note(note))
}

fn model_program(options: &Options, engine: &RunEngine, io: &mut ToolIo<'_>) -> Result<ModelFigures, RunFailure> {
    let loaded = SourceProgram::read_program(&options.file, options.program_choice(), io)?;
    let bound = tensor_options::bind_options(&loaded.program, options)?;
    let whole = inputs::read_whole(&loaded.program, &bound, io)?;
    let prepared = prepare_program(&loaded, options, engine, &bound, &whole)?;
    announce_program(options, &prepared, &loaded, engine, io);
    proof::judge_loaded(&prepared, &loaded, options, io)?;
    let trace = simulate_run(&prepared, &options.run_model()).map_err(|diags| loaded.to_failure(diags))?;
    Ok(ModelFigures {
        file: options.file.clone(),
        ranks: prepared.ranks,
        instructions: prepared.plans.iter().map(|plan| plan.inst_count()).sum(),
        peak_bytes: prepared.plans.iter().map(|plan| plan.peak_bytes).max().unwrap_or(0),
        end_ns: trace.end_ns(),
        hidden: RankUsage::of_all(&rank_usages(&trace)).hidden_fraction(),
    })
}

/// `a.hir: 36.31 us by the model of h200x4, 29% of the communication hidden, 4 ranks, 152 instructions, at most 208 KiB a rank`
fn figure_line(figure: &ModelFigures, first: Option<&ModelFigures>, machine: &str) -> String {
    let mut text = format!("{}: {} by the model of {machine}", figure.file, time_text(figure.end_ns));
    if let Some(first) = first.filter(|first| first.end_ns > 0) {
        let ratio = figure.end_ns as f64 / first.end_ns as f64;
        let tie = if is_tie(first.end_ns, figure.end_ns) { ": too close to tell apart" } else { "" };
        let _ = write!(text, " ({ratio:.3}x the time of the first{tie})");
    }
    if let Some(hidden) = figure.hidden {
        let _ = write!(text, ", {}% of the communication hidden", (hidden * 100.0).floor());
    }
    let _ = write!(
        text,
        ", {}, {}, at most {} a rank",
        count_text(figure.ranks as usize, "rank"),
        count_text(figure.instructions, "instruction"),
        bytes_text(figure.peak_bytes)
    );
    text
}
