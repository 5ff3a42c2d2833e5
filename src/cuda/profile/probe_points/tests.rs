//! Tests of spans and flow events with made-up times, and of clocks.

use super::*;
use hostir::backend::trace::Trace;
use hostir::lower::{PreparedProgram, SizeSettings, prepare_program};
use hostir_gpu::p2p::plan_messages;
use hostir_gpu::schedule::{ScheduleSettings, build_schedule};
use hostir_gpu::team;
use hostir_gpu::transport::{BackendTransports, CommTransport};

fn prepared(text: &str, set: &[(&str, i64)]) -> PreparedProgram {
    let (programs, diags) = hostir::load(text);
    assert!(!diags.has_errors(), "{diags:?}");
    let set = set.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
    prepare_program(&programs[0], &SizeSettings { set, ..SizeSettings::default() }).unwrap()
}

/// A rank's schedule, and its spans if step `n` lasts from `10 n` to `10 n + 10`.
fn spans(prepared: &PreparedProgram, rank: usize) -> (RankSchedule, PartialTrace) {
    slices_with(prepared, rank, ScheduleSettings::H200)
}

fn slices_with(prepared: &PreparedProgram, rank: usize, settings: ScheduleSettings) -> (RankSchedule, PartialTrace) {
    let plan = &prepared.plans[rank];
    let Ok(schedule) = build_schedule(
        plan,
        &team::collect_teams(prepared),
        &plan_messages(prepared, settings.routes, settings.joins_stores),
        settings,
    ) else {
        unreachable!("the program can run")
    };
    let times = (0u64..).zip(step_probes(plan, &schedule)).map(|(at, probe)| match probe {
        StepProbe::None => None,
        StepProbe::Point => Some((10 * at + 10, 10 * at + 10)),
        StepProbe::Pair => Some((10 * at, 10 * at + 10)),
    });
    let times: Vec<Option<(u64, u64)>> = times.collect();
    let part = trace_part(plan, &schedule, &times);
    (schedule, part)
}

fn count(part: &PartialTrace, kind: SpanKind) -> usize {
    part.spans.iter().filter(|span| span.kind == kind).count()
}

/// The pipelined allgather and GEMM: on each rank three groups of messages, four GEMMs; each GEMM's stream waits for
/// stream 0 and for its group, stream 0 waits for each GEMM's stream.
#[test]
fn a_pipeline() {
    let text = include_str!("../../../../docs/examples/printed/ag_matmul_p2p.hir");
    let prepared = prepared(text, &[("i1", 64), ("i2", 32), ("i3", 48)]);
    for rank in 0..4 {
        let (_, part) = spans(&prepared, rank);
        assert_eq!(part.tracks.last().map(|track| track.name.as_str()), Some("NCCL 0 1 2 3"));
        assert_eq!(count(&part, SpanKind::Compute), 4);
        // The own shard is not copied: its GEMM reads it in place, and its span has these bytes.
        assert_eq!(count(&part, SpanKind::Copy), 0);
        let named = part.spans.iter().filter(|span| span.kind == SpanKind::Compute);
        assert_eq!(named.map(|span| span.more.len()).sum::<usize>(), 1);
        assert_eq!(count(&part, SpanKind::Communication), 3);
        assert_eq!(count(&part, SpanKind::Wait), 4 + 3 + 4);
        for flow_event in &part.flow_events {
            let (from, to) = (&part.spans[flow_event.from], &part.spans[flow_event.to]);
            assert!(from.end_ns <= to.end_ns);
            let queue = from.kind == SpanKind::Communication;
            assert!(queue || from.kind == SpanKind::Event, "{from:?}");
            assert_eq!(queue, !part.tracks[from.track as usize].stream);
            assert_eq!(to.kind, SpanKind::Wait);
        }
        assert_eq!(part.flow_events.len(), 4 + 3 + 4);
        let group = part.spans.iter().find(|span| span.kind == SpanKind::Communication);
        let group = group.unwrap();
        assert_eq!((group.more.len(), group.bytes), (2, 2 * 64 * 32 * 4));
        let flop: u64 = part.spans.iter().map(|span| span.flop).sum();
        assert_eq!(flop, 4 * 2 * 64 * 32 * 48);
    }
}

