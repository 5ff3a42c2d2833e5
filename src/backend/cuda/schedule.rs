//! From a plan to the calls that a rank's host makes, in order ([`order`] may move those of different streams):
//! everything is decided here, so that the run only indexes and calls.
//!
//! Streams are numbered: the plan's own, then one for each communicator, then those for copies that others
//! need not wait for. A communication waits on its communicator's stream for the stream that posts it, and
//! records an event that `Wait` waits for. The whole run hangs on stream 0: it forks the others at the start
//! and joins them at the end, so that a run can be timed, captured as a graph, and followed by the caller's
//! own work.

mod copies;
mod exchange;
mod gathered;
pub(super) mod marks;
pub(super) mod order;
mod products;

use super::codegen::{self, Fused, Job, Param};
use super::comm::{self, Team};
use super::memory;
use super::messages::{Messages, Pace, Route, Routes};
use super::sys::blas::Shape;
use crate::plan::{CommSlot, Inst, InstKind, Plan, View, WorkSlot};
use std::collections::BTreeMap;

/// What an address is relative to.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Place {
    /// The first element of a view.
    View(View),
    /// Bytes into a stream's scratch memory.
    Scratch(usize),
}

impl Place {
    /// The view, if it is one.
    pub(super) fn view(&self) -> Option<&View> {
        match self {
            Place::View(view) => Some(view),
            Place::Scratch(_) => None,
        }
    }
}

/// One call.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Call {
    /// Launches kernel number `text` of [`Schedule::texts`].
    Launch { text: usize, grid: [u32; 3], block: [u32; 3], places: Vec<Place> },
    /// Copies bytes from the first view to the second.
    Copy { views: Box<[View; 2]>, bytes: usize },
    /// Runs product number `shape` of [`Schedule::shapes`]; the operands are those of the library.
    Product { shape: usize, operands: Box<[Option<Place>; 4]> },
    /// Marks a stream.
    Record { event: usize },
    /// Waits for a mark.
    Wait { event: usize },
    /// Calls that NCCL starts together, on a communicator of the table.
    Communicate { entry: usize, calls: Vec<comm::Call> },
    /// Sets flags and waits for flags, in order.
    Signal { signals: Vec<Signal> },
    /// Copies what message number `message` of [`Messages::list`] carries.
    Transfer { message: usize },
    /// Exchanges small messages in one kernel.
    Exchange(Box<Exchange>),
}

/// Raises flags, then copies, then waits for flags: what the kernel of [`codegen::exchange`] does in one
/// launch, and a stream in several operations.
#[derive(Clone, Default, PartialEq, Debug)]
pub(super) struct Exchange {
    /// The kernel's number in [`Schedule::texts`].
    pub(super) text: usize,
    /// Blocks of each copy.
    pub(super) blocks: u32,
    /// Flags of others to raise first: rank and number.
    pub(super) raises: Vec<(u32, usize)>,
    /// What is copied, in any order.
    pub(super) moves: Vec<Move>,
    /// Own flags to wait for, and lower, at the end.
    pub(super) awaits: Vec<usize>,
    /// How its messages follow each other where engines copy.
    pub(super) pace: Pace,
}

/// A copy of an exchange.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Move {
    /// What a message of [`Messages::list`] carries, between its flags.
    Message(usize),
    /// From one place of the rank's memory to another.
    Local(Box<[comm::Part; 2]>),
}

/// One operation on a flag of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Signal {
    /// Raises a flag of any rank.
    Raise { rank: u32, flag: usize },
    /// Waits until an own flag is raised.
    Await { flag: usize },
    /// Lowers an own flag.
    Lower { flag: usize },
}

/// A call with its stream and the instruction it comes from.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Step {
    pub(super) call: Call,
    pub(super) stream: usize,
    pub(super) inst: usize,
}

/// All calls of one rank.
#[derive(Clone, Default, Debug)]
pub(super) struct Schedule {
    /// What runs in the place of the plan's instructions.
    pub(super) items: Vec<Fused>,
    pub(super) steps: Vec<Step>,
    /// Distinct kernels.
    pub(super) texts: Vec<String>,
    /// Distinct products.
    pub(super) shapes: Vec<Shape>,
    /// Number of events.
    pub(super) events: usize,
    /// Number of streams, those of communicators included.
    pub(super) streams: usize,
    /// Scratch bytes of each stream.
    pub(super) scratch: Vec<usize>,
    /// Communicators of the table that this rank is a member of, with its place in the team.
    pub(super) members: Vec<(usize, usize)>,
    /// Blocks of its exchanges that may wait on the device at the same time.
    pub(super) blocks: usize,
}

