//! Local ops on the CPU against plain loops: products, reductions, shapes, sizes, and programs that are not lowered.
//! `pointwise` has the pointwise functions.

use crate::common::{Case, matmul, transpose};
use hostir::data::HostTensor;
use hostir::ir::DType;
use hostir::lower;

/// A program of one rank: inputs, output and body.
fn program(inputs: &str, output: &str, body: &str) -> Case {
    let text = format!("%HostIrContainer {{ ({inputs}) -> ({output}) :\n{body}}} // %HostIrContainer\n");
    Case::new(&text, &[])
}

fn close(got: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len());
    for (index, (g, e)) in got.iter().zip(expected).enumerate() {
        let same = g == e || (g.is_nan() && e.is_nan());
        assert!(same || (g - e).abs() <= tolerance * e.abs().max(1.0), "[{index}]: {g} {e}");
    }
}

#[test]
fn matmuls_of_every_type() {
    for (dtype, tolerance) in
        [("double", 1e-14), ("float", 1e-6), ("__half", 1e-3), ("__bfloat", 1e-2), ("int", 0.0), ("int64_t", 0.0)]
    {
        let case = program(
            &format!("T0_g_{dtype}[iS0{{3}}, iS1{{4}}], T1_g_{dtype}[iS2{{4}}, iS3{{5}}]"),
            &format!("T2_g_{dtype}[iS4{{3}}, iS5{{5}}, rS6{{4}}]"),
            "  T2\n     = matmul(T0,\n              T1)\n",
        );
        let (inputs, outputs) = case.run();
        close(&outputs[0], &matmul(&inputs[0], &inputs[1], 3, 4, 5), tolerance);
    }
}

#[test]
fn batches_broadcast() {
    // [2, 1, 3, 4] @ [5, 4, 2] -> [2, 5, 3, 2]
    let case = program(
        "T0_g_double[iS0{2}, bS1{1}, iS2{3}, iS3{4}], T1_g_double[iS4{5}, iS5{4}, iS6{2}]",
        "T2_g_double[iS7{2}, iS8{5}, iS9{3}, iS10{2}, rS11{4}]",
        "  T2\n     = matmul(T0,\n              T1)\n",
    );
    let (inputs, outputs) = case.run();
    let mut expected = Vec::new();
    for i in 0..2 {
        for j in 0..5 {
            expected.extend(matmul(&inputs[0][i * 12..][..12], &inputs[1][j * 8..][..8], 3, 4, 2));
        }
    }
    close(&outputs[0], &expected, 1e-14);
}

#[test]
fn vectors_multiply() {
    let dot = program(
        "T0_g_double[iS0{4}], T1_g_double[iS1{4}]",
        "T2_g_double[rS2{4}]",
        "  T2\n     = matmul(T0,\n              T1)\n",
    );
    let (inputs, outputs) = dot.run();
    close(&outputs[0], &matmul(&inputs[0], &inputs[1], 1, 4, 1), 1e-14);
    let right = program(
        "T0_g_double[iS0{3}, iS1{4}], T1_g_double[iS2{4}]",
        "T2_g_double[iS3{3}, rS4{4}]",
        "  T2\n     = matmul(T0,\n              T1)\n",
    );
    let (inputs, outputs) = right.run();
    close(&outputs[0], &matmul(&inputs[0], &inputs[1], 3, 4, 1), 1e-14);
    let left = program(
        "T0_g_double[iS0{4}], T1_g_double[iS1{4}, iS2{5}]",
        "T2_g_double[iS3{5}, rS4{4}]",
        "  T2\n     = matmul(T0,\n              T1)\n",
    );
    let (inputs, outputs) = left.run();
    close(&outputs[0], &matmul(&inputs[0], &inputs[1], 1, 4, 5), 1e-14);
}

