//! Schedules: the list of commands that a rank's host issues for a plan, in order (`issue_order` may interleave those
//! of different streams). This module makes all decisions, so that a run only indexes the list and issues calls.
//!
//! Streams are numbered: the plan's own, then one for each communicator, then side streams for copies that others
//! need not wait for. A communication waits on its communicator's stream for the issuing stream, and records an event
//! for its `Wait`. Stream 0 encloses the whole run: it forks the other streams at the start and joins them at the
//! end, so that a run can be timed, captured as a graph, and followed by the caller's own work.

mod gathered_reductions;
mod gemms;
mod p2p_copies;
mod p2p_kernels;
mod stream_order;
pub mod user_launches;
pub mod wait_events;

use crate::codegen;
use crate::codegen::job::KernelJob;
use crate::element_range;
use crate::fuse;
use crate::fused_inst::FusedInst;
use crate::gemm_lowering::fp8::Fp8Support;
use crate::gemm_shape::{GemmNumerics, GemmShape};
use crate::nccl_lowering;
use crate::operand::SymbolicAddress;
use crate::p2p::{CopyOrder, MessagePlan};
use crate::team;
use crate::team::CommTeam;
use crate::transport::{BackendTransports, CommTransport};
use crate::unsupported::Unsupported;
use hostir::ir::MessageDirection;
use hostir::plan::InstId;
use hostir::plan::PerOperand;
use hostir::plan::{BufferView, CommSlot, Inst, InstKind, MessageHeader, Plan, WorkSlot};
use std::collections::BTreeMap;
use stream_order::StreamOrder;
use user_launches::{ScheduledKernel, UserLaunch};

/// A command.
#[derive(Clone, PartialEq, Debug)]
pub enum StreamCommand {
    /// Launches a kernel.
    Launch {
        /// Number of the kernel among [`RankSchedule::texts`].
        text: usize,
        /// Blocks along x, y and z.
        grid: [u32; 3],
        /// Threads of a block along x, y and z.
        block: [u32; 3],
        /// Operands in the order of the kernel's parameters.
        places: Vec<SymbolicAddress>,
    },
    /// Copies contiguous bytes within the device.
    Copy {
        /// Source and destination.
        views: Box<[BufferView; 2]>,
        /// Number of bytes.
        bytes: usize,
    },
    /// Runs a GEMM of cuBLASLt.
    Gemm {
        /// Number of the shape among [`RankSchedule::shapes`].
        shape: usize,
        /// The operands of the call.
        operands: Box<PerOperand<Option<SymbolicAddress>>>,
    },
    /// Runs GEMMs that store in the memory of several ranks: in one launch, or one after the other.
    StoreGemms(Box<StoreGemms>),
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
        calls: Vec<nccl_lowering::NcclCall>,
    },
    /// Signals semaphores and waits for semaphores, in order.
    Signal {
        /// The operations.
        signals: Vec<SemaphoreOp>,
    },
    /// Copies the range of a message to or from another rank.
    Transfer {
        /// Number of the message in [`MessagePlan::list`].
        message: usize,
    },
    /// Runs a put/get kernel for small messages.
    P2pBatch(Box<P2pBatch>),
    /// Launches a kernel of the user.
    UserLaunch(Box<UserLaunch>),
}

/// GEMMs of one shape with the same right factor.
#[derive(Clone, PartialEq, Debug)]
pub struct StoreGemms {
    /// Number of the shape among [`RankSchedule::shapes`].
    pub shape: usize,
    /// The right factor of the row-major GEMMs, cuBLASLt's left one.
    pub right: SymbolicAddress,
    /// Of each part the left factor and the result.
    pub parts: Vec<[SymbolicAddress; 2]>,
}

impl StoreGemms {
    /// The places of all matrices.
    pub fn addresses(&self) -> impl Iterator<Item = &SymbolicAddress> {
        self.parts.iter().flatten().chain([&self.right])
    }
}

/// Signals semaphores, then copies, then waits for semaphores: the kernel of [`codegen::p2p_kernel_source`] does that
/// in one launch, a stream in several operations.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct P2pBatch {
    /// Number of the kernel among [`RankSchedule::texts`].
    pub text: usize,
    /// Blocks of each copy.
    pub blocks: u32,
    /// Semaphores of other ranks to signal first: rank and number.
    pub signals: Vec<(u32, usize)>,
    /// The copies, in any order.
    pub copies: Vec<P2pCopy>,
    /// Own semaphores to wait for, and reset, at the end.
    pub waits: Vec<usize>,
    /// The order among the copies when copy engines execute them.
    pub pace: CopyOrder,
}