/// What cannot run, and which instruction it is of.
pub(super) struct Refusal {
    pub(super) inst: usize,
    pub(super) what: String,
    /// A way to run it after all, where that is not on the CPU alone.
    pub(super) instead: Option<&'static str>,
}

/// What a schedule depends on besides the plan.
#[derive(Clone, Copy)]
pub(super) struct Settings {
    /// Whether `float` products may use TF32.
    pub(super) tf32: bool,
    /// Whether the devices multiply 8-bit floats.
    pub(super) fp8: bool,
    /// Multiprocessors of the device.
    pub(super) multiprocessors: u32,
    /// Room on the device for blocks that wait for other ranks at the same time; each takes at most a
    /// multiprocessor.
    pub(super) room: usize,
    /// What carries communications.
    pub(super) routes: Routes,
    /// Whether no two ranks share a device: a kernel may wait for another rank's. Otherwise all ranks' calls
    /// can be put into one [`order`].
    pub(super) apart: bool,
    /// Whether copy engines only push. The driver may carry out a copy of a graph on the device that it
    /// reads from. In a graph of another device of the process that copy would keep the device from its
    /// own graph's work, and two such graphs each other.
    pub(super) push: bool,
    /// Whether the texts of kernels say what they compute.
    pub(super) notes: bool,
}

#[cfg(test)]
impl Settings {
    /// Ranks with an H200 each, which exchange messages over NCCL.
    pub(super) const H200: Self = Self {
        tf32: false,
        fp8: true,
        multiprocessors: 132,
        room: 66,
        routes: Routes { nccl: Route::Nccl, ucc: None },
        apart: true,
        push: false,
        notes: false,
    };
}

/// The schedule of a rank.
pub(super) fn schedule(
    plan: &Plan,
    teams: &[(String, Team)],
    messages: &Messages,
    settings: Settings,
) -> Result<Schedule, Refusal> {
    let mut builder = Builder::new(plan, teams, messages, settings);
    builder.record(0);
    let items = codegen::fuse(plan);
    for item in &items {
        builder.at = memory::place(item);
        builder.item(item).map_err(|what| Refusal {
            inst: builder.at,
            what: clause(what),
            instead: None,
        })?;
    }
    builder.join();
    builder.settle();
    builder.exchanges()?;
    Ok(Schedule { items, ..builder.schedule })
}

/// What cannot run, for "the backend cannot run ...".
fn clause(what: String) -> String {
    match what.as_str() {
        "overlap" => "an op whose result lies across what it reads".to_owned(),
        _ => what,
    }
}

/// The event of the run's start.
pub(super) const START: usize = 0;

/// An event: the stream it marks, and how many marks that stream had before.
#[derive(Clone, Copy)]
struct Mark {
    stream: usize,
    number: usize,
}

/// A send or receive of a group.
struct Item {
    call: comm::Call,
    inst: usize,
    work: WorkSlot,
}

struct Builder<'p> {
    plan: &'p Plan,
    teams: &'p [(String, Team)],
    messages: &'p Messages,
    settings: Settings,
    schedule: Schedule,
    at: usize,
    marks: Vec<Mark>,
    marks_of: Vec<usize>,
    /// By stream and other stream: how many of its marks are known to be reached.
    reached: Vec<Vec<usize>>,
    /// Which streams were used.
    forked: Vec<bool>,
    /// Whether all instructions are of one stream.
    one_stream: bool,
    /// Events of the plan's events and works.
    events: BTreeMap<u32, usize>,
    works: BTreeMap<u32, usize>,
    /// Works whose messages others copy: who waits for them waits for the others.
    offered: BTreeMap<u32, Vec<usize>>,
    /// The stream of copies that others need not wait for.
    aside: Option<usize>,
    /// By stream and number: the streams of a group's messages behind its first one.
    lanes: BTreeMap<(usize, usize), usize>,
    /// Sends and receives of the open group.
    group: Option<Vec<Item>>,
    /// How many collectives each communicator has had.
    collectives: BTreeMap<usize, usize>,
    text_ids: BTreeMap<String, usize>,
}

