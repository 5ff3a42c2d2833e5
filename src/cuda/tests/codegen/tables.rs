//! Every function and every reduction operation, for every type.

use crate::cases::{Case, Memory, TYPES, repeated};
use hostir::ir::DType;
use hostir::plan::{
    BufferView, Function, InstKind, KernelStep, PointwiseKernel, RedOp, ReduceInst, ScalarValue, StepOperand,
};
use hostir_gpu::codegen::{self, KernelJob};
use smallvec::smallvec;

/// The functions of a type: one kernel for each number of operands, whose result's row `n` is function
/// `n`.
pub(crate) fn functions() -> Vec<(Case, f64)> {
    let mut cases = Vec::new();
    for dtype in TYPES {
        for operands in [1, 2, 3] {
            let known: Vec<Function> = Function::ALL
                .iter()
                .copied()
                .filter(|function| function.row().is_computed() && function.row().arity == operands)
                .filter(|function| !(dtype.is_float() && function.needs_integers()))
                .filter(|&function| !(dtype == DType::Bool && function == Function::Lgamma))
                // It makes complex numbers, which kernels do not have.
                .filter(|&function| function != Function::Complex)
                .collect();
            let name = format!("functions of {operands} {}", dtype.name());
            cases.push((table(name, dtype, &known, operands), 1e-5));
        }
    }
    cases
}

/// Operands: ordinary numbers and, for reals, what is hard. No second operand is 0 among integers, which
/// the CPU backend refuses to divide by.
fn operand(memory: &mut Memory, dtype: DType, place: usize) -> BufferView {
    let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 1.0, 0.5, 1.5, 2.5, -2.5];
    // An odd number: one element an access, so that a kernel of all functions stays small.
    let count = special.len() * special.len() + 21;
    let number = |index: usize| match (dtype.is_float(), place) {
        (true, 0) => special.get(index % special.len()).copied(),
        (true, _) => special.get(index / special.len()).copied(),
        (false, 0) => Some(index as f64 - 60.0),
        (false, _) => Some([1.0, -1.0, 2.0, 3.0, -7.0, 64.0, 5.0, 62.0][index % 8]),
    };
    let values: Vec<f64> = (0..count)
        .map(|index| number(index).unwrap_or((index as f64 * 0.37 + place as f64).sin() * 3.0))
        .map(|value| if dtype == DType::Bool && place > 0 { 1.0 } else { value })
        .map(|value| if dtype.is_unsigned() { value.abs() } else { value })
        .collect();
    memory.values(dtype, &values)
}

fn table(name: String, dtype: DType, functions: &[Function], operands: usize) -> Case {
    let mut memory = Memory::default();
    let rows = functions.len();
    let inputs: Vec<BufferView> = (0..operands).map(|place| operand(&mut memory, dtype, place)).collect();
    let count = inputs[0].len();
    let output = memory.random(dtype, &[rows, count], [0.0, 1.0]);
    let step =
        |function, args: &[StepOperand], compute, result| KernelStep { function, args: args.into(), compute, result };
    let mut steps = Vec::new();
    let mut last = StepOperand::Input(0);
    for (row, &function) in functions.iter().enumerate() {
        let args: Vec<StepOperand> = (0..operands as u32).map(StepOperand::Input).collect();
        let at = steps.len() as u32;
        steps.push(step(function, &args, dtype, dtype));
        let number = StepOperand::Const(ScalarValue::Int(row as i64));
        steps.push(step(Function::Eq, &[StepOperand::Index(0), number], DType::Int, DType::Bool));
        let choice = [StepOperand::Step(at + 1), StepOperand::Step(at), last];
        steps.push(step(Function::Where, &choice, dtype, dtype));
        last = StepOperand::Step(at + 2);
    }
    let inputs = inputs.iter().map(|view| repeated(view, 0, rows)).collect();
    memory.case(name, InstKind::Kernel(Box::new(PointwiseKernel { inputs, output, steps })))
}

const OPS: [RedOp; 10] = [
    RedOp::Sum,
    RedOp::Product,
    RedOp::Min,
    RedOp::Max,
    RedOp::FMin,
    RedOp::FMax,
    RedOp::And,
    RedOp::Or,
    RedOp::Xor,
    RedOp::Avg,
];

/// Returns true if an operation supports a type.
fn takes(op: RedOp, dtype: DType) -> bool {
    !dtype.is_float() || !matches!(op, RedOp::And | RedOp::Or | RedOp::Xor)
}

