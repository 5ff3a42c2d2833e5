//! Kernels over views of many layouts: slices, permutations, repetition, odd starts, in place.

use crate::cases::{Case, Memory, TYPES, part, permuted, repeated};
use hostir::ir::DType;
use hostir::plan::{
    BufferView, Function, GemmInst, InstKind, KernelStep, PointwiseKernel, RedOp, ReduceInst, ReductionFold,
    ScalarValue, StepOperand, row_major,
};
use hostir_gpu::codegen::{self, KernelJob};
use hostir_gpu::unsupported::Unsupported;
use smallvec::{SmallVec, smallvec};

/// `output = function(inputs)` in the output's type.
fn kernel(function: Function, inputs: &[BufferView], output: &BufferView) -> InstKind {
    let step = KernelStep {
        function,
        args: (0..inputs.len() as u32).map(StepOperand::Input).collect(),
        compute: output.dtype,
        result: output.dtype,
    };
    let inputs = inputs.iter().cloned().collect();
    InstKind::Kernel(Box::new(PointwiseKernel { inputs, output: output.clone(), steps: vec![step] }))
}

const RANGE: [f64; 2] = [-3.0, 3.0];

pub(crate) fn pointwise() -> Vec<(Case, f64)> {
    let mut cases = Vec::new();
    for (from, to) in [
        (DType::Half, DType::Float),
        (DType::Float, DType::BFloat16),
        (DType::Double, DType::Int32),
        (DType::Bool, DType::Double),
        (DType::Int, DType::Half),
        (DType::Float, DType::Bool),
        (DType::Float8E4M3, DType::BFloat16),
        (DType::Float8E5M2, DType::Half),
        (DType::Float, DType::Float8E4M3),
        (DType::Float8E5M2, DType::Float8E4M3),
        (DType::Float, DType::Int8),
        (DType::Double, DType::UInt16),
        (DType::Float, DType::UInt64),
        (DType::Int8, DType::UInt64),
        (DType::Int32, DType::UInt8),
        (DType::UInt64, DType::Half),
        (DType::UInt32, DType::Int16),
        (DType::UInt64, DType::Int),
        (DType::Float, DType::Float4E2M1),
        (DType::Float4E2M1, DType::Half),
    ] {
        let mut memory = Memory::default();
        let input = memory.random(from, &[40, 56], RANGE);
        let output = memory.random(to, &[56, 40], RANGE);
        let step =
            KernelStep { function: Function::Cast, args: smallvec![StepOperand::Input(0)], compute: from, result: to };
        let inputs = smallvec![permuted(&input, &[1, 0])];
        let kind = InstKind::Kernel(Box::new(PointwiseKernel { inputs, output, steps: vec![step] }));
        cases.push((memory.case(format!("transposed {} to {}", from.name(), to.name()), kind), 0.0));
    }
    cases.extend(two_operands());
    cases.push((iota(), 0.0));
    cases
}

