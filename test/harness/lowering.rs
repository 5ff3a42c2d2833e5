//! Lowering keeps the meaning: random annotated programs, lowered through random pipelines, compute what
//! the plain math of the program computes.
//!
//! `HIR_PROGRAMS=20000 cargo test -p hostir-test --test lowering` runs that many programs, `HIR_SEED=7`
//! starts elsewhere. A failure prints the program and the pipeline.

mod lowering {
    //! Programs and runs.
    pub(crate) mod generate;
    pub(crate) mod run;
}

use lowering::generate::{Generated, program};
use lowering::run::{Outcome, compare};

/// Programs of an ordinary test run.
const QUICK: u64 = 300;

/// Pipelines that lower; each also runs with general passes behind it. `{}` stands for options.
const PIPELINES: &[&str] = &[
    "host-ir-lower{}",
    "host-ir-lower{}",
    "host-ir-lower{}",
    "propagate-shardings,insert-reshardings,reorder-sharded-axis,make-resharding-contiguous,convert-op-to-communication",
    "insert-reshardings,stream-parallel-type{},convert-op-to-communication",
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
];

/// Passes behind the lowering.
const TAILS: &[&str] = &["", ",canonicalize", ",cse", ",dce", ",canonicalize,cse,dce"];

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
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

#[test]
#[allow(clippy::print_stdout, reason = "says how many programs were lowered")]
fn lowered_programs_compute_the_same() {
    let (count, seed) = (number("HIR_PROGRAMS", QUICK), number("HIR_SEED", 1));
    let (mut lowered, mut refused) = (0, 0);
    for index in 0..count {
        let mut rng = fastrand::Rng::with_seed(seed.wrapping_mul(1 << 32).wrapping_add(index));
        let generated: Generated = program(&mut rng);
        let head = PIPELINES[rng.usize(..PIPELINES.len())];
        let head = head.replace("{}", &options(&mut rng));
        let pipeline = format!("{head}{}", TAILS[rng.usize(..TAILS.len())]);
        let streams = [1, 3, 8][rng.usize(..3)];
        match compare(&generated, &pipeline, streams, rng.bool()) {
            Outcome::Equal => lowered += 1,
            Outcome::Refused => refused += 1,
            Outcome::Wrong(text) => {
                panic!(
                    "program {index} of seed {seed}, pipeline {pipeline}, {streams} streams\n{text}\n{}",
                    generated.text
                )
            }
        }
    }
    println!("{lowered} programs lowered and compared, {refused} refused with an error");
    assert!(lowered * 4 >= count, "only {lowered} of {count} programs could be lowered");
}
