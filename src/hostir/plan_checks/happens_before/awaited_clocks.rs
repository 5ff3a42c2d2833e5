//! The clocks at events and at the ends of communications, for as long as waits for them are to come.

use super::clock::VectorClock;
use crate::plan::{EventId, InstKind, Plan, QueueAction, WorkSlot};

/// Clocks by the number of their event or completion handle.
pub(super) struct AwaitedClocks {
    /// The numbers of waits that are to come.
    waits: Vec<u32>,
    known: Vec<Option<VectorClock>>,
}

impl AwaitedClocks {
    /// Those of a plan's events.
    pub(super) fn of_events(plan: &Plan) -> Self {
        Self::count_waits(plan, plan.events, |kind| matches!(kind, InstKind::WaitEvent { .. }))
    }

    /// Those of a plan's completion handles.
    pub(super) fn of_works(plan: &Plan) -> Self {
        Self::count_waits(plan, plan.works, |kind| matches!(kind, InstKind::WaitWork { .. }))
    }

    fn count_waits(plan: &Plan, count: u32, is_wait: impl Fn(&InstKind) -> bool) -> Self {
        let mut waits = vec![0; count as usize];
        plan.visit_stored(is_wait, |_, inst| {
            if let QueueAction::WaitEvent(EventId(number)) | QueueAction::WaitWork(WorkSlot(number)) =
                inst.queue_action()
            {
                waits[number as usize] += 1;
            }
        });
        Self { waits, known: vec![None; count as usize] }
    }

    /// Adds a clock if waits for it are to come; returns true if so.
    pub(super) fn add_clock(&mut self, number: u32, clock: &VectorClock) -> bool {
        let is_awaited = self.waits[number as usize] > 0;
        if is_awaited {
            self.known[number as usize] = Some(clock.clone());
        }
        is_awaited
    }

    /// Whether a clock is there.
    pub(super) fn has_clock(&self, number: u32) -> bool {
        self.known[number as usize].is_some()
    }

    /// The clock, for one more wait.
    pub(super) fn take_clock(&mut self, number: u32) -> Option<VectorClock> {
        let known = &mut self.known[number as usize];
        known.as_ref()?;
        let waits = &mut self.waits[number as usize];
        *waits -= 1;
        if *waits == 0 { known.take() } else { known.clone() }
    }
}
