//! Critical paths and exposed times of modelled runs, against closed forms. A GEMM of 10 x 10 x 10 takes 2000 ns, a
//! message of 100 floats 10 ns and then 400, and nothing else takes time.

#![allow(clippy::panic, clippy::unwrap_used, reason = "what is shared by tests fails as tests do")]

use crate::common::Case;
use hostir::backend::critical_path::{ExposedWait, exposed_waits, find_critical_path, sum_path_by_op};
use hostir::backend::simulation::simulate_run;
use hostir::backend::trace::{SpanKind, Trace};
use hostir::backend::usage::rank_usages;
use hostir::ir::OpId;
use hostir::lower::PreparedProgram;
use hostir::machine::Machine;
use hostir::plan::cost::CostModel;

/// A machine that computes an operation in a nanosecond, and sends a byte in one after 10.
fn slow_model() -> CostModel {
    let round = include_str!("../machines/round.toml");
    let changes = [
        ("= 1200.0", "= 0.001"),
        ("= 600.0", "= 0.001"),
        ("= 50.0", "= 0.001"),
        ("= 4000.0", "= 1e9"),
        ("launch_us = 3.0", "launch_us = 0.0"),
        ("_us = 10.0", "_us = 0.01"),
        ("= 360.0", "= 1.0"),
        ("= 180.0", "= 1.0"),
    ];
    let text = changes.iter().fold(round.to_owned(), |text, (from, to)| text.replace(from, to));
    CostModel::of_machine(Machine::from_toml(&text).unwrap())
}

/// A program with its timeline by the model above.
struct ModelledRun {
    text: String,
    prepared: PreparedProgram,
    trace: Trace,
}

impl ModelledRun {
    fn new(text: &str) -> Self {
        let prepared = Case::new(text, &[]).prepare().unwrap();
        let trace = simulate_run(&prepared, &slow_model()).unwrap();
        check_paths(&prepared, &trace);
        Self { text: text.to_owned(), prepared, trace }
    }

    /// The line of an op, from 1.
    fn line(&self, op: OpId) -> usize {
        let start = self.prepared.labels.op_span(op).start as usize;
        self.text[..start].lines().count().max(1)
    }

    /// The critical path: rank, line and duration.
    fn path(&self) -> Vec<(u32, usize, u64)> {
        let segments = find_critical_path(&self.trace, &self.prepared);
        let known = segments.iter().map(|segment| {
            let span = &self.trace.spans[segment.span.unwrap()];
            (span.rank, self.line(span.origin.op), segment.duration_ns())
        });
        known.collect()
    }

    /// The exposed times: the waiting line and the line that it waits for (0 for none), the sum and the longest.
    fn exposed(&self) -> Vec<(usize, usize, u64, u64)> {
        exposed_waits(&self.trace, &self.prepared).iter().map(|wait| self.wait_lines(wait)).collect()
    }

    fn wait_lines(&self, wait: &ExposedWait) -> (usize, usize, u64, u64) {
        let [waiter, awaited] = [wait.waiter, wait.awaited].map(|op| op.map_or(0, |op| self.line(op)));
        (waiter, awaited, wait.total_ns, wait.longest_ns)
    }
}

/// Checks what holds of every trace: a critical path covers the run without gaps and overlaps, and the computing and
/// the exposed times of all ranks are their ends.
pub(crate) fn check_paths(prepared: &PreparedProgram, trace: &Trace) {
    let path = find_critical_path(trace, prepared);
    let mut at = 0;
    for segment in &path {
        assert_eq!(segment.start_ns, at, "{path:?}");
        assert!(segment.start_ns < segment.end_ns, "{path:?}");
        if let Some(span) = segment.span.map(|span| &trace.spans[span]) {
            assert!(span.start_ns <= segment.start_ns && segment.end_ns <= span.end_ns, "{segment:?} {span:?}");
        }
        at = segment.end_ns;
    }
    assert_eq!(at, trace.end_ns());
    let shares = sum_path_by_op(trace, &path);
    assert_eq!(shares.iter().map(|share| share.total_ns).sum::<u64>(), at);
    assert_eq!(shares.iter().map(|share| share.segments).sum::<usize>(), path.len());

    let of_rank = |rank: u32| trace.spans.iter().filter(move |span| span.rank == rank).map(|span| span.end_ns);
    let ends: u64 = (0..prepared.ranks).map(|rank| of_rank(rank).max().unwrap_or(0)).sum();
    let exposed: u64 = exposed_waits(trace, prepared).iter().map(|wait| wait.total_ns).sum();
    let computing: u64 = rank_usages(trace).iter().map(|usage| usage.compute).sum();
    assert_eq!(computing + exposed, ends);
}

/// Rank 0 multiplies (2000) and sends (410), rank 1 receives and multiplies twice. Rank 0 ends with a wait for its send.
#[test]
fn a_chain_over_ranks() {
    let run = ModelledRun::new(
        "hir 2.1
mesh d = 0..2
chain(X: f32[10, 10], W: f32[10, 10]) -> (Y: f32[10, 10]) on d:
  A: f32[10, 10] = alloc
  Y = alloc
  if rank == 0:
    A = matmul(X, W)
    wait send(A, to=1)
    Y = Set(A)
  else:
    wait recv(A, from=0)
    B = matmul(A, W)
    Y = matmul(B, W)
",
    );
    let path = run.path();
    assert_eq!(
        path.iter().map(|(rank, _, ns)| (*rank, *ns)).collect::<Vec<_>>(),
        [(0, 2000), (1, 410), (1, 2000), (1, 2000)]
    );
    assert_eq!(path.iter().map(|(_, line, _)| *line).collect::<Vec<_>>(), [7, 11, 12, 13]);
    assert_eq!(run.exposed(), [(12, 11, 2410, 2410), (0, 8, 410, 410)]);
}

