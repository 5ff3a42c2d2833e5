//! From a plan to the calls that a rank's host makes, in order ([`order`] may move those of different streams):
//! everything is decided here, so that the run only indexes and calls.
//!
//! Streams are numbered: the plan's own, then one for each communicator, then those for copies that others
//! need not wait for. A communication waits on its communicator's stream for the stream that posts it, and
//! records an event that `Wait` waits for. The whole run hangs on stream 0: it forks the others at the start
//! and joins them at the end, so that a run can be timed, captured as a graph, and followed by the caller's
//! own work.

mod gathered_reductions;
mod gemms;
mod p2p_copies;
mod p2p_kernels;
pub mod wait_marks;

use crate::codegen;
use crate::codegen::job::{Job, Param};
use crate::element_range;
use crate::fuse;
use crate::fuse::Fused;
use crate::gemm_shape::Shape;
use crate::memory_layout;
use crate::nccl_lowering;
use crate::operand::Place;
use crate::p2p::{Messages, Pace};
use crate::team;
use crate::team::Team;
use crate::transport::{Route, Routes};
use crate::unsupported::Unsupported;
use hostir::plan::InstId;
use hostir::plan::{CommSlot, Inst, InstKind, Plan, View, WorkSlot};
use std::collections::BTreeMap;

/// One call.
#[derive(Clone, PartialEq, Debug)]
pub enum Call {
    /// Launches a kernel.
    Launch {
        /// Number of the kernel among [`Schedule::texts`].
        text: usize,
        /// Blocks along x, y and z.
        grid: [u32; 3],
        /// Threads of a block along x, y and z.
        block: [u32; 3],
        /// Operands in the order of the kernel's parameters.
        places: Vec<Place>,
    },
    /// Copies contiguous bytes within the device.
    Copy {
        /// Source and destination.
        views: Box<[View; 2]>,
        /// Number of bytes.
        bytes: usize,
    },
    /// Runs a GEMM of cuBLASLt.
    Product {
        /// Number of the shape among [`Schedule::shapes`].
        shape: usize,
        /// The library's `a`, `b`, bias and `d`.
        operands: Box<[Option<Place>; 4]>,
    },
    /// Records an event.
    Record {
        /// Number of the event.
        event: usize,
    },
    /// Waits for an event.
    Wait {
        /// Number of the event.
        event: usize,
    },
    /// Issues NCCL calls that start together.
    Communicate {
        /// Number of the communicator in the table of teams.
        entry: usize,
        /// The calls.
        calls: Vec<nccl_lowering::Call>,
    },
    /// Sets semaphores and waits for semaphores, in order.
    Signal {
        /// The operations.
        signals: Vec<Signal>,
    },
    /// Copies the range of a message to or from another rank.
    Transfer {
        /// Number of the message in [`Messages::list`].
        message: usize,
    },
    /// Exchanges small messages in one kernel.
    Exchange(Box<Exchange>),
}

/// Raises flags, then copies, then waits for flags: what the kernel of [`codegen::exchange`] does in one
/// launch, and a stream in several operations.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Exchange {
    /// The kernel's number in [`Schedule::texts`].
    pub text: usize,
    /// Blocks of each copy.
    pub blocks: u32,
    /// Flags of others to raise first: rank and number.
    pub raises: Vec<(u32, usize)>,
    /// What is copied, in any order.
    pub moves: Vec<Move>,
    /// Own flags to wait for, and lower, at the end.
    pub awaits: Vec<usize>,
    /// How its messages follow each other where engines copy.
    pub pace: Pace,
}

/// A copy of an exchange.
#[derive(Clone, PartialEq, Debug)]
pub enum Move {
    /// What a message of [`Messages::list`] carries, between its flags.
    Message(usize),
    /// From one place of the rank's memory to another.
    Local(Box<[element_range::Part; 2]>),
}

/// One operation on a flag of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// Sets a semaphore.
    Raise {
        /// The rank that owns the semaphore.
        rank: u32,
        /// Number of the semaphore among that rank's.
        flag: usize,
    },
    /// Waits until an own semaphore is set.
    Await {
        /// Number of the semaphore.
        flag: usize,
    },
    /// Resets an own semaphore.
    Lower {
        /// Number of the semaphore.
        flag: usize,
    },
}