/// Sums of two operands in layouts that differ.
fn two_operands() -> Vec<(Case, f64)> {
    let mut cases = Vec::new();
    let mut add = |name: &str, dtype: DType, views: &dyn Fn(&mut Memory) -> [BufferView; 3]| {
        let mut memory = Memory::default();
        let [a, b, output] = views(&mut memory);
        assert_eq!((a.dtype, b.dtype), (dtype, dtype));
        cases.push((memory.case(name, kernel(Function::Add, &[a, b], &output)), 1e-6));
    };
    let float = DType::Float;
    add("rows plus a column", float, &|m| {
        let (a, b) = (m.random(float, &[12, 64], RANGE), m.random(float, &[12], RANGE));
        [a, repeated(&b, 1, 64), m.random(float, &[12, 64], RANGE)]
    });
    add("rows plus a row", DType::Half, &|m| {
        let half = DType::Half;
        let (a, b) = (m.random(half, &[3, 5, 64], RANGE), m.random(half, &[64], RANGE));
        let b = repeated(&repeated(&b, 0, 5), 0, 3);
        [a, b, m.random(half, &[3, 5, 64], RANGE)]
    });
    add("in place", float, &|m| {
        let (a, b) = (m.random(float, &[1000], RANGE), m.random(float, &[1000], RANGE));
        [a.clone(), b, a]
    });
    add("in place, crosswise", float, &|m| {
        let (a, b) = (m.random(float, &[40, 40], RANGE), m.random(float, &[40, 40], RANGE));
        [a.clone(), permuted(&b, &[1, 0]), a]
    });
    add("slices with odd starts", float, &|m| {
        let (a, b) = (m.random(float, &[9, 33], RANGE), m.random(float, &[9, 40], RANGE));
        let out = m.random(float, &[9, 35], RANGE);
        [part(&a, 1, 1, 32), part(&b, 1, 4, 32), part(&out, 1, 3, 32)]
    });
    add("two columns of one matrix", float, &|m| {
        let (a, b) = (m.random(float, &[20, 8], RANGE), m.random(float, &[20, 4], RANGE));
        [part(&a, 1, 0, 4), b, part(&a, 1, 4, 4)]
    });
    add("many elements", float, &|m| {
        let shape = [1_100_000];
        let (a, b) = (m.random(float, &shape, RANGE), m.random(float, &shape, RANGE));
        [a, b, m.random(float, &shape, RANGE)]
    });
    add("one element", DType::Double, &|m| {
        let mut one = || m.random(DType::Double, &[], RANGE);
        [one(), one(), one()]
    });
    cases
}

/// `start + index * step` along both axes of a result that lies crosswise.
fn iota() -> Case {
    let mut memory = Memory::default();
    let output = memory.random(DType::Float, &[24, 36], RANGE);
    let output = permuted(&output, &[1, 0]);
    let (float, step) = (DType::Float, StepOperand::Const(ScalarValue::Float(0.5)));
    let binary = |function, a, b| KernelStep { function, args: smallvec![a, b], compute: float, result: float };
    let steps = vec![
        binary(Function::Mul, StepOperand::Index(0), step),
        binary(Function::Sub, StepOperand::Step(0), StepOperand::Index(1)),
    ];
    let inputs = SmallVec::new();
    memory.case("indices", InstKind::Kernel(Box::new(PointwiseKernel { inputs, output, steps })))
}

pub(crate) fn copies() -> Vec<(Case, f64)> {
    let mut cases = Vec::new();
    let mut add = |dtype: DType, shape: &[usize], order: &[usize]| {
        let mut memory = Memory::default();
        let src = memory.random(dtype, shape, RANGE);
        let src = permuted(&src, order);
        let dst = memory.random(dtype, &src.shape(), RANGE);
        let name = format!("copy of {} {shape:?} as {order:?}", dtype.name());
        cases.push((memory.case(name, InstKind::Copy { src: Box::new(src), dst: Box::new(dst) }), 0.0));
    };
    for dtype in TYPES {
        add(dtype, &[67, 45], &[1, 0]);
        add(dtype, &[64, 128], &[1, 0]);
        add(dtype, &[3, 5, 32], &[1, 0, 2]);
        add(dtype, &[100], &[0]);
    }
    add(DType::Float, &[40, 3, 20], &[2, 1, 0]);
    add(DType::Half, &[6, 40, 34], &[0, 2, 1]);
    add(DType::Float, &[20, 30, 4], &[1, 0, 2]);
    add(DType::Float, &[7, 3, 2, 5], &[3, 1, 0, 2]);
    add(DType::Float, &[50, 4], &[1, 0]);
    for (dtype, start) in [(DType::Float, 4), (DType::Float, 1), (DType::Bool, 2)] {
        let mut memory = Memory::default();
        let (src, dst) = (memory.random(dtype, &[9, 48], RANGE), memory.random(dtype, &[9, 64], RANGE));
        let (src, dst) = (part(&src, 1, start, 32), part(&dst, 1, 8, 32));
        let name = format!("slice of {} from {start}", dtype.name());
        cases.push((memory.case(name, InstKind::Copy { src: Box::new(src), dst: Box::new(dst) }), 0.0));
    }
    let mut memory = Memory::default();
    let src = memory.random(DType::Float, &[3, 16], RANGE);
    let dst = memory.random(DType::Float, &[3, 4, 16], RANGE);
    let src = repeated(&src, 1, 4);
    cases.push((memory.case("repeated rows", InstKind::Copy { src: Box::new(src), dst: Box::new(dst) }), 0.0));
    cases.extend(bindings());
    cases
}

