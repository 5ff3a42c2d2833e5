//! The cost model: the duration of instructions on a machine ([`crate::machine`]).
//!
//! The model shows what a program's order permits, without running it. Every rank is a device whose streams share its
//! arithmetic and its memory (`backend::shared_device`), and every team has its own links: queues of one team, which
//! have a communicator each (`comm=`), start beside each other, and their data travel one after the other. A message
//! starts when both sides are ready, a collective when all members are. docs/timeline.md has the rules.

use super::inst::{CollectiveInst, CollectiveKind, GemmInst, InstKind};
use super::view::BufferView;
use crate::machine::{HostLinks, Machine, Micros, Quantity};
use std::sync::Arc;

/// The floating-point operations of an instruction: two for each multiplication and addition of a GEMM, one for
/// each step and element of a kernel, one for each element that a reduction or a sum by index reads.
pub fn inst_flop(kind: &InstKind) -> u64 {
    match kind {
        InstKind::Gemm(gemm) => {
            let depth = gemm.a.dims.last().map_or(1, |dim| dim.extent);
            2 * gemm.out.len() as u64 * depth as u64
        }
        InstKind::Kernel(kernel) => kernel.steps.len() as u64 * kernel.output.len() as u64,
        InstKind::Reduce(fold) => fold.input.len() as u64,
        InstKind::Accumulate(put) => put.value.len() as u64,
        InstKind::Attention(attention) => attention.flop_count(),
        _ => 0,
    }
}

/// The way in which a host issues a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IssueMode {
    /// Call by call, which takes the host some time each.
    Calls,
    /// As one graph, which takes it none.
    Graph,
}

/// A machine on which programs are modelled.
#[derive(Clone, Debug)]
pub struct CostModel {
    /// Its rates.
    pub machine: Arc<Machine>,
    /// The way in which its hosts issue work.
    pub issue: IssueMode,
}

/// The demand of a local instruction on its device. Alone on a device, the instruction takes its launch, and then the
/// longer of the other two.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LocalDemand {
    /// Nanoseconds before it needs the device.
    pub launch_ns: u64,
    /// Nanoseconds of all of the device's arithmetic.
    pub arithmetic_ns: f64,
    /// Nanoseconds of all of the device's memory bandwidth.
    pub memory_ns: f64,
}

/// The time of a communication that nothing else disturbs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TransferTime {
    /// Nanoseconds until the first byte moves.
    pub start_ns: u64,
    /// Nanoseconds for which it needs the rank's link.
    pub link_ns: u64,
    /// Nanoseconds until the other side knows that it is done.
    pub signal_ns: u64,
}

/// The carrier of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageCarrier {
    /// NCCL, alone on the device.
    Nccl,
    /// NCCL beside a GEMM.
    NcclBesideGemm,
    /// A copy engine.
    CopyEngine,
    /// The GEMM that computes the data has stored them.
    Stores,
}

impl CostModel {
    /// The model of a machine that is issued as a graph: the host's time does not count.
    pub fn of_machine(machine: Machine) -> Self {
        Self { machine: Arc::new(machine), issue: IssueMode::Graph }
    }

    /// The model of the machine that is meant if nothing names another.
    pub fn of_default_machine() -> Self {
        Self::of_machine(Machine::default_machine())
    }

    /// The same machine with another way of issuing.
    #[must_use]
    pub fn with_issue(mut self, issue: IssueMode) -> Self {
        self.issue = issue;
        self
    }

    /// The same machine on other hosts.
    #[must_use]
    pub fn with_hosts(mut self, hosts: HostLinks) -> Self {
        Arc::make_mut(&mut self.machine).hosts = Some(hosts);
        self
    }

    /// The demand of a local instruction.
    pub fn local_demand(&self, kind: &InstKind) -> LocalDemand {
        let machine = &*self.machine;
        let launch_ns = to_ns(machine.device.launch_us);
        let is_reduction = matches!(kind, InstKind::Reduce(_));
        let memory = if is_reduction { machine.device.reduction_gb_s } else { machine.device.memory_gb_s };
        let memory_ns = kind.traffic_bytes() as f64 / memory.get();
        let arithmetic_ns = match kind {
            InstKind::Gemm(gemm) => {
                return self.gemm_demand(gemm, LocalDemand { launch_ns, arithmetic_ns: 0.0, memory_ns });
            }
            kind => {
                let is_narrow = kind.written_view().is_none_or(|view| view.dtype.byte_size() <= 2);
                let gemm = &machine.gemm;
                let rate = if is_narrow { gemm.bits16_tflops } else { gemm.bits32_tflops };
                inst_flop(kind) as f64 / (rate.get() * 1e3)
            }
        };
        LocalDemand { launch_ns, arithmetic_ns, memory_ns }
    }

