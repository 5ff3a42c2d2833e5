//! A rank's part of a timeline as a message, and back.
//!
//! The length of a rank's timeline is not known before, so the message goes in pieces, as many as the longest one has,
//! and no rank sends one before rank 0 has all of the previous ones. A message that is longer than a plan's
//! instructions can make it is refused before it is sent.

use super::payload::{Decoder, Encoder, encode_value};
use super::peers::SocketControlPlane;
use hostir::backend::control_plane::{ControlPlane as _, ControlPlaneError};
use hostir::backend::trace::{self, PartialTrace, SpanDependency, SpanKind, Trace, TraceSpan};
use hostir::ir::OpId;
use hostir::lower::PreparedProgram;
use hostir::plan::{InstOrigin, IterationId, Plan};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Bytes of a piece.
const PIECE: usize = super::peers::SMALL;
/// The maximum number of bytes of an instruction in a message; a span has some 100.
const PER_INSTRUCTION: usize = 64 << 10;

/// On rank 0 the timeline of all ranks; the others send their parts.
///
/// # Errors
/// If another process fails, or a part does not fit the rank's plan.
pub(super) fn collect_trace(
    peers: &SocketControlPlane,
    prepared: &PreparedProgram,
    trace: &Trace,
) -> Result<Option<Trace>, ControlPlaneError> {
    let own = pack_trace(&trace.partial_trace(peers.rank()));
    let pieces: Vec<&[u8]> = own.chunks(PIECE).collect();
    let counts = peers.all_gather("timeline", &encode_value(&(pieces.len() as u64)))?;
    let counts = counts
        .iter()
        .zip(&prepared.plans)
        .map(|(bytes, plan)| Decoder::new(bytes).take::<u64>().filter(|count| *count <= max_pieces(plan)));
    let Some(counts) = counts.collect::<Option<Vec<u64>>>() else {
        let why = "the timeline of a rank is longer than its plan allows".to_owned();
        return Err(ControlPlaneError::Broken { why });
    };
    let mut all = vec![Vec::new(); counts.len()];
    for number in 0..counts.into_iter().max().unwrap_or(0) as usize {
        let piece = pieces.get(number).copied().unwrap_or_default();
        let found = peers.collect_messages("collect timelines", piece)?.unwrap_or_default();
        all.iter_mut().zip(found).for_each(|(whole, piece)| whole.extend(piece));
        peers.all_gather("next of the timelines", &[])?;
    }
    if peers.rank() != 0 {
        return Ok(None);
    }
    let parts: Vec<PartialTrace> = prepared
        .plans
        .iter()
        .zip(&all)
        .map(|(plan, message): (&Plan, &Vec<u8>)| {
            unpack_trace(plan, message).ok_or_else(|| ControlPlaneError::Broken {
                why: format!("the timeline of rank {} does not match its plan", plan.rank),
            })
        })
        .collect::<Result<_, _>>()?;
    Ok(Some(Trace {
        clock_skew_ns: trace.clock_skew_ns,
        machine: trace.machine.clone(),
        ..Trace::join_parts(trace.clock, parts)
    }))
}

/// The maximum number of bytes of a rank's timeline, as a message and in memory.
fn most_bytes(plan: &Plan) -> usize {
    plan.inst_count().saturating_mul(PER_INSTRUCTION).saturating_add(PIECE)
}

/// Most pieces of a rank's timeline.
fn max_pieces(plan: &Plan) -> u64 {
    most_bytes(plan).div_ceil(PIECE) as u64
}

/// A span; its other origins follow it, as many as it states.
#[derive(Serialize, Deserialize)]
struct SpanRecord {
    track: u32,
    start_ns: u64,
    end_ns: u64,
    kind: usize,
    bytes: u64,
    flop: u64,
    origin: OriginRecord,
    more: usize,
}

/// The op and the iteration of an instruction.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct OriginRecord {
    op: u32,
    iteration: u32,
}

impl OriginRecord {
    fn new(origin: &InstOrigin) -> Self {
        Self { op: origin.op.0, iteration: origin.iteration.0 }
    }
}

/// Encodes spans, then flow events; tracks are those of the plan.
fn pack_trace(part: &PartialTrace) -> Vec<u8> {
    let mut encoder = Encoder::default();
    encoder.push(&part.spans.len());
    for span in &part.spans {
        encoder.push(&SpanRecord {
            track: span.track,
            start_ns: span.start_ns,
            end_ns: span.end_ns,
            kind: span.kind as usize,
            bytes: span.bytes,
            flop: span.flop,
            origin: OriginRecord::new(&span.origin),
            more: span.more.len(),
        });
        span.more.iter().for_each(|origin| encoder.push(&OriginRecord::new(origin)));
    }
    encoder.push(&part.flow_events.len());
    part.flow_events.iter().for_each(|flow_event| encoder.push(&[flow_event.from, flow_event.to]));
    encoder.into_bytes()
}

