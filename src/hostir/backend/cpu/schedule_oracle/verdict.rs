//! Verdicts, and the two accesses that explain a difference of records.

use super::records::{ScheduleRecords, UnwrittenRead};
use super::schedules::ChoiceRule;
use super::steps::{QueueStep, StepId, StepRole};
use super::{OracleModel, ReferenceSchedule};
use crate::ir::OpId;
use crate::plan::{BufferId, InstId};

/// The limits of the oracle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OracleLimits {
    /// The limit of steps of all orders together, with one order for each delayed step. Beyond it, only steps of first
    /// and last iterations are delayed.
    pub most_taken: usize,
    /// The number of orders that seeds choose.
    pub seeded: u64,
    /// The maximum number of elements that views may visit together.
    pub most_elements: u64,
    /// The most waits of steps for each other.
    pub most_waits: usize,
}

impl Default for OracleLimits {
    fn default() -> Self {
        Self { most_taken: 1 << 27, seeded: 10, most_elements: 1 << 28, most_waits: 1 << 25 }
    }
}

/// An access of a schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccessPlace {
    /// The rank whose instruction it is of.
    pub rank: u32,
    /// The run, from 0.
    pub run: u32,
    /// The instruction; `None` for the caller at the end of its stream.
    pub inst: Option<InstId>,
    /// True for a write.
    pub writes: bool,
}

/// The order that showed a race.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScheduleName {
    /// The order that delays this access.
    Delayed(AccessPlace),
    /// The order of a seed.
    Seeded(u64),
}

/// Two accesses of one element in no fixed order, at least one of which writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccessRace {
    /// The access that is earlier in the first order.
    pub first: AccessPlace,
    /// The other one.
    pub second: AccessPlace,
    /// The rank whose memory it is.
    pub rank: u32,
    /// The buffer.
    pub buffer: BufferId,
    /// The first element of the buffer that both access.
    pub element: usize,
    /// The schedule that has them in the opposite order.
    pub schedule: ScheduleName,
}

/// A misuse of memory that every order shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryMisuse {
    /// Elements are read that nothing wrote.
    Unwritten {
        /// The read; the caller's is one of an output.
        place: AccessPlace,
        /// The rank whose memory it is.
        rank: u32,
        /// The buffer.
        buffer: BufferId,
        /// The first such element.
        element: usize,
    },
    /// A buffer is used without memory: after its Free, or before its Alloc.
    AfterFree {
        /// The use.
        place: AccessPlace,
        /// The buffer, of the same rank.
        buffer: BufferId,
    },
    /// Two sides of a communication differ in type, count or operation.
    Disagreement {
        /// One side.
        first: AccessPlace,
        /// Another side.
        second: AccessPlace,
    },
}

/// A step that waits for ever.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeadlockedStep {
    /// The rank.
    pub rank: u32,
    /// The run, from 0.
    pub run: u32,
    /// The instruction.
    pub inst: InstId,
}

/// The verdict of the oracle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ScheduleVerdict {
    /// All orders leave the same records.
    Equal,
    /// Some orders differ.
    Race(Vec<AccessRace>),
    /// No step is ready, and work is left: the first step of each rank that waits forever.
    Deadlock(Vec<DeadlockedStep>),
    /// Memory is misused in every order.
    Misuse(Vec<MemoryMisuse>),
    /// The program is too large to be judged so.
    TooLarge,
}

/// The most races that are distinguished.
const MOST_RACES: usize = 16;

/// The access of a step.
pub(super) fn access_place(step: &QueueStep) -> AccessPlace {
    AccessPlace { rank: step.rank, run: step.run, inst: step.inst, writes: step.role == StepRole::Write }
}

/// Reads of uninitialised elements, one for each instruction of the first run.
pub(super) fn unwritten_reads(model: &OracleModel<'_>, reads: &[UnwrittenRead]) -> Vec<MemoryMisuse> {
    let mut found: Vec<MemoryMisuse> = Vec::new();
    let mut last = None;
    for read in reads {
        if last == Some(read.step) || found.len() == MOST_RACES {
            continue;
        }
        last = Some(read.step);
        let (class, object) = (model.table.classes[read.class as usize], model.table.object_of(read.class));
        found.push(MemoryMisuse::Unwritten {
            place: access_place(&model.graph.steps[read.step.0 as usize]),
            rank: object.rank,
            buffer: object.buffer,
            element: class.element as usize,
        });
    }
    found
}

/// A step's access to a class.
#[derive(Clone, Copy)]
struct ClassUser {
    step: StepId,
    writes: bool,
}

/// Two steps whose order is open.
#[derive(Clone, Copy)]
struct OpenPair {
    first: StepId,
    second: StepId,
    class: u32,
}

/// The op of an access.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct AccessOp {
    op: Option<OpId>,
    writes: bool,
}

