//! Timelines that were asked for: what is drawn, what slices are called, and the files.

use super::cli::Options;
use super::exec::Prepared;
use super::failure::Failure;
use super::load::Loaded;
use super::{errors, timeline, trace};
use crate::io::Io;
use crate::staged::Staged;
use hostir::backend::trace::Trace;
use hostir::diag::Diag;
use hostir::ir::OpId;
use hostir::plan::Origin;

/// What is to be made of a run's timeline.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Wanted {
    /// A file for Perfetto.
    pub(super) file: Option<String>,
    /// A chart on standard output.
    pub(super) chart: bool,
    /// A picture.
    pub(super) picture: Option<String>,
}

impl Wanted {
    /// Whether anything is.
    pub(super) fn any(&self) -> bool {
        self.file.is_some() || self.chart || self.picture.is_some()
    }

    /// The flag that asks for it, for messages.
    fn flag(&self) -> &'static str {
        if self.file.is_some() { "--trace" } else { "--timeline" }
    }
}

/// Refuses, before anything runs, what a timeline does not go with.
pub(super) fn check(options: &Options) -> Result<(), Failure> {
    let wanted = &options.traced;
    if !wanted.any() {
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
        let message = format!("`{}` does not go with {other}: {why}", wanted.flag());
        return Err(Diag::global(errors::CONFLICT, message).note("leave one of them out").into());
    }
    Ok(())
}

/// Draws all that is wanted: the files are ready to be moved into place, the chart comes back.
pub(super) fn draw(
    trace: &Trace,
    loaded: &Loaded,
    prepared: &Prepared,
    options: &Options,
    (staged, io): (&mut Staged, &Io<'_>),
) -> Result<String, Failure> {
    let origins =
        trace.slices.iter().flat_map(|slice| std::iter::once(&slice.origin).chain(&slice.more));
    let names = Names::new(origins.map(|origin| origin.op), loaded, prepared);
    let wanted = &options.traced;
    if let Some(path) = &wanted.file {
        staged.write(path, &io.path(path), |out| trace::write(trace, &names, out))?;
    }
    if let Some(path) = &wanted.picture {
        let picture = timeline::svg::picture(trace, &names);
        staged.add(path, &io.path(path), picture.as_bytes())?;
    }
    let mut chart = String::new();
    if wanted.chart {
        let width = io.columns.unwrap_or(timeline::WIDTH);
        let colored = options.coloring.colors(io.columns.is_some(), io.env);
        chart = timeline::chart(trace, &names, width, colored);
    }
    Ok(chart)
}

/// What slices are called.
pub(super) struct Names<'a> {
    loaded: &'a Loaded,
    prepared: &'a Prepared,
    /// By op, for those of the trace.
    ops: Vec<String>,
    /// Where lines start.
    lines: Vec<usize>,
}

impl<'a> Names<'a> {
    /// The names of these ops.
    pub(super) fn new(
        ops: impl Iterator<Item = OpId>,
        loaded: &'a Loaded,
        prepared: &'a Prepared,
    ) -> Self {
        let mut used: Vec<OpId> = ops.collect();
        used.sort_unstable();
        used.dedup();
        let mut ops = vec![String::new(); used.last().map_or(0, |op| op.0 as usize + 1)];
        let texts = hostir::print::op_lines(&loaded.program, used.iter().copied());
        for (op, text) in used.iter().zip(texts) {
            ops[op.0 as usize] = text;
        }
        let breaks = loaded.source.bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        let lines = std::iter::once(0).chain(breaks.map(|(at, _)| at + 1)).collect();
        Self { loaded, prepared, ops, lines }
    }

    /// The program's file.
    pub(super) fn program(&self) -> &str {
        &self.loaded.source.name
    }

    /// Its name without folders, so that pictures do not depend on where it lies.
    pub(super) fn file(&self) -> &str {
        self.program().rsplit('/').next().unwrap_or_default()
    }

    /// The op on one line: `T5 = matmul(T1, T2)`.
    pub(super) fn op(&self, op: OpId) -> &str {
        self.ops.get(op.0 as usize).map_or("?", String::as_str)
    }

    /// `T5 = matmul(T1, T2)  StreamIdx=3`.
    pub(super) fn slice(&self, rank: u32, origin: Origin) -> String {
        let iteration = self.iteration(rank, origin);
        let op = self.op(origin.op);
        if iteration.is_empty() { op.to_owned() } else { format!("{op}  {iteration}") }
    }

    /// `StreamIdx=3`; empty outside of loops.
    pub(super) fn iteration(&self, rank: u32, origin: Origin) -> String {
        let plan = self.prepared.plans.get(rank as usize);
        plan.map_or_else(String::new, |plan| self.prepared.labels.iteration(plan.iteration(origin)))
    }

    /// The op's line in the text, from 1.
    pub(super) fn line(&self, op: OpId) -> usize {
        let start = self.prepared.labels.span(op).start as usize;
        self.lines.partition_point(|line| *line <= start)
    }

    /// `prog.hir:12`.
    pub(super) fn place(&self, op: OpId) -> String {
        format!("{}:{}", self.program(), self.line(op))
    }
}

#[cfg(test)]
mod tests;