/// Layouts that a session's callers bind: parts of larger tensors, in any order of axes and with any start, copied
/// to and from gap-free memory.
fn bindings() -> Vec<(Case, f64)> {
    let mut cases = Vec::new();
    for dtype in [DType::Float, DType::Half, DType::Double, DType::Bool] {
        for (start, order) in [(0, [0, 1, 2]), (1, [0, 1, 2]), (3, [2, 0, 1]), (4, [1, 2, 0])] {
            for out in [false, true] {
                let mut memory = Memory::default();
                let whole = memory.random(dtype, &[5, 12, 40], RANGE);
                let theirs = permuted(&part(&part(&whole, 2, start, 24), 1, 2, 8), &order);
                let ours = memory.random(dtype, &theirs.shape(), RANGE);
                let name = format!("{} from {start} as {order:?}, out: {out}", dtype.name());
                let (src, dst) = if out { (ours, theirs) } else { (theirs, ours) };
                cases.push((memory.case(name, InstKind::Copy { src: Box::new(src), dst: Box::new(dst) }), 0.0));
            }
        }
    }
    cases
}

pub(crate) fn fills() -> Vec<(Case, f64)> {
    let mut cases = Vec::new();
    for dtype in TYPES {
        for value in [ScalarValue::Float(-1.25), ScalarValue::Int(300), ScalarValue::Bool(true)] {
            let mut memory = Memory::default();
            let dst = memory.random(dtype, &[6, 40], RANGE);
            let name = format!("fill of {} with {value}", dtype.name());
            let dst = part(&dst, 1, 3, 33);
            cases.push((memory.case(name, InstKind::Fill { dst: Box::new(dst), value }), 0.0));
        }
        let mut memory = Memory::default();
        let dst = memory.random(dtype, &[6, 48], RANGE);
        let value = ScalarValue::Float(f64::INFINITY);
        let name = format!("fill of {} with infinity", dtype.name());
        cases.push((memory.case(name, InstKind::Fill { dst: Box::new(dst), value }), 0.0));
    }
    cases
}

/// Sums along any axes of inputs in any order of memory.
pub(crate) fn reductions() -> Vec<(Case, f64)> {
    let mut cases = Vec::new();
    let mut add = |dtype: DType, shape: &[usize], order: &[usize], axes: &[usize]| {
        let mut memory = Memory::default();
        let input = memory.random(dtype, shape, RANGE);
        let input = permuted(&input, order);
        let kept: Vec<usize> = (0..order.len()).filter(|a| !axes.contains(a)).map(|a| input.dims[a].extent).collect();
        let output = memory.random(dtype, &kept, RANGE);
        let name = format!("sum of {} {shape:?} as {order:?} along {axes:?}", dtype.name());
        let (op, axes) = (RedOp::Sum.into(), axes.into());
        cases.push((memory.case(name, InstKind::Reduce(Box::new(ReduceInst { op, axes, input, output }))), 2e-5));
    };
    let float = DType::Float;
    add(float, &[4, 6, 5], &[0, 1, 2], &[0, 1, 2]);
    add(float, &[4, 6, 5], &[0, 1, 2], &[0, 2]);
    add(float, &[4, 6, 5], &[0, 1, 2], &[1]);
    add(float, &[4, 6, 5], &[2, 0, 1], &[1]);
    add(float, &[8, 16, 32], &[2, 1, 0], &[0]);
    add(float, &[8, 16, 32], &[2, 1, 0], &[2]);
    add(float, &[8, 16, 32], &[1, 0, 2], &[0, 1]);
    add(float, &[5, 1, 3], &[0, 1, 2], &[1]);
    add(float, &[2, 5000], &[0, 1], &[1]);
    add(float, &[3, 4001], &[0, 1], &[1]);
    add(float, &[300, 3], &[0, 1], &[1]);
    add(float, &[40, 100, 4], &[0, 1, 2], &[0, 2]);
    add(float, &[3000, 3, 5], &[0, 1, 2], &[0]);
    add(float, &[50, 1000, 6], &[0, 1, 2], &[1]);
    add(float, &[100_003], &[0], &[0]);
    add(DType::Half, &[16, 64], &[1, 0], &[1]);
    add(DType::Half, &[16, 1024], &[0, 1], &[1]);
    add(DType::BFloat16, &[2000, 64], &[0, 1], &[0]);
    add(DType::Double, &[7, 33], &[1, 0], &[0]);
    cases.push((slice_sum(), 1e-5));
    cases.extend(initial_values());
    cases
}

