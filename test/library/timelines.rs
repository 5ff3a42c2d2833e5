//! Timelines of the CPU backend and of the model: what must hold of any, and times worked out by hand.

#![allow(clippy::panic, clippy::unwrap_used, reason = "what is shared by tests fails as tests do")]

use crate::critical_paths::check_paths;
use hostir::backend::cpu;
use hostir::backend::rendezvous::Rendezvous;
use hostir::backend::simulation::simulate_run;
use hostir::backend::time_ranges::TimeRange;
use hostir::backend::trace::{SpanKind, Trace, TraceClock, TraceSpan};
use hostir::backend::usage::rank_usages;
use hostir::data::HostTensor;
use hostir::ir::MessageDirection;
use hostir::lower::{PreparedProgram, SizeSettings, prepare_program, shard_input};
use hostir::machine::Machine;
use hostir::plan::cost::CostModel;
use hostir::plan::{InstKind, Plan};
use std::collections::{BTreeMap, BTreeSet};

/// A machine whose times can be worked out by hand.
fn round_model() -> CostModel {
    CostModel::of_machine(Machine::from_toml(include_str!("../machines/round.toml")).unwrap())
}

fn prepared(text: &str, set: &[(&str, i64)]) -> PreparedProgram {
    let (programs, diags) = hostir::load(text);
    assert!(!diags.has_errors(), "{diags:?}");
    let set = set.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
    prepare_program(&programs[0], &SizeSettings { set, ..SizeSettings::default() }).unwrap()
}

/// Both timelines of a program.
fn timelines(prepared: &PreparedProgram) -> [Trace; 2] {
    let whole: Vec<HostTensor> =
        prepared.inputs.iter().map(|port| HostTensor::zeros(port.dtype, &port.whole_shape())).collect();
    let parts = |rank| (0..whole.len()).map(|at| shard_input(prepared, at, rank, &whole[at])).collect();
    let inputs = (0..prepared.ranks).map(parts).collect();
    let (_, measured) = cpu::run_traced(prepared, inputs).unwrap();
    let model = simulate_run(prepared, &round_model()).unwrap();
    assert_eq!((measured.clock, model.clock), (TraceClock::Host, TraceClock::Model));
    [measured, model]
}

/// Instructions that a timeline shows.
fn shown(plan: &Plan) -> BTreeMap<(u32, u32), usize> {
    let hidden =
        |kind: &InstKind| matches!(kind, InstKind::Alloc { .. } | InstKind::Free { .. } | InstKind::GroupBegin);
    let mut counts = BTreeMap::new();
    for inst in plan.iter().filter(|inst| !hidden(&inst.kind)) {
        *counts.entry((inst.origin.op.0, inst.origin.iteration.0)).or_default() += 1;
    }
    counts
}

/// Checks what must hold of every timeline.
fn check(prepared: &PreparedProgram, trace: &Trace) {
    assert_eq!(trace.ranks.len(), prepared.plans.len());
    for (rank, plan) in prepared.plans.iter().enumerate() {
        let mut ends = vec![0; trace.ranks[rank].len()];
        let mut counts: BTreeMap<(u32, u32), usize> = BTreeMap::new();
        for span in trace.spans.iter().filter(|span| span.rank as usize == rank) {
            assert!(span.start_ns <= span.end_ns, "{span:?}");
            let end = &mut ends[span.track as usize];
            assert!(*end <= span.start_ns, "overlaps with the one before: {span:?}");
            *end = span.end_ns;
            for origin in std::iter::once(&span.origin).chain(&span.more) {
                *counts.entry((origin.op.0, origin.iteration.0)).or_default() += 1;
            }
        }
        assert_eq!(counts, shown(plan), "rank {rank}: one slice for each instruction");
    }
    let mut targets = BTreeSet::new();
    for flow_event in &trace.flow_events {
        let (from, to) = (&trace.spans[flow_event.from], &trace.spans[flow_event.to]);
        assert_eq!((from.rank, to.kind), (to.rank, SpanKind::Wait));
        assert!(matches!(from.kind, SpanKind::Event | SpanKind::Communication), "{from:?}");
        // A mark on a stream that the other side copies from says only when it was offered.
        assert!(from.start_ns <= to.end_ns, "{from:?} {to:?}");
        assert!(targets.insert(flow_event.to), "one arrow for each wait");
    }
    let waits = trace.spans.iter().filter(|span| span.kind == SpanKind::Wait).count();
    assert_eq!(targets.len(), waits, "one arrow for each wait");
    check_sides(prepared, trace);
    for usage in rank_usages(trace) {
        assert!(usage.exposed <= usage.communication);
        assert!(usage.communication <= trace.end_ns());
    }
    check_paths(prepared, trace);
}