/// A copy of a put/get kernel.
#[derive(Clone, PartialEq, Debug)]
pub enum P2pCopy {
    /// The copy of a message of [`MessagePlan::list`], without its semaphores.
    Message(usize),
    /// A copy within the rank's memory.
    Local(Box<[element_range::ViewRange; 2]>),
}

/// An operation on a semaphore of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SemaphoreOp {
    /// Sets a semaphore.
    Signal {
        /// The rank that owns the semaphore.
        rank: u32,
        /// Number of the semaphore among that rank's.
        flag: usize,
    },
    /// Waits until an own semaphore is set.
    Wait {
        /// Number of the semaphore.
        flag: usize,
    },
    /// Resets an own semaphore.
    Reset {
        /// Number of the semaphore.
        flag: usize,
    },
}

/// A command with its stream and the instruction that it belongs to.
#[derive(Clone, PartialEq, Debug)]
pub struct ScheduleStep {
    /// The call.
    pub call: StreamCommand,
    /// Number of its stream.
    pub stream: usize,
    /// The instruction that it carries out.
    pub inst: InstId,
}

/// All commands of one rank.
#[derive(Clone, Default, Debug)]
pub struct RankSchedule {
    /// The items that run in place of the plan's instructions.
    pub items: Vec<FusedInst>,
    /// The commands, in issue order.
    pub steps: Vec<ScheduleStep>,
    /// The sources of distinct kernels.
    pub texts: Vec<String>,
    /// The distinct kernels of the user.
    pub user_kernels: Vec<ScheduledKernel>,
    /// The shapes of distinct GEMMs.
    pub shapes: Vec<GemmShape>,
    /// Number of events.
    pub events: usize,
    /// Number of streams, those of communicators included.
    pub streams: usize,
    /// Scratch bytes of each stream.
    pub scratch: Vec<usize>,
    /// The communicators of the table that this rank is a member of, with its position in the team.
    pub members: Vec<(usize, usize)>,
    /// The number of blocks of its put/get kernels that may wait on the device at the same time.
    pub blocks: usize,
}

/// An operation that cannot run, and the instruction that needs it.
pub struct UnsupportedInst {
    /// The instruction.
    pub inst: InstId,
    /// The reason.
    pub what: Unsupported,
    /// An alternative way to run it, if there is one besides the CPU backend.
    pub instead: Option<&'static str>,
}

/// The inputs of a schedule besides the plan.
#[derive(Clone, Copy)]
pub struct ScheduleSettings {
    /// The losses of precision that GEMMs are permitted.
    pub numerics: GemmNumerics,
    /// The support of the devices for 8-bit floats.
    pub fp8: Fp8Support,
    /// Number of SMs of the device.
    pub sms: u32,
    /// The number of blocks that may wait for other ranks on the device at the same time; each occupies at most
    /// one SM.
    pub room: usize,
    /// The transport of each backend's communications.
    pub routes: BackendTransports,
    /// True if no two ranks share a device, so that a kernel may wait for a kernel of another rank. Otherwise the
    /// calls of all ranks can be arranged in one sequence.
    pub one_rank_per_device: bool,
    /// True if copy engines may only push. The driver may execute a graph's copy on the device that it reads from.
    /// If that is another device of the process with a graph of its own, the copy would block that graph's work, and
    /// two such graphs would block each other.
    pub push: bool,
    /// True if GEMMs of a complete exchange are joined, so that tuning may choose one launch for them.
    pub joins_stores: bool,
    /// True if kernel sources carry notes about what they compute.
    pub notes: bool,
}

impl ScheduleSettings {
    /// The settings for one H200 per rank, with communication over NCCL.
    pub const H200: Self = Self {
        numerics: GemmNumerics { tf32: false, fp8_fast_accumulation: false },
        fp8: Fp8Support::Vectors,
        sms: 132,
        room: 66,
        routes: BackendTransports { nccl: CommTransport::Nccl, ucc: None },
        one_rank_per_device: true,
        push: false,
        joins_stores: false,
        notes: false,
    };
}

