//! Prints the kernels of large GEMMs, a line of JSON each, for `tools/benchmark gemm-kernels`. Each line of the
//! input is a GEMM: `m n k`, then 1 if the left factor is stored by columns, and 1 if the right one is stored by
//! rows, and optionally the number of parts, products of this shape with one right factor. Elements are bfloat16, or of half
//! precision if the argument is `f16`.
#![allow(clippy::print_stdout, reason = "an example's output")]

use hostir_gpu::codegen::wgmma_gemm::{TiledMatrix, WgmmaGemm};
use hostir_gpu::gemm_shape::{GemmShape, MatrixElement};

/// Multiprocessors of an H100 or H200.
const MULTIPROCESSORS: u32 = 132;

fn main() {
    let is_half = std::env::args().nth(1).is_some_and(|word| word == "f16");
    let element = if is_half { MatrixElement::F16 } else { MatrixElement::Bf16 };
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [m, n, k, left_by_column, right_by_row, ref parts @ ..] = numbers[..] else { continue };
        let parts = parts.first().and_then(|parts| u32::try_from(*parts).ok()).unwrap_or(1);
        let transposed = [left_by_column == 1, right_by_row == 0];
        let shape = GemmShape::dense(element, [m, n, k], transposed);
        for kernel in WgmmaGemm::candidates(&GemmShape { parts, remote: parts > 1, ..shape }) {
            let matrices = kernel.matrices.map(|TiledMatrix { extents, row_bytes, box_extents, .. }| {
                format!("{{\"extents\": {extents:?}, \"row_bytes\": {row_bytes}, \"box\": {box_extents:?}}}")
            });
            println!(
                "{{\"product\": {numbers:?}, \"tile\": {:?}, \"blocks\": {}, \"shared_bytes\": {}, \"matrices\": [{}], \"source\": {:?}}}",
                kernel.tile_name(),
                kernel.blocks(MULTIPROCESSORS),
                kernel.shared_bytes(),
                matrices.join(", "),
                kernel.source()
            );
        }
    }
}
