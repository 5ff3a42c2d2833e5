//! Follows the accesses of a walk, and collects their errors.

use super::findings::{MemoryFinding, UnorderedPair, UnwrittenOutput};
use super::history::{BufferHistory, PastAccess};
use crate::ir::{Id, OpId, TensorId};
use crate::lower::IoTensor;
use crate::plan::{BufferId, BufferKind, InstId, Plan};
use crate::plan_checks::happens_before::{MemoryAccess, OrderObserver, VectorClock, WaitInst, WalkedEnds};
use crate::plan_checks::in_place::{have_common_indices, is_elementwise_operand, orders_itself};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// The waits of one op, counted over all ranks and iterations.
#[derive(Clone, Copy, Default, Debug)]
pub(in crate::plan_checks) struct WaitUse {
    /// Waits that order something new.
    pub(in crate::plan_checks) needed: u64,
    /// Waits that do not.
    pub(in crate::plan_checks) redundant: u64,
}

/// The pair of ops of a race: one error is reported for each.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct OpPair(OpId, OpId);

/// Follows the accesses of a walk.
pub(in crate::plan_checks) struct MemoryObserver<'p> {
    plans: &'p [Plan],
    /// By rank and buffer.
    histories: Vec<Vec<BufferHistory>>,
    /// By rank: the buffers that the caller sees.
    bound: Vec<FxHashSet<BufferId>>,
    reported: FxHashSet<OpPair>,
    /// Ops with a finding of unwritten memory.
    unwritten: FxHashSet<OpId>,
    unjoined: FxHashSet<OpId>,
    /// All findings, in the order of the walk.
    pub(in crate::plan_checks) findings: Vec<MemoryFinding>,
    /// By the op of the wait.
    pub(in crate::plan_checks) waits: FxHashMap<OpId, WaitUse>,
}

impl<'p> MemoryObserver<'p> {
    /// The observer of a walk over these plans.
    pub(in crate::plan_checks) fn new(plans: &'p [Plan]) -> Self {
        let histories = plans.iter().map(|plan| {
            let buffers = plan.buffers.iter();
            buffers
                .map(|(_, buffer)| match buffer.kind {
                    BufferKind::Input(_) => BufferHistory::with_values(buffer.elements),
                    BufferKind::Allocated | BufferKind::Temp => BufferHistory::default(),
                })
                .collect()
        });
        let bound = plans.iter().map(|plan| {
            let views = plan.inputs.iter().chain(&plan.outputs);
            views.flatten().map(|view| view.buffer).collect()
        });
        Self {
            plans,
            histories: histories.collect(),
            bound: bound.collect(),
            reported: FxHashSet::default(),
            unwritten: FxHashSet::default(),
            unjoined: FxHashSet::default(),
            findings: Vec::new(),
            waits: FxHashMap::default(),
        }
    }

    fn op_of(&self, rank: usize, inst: InstId) -> OpId {
        self.plans[rank].stored_inst(inst).template_inst().origin.op
    }

    /// Compares an access with those before it, and adds a race for the first unordered one.
    fn compare_access(&mut self, ends: &WalkedEnds, access: &MemoryAccess<'_>, set: u32, clock: &mut VectorClock) {
        let history = &mut self.histories[access.rank][access.view.buffer.index()];
        if history.is_after_all(ends, clock, access.is_write) {
            return;
        }
        let is_unordered = |past: &PastAccess| past.inst != access.inst && !ends.is_after(clock, past.end);
        let mut unordered: SmallVec<[(u32, PastAccess); 2]> =
            history.conflicting(set, access.is_write).filter(|(_, past)| is_unordered(past)).collect();
        // An access after the last one of a queue is after those before it.
        unordered.sort_by_key(|(_, past)| std::cmp::Reverse(past.inst));
        for (other, past) in unordered {
            if ends.is_after(clock, past.end) {
                continue;
            }
            let later = PastAccess { inst: access.inst, end: access.end, is_write: access.is_write };
            let element = self.histories[access.rank][access.view.buffer.index()].common_element(set, other);
            let ops = (self.op_of(access.rank, past.inst), self.op_of(access.rank, access.inst));
            // Consequences of the missing order are no errors of their own.
            if let Some(point) = ends.end_point(past.end) {
                clock.join_point(point);
            }
            if self.reported.insert(OpPair(ops.0.min(ops.1), ops.0.max(ops.1))) {
                let pair = UnorderedPair { earlier: past, later, element: element.unwrap_or(access.view.offset) };
                self.findings.push(MemoryFinding::Race { rank: access.rank, buffer: access.view.buffer, pair });
            }
        }
    }