/// The most blocks that wait for other ranks at the same time, which a program may have on a device.
pub fn most_waiting_blocks(sms: u32) -> usize {
    sms as usize / 2
}

/// Builds the schedule of a rank.
///
/// # Errors
/// [`UnsupportedInst`] with the first instruction that the GPU cannot run.
pub fn build_schedule(
    plan: &Plan,
    teams: &[CommTeam],
    messages: &MessagePlan,
    settings: ScheduleSettings,
) -> Result<RankSchedule, UnsupportedInst> {
    let mut builder = Builder::new(plan, teams, messages, settings);
    builder.record_event(0);
    let mut items = fuse::join_sends(plan, fuse::fuse_kernels(plan), |gemm, send| builder.stores_fp8_gemm(gemm, send));
    if settings.joins_stores {
        let exchange = |send| messages.exchange_of_send(plan.rank, send);
        items = fuse::join_stores(plan, items, exchange, |parts| builder.joined_stores(parts).is_some());
    }
    for item in &items {
        builder.at = item.plan_position();
        builder.schedule_item(item).map_err(|what| UnsupportedInst { inst: builder.at, what, instead: None })?;
    }
    builder.join_streams();
    builder.wait_for_pending();
    builder.lower_batches()?;
    builder.remove_unawaited_start();
    Ok(RankSchedule { items, ..builder.schedule })
}

/// The event of the run's start.
pub const START: usize = 0;

/// A send or receive in a group.
struct GroupedCall {
    call: nccl_lowering::NcclCall,
    inst: InstId,
    work: WorkSlot,
}

struct Builder<'p> {
    plan: &'p Plan,
    teams: &'p [CommTeam],
    messages: &'p MessagePlan,
    settings: ScheduleSettings,
    schedule: RankSchedule,
    at: InstId,
    /// The events so far, and the order that they give the streams.
    order: StreamOrder,
    /// True if all instructions are on one stream.
    one_stream: bool,
    issued: IssuedWork,
    side_streams: SideStreams,
    /// Sends and receives of the open group.
    group: Option<Vec<GroupedCall>>,
    /// The number of collectives of each communicator so far.
    collectives: BTreeMap<usize, usize>,
    text_ids: BTreeMap<String, usize>,
}

/// The events and completion handles of the plan that have been issued.
#[derive(Default)]
struct IssuedWork {
    /// By event of the plan: the event of the schedule.
    events: BTreeMap<u32, usize>,
    /// By completion handle: the event at its end.
    works: BTreeMap<u32, usize>,
    /// By queue: the event at the end of its last communication.
    queue_ends: BTreeMap<usize, usize>,
    /// Completion handles whose messages other ranks copy; a wait for the handle waits for these ranks.
    open_ready_signals: BTreeMap<u32, Vec<usize>>,
}

/// The streams that the schedule adds to those of the plan and of the communicators.
#[derive(Default)]
struct SideStreams {
    /// That of copies that others need not wait for.
    copies: Option<usize>,
    /// By stream and number: the streams of a group's messages after the first one.
    messages: BTreeMap<(usize, usize), usize>,
}

impl<'p> Builder<'p> {
    fn new(plan: &'p Plan, teams: &'p [CommTeam], messages: &'p MessagePlan, settings: ScheduleSettings) -> Self {
        let slots = plan.communicators.iter();
        let members: Vec<(usize, usize)> = slots.filter_map(|(slot, _)| team_place(teams, plan, slot)).collect();
        let streams = plan.streams as usize + members.len();
        let scratch = vec![0; streams];
        let schedule = RankSchedule { streams, scratch, members, ..RankSchedule::default() };
        Self {
            plan,
            teams,
            messages,
            settings,
            schedule,
            at: InstId(0),
            order: StreamOrder::new(streams),
            one_stream: plan.iter().all(|inst| inst.stream.0 == 0),
            issued: IssuedWork::default(),
            side_streams: SideStreams::default(),
            group: None,
            collectives: BTreeMap::new(),
            text_ids: BTreeMap::new(),
        }
    }

    fn push(&mut self, call: StreamCommand, stream: usize) {
        self.fork_stream(stream);
        self.schedule.steps.push(ScheduleStep { call, stream, inst: self.at });
    }

    // ---- order ----

