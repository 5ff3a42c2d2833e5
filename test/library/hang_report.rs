//! Reports of runs that did not end: which rank holds up the others, and where the others wait.

#![allow(clippy::panic, clippy::unwrap_used, reason = "what is shared by tests fails as tests do")]

use hostir::diag::{Diag, codes};
use hostir::ir::{Id, MessageDirection};
use hostir::lower::{SizeSettings, prepare_program};
use hostir::plan::InstId;
use hostir::plan_checks::{RankPosition, RankProgress, report_hang};

/// A ring of four ranks, two steps of an exchange and a sum.
const RING: &str = "%HostIrContainer { (T0_g_float[ideviceIdx.x0{4}, iS1{8}] (DeviceMesh{0 1 2 3})) -> (T1_g_float[ideviceIdx.x2{4}, iS3{8}] (DeviceMesh{0 1 2 3})) :
  T1 = ALLOCATE(buffer=T1, mem_type=global, size=32, zero_init=false, resets_to_zero=false)
  FOR i from 0 to 2:
    P2PCommunication 1 (type=send, buffer=T0, peer=( ( rank + 1 ) % 4 ), backend=CUDA)
    P2PCommunication 2 (type=recv, buffer=T1, peer=( ( rank + 3 ) % 4 ), backend=CUDA)
    Wait Communication 2
    Wait Communication 1
} // %HostIrContainer
";

fn report(positions: &[RankProgress]) -> Diag {
    let (programs, _) = hostir::load(RING);
    let prepared = prepare_program(&programs[0], &SizeSettings::default()).expect("sizes are known");
    let error = Diag::global_error(codes::TIMEOUT, "the run did not finish within 500 ms");
    let positions: Vec<RankPosition> =
        positions.iter().zip(0..).map(|(&progress, rank)| RankPosition { rank, progress }).collect();
    report_hang(&prepared, error, &positions)
}

/// The second receive of each rank, by the number of the instruction.
fn receive(step: usize) -> InstId {
    let (programs, _) = hostir::load(RING);
    let prepared = prepare_program(&programs[0], &SizeSettings::default()).expect("sizes are known");
    let receives = prepared.plans[0].cursor().filter(|(_, inst)| inst.kind.is_message(MessageDirection::Recv));
    receives.map(|(id, _)| id).nth(step).expect("two steps")
}

#[test]
fn the_rank_that_holds_up_the_others_is_named() {
    let at = RankProgress::At(receive(1));
    let alloc = RankProgress::At(InstId::new(0));
    let diag = report(&[alloc, at, at, at]);
    assert_eq!(
        diag.message,
        "the run did not finish within 500 ms: rank 0 holds up the others: it is in `T1 = ALLOCATE`"
    );
    let label = diag.primary.expect("a place");
    assert_eq!(label.text, "rank 0 is here");
    assert_eq!(diag.labels[0].text, "ranks 1 to 3 wait here");
    assert_eq!(diag.notes[0], "rank 0 is in `T1 = ALLOCATE`");
    assert_eq!(diag.notes.len(), 2, "{:?}", diag.notes);
}

#[test]
fn ranks_at_one_place_are_one_note() {
    let at = RankProgress::At(receive(1));
    let diag = report(&[RankProgress::OwnWork, RankProgress::Ended, RankProgress::Unknown, at]);
    assert!(diag.message.ends_with(": rank 2 holds up the others: it is at an unknown op"), "{}", diag.message);
    let diag = report(&[RankProgress::Unknown; 4]);
    assert_eq!(diag.notes, ["ranks 0 to 3 are at an unknown op"]);
    assert!(diag.primary.is_none());
}