/// Each message has its two sides, and only communications wait for peers, never to their ends.
fn check_sides(prepared: &PreparedProgram, trace: &Trace) {
    let sides = Rendezvous::of_trace(trace, &prepared.plans, &CostModel::of_default_machine());
    let sends = prepared.plans.iter().flat_map(Plan::iter).filter(|inst| is_send(&inst.kind)).count();
    assert_eq!(sides.messages.len(), sends, "each message is one pair");
    for message in &sides.messages {
        let (send, receive) = (&trace.spans[message.send], &trace.spans[message.receive]);
        assert_ne!(send.rank, receive.rank);
        assert!(receive.end_ns >= send.start_ns, "{send:?} {receive:?}");
    }
    for (span, waits) in trace.spans.iter().zip(&sides.peer_waits) {
        assert!(waits.is_empty() || span.kind == SpanKind::Communication);
        assert!(waits.iter().all(|wait| span.start_ns <= wait.start_ns && wait.end_ns <= span.end_ns), "{span:?}");
    }
}

fn is_send(kind: &InstKind) -> bool {
    kind.is_message(MessageDirection::Send)
}

const COPIES: &str = "%HostIrContainer { (T0_g_float[ideviceIdx.x0{2}, iS2{3}] (DeviceMesh{0 1})) -> (T1_g_float[ideviceIdx.x1{2}, iS3{3}] (DeviceMesh{0 1})) :
  T1 = ALLOCATE(buffer=T1, mem_type=global, size=6, zero_init=false, resets_to_zero=false)
  P2PCommunication 1 (type=send, buffer=T0, peer=( 1 - rank ), backend=CUDA)
  P2PCommunication 2 (type=recv, buffer=T1, peer=( 1 - rank ), backend=CUDA)
  Wait Communication 2
  Wait Communication 1
} // %HostIrContainer
";

#[test]
fn every_timeline() {
    let sizes: &[(&str, i64)] = &[("i1", 8), ("i2", 6), ("i3", 10)];
    let cases = [
        (include_str!("../../docs/examples/printed/ag_matmul_p2p.hir"), sizes),
        (include_str!("../../docs/examples/printed/allgather.hir"), &[("i0", 4), ("i1", 4), ("i2", 6)]),
        (include_str!("../../docs/examples/printed/allreduce.hir"), &[("i0", 4), ("i1", 4), ("i2", 6)]),
        (include_str!("../../docs/examples/printed/reduce_scatter.hir"), &[("i0", 4), ("i1", 4), ("i2", 6)]),
        (
            include_str!("../../docs/examples/printed/mlp_block.hir"),
            &[("i0", 4), ("i1", 4), ("i2", 4), ("i3", 6), ("i4", 2)],
        ),
        (COPIES, &[]),
    ];
    for (text, set) in cases {
        let (programs, _) = hostir::load(text);
        let known = |name: &str| text.contains(&format!("{{{name}}}"));
        assert_eq!(programs.len(), 1);
        let set: Vec<(&str, i64)> = set.iter().copied().filter(|(name, _)| known(name)).collect();
        let prepared = prepared(text, &set);
        for trace in timelines(&prepared) {
            check(&prepared, &trace);
        }
    }
}

/// Slices of a rank by name of the track and kind.
fn of<'t>(trace: &'t Trace, rank: u32, track: &str, kind: SpanKind) -> Vec<&'t TraceSpan> {
    let own = trace.spans.iter().filter(|span| span.rank == rank && span.kind == kind);
    own.filter(|span| trace.ranks[rank as usize][span.track as usize].name == track).collect()
}

