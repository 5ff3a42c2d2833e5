//! Tests of generated kernels: compiled for the host, they compute what the CPU backend computes; and NVRTC compiles
//! them. Neither needs a GPU; both are ignored where the compiler is missing.
#![allow(clippy::panic, clippy::unwrap_used, reason = "failures panic")]
#![allow(clippy::print_stdout, reason = "says how many kernels there are")]

mod cases;
mod chains;
#[path = "../../../../test/library/common/effort.rs"]
mod effort;
#[path = "../../../../test/library/common/fused.rs"]
mod fused;
mod fusion;
mod host;
mod layouts;
#[path = "../../../../test/library/common/needs.rs"]
mod needs;
#[path = "../../../../test/library/common/nvrtc.rs"]
mod nvrtc;
mod pointwise;
#[path = "../../../../test/library/common/pointwise.rs"]
mod table;
mod tables;
mod taken;

use cases::Case;
use hostir::data::HostTensor;
use hostir::plan::{InstKind, RedOp};
use hostir_gpu::codegen::KernelJob;
use std::collections::BTreeSet;

/// Multiprocessors of the device that tests generate for: few, so that small reductions are cut.
const SMS: u32 = 4;

fn main() -> std::process::ExitCode {
    if let Some(code) = nvrtc::again() {
        return code;
    }
    let mut tests = needs::tests![
        host::missing();
        kernels_compute_what_the_cpu_backend_computes,
        pointwise_kernels_give_what_torch_and_numpy_give,
        members_are_combined_in_order,
        indices_out_of_range_read_zeros_and_add_nothing,
        fusion::joined_kernels_run_on_the_host,
    ];
    tests.extend(needs::tests![nvrtc::missing(); nvrtc_compiles_every_kernel]);
    tests.extend(needs::tests![
        None;
        what_cannot_be_generated_is_told,
        nothing_is_launched_for_nothing,
        fusion::joined_kernels_compute_the_same,
        fusion::joined_random_chains_compute_the_same,
        fusion::nothing_moves_across_what_others_see,
    ]);
    needs::run(tests)
}

/// All cases, with how far `float` may be off.
fn all() -> Vec<(Case, f64)> {
    let mut cases = tables::functions();
    cases.extend(tables::reductions());
    cases.extend(layouts::pointwise());
    cases.extend(layouts::copies());
    cases.extend(layouts::fills());
    cases.extend(layouts::reductions());
    cases.extend(layouts::products());
    cases.extend(taken::cases());
    cases
}

fn job(case: &Case) -> KernelJob {
    fused::job(&case.kind, SMS).unwrap_or_else(|reason| panic!("{}: {reason}", case.name))
}

fn kernels_compute_what_the_cpu_backend_computes() {
    let cases = all();
    let jobs: Vec<(&Case, KernelJob)> = cases.iter().map(|(case, _)| (case, job(case))).collect();
    let results = host::run("all", &jobs);
    let check =
        |((case, tolerance), got): (&(Case, f64), &Vec<HostTensor>)| cases::compare(case, got, *tolerance).err();
    let wrong: Vec<String> = cases.iter().zip(&results).filter_map(check).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn pointwise_kernels_give_what_torch_and_numpy_give() {
    let tables = pointwise::cases();
    let jobs: Vec<(&Case, KernelJob)> = tables.iter().map(|rows| (&rows.case, job(&rows.case))).collect();
    let results = host::run("pointwise", &jobs);
    let wrong: Vec<String> = tables.iter().zip(&results).flat_map(|(rows, got)| rows.differences(got)).collect();
    let few: Vec<&str> = wrong.iter().take(40).map(String::as_str).collect();
    assert!(wrong.is_empty(), "{} elements\n{}", wrong.len(), few.join("\n"));
}

fn members_are_combined_in_order() {
    last_buffers("members", &tables::members());
}

fn indices_out_of_range_read_zeros_and_add_nothing() {
    last_buffers("outside", &taken::outside());
}

/// Runs jobs; compares each case's last buffer.
fn last_buffers(name: &str, cases: &[(Case, KernelJob, Vec<f64>)]) {
    let jobs: Vec<(&Case, KernelJob)> = cases.iter().map(|(case, job, _)| (case, job.clone())).collect();
    for ((case, _, expected), got) in cases.iter().zip(host::run(name, &jobs)) {
        let last = got.last().unwrap();
        let got: Vec<f64> = (0..last.len()).map(|index| last.get_f64(index)).collect();
        assert_eq!(&got, expected, "{}", case.name);
    }
}

fn nvrtc_compiles_every_kernel() {
    let mut cases = all();
    // Of the reductions by columns and in parts, those of one operation speak for the others, as
    // do products of one size.
    cases.retain(|(case, _)| match &case.kind {
        InstKind::Reduce(fold) => fold.op.op == RedOp::Sum || (fold.axes[0] == 1 && fold.input.len() < 1000),
        InstKind::Gemm(gemm) => gemm.out.len() > 400,
        _ => true,
    });
    let mut jobs: Vec<KernelJob> = cases.iter().map(|(case, _)| job(case)).collect();
    jobs.extend(tables::members().into_iter().map(|(_, job, _)| job));
    let launches = jobs.iter().flat_map(|job| &job.launches);
    let texts: BTreeSet<&str> = launches.map(|launch| launch.text.as_str()).collect();
    // Every second one: the test program `kernels` compiles those that programs need, and g++ all of these.
    let step = effort::cases("HIR_KERNEL_STEP", 2, 1) as usize;
    let chosen: Vec<&str> = nvrtc::representatives(texts.iter().copied()).into_iter().step_by(step.max(1)).collect();
    println!("{} of {} kernels are compiled", chosen.len(), texts.len());
    nvrtc::compile_all(chosen, 90);
    nvrtc::compile_all(texts.iter().copied().step_by(40), 80);
    nvrtc::compile_all(texts.iter().copied().skip(20).step_by(40), 100);
}

fn what_cannot_be_generated_is_told() {
    for (reason, found) in layouts::refused().into_iter().chain(taken::refused()) {
        assert_eq!(found.err().map(|why| why.to_string()).as_deref(), Some(reason));
    }
}

fn nothing_is_launched_for_nothing() {
    for job in layouts::empty() {
        assert_eq!(job.map(|job| job.launches), Ok(Vec::new()));
    }
}
