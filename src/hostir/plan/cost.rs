//! The cost model: the duration of instructions on a machine that a few rates describe.
//!
//! The model shows what a program's order permits, without running it. Every rank is a device whose streams share its
//! arithmetic and its memory (`backend::shared_device`), and every team has its own links: queues of one team, which
//! have a communicator each (`comm=`), start beside each other, and their data travel one after the other. A message
//! starts when both sides are ready, a collective when all members are.

use super::inst::InstKind;
use super::view::BufferView;

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

/// The rates of a modelled machine.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CostModel {
    /// Floating-point operations per nanosecond on elements of up to 2 bytes.
    pub narrow_flop: f64,
    /// Floating-point operations per nanosecond on wider elements.
    pub wide_flop: f64,
    /// Bytes per nanosecond that local instructions read and write.
    pub memory: f64,
    /// Bytes per nanosecond that one rank sends or receives.
    pub link: f64,
    /// The minimum duration of a local instruction, in nanoseconds.
    pub launch_ns: u64,
    /// The minimum duration of a communication, in nanoseconds.
    pub message_ns: u64,
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

impl Default for CostModel {
    /// Round figures of an H200 with NVLink.
    fn default() -> Self {
        Self { narrow_flop: 600e3, wide_flop: 50e3, memory: 4e3, link: 360.0, launch_ns: 3_000, message_ns: 10_000 }
    }
}

impl CostModel {
    /// The demand of a local instruction.
    pub fn local_demand(&self, kind: &InstKind) -> LocalDemand {
        let narrow = kind.written_view().is_none_or(|view| view.dtype.byte_size() <= 2);
        let rate = if narrow { self.narrow_flop } else { self.wide_flop };
        LocalDemand {
            launch_ns: self.launch_ns,
            arithmetic_ns: inst_flop(kind) as f64 / rate,
            memory_ns: kind.traffic_bytes() as f64 / self.memory,
        }
    }

    /// The time for which a communication needs a rank's link in nanoseconds, by the larger of the bytes sent and
    /// received. A communication alone takes [`CostModel::message_ns`], and then this.
    pub fn transfer_ns(&self, kind: &InstKind) -> u64 {
        let sent: usize = kind.read_views().into_iter().map(view_bytes).sum();
        let most = sent.max(kind.written_view().map_or(0, view_bytes));
        (most as f64 / self.link).ceil() as u64
    }
}

fn view_bytes(view: &BufferView) -> usize {
    view.len() * view.dtype.byte_size()
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
