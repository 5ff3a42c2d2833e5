//! The stored form of a plan's instructions: loops whose rounds differ by constant steps are stored once.
//!
//! A list is a sequence of segments. A segment is a body of instructions that is repeated for a number of rounds; of
//! every instruction, some fields (events, buffers, offsets, peers, iterations) grow by a constant from one round to
//! the next. A segment of one round is a plain list. What repeats without such an order is stored once too: bodies
//! consist of templates and numbers ([`PackedInsts`]). Readers see instructions one by one, through a cursor or by id.

use super::inst::Inst;
use super::inst_fields::{InstNumbers, InstSteps};
use super::inst_template::TemplateTable;
use super::packed_insts::PackedInsts;
use super::stored_inst::StoredInst;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::ops::Range;

/// A body and the number of its rounds.
#[derive(Clone, Debug)]
struct Segment {
    /// The place of its first instruction in the plan.
    first: usize,
    /// The instructions of the first round.
    body: PackedInsts,
    /// By instruction of the body, its steps; empty for a plain list.
    steps: Vec<InstSteps>,
    /// The number of rounds; 1 for a plain list.
    rounds: usize,
}

impl Segment {
    /// A plain list that starts at a place.
    fn plain(first: usize, body: PackedInsts) -> Self {
        Self { first, body, steps: Vec::new(), rounds: 1 }
    }
    /// The place after its last instruction.
    fn end(&self) -> usize {
        self.first + self.body.len() * self.rounds
    }
    /// The segment as a body that repeats.
    fn repeated_body<'p>(&'p self, templates: &'p TemplateTable) -> RepeatedBody<'p> {
        RepeatedBody { templates, insts: &self.body, steps: &self.steps, rounds: self.rounds }
    }
}

/// A body that repeats, for readers that take loops as a whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RepeatedBody<'p> {
    /// The templates of the plan.
    pub(super) templates: &'p TemplateTable,
    /// The instructions of the first round.
    pub(super) insts: &'p PackedInsts,
    /// By instruction, its steps; empty if there is one round only.
    pub(crate) steps: &'p [InstSteps],
    /// The number of rounds.
    pub(crate) rounds: usize,
}

impl<'p> RepeatedBody<'p> {
    /// The number of instructions of a round.
    pub(crate) fn len(self) -> usize {
        self.insts.len()
    }
    /// The instructions of the first round.
    pub(crate) fn first_round(self) -> impl Iterator<Item = StoredInst<'p>> {
        (0..self.len()).map(move |at| StoredInst::of_body(self, 0, at))
    }
    /// The places in a round of the instructions whose templates are wanted.
    pub(super) fn wanted_places(self, is_wanted: &[bool]) -> Vec<usize> {
        let insts = self.insts.packed_insts().iter().enumerate();
        insts.filter(|(_, inst)| is_wanted[inst.template as usize]).map(|(at, _)| at).collect()
    }
}

/// The instructions of a plan.
#[derive(Clone, Default, Debug)]
pub(super) struct InstList {
    templates: TemplateTable,
    /// In order, without gaps except for the round that an open run contains in part.
    segments: Vec<Segment>,
    len: usize,
}