/// A call with its stream and the instruction it comes from.
#[derive(Clone, PartialEq, Debug)]
pub struct Step {
    /// The call.
    pub call: Call,
    /// Number of its stream.
    pub stream: usize,
    /// The plan's instruction that it carries out.
    pub inst: InstId,
}

/// All calls of one rank.
#[derive(Clone, Default, Debug)]
pub struct Schedule {
    /// What runs in the place of the plan's instructions.
    pub items: Vec<Fused>,
    /// The calls, in the order of issue.
    pub steps: Vec<Step>,
    /// Distinct kernels.
    pub texts: Vec<String>,
    /// Distinct products.
    pub shapes: Vec<Shape>,
    /// Number of events.
    pub events: usize,
    /// Number of streams, those of communicators included.
    pub streams: usize,
    /// Scratch bytes of each stream.
    pub scratch: Vec<usize>,
    /// Communicators of the table that this rank is a member of, with its place in the team.
    pub members: Vec<(usize, usize)>,
    /// Blocks of its exchanges that may wait on the device at the same time.
    pub blocks: usize,
}

/// What cannot run, and which instruction it is of.
pub struct Refusal {
    /// The instruction.
    pub inst: InstId,
    /// The reason.
    pub what: Unsupported,
    /// A way to run it after all, where that is not on the CPU alone.
    pub instead: Option<&'static str>,
}

/// What a schedule depends on besides the plan.
#[derive(Clone, Copy)]
pub struct Settings {
    /// Whether `float` products may use TF32.
    pub tf32: bool,
    /// Whether the devices multiply 8-bit floats.
    pub fp8: bool,
    /// Multiprocessors of the device.
    pub multiprocessors: u32,
    /// Room on the device for blocks that wait for other ranks at the same time; each takes at most a
    /// multiprocessor.
    pub room: usize,
    /// What carries communications.
    pub routes: Routes,
    /// Whether no two ranks share a device: a kernel may wait for another rank's. Otherwise all ranks' calls
    /// can be put into one [`order`].
    pub apart: bool,
    /// Whether copy engines only push. The driver may carry out a copy of a graph on the device that it
    /// reads from. In a graph of another device of the process that copy would keep the device from its
    /// own graph's work, and two such graphs each other.
    pub push: bool,
    /// True if kernel sources say what they compute.
    pub notes: bool,
}

