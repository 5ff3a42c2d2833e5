//! The cost model's clock of one rank: when the host has issued each instruction, how long communications take, and
//! which share of the device they leave to others.

use crate::ir::CommBackend;
use crate::machine::HostLinks;
use crate::plan::cost::{CostModel, LocalDemand, MessageCarrier, TransferTime};
use crate::plan::network::{NetworkTime, TeamPlacement};
use crate::plan::{CommSlot, DeviceWork, Inst, InstId, InstKind, Plan};
use crate::plan_checks::queues::CommunicationUnit;
use rustc_hash::{FxHashMap, FxHashSet};

/// A time in which a communication takes a share of the device's arithmetic.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct TakenShare {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) share: f64,
}

/// The model's clock of one rank.
#[derive(Debug)]
pub(super) struct ModelClock {
    model: CostModel,
    /// The time, which the simulation sets.
    pub(super) ns: u64,
    work: DeviceWork,
    issued: IssueTimes,
    /// By communicator: its backend, and the number of its members.
    carriers: Vec<(CommBackend, usize)>,
    /// By stream: the GEMM that it computes.
    computing: FxHashSet<usize>,
    /// The time until which messages without a communicator need the rank's link.
    link_free: u64,
    network: RankNetwork,
    taken: Vec<TakenShare>,
}

impl ModelClock {
    pub(super) fn new(plan: &Plan, model: CostModel) -> Self {
        let work = DeviceWork::of_plan(plan);
        let issued = IssueTimes::of_plan(plan, &model, &work);
        let carriers = plan.communicators.iter().map(|(_, known)| (known.backend, known.team.len())).collect();
        let (computing, taken) = (FxHashSet::default(), Vec::new());
        let network = RankNetwork::new(plan, model.machine.hosts);
        Self { model, ns: 0, work, issued, carriers, computing, link_free: 0, network, taken }
    }

    /// The time at which the host has issued the instruction at a place of a stream.
    pub(super) fn issue_time(&self, stream: usize, place: usize) -> u64 {
        let times = self.issued.of_streams.get(stream).and_then(|times| times.get(place));
        times.copied().unwrap_or(0)
    }

    /// The time at which the host has issued a communicator's unit.
    pub(super) fn post_time(&self, unit: &CommunicationUnit) -> u64 {
        let posts = unit.insts.iter().chain([&unit.label]);
        posts.filter_map(|post| self.issued.of_posts.get(post)).copied().max().unwrap_or(0)
    }

    /// The demand of a local instruction that a stream begins; `None` if it takes no time.
    pub(super) fn begin_local(&mut self, stream: usize, id: InstId, kind: &InstKind) -> Option<LocalDemand> {
        if self.work.is_elided(id) {
            return None;
        }
        if matches!(kind, InstKind::Gemm(_)) {
            self.computing.insert(stream);
        }
        Some(if self.work.is_storing(id) { self.model.storing_demand(kind) } else { self.model.local_demand(kind) })
    }

    /// A stream has ended its instruction.
    pub(super) fn end_local(&mut self, stream: usize) {
        self.computing.remove(&stream);
    }

    /// The time of a communication of this rank.
    pub(super) fn transfer_time(&self, id: InstId, inst: &Inst) -> TransferTime {
        let backend = inst.kind.communicator().map(|comm| self.carriers[comm.0 as usize]);
        let carrier = match backend {
            None if self.work.is_stored(id) => MessageCarrier::Stores,
            None | Some((CommBackend::Cuda, _)) => MessageCarrier::CopyEngine,
            Some(_) if !self.computing.is_empty() => MessageCarrier::NcclBesideGemm,
            Some(_) => MessageCarrier::Nccl,
        };
        match &inst.kind {
            InstKind::Collective(collective) => {
                let members = backend.map_or(1, |(_, members)| members);
                self.model.collective_time(collective, members, carrier)
            }
            InstKind::Message { view, .. } => self.model.message_time(view, carrier),
            _ => TransferTime::default(),
        }
    }

