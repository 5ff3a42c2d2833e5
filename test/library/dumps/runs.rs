//! The dumps of the folder `HIR_DUMPS` run on the CPU and agree with plain loops over whole tensors.
#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "failures panic")]

use crate::common::{Case, matmul, sum_axis, transpose};
use crate::dumps;
use hostir::data::HostTensor;

/// A dump with small extents: file, `--set` values, and the expected output of whole inputs.
type Expect = fn(&[HostTensor]) -> Vec<f64>;

fn check(file: &str, set: &[(&str, i64)], expect: Expect) {
    let path = dumps::folder().join(file);
    let text = std::fs::read_to_string(&path).expect("the dump is read");
    let case = Case::new(&text, set);
    let inputs = case.random_inputs();
    let outputs = case.run_whole(&inputs).unwrap_or_else(|text| panic!("{file}: {text}"));
    let expected = expect(&inputs);
    assert_eq!(outputs[0].len(), expected.len(), "{file}");
    for (index, &value) in expected.iter().enumerate() {
        let got = outputs[0].get_f64(index);
        assert!((got - value).abs() <= 1e-3 * value.abs().max(1.0), "{file} [{index}]: {got} {value}");
    }
}

fn all(tensor: &HostTensor) -> Vec<f64> {
    (0..tensor.len()).map(|index| tensor.get_f64(index)).collect()
}

pub(crate) fn sets() {
    for file in ["single_set.hir", "two_sets.hir", "three_sets.hir"] {
        check(file, &[("i0", 5), ("i2", 3)], |inputs| all(&inputs[0]));
    }
}

pub(crate) fn allgathers() {
    check("allgather.hir", &[("i0", 5)], |inputs| all(&inputs[0]));
    check("allgather_p2p.hir", &[("i2", 3)], |inputs| all(&inputs[0]));
}

pub(crate) fn reductions() {
    check("allreduce.hir", &[("i0", 5), ("i3", 3)], |inputs| sum_axis(&inputs[0], 1));
    check("reducescatter.hir", &[("i0", 5), ("i4", 3)], |inputs| sum_axis(&inputs[0], 1));
}

pub(crate) fn matmuls() {
    // A [S, D, M, K] @ B [K, N]
    check("ag_matmul.hir", &[("i0", 3), ("i3", 2), ("i4", 4), ("i6", 5)], |inputs| {
        matmul(&all(&inputs[0]), &all(&inputs[1]), 3 * 8 * 2, 4, 5)
    });
    check("ag_matmul_p2p.hir", &[("i2", 2), ("i3", 4), ("i5", 5)], |inputs| {
        matmul(&all(&inputs[0]), &all(&inputs[1]), 8 * 2, 4, 5)
    });
}

/// `sum over d of a[s, d, .., m, k] @ b[d, k, n]`
fn partial_products(inputs: &[HostTensor]) -> Vec<f64> {
    let (a, b) = (&inputs[0], &inputs[1]);
    let rank = a.shape().len();
    let (streams, devices, k) = (a.shape()[0], a.shape()[1], a.shape()[rank - 1]);
    let n = b.shape()[2];
    let rows: usize = a.shape()[2..rank - 1].iter().product();
    let mut out = vec![0.0; streams * rows * n];
    for s in 0..streams {
        for d in 0..devices {
            for row in 0..rows {
                for column in 0..n {
                    for l in 0..k {
                        let x = a.get_f64(((s * devices + d) * rows + row) * k + l);
                        out[(s * rows + row) * n + column] += x * b.get_f64((d * k + l) * n + column);
                    }
                }
            }
        }
    }
    out
}

pub(crate) fn partial_matmuls() {
    check("matmul_ar.hir", &[("i0", 3), ("i3", 2), ("i4", 4), ("i7", 5)], partial_products);
    check("matmul_rs_through_bcast.hir", &[("i0", 3), ("i4", 2), ("i5", 4), ("i8", 5)], partial_products);
}

pub(crate) fn pipelines() {
    check("reduce_scatter_pipeline.hir", &[], |inputs| sum_axis(&inputs[0], 3).iter().map(|x| x + x).collect());
    check("view_permute.hir", &[], |inputs| transpose(&all(&inputs[0]), 2, 12));
}

pub(crate) fn other_eras() {
    // linear(A, W) + bias
    check("other_eras/2025-01.hir", &[("i0", 3), ("i3", 2), ("i4", 4), ("i5", 5)], |inputs| {
        let w = transpose(&all(&inputs[1]), 5, 4);
        let product = matmul(&all(&inputs[0]), &w, 3 * 8 * 2, 4, 5);
        product.iter().enumerate().map(|(i, x)| x + inputs[2].get_f64(i % 5)).collect()
    });
}

pub(crate) fn ops_that_cannot_run_say_so() {
    for (file, set, code) in [
        ("other_eras/2025-06-kernels.hir", vec![("i0", 4), ("i2", 3)], "H0406"),
        ("other_eras/2026-04-shard-by-stream.hir", vec![("i0", 6)], "H0411"),
    ] {
        let text = std::fs::read_to_string(dumps::folder().join(file)).unwrap();
        let message = Case::new(&text, &set).prepare().err().unwrap_or_default();
        assert!(message.contains(code), "{file}: {message}");
    }
}