impl Settings {
    /// Ranks with an H200 each, which exchange messages over NCCL.
    pub const H200: Self = Self {
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

/// The most blocks that wait for other ranks at the same time, which a program may have on a device.
pub fn most_waiting_blocks(multiprocessors: u32) -> usize {
    multiprocessors as usize / 2
}

/// The schedule of a rank.
pub fn schedule(
    plan: &Plan,
    teams: &[(String, Team)],
    messages: &Messages,
    settings: Settings,
) -> Result<Schedule, Refusal> {
    let mut builder = Builder::new(plan, teams, messages, settings);
    builder.record(0);
    let items = fuse::fuse(plan);
    for item in &items {
        builder.at = memory_layout::place(item);
        builder.item(item).map_err(|what| Refusal { inst: builder.at, what, instead: None })?;
    }
    builder.join();
    builder.settle();
    builder.exchanges()?;
    Ok(Schedule { items, ..builder.schedule })
}

/// The event of the run's start.
pub const START: usize = 0;

/// An event: the stream it marks, and how many marks that stream had before.
#[derive(Clone, Copy)]
struct Mark {
    stream: usize,
    number: usize,
}

/// A send or receive of a group.
struct Item {
    call: nccl_lowering::Call,
    inst: InstId,
    work: WorkSlot,
}

struct Builder<'p> {
    plan: &'p Plan,
    teams: &'p [(String, Team)],
    messages: &'p Messages,
    settings: Settings,
    schedule: Schedule,
    at: InstId,
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
            let entry = team::entry(teams, plan, slot)?;
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
            at: InstId(0),
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

    fn item(&mut self, item: &Fused) -> Result<(), Unsupported> {
        let inst = self.plan.inst(self.at);
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

    fn inst(&mut self, inst: &Inst) -> Result<(), Unsupported> {
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
                let part = element_range::Part::whole(view);
                self.message(*comm, *peer, stream, *work, |peer| nccl_lowering::Call::Send {
                    part,
                    peer,
                })
            }
            InstKind::Recv { comm, peer, view, work, .. } => {
                let part = element_range::Part::whole(view);
                self.message(*comm, *peer, stream, *work, |peer| nccl_lowering::Call::Recv {
                    part,
                    peer,
                })
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

    fn copy(&mut self, src: &View, dst: &View, stream: usize) -> Result<(), Unsupported> {
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

    fn job(&mut self, mut job: Job, stream: usize) -> Result<(), Unsupported> {
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
    fn route(&self, slot: CommSlot) -> Result<Route, Unsupported> {
        let backend = self.plan.communicators[slot].backend.as_str();
        self.settings.routes.of(backend).ok_or_else(|| Unsupported::Backend(backend.to_owned()))
    }

    /// The communicator's place in the table, this rank's place in its team, and its stream.
    fn communicator(&self, slot: CommSlot) -> Result<(usize, usize, usize), Unsupported> {
        let own = self.plan.streams as usize;
        let entry = team::entry(self.teams, self.plan, slot).unwrap_or(0);
        let found = self.schedule.members.iter().position(|(other, _)| *other == entry);
        let Some(number) = found else {
            return Err(Unsupported::Malformed("an unknown communicator"));
        };
        Ok((entry, self.schedule.members[number].1, own + number))
    }

    fn collective(
        &mut self,
        collective: &hostir::plan::Collective,
        stream: usize,
    ) -> Result<(), Unsupported> {
        let (entry, place, queue) = self.communicator(collective.comm)?;
        let works = [collective.work];
        if self.route(collective.comm)? == Route::Copies {
            let rounds = self.messages.rounds(self.plan.rank, self.at)?;
            return self.post(queue, stream, &works, |own, stream| own.rounds(rounds, stream));
        }
        let number = self.collectives.entry(entry).or_default();
        let roles = self.teams[entry].1.roles.get(*number).cloned().unwrap_or_default();
        *number += 1;
        if let Some(gathered) =
            nccl_lowering::gathered_reduction::gathered(collective, place, &roles)
        {
            return self.gathered(entry, gathered, [queue, stream], collective.work);
        }
        let calls = nccl_lowering::calls(collective, place, &roles)?;
        if let Some((view, value)) = nccl_lowering::neutral(collective, place, &roles) {
            self.job(codegen::fill(view, value)?, stream)?;
        }
        self.post_calls(entry, calls, queue, stream, &works)
    }

    /// Whether a communication can run on the stream that posts it: the next instruction waits for it,
    /// and there is no other stream whose work it should overlap with (a communicator's own stream goes
    /// first on the device).
    fn folds(&self, works: &[WorkSlot]) -> bool {
        let mut next = self.plan.cursor_after(self.at).map(|(_, inst)| inst);
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
        body: impl FnOnce(&mut Self, usize) -> Result<(), Unsupported>,
    ) -> Result<(), Unsupported> {
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
        calls: Vec<nccl_lowering::Call>,
        queue: usize,
        stream: usize,
        works: &[WorkSlot],
    ) -> Result<(), Unsupported> {
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
        call: impl FnOnce(u32) -> nccl_lowering::Call,
    ) -> Result<(), Unsupported> {
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

    fn end_group(
        &mut self,
        slot: CommSlot,
        work: WorkSlot,
        stream: usize,
    ) -> Result<(), Unsupported> {
        let (entry, _, queue) = self.communicator(slot)?;
        let group = self.group.take().unwrap_or_default();
        let works: Vec<WorkSlot> = group.iter().map(|item| item.work).chain([work]).collect();
        if self.route(slot)? == Route::Copies {
            let insts: Vec<InstId> = group.iter().map(|item| item.inst).collect();
            let round = self.together(&insts)?;
            return self.post(queue, stream, &works, |own, stream| own.rounds(&[round], stream));
        }
        let calls = group.into_iter().map(|item| item.call).collect();
        self.post_calls(entry, calls, queue, stream, &works)
    }
}
