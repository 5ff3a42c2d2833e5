//! Requested timelines: a chart in the terminal, a picture, a page, a file for Perfetto.

mod chart;
mod html;
mod line_sums;
mod perfetto;
pub(super) mod span_names;
mod sums;
mod svg;
mod view;

pub(super) use chart::truncate_text;

use super::cli::Options;
use super::failure::RunFailure;
use super::program::SourceProgram;
use hostir::backend::trace::Trace;
use hostir::diag::Diag;
use hostir::diag::message;
use hostir::lower::PreparedProgram;
use hostir_tool_support::errors;
use hostir_tool_support::io::ToolIo;
use hostir_tool_support::staged::StagedFiles;
use span_names::SpanNames;
use view::TimelineView;

/// Refuses, before anything runs, options that conflict with a timeline.
///
/// # Errors
/// An option that a timeline does not go with.
pub(super) fn check_options(options: &Options) -> Result<(), RunFailure> {
    let wanted = &options.traced;
    if !wanted.is_any() {
        return Ok(());
    }
    let others = [
        (options.bench.is_some(), "`--bench`", "its events would be timed, too"),
        (options.print_plan.is_some(), "`--print-plan`", "nothing runs that could be traced"),
        (
            options.gpu.graph && !options.check_only,
            "`--graph`",
            "a replayed graph cannot record events between its calls",
        ),
    ];
    if let Some((_, other, why)) = others.iter().find(|(given, ..)| *given) {
        let message = message!("`{}` cannot be combined with {}: {}", wanted.flag_name(), other, why);
        return Err(Diag::global_error(errors::CONFLICT, message).with_note("remove one of them").into());
    }
    Ok(())
}

/// The columns of texts: those of the terminal, if there is one.
pub(super) fn text_width(io: &ToolIo<'_>) -> usize {
    io.columns.unwrap_or(chart::WIDTH)
}

/// Draws all requested forms: the files are ready to be moved into place, the chart is returned.
///
/// # Errors
/// A file that cannot be written.
pub(super) fn draw_timelines(
    trace: &Trace,
    loaded: &SourceProgram,
    prepared: &PreparedProgram,
    options: &Options,
    staged: &mut StagedFiles,
    io: &ToolIo<'_>,
) -> Result<String, RunFailure> {
    let origins = trace.spans.iter().flat_map(|span| std::iter::once(&span.origin).chain(&span.more));
    let names = SpanNames::new(origins.map(|origin| origin.op), loaded, prepared);
    let wanted = &options.traced;
    if let Some(path) = &wanted.file {
        staged.write_file(path, &io.resolve_path(path), |out| perfetto::write_trace(trace, &names, out))?;
    }
    if !wanted.is_drawn() {
        return Ok(String::new());
    }
    let view = TimelineView::new(trace, prepared, &names, &options.run_model(), wanted.pairs);
    if let Some(path) = &wanted.picture {
        staged.add_file(path, &io.resolve_path(path), svg::draw_svg(&view).as_bytes())?;
    }
    if let Some(path) = &wanted.page {
        staged.add_file(path, &io.resolve_path(path), html::draw_page(&view).as_bytes())?;
    }
    let mut drawn = String::new();
    if wanted.chart {
        let width = text_width(io);
        let colored = options.coloring.is_colored(io.columns.is_some(), io.env);
        drawn = chart::draw_chart(&view, width, colored);
    }
    Ok(drawn)
}
