//! The cursors that iterate over a plan's instructions: as the host issues them, and as the plan stores them.
//!
//! An [`InstId`] names an instruction; only [`Plan`] knows its position. A reader of a plan walks an [`InstCursor`] and
//! never indexes a list: plans keep loops, and the cursor computes an iteration's instructions from the stored body.

use super::Plan;
use super::inst::{CollectiveInst, Inst, InstId, InstKind};
use super::inst_list::{InstList, RepeatedBody};
use super::stored_inst::StoredInst;
use super::view::BufferView;
use crate::ir::Id;
use std::borrow::Cow;
use std::ops::Range;

/// Iterates over instructions of a plan in issue order, or backwards.
#[derive(Clone, Debug)]
pub struct InstCursor<'p> {
    list: &'p InstList,
    places: Range<usize>,
    /// The segment of the last instruction.
    near: usize,
}

impl<'p> Iterator for InstCursor<'p> {
    type Item = (InstId, Cow<'p, Inst>);
    fn next(&mut self) -> Option<Self::Item> {
        let place = self.places.next()?;
        Some((InstId::new(place), self.list.get_near(place, &mut self.near)))
    }
    fn nth(&mut self, count: usize) -> Option<Self::Item> {
        let place = self.places.nth(count)?;
        Some((InstId::new(place), self.list.get_near(place, &mut self.near)))
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.places.size_hint()
    }
}

impl DoubleEndedIterator for InstCursor<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let place = self.places.next_back()?;
        Some((InstId::new(place), self.list.get_near(place, &mut self.near)))
    }
}

impl ExactSizeIterator for InstCursor<'_> {}

impl Plan {
    fn cursor_over(&self, places: Range<usize>) -> InstCursor<'_> {
        let end = places.end.min(self.insts.len());
        InstCursor { list: &self.insts, places: places.start.min(end)..end, near: 0 }
    }
    /// A cursor over all instructions, in issue order.
    pub fn cursor(&self) -> InstCursor<'_> {
        self.cursor_over(0..self.insts.len())
    }
    /// A cursor over the instructions that are issued before this one.
    pub fn cursor_before(&self, id: InstId) -> InstCursor<'_> {
        self.cursor_over(0..id.index())
    }
    /// A cursor over the instructions that are issued after this one.
    pub fn cursor_after(&self, id: InstId) -> InstCursor<'_> {
        self.cursor_over(id.index() + 1..self.insts.len())
    }
    /// A cursor over the instructions that are issued between these two.
    pub fn cursor_between(&self, before: InstId, after: InstId) -> InstCursor<'_> {
        self.cursor_over(before.index() + 1..after.index())
    }
    /// The instructions without their ids, in issue order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Cow<'_, Inst>> + ExactSizeIterator {
        self.cursor().map(|(_, inst)| inst)
    }
    /// The instruction of an id that a cursor of this plan returned.
    pub fn inst(&self, id: InstId) -> Cow<'_, Inst> {
        self.insts.get_near(id.index(), &mut 0)
    }
    /// The instruction of an id, if the plan has it.
    pub fn find_inst(&self, id: InstId) -> Option<Cow<'_, Inst>> {
        self.insts.get(id.index())
    }
    /// The collective of an instruction, if it is one.
    pub fn collective_of(&self, id: InstId) -> Option<Cow<'_, CollectiveInst>> {
        match self.inst(id) {
            Cow::Borrowed(Inst { kind: InstKind::Collective(collective), .. }) => Some(Cow::Borrowed(collective)),
            Cow::Owned(Inst { kind: InstKind::Collective(collective), .. }) => Some(Cow::Owned(*collective)),
            _ => None,
        }
    }
    /// The data of a send, or the destination of a receive.
    pub fn message_view(&self, id: InstId) -> Option<Cow<'_, BufferView>> {
        match self.inst(id) {
            Cow::Borrowed(Inst { kind: InstKind::Message { view, .. }, .. }) => Some(Cow::Borrowed(view)),
            Cow::Owned(Inst { kind: InstKind::Message { view, .. }, .. }) => Some(Cow::Owned(*view)),
            _ => None,
        }
    }
    /// Number of instructions.
    pub fn inst_count(&self) -> usize {
        self.insts.len()
    }
    /// The stored form: bodies and the numbers of their rounds, in issue order.
    pub(crate) fn repeated_bodies(&self) -> impl Iterator<Item = RepeatedBody<'_>> {
        self.insts.repeated_bodies()
    }
    /// Number of instructions that the plan stores: a loop's body counts once.
    pub fn stored_insts(&self) -> usize {
        self.insts.repeated_bodies().map(|segment| segment.len()).sum()
    }
    /// Appends an instruction.
    pub fn push_inst(&mut self, inst: Inst) -> InstId {
        let _ = self.insts.push(inst);
        InstId::new(self.insts.len() - 1)
    }
    /// The same plan with other instructions.
    pub fn with_insts(self, insts: Vec<Inst>) -> Plan {
        Plan { insts: InstList::from_insts(insts), ..self }
    }
}

/// Iterates over the instructions of a plan as it stores them, in issue order.
#[derive(Clone, Debug)]
pub(crate) struct StoredCursor<'p> {
    list: &'p InstList,
    /// The number of the current body.
    segment: usize,
    round: usize,
    /// The place of the next instruction in the body.
    at: usize,
    next: InstId,
}

impl<'p> StoredCursor<'p> {
    /// Whether no instruction is left.
    pub(crate) fn is_at_end(&self) -> bool {
        self.next.index() >= self.list.len()
    }
}

impl<'p> Iterator for StoredCursor<'p> {
    type Item = (InstId, StoredInst<'p>);
    fn next(&mut self) -> Option<Self::Item> {
        if self.is_at_end() {
            return None;
        }
        let mut body = self.list.body_number(self.segment)?;
        while self.at >= body.len() {
            (self.at, self.round) = (0, self.round + 1);
            if self.round >= body.rounds {
                (self.segment, self.round) = (self.segment + 1, 0);
                body = self.list.body_number(self.segment)?;
            }
        }
        let found = (self.next, StoredInst::of_body(body, self.round, self.at));
        self.at += 1;
        self.next = InstId(self.next.0 + 1);
        Some(found)
    }
}

impl Plan {
    /// A cursor over all instructions as they are stored, in issue order.
    pub(crate) fn stored_cursor(&self) -> StoredCursor<'_> {
        StoredCursor { list: &self.insts, segment: 0, round: 0, at: 0, next: InstId(0) }
    }

    /// The instruction of an id that a cursor of this plan gave, as it is stored.
    pub(crate) fn stored_inst(&self, id: InstId) -> StoredInst<'_> {
        self.insts.stored_near(id.index(), &mut 0)
    }

    /// Calls a function for the instructions of some types, in issue order. It asks for each template once, and looks at
    /// a loop's body once.
    pub(crate) fn visit_stored<'p>(
        &'p self,
        is_wanted: impl Fn(&InstKind) -> bool,
        mut visit: impl FnMut(InstId, StoredInst<'p>),
    ) {
        let is_wanted: Vec<bool> = self.insts.templates().template_insts().map(|inst| is_wanted(&inst.kind)).collect();
        let mut start = 0;
        for body in self.repeated_bodies() {
            let places = body.wanted_places(&is_wanted);
            for round in 0..if places.is_empty() { 0 } else { body.rounds } {
                let from = start + round * body.len();
                places.iter().for_each(|&at| visit(InstId::new(from + at), StoredInst::of_body(body, round, at)));
            }
            start += body.len() * body.rounds;
        }
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
            assert_eq!((id.index(), inst.as_ref()), (at, &list[at]));
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