    /// Forks a stream lazily: communicator streams wait on the issuing stream, other streams on the start event.
    fn fork_stream(&mut self, stream: usize) {
        if !self.order.fork(stream) && stream < self.plan.streams as usize {
            self.wait_for_event(START, stream);
        }
    }

    fn join_streams(&mut self) {
        for stream in 1..self.schedule.streams {
            // Work on the side stream was waited for already.
            if self.order.is_forked(stream) && self.side_streams.copies != Some(stream) {
                let end = self.record_event(stream);
                self.wait_for_event(end, 0);
            }
        }
    }

    /// Leaves out the event of the run's start if no stream waits for it: it costs the host as much as a launch.
    fn remove_unawaited_start(&mut self) {
        let steps = &mut self.schedule.steps;
        let is_awaited = steps.iter().any(|step| matches!(step.call, StreamCommand::Wait { event: START }));
        if !is_awaited {
            steps.retain(|step| !matches!(step.call, StreamCommand::Record { event: START }));
        }
    }

    /// Returns an event after all earlier work of a stream.
    fn end_event(&mut self, stream: usize) -> usize {
        let last = self.schedule.steps.iter().rev().find(|step| step.stream == stream);
        match last.map(|step| &step.call) {
            Some(&StreamCommand::Record { event }) => event,
            _ => self.record_event(stream),
        }
    }

    /// Records an event on a stream.
    fn record_event(&mut self, stream: usize) -> usize {
        let event = self.order.add_event(stream);
        self.schedule.events = self.order.event_count();
        self.push(StreamCommand::Record { event }, stream);
        event
    }

    /// Makes a stream wait for an event, unless an earlier wait implies it.
    fn wait_for_event(&mut self, event: usize, stream: usize) {
        if self.order.follow_event(event, stream) {
            self.push(StreamCommand::Wait { event }, stream);
        }
    }

    // ---- instructions ----

    fn schedule_item(&mut self, item: &FusedInst) -> Result<(), Unsupported> {
        let inst = self.plan.inst(self.at);
        let stream = inst.stream.0 as usize;
        match item {
            FusedInst::Inst(_) => self.schedule_inst(&inst),
            FusedInst::Gemm { gemm, .. } => self.schedule_gemm(gemm, stream),
            FusedInst::DirectGemm { gemm, at, .. } => self.schedule_direct_gemm(gemm, *at, &inst),
            FusedInst::StoreGemms(parts) => self.schedule_joined_stores(parts, stream),
            FusedInst::Kernel { kernel, .. } => self.schedule_job(codegen::generate_pointwise(kernel)?, stream),
            FusedInst::Reduce { kernel, op, axes, output, .. } => {
                let sms = self.settings.sms;
                self.schedule_job(codegen::generate_fused_reduction(kernel, *op, axes, output, sms)?, stream)
            }
        }
    }

    fn schedule_inst(&mut self, inst: &Inst) -> Result<(), Unsupported> {
        let stream = inst.stream.0 as usize;
        match &inst.kind {
            InstKind::Alloc { .. } | InstKind::Free { .. } => Ok(()),
            InstKind::Copy { src, dst } => self.schedule_copy(src, dst, stream),
            InstKind::Fill { dst, value } => self.schedule_job(codegen::generate_fill(dst, *value)?, stream),
            InstKind::Kernel(kernel) => self.schedule_job(codegen::generate_pointwise(kernel)?, stream),
            InstKind::Reduce(fold) => {
                let sms = self.settings.sms;
                let job = codegen::generate_reduction(fold.op, &fold.axes, &fold.input, &fold.output, sms)?;
                self.schedule_job(job, stream)
            }
            InstKind::Take(take) => self.schedule_job(codegen::generate_take(take)?, stream),
            InstKind::Accumulate(put) => self.schedule_job(codegen::generate_accumulate(put)?, stream),
            InstKind::Rows(rows) => Err(Unsupported::Rows(rows.function.name)),
            InstKind::Attention(attention) => self.schedule_job(codegen::generate_attention(attention)?, stream),
            InstKind::Launch(launch) => {
                self.schedule_launch(launch, stream);
                Ok(())
            }
            InstKind::Gemm(gemm) => self.schedule_gemm(gemm, stream),
            InstKind::Collective(collective) => self.schedule_collective(collective, stream),
            InstKind::Message { header, view } => self.schedule_message(header, view, stream),
            InstKind::GroupBegin => {
                self.group = Some(Vec::new());
                Ok(())
            }
            InstKind::GroupEnd { comm, work } => self.end_group(*comm, *work, stream),
            InstKind::WaitWork { work } => {
                self.wait_for_work(*work, stream);
                Ok(())
            }
            InstKind::Record { event } => {
                let recorded = self.record_event(stream);
                self.issued.events.insert(event.0, recorded);
                Ok(())
            }
            InstKind::WaitEvent { event } => {
                if let Some(&recorded) = self.issued.events.get(&event.0) {
                    self.wait_for_event(recorded, stream);
                }
                Ok(())
            }
        }
    }