/// Reductions that start from a value: by rows and columns, in parts, and of one element each.
fn initial_values() -> Vec<(Case, f64)> {
    let mut cases = Vec::new();
    for dtype in [DType::Float, DType::Half, DType::Double, DType::Int, DType::Int32] {
        for op in [RedOp::Sum, RedOp::Product, RedOp::Min, RedOp::Max] {
            for (shape, axis) in [([3, 7], 1), ([7, 3], 0), ([2, 5000], 1), ([3, 1], 1)] {
                let mut memory = Memory::default();
                let input = memory.random(dtype, &shape, [0.99, 1.01]);
                let output = memory.random(dtype, &[shape[1 - axis]], RANGE);
                let name = format!("{} of {} {shape:?} from 3", op.word(), dtype.name());
                let op = ReductionFold { op, initial: Some(ScalarValue::Int(3)) };
                let kind = InstKind::Reduce(Box::new(ReduceInst { op, axes: smallvec![axis], input, output }));
                cases.push((memory.case(name, kind), 2e-5));
            }
        }
    }
    cases
}

/// The sum of a slice with an odd start, into a slice, of repeated elements.
fn slice_sum() -> Case {
    let mut memory = Memory::default();
    let input = memory.random(DType::Float, &[9, 41], RANGE);
    let output = memory.random(DType::Int32, &[2, 9, 2], RANGE);
    let input = repeated(&part(&input, 1, 3, 36), 1, 3);
    let output = part(&part(&output, 2, 1, 1), 0, 1, 1);
    let output = BufferView { dims: output.dims[1..2].into(), ..output };
    let (op, axes) = (RedOp::Sum.into(), smallvec![1, 2]);
    memory.case("sum of a slice", InstKind::Reduce(Box::new(ReduceInst { op, axes, input, output })))
}

pub(crate) fn products() -> Vec<(Case, f64)> {
    let mut cases = Vec::new();
    for dtype in TYPES {
        for (m, n, k) in [(70, 65, 33), (1, 5, 20), (3, 4, 0)] {
            let mut memory = Memory::default();
            let mut matrix = |rows, columns| memory.random(dtype, &[rows, columns], [-1.0, 1.0]);
            let (a, b, bias, out) = (matrix(m, k), matrix(n, k), matrix(1, n), matrix(m, n));
            let name = format!("product of {} {m} x {n} x {k}", dtype.name());
            let mut bias = bias;
            bias.dims[0] = hostir::plan::ViewDim { extent: m, stride: 0 };
            let b = permuted(&b, &[1, 0]);
            let kind = InstKind::Gemm(Box::new(GemmInst { a, b, bias: Some(bias), scales: None, out }));
            cases.push((memory.case(name, kind), 2e-5));
        }
    }
    let mut memory = Memory::default();
    let a = memory.random(DType::Float, &[2, 10, 6], RANGE);
    let b = memory.random(DType::Float, &[3, 6, 8], RANGE);
    let out = memory.random(DType::Float, &[10, 2, 3, 8], RANGE);
    let (a, b) = (repeated(&a, 1, 3), repeated(&b, 0, 2));
    let out = permuted(&out, &[1, 2, 0, 3]);
    let kind = InstKind::Gemm(Box::new(GemmInst { a, b, bias: None, scales: None, out }));
    cases.push((memory.case("batched product", kind), 2e-5));
    cases.push((scaled_product(), 2e-5));
    cases
}