    /// The demand of a GEMM in whole waves of tiles: in each wave every multiprocessor computes a tile.
    fn gemm_demand(&self, gemm: &GemmInst, other: LocalDemand) -> LocalDemand {
        let rates = &self.machine.gemm;
        let [.., rows, columns] = &gemm.out.dims[..] else { return other };
        let depth = gemm.a.dims.last().map_or(1, |dim| dim.extent);
        let batch: usize = gemm.out.dims[..gemm.out.dims.len() - 2].iter().map(|dim| dim.extent).product();
        let processors = self.machine.device.processors.get() as usize;
        let largest = [rates.tile_rows, rates.tile_columns].map(|extent| extent.get() as usize);
        let tile = fitting_tile([rows.extent, columns.extent], batch, largest, processors);
        let waves = (batch * count_tiles([rows.extent, columns.extent], tile)).div_ceil(processors);
        let flop = 2.0 * (waves * processors * tile[0] * tile[1]) as f64 * depth as f64;
        let rate = match gemm.a.dtype.byte_size().max(gemm.b.dtype.byte_size()) {
            0 | 1 => rates.bits8_tflops,
            2 => rates.bits16_tflops,
            3 | 4 => rates.bits32_tflops,
            _ => rates.bits64_tflops,
        };
        let launch_ns = other.launch_ns + to_ns(rates.start_us);
        LocalDemand { launch_ns, arithmetic_ns: flop / (rate.get() * 1e3), ..other }
    }

    /// The demand of a GEMM that stores its result in another rank's memory: the link carries it meanwhile.
    pub fn storing_demand(&self, kind: &InstKind) -> LocalDemand {
        let demand = self.local_demand(kind);
        let bytes = kind.written_view().map_or(0, view_bytes);
        let link_ns = bytes as f64 / self.machine.stores.store_gb_s.get();
        LocalDemand { memory_ns: demand.memory_ns.max(link_ns), ..demand }
    }

    /// The time of a message.
    pub fn message_time(&self, view: &BufferView, carrier: MessageCarrier) -> TransferTime {
        let machine = &*self.machine;
        let bytes = view_bytes(view);
        let signal_ns = to_ns(machine.semaphores.signal_us);
        match carrier {
            MessageCarrier::Nccl | MessageCarrier::NcclBesideGemm => {
                let nccl = &machine.nccl;
                let is_beside = carrier == MessageCarrier::NcclBesideGemm;
                let rate = if is_beside { nccl.message_beside_gb_s } else { nccl.message_gb_s };
                TransferTime { start_ns: to_ns(nccl.message_us), link_ns: bytes_ns(bytes, rate), signal_ns: 0 }
            }
            MessageCarrier::CopyEngine => {
                let copies = &machine.copies;
                let (start_ns, link_ns) = (to_ns(copies.start_us), bytes_ns(bytes, copies.copy_gb_s));
                TransferTime { start_ns, link_ns, signal_ns }
            }
            MessageCarrier::Stores => {
                // The tiles of the last wave are stored when the GEMM has computed everything.
                let gemm = &machine.gemm;
                let tile = gemm.tile_rows.get() as usize * gemm.tile_columns.get() as usize;
                let wave = machine.device.processors.get() as usize * tile * view.dtype.byte_size();
                let link_ns = bytes_ns(bytes.min(wave), machine.stores.store_gb_s);
                TransferTime { start_ns: 0, link_ns, signal_ns }
            }
        }
    }

