//! A rank's part of a timeline as a message, and back.
//!
//! How much a rank did in a run is not known before, so the message goes in pieces, as many as the longest one
//! has, and no rank sends one before rank 0 has all of the last ones. A message that is longer than anything
//! that a plan's instructions can make of it is refused before it is sent.

use super::peers::Peers;
use super::wire::{Put, Take};
use hostir::backend::exchange::{Exchange as _, ExchangeError};
use hostir::backend::trace::{self, Arrow, Part, Slice, SliceKind, Trace};
use hostir::ir::OpId;
use hostir::plan::{IterationId, Origin, Plan, Prepared};
use std::collections::BTreeSet;

/// Bytes of a piece.
const PIECE: usize = super::peers::SMALL;
/// Most bytes of an instruction in a message; a slice has some 100.
const PER_INSTRUCTION: usize = 64 << 10;

/// On rank 0 the timeline of all ranks; the others hand over their parts.
///
/// # Errors
/// Another process's failure, and a part that is none of the rank's plan.
pub(super) fn collect(
    peers: &Peers,
    prepared: &Prepared,
    trace: &Trace,
) -> Result<Option<Trace>, ExchangeError> {
    let own = pack(&trace.part(peers.rank()));
    let pieces: Vec<&[u8]> = own.chunks(PIECE).collect();
    let counts = peers.gather("timeline", &(pieces.len() as u64).to_le_bytes())?;
    let counts = counts
        .iter()
        .zip(&prepared.plans)
        .map(|(bytes, plan)| Take(bytes).number().filter(|count| *count <= most_pieces(plan)));
    let Some(counts) = counts.collect::<Option<Vec<u64>>>() else {
        let why = "a rank's timeline is longer than its plan can make it".to_owned();
        return Err(ExchangeError::Broken { why });
    };
    let mut all = vec![Vec::new(); counts.len()];
    for number in 0..counts.into_iter().max().unwrap_or(0) as usize {
        let piece = pieces.get(number).copied().unwrap_or_default();
        let found = peers.collect("collect timelines", piece)?.unwrap_or_default();
        all.iter_mut().zip(found).for_each(|(whole, piece)| whole.extend(piece));
        peers.gather("next of the timelines", &[])?;
    }
    if peers.rank() != 0 {
        return Ok(None);
    }
    let parts: Vec<Part> = prepared
        .plans
        .iter()
        .zip(&all)
        .map(|(plan, message): (&Plan, &Vec<u8>)| {
            unpack(plan, message).ok_or_else(|| ExchangeError::Broken {
                why: format!(
                    "rank {} handed over a timeline that is none of its plan's",
                    plan.rank
                ),
            })
        })
        .collect::<Result<_, _>>()?;
    Ok(Some(Trace { apart_ns: trace.apart_ns, ..Trace::join(trace.clock, parts) }))
}

/// Most pieces of a rank's timeline.
fn most_pieces(plan: &Plan) -> u64 {
    let bytes = plan.insts.len().saturating_mul(PER_INSTRUCTION).saturating_add(PIECE);
    bytes.div_ceil(PIECE) as u64
}

fn origin(put: Put, origin: &Origin) -> Put {
    put.number(u64::from(origin.op.0)).number(u64::from(origin.iteration.0))
}

/// Slices, then arrows; tracks are those of the plan.
fn pack(part: &Part) -> Vec<u8> {
    let put = Put::default().number(part.slices.len() as u64);
    let put = part
        .slices
        .iter()
        .fold(put, |put: Put, slice: &Slice| {
            let put =
                put.number(u64::from(slice.track)).number(slice.start_ns).number(slice.end_ns);
            let put = put.number(slice.kind as u64).number(slice.bytes).number(slice.flop);
            let put = origin(put, &slice.origin).number(slice.more.len() as u64);
            slice.more.iter().fold(put, origin)
        })
        .number(part.arrows.len() as u64);
    part.arrows
        .iter()
        .fold(put, |put: Put, arrow: &Arrow| put.number(arrow.from as u64).number(arrow.to as u64))
        .0
}

/// `None` for what is no timeline of the plan.
fn unpack(plan: &Plan, message: &[u8]) -> Option<Part> {
    let known = plan.insts.iter().map(|inst| (inst.origin.op.0, inst.origin.iteration.0));
    let known: BTreeSet<(u32, u32)> = known.collect();
    let tracks = trace::tracks(plan);
    let mut take = Take(message);
    let origin = |take: &mut Take<'_>| {
        let place = (u32::try_from(take.number()?).ok()?, u32::try_from(take.number()?).ok()?);
        known
            .contains(&place)
            .then_some(Origin { op: OpId(place.0), iteration: IterationId(place.1) })
    };
    let mut slices = Vec::new();
    for _ in 0..take.number()? {
        let track = u32::try_from(take.number()?).ok()?;
        let (start_ns, end_ns) = (take.number()?, take.number()?);
        let kind = *SliceKind::ALL.get(usize::try_from(take.number()?).ok()?)?;
        let (bytes, flop) = (take.number()?, take.number()?);
        let main = origin(&mut take)?;
        let more = (0..take.number()?).map(|_| origin(&mut take)).collect::<Option<_>>()?;
        if start_ns > end_ns || track as usize >= tracks.len() {
            return None;
        }
        let rank = plan.rank;
        slices.push(Slice { rank, track, start_ns, end_ns, origin: main, more, kind, bytes, flop });
    }
    let mut arrows = Vec::new();
    for _ in 0..take.number()? {
        let (from, to) = (take.number()?, take.number()?);
        let place = |at: u64| usize::try_from(at).ok().filter(|at| *at < slices.len());
        arrows.push(Arrow { from: place(from)?, to: place(to)? });
    }
    take.0.is_empty().then_some(Part { tracks, slices, arrows })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostir::backend::cpu;
    use hostir::plan::{Sizes, prepare};

    const GATHER: &str = "%HostIrContainer { (T0_g_float[ideviceIdx.x0{2}, iS1{3}] (DeviceMesh{0 1})) -> (T1_g_float[iS2{2}, iS3{3}] (DeviceMesh{0 1})) :
  T1 = ALLOCATE(buffer=T1, mem_type=global, size=6, zero_init=false, resets_to_zero=false)
  Communication 1 (type=Allgather, team=(0 1), input=T0, output=T1, backend=NCCL)
  Wait Communication 1
} // %HostIrContainer
";

    #[test]
    fn parts_come_back_and_damaged_ones_do_not() {
        let prepared = prepare(&hostir::load(GATHER).0[0], &Sizes::default()).unwrap();
        let trace = cpu::model(&prepared, &cpu::Rates::default()).unwrap();
        let mut part = trace.part(1);
        part.slices[0].more = [part.slices[0].origin].into();
        assert!(!part.arrows.is_empty());
        let message = pack(&part);
        assert_eq!(unpack(&prepared.plans[1], &message), Some(part));
        for end in 0..message.len() {
            assert_eq!(unpack(&prepared.plans[1], &message[..end]), None, "{end}");
        }
        // No number of a message may lead anywhere else, or take memory that is not there.
        for at in (0..message.len()).step_by(8) {
            let mut wrong = message.clone();
            wrong[at..at + 8].fill(0xff);
            if let Some(part) = unpack(&prepared.plans[1], &wrong) {
                assert!(part.slices.iter().all(|slice| slice.start_ns <= slice.end_ns));
            }
        }
    }
}