impl InstList {
    /// The plain list of these instructions.
    pub(super) fn from_insts(insts: Vec<Inst>) -> Self {
        let mut list = Self::default();
        insts.into_iter().for_each(|inst| {
            list.push(inst);
        });
        list.drop_build_state();
        list
    }
    /// Number of instructions.
    pub(super) fn len(&self) -> usize {
        self.len
    }
    /// The templates of the instructions.
    pub(super) fn templates(&self) -> &TemplateTable {
        &self.templates
    }
    /// The instruction at a position, if there is one.
    pub(super) fn get(&self, place: usize) -> Option<Cow<'_, Inst>> {
        (place < self.len).then(|| self.get_near(place, &mut 0))
    }
    /// The instruction at a position below the length; `near` is the number of a segment that may contain it, and
    /// becomes that of the one that does.
    pub(super) fn get_near(&self, place: usize, near: &mut usize) -> Cow<'_, Inst> {
        self.stored_near(place, near).unfold_inst()
    }
    /// Like [`Self::get_near`], as it is stored.
    pub(super) fn stored_near(&self, place: usize, near: &mut usize) -> StoredInst<'_> {
        *near = self.segment_of(place, *near);
        let segment = &self.segments[*near];
        let offset = place - segment.first;
        let length = segment.body.len();
        let (round, at) = if segment.steps.is_empty() { (0, offset) } else { (offset / length, offset % length) };
        StoredInst::of_body(segment.repeated_body(&self.templates), round, at)
    }
    /// The segment of a number.
    pub(super) fn body_number(&self, number: usize) -> Option<RepeatedBody<'_>> {
        self.segments.get(number).map(|segment| segment.repeated_body(&self.templates))
    }
    /// The segments in order.
    pub(super) fn repeated_bodies(&self) -> impl Iterator<Item = RepeatedBody<'_>> {
        self.segments.iter().map(|segment| segment.repeated_body(&self.templates))
    }

    /// The number of the segment that contains a position; tries `near` first.
    fn segment_of(&self, place: usize, near: usize) -> usize {
        if self.segments.get(near).is_some_and(|segment| segment.first <= place && place < segment.end()) {
            return near;
        }
        self.segments.partition_point(|segment| segment.first <= place) - 1
    }

    /// Makes room for one more instruction; returns false if memory is short.
    pub(super) fn reserve_one(&mut self) -> bool {
        match self.segments.last_mut() {
            Some(last) => last.body.reserve_one(),
            None => self.segments.try_reserve(1).is_ok(),
        }
    }

    /// Appends an instruction; returns the bytes that it takes.
    pub(super) fn push(&mut self, inst: Inst) -> usize {
        let split = self.templates.split_inst(inst);
        self.len += 1;
        match self.segments.last_mut() {
            Some(last) if last.steps.is_empty() && last.end() + 1 == self.len => last.body.push(&split),
            _ => {
                let mut body = PackedInsts::default();
                body.push(&split);
                self.segments.push(Segment::plain(self.len - 1, body));
            }
        }
        split.byte_count()
    }

    /// No instructions follow: what only they would need is dropped.
    pub(super) fn drop_build_state(&mut self) {
        self.templates.drop_build_state();
        if let Some(last) = self.segments.last_mut() {
            last.body.shrink_to_fit();
        }
    }

    // ---- rounds of a loop ----

    /// Removes the instructions from a position on, at which no loop is stored.
    pub(super) fn take_tail(&mut self, start: usize) -> Vec<Inst> {
        let taken = (start..self.len).filter_map(|place| self.get(place)).map(Cow::into_owned).collect();
        while self.segments.last().is_some_and(|last| last.first >= start && last.first > 0) {
            self.segments.pop();
        }
        if let Some(last) = self.segments.last_mut() {
            last.body.truncate(start - last.first, &self.templates);
        }
        self.len = self.len.min(start);
        taken
    }

    /// Drops the plain instructions from a position on, without a change to the length.
    fn drop_tail(&mut self, start: usize) {
        if let Some(last) = self.segments.last_mut() {
            last.body.truncate(start.saturating_sub(last.first), &self.templates);
            if last.body.is_empty() {
                self.segments.pop();
            }
        }
    }

    /// Stores the plain instructions from a position on as three rounds of their first third, if they are equal.
    fn fold_rounds(&mut self, start: usize) -> bool {
        let templates = &self.templates;
        let plain = self.segments.last().filter(|last| last.steps.is_empty() && last.first <= start);
        let Some(Segment { first, body, .. }) = plain else { return false };
        let (from, length) = (start - first, (self.len - start) / 3);
        let is_same = |at: &usize| {
            let [one, two, three] = [0, length, 2 * length].map(|more| body.packed_insts()[at + more].template);
            one == two && two == three
        };
        if !(from..from + length).all(|at| is_same(&at)) {
            return false;
        }
        let rounds_of = |at: usize| [0, length, 2 * length].map(|more| body.numbers(at + more, templates));
        let steps: Option<Vec<InstSteps>> =
            (from..from + length).map(|at| InstSteps::of_rounds(rounds_of(at))).collect();
        let Some(steps) = steps else { return false };
        let body = body.copy_range(from..from + length, templates);
        self.drop_tail(start);
        self.segments.push(Segment { first: start, body, steps, rounds: 3 });
        true
    }

    /// Returns true if the plain instructions after a segment are those of a part of its body, in its next round.
    fn continues(&self, segment: usize, part: Range<usize>) -> bool {
        let Some([segment, plain]) = self.segments.get(segment..segment + 2) else { return false };
        let (body, next) = (&segment.body, &plain.body);
        plain.steps.is_empty()
            && plain.first == segment.end() + part.start
            && part.len() == next.len()
            && part.zip(0..).all(|(at, place)| {
                let (first, later) = (body.numbers(at, &self.templates), next.numbers(place, &self.templates));
                body.packed_insts()[at].template == next.packed_insts()[place].template
                    && segment.steps[at].lead_to(first, later, segment.rounds)
            })
    }
}