    /// The end of the data of a communication that starts at `start`; the rank's links are free from `linked` on.
    pub(super) fn end_data(&mut self, start: u64, linked: u64, inst: &Inst, time: TransferTime) -> u64 {
        let ready = start + time.start_ns;
        match self.network.network_time(&inst.kind) {
            None => ready.max(linked) + time.link_ns,
            Some(network) => {
                let ready = (ready + network.start_ns).max(linked);
                self.network.carry_data(ready, time.link_ns.max(network.transfer_ns))
            }
        }
    }

    /// The end of a message without a communicator that starts at `start`: the rank's link carries one at a time.
    pub(super) fn end_message(&mut self, start: u64, inst: &Inst, time: TransferTime) -> u64 {
        let done = self.end_data(start, self.link_free, inst, time);
        self.link_free = done;
        done + time.signal_ns
    }

    /// A communication of a communicator has taken part of the device.
    pub(super) fn take_device(&mut self, comm: CommSlot, kind: &InstKind, start: u64, end: u64) {
        let nccl = &self.model.machine.nccl;
        // A send and a receive take half of what messages take.
        let share = match kind.collective() {
            Some(_) => nccl.collective_share.get(),
            None => nccl.message_share.get() / 2.0,
        };
        if self.carriers[comm.0 as usize].0 != CommBackend::Cuda && share > 0.0 {
            self.taken.push(TakenShare { start, end, share });
        }
    }

    /// The shares that were taken since the last call.
    pub(super) fn taken_shares(&mut self) -> Vec<TakenShare> {
        std::mem::take(&mut self.taken)
    }
}

/// A rank's share of the network between hosts.
#[derive(Debug)]
struct RankNetwork {
    rank: u32,
    /// The hosts of the machine, if there are several.
    hosts: Option<HostLinks>,
    /// By communicator: the hosts of its team.
    placements: Vec<TeamPlacement>,
    /// The time until which the last transfer needs the share.
    busy_ns: u64,
}

impl RankNetwork {
    fn new(plan: &Plan, hosts: Option<HostLinks>) -> Self {
        let teams = plan.communicators.iter().map(|(_, communicator)| &communicator.team);
        let placements =
            hosts.map_or_else(Vec::new, |hosts| teams.map(|team| TeamPlacement::of_team(team, &hosts)).collect());
        Self { rank: plan.rank, hosts, placements, busy_ns: 0 }
    }

    /// The time that a communication needs of the network; `None` within a host.
    fn network_time(&self, kind: &InstKind) -> Option<NetworkTime> {
        let hosts = self.hosts?;
        let comm = kind.communicator().and_then(|comm| self.placements.get(comm.0 as usize).copied());
        hosts.network_time(kind, self.rank, comm.unwrap_or_default())
    }

    /// Carries data that are ready at a time, after earlier ones; returns the end.
    fn carry_data(&mut self, ready_ns: u64, transfer_ns: u64) -> u64 {
        self.busy_ns = ready_ns.max(self.busy_ns) + transfer_ns;
        self.busy_ns
    }
}

/// The times at which a host has issued the instructions of a plan; none for a graph.
#[derive(Default, Debug)]
struct IssueTimes {
    /// By stream and place among its instructions.
    of_streams: Vec<Vec<u64>>,
    /// Of communicators' instructions.
    of_posts: FxHashMap<InstId, u64>,
}

impl IssueTimes {
    fn of_plan(plan: &Plan, model: &CostModel, work: &DeviceWork) -> Self {
        if !model.has_issue_times() {
            return Self::default();
        }
        let mut times = Self { of_streams: vec![Vec::new(); plan.streams as usize], ..Self::default() };
        let (mut now, mut is_grouped) = (0, false);
        for (id, inst) in plan.cursor() {
            let kind = &inst.kind;
            let takes_none = work.is_elided(id) || work.is_stored(id) || (is_grouped && kind.message().is_some());
            match kind {
                InstKind::GroupBegin => is_grouped = true,
                InstKind::GroupEnd { .. } => is_grouped = false,
                _ => {}
            }
            if kind.communicator().is_some() {
                times.of_posts.insert(id, now);
            } else if !matches!(kind, InstKind::GroupBegin) {
                times.of_streams[inst.stream.0 as usize].push(now);
            }
            now += if takes_none { 0 } else { model.issue_ns(kind) };
        }
        times
    }
}