/// Looks for the accesses behind differences.
pub(super) struct RaceSearch<'m, 'p> {
    model: &'m OracleModel<'p>,
    /// By class: who touches it.
    users: Vec<Vec<ClassUser>>,
    /// By step: its place in the first order.
    places: Vec<u32>,
    /// The races so far.
    pub(super) races: Vec<AccessRace>,
}

impl<'m, 'p> RaceSearch<'m, 'p> {
    /// A search that compares with this order.
    pub(super) fn new(model: &'m OracleModel<'p>, order: &[StepId]) -> Self {
        Self { model, users: Vec::new(), places: schedule_places(order), races: Vec::new() }
    }

    /// Adds the race that explains an order with different records. Returns false once there are enough.
    pub(super) fn add_difference(
        &mut self,
        rule: ChoiceRule,
        order: &[StepId],
        records: &ScheduleRecords,
        reference: &ReferenceSchedule,
    ) -> bool {
        if self.users.is_empty() {
            self.users = class_users(self.model);
        }
        let places = schedule_places(order);
        let (now, then) = (&records.found, &reference.records.found);
        let delayed = if let ChoiceRule::Delayed(step) = rule { Some(step) } else { None };
        let mut suspects = delayed
            .into_iter()
            .chain(order.iter().copied().filter(|step| now[step.0 as usize] != then[step.0 as usize]));
        let Some(pair) = suspects.find_map(|step| self.open_pair(step, &places)) else { return true };
        self.add_race(pair, rule);
        self.races.len() < MOST_RACES
    }

    /// The nearest step that conflicts with this one and comes in the opposite order.
    fn open_pair(&self, step: StepId, places: &[u32]) -> Option<OpenPair> {
        let own = self.places[step.0 as usize];
        let mut nearest: Option<(u32, OpenPair)> = None;
        for access in self.model.table.accesses_of(step) {
            for other in &self.users[access.class as usize] {
                let place = self.places[other.step.0 as usize];
                let before = place < own;
                let before_now = places[other.step.0 as usize] < places[step.0 as usize];
                if other.step == step || !(other.writes || access.writes) || before == before_now {
                    continue;
                }
                let distance = place.abs_diff(own);
                if nearest.as_ref().is_none_or(|(least, _)| distance < *least) {
                    let (first, second) = if before { (other.step, step) } else { (step, other.step) };
                    nearest = Some((distance, OpenPair { first, second, class: access.class }));
                }
            }
        }
        nearest.map(|(_, pair)| pair)
    }

    fn place_of_step(&self, step: StepId) -> AccessPlace {
        access_place(&self.model.graph.steps[step.0 as usize])
    }

    /// The ops of a race's accesses, in their order; `None` for the caller's.
    fn ops_of_race(&self, race: &AccessRace) -> [AccessOp; 2] {
        let mut ops = [&race.first, &race.second].map(|place| {
            let plan = &self.model.plans[place.rank as usize];
            AccessOp { op: place.inst.map(|inst| plan.inst(inst).origin.op), writes: place.writes }
        });
        ops.sort_unstable();
        ops
    }

    /// Keeps a race; only one for each pair of ops.
    fn add_race(&mut self, pair: OpenPair, rule: ChoiceRule) {
        let (first, second) = (self.place_of_step(pair.first), self.place_of_step(pair.second));
        let (class, object) = (self.model.table.classes[pair.class as usize], self.model.table.object_of(pair.class));
        let schedule = match rule {
            ChoiceRule::Delayed(step) => ScheduleName::Delayed(self.place_of_step(step)),
            ChoiceRule::Seeded(seed) => ScheduleName::Seeded(seed),
            ChoiceRule::InOrder => ScheduleName::Seeded(0),
        };
        let (rank, buffer, element) = (object.rank, object.buffer, class.element as usize);
        let race = AccessRace { first, second, rank, buffer, element, schedule };
        let ops = self.ops_of_race(&race);
        let known = self.races.iter().position(|known| self.ops_of_race(known) == ops);
        match known.map(|at| &mut self.races[at]) {
            // A race of the first run is easier to follow.
            Some(known) if known.first.run.max(known.second.run) > first.run.max(second.run) => *known = race,
            Some(_) => {}
            None => self.races.push(race),
        }
    }
}

/// By class: who touches it.
fn class_users(model: &OracleModel<'_>) -> Vec<Vec<ClassUser>> {
    let mut users = vec![Vec::new(); model.table.classes.len()];
    for step in (0..model.graph.steps.len() as u32).map(StepId) {
        for access in model.table.accesses_of(step) {
            users[access.class as usize].push(ClassUser { step, writes: access.writes });
        }
    }
    users
}

/// By step: its place in an order.
fn schedule_places(order: &[StepId]) -> Vec<u32> {
    let mut places = vec![0; order.len()];
    for (place, step) in (0..).zip(order) {
        places[step.0 as usize] = place;
    }
    places
}