/// A ring whose messages (410) take longer than its GEMMs (400): a rank computes 400 of each 410, and at the end the
/// last GEMM. So it ends after `(p - 1) 410 + 400`.
#[test]
fn a_ring_that_waits_for_its_messages() {
    let text = "hir 2.1
sizes p=4
mesh d = 0..p
ring(A: f32[x:p, 10, 10], B: f32[10, 2]) -> (C: f32[p, 10, 2]) on d:
  G: f32[p, 10, 10] = alloc
  C = alloc
  G[rank] = Set(A[own])
  for s in p:
    at = wrap(rank - s, p)
    if s > 0: wait h
    if s < p - 1: h = { send(G[at], to=(rank + 1) % p); recv(G[wrap(at - 1, p)], from=wrap(rank - 1, p)) }
    C[at] = matmul(G[at], B)
";
    for ranks in [2, 4, 7] {
        let run = ModelledRun::new(&text.replace("sizes p=4", &format!("sizes p={ranks}")));
        let rounds = ranks - 1;
        assert_eq!(run.trace.end_ns(), rounds * 410 + 400);
        assert_eq!(run.exposed(), [(12, 11, ranks * rounds * 10, rounds * 10)]);
        let path = run.path();
        assert_eq!(
            path.iter().map(|(_, line, ns)| (*line, *ns)).collect::<Vec<_>>(),
            [vec![(11, 410); rounds as usize], vec![(12, 400)]].concat()
        );
    }
}

/// An all-reduce waits for the rank that multiplies twice: the others wait for 2000 of its time, which belongs to the
/// all-reduce. It takes 10 and then twice two thirds of the 400 bytes of 100 floats, in whole bytes of each third: 532.
#[test]
fn a_collective_that_waits_for_one_rank() {
    let run = ModelledRun::new(
        "hir 2.1
mesh d = 0..3
sum(X: f32[10, 10], W: f32[10, 10]) -> (Y: f32[10, 10]) on d:
  A: f32[10, 10] = alloc
  S: f32[10, 10] = alloc
  Y = alloc
  A = matmul(X, W)
  if rank == 2: A = matmul(X, W)
  wait allreduce(A -> S)
  Y = matmul(S, W)
",
    );
    assert_eq!(run.trace.end_ns(), 2000 + 2000 + 542 + 2000);
    assert_eq!(run.exposed(), [(10, 9, 2 * 2542 + 542, 2542)]);
    let path = run.path();
    assert_eq!(
        path.iter().map(|(_, line, ns)| (*line, *ns)).collect::<Vec<_>>(),
        [(7, 2000), (8, 2000), (9, 542), (10, 2000)]
    );
    assert!(path[..2].iter().all(|(rank, ..)| *rank == 2), "{path:?}");
}

/// Two streams: the copy-free program waits for a GEMM of another stream, which is no exposed time.
#[test]
fn streams_that_wait_for_each_other() {
    let run = ModelledRun::new(
        "hir 2.1
mesh d = 0..1
fork(X: f32[10, 10], W: f32[10, 10]) -> (Y: f32[10, 10]) on d:
  A: f32[10, 10] = alloc
  Y = alloc
  stream 1:
    sync 0
    A = matmul(X, W)
  sync 1
  Y = matmul(A, W)
",
    );
    assert!(run.exposed().is_empty());
    assert_eq!(run.path().iter().map(|(_, line, ns)| (*line, *ns)).collect::<Vec<_>>(), [(8, 2000), (10, 2000)]);
}

/// Messages on streams: rank 1 initiates, and copies 400 bytes after it has multiplied (2000). Rank 0's stream waits
/// for it, and its GEMM ends the run.
#[test]
fn a_message_that_the_other_side_copies() {
    let text = "%HostIrContainer { (T0_g_float[iS0{10}, iS1{10}] (DeviceMesh{0 1}), T1_g_float[iS2{10}, iS3{10}] (DeviceMesh{0 1})) -> (T2_g_float[iS4{10}, iS5{10}, rS6{10}] (DeviceMesh{0 1})) :
  T3_g_float[iS7{10}, iS8{10}] (DeviceMesh{0 1}) = ALLOCATE(buffer=T3, mem_type=global, size=100, zero_init=false, resets_to_zero=false)
  IF Manual ( rank == 0 ):
    P2PCommunication 1 (type=send, buffer=T0, peer=1, backend=CUDA)
    Wait Communication 1
    T2
       = matmul(T0, T1)
  ELSE:
    T2
       = matmul(T0, T1)
    P2PCommunication 2 (type=recv, buffer=T3, peer=0, backend=CUDA)
    Wait Communication 2
} // %HostIrContainer
";
    let run = ModelledRun::new(text);
    assert_eq!(run.trace.end_ns(), 2000 + 410 + 2000);
    assert_eq!(run.path(), [(1, 9, 2000), (1, 11, 410), (0, 6, 2000)]);
    assert_eq!(run.exposed(), [(6, 4, 2410, 2410), (0, 11, 410, 410)]);
    let kinds = sum_path_by_op(&run.trace, &find_critical_path(&run.trace, &run.prepared));
    let kinds: Vec<SpanKind> = kinds.iter().filter_map(|share| Some(share.spans?.kind)).collect();
    assert_eq!(kinds, [SpanKind::Compute, SpanKind::Compute, SpanKind::Communication]);
}
