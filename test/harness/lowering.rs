//! Lowering keeps the meaning: random annotated programs, lowered through random pipelines, compute what
//! the plain math of the program computes: values of one input, and by a proof, all that there are.
//!
//! `HIR_PROGRAMS=20000 cargo test -p hostir-test --test properties lowering` runs that many programs, `HIR_SEED=7`
//! starts elsewhere. A failure prints the program and the pipeline.

pub(crate) mod generate;
mod loops;
mod meaning;
mod numbers;
mod overlap;
pub(crate) mod run;

use crate::effort;
use generate::{Generated, program};
use run::{Outcome, compare, compare_ranks, resize, resized};
use std::collections::BTreeMap;

/// Pipelines that lower; each also runs with general passes after it. `{}` stands for options.
const PIPELINES: &[&str] = &[
    "host-ir-lower{}",
    "host-ir-lower{}",
    "host-ir-lower{}",
    "propagate-shardings,insert-reshardings,reorder-sharded-axis,make-resharding-contiguous,convert-op-to-communication",
    "insert-reshardings,stream-parallel-type{},convert-op-to-communication",
    "decompose-reshardings,segment-host-units,stream-parallel-type{},convert-op-to-communication",
    "decompose-reshardings{insert_resharding_after=true},segment-host-units,stream-parallel-type{},convert-op-to-communication",
    "propagate-shardings,decompose-reshardings,reorder-sharded-axis,make-resharding-contiguous,convert-op-to-communication",
    "insert-reshardings",
    "propagate-shardings,insert-reshardings,finalize-multidevice-domains,segment-host-units",
    "stream-parallel-type{},convert-op-to-communication",
    "stream-parallel-type{},convert-op-to-communication",
    "convert-op-to-communication",
];

/// Options of the loops over streams.
const OPTIONS: &[&[&str]] = &[
    &["split_initial_sync=false"],
    &["merge=graph", "merge=graph", "merge=adjacent"],
    &["allgather=ring", "allgather=broadcast", "allgather=pairwise"],
    &["matmul_reduce_scatter=p2p", "matmul_reduce_scatter=reduce"],
    &["inter_stream_synchronization=true"],
    &["communicator_backend=CUDA", "communicator_backend=CUDA", "communicator_backend=UCC"],
    &["p2p_protocol=put"],
    &["p2p_stream=own"],
    &["own_part=last"],
];

/// Passes after the lowering.
const TAILS: &[&str] = &[
    "",
    ",canonicalize",
    ",cse",
    ",dce",
    ",canonicalize,cse,dce",
    ",ring-stream-buffers",
    ",canonicalize,cse,dce,ring-stream-buffers",
    ",allocate-and-deallocate",
    ",insert-deallocations",
];

/// Some axis of some tensor in chunks: often one that the program does not have, or that does not split.
fn chunk(rng: &mut fastrand::Rng, generated: &Generated) -> String {
    let (tensor, axis, factor) = (rng.usize(..4), rng.usize(..2), rng.i64(1..=3));
    // Whether extents by name split is known when the program runs only.
    let splits = generated.set.values().all(|value| value % factor == 0);
    let factor = if splits { factor } else { 1 };
    let parallel = ["serial", "stream"][rng.usize(..2)];
    format!("chunk{{axis=T{tensor}.{axis},factor={factor},parallel={parallel}}}")
}

/// Some options, each given in four of ten cases.
fn options(rng: &mut fastrand::Rng) -> String {
    let mut given = Vec::new();
    for values in OPTIONS {
        if rng.usize(..10) < 4 {
            given.push(values[rng.usize(..values.len())]);
        }
    }
    if given.is_empty() { String::new() } else { format!("{{{}}}", given.join(",")) }
}

/// A pipeline that lowers, with random options and passes after it.
pub(crate) fn random_pipeline(rng: &mut fastrand::Rng) -> String {
    let head = PIPELINES[rng.usize(..PIPELINES.len())];
    let head = head.replace("{}", &options(rng));
    format!("{head}{}", TAILS[rng.usize(..TAILS.len())])
}

#[test]
#[allow(clippy::print_stdout, reason = "says how many programs were lowered")]
fn lowered_programs_compute_the_same() {
    let (count, seed) = (effort::cases("HIR_PROGRAMS", 300, 20_000), effort::number("HIR_SEED").unwrap_or(1));
    let (mut lowered, mut refused) = (0, BTreeMap::<&str, u64>::new());
    for index in 0..count {
        let mut rng = fastrand::Rng::with_seed(seed.wrapping_mul(1 << 32).wrapping_add(index));
        let mut generated: Generated = program(&mut rng);
        let head = PIPELINES[rng.usize(..PIPELINES.len())];
        let mut head = head.replace("{}", &options(&mut rng));
        let mut tail = TAILS[rng.usize(..TAILS.len())];
        // What dce removes may be the last to say how long a loop is that only synchronizes any more.
        if generated.own_names && tail.contains("dce") {
            tail = ",canonicalize,cse";
        }
        // For another number of devices: resized and then lowered, or the other way round.
        let (devices, late) = (rng.usize(1..=5), rng.bool());
        // What is lowered for one device may hold ops that need lowering again for several.
        let late = late && !generated.text.contains("(DeviceMesh{0})");
        if rng.usize(..4) == 0
            && let Some(other) = resized(&generated, devices, late)
        {
            generated = other;
            if late {
                // Before the general passes: those may drop ops that tie an axis to the devices.
                head = format!("{head},{}", resize(devices));
            }
        }
        if rng.usize(..4) == 0 {
            head = format!("{},{head}", chunk(&mut rng, &generated));
        }
        let pipeline = format!("{head}{tail}");
        let streams = [1, 3, 8][rng.usize(..3)];
        match compare(&generated, &pipeline, streams, rng.bool()) {
            Outcome::Equal => lowered += 1,
            Outcome::Refused(code) => *refused.entry(code).or_default() += 1,
            Outcome::Wrong(text) => {
                let lowers = generated.lowers.as_deref().unwrap_or_default();
                panic!(
                    "program {index} of seed {seed}, pipeline {pipeline}, {streams} streams\n{text}\n{}\n{lowers}",
                    generated.text
                )
            }
        }
    }
    let count_refused: u64 = refused.values().sum();
    println!("{lowered} programs lowered and compared, {count_refused} refused with an error");
    println!("{refused:?}");
    assert!(lowered * 4 >= count, "only {lowered} of {count} programs could be lowered");
}

/// `rank=R`: the programs of all ranks compute together what the program for all ranks does.
#[test]
fn programs_of_single_ranks_compute_the_same_together() {
    let (count, seed) = (effort::cases("HIR_PROGRAMS", 300, 20_000), effort::number("HIR_SEED").unwrap_or(1));
    let mut lowered = 0;
    for index in 0..count {
        let mut rng = fastrand::Rng::with_seed(seed.wrapping_mul(1 << 33).wrapping_add(index));
        let generated = program(&mut rng);
        // What a rank does not compute may be the last to say how large its tensors are.
        if generated.own_names {
            continue;
        }
        match compare_ranks(&generated) {
            None => {}
            Some(Ok(())) => lowered += 1,
            Some(Err(text)) => panic!("program {index} of seed {seed}\n{text}\n{}", generated.text),
        }
    }
    assert!(lowered > count / 5, "only {lowered} of {count} programs were lowered");
}