/// The model: 2 ranks; each gathers 36 MB from the other (72 MB at 360 bytes a nanosecond and 10 us: 210
/// us) while stream 1 multiplies (2e9 operations at 50e3 a nanosecond and 3 us: 43 us) and stream 2 copies
/// (8 MB at 4e3 bytes a nanosecond and 3 us: alone 5 us). Both share the memory, which the product needs for 3
/// us: the copy takes 7 us.
#[test]
fn the_model_by_hand() {
    let text = "%HostIrContainer { (T0_g_float[ideviceIdx.x0{2}, iS1{9000000}] (DeviceMesh{0 1}), T2_g_float[iS4{1000}, iS5{1000}] (DeviceMesh{0 1})) -> (T1_g_float[iS2{2}, iS3{9000000}] (DeviceMesh{0 1}), T3_g_float[iS6{1000}, iS7{1000}, rS8{1000}] (DeviceMesh{0 1}), T4_g_float[iS9{1000}, iS10{1000}] (DeviceMesh{0 1})) :
  GetCurrentStream into Stream 9
  T1 = ALLOCATE(buffer=T1, mem_type=global, size=18000000, zero_init=false, resets_to_zero=false)
  Communication 1 (type=Allgather, team=(0 1), input=T0, output=T1, backend=NCCL)
  SetCurrentStream to Stream 1
  T3
     = matmul(T2,
              T2)
  SetCurrentStream to Stream 2
  T4
     = Set( T2, cache_op=Streaming )
  SetCurrentStream to Stream 9
  Wait Communication 1
  Synchronize Stream 1
  Synchronize Stream 2
} // %HostIrContainer
";
    let prepared = prepared(text, &[]);
    let trace = simulate_run(&prepared, &round_model()).unwrap();
    check(&prepared, &trace);
    assert_eq!(trace, simulate_run(&prepared, &round_model()).unwrap());
    assert_eq!(trace.end_ns(), 210_000);
    for rank in [0, 1] {
        let times = |track, kind| -> Vec<(u64, u64)> {
            let spans = of(&trace, rank, track, kind);
            spans.iter().map(|span| (span.start_ns, span.end_ns)).collect()
        };
        assert_eq!(times("NCCL 0 1", SpanKind::Communication), [(0, 210_000)]);
        assert_eq!(times("stream 1", SpanKind::Compute), [(0, 43_000)]);
        assert_eq!(times("stream 2", SpanKind::Copy), [(0, 7_000)]);
        let waits = [(0, 210_000), (210_000, 210_000), (210_000, 210_000)];
        assert_eq!(times("caller", SpanKind::Wait), waits);
        let product = of(&trace, rank, "stream 1", SpanKind::Compute)[0];
        assert_eq!((product.flop, product.bytes), (2_000_000_000, 12_000_000));
        let gathered = of(&trace, rank, "NCCL 0 1", SpanKind::Communication)[0];
        assert_eq!(gathered.bytes, 108_000_000);
    }
    let usage = &rank_usages(&trace)[0];
    assert_eq!((usage.communication, usage.exposed, usage.compute), (210_000, 167_000, 43_000));
}

/// A rank that comes late: the other one's part of a collective lasts until both are done, and a message
/// starts when both sides are there. 4 MB copied first take 5 us; the collective takes 10.001 us.
#[test]
fn partners_that_come_late() {
    let text = "%HostIrContainer { (T0_g_float[ideviceIdx.x0{2}, iS1{45}] (DeviceMesh{0 1}), T2_g_float[iS4{1000000}] (DeviceMesh{0 1})) -> (T1_g_float[iS2{2}, iS3{45}] (DeviceMesh{0 1})) :
  T1 = ALLOCATE(buffer=T1, mem_type=global, size=90, zero_init=false, resets_to_zero=false)
  IF Manual ( rank == 1 ):
    T3_l_float[iS5{1000000}] (DeviceMesh{0 1})
       = Set( T2, cache_op=Streaming )
  Communication 1 (type=Allgather, team=(0 1), input=T0, output=T1, backend=NCCL)
  Wait Communication 1
} // %HostIrContainer
";
    let prepared = prepared(text, &[]);
    let trace = simulate_run(&prepared, &round_model()).unwrap();
    let gather = |rank| {
        let span = of(&trace, rank, "NCCL 0 1", SpanKind::Communication)[0];
        (span.start_ns, span.end_ns)
    };
    assert_eq!((gather(0), gather(1)), ((0, 15_001), (5_000, 15_001)));
    let waits = peer_waits(&prepared, &trace);
    assert_eq!(waits, [(0, TimeRange { start_ns: 0, end_ns: 5_000 })]);
}

/// The time in which ranks wait for others within their communications, in order.
fn peer_waits(prepared: &PreparedProgram, trace: &Trace) -> Vec<(u32, TimeRange)> {
    let sides = Rendezvous::of_trace(trace, &prepared.plans, &CostModel::of_default_machine());
    let waits = trace.spans.iter().zip(sides.peer_waits);
    waits.flat_map(|(span, waits)| waits.into_iter().map(|wait| (span.rank, wait))).collect()
}