/// A loop that is being issued, and the number of its stored rounds.
#[derive(Debug)]
pub(crate) struct LoopRecorder {
    /// The positions at which the rounds since the last restart start, and the end of the last one.
    starts: Vec<usize>,
    /// The number of rounds to skip before the next attempt.
    idle: usize,
    /// The number of rounds to skip after a failed attempt.
    pause: usize,
    run: Option<OpenRun>,
}

/// A run of rounds that are stored once.
#[derive(Debug)]
struct OpenRun {
    /// The number of its segment.
    segment: usize,
    /// The ends of the loop's rounds in the segment's body.
    ends: Vec<usize>,
    /// The number of the loop's rounds that the next round of the segment contains so far.
    taken: usize,
}

/// The numbers of rounds after which a period is searched.
const ATTEMPTS: [usize; 5] = [16, 24, 48, 96, 192];

/// The maximum number of rounds that are skipped after a failed attempt.
const LONGEST_PAUSE: usize = 4096;

impl LoopRecorder {
    /// The recorder of a loop whose first round starts at this position.
    pub(super) fn new(list: &InstList) -> Self {
        Self { starts: vec![list.len()], idle: 0, pause: 64, run: None }
    }

    /// Takes the loop's last issued round; returns the bytes of instructions that need not be stored.
    pub(super) fn end_round(&mut self, list: &mut InstList) -> usize {
        if self.run.is_some() {
            if let Some(dropped) = self.extend_run(list) {
                return dropped;
            }
            self.close_run(list);
            self.starts = vec![list.len()];
            return 0;
        }
        if self.idle > 0 {
            self.idle -= 1;
            self.starts = vec![list.len()];
            return 0;
        }
        self.starts.push(list.len());
        let rounds = self.starts.len() - 1;
        if !ATTEMPTS.contains(&rounds) {
            return 0;
        }
        if self.open_run(list) {
            return list.segments.last().map_or(0, |segment| 2 * segment.body.byte_count());
        }
        if ATTEMPTS.last() == Some(&rounds) {
            (self.idle, self.pause) = (self.pause, (self.pause * 2).min(LONGEST_PAUSE));
            self.starts = vec![list.len()];
        }
        0
    }

