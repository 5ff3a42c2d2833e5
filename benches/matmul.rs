//! `cargo bench --bench matmul -- N`: milliseconds of a float matmul of N x N matrices (2048) on the CPU backend, the
//! least of ten runs. Reading, planning and data are not timed.

#![allow(clippy::print_stdout, clippy::expect_used, reason = "a measurement")]

use hostir::data::HostTensor;
use hostir::ir::DType;
use hostir::lower;
use hostir::lower::SizeSettings;
use std::time::Instant;

const PROGRAM: &str = "%HostIrContainer { (T0_g_float[iS0{i0}, iS1{i1}], T1_g_float[iS2{i1}, iS3{i2}]) -> (T2_g_float[iS4{i0}, iS5{i2}, rS6{i1}]) :
  T2_g_float[iS4{i0}, iS5{i2}, rS6{i1}]
     = matmul(T0_g_float[iS0{i0}, iS1{i1}],
              T1_g_float[iS2{i1}, iS3{i2}])
} // %HostIrContainer
";

/// Whole numbers from -2 to 2, whose products and sums are exact.
fn matrix(size: usize, seed: usize) -> HostTensor {
    let mut tensor = HostTensor::zeros(DType::Float, &[size, size]);
    for index in 0..tensor.len() {
        tensor.set_f64(index, ((index * 7 + index / size + seed) % 5) as f64 - 2.0);
    }
    tensor
}

fn main() {
    let size: usize = std::env::args().find_map(|text| text.parse().ok()).unwrap_or(2048);
    let (mut programs, _) = hostir::load(PROGRAM);
    let set = ["i0", "i1", "i2"].map(|name| (name.to_owned(), size as i64)).into();
    let sizes = SizeSettings { set, ..SizeSettings::default() };
    let prepared = lower::prepare_program(&programs.remove(0), &sizes).expect("the program is sound");
    let (a, b) = (matrix(size, 0), matrix(size, 3));
    let mut least = f64::INFINITY;
    for _ in 0..10 {
        let inputs = vec![vec![a.clone(), b.clone()]];
        let start = Instant::now();
        let result = hostir::backend::cpu::run_plans(&prepared, inputs).expect("the program runs");
        least = least.min(start.elapsed().as_secs_f64());
        let out = result.outputs[0][0].as_ref().expect("the output is there");
        let expected: f64 = (0..size).map(|k| a.get_f64(size + k) * b.get_f64(k * size + 2)).sum();
        assert!(out.get_f64(size + 2) == expected, "element [1, 2] is wrong");
    }
    println!("{:.3}", least * 1e3);
}
