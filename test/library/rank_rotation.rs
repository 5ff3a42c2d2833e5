//! Plans that differ by a rotation of the ranks: a proof walks one of them, and finds what it finds on all.

#![allow(clippy::panic, reason = "failures panic")]

use hostir::lower::{PreparedProgram, SizeSettings, prepare_program};
use hostir::plan_checks::{are_rotations, prove_program};

/// The steps of all ranks together: so many that a proof walks one rank in place of all.
const STEPS_OF_ALL: usize = 640;

const STATEMENTS: &[&str] = &[
    "SetCurrentStream to Stream ( ( i0 % 2 ) + 1 )",
    "Synchronize Stream 0",
    "T4_g_float[iS6{4}] MESH\n     = HirAliasSelect( T2, axis = iS4{SLOTS}, index = FROM )",
    "T5_g_float[iS7{4}] MESH\n     = HirAliasSelect( T2, axis = iS4{SLOTS}, index = TO )",
    "StartCoalescing",
    "P2PCommunication 20 (type=recv, buffer=T5, peer=( ( rank + 1 ) % RANKS ), backend=NCCL)",
    "P2PCommunication 21 (type=send, buffer=T4, peer=( ( rank + ( RANKS - 1 ) ) % RANKS ), backend=NCCL)",
    "EndCoalescing 22",
    "Wait Communication 22",
    "SetCurrentStream to Stream 0",
    "Synchronize Stream ( ( i0 % 2 ) + 1 )",
];

/// A block that goes round a ring of `ranks`, step by step through `slots` (0: as many as ranks, from the rank's own
/// on), without one statement of the loop.
fn ring_program(ranks: usize, slots: usize, without: Option<usize>) -> String {
    let (from, to, count) = match slots {
        0 => ("( ( rank + i0 ) % RANKS )", "( ( ( rank + i0 ) + 1 ) % RANKS )", ranks),
        _ => ("( i0 % SLOTS )", "( ( i0 + 1 ) % SLOTS )", slots),
    };
    let first = if slots == 0 { "rank" } else { "0" };
    let last = if slots == 0 { "( ( rank + STEPS ) % RANKS )" } else { "( STEPS % SLOTS )" };
    let body = STATEMENTS.iter().enumerate().filter(|(at, _)| Some(*at) != without);
    let body: String = body.map(|(_, statement)| format!("    {statement}\n")).collect();
    let text = format!(
            "%HostIrContainer {{ (T0_g_float[ideviceIdx.x0{{RANKS}}, iS1{{4}}] MESH) -> (T1_g_float[ideviceIdx.x2{{RANKS}}, iS3{{4}}] MESH) :
  T2_g_float[iS4{{SLOTS}}, iS5{{4}}] MESH = ALLOCATE(buffer=T2, mem_type=global, size=( SLOTS * 4 ), zero_init=true, resets_to_zero=false)
  T1 = ALLOCATE(buffer=T1, mem_type=global, size=( 4 * RANKS ), zero_init=false, resets_to_zero=false)
  T10_g_float[iS20{{4}}] MESH
     = HirAliasSelect( T2, axis = iS4{{SLOTS}}, index = {first} )
  T11_g_float[iS21{{4}}] MESH
     = HirAliasSelect( T0, axis = ideviceIdx.x0{{RANKS}}, index = 0 )
  T10
     = Set( T11, cache_op=Streaming )
  GetCurrentStream into Stream 0
  FOR i0 from 0 to STEPS step 1:
{body}  T12_g_float[iS22{{4}}] MESH
     = HirAliasSelect( T2, axis = iS4{{SLOTS}}, index = {last} )
  T13_g_float[iS23{{4}}] MESH
     = HirAliasSelect( T1, axis = ideviceIdx.x2{{RANKS}}, index = 0 )
  T13
     = Set( T12, cache_op=Streaming )
}} // %HostIrContainer
"
        );
    let mesh: Vec<String> = (0..ranks).map(|rank| rank.to_string()).collect();
    text.replace("FROM", from)
        .replace("TO", to)
        .replace("MESH", &format!("(DeviceMesh{{{}}})", mesh.join(" ")))
        .replace("SLOTS", &count.to_string())
        .replace("RANKS", &ranks.to_string())
        .replace("STEPS", &STEPS_OF_ALL.div_ceil(ranks).to_string())
}

fn prepared(text: &str) -> Option<PreparedProgram> {
    let (programs, _) = hostir::load(text);
    prepare_program(programs.first()?, &SizeSettings::default()).ok()
}

/// The codes and lines of a proof's errors.
fn verdict(prepared: &PreparedProgram) -> Vec<(&'static str, u32)> {
    let errors = prove_program(prepared).errors.into_iter();
    errors.map(|error| (error.code, error.primary.map_or(0, |label| label.span.start))).collect()
}

#[test]
fn one_rank_gives_the_verdict_of_all() {
    let mut wrong = 0;
    for ranks in [2, 3, 4, 8, 16] {
        for slots in [0, 2, 3] {
            for without in std::iter::once(None).chain((0..STATEMENTS.len()).map(Some)) {
                let Some(mut prepared) = prepared(&ring_program(ranks, slots, without)) else { continue };
                assert!(are_rotations(&prepared.plans), "{ranks} ranks, {slots} slots, without {without:?}");
                let of_one = verdict(&prepared);
                // An event that nothing records: the plans are no rotations of each other, and all of them are walked.
                prepared.plans[0].events += 1;
                assert!(!are_rotations(&prepared.plans));
                let of_all = verdict(&prepared);
                assert_eq!(of_one, of_all, "{ranks} ranks, {slots} slots, without {without:?}");
                assert!(without.is_some() || of_all.is_empty(), "{of_all:?}");
                wrong += usize::from(!of_all.is_empty());
            }
        }
    }
    assert!(wrong > 50, "{wrong} wrong programs");
}

#[test]
fn ranks_that_do_something_else_are_no_rotation() {
    let text = ring_program(4, 2, None);
    let replaced = |from: &str, to: &str| prepared(&text.replace(from, to)).expect("a plan");
    assert!(!are_rotations(&replaced("( ( rank + 1 ) % 4 )", "( 3 - rank )").plans));
    assert!(!are_rotations(&replaced("index = ( i0 % 2 )", "index = ( ( i0 * rank ) % 2 )").plans));
    assert!(!are_rotations(&replaced("( ( i0 % 2 ) + 1 )", "( ( ( i0 * rank ) % 2 ) + 1 )").plans));
}
