//! From the times of probes to the rates of a machine: the cost model's rules, solved for their constants.

use super::probes::{CHAIN, COPIED, EDGE, EDGE_32, EDGE_64, FEW, MANY, MOST, REPEATS, SHALLOW, SMALL_EDGE};
use hostir::machine::{Machine, Micros, Quantity, Share};
use std::collections::BTreeMap;

/// The median times of a probe.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct ProbeTime {
    /// In microseconds, issued call by call.
    pub(super) calls_us: f64,
    /// In microseconds, issued as a graph where that is possible.
    pub(super) graph_us: f64,
    /// The host's time for the calls, in microseconds, if it is known.
    pub(super) issue_us: Option<f64>,
}

/// The times of all probes by name.
pub(super) type ProbeTimes = BTreeMap<&'static str, ProbeTime>;

/// The rates that follow from times; those that no probe shows are the base's.
pub(super) fn solve_machine(base: &Machine, times: &ProbeTimes, devices: usize) -> Machine {
    let mut machine = base.clone();
    solve_local(&mut machine, times);
    solve_host(&mut machine, times);
    solve_collectives(&mut machine, times, devices);
    solve_messages(&mut machine, times);
    machine
}

/// Sets a rate if it was found and is one.
fn set_rate(rate: &mut Quantity, found: Option<f64>) {
    if let Some(found) = found.and_then(|found| Quantity::try_from(found).ok()) {
        *rate = found;
    }
}

/// Sets a time if it was found; below 0 it is 0.
fn set_time(time: &mut Micros, found: Option<f64>) {
    if let Some(found) = found.and_then(|found| Micros::try_from(found.max(0.0)).ok()) {
        *time = found;
    }
}

fn graph_us(times: &ProbeTimes, name: &str) -> Option<f64> {
    times.get(name).map(|time| time.graph_us)
}

/// The operations of whole waves of tiles of a product.
fn wave_flop(machine: &Machine, [rows, columns, depth]: [usize; 3]) -> f64 {
    let [tile_rows, tile_columns] = [machine.gemm.tile_rows, machine.gemm.tile_columns].map(|edge| edge.get() as usize);
    let processors = machine.device.processors.get() as usize;
    let tiles = rows.div_ceil(tile_rows) * columns.div_ceil(tile_columns);
    2.0 * (tiles.div_ceil(processors) * processors * tile_rows * tile_columns) as f64 * depth as f64
}

fn solve_local(machine: &mut Machine, times: &ProbeTimes) {
    let kernels = graph_us(times, "kernels");
    set_time(&mut machine.device.launch_us, kernels.map(|time| time / CHAIN as f64));
    let launch = machine.device.launch_us.get();
    let copied = graph_us(times, "copy").map(|time| (2 * COPIED * 4) as f64 / (time - launch) / 1e3);
    set_rate(&mut machine.device.memory_gb_s, copied);
    // Four operands are read, and one result is written, of 2 bytes an element.
    let reduced = (5 * (EDGE / 4) * EDGE * 2) as f64;
    let reduction = graph_us(times, "reduction").map(|time| reduced / (time - launch) / 1e3);
    set_rate(&mut machine.device.reduction_gb_s, reduction);
    // The start of a product, and the rate of 16 bits, follow from each other: two rounds suffice.
    let products = [("gemm8", EDGE), ("gemm16", EDGE), ("gemm32", EDGE_32), ("gemm64", EDGE_64)];
    for _ in 0..4 {
        let first = launch + machine.gemm.start_us.get();
        let [bits8, bits16, bits32, bits64] = products.map(|(name, edge)| {
            let time = graph_us(times, name)? - first;
            Some(wave_flop(machine, [edge; 3]) / time / 1e6)
        });
        let gemm = &mut machine.gemm;
        set_rate(&mut gemm.bits8_tflops, bits8);
        set_rate(&mut gemm.bits16_tflops, bits16);
        set_rate(&mut gemm.bits32_tflops, bits32);
        set_rate(&mut gemm.bits64_tflops, bits64);
        let small = graph_us(times, "gemm16-small").map(|time| {
            let computed = wave_flop(machine, [SMALL_EDGE; 3]) / machine.gemm.bits16_tflops.get() / 1e6;
            time / CHAIN as f64 - launch - computed
        });
        set_time(&mut machine.gemm.start_us, small);
    }
}

fn solve_host(machine: &mut Machine, times: &ProbeTimes) {
    let host = &mut machine.host;
    set_time(&mut host.call_us, issue_us(times, "kernels", CHAIN));
    // Each `sync` records an event and waits for it.
    set_time(&mut host.event_us, issue_us(times, "events", 4 * CHAIN));
    set_time(&mut host.communication_us, issue_us(times, "allgather-small", REPEATS));
}

/// The host's time for each of so many operations of a probe.
fn issue_us(times: &ProbeTimes, name: &str, count: usize) -> Option<f64> {
    times.get(name)?.issue_us.map(|time| time / count as f64)
}

