//! The forms of a library's GEMM: biases, batches and transposed factors.

use super::*;
use crate::plan::BufferId;

/// A view of a buffer by extents and strides.
fn view(dtype: DType, dims: &[[usize; 2]]) -> BufferView {
    let dims = dims.iter().map(|&[extent, stride]| ViewDim { extent, stride }).collect();
    BufferView { buffer: BufferId(0), dtype, offset: 0, dims }
}

fn gemm(dtype: DType, bias: Option<&[[usize; 2]]>) -> GemmInst {
    GemmInst {
        a: view(dtype, &[[2, 12], [4, 3], [3, 1]]),
        b: view(dtype, &[[2, 15], [3, 5], [5, 1]]),
        bias: bias.map(|dims| view(dtype, dims)),
        scales: None,
        out: view(dtype, &[[2, 20], [4, 5], [5, 1]]),
    }
}

#[test]
fn a_bias_is_a_row_or_a_straight_matrix() {
    let row: &[[usize; 2]] = &[[2, 0], [4, 0], [5, 1]];
    let found = LibraryGemm::of_gemm(&gemm(DType::Half, Some(row))).expect("the epilogue adds a row");
    assert_eq!(found.bias, LibraryBias::Row);
    assert_eq!((found.batch.extent, found.outer.len()), (2, 0));
    // The library has no epilogue for `double`, nor another row for each matrix of a batch.
    assert!(!is_library_gemm(&gemm(DType::Double, Some(row))));
    assert!(!is_library_gemm(&gemm(DType::Half, Some(&[[2, 5], [4, 0], [5, 1]]))));
    let matrix: &[[usize; 2]] = &[[2, 20], [4, 5], [5, 1]];
    for dtype in [DType::Half, DType::Double] {
        assert!(is_library_gemm(&gemm(dtype, Some(matrix))), "{dtype:?}");
    }
    assert!(!is_library_gemm(&gemm(DType::Half, Some(&[[2, 20], [4, 1], [5, 4]]))), "a transposed bias");
}

#[test]
fn calls_have_one_batch_axis() {
    let mut inst = gemm(DType::Float, None);
    // Batches of 3 x 2 that do not continue each other.
    let outer = [inst.a.clone(), inst.b.clone(), inst.out.clone()].map(|mut view| {
        view.dims.insert(0, ViewDim { extent: 3, stride: 100 });
        view
    });
    [inst.a, inst.b, inst.out] = outer;
    let found = LibraryGemm::of_gemm(&inst).expect("a call for each index of the outer axis");
    assert_eq!(found.batch.extent, 2);
    let offsets: Vec<usize> = found.call_offsets().iter().map(|offsets| offsets[3]).collect();
    assert_eq!(offsets, [0, 100, 200]);
}

#[test]
fn factors_may_be_transposed_and_results_not() {
    let mut inst = gemm(DType::Float, None);
    inst.b = view(DType::Float, &[[2, 15], [3, 1], [5, 3]]);
    let found = LibraryGemm::of_gemm(&inst).expect("the library transposes factors");
    assert_eq!(found.factors.map(|order| order.is_turned), [true, false]);
    inst.out = view(DType::Float, &[[2, 20], [4, 1], [5, 4]]);
    assert!(!is_library_gemm(&inst));
}