#[test]
fn products_with_a_selected_axis_are_strided() {
    let case = program(
        "T0_g_float[iS0{3}, iS1{2}, iS2{4}], T1_g_float[iS3{4}, iS4{5}]",
        "T2_g_float[iS5{3}, iS6{5}, rS7{4}]",
        "  T3_l_float[iS8{3}, iS9{4}]\n     = HirAliasSelect( T0, axis = iS1{2}, index = 1 )\n  T2\n     = matmul(T3,\n              T1)\n",
    );
    let (inputs, outputs) = case.run();
    let a: Vec<f64> = (0..3).flat_map(|i| inputs[0][i * 8 + 4..][..4].to_vec()).collect();
    close(&outputs[0], &matmul(&a, &inputs[1], 3, 4, 5), 1e-6);
}

#[test]
fn linear_adds_its_bias() {
    let case = program(
        "T0_g_float[iS0{3}, iS1{4}], T1_g_float[iS2{5}, iS3{4}], T2_g_float[iS4{5}]",
        "T3_g_float[iS5{3}, iS6{5}, rS7{4}]",
        "  T3\n     = linear(T0,\n              T1      ,\n          T2      )\n",
    );
    let (inputs, outputs) = case.run();
    let product = matmul(&inputs[0], &transpose(&inputs[1], 5, 4), 3, 4, 5);
    let expected: Vec<f64> = product.iter().enumerate().map(|(i, x)| x + inputs[2][i % 5]).collect();
    close(&outputs[0], &expected, 1e-6);
}

#[test]
fn integers_do_not_divide_by_zero() {
    let body = "  T1\n     = T0\n     / 0;\n";
    let text = program("T0_g_int64_t[iS0{9}]", "T1_g_int64_t[iS1{9}]", body).fails();
    assert!(text.contains("H0507") && text.contains("divided by zero"), "{text}");
}

#[test]
fn reductions_of_every_type() {
    type Fold = (&'static str, &'static str, fn(f64, f64) -> f64);
    let folds: [Fold; 4] = [
        ("add", "float(0)", |a, b| a + b),
        ("mul", "float(1)", |a, b| a * b),
        ("fmax", "double(-inf)", f64::max),
        ("fmin", "double(inf)", f64::min),
    ];
    for dtype in ["double", "float", "__half", "__bfloat", "int", "int64_t"] {
        for (word, start, f) in folds {
            let case = program(
                &format!("T0_g_{dtype}[iS0{{2}}, iS1{{3}}, iS2{{4}}]"),
                &format!("T1_g_{dtype}[iS3{{2}}, rS4{{3}}, iS5{{4}}]"),
                &format!("  T1\n     = reduction( T0, op = {word}, initial value = {start}, allreduce = false )\n"),
            );
            let (inputs, outputs) = case.run();
            let at = |i: usize, j: usize, k: usize| inputs[0][(i * 3 + j) * 4 + k];
            let expected: Vec<f64> =
                (0..8).map(|o| (1..3).fold(at(o / 4, 0, o % 4), |all, j| f(all, at(o / 4, j, o % 4)))).collect();
            close(&outputs[0], &expected, 1e-2);
        }
    }
}

#[test]
fn an_unlowered_program_is_plain_math() {
    // A set from sharded to replicated, and a sum over the sharded axis: no communications.
    let case = program(
        "T0_g_float[ideviceIdx.x0{3}, iS1{4}] (DeviceMesh{0 1 2})",
        "T1_g_float[rS2{3}, iS3{4}] (DeviceMesh{1 2})",
        "  T2_l_float[iS4{3}, iS5{4}] (DeviceMesh{1 2})\n     = Set( T0 )\n  T1\n     = reduction( T2, op = add, initial value = float(0), allreduce = false )\n",
    );
    assert!(case.prepare().unwrap().unlowered);
    let (inputs, outputs) = case.run();
    let expected: Vec<f64> = (0..4).map(|i| (0..3).map(|d| inputs[0][d * 4 + i]).sum()).collect();
    close(&outputs[0], &expected, 1e-6);
}

