//! Names of spans: their ops as text, lines and iterations.

use crate::run::program::SourceProgram;
use hostir::ir::OpId;
use hostir::lower::PreparedProgram;
use hostir::plan::InstOrigin;

/// Names of the spans of a timeline.
pub(in crate::run) struct SpanNames<'a> {
    loaded: &'a SourceProgram,
    prepared: &'a PreparedProgram,
    /// By op, for those of the trace.
    ops: Vec<String>,
    /// Starts of lines.
    lines: Vec<usize>,
}

/// The statements of ops, each on one line: as in the text in `hir 2`, else in the short form.
fn statement_texts(loaded: &SourceProgram, ops: &[OpId]) -> Vec<String> {
    if !loaded.program.is_hir2() {
        return hostir::print::op_lines(&loaded.program, ops.iter().copied());
    }
    let text = String::from_utf8_lossy(&loaded.source.bytes);
    let line = |&op: &OpId| {
        let found = text.get(loaded.program.op_span(op).as_usize_range()).unwrap_or_default();
        found.split_whitespace().collect::<Vec<&str>>().join(" ")
    };
    ops.iter().map(line).collect()
}

impl<'a> SpanNames<'a> {
    /// The names of these ops.
    pub(in crate::run) fn new(
        ops: impl Iterator<Item = OpId>,
        loaded: &'a SourceProgram,
        prepared: &'a PreparedProgram,
    ) -> Self {
        let mut used: Vec<OpId> = ops.collect();
        used.sort_unstable();
        used.dedup();
        let mut ops = vec![String::new(); used.last().map_or(0, |op| op.0 as usize + 1)];
        let texts = statement_texts(loaded, &used);
        for (op, text) in used.iter().zip(texts) {
            ops[op.0 as usize] = text;
        }
        let breaks = loaded.source.bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        let lines = std::iter::once(0).chain(breaks.map(|(at, _)| at + 1)).collect();
        Self { loaded, prepared, ops, lines }
    }

    /// The program's file.
    pub(in crate::run) fn program_path(&self) -> &str {
        &self.loaded.source.name
    }

    /// Its name without folders, so that pictures do not depend on its place.
    pub(in crate::run) fn file_name(&self) -> &str {
        self.program_path().rsplit('/').next().unwrap_or_default()
    }

    /// The op on one line: `T5 = matmul(T1, T2)`.
    pub(in crate::run) fn op_text(&self, op: OpId) -> &str {
        self.ops.get(op.0 as usize).map_or("?", String::as_str)
    }

    /// `T5 = matmul(T1, T2)  StreamIdx=3`.
    pub(in crate::run) fn span_name(&self, rank: u32, origin: InstOrigin) -> String {
        let iteration = self.iteration_text(rank, origin);
        let op = self.op_text(origin.op);
        if iteration.is_empty() { op.to_owned() } else { format!("{op}  {iteration}") }
    }

    /// `StreamIdx=3`; empty outside of loops.
    pub(in crate::run) fn iteration_text(&self, rank: u32, origin: InstOrigin) -> String {
        let plan = self.prepared.plans.get(rank as usize);
        plan.map_or_else(String::new, |plan| self.prepared.labels.iteration_text(plan.iteration_of(origin)))
    }

    /// The op's line in the text, from 1.
    pub(in crate::run) fn line_number(&self, op: OpId) -> usize {
        let start = self.prepared.labels.op_span(op).start as usize;
        self.lines.partition_point(|line| *line <= start)
    }

    /// The lines of the op's statement, from 1.
    pub(in crate::run) fn line_numbers(&self, op: OpId) -> Vec<usize> {
        let span = self.prepared.labels.op_span(op);
        let last = self.lines.partition_point(|line| *line < span.end as usize);
        (self.line_number(op)..=last.max(self.line_number(op))).collect()
    }

    /// The program's text.
    pub(in crate::run) fn source_text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.loaded.source.bytes)
    }

    /// `prog.hir:12`.
    pub(in crate::run) fn source_location(&self, op: OpId) -> String {
        format!("{}:{}", self.program_path(), self.line_number(op))
    }
}