/// Reads a timeline of a plan.
struct PartReader<'a> {
    decoder: Decoder<'a>,
    plan: &'a Plan,
    tracks: usize,
    known: BTreeSet<OriginRecord>,
    /// Bytes of memory that may still be taken.
    budget: usize,
}

/// `None` for what is no timeline of the plan.
fn unpack_trace(plan: &Plan, message: &[u8]) -> Option<PartialTrace> {
    let tracks = trace::plan_tracks(plan);
    let mut reader = PartReader {
        decoder: Decoder::new(message),
        plan,
        tracks: tracks.len(),
        known: plan.iter().map(|inst| OriginRecord::new(&inst.origin)).collect(),
        budget: most_bytes(plan),
    };
    let spans = reader.decoder.take::<usize>()?;
    let spans = (0..spans).map(|_| reader.take_span()).collect::<Option<Vec<_>>>()?;
    let flow_events = reader.decoder.take::<usize>()?;
    let flow_events = (0..flow_events).map(|_| reader.take_flow_event(spans.len()));
    let flow_events = flow_events.collect::<Option<Vec<_>>>()?;
    reader.decoder.is_finished().then_some(PartialTrace { tracks, spans, flow_events })
}

impl PartReader<'_> {
    /// Takes a value that gets so much memory.
    fn take_within<T: for<'d> Deserialize<'d>>(&mut self, memory: usize) -> Option<T> {
        self.budget = self.budget.checked_sub(memory)?;
        self.decoder.take()
    }

    fn take_span(&mut self) -> Option<TraceSpan> {
        let record: SpanRecord = self.take_within(size_of::<TraceSpan>())?;
        let SpanRecord { track, start_ns, end_ns, bytes, flop, .. } = record;
        let kind = *SpanKind::ALL.get(record.kind)?;
        let origin = self.known_origin(record.origin)?;
        let more = (0..record.more).map(|_| self.take_origin()).collect::<Option<_>>()?;
        if start_ns > end_ns || track as usize >= self.tracks {
            return None;
        }
        let rank = self.plan.rank;
        Some(TraceSpan { rank, track, start_ns, end_ns, origin, more, kind, bytes, flop })
    }

    fn take_origin(&mut self) -> Option<InstOrigin> {
        let record = self.take_within(size_of::<InstOrigin>())?;
        self.known_origin(record)
    }

    fn known_origin(&self, record: OriginRecord) -> Option<InstOrigin> {
        let OriginRecord { op, iteration } = record;
        let origin = InstOrigin { op: OpId(op), iteration: IterationId(iteration) };
        self.known.contains(&record).then_some(origin)
    }

    fn take_flow_event(&mut self, spans: usize) -> Option<SpanDependency> {
        let [from, to] = self.take_within::<[usize; 2]>(size_of::<SpanDependency>())?;
        (from < spans && to < spans).then_some(SpanDependency { from, to })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use hostir::lower::{SizeSettings, prepare_program};

    const GATHER: &str = "%HostIrContainer { (T0_g_float[ideviceIdx.x0{2}, iS1{3}] (DeviceMesh{0 1})) -> (T1_g_float[iS2{2}, iS3{3}] (DeviceMesh{0 1})) :
  T1 = ALLOCATE(buffer=T1, mem_type=global, size=6, zero_init=false, resets_to_zero=false)
  Communication 1 (type=Allgather, team=(0 1), input=T0, output=T1, backend=NCCL)
  Wait Communication 1
} // %HostIrContainer
";

    #[test]
    fn parts_come_back_and_damaged_ones_do_not() {
        let prepared = prepare_program(&hostir::load(GATHER).0[0], &SizeSettings::default()).unwrap();
        let model = hostir::plan::cost::CostModel::of_default_machine();
        let trace = hostir::backend::simulation::simulate_run(&prepared, &model).unwrap();
        let mut part = trace.partial_trace(1);
        part.spans[0].more = [part.spans[0].origin].into();
        assert!(!part.flow_events.is_empty());
        let message = pack_trace(&part);
        assert_eq!(unpack_trace(&prepared.plans[1], &message), Some(part));
        for end in 0..message.len() {
            assert_eq!(unpack_trace(&prepared.plans[1], &message[..end]), None, "{end}");
        }
        // No number of a message may lead outside, or allocate memory for missing data.
        for at in (0..message.len()).step_by(8) {
            let mut wrong = message.clone();
            let end = message.len().min(at + 8);
            wrong[at..end].fill(0xff);
            if let Some(part) = unpack_trace(&prepared.plans[1], &wrong) {
                assert!(part.spans.iter().all(|span| span.start_ns <= span.end_ns));
            }
        }
    }
}
