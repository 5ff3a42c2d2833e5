//! Verdicts on programs: what a proof says, and for which sizes, ranks and streams.

use hostir::lower::{SizeSettings, prepare_program};
use hostir::plan::cost::CostModel;
use hostir::verdict::{ProofOutcome, ProofVerdict, judge_program};

fn verdict_of(text: &str, strict: bool) -> ProofVerdict {
    let (programs, diags) = hostir::load(text);
    assert!(!diags.has_errors(), "{diags:?}");
    let sizes = SizeSettings { every: Some(4), streams: 2, ..SizeSettings::default() };
    let prepared = prepare_program(&programs[0], &sizes).expect("sizes are known");
    judge_program(&programs[0], &prepared, &CostModel::of_default_machine(), strict).verdict
}

const COPY: &str = "%HostIrContainer { (T0_g_float[iS0{i0}]) -> (T1_g_float[iS1{i0}]) :
  GetCurrentStream into Stream 0
  SetCurrentStream to Stream 1
  T1_g_float[iS1{i0}] = Set( T0_g_float[iS0{i0}], cache_op=Streaming )
  SetCurrentStream to Stream 0
  Synchronize Stream 1
  Synchronize Stream 1
} // %HostIrContainer
";

#[test]
fn verdicts_say_what_they_hold_for() {
    let lenient = verdict_of(COPY, false);
    assert_eq!((lenient.outcome.word(), lenient.errors, lenient.warnings), ("proved", 0, 1));
    assert_eq!((lenient.ranks, lenient.streams, lenient.sizes.get("i0")), (1, vec![2], Some(&4)));
    let strict = verdict_of(COPY, true);
    assert_eq!((strict.outcome.word(), strict.errors, strict.warnings), ("refused", 1, 0));
}

#[test]
fn deadlocks_hang() {
    let text = "%HostIrContainer { (T0_g_float[iS0{4}] (DeviceMesh{0 1})) -> (T0_g_float[iS0{4}] (DeviceMesh{0 1})) :
  P2PCommunication 1 (type=recv, buffer=T0, peer=( ( rank + 1 ) % 2 ), backend=NCCL)
  Wait Communication 1
} // %HostIrContainer
";
    assert_eq!(verdict_of(text, false).outcome, ProofOutcome::Hangs);
}