    /// Adds a finding if an instruction of a stream reads elements that it writes, other than in place: on a GPU, other
    /// threads may have written them before.
    fn check_overlap(&mut self, accesses: &[MemoryAccess<'_>], sets: &[Option<u32>]) {
        let last = accesses.split_last().filter(|(last, _)| last.is_write && last.kind.is_local());
        let Some((write, reads)) = last.filter(|(last, _)| !orders_itself(last.kind)) else { return };
        let Some(written) = sets.last().copied().flatten() else { return };
        for (operand, (read, set)) in reads.iter().zip(sets).enumerate() {
            let Some(set) = set.filter(|_| read.view.buffer == write.view.buffer) else { continue };
            let history = &self.histories[write.rank][write.view.buffer.index()];
            let Some(element) = history.common_element(set, written) else { continue };
            if is_elementwise_operand(read.kind, operand) && have_common_indices(read.view, write.view) {
                continue;
            }
            let op = self.op_of(write.rank, write.inst);
            if self.reported.insert(OpPair(op, op)) {
                let (rank, inst, buffer) = (write.rank, write.inst, write.view.buffer);
                self.findings.push(MemoryFinding::Overlap { rank, inst, buffer, element });
            }
        }
    }

    /// Adds a finding if an instruction reads uninitialised elements.
    fn check_written(&mut self, access: &MemoryAccess<'_>, set: u32) {
        let history = &mut self.histories[access.rank][access.view.buffer.index()];
        let Some(elements) = history.unwritten_elements(set) else { return };
        history.assume_written(set);
        let op = self.op_of(access.rank, access.inst);
        if self.unwritten.insert(op) {
            let (rank, inst, view) = (access.rank, access.inst, access.view.clone());
            self.findings.push(MemoryFinding::Unwritten { rank, inst, view, elements });
        }
    }

    /// Drops findings of uninitialised memory that a race explains: the walk reached the read first.
    pub(in crate::plan_checks) fn drop_explained(&mut self) {
        let mut raced: FxHashSet<(OpId, TensorId)> = FxHashSet::default();
        for finding in &self.findings {
            if let MemoryFinding::Race { rank, buffer, pair } = finding {
                let tensor = self.plans[*rank].buffers[*buffer].tensor;
                raced.extend([pair.earlier, pair.later].map(|access| (self.op_of(*rank, access.inst), tensor)));
            }
        }
        let plans = self.plans;
        self.findings.retain(|finding| match finding {
            MemoryFinding::Unwritten { rank, inst, view, .. } => {
                let (op, tensor) = (plans[*rank].inst(*inst).origin.op, plans[*rank].buffers[view.buffer].tensor);
                !raced.contains(&(op, tensor))
            }
            _ => true,
        });
    }

    /// Keeps the findings about two accesses that were both made: other missing accesses may come after the end of the
    /// walk.
    pub(in crate::plan_checks) fn keep_races(&mut self) {
        self.findings.retain(|finding| matches!(finding, MemoryFinding::Race { .. } | MemoryFinding::Overlap { .. }));
    }

    /// Adds a finding for each output without memory, or with uninitialised elements.
    pub(in crate::plan_checks) fn check_outputs(&mut self, outputs: &[IoTensor]) {
        for (rank, plan) in self.plans.iter().enumerate() {
            for (output, (view, io_tensor)) in plan.outputs.iter().zip(outputs).enumerate() {
                let Some(view) = view else {
                    if io_tensor.is_on_rank(plan.rank) {
                        self.findings.push(MemoryFinding::FreedOutput { rank, output });
                    }
                    continue;
                };
                let history = &mut self.histories[rank][view.buffer.index()];
                let Some(elements) = history.set_number(view).and_then(|set| history.unwritten_elements(set)) else {
                    continue;
                };
                let all = view.distinct_len();
                self.findings.push(MemoryFinding::UnwrittenOutput(UnwrittenOutput { rank, output, elements, all }));
            }
        }
    }
}

impl OrderObserver for MemoryObserver<'_> {
    fn observe_accesses(&mut self, ends: &WalkedEnds, accesses: &[MemoryAccess<'_>], clock: &mut VectorClock) {
        let mut sets: SmallVec<[Option<u32>; 4]> = SmallVec::new();
        for access in accesses {
            let set = self.histories[access.rank][access.view.buffer.index()].set_number(access.view);
            sets.push(set);
            if let Some(set) = set {
                self.compare_access(ends, access, set, clock);
                if !access.is_write {
                    self.check_written(access, set);
                }
            }
        }
        self.check_overlap(accesses, &sets);
        for (access, set) in accesses.iter().zip(sets) {
            let Some(set) = set else { continue };
            let past = PastAccess { inst: access.inst, end: access.end, is_write: access.is_write };
            self.histories[access.rank][access.view.buffer.index()].add_access(set, past);
        }
    }

    fn observe_wait(&mut self, wait: WaitInst) {
        let waits = self.waits.entry(wait.op).or_default();
        if wait.adds_order { waits.needed += 1 } else { waits.redundant += 1 }
    }

    fn observe_end(&mut self, ends: &WalkedEnds, rank: usize, clock: &VectorClock) {
        let mut buffers: Vec<BufferId> = self.bound[rank].iter().copied().collect();
        buffers.sort_unstable();
        let mut open: Vec<(BufferId, PastAccess)> = Vec::new();
        for buffer in buffers {
            let accesses = self.histories[rank][buffer.index()].last_accesses();
            open.extend(accesses.filter(|access| !ends.is_after(clock, access.end)).map(|access| (buffer, access)));
        }
        // An access after another one needs no order of its own.
        open.sort_by_key(|(_, access)| (std::cmp::Reverse(access.is_write), std::cmp::Reverse(access.inst)));
        let mut clock = clock.clone();
        for (buffer, access) in open {
            if ends.is_after(&clock, access.end) {
                continue;
            }
            if let Some(point) = ends.end_point(access.end) {
                clock.join_point(point);
            }
            if self.unjoined.insert(self.op_of(rank, access.inst)) {
                self.findings.push(MemoryFinding::Unjoined { rank, buffer, access });
            }
        }
    }
}
