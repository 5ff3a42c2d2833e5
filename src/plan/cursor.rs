//! Instruction ids, and the cursor that iterates over a plan's instructions.
//!
//! An [`InstId`] names an instruction; only [`Plan`] knows its position. A reader of a plan walks an
//! [`InstCursor`] and never indexes a list, so that plans can keep loops without a change to their readers.

use super::Plan;
use super::inst::Inst;
use crate::ir::Id;

crate::ir::dense_id! {
    /// An instruction of a plan. Ids grow in the order in which the host issues the instructions.
    InstId
}

/// Iterates over instructions of a plan in issue order, or backwards.
#[derive(Clone, Debug)]
pub struct InstCursor<'p> {
    first: usize,
    rest: &'p [Inst],
}

impl<'p> Iterator for InstCursor<'p> {
    type Item = (InstId, &'p Inst);
    fn next(&mut self) -> Option<Self::Item> {
        let (inst, rest) = self.rest.split_first()?;
        let id = InstId::new(self.first);
        self.first += 1;
        self.rest = rest;
        Some((id, inst))
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.rest.len(), Some(self.rest.len()))
    }
}

impl DoubleEndedIterator for InstCursor<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let (inst, rest) = self.rest.split_last()?;
        self.rest = rest;
        Some((InstId::new(self.first + rest.len()), inst))
    }
}

impl ExactSizeIterator for InstCursor<'_> {}

impl Plan {
    /// A cursor over all instructions, in issue order.
    pub fn cursor(&self) -> InstCursor<'_> {
        InstCursor { first: 0, rest: &self.insts }
    }
    /// A cursor over the instructions that are issued before this one.
    pub fn cursor_before(&self, id: InstId) -> InstCursor<'_> {
        InstCursor { first: 0, rest: self.insts.get(..id.index()).unwrap_or(&self.insts) }
    }
    /// A cursor over the instructions that are issued after this one.
    pub fn cursor_after(&self, id: InstId) -> InstCursor<'_> {
        let first = id.index() + 1;
        InstCursor { first, rest: self.insts.get(first..).unwrap_or_default() }
    }
    /// A cursor over the instructions that are issued between these two.
    pub fn cursor_between(&self, before: InstId, after: InstId) -> InstCursor<'_> {
        let first = before.index() + 1;
        InstCursor { first, rest: self.insts.get(first..after.index()).unwrap_or_default() }
    }
    /// The instructions without their ids, in issue order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Inst> + ExactSizeIterator {
        self.insts.iter()
    }
    /// The instruction of an id that a cursor of this plan gave.
    pub fn inst(&self, id: InstId) -> &Inst {
        &self.insts[id.index()]
    }
    /// The instruction of an id, if the plan has it.
    pub fn find_inst(&self, id: InstId) -> Option<&Inst> {
        self.insts.get(id.index())
    }
    /// Number of instructions.
    pub fn inst_count(&self) -> usize {
        self.insts.len()
    }
    /// Appends an instruction.
    pub fn push_inst(&mut self, inst: Inst) -> InstId {
        self.insts.push(inst);
        InstId::new(self.insts.len() - 1)
    }
    /// The same plan with other instructions.
    pub fn with_insts(self, insts: Vec<Inst>) -> Plan {
        Plan { insts, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::OpId;
    use crate::plan::{EventId, InstKind, InstOrigin, IterationId, USER_STREAM};

    fn record(event: u32) -> Inst {
        let origin = InstOrigin { op: OpId(0), iteration: IterationId(0) };
        Inst { kind: InstKind::Record { event: EventId(event) }, stream: USER_STREAM, origin }
    }

    #[test]
    fn cursors_agree_with_the_list() {
        let list: Vec<Inst> = (0..5).map(record).collect();
        let plan = Plan::default().with_insts(list.clone());
        for (at, (id, inst)) in plan.cursor().enumerate() {
            assert_eq!((id.index(), inst), (at, &list[at]));
            assert_eq!(plan.inst(id), inst);
            let ids = |cursor: InstCursor<'_>| -> Vec<usize> { cursor.map(|(id, _)| id.index()).collect() };
            assert_eq!(ids(plan.cursor_before(id)), (0..at).collect::<Vec<_>>());
            assert_eq!(ids(plan.cursor_after(id)), (at + 1..5).collect::<Vec<_>>());
            assert_eq!(ids(plan.cursor_between(InstId(0), id)), (1..at).collect::<Vec<_>>());
        }
        let back: Vec<usize> = plan.cursor_after(InstId(1)).rev().map(|(id, _)| id.index()).collect();
        assert_eq!(back, [4, 3, 2]);
        assert_eq!((plan.inst_count(), plan.find_inst(InstId(5))), (5, None));
    }
}
