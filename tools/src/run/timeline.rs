//! Timelines that were asked for: a chart in the terminal, a picture, a file for Perfetto.

mod chart;
mod perfetto;
pub(super) mod span_names;
mod svg;

use super::cli::Options;
use super::failure::Failure;
use super::program::Loaded;
use hostir::backend::trace::Trace;
use hostir::diag::Diag;
use hostir::lower::Prepared;
use hostir_tool_support::errors;
use hostir_tool_support::io::Io;
use hostir_tool_support::staged::Staged;
use span_names::Names;

/// Refuses, before anything runs, what a timeline does not go with.
///
/// # Errors
/// An option that a timeline does not go with.
pub(super) fn check_options(options: &Options) -> Result<(), Failure> {
    let wanted = &options.traced;
    if !wanted.is_any() {
        return Ok(());
    }
    let others = [
        (options.bench.is_some(), "`--bench`", "the events of a traced run would be timed too"),
        (options.print_plan, "`--print-plan`", "nothing runs that could be traced"),
        (
            options.gpu.graph,
            "`--graph`",
            "a replayed graph has no room for events between its calls",
        ),
    ];
    if let Some((_, other, why)) = others.iter().find(|(given, ..)| *given) {
        let message = format!("`{}` does not go with {other}: {why}", wanted.flag_name());
        return Err(Diag::global(errors::CONFLICT, message).note("leave one of them out").into());
    }
    Ok(())
}

/// Draws all that is wanted: the files are ready to be moved into place, the chart comes back.
///
/// # Errors
/// A file that cannot be written.
pub(super) fn draw_timelines(
    trace: &Trace,
    loaded: &Loaded,
    prepared: &Prepared,
    options: &Options,
    staged: &mut Staged,
    io: &Io<'_>,
) -> Result<String, Failure> {
    let origins =
        trace.slices.iter().flat_map(|slice| std::iter::once(&slice.origin).chain(&slice.more));
    let names = Names::new(origins.map(|origin| origin.op), loaded, prepared);
    let wanted = &options.traced;
    if let Some(path) = &wanted.file {
        staged.write(path, &io.path(path), |out| perfetto::write(trace, &names, out))?;
    }
    if let Some(path) = &wanted.picture {
        let picture = svg::picture(trace, &names);
        staged.add(path, &io.path(path), picture.as_bytes())?;
    }
    let mut drawn = String::new();
    if wanted.chart {
        let width = io.columns.unwrap_or(chart::WIDTH);
        let colored = options.coloring.colors(io.columns.is_some(), io.env);
        drawn = chart::chart(trace, &names, width, colored);
    }
    Ok(drawn)
}

#[cfg(test)]
mod tests;
