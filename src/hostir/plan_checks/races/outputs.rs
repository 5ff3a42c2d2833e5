//! Messages about outputs with uninitialised elements: their number, the first of them, and the writers of the others.

use super::findings::UnwrittenOutput;
use super::report::FindingReport;
use crate::diag::message;
use crate::diag::{Diag, Message, codes};
use crate::ir::{OpId, bare_head};
use crate::plan::{BufferView, InstId};
use crate::plan_checks::element_set::ElementSet;
use std::collections::BTreeMap;
use std::ops::Range;

/// Statements that an error labels.
const MOST_WRITERS: usize = 4;

/// Ranks that an error names besides the first.
const MOST_RANKS: usize = 7;

/// Ranges of elements that are counted for a label.
const MOST_RUNS: usize = 1 << 20;

/// The instructions of one statement that write an output.
struct OutputWriter {
    first: InstId,
    last: InstId,
    /// Iterations, or executions outside of loops.
    count: usize,
    runs: Vec<Range<usize>>,
}

/// The repair of an output that one rank writes and every rank returns.
fn single_writer_advice(output: &str, writer: u32, mesh: &str) -> Message {
    let (name, _) = mesh.split_once(" = ").unwrap_or((mesh, ""));
    let mesh = Message::advice(
        format!("give it a mesh of that rank alone, `DeviceMesh{{{writer}}}`"),
        format!("declare it on that rank alone, `{output}: .. @{name}` with `mesh {mesh}`"),
    );
    message!("only rank {} writes {}, but every rank returns it: {}, or send it to the others", writer, output, mesh)
}