    /// Searches a number of rounds after which the loop repeats itself.
    fn open_run(&mut self, list: &mut InstList) -> bool {
        let rounds = self.starts.len() - 1;
        let mut periods =
            (1..=rounds / 3).filter(|&period| has_equal_rounds(&self.starts[rounds - 3 * period..], period));
        let found = periods.find(|period| list.fold_rounds(self.starts[rounds - 3 * period]));
        let Some(period) = found else { return false };
        let start = self.starts[rounds - 3 * period];
        let ends = (1..=period).map(|at| self.starts[rounds - 3 * period + at] - start).collect();
        self.run = Some(OpenRun { segment: list.segments.len() - 1, ends, taken: 0 });
        true
    }

    /// Adds the last issued round to the open run, and returns its bytes; `None` if it differs.
    fn extend_run(&mut self, list: &mut InstList) -> Option<usize> {
        let run = self.run.as_mut()?;
        let segment = &list.segments[run.segment];
        let from = if run.taken == 0 { 0 } else { run.ends[run.taken - 1] };
        let (start, to) = (segment.end() + from, run.ends[run.taken]);
        let has_length = list.len - start == to - from;
        if !has_length || (from < to && !list.continues(run.segment, from..to)) {
            return None;
        }
        let bytes = list.segments.get(run.segment + 1).map_or(0, |plain| plain.body.byte_count());
        list.segments.truncate(run.segment + 1);
        run.taken += 1;
        if run.taken == run.ends.len() {
            run.taken = 0;
            list.segments[run.segment].rounds += 1;
        }
        Some(bytes)
    }

    /// Ends the open run: its rounds of an unfinished period become plain again.
    pub(super) fn close_run(&mut self, list: &mut InstList) {
        let Some(run) = self.run.take() else { return };
        if run.taken == 0 {
            return;
        }
        let segment = &list.segments[run.segment];
        let (first, count) = (segment.end(), run.ends[run.taken - 1]);
        let mut body = PackedInsts::default();
        for (at, steps) in segment.steps[..count].iter().enumerate() {
            let numbers = segment.body.numbers(at, &list.templates);
            let moved: SmallVec<[u32; 8]> = steps.moved_numbers(numbers, segment.rounds).collect();
            let numbers = InstNumbers { iteration: moved[0], others: &moved[1..] };
            body.push_numbers(segment.body.packed_insts()[at].template, numbers);
        }
        let next = run.segment + 1;
        match list.segments.get_mut(next) {
            Some(plain) if plain.steps.is_empty() => {
                body.append(&plain.body, &list.templates);
                (plain.first, plain.body) = (first, body);
            }
            _ => list.segments.insert(next, Segment::plain(first, body)),
        }
    }
}

