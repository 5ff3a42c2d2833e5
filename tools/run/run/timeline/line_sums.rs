//! The times of a timeline by line of its program.

use super::span_names::SpanNames;
use hostir::backend::critical_path::{PathSegment, exposed_waits, sum_path_by_op};
use hostir::backend::trace::Trace;
use hostir::backend::usage::longest_ops;
use hostir::ir::OpId;
use hostir::lower::PreparedProgram;
use hostir::plan::cost::time_text;
use std::collections::BTreeMap;

/// The times of the statements of a line, in nanoseconds, over all ranks and iterations.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct LineSum {
    /// The first of its ops that has a time.
    pub(super) op: Option<OpId>,
    /// Number of spans, without waits.
    pub(super) spans: u64,
    /// Their time.
    pub(super) total_ns: u64,
    /// The time in which a rank does not compute because of the line.
    pub(super) exposed_ns: u64,
    /// The part of the critical path.
    pub(super) critical_ns: u64,
}

impl LineSum {
    /// `4 spans, 12.00 us together; 8.000 us exposed; 3.000 us of the critical path`.
    pub(super) fn sum_text(&self) -> String {
        let mut words = Vec::new();
        if self.spans > 0 {
            let plural = if self.spans == 1 { "" } else { "s" };
            words.push(format!("{} span{plural}, {} together", self.spans, time_text(self.total_ns)));
        }
        if self.exposed_ns > 0 {
            words.push(format!("{} exposed", time_text(self.exposed_ns)));
        }
        if self.critical_ns > 0 {
            words.push(format!("{} of the critical path", time_text(self.critical_ns)));
        }
        words.join("; ")
    }
}

/// The sums of a trace, by line from 1.
pub(super) fn sum_lines(
    trace: &Trace,
    prepared: &PreparedProgram,
    path: &[PathSegment],
    names: &SpanNames<'_>,
) -> BTreeMap<usize, LineSum> {
    let mut sums = BTreeMap::new();
    for usage in longest_ops(trace) {
        let sum = line_entry(&mut sums, names, usage.op);
        sum.spans += usage.count;
        sum.total_ns += usage.total;
    }
    for wait in exposed_waits(trace, prepared) {
        if let Some(op) = wait.awaited {
            line_entry(&mut sums, names, op).exposed_ns += wait.total_ns;
        }
    }
    for share in sum_path_by_op(trace, path) {
        if let Some(spans) = share.spans {
            line_entry(&mut sums, names, spans.op).critical_ns += share.total_ns;
        }
    }
    sums
}

fn line_entry<'s>(sums: &'s mut BTreeMap<usize, LineSum>, names: &SpanNames<'_>, op: OpId) -> &'s mut LineSum {
    let sum = sums.entry(names.line_number(op)).or_default();
    sum.op.get_or_insert(op);
    sum
}