impl FindingReport<'_> {
    pub(super) fn describe_freed_output(&self, rank: usize, output: usize) -> Diag {
        let io_tensor = &self.prepared.outputs[output];
        let message = message!("the output {} has no memory at the end of the program", io_tensor.name);
        Diag::error(codes::UNWRITTEN_OUTPUT, self.prepared.labels.tensor_span(io_tensor.tensor), message)
            .with_note(message!(
                "on rank {}: nothing writes it, or a {} ends it",
                self.plan_of(rank).rank,
                bare_head("Deallocate")
            ))
            .with_note(message!(
                "write {} on every rank of its mesh, and leave it to the caller to free",
                io_tensor.name
            ))
    }

    /// One error for an output on all ranks.
    pub(super) fn describe_outputs(&self, found: &UnwrittenOutput, others: &[&UnwrittenOutput]) -> Diag {
        let UnwrittenOutput { rank, output, elements, all } = *found;
        let io_tensor = &self.prepared.outputs[output];
        let plan = self.plan_of(rank);
        let message = message!(
            "{} of the {} elements of the output {} on rank {} are never written",
            elements.count,
            all,
            io_tensor.name,
            plan.rank
        );
        let mut diag =
            Diag::error(codes::UNWRITTEN_OUTPUT, self.prepared.labels.tensor_span(io_tensor.tensor), message);
        if let Some(Some(view)) = plan.outputs.get(output) {
            let first = self.element_text(rank, view.buffer, elements.first);
            diag = self.with_writers(diag, rank, view).with_note(message!("the first of them is {}", first));
        }
        let mut ranks: Vec<String> = others.iter().take(MOST_RANKS).filter_map(|other| self.rank_text(other)).collect();
        if let Some(more @ 1..) = others.len().checked_sub(MOST_RANKS) {
            ranks.push(format!("{more} more ranks"));
        }
        if !ranks.is_empty() {
            diag = diag.with_note(message!("so it is on {}", ranks.join(", ")));
        }
        if self.misses_own_slices(found, others) {
            let name = &io_tensor.name;
            return diag.with_note(message!(
                "each rank misses the slice of its own number along the first axis, which it need not receive: copy it \
                 there, in `hir 2` as `{}[rank] = Set(..)`",
                name
            ));
        }
        match self.only_writer(found, others) {
            Some(writer) => {
                let mesh = self.single_rank_mesh(writer);
                diag.with_note(single_writer_advice(&io_tensor.name, writer, &mesh))
            }
            None => diag,
        }
    }

    /// `last = p - 1..p`: a mesh of one rank, by the size that is the number of ranks if the text has one.
    fn single_rank_mesh(&self, rank: u32) -> String {
        let is_last = rank > 0 && rank as usize + 1 == self.prepared.plans.len();
        match self.prepared.labels.rank_count().filter(|_| is_last) {
            Some(size) => format!("last = {size} - 1..{size}"),
            None => format!("one = {rank}..{}", rank + 1),
        }
    }

    /// Returns true if what each rank has not written is the slice of its number along the output's first axis.
    fn misses_own_slices(&self, found: &UnwrittenOutput, others: &[&UnwrittenOutput]) -> bool {
        let Some(axis) = self.prepared.outputs[found.output].axes.first() else { return false };
        let slice = found.all / axis.local_extent().max(1);
        let mut all = others.iter().copied().chain([found]);
        let are_own = all.all(|missing| {
            let first = self.plan_of(missing.rank).rank as usize * slice;
            missing.elements.count == slice && missing.elements.first == first
        });
        axis.shards == 1 && !others.is_empty() && are_own
    }

    /// The only rank that writes an output of which every rank returns all elements.
    fn only_writer(&self, found: &UnwrittenOutput, others: &[&UnwrittenOutput]) -> Option<u32> {
        let io_tensor = &self.prepared.outputs[found.output];
        let is_whole = io_tensor.axes.iter().all(|axis| axis.shards == 1);
        let mut silent = others.iter().copied().chain([found]);
        if !is_whole || silent.any(|rank| rank.elements.count != rank.all) {
            return None;
        }
        let is_silent = |rank: usize| others.iter().any(|other| other.rank == rank) || rank == found.rank;
        let plans = self.prepared.plans.iter().enumerate();
        let mut writers = plans.filter(|(rank, plan)| io_tensor.is_on_rank(plan.rank) && !is_silent(*rank));
        let (_, writer) = writers.next()?;
        writers.next().is_none().then_some(writer.rank)
    }

    /// `rank 1 (32 elements, the first is C[2, 0, 0])`.
    fn rank_text(&self, found: &UnwrittenOutput) -> Option<String> {
        let plan = self.plan_of(found.rank);
        let view = plan.outputs.get(found.output)?.as_ref()?;
        let first = self.element_text(found.rank, view.buffer, found.elements.first);
        Some(format!("rank {} ({} elements, the first is {first})", plan.rank, found.elements.count))
    }

    /// Labels the statements that write other elements of an output.
    fn with_writers(&self, mut diag: Diag, rank: usize, output: &BufferView) -> Diag {
        let writers = self.find_writers(rank, output);
        if writers.is_empty() {
            return diag.with_note("no statement writes it on this rank");
        }
        for (op, writer) in writers.into_iter().take(MOST_WRITERS) {
            let text = self.writer_text(rank, output, writer);
            diag = diag.with_label(self.prepared.labels.op_span(op), text);
        }
        diag
    }

    fn find_writers(&self, rank: usize, output: &BufferView) -> BTreeMap<OpId, OutputWriter> {
        let mut writers: BTreeMap<OpId, OutputWriter> = BTreeMap::new();
        let mut runs = 0;
        for (id, inst) in self.plan_of(rank).cursor() {
            let views = inst.kind.written_views().into_iter().filter(|view| view.buffer == output.buffer);
            let sets: Vec<ElementSet> = views.filter_map(ElementSet::of_view).collect();
            if sets.is_empty() {
                continue;
            }
            let writer = writers.entry(self.op_of(rank, id)).or_insert_with(|| OutputWriter {
                first: id,
                last: id,
                count: 0,
                runs: Vec::new(),
            });
            writer.last = id;
            writer.count += 1;
            let room = MOST_RUNS - runs;
            let before = writer.runs.len();
            writer.runs.extend(sets.iter().flat_map(ElementSet::element_runs).take(room));
            runs += writer.runs.len() - before;
        }
        writers
    }

    /// `writes 96 elements on rank 0, from C[0, 0, 0] on, in 3 iterations: s=0 to s=2`.
    fn writer_text(&self, rank: usize, output: &BufferView, writer: OutputWriter) -> String {
        let plan = self.plan_of(rank);
        let iteration = |id: InstId| self.prepared.labels.iteration_text(plan.iteration_of(plan.inst(id).origin));
        let (from, to) = (iteration(writer.first), iteration(writer.last));
        let when = match (from.is_empty(), writer.count) {
            (true, _) => String::new(),
            (false, 1) => format!(", at {from}"),
            (false, count) => format!(", in {count} iterations: {from} to {to}"),
        };
        let Some(first) = writer.runs.iter().map(|run| run.start).min() else { return format!("writes it{when}") };
        let first = self.element_text(rank, output.buffer, first);
        let count = count_elements(writer.runs);
        format!("writes {count} elements on rank {}, from {first} on{when}", plan.rank)
    }
}

/// The number of elements in some ranges, each counted once.
fn count_elements(mut runs: Vec<Range<usize>>) -> usize {
    runs.sort_unstable_by_key(|run| run.start);
    let (mut count, mut end) = (0, 0);
    for run in runs {
        count += run.end.saturating_sub(run.start.max(end));
        end = end.max(run.end);
    }
    count
}