/// Every operation on every type, by rows and by columns; in parts for sums and maxima.
pub(crate) fn reductions() -> Vec<(Case, f64)> {
    let mut cases = Vec::new();
    for dtype in TYPES {
        for op in OPS.into_iter().filter(|&op| takes(op, dtype)) {
            let long = matches!(op, RedOp::Sum | RedOp::Max | RedOp::FMax);
            let shapes: &[([usize; 2], usize)] = match long {
                true => &[([3, 70], 1), ([70, 12], 0), ([1, 70000], 1), ([9000, 8], 0)],
                false => &[([3, 70], 1), ([70, 12], 0)],
            };
            for &(shape, axis) in shapes {
                cases.push((reduction(op, dtype, shape, axis), 2e-5));
            }
        }
    }
    cases
}

fn reduction(op: RedOp, dtype: DType, shape: [usize; 2], axis: usize) -> Case {
    let mut memory = Memory::default();
    let range = match (op, dtype) {
        (_, DType::Bool) => [0.0, 1.0],
        (RedOp::Product, _) => [0.9, 1.2],
        _ => [-2.0, 2.0],
    };
    let input = memory.random(dtype, &shape, range);
    if dtype.is_float() && matches!(op, RedOp::Max | RedOp::FMin | RedOp::FMax) {
        memory.buffers[0].set_f64(shape[1] * (shape[0] - 1) + 3, f64::NAN);
    }
    let output = memory.random(dtype, &[shape[1 - axis]], [0.0, 1.0]);
    let name = format!("{} of {} {shape:?} along {axis}", op.word(), dtype.name());
    memory.case(name, InstKind::Reduce(Box::new(ReduceInst { op: op.into(), axes: smallvec![axis], input, output })))
}

/// Combinations of three members, with what they must give.
pub(crate) fn members() -> Vec<(Case, KernelJob, Vec<f64>)> {
    let mut cases = Vec::new();
    let rows: [[f64; 4]; 3] = [[1.0, 2.0, 3.0, 1.0], [4.0, -2.0, 1.0, 1.0], [1.0, 0.0, 8.0, 1.0]];
    // `__e8m0` has no negative numbers and no 3, `__e2m1` no 8.
    let whole = |dtype: &DType| !matches!(dtype, DType::Bool | DType::Float8E8M0 | DType::Float4E2M1);
    for dtype in TYPES.into_iter().filter(whole) {
        for op in OPS.into_iter().filter(|&op| takes(op, dtype)) {
            let mut memory = Memory::default();
            let rows = rows.map(|row| row.map(|value| if dtype.is_unsigned() { value.abs() } else { value }));
            let inputs: Vec<BufferView> = rows.iter().map(|row| memory.values(dtype, row)).collect();
            let output = memory.values(dtype, &[0.0; 4]);
            let expected = (0..4).map(|at| combined(op, dtype, rows.map(|row| row[at]))).collect();
            let job = codegen::generate_member_fold(op, &inputs, &output).unwrap();
            let name = format!("{} of members of {}", op.word(), dtype.name());
            let unused = InstKind::GroupBegin;
            let case = memory.case(name, unused);
            let expected: Vec<f64> = expected;
            cases.push((case, job, rounded(dtype, &expected)));
        }
    }
    cases
}

fn combined(op: RedOp, dtype: DType, values: [f64; 3]) -> f64 {
    let fold = |f: fn(f64, f64) -> f64| values.into_iter().reduce(f).unwrap();
    let bits = |f: fn(i64, i64) -> i64| values.map(|x| x as i64).into_iter().reduce(f).unwrap();
    match op {
        RedOp::Sum => fold(|a, b| a + b),
        RedOp::Product => fold(|a, b| a * b),
        RedOp::Min | RedOp::FMin => fold(f64::min),
        RedOp::Max | RedOp::FMax => fold(f64::max),
        RedOp::And => bits(|a, b| a & b) as f64,
        RedOp::Or => bits(|a, b| a | b) as f64,
        RedOp::Xor => bits(|a, b| a ^ b) as f64,
        RedOp::Avg if dtype.is_float() => fold(|a, b| a + b) / 3.0,
        RedOp::Avg => (fold(|a, b| a + b) / 3.0).trunc(),
    }
}

fn rounded(dtype: DType, values: &[f64]) -> Vec<f64> {
    let mut tensor = hostir::data::HostTensor::zeros(dtype, &[values.len()]);
    for (index, &value) in values.iter().enumerate() {
        tensor.set_f64(index, value);
    }
    (0..values.len()).map(|index| tensor.get_f64(index)).collect()
}