/// Messages of a group that engines copy have streams of their own; on its track the group lasts until all have
/// arrived.
#[test]
fn a_group_of_large_messages() {
    let row = "(DeviceMesh{0 1 2})";
    let tensor =
        |name: u32, first: u32| format!("T{name}_g_float[ideviceIdx.x{first}{{3}}, iS{}{{2097152}}] {row}", first + 1);
    let message = |number: u32, kind: &str, buffer: u32, step: u32| {
        format!(
            "  P2PCommunication {number} (type={kind}, buffer=T{buffer}, peer=( ( rank + {step} ) % 3 ), backend=NCCL)\n"
        )
    };
    let allocate = |name: u32| {
        format!(
            "  T{name} = ALLOCATE(buffer=T{name}, mem_type=global, size=6291456, zero_init=false, resets_to_zero=false)\n"
        )
    };
    let text = format!(
        "%HostIrContainer {{ ({}) -> ({}, {}) :\n{}{}  StartCoalescing\n{}{}{}{}  EndCoalescing 5\n  Wait Communication 5\n}} // %HostIrContainer\n",
        tensor(0, 0),
        tensor(1, 2),
        tensor(2, 4),
        allocate(1),
        allocate(2),
        message(1, "send", 0, 1),
        message(2, "send", 0, 2),
        message(3, "recv", 1, 1),
        message(4, "recv", 2, 2),
    );
    let prepared = prepared(&text, &[]);
    let routes = BackendTransports { nccl: CommTransport::Copies, ucc: None };
    let (schedule, part) = slices_with(&prepared, 0, ScheduleSettings { routes, ..ScheduleSettings::H200 });
    let transfers = schedule.steps.iter().enumerate();
    let transfers = transfers.filter(|(_, step)| matches!(step.call, StreamCommand::Transfer { .. }));
    let streams: Vec<usize> = transfers.clone().map(|(_, step)| step.stream).collect();
    assert_eq!((streams.len(), streams[0] == streams[1]), (2, false), "{streams:?}");
    // One of the two copies is beside the track, which waits for its end.
    let events = schedule.steps.iter().filter(|step| step.stream == streams[0].max(streams[1]));
    let mut end = events.filter_map(|step| match step.call {
        StreamCommand::Record { event } => Some(event),
        _ => None,
    });
    let end = StreamCommand::Wait { event: end.next_back().unwrap() };
    let wait = schedule.steps.iter().position(|step| step.call == end).unwrap() as u64;
    let group = part.spans.iter().filter(|span| span.kind == SpanKind::Communication);
    assert!(group.clone().any(|span| span.start_ns == 10 * wait));
    // What all of them carry counts once.
    assert_eq!(group.map(|span| span.bytes).sum::<u64>(), 4 * 2_097_152 * 4);
}

/// Times that are rounded the wrong way do not make spans of one stream overlap.
#[test]
fn streams_stay_in_order() {
    let text = "%HostIrContainer { (T0_g_float[iS0{4}, iS1{4}]) -> (T2_g_float[iS4{4}, iS5{4}, rS6{4}]) :
  T1_g_float[iS2{4}, iS3{4}, rS7{4}]
     = matmul(T0,
              T0)
  T2
     = matmul(T1,
              T0)
} // %HostIrContainer
";
    let prepared = prepared(text, &[]);
    let plan = &prepared.plans[0];
    let Ok(schedule) = build_schedule(
        plan,
        &team::collect_teams(&prepared),
        &plan_messages(&prepared, ScheduleSettings::H200.routes, false),
        ScheduleSettings::H200,
    ) else {
        unreachable!("the program can run")
    };
    let mut given = [(5, 20), (18, 17)].into_iter();
    let probes = step_probes(plan, &schedule).into_iter();
    let times = probes.map(|probe| if probe == StepProbe::Pair { given.next() } else { None });
    let times: Vec<Option<(u64, u64)>> = times.collect();
    let part = trace_part(plan, &schedule, &times);
    let found: Vec<(u64, u64)> = part.spans.iter().map(|span| (span.start_ns, span.end_ns)).collect();
    assert_eq!(found, [(5, 20), (20, 20)]);
    let trace = Trace::join_parts(hostir::backend::trace::TraceClock::Device, vec![part]);
    assert_eq!((trace.spans[0].start_ns, trace.end_ns()), (0, 15));
}

/// Two pointwise ops in one kernel: one span that names both, and what the kernel reads and writes.
#[test]
fn fused_kernels_name_what_is_in_them() {
    let text = "%HostIrContainer { (T0_g_float[iS0{8}]) -> (T2_g_float[iS2{8}]) :
  T1_l_float[iS1{8}]
     = relu(T0);
  T2
     = sin(T1);
} // %HostIrContainer
";
    let prepared = prepared(text, &[]);
    let (_, part) = spans(&prepared, 0);
    assert_eq!(part.spans.len(), 1);
    let span = &part.spans[0];
    assert_eq!((span.kind, span.more.len(), span.bytes), (SpanKind::Compute, 1, 64));
    assert_eq!(span.flop, 2 * 8);
    assert_ne!(span.origin, span.more[0]);
}

#[test]
fn the_tightest_bracket_counts() {
    let bracket = |before, after| ClockBracket { before, after };
    let found = tightest_anchor(&[bracket(100, 190), bracket(300, 331), bracket(500, 600)]);
    assert_eq!(found, ClockAnchor { round: 1, host: 315, error: 16 });
    assert_eq!(to_host_time(found, 0.002), 2315);
    // An event that seems to be before the anchor is rounded to it.
    assert_eq!(to_host_time(found, -0.001), 315);
    assert_eq!(tightest_anchor(&[]), ClockAnchor { round: 0, host: 0, error: 0 });
}