    fn schedule_copy(&mut self, src: &BufferView, dst: &BufferView, stream: usize) -> Result<(), Unsupported> {
        if src.is_empty() {
            return Ok(());
        }
        if src.is_contiguous() && dst.is_contiguous() {
            let bytes = src.len() * src.dtype.byte_size();
            self.push(StreamCommand::Copy { views: Box::new([src.clone(), dst.clone()]), bytes }, stream);
            return Ok(());
        }
        self.schedule_job(codegen::generate_copy(src, dst)?, stream)
    }

    /// Returns the number of a kernel source, and adds the source if it is new.
    fn intern_kernel(&mut self, text: String) -> usize {
        let next = self.schedule.texts.len();
        *self.text_ids.entry(text).or_insert_with_key(|text| {
            self.schedule.texts.push(text.clone());
            next
        })
    }

    fn schedule_job(&mut self, mut job: KernelJob, stream: usize) -> Result<(), Unsupported> {
        if self.settings.notes {
            job.annotate();
        }
        self.schedule.scratch[stream] = self.schedule.scratch[stream].max(job.scratch);
        for launch in job.launches {
            let text = self.intern_kernel(launch.text);
            let (grid, block, places) = (launch.grid, launch.block, launch.params);
            self.push(StreamCommand::Launch { text, grid, block, places }, stream);
        }
        Ok(())
    }

    // ---- communications ----

    /// Returns the transport of a communicator's communications.
    fn comm_transport(&self, slot: CommSlot) -> Result<CommTransport, Unsupported> {
        let backend = self.plan.communicators[slot].backend;
        self.settings.routes.for_backend(backend).ok_or(Unsupported::Backend(backend))
    }

    /// Returns the communicator's position in the table, this rank's position in its team, and its stream.
    fn communicator_entry(&self, slot: CommSlot) -> Result<(usize, usize, usize), Unsupported> {
        let own = self.plan.streams as usize;
        let entry = team::entry(self.teams, self.plan, slot).unwrap_or(0);
        let found = self.schedule.members.iter().position(|(other, _)| *other == entry);
        let Some(number) = found else {
            return Err(Unsupported::Malformed("an unknown communicator"));
        };
        Ok((entry, self.schedule.members[number].1, own + number))
    }

    fn schedule_collective(
        &mut self,
        collective: &hostir::plan::CollectiveInst,
        stream: usize,
    ) -> Result<(), Unsupported> {
        let (entry, place, queue) = self.communicator_entry(collective.comm)?;
        let works = [collective.work];
        if self.comm_transport(collective.comm)? == CommTransport::Copies {
            let rounds = self.messages.inst_rounds(self.plan.rank, self.at)?;
            return self.issue_on_queue(queue, stream, &works, |own, stream| own.schedule_rounds(rounds, stream));
        }
        let number = self.collectives.entry(entry).or_default();
        let roles = self.teams[entry].roles.get(*number).cloned().unwrap_or_default();
        *number += 1;
        if let Some(gathered) = nccl_lowering::gathered_reduction::gathered_reduction(collective, place, &roles) {
            return self.schedule_gathered(entry, gathered, [queue, stream], collective.work);
        }
        let calls = nccl_lowering::calls(collective, place, &roles)?;
        if let Some((view, value)) = nccl_lowering::neutral_contribution(collective, place, &roles) {
            self.schedule_job(codegen::generate_fill(view, value)?, stream)?;
        }
        self.issue_calls(entry, calls, queue, stream, &works)
    }