/// Returns true if rounds that start at these positions have the same lengths as those one and two periods later, and
/// not all of them are empty.
fn has_equal_rounds(starts: &[usize], period: usize) -> bool {
    let length = |at: usize| starts[at + 1] - starts[at];
    (0..2 * period).all(|at| length(at) == length(at + period)) && starts[0] < starts[period]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Id, OpId};
    use crate::plan::{
        BufferId, EventId, InstId, InstKind, InstOrigin, IterationId, Plan, QueueAction, StreamSlot, USER_STREAM,
    };

    /// A loop of instructions that are functions of its round.
    struct LoopShape {
        rounds: usize,
        /// The period of the streams.
        streams: u32,
        /// The period of the buffers; the slope of the events.
        slots: u32,
        slope: u32,
        /// Rounds with one instruction more.
        odd: Vec<usize>,
        /// Rounds of an inner loop.
        inner: usize,
    }

    struct Recording {
        list: InstList,
        plain: Vec<Inst>,
        iteration: u32,
    }

    impl Recording {
        fn push(&mut self, kind: InstKind, stream: u32) {
            let origin = InstOrigin { op: OpId(0), iteration: IterationId(self.iteration) };
            let inst = Inst { kind, stream: StreamSlot(stream), origin };
            let _ = self.list.push(inst.clone());
            self.plain.push(inst);
        }

        fn record_loop(&mut self, shape: &LoopShape) {
            let mut recorder = LoopRecorder::new(&self.list);
            for round in 0..shape.rounds {
                self.iteration += 1;
                let number = round as u32;
                self.push(InstKind::Free { buffer: BufferId((number + 3) % shape.slots) }, number % shape.streams);
                self.push(InstKind::Record { event: EventId(7 + number * shape.slope) }, USER_STREAM.0);
                if shape.odd.contains(&round) {
                    self.push(InstKind::GroupBegin, 0);
                }
                if shape.inner > 0 {
                    let inner =
                        LoopShape { rounds: shape.inner, streams: 2, slots: 3, slope: 1, odd: vec![], inner: 0 };
                    self.record_loop(&inner);
                }
                recorder.end_round(&mut self.list);
            }
            recorder.close_run(&mut self.list);
        }
    }

    fn recorded(shapes: &[LoopShape]) -> Recording {
        let mut recording = Recording { list: InstList::default(), plain: Vec::new(), iteration: 0 };
        shapes.iter().for_each(|shape| recording.record_loop(shape));
        recording
    }

    fn stored(list: &InstList) -> usize {
        list.segments.iter().map(|segment| segment.body.len()).sum()
    }

    fn queue_action_of(inst: &Inst) -> QueueAction {
        match &inst.kind {
            InstKind::Record { event } => QueueAction::Record(*event),
            InstKind::GroupBegin => QueueAction::GroupBegin,
            _ => QueueAction::Local,
        }
    }

    #[test]
    fn lists_that_keep_loops_hold_what_was_pushed() {
        let mut rng = fastrand::Rng::with_seed(11);
        for _ in 0..300 {
            let shapes: Vec<LoopShape> = (0..rng.usize(1..4))
                .map(|_| LoopShape {
                    rounds: rng.usize(0..150),
                    streams: rng.u32(1..5),
                    slots: rng.u32(1..9),
                    slope: rng.u32(0..3),
                    odd: (0..rng.usize(0..3)).map(|_| rng.usize(0..150)).collect(),
                    inner: if rng.bool() { 0 } else { rng.usize(0..40) },
                })
                .collect();
            let Recording { list, plain, .. } = recorded(&shapes);
            assert_eq!(list.len(), plain.len());
            let mut near = 0;
            for (place, inst) in plain.iter().enumerate() {
                assert_eq!(list.get(place).as_deref(), Some(inst));
                assert_eq!(&*list.get_near(place, &mut near), inst);
            }
            assert_eq!(list.get(plain.len()), None);
            let plan = Plan { insts: list, ..Plan::default() };
            let mut cursor = plan.stored_cursor();
            for (place, inst) in plain.iter().enumerate() {
                let (id, stored) = cursor.next().expect("as many instructions");
                assert_eq!((id, &*stored.unfold_inst()), (InstId::new(place), inst));
                assert_eq!(stored.queue_action(), queue_action_of(inst));
            }
            assert!(cursor.next().is_none() && cursor.next().is_none());
            let mut visited = Vec::new();
            plan.visit_stored(
                |kind| matches!(kind, InstKind::Record { .. }),
                |id, stored| visited.push((id, stored.queue_action())),
            );
            let records = plain.iter().enumerate().filter(|(_, inst)| matches!(inst.kind, InstKind::Record { .. }));
            assert!(records.map(|(place, inst)| (InstId::new(place), queue_action_of(inst))).eq(visited));
        }
    }

    #[test]
    fn long_loops_are_stored_once() {
        let shape = |odd| LoopShape { rounds: 10_000, streams: 4, slots: 6, slope: 2, odd, inner: 0 };
        assert!(stored(&recorded(&[shape(vec![])]).list) <= 2 * 48);
        assert!(stored(&recorded(&[shape(vec![777, 5000])]).list) <= 3 * 2 * 60);
        let nested = LoopShape { rounds: 4, inner: 5_000, ..shape(vec![]) };
        assert!(stored(&recorded(&[nested]).list) <= 4 * 2 * 50);
    }
}
