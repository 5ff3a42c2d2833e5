//! Lost writes: values that are overwritten before anything reads them.
//!
//! A right program may lose writes, but hardly ever on purpose. If one order of two accesses makes the program lose a
//! write, the other order may be the intended one.

use super::agreement;
use super::element_set::ElementSet;
use super::happens_before::{MemoryAccess, OrderObserver, VectorClock, WaitInst, WalkOutcome, WalkedEnds, walk_order};
use crate::diag::Span;
use crate::ir::{Id, OpId};
use crate::lower::PreparedProgram;
use crate::plan::{BufferKind, BufferView, InstKind, Plan, PlanMatching};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The maximum number of element ranges of all accesses; beyond it the search is skipped.
const MOST_RANGES: usize = 1 << 21;

/// A write of which nothing is read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LostWrite {
    /// The statement that writes; `None` for the caller's data in an input.
    pub lost: Option<Span>,
    /// The statement that overwrites the last of its elements.
    pub by: Span,
}

/// Finds the writes that a program loses: all data that an instruction, or the caller in an input, has written is
/// overwritten, and nothing has read any of it. Constants do not count. `None` if ranks deadlock, or if the program is
/// too large.
pub fn find_lost_writes(prepared: &PreparedProgram) -> Option<Vec<LostWrite>> {
    let matching = PlanMatching::new(&prepared.plans);
    agreement::check_all_sides(prepared, &matching).ok()?;
    let mut observer = LostWrites::new(&prepared.plans);
    let outcome = walk_order(&prepared.plans, &matching, &mut observer);
    let is_known = outcome == WalkOutcome::Finished && observer.ranges <= MOST_RANGES;
    let lost = observer.lost.iter().map(|&(lost, by)| LostWrite {
        lost: lost.map(|op| statement_span(prepared, op)),
        by: statement_span(prepared, by),
    });
    is_known.then(|| lost.collect())
}

/// The statement of the host program that runs an op.
fn statement_span(prepared: &PreparedProgram, op: OpId) -> Span {
    match prepared.labels.op_posts(op) {
        [post] => prepared.labels.op_span(*post),
        _ => prepared.labels.op_span(op),
    }
}

/// One write of one instruction.
struct WriteState {
    /// `None` for the caller's.
    op: Option<OpId>,
    /// The elements that it has written and that are not overwritten yet.
    left: usize,
    /// True if something has read one of its elements, or its value means nothing.
    is_used: bool,
}

/// The last writes to the elements of a buffer: by the first element of a range its end and the number of the write.
type LastWrites = BTreeMap<usize, (usize, usize)>;

/// Follows the accesses of a walk.
struct LostWrites<'p> {
    plans: &'p [Plan],
    /// By rank and buffer.
    buffers: Vec<Vec<LastWrites>>,
    writes: Vec<WriteState>,
    /// The ranges of all accesses so far.
    ranges: usize,
    /// The ops of lost writes, each with the op that overwrites it.
    lost: BTreeSet<(Option<OpId>, OpId)>,
}

impl<'p> LostWrites<'p> {
    fn new(plans: &'p [Plan]) -> Self {
        let mut writes = Vec::new();
        let buffers = plans.iter().map(|plan| {
            let buffers = plan.buffers.iter().map(|(_, buffer)| match buffer.kind {
                BufferKind::Input(_) if buffer.elements > 0 => {
                    writes.push(WriteState { op: None, left: buffer.elements, is_used: false });
                    LastWrites::from([(0, (buffer.elements, writes.len() - 1))])
                }
                BufferKind::Input(_) | BufferKind::Allocated | BufferKind::Temp => LastWrites::new(),
            });
            buffers.collect()
        });
        let buffers = buffers.collect();
        Self { plans, buffers, writes, ranges: 0, lost: BTreeSet::new() }
    }

    fn add_access(&mut self, access: &MemoryAccess<'_>) {
        let Some(set) = ElementSet::of_view(access.view) else { return };
        let write = self.writes.len();
        if access.is_write {
            let is_used = matches!(access.kind, InstKind::Fill { .. });
            let op = self.plans[access.rank].inst(access.inst).origin.op;
            self.writes.push(WriteState { op: Some(op), left: 0, is_used });
        }
        for run in set.element_runs() {
            self.ranges += 1;
            if self.ranges > MOST_RANGES {
                return;
            }
            match access.is_write {
                true => self.add_written(access.rank, access.view, run, write),
                false => self.add_read(access.rank, access.view, &run),
            }
        }
    }

    fn add_read(&mut self, rank: usize, view: &BufferView, run: &Range<usize>) {
        let last = &self.buffers[rank][view.buffer.index()];
        for (_, &(end, write)) in last.range(..run.end).rev() {
            if end <= run.start {
                break;
            }
            self.writes[write].is_used = true;
        }
    }

    fn add_written(&mut self, rank: usize, view: &BufferView, run: Range<usize>, write: usize) {
        let last = &mut self.buffers[rank][view.buffer.index()];
        let over: Vec<(usize, (usize, usize))> = last
            .range(..run.end)
            .rev()
            .take_while(|(_, (end, _))| *end > run.start)
            .map(|(&start, &old)| (start, old))
            .collect();
        for (start, (end, old)) in over {
            last.remove(&start);
            if start < run.start {
                last.insert(start, (run.start, old));
            }
            if end > run.end {
                last.insert(run.end, (end, old));
            }
            let state = &mut self.writes[old];
            state.left -= end.min(run.end) - start.max(run.start);
            let lost = (state.left == 0 && !state.is_used && old != write).then_some(state.op);
            self.lost.extend(lost.zip(self.writes[write].op));
        }
        self.writes[write].left += run.len();
        last.insert(run.start, (run.end, write));
    }
}

impl OrderObserver for LostWrites<'_> {
    fn observe_accesses(&mut self, _: &WalkedEnds, accesses: &[MemoryAccess<'_>], _: &mut VectorClock) {
        accesses.iter().for_each(|access| self.add_access(access));
    }

    fn observe_wait(&mut self, _: WaitInst) {}

    fn observe_end(&mut self, _: &WalkedEnds, _: usize, _: &VectorClock) {}
}