    /// Returns true if a communication can run on the stream that issues it: the next instruction waits for it, and
    /// no other stream has work that could overlap with it (a communicator's own stream has priority on the device).
    fn runs_on_issuing_stream(&self, works: &[WorkSlot]) -> bool {
        let mut next = self.plan.cursor_after(self.at).map(|(_, inst)| inst);
        let next = next.find(|inst| !inst.kind.is_lifetime());
        let waits = next.and_then(|inst| inst.kind.awaited_work()).is_some_and(|work| works.contains(&work));
        waits && self.one_stream
    }

    /// Issues a communication on its queue, after the stream's earlier work.
    fn issue_on_queue(
        &mut self,
        queue: usize,
        stream: usize,
        works: &[WorkSlot],
        body: impl FnOnce(&mut Self, usize) -> Result<(), Unsupported>,
    ) -> Result<(), Unsupported> {
        if self.runs_on_issuing_stream(works) {
            // Communications of a queue run one after the other, wherever they run.
            if let Some(&end) = self.issued.queue_ends.get(&queue) {
                self.wait_for_event(end, stream);
            }
            return body(self, stream);
        }
        let before = self.record_event(stream);
        self.wait_for_event(before, queue);
        body(self, queue)?;
        let end = self.record_event(queue);
        self.issued.queue_ends.insert(queue, end);
        self.issued.works.extend(works.iter().map(|work| (work.0, end)));
        Ok(())
    }

    fn issue_calls(
        &mut self,
        entry: usize,
        calls: Vec<nccl_lowering::NcclCall>,
        queue: usize,
        stream: usize,
        works: &[WorkSlot],
    ) -> Result<(), Unsupported> {
        self.issue_on_queue(queue, stream, works, |own, stream| {
            if !calls.is_empty() {
                own.push(StreamCommand::Communicate { entry, calls }, stream);
            }
            Ok(())
        })
    }

    fn schedule_message(
        &mut self,
        message: &MessageHeader,
        view: &BufferView,
        stream: usize,
    ) -> Result<(), Unsupported> {
        let work = message.work;
        let Some(slot) = message.comm else { return self.schedule_stream_message(work, stream) };
        let (entry, _, queue) = self.communicator_entry(slot)?;
        let copied = self.comm_transport(slot)? == CommTransport::Copies;
        let ranks = &self.teams[entry].ranks;
        let place = ranks.iter().position(|&rank| rank == message.peer).unwrap_or(0) as u32;
        let part = element_range::ViewRange::whole_view(view);
        let call = match message.direction {
            MessageDirection::Send => nccl_lowering::NcclCall::send(part, place),
            MessageDirection::Recv => nccl_lowering::NcclCall::receive(part, place),
        };
        if self.group.is_some() {
            let before = self.record_event(stream);
            self.wait_for_event(before, queue);
            let inst = self.at;
            if let Some(group) = &mut self.group {
                group.push(GroupedCall { call, inst, work });
            }
            return Ok(());
        }
        if copied {
            let rounds = self.messages.inst_rounds(self.plan.rank, self.at)?;
            return self.issue_on_queue(queue, stream, &[work], |own, stream| own.schedule_rounds(rounds, stream));
        }
        self.issue_calls(entry, vec![call], queue, stream, &[work])
    }

    fn end_group(&mut self, slot: CommSlot, work: WorkSlot, stream: usize) -> Result<(), Unsupported> {
        let (entry, _, queue) = self.communicator_entry(slot)?;
        let group = self.group.take().unwrap_or_default();
        let works: Vec<WorkSlot> = group.iter().map(|item| item.work).chain([work]).collect();
        if self.comm_transport(slot)? == CommTransport::Copies {
            let insts: Vec<InstId> = group.iter().map(|item| item.inst).collect();
            let round = self.group_round(&insts)?;
            return self.issue_on_queue(queue, stream, &works, |own, stream| own.schedule_rounds(&[round], stream));
        }
        let calls = group.into_iter().map(|item| item.call).collect();
        self.issue_calls(entry, calls, queue, stream, &works)
    }
}

/// The entry of a communicator's team, and the rank's position in the team.
fn team_place(teams: &[CommTeam], plan: &Plan, slot: CommSlot) -> Option<(usize, usize)> {
    let entry = team::entry(teams, plan, slot)?;
    let place = teams[entry].ranks.iter().position(|&rank| rank == plan.rank)?;
    Some((entry, place))
}