/// Each root of a Reduce may add up in another order; other programs' replicas have equal bits.
#[test]
fn replicas_of_several_roots_may_round_differently() {
    let reduce = |root: u32| {
        format!(
            "  T1 = ALLOCATE(buffer=T1, mem_type=global, size=3, zero_init=false, resets_to_zero=false)
  Communication {root} (type=Reduce, team=(0 1), red_op=sum, root={root}, input=T0, output=T1, backend=NCCL)
  Wait Communication {root}
"
        )
    };
    let gather = "  T1 = ALLOCATE(buffer=T1, mem_type=global, size=3, zero_init=false, resets_to_zero=false)
  Communication 0 (type=Allreduce, team=(0 1), red_op=sum, input=T0, output=T1, backend=NCCL)
  Wait Communication 0
";
    let agree = |body: &str, x: f32, y: f32| {
        let case = program(
            "T0_g_float[ideviceIdx.x0{2}, iS1{3}] (DeviceMesh{0 1})",
            "T1_g_float[rS2{2}, iS3{3}] (DeviceMesh{0 1})",
            body,
        );
        let part = |rank: u32, last: f32| {
            let mut part = HostTensor::zeros(DType::Float, &[3]);
            [4.0, -4.0, last].iter().enumerate().for_each(|(at, v)| part.set_f64(at, f64::from(*v)));
            (rank, part)
        };
        lower::assemble_output(&case.prepare().unwrap(), 0, vec![part(0, x), part(1, y)]).is_ok()
    };
    let roots = reduce(0) + &reduce(1);
    let next = f32::from_bits(1f32.to_bits() + 2);
    assert!(agree(&roots, 1.0, next) && agree(&roots, 1e-7, 3e-7));
    assert!(!agree(&roots, 1.0, 1.0001) && !agree(&roots, 1.0, f32::NAN));
    // What is not finite is the same or wrong, and makes nothing else right.
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    assert!(agree(&roots, inf, inf) && agree(&roots, nan, nan));
    for (x, y) in [(inf, 1.0), (1.0, inf), (inf, -inf), (inf, nan), (1e30, 99.0)] {
        assert!(!agree(&roots, x, y), "{x} {y}");
    }
    assert!(agree(gather, 1.0, 1.0) && !agree(gather, 1.0, next));
    // One root, and copies, which add up in team order.
    assert!(!agree(&reduce(1), 1.0, next));
    assert!(!agree(&roots.replace("=NCCL", "=CUDA"), 1.0, next));
}

#[test]
fn sizes_are_asked_for_by_name() {
    let text = "%HostIrContainer { (T0_g_float[iS0{i0}, iS1{i2}]) -> (T1_g_float[iS2{i0}, iS3{i2}]) :\n  T1\n     = Set( T0 )\n} // %HostIrContainer\n";
    let message = Case::new(text, &[("i0", 3)]).prepare().err().unwrap();
    assert!(message.contains("H0401") && message.contains("--set i2=8") && !message.contains("--set i0"), "{message}");
    let message = Case::new(text, &[("i0", -1), ("i2", 1)]).prepare().err().unwrap();
    assert!(message.contains("a size must not be negative"), "{message}");
    let empty = Case::new(text, &[("i0", 0), ("i2", 1)]).prepare().unwrap();
    assert_eq!(empty.outputs[0].whole_shape(), vec![0, 1]);
    let message = Case::new(text, &[("i0", i64::MAX), ("i2", 4)]).prepare().err().unwrap();
    assert!(message.contains("H0404"), "{message}");
    let message = Case::new(text, &[("i0", 3), ("i2", 4), ("j", 1)]).prepare().err().unwrap();
    assert!(message.contains("`--set j=1` does not name an extent"), "{message}");
}

#[test]
fn meshes_fix_extents_and_the_number_of_ranks() {
    let text = "%HostIrContainer { (T0_g_float[ideviceIdx.x0{i0}] (DeviceMesh{0 1 3})) -> (T1_g_float[ideviceIdx.x1{i0}] (DeviceMesh{0 1 3})) :\n  T1\n     = Set( T0 )\n} // %HostIrContainer\n";
    let prepared = Case::new(text, &[]).prepare().unwrap();
    assert_eq!((prepared.ranks, prepared.inputs[0].whole_shape()), (4, vec![3]));
    let message = Case::new(text, &[("i0", 8)]).prepare().err().unwrap();
    assert!(message.contains("H0402"), "{message}");
    let message = Case::new(text, &[]).devices(2).prepare().err().unwrap();
    assert!(message.contains("H0405") && message.contains("needs 4 devices"), "{message}");
}