/// A product with scales that lie apart, one for each row and column, and a bias.
fn scaled_product() -> Case {
    let mut memory = Memory::default();
    let a = memory.random(DType::Float8E4M3, &[2, 70, 33], RANGE);
    let b = memory.random(DType::Float8E5M2, &[2, 33, 5], RANGE);
    let gapped = part(&memory.random(DType::Float, &[2, 70, 3], RANGE), 2, 1, 1);
    let rows = BufferView { dims: gapped.dims[..2].into(), ..gapped };
    let columns = memory.random(DType::Float, &[5], RANGE);
    let bias = memory.random(DType::Half, &[2, 70, 5], RANGE);
    let out = memory.random(DType::Float, &[2, 70, 5], RANGE);
    let scales = [repeated(&rows, 2, 5), repeated(&repeated(&columns, 0, 70), 0, 2)];
    let gemm = GemmInst { a, b, bias: Some(bias), scales: Some(Box::new(scales)), out };
    memory.case("scaled product", InstKind::Gemm(Box::new(gemm)))
}

/// Jobs that cannot be generated, each with the reason.
pub(crate) fn refused() -> Vec<(&'static str, Result<KernelJob, Unsupported>)> {
    let mut memory = Memory::default();
    let float = memory.random(DType::Float, &[8, 8], RANGE);
    let complex = memory.random(DType::ComplexFloat, &[8, 8], RANGE);
    let crosswise = permuted(&float, &[1, 0]);
    let pointwise = |function, view: &BufferView| match kernel(function, std::slice::from_ref(view), view) {
        InstKind::Kernel(kernel) => codegen::generate_pointwise(&kernel),
        _ => Ok(KernelJob::default()),
    };
    let row = BufferView { dims: row_major(&[8]), ..float.clone() };
    vec![
        ("an op whose result overlaps its operand in memory", codegen::generate_copy(&float, &crosswise)),
        (
            "an op whose result overlaps its operand in memory",
            codegen::generate_reduction(RedOp::Sum, &[0], &float, &row, 4),
        ),
        ("`~` of `float`", pointwise(Function::BitNot, &float)),
        ("elements of type `std::complex<float>`", pointwise(Function::Neg, &complex)),
        ("the reduction `band` of `float`", codegen::generate_reduction(RedOp::And, &[0], &float, &row, 4)),
        (
            "a result whose elements share memory",
            codegen::generate_copy(&float, &{
                let out = memory.random(DType::Float, &[8], RANGE);
                repeated(&out, 0, 8)
            }),
        ),
    ]
}

/// Jobs of views without elements.
pub(crate) fn empty() -> Vec<Result<KernelJob, Unsupported>> {
    let mut memory = Memory::default();
    let none = memory.random(DType::Float, &[0, 4], RANGE);
    let other = memory.random(DType::Float, &[0, 4], RANGE);
    let row = memory.random(DType::Float, &[0], RANGE);
    vec![
        codegen::generate_copy(&none, &other),
        codegen::generate_fill(&none, ScalarValue::Int(1)),
        codegen::generate_reduction(RedOp::Sum, &[1], &none, &row, 4),
        codegen::generate_member_fold(RedOp::Sum, &[none.clone(), none], &other),
    ]
}