/// Three ranks pass a message of 14.4 MB on, 50 us; rank 1 copies before, 200 us. The message from rank 2 to rank 0 moves
/// at once, and both then wait for rank 1.
#[test]
fn groups_wait_between_their_messages() {
    let text = include_str!("../run/timeline_peers.hir");
    let prepared = prepared(text, &[]);
    let trace = checked_model(text, &[]);
    assert_eq!(trace.end_ns(), 250_000);
    let wait = TimeRange { start_ns: 50_000, end_ns: 200_000 };
    assert_eq!(peer_waits(&prepared, &trace), [(0, wait), (2, wait)]);
}

/// Products on two streams, in a program without loops: `depth` is the number of products of each element of the second.
fn two_products(depth: u32) -> String {
    format!(
        "%HostIrContainer {{ (T0_g_float[iS0{{1000}}, iS1{{1000}}] (DeviceMesh{{0}}), T1_g_float[iS2{{1000}}, iS3{{{depth}}}] (DeviceMesh{{0}}), T2_g_float[iS4{{{depth}}}, iS5{{1000}}] (DeviceMesh{{0}})) -> (T3_g_float[iS6{{1000}}, iS7{{1000}}, rS8{{1000}}] (DeviceMesh{{0}}), T4_g_float[iS9{{1000}}, iS10{{1000}}, rS11{{{depth}}}] (DeviceMesh{{0}})) :
  GetCurrentStream into Stream 9
  SetCurrentStream to Stream 1
  T3
     = matmul(T0, T0)
  SetCurrentStream to Stream 2
  T4
     = matmul(T1, T2)
  SetCurrentStream to Stream 9
  Synchronize Stream 1
  Synchronize Stream 2
}} // %HostIrContainer
"
    )
}

/// Two equal products of 2e9 operations, each 40 us of the whole device after a launch of 3 us, get half of it each: 80
/// us. A product of 2e8 operations needs 4 us: beside the long one it takes 8, and the long one takes 4 us longer
/// than alone.
#[test]
fn streams_share_the_device() {
    for (depth, ends) in [(1000, [83_000, 83_000]), (100, [47_000, 11_000])] {
        let prepared = prepared(&two_products(depth), &[]);
        let trace = simulate_run(&prepared, &round_model()).unwrap();
        check(&prepared, &trace);
        for (track, end) in ["stream 1", "stream 2"].into_iter().zip(ends) {
            let product = of(&trace, 0, track, SpanKind::Compute)[0];
            assert_eq!((product.start_ns, product.end_ns), (0, end), "{depth} {track}");
        }
    }
}

/// Iterations of a pipeline that do not wait for each other are faster than those that do, for all sizes: with stages of T
/// and messages of c, n microbatches take at most (n + 1) T + c in the place of (n + 1) T + n c if c is less than T.
#[test]
fn a_pipeline_is_faster_than_its_iterations_in_turn() {
    let texts: Vec<&str> = include_str!("../run/timeline_pipeline.hir").split("// -----").collect();
    for (microbatches, rows, columns) in [(2, 128, 128), (4, 4096, 4096), (8, 4096, 512), (3, 64, 8192)] {
        let set: &[(&str, i64)] = &[("m", microbatches), ("b", rows), ("k", columns)];
        let traces: Vec<Trace> = texts.iter().map(|text| checked_model(text, set)).collect();
        let [pipelined, serial, late_messages] = &traces[..] else { panic!("three programs") };
        assert_eq!(late_messages.end_ns(), pipelined.end_ns(), "{set:?}");
        assert!(pipelined.end_ns() < serial.end_ns(), "{set:?}: {} {}", pipelined.end_ns(), serial.end_ns());
        assert_eq!((hidden_ns(serial), hidden_ns(pipelined) > 0), (0, true), "{set:?}");
    }
}

fn checked_model(text: &str, set: &[(&str, i64)]) -> Trace {
    let prepared = prepared(text, set);
    let trace = simulate_run(&prepared, &round_model()).unwrap();
    check(&prepared, &trace);
    trace
}

/// The communication of rank 0 that computing hides.
fn hidden_ns(trace: &Trace) -> u64 {
    let usage = &rank_usages(trace)[0];
    usage.communication - usage.exposed
}

#[test]
fn deadlocks_have_no_timeline() {
    let text = include_str!("../../docs/examples/printed/deadlock.hir");
    let prepared = prepared(text, &[("i1", 8), ("i2", 6), ("i3", 10)]);
    let diags = simulate_run(&prepared, &round_model()).unwrap_err();
    assert_eq!(diags[0].code, "H0510");
}
