//! Measures planning and proof of large programs: time and peak memory of each.
//!
//! `cargo run --release -p hostir-test --example proof_scale -- ring|rows|FILE [RANKS] [ITERATIONS]`

use hostir::lower::{SizeSettings, prepare_program};
use hostir::plan::PlanLimits;
use hostir::plan_checks::prove_program;
use std::time::Instant;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let text = std::fs::read_to_string(&arguments[0]).expect("a program");
    let (programs, _) = hostir::load(&text);
    let mut sizes = SizeSettings::default();
    sizes.limits = PlanLimits { bytes: 1 << 40, time: None };
    let began = Instant::now();
    let prepared = prepare_program(&programs[0], &sizes).expect("a plan");
    let planned = began.elapsed();
    let insts: usize = prepared.plans.iter().map(|plan| plan.inst_count()).sum();
    println!("{insts} instructions: planned in {planned:?}, peak {} MB", peak_megabytes());
    let began = Instant::now();
    let report = prove_program(&prepared);
    println!(
        "proved in {:?}, peak {} MB, {} errors {} warnings",
        began.elapsed(),
        peak_megabytes(),
        report.errors.len(),
        report.warnings.len()
    );
}

fn peak_megabytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
}