    /// The time of a collective of so many members, by one member's side.
    pub fn collective_time(
        &self,
        collective: &CollectiveInst,
        members: usize,
        carrier: MessageCarrier,
    ) -> TransferTime {
        let bytes = wire_bytes(collective, members);
        if carrier == MessageCarrier::CopyEngine {
            let copies = &self.machine.copies;
            let signal_ns = to_ns(self.machine.semaphores.signal_us);
            let link_ns = bytes_ns(bytes, copies.copy_gb_s);
            return TransferTime { start_ns: to_ns(copies.start_us), link_ns, signal_ns };
        }
        let nccl = &self.machine.nccl;
        let rate = match collective.kind {
            CollectiveKind::Allreduce => nccl.allreduce_gb_s,
            CollectiveKind::Reduce | CollectiveKind::ReduceScatter => nccl.reduce_scatter_gb_s,
            CollectiveKind::SendRecv => nccl.message_gb_s,
            CollectiveKind::Gather
            | CollectiveKind::Allgather
            | CollectiveKind::Scatter
            | CollectiveKind::Broadcast
            | CollectiveKind::AllToAll => nccl.allgather_gb_s,
        };
        TransferTime { start_ns: to_ns(nccl.collective_us), link_ns: bytes_ns(bytes, rate), signal_ns: 0 }
    }

    /// Returns true if the host's time for issuing counts.
    pub fn has_issue_times(&self) -> bool {
        self.issue == IssueMode::Calls
    }

    /// The host's time for issuing an instruction, in nanoseconds. The calls of a group are issued at its end.
    pub fn issue_ns(&self, kind: &InstKind) -> u64 {
        let host = &self.machine.host;
        match (self.issue, kind) {
            (IssueMode::Graph, _) | (_, InstKind::GroupBegin) => 0,
            (_, kind) if kind.is_lifetime() => 0,
            (_, InstKind::Record { .. }) => to_ns(host.event_us),
            (_, kind) if kind.is_wait() => to_ns(host.event_us),
            (_, kind) if kind.communicator().is_some() => to_ns(host.communication_us),
            _ => to_ns(host.call_us),
        }
    }
}

/// The smallest rows and columns of a tile: one `wgmma` multiplies 64 rows.
const SMALLEST_TILE: usize = 64;

/// The number of tiles of a matrix.
fn count_tiles(extents: [usize; 2], tile: [usize; 2]) -> usize {
    extents[0].div_ceil(tile[0]) * extents[1].div_ceil(tile[1])
}

/// The tile of a product: halved along its longer side as long as there are fewer tiles than multiprocessors.
fn fitting_tile(extents: [usize; 2], batch: usize, largest: [usize; 2], processors: usize) -> [usize; 2] {
    let mut tile = largest;
    while batch * count_tiles(extents, tile) < processors && tile[0].max(tile[1]) >= 2 * SMALLEST_TILE {
        let longer = usize::from(tile[1] >= tile[0]);
        tile[longer] /= 2;
    }
    tile
}

/// The bytes of a collective that cross a member's link in the direction with more of them.
fn wire_bytes(collective: &CollectiveInst, members: usize) -> usize {
    let [input, output] = [&collective.input, &collective.output].map(|view| view.as_ref().map_or(0, view_bytes));
    let whole = input.max(output);
    let shares = |bytes: usize| bytes / members.max(1) * members.saturating_sub(1);
    match collective.kind {
        _ if members < 2 => 0,
        CollectiveKind::Allgather
        | CollectiveKind::Gather
        | CollectiveKind::Scatter
        | CollectiveKind::ReduceScatter
        | CollectiveKind::AllToAll => shares(whole),
        CollectiveKind::Allreduce => 2 * shares(whole),
        CollectiveKind::Reduce | CollectiveKind::Broadcast | CollectiveKind::SendRecv => whole,
    }
}

fn view_bytes(view: &BufferView) -> usize {
    view.len() * view.dtype.byte_size()
}

fn bytes_ns(bytes: usize, rate: Quantity) -> u64 {
    (bytes as f64 / rate.get()).ceil() as u64
}

/// Microseconds in whole nanoseconds.
fn to_ns(time_us: Micros) -> u64 {
    (time_us.get() * 1e3).round() as u64
}

/// Two times that differ by less than one part in so many are too close for the model to tell apart.
const TIE: u64 = 50;

/// Returns true if the model cannot tell two times apart.
pub fn is_tie(one_ns: u64, other_ns: u64) -> bool {
    one_ns.abs_diff(other_ns) < one_ns.max(other_ns) / TIE || one_ns == other_ns
}

/// A time in four digits and a unit: `12.34 us`.
pub fn time_text(ns: u64) -> String {
    let (value, unit) = match ns {
        0..=999 => return format!("{ns} ns"),
        1_000..=999_999 => (ns as f64 / 1e3, "us"),
        1_000_000..=999_999_999 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let digits = if value < 10.0 {
        3
    } else if value < 100.0 {
        2
    } else {
        1
    };
    format!("{value:.digits$} {unit}")
}