/// The start in microseconds and the rate in GB/s of a communication, by the time of a small and of a large one.
fn solve_line(small: (f64, f64), large: (f64, f64)) -> (f64, f64) {
    let rate = (large.0 - small.0) / (large.1 - small.1) / 1e3;
    (small.1 - small.0 / rate / 1e3, rate)
}

fn solve_collectives(machine: &mut Machine, times: &ProbeTimes, devices: usize) {
    let shares = devices.saturating_sub(1) as f64;
    let [few, many] = [FEW, MANY].map(element_bytes);
    let small = graph_us(times, "allgather-small").map(|time| time / REPEATS as f64);
    let Some((small, large)) = small.zip(graph_us(times, "allgather")) else { return };
    let (start, rate) = solve_line((few * shares, small), (many * shares, large));
    let nccl = &mut machine.nccl;
    set_time(&mut nccl.collective_us, Some(start));
    set_rate(&mut nccl.allgather_gb_s, Some(rate));
    let start = nccl.collective_us.get();
    let [scattered, summed] = [("reduce-scatter", many * shares), ("allreduce", 2.0 * many * shares / devices as f64)]
        .map(|(name, moved)| graph_us(times, name).map(|time| moved / (time - start) / 1e3));
    set_rate(&mut nccl.reduce_scatter_gb_s, scattered);
    set_rate(&mut nccl.allreduce_gb_s, summed);
}

/// The bytes of elements of 4 bytes.
fn element_bytes(elements: usize) -> f64 {
    (elements * 4) as f64
}

/// The start and the rate of messages, by the probes of few and of many bytes.
fn message_line(times: &ProbeTimes, small: &str, large: &str) -> Option<(f64, f64)> {
    let small = graph_us(times, small)? / REPEATS as f64;
    Some(solve_line((element_bytes(FEW), small), (element_bytes(MANY), graph_us(times, large)?)))
}

fn solve_messages(machine: &mut Machine, times: &ProbeTimes) {
    if let Some((start, rate)) = message_line(times, "message-small", "message") {
        set_time(&mut machine.nccl.message_us, Some(start));
        set_rate(&mut machine.nccl.message_gb_s, Some(rate));
        solve_beside(machine, times);
    }
    if let Some((start, rate)) = message_line(times, "copies-small", "copies") {
        // A copy starts, and the other side waits for its semaphore: a tiny one takes only that.
        let tiny = graph_us(times, "copies-tiny").map_or(start, |time| time / REPEATS as f64);
        let signal = machine.semaphores.signal_us.get().min(tiny / 2.0);
        set_time(&mut machine.semaphores.signal_us, Some(signal));
        set_time(&mut machine.copies.start_us, Some(start - signal));
        set_rate(&mut machine.copies.copy_gb_s, Some(rate));
    }
    if let Some(time) = graph_us(times, "stores") {
        let tile = machine.gemm.tile_rows.get() as usize * machine.gemm.tile_columns.get() as usize;
        let stored = EDGE * EDGE * 2;
        let last = stored.min(machine.device.processors.get() as usize * tile * 2);
        let starts = machine.device.launch_us.get() + machine.gemm.start_us.get() + machine.semaphores.signal_us.get();
        let computed = wave_flop(machine, [EDGE, EDGE, SHALLOW]) / machine.gemm.bits16_tflops.get() / 1e6;
        let rate = (stored + last) as f64 / (time - starts) / 1e3;
        // Else the product takes longer than its bytes, and shows nothing of the link.
        let is_link = stored as f64 / rate / 1e3 > computed;
        set_rate(&mut machine.stores.store_gb_s, Some(rate).filter(|_| is_link));
    }
}

/// The rate of a message beside a product, and the share of the device that it takes, by two times: where the product
/// takes longer, the message makes it longer; where the message does, the product slows it down.
fn solve_beside(machine: &mut Machine, times: &ProbeTimes) {
    let found = ["gemm16", "message", "message-long", "beside", "beside-long"].map(|name| graph_us(times, name));
    let [Some(product), Some(message), Some(long), Some(beside), Some(beside_long)] = found else { return };
    let mut share = machine.nccl.message_share.get();
    let mut slowed = machine.nccl.message_beside_gb_s.get() / machine.nccl.message_gb_s.get();
    for _ in 0..20 {
        share = ((beside - product) * slowed / message).clamp(0.0, 0.9);
        slowed = (1.0 - (beside_long - long) * (1.0 - share) / product).clamp(0.05, 1.0);
    }
    if let Ok(share) = Share::try_from(share) {
        machine.nccl.message_share = share;
    }
    let rate = machine.nccl.message_gb_s.get() * slowed;
    set_rate(&mut machine.nccl.message_beside_gb_s, Some(rate));
    const { assert!(MOST > MANY, "the long message takes longer than the product") };
}