impl<'p> Builder<'p> {
    fn new(
        plan: &'p Plan,
        teams: &'p [(String, Team)],
        messages: &'p Messages,
        settings: Settings,
    ) -> Self {
        let member = |(slot, _): (CommSlot, _)| {
            let entry = comm::entry(teams, plan, slot)?;
            let place = teams[entry].1.ranks.iter().position(|&rank| rank == plan.rank)?;
            Some((entry, place))
        };
        let members: Vec<(usize, usize)> = plan.communicators.iter().filter_map(member).collect();
        let streams = plan.streams as usize + members.len();
        let scratch = vec![0; streams];
        let schedule = Schedule { streams, scratch, members, ..Schedule::default() };
        Self {
            plan,
            teams,
            messages,
            settings,
            schedule,
            at: 0,
            marks: Vec::new(),
            marks_of: vec![0; streams],
            reached: vec![vec![0; streams]; streams],
            one_stream: plan.iter().all(|inst| inst.stream.0 == 0),
            forked: (0..streams).map(|stream| stream == 0).collect(),
            events: BTreeMap::new(),
            works: BTreeMap::new(),
            offered: BTreeMap::new(),
            aside: None,
            lanes: BTreeMap::new(),
            group: None,
            collectives: BTreeMap::new(),
            text_ids: BTreeMap::new(),
        }
    }

    fn push(&mut self, call: Call, stream: usize) {
        self.fork(stream);
        self.schedule.steps.push(Step { call, stream, inst: self.at });
    }

    // ---- order ----

    /// A stream starts with the run when it is used first: a communicator's by its wait for the stream
    /// that posts, another one by a wait for the start.
    fn fork(&mut self, stream: usize) {
        if !std::mem::replace(&mut self.forked[stream], true) && stream < self.plan.streams as usize
        {
            self.wait(START, stream);
        }
    }

    fn join(&mut self) {
        for stream in 1..self.schedule.streams {
            // What is aside was waited for already.
            if self.forked[stream] && self.aside != Some(stream) {
                let end = self.record(stream);
                self.wait(end, 0);
            }
        }
    }

    /// The mark behind all that a stream has to do.
    fn end(&mut self, stream: usize) -> usize {
        let last = self.schedule.steps.iter().rev().find(|step| step.stream == stream);
        match last.map(|step| &step.call) {
            Some(&Call::Record { event }) => event,
            _ => self.record(stream),
        }
    }

    /// Marks a stream.
    fn record(&mut self, stream: usize) -> usize {
        let event = self.marks.len();
        self.marks_of[stream] += 1;
        self.marks.push(Mark { stream, number: self.marks_of[stream] });
        self.schedule.events = self.marks.len();
        self.push(Call::Record { event }, stream);
        event
    }

    /// Makes a stream wait for a mark, unless an earlier wait says as much.
    fn wait(&mut self, event: usize, stream: usize) {
        let mark = self.marks[event];
        if mark.stream == stream || self.reached[stream][mark.stream] >= mark.number {
            return;
        }
        self.reached[stream][mark.stream] = mark.number;
        self.push(Call::Wait { event }, stream);
    }

    // ---- instructions ----

    fn item(&mut self, item: &Fused) -> Result<(), String> {
        let inst = &self.plan.insts[self.at];
        let stream = inst.stream.0 as usize;
        match item {
            Fused::Inst(_) => self.inst(inst),
            Fused::Gemm { gemm, .. } => self.gemm(gemm, stream),
            Fused::Kernel { kernel, .. } => self.job(codegen::pointwise(kernel)?, stream),
            Fused::Reduce { kernel, op, axes, output, .. } => {
                let sms = self.settings.multiprocessors;
                self.job(codegen::reduce_of(kernel, *op, axes, output, sms)?, stream)
            }
        }
    }

    fn inst(&mut self, inst: &Inst) -> Result<(), String> {
        let stream = inst.stream.0 as usize;
        match &inst.kind {
            InstKind::Alloc { .. } | InstKind::Free { .. } => Ok(()),
            InstKind::Copy { src, dst } => self.copy(src, dst, stream),
            InstKind::Fill { dst, value } => self.job(codegen::fill(dst, *value)?, stream),
            InstKind::Kernel(kernel) => self.job(codegen::pointwise(kernel)?, stream),
            InstKind::Reduce { op, axes, input, output } => {
                let sms = self.settings.multiprocessors;
                self.job(codegen::reduce(*op, axes, input, output, sms)?, stream)
            }
            InstKind::Take(take) => self.job(codegen::take(take)?, stream),
            InstKind::Accumulate(put) => self.job(codegen::accumulate(put)?, stream),
            InstKind::Gemm(gemm) => self.gemm(gemm, stream),
            InstKind::Collective(collective) => self.collective(collective, stream),
            InstKind::Send { comm, peer, view, work, .. } => {
                let part = comm::Part::whole(view);
                self.message(*comm, *peer, stream, *work, |peer| comm::Call::Send { part, peer })
            }
            InstKind::Recv { comm, peer, view, work, .. } => {
                let part = comm::Part::whole(view);
                self.message(*comm, *peer, stream, *work, |peer| comm::Call::Recv { part, peer })
            }
            InstKind::GroupBegin => {
                self.group = Some(Vec::new());
                Ok(())
            }
            InstKind::GroupEnd { comm, work } => self.end_group(*comm, *work, stream),
            InstKind::WaitWork { work } => {
                self.wait_work(*work, stream);
                Ok(())
            }
            InstKind::Record { event } => {
                let mark = self.record(stream);
                self.events.insert(event.0, mark);
                Ok(())
            }
            InstKind::WaitEvent { event } => {
                if let Some(&mark) = self.events.get(&event.0) {
                    self.wait(mark, stream);
                }
                Ok(())
            }
        }
    }

    fn copy(&mut self, src: &View, dst: &View, stream: usize) -> Result<(), String> {
        if src.is_empty() {
            return Ok(());
        }
        if src.is_contiguous() && dst.is_contiguous() {
            let bytes = src.len() * src.dtype.size();
            self.push(Call::Copy { views: Box::new([src.clone(), dst.clone()]), bytes }, stream);
            return Ok(());
        }
        self.job(codegen::copy(src, dst)?, stream)
    }

    /// The number of a kernel.
    fn text(&mut self, text: String) -> usize {
        let next = self.schedule.texts.len();
        *self.text_ids.entry(text).or_insert_with_key(|text| {
            self.schedule.texts.push(text.clone());
            next
        })
    }

    fn job(&mut self, mut job: Job, stream: usize) -> Result<(), String> {
        if self.settings.notes {
            job.annotate();
        }
        self.schedule.scratch[stream] = self.schedule.scratch[stream].max(job.scratch);
        for launch in job.launches {
            let text = self.text(launch.text);
            let places = launch.params.into_iter().map(|param| match param {
                Param::View(view) => Place::View(view),
                Param::Scratch(offset) => Place::Scratch(offset),
            });
            let places = places.collect();
            self.push(
                Call::Launch { text, grid: launch.grid, block: launch.block, places },
                stream,
            );
        }
        Ok(())
    }

    // ---- communications ----

    /// What carries a communicator's communications.
    fn route(&self, slot: CommSlot) -> Result<Route, String> {
        let backend = self.plan.communicators[slot].backend.as_str();
        self.settings.routes.of(backend).ok_or_else(|| match backend {
            "UCC" => "`backend=UCC`; `--map-backend=UCC=NCCL` runs it over NCCL".to_owned(),
            other => format!("`backend={other}`"),
        })
    }

    /// The communicator's place in the table, this rank's place in its team, and its stream.
    fn communicator(&self, slot: CommSlot) -> Result<(usize, usize, usize), String> {
        let own = self.plan.streams as usize;
        let entry = comm::entry(self.teams, self.plan, slot).unwrap_or(0);
        let found = self.schedule.members.iter().position(|(other, _)| *other == entry);
        let Some(number) = found else { return Err("an unknown communicator".to_owned()) };
        Ok((entry, self.schedule.members[number].1, own + number))
    }

    fn collective(
        &mut self,
        collective: &crate::plan::Collective,
        stream: usize,
    ) -> Result<(), String> {
        let (entry, place, queue) = self.communicator(collective.comm)?;
        let works = [collective.work];
        if self.route(collective.comm)? == Route::Copies {
            let rounds = self.messages.rounds(self.plan.rank, self.at)?;
            return self.post(queue, stream, &works, |own, stream| own.rounds(rounds, stream));
        }
        let number = self.collectives.entry(entry).or_default();
        let sides = self.teams[entry].1.sides.get(*number).cloned().unwrap_or_default();
        *number += 1;
        if let Some(gathered) = comm::gathered::gathered(collective, place, &sides) {
            return self.gathered(entry, gathered, [queue, stream], collective.work);
        }
        let calls = comm::calls(collective, place, &sides)?;
        if let Some((view, value)) = comm::neutral(collective, place, &sides) {
            self.job(codegen::fill(view, value)?, stream)?;
        }
        self.post_calls(entry, calls, queue, stream, &works)
    }

    /// Whether a communication can run on the stream that posts it: the next instruction waits for it,
    /// and there is no other stream whose work it should overlap with (a communicator's own stream goes
    /// first on the device).
    fn folds(&self, works: &[WorkSlot]) -> bool {
        let mut next = self.plan.insts[self.at + 1..].iter();
        let next =
            next.find(|inst| !matches!(inst.kind, InstKind::Alloc { .. } | InstKind::Free { .. }));
        let waits = next.is_some_and(|inst| match inst.kind {
            InstKind::WaitWork { work } => works.contains(&work),
            _ => false,
        });
        waits && self.one_stream
    }

    /// Puts a communication on its queue, behind what the stream has done so far.
    fn post(
        &mut self,
        queue: usize,
        stream: usize,
        works: &[WorkSlot],
        body: impl FnOnce(&mut Self, usize) -> Result<(), String>,
    ) -> Result<(), String> {
        if self.folds(works) {
            return body(self, stream);
        }
        let before = self.record(stream);
        self.wait(before, queue);
        body(self, queue)?;
        let end = self.record(queue);
        self.works.extend(works.iter().map(|work| (work.0, end)));
        Ok(())
    }

    fn post_calls(
        &mut self,
        entry: usize,
        calls: Vec<comm::Call>,
        queue: usize,
        stream: usize,
        works: &[WorkSlot],
    ) -> Result<(), String> {
        self.post(queue, stream, works, |own, stream| {
            if !calls.is_empty() {
                own.push(Call::Communicate { entry, calls }, stream);
            }
            Ok(())
        })
    }

    fn message(
        &mut self,
        comm: Option<CommSlot>,
        peer: u32,
        stream: usize,
        work: WorkSlot,
        call: impl FnOnce(u32) -> comm::Call,
    ) -> Result<(), String> {
        let Some(slot) = comm else { return self.stream_message(work, stream) };
        let (entry, _, queue) = self.communicator(slot)?;
        let copied = self.route(slot)? == Route::Copies;
        let ranks = &self.teams[entry].1.ranks;
        let place = ranks.iter().position(|&rank| rank == peer).unwrap_or(0) as u32;
        let call = call(place);
        if self.group.is_some() {
            let before = self.record(stream);
            self.wait(before, queue);
            let inst = self.at;
            if let Some(group) = &mut self.group {
                group.push(Item { call, inst, work });
            }
            return Ok(());
        }
        if copied {
            let rounds = self.messages.rounds(self.plan.rank, self.at)?;
            return self.post(queue, stream, &[work], |own, stream| own.rounds(rounds, stream));
        }
        self.post_calls(entry, vec![call], queue, stream, &[work])
    }

    fn end_group(&mut self, slot: CommSlot, work: WorkSlot, stream: usize) -> Result<(), String> {
        let (entry, _, queue) = self.communicator(slot)?;
        let group = self.group.take().unwrap_or_default();
        let works: Vec<WorkSlot> = group.iter().map(|item| item.work).chain([work]).collect();
        if self.route(slot)? == Route::Copies {
            let insts: Vec<usize> = group.iter().map(|item| item.inst).collect();
            let round = self.together(&insts)?;
            return self.post(queue, stream, &works, |own, stream| own.rounds(&[round], stream));
        }
        let calls = group.into_iter().map(|item| item.call).collect();
        self.post_calls(entry, calls, queue, stream, &works)
    }
}
