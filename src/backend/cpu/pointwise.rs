//! Pointwise functions.

use super::fault::ExecutionFault;
use super::lanes::{ComputeClass, ElementVector, require_compute_class};
use super::storage::RankMemory;
use crate::ir::DType;
use crate::plan::real::{f32_1, f32_2, f32_3, f64_1, f64_2, f64_3, test_f64};
use crate::plan::{Function, KernelStep, Plan, PointwiseKernel, StepOperand};

/// Runs a kernel's steps over its whole index space.
pub(super) fn run_kernel(memory: &mut RankMemory, plan: &Plan, kernel: &PointwiseKernel) -> Result<(), ExecutionFault> {
    let mut inputs = Vec::new();
    for view in &kernel.inputs {
        inputs.push(ElementVector::load_view(memory, plan, view)?);
    }
    let mut results: Vec<ElementVector> = Vec::new();
    for step in &kernel.steps {
        let mut args = Vec::new();
        for arg in &step.args {
            args.push(load_argument(kernel, step, *arg, &inputs, &results)?);
        }
        results.push(apply_step(step, args)?);
    }
    match results.pop() {
        Some(last) => last.store_view(memory, plan, &kernel.output),
        None => Ok(()),
    }
}

fn load_argument(
    kernel: &PointwiseKernel,
    step: &KernelStep,
    arg: StepOperand,
    inputs: &[ElementVector],
    results: &[ElementVector],
) -> Result<ElementVector, ExecutionFault> {
    let wide = require_compute_class(step.compute)?;
    Ok(match arg {
        StepOperand::Input(index) => inputs[index as usize].clone(),
        StepOperand::Step(index) => results[index as usize].clone(),
        StepOperand::Const(value) => {
            let float = matches!(value, crate::plan::ScalarValue::Float(_));
            let keep = if float && wide == ComputeClass::I64 { ComputeClass::F64 } else { wide };
            ElementVector::splat(value, keep, kernel.output.len())
        }
        StepOperand::Index(axis) => {
            let shape = kernel.output.shape();
            let inner: usize = shape[axis as usize + 1..].iter().product();
            let extent = shape[axis as usize];
            let along = |flat: usize| ((flat / inner.max(1)) % extent.max(1)) as i64;
            ElementVector::I64((0..kernel.output.len()).map(along).collect())
        }
    })
}

/// One function of whole lanes.
fn apply_step(step: &KernelStep, mut args: Vec<ElementVector>) -> Result<ElementVector, ExecutionFault> {
    let wide = require_compute_class(step.compute)?;
    match (step.function, args.len()) {
        (Function::Identity | Function::Cast, 1) => return args.remove(0).rounded_to(step.result),
        (Function::Where, 3) => return select_elements(step, args),
        (Function::Not, 1) => {
            let truths = args[0].nonzero_mask();
            return ElementVector::I64(truths.into_iter().map(|x| i64::from(!x)).collect()).rounded_to(step.result);
        }
        (Function::And | Function::Or, 2) => {
            let (a, b) = (args[0].nonzero_mask(), args[1].nonzero_mask());
            let and = step.function == Function::And;
            let one = |(a, b): (bool, bool)| i64::from(if and { a && b } else { a || b });
            return ElementVector::I64(a.into_iter().zip(b).map(one).collect()).rounded_to(step.result);
        }
        _ => {}
    }
    let real_only = wide == ComputeClass::I64 && !returns_integer(step.function);
    let wide = if real_only { ComputeClass::F64 } else { wide };
    let args: Vec<ElementVector> = args.into_iter().map(|lanes| lanes.into_class(wide)).collect();
    let result = match args.as_slice() {
        [ElementVector::F64(a)] => apply_reals(step.function, a, f64_1, test_f64)?,
        [ElementVector::F32(a)] => apply_floats(step.function, a)?,
        [ElementVector::I64(a)] => apply_integers(step, a)?,
        [ElementVector::F64(a), ElementVector::F64(b)] => apply_real_pairs(step.function, a, b)?,
        [ElementVector::F32(a), ElementVector::F32(b)] => apply_float_pairs(step.function, a, b)?,
        [ElementVector::I64(a), ElementVector::I64(b)] => apply_integer_pairs(step, a, b)?,
        [ElementVector::F64(a), ElementVector::F64(b), ElementVector::F64(c)] => {
            ElementVector::F64(apply_triples(f64_3(step.function), step.function, [a, b, c])?)
        }
        [ElementVector::F32(a), ElementVector::F32(b), ElementVector::F32(c)] => {
            ElementVector::F32(apply_triples(f32_3(step.function), step.function, [a, b, c])?)
        }
        [ElementVector::I64(a), ElementVector::I64(b), ElementVector::I64(c)] => {
            ElementVector::I64(clamp_integers(step.function, a, b, c)?)
        }
        _ => return Err(unknown_function(step.function)),
    };
    result.rounded_to(step.result)
}

fn unknown_function(function: Function) -> ExecutionFault {
    ExecutionFault::Invalid(format!("`{}` cannot run on this type", function.name()))
}

fn select_elements(step: &KernelStep, mut args: Vec<ElementVector>) -> Result<ElementVector, ExecutionFault> {
    let wide = require_compute_class(step.result)?;
    let b = args.remove(2).into_class(wide);
    let a = args.remove(1).into_class(wide);
    let condition = args.remove(0).nonzero_mask();
    Ok(match (a, b) {
        (ElementVector::F64(a), ElementVector::F64(b)) => ElementVector::F64(choose_elements(&condition, &a, &b)),
        (ElementVector::F32(a), ElementVector::F32(b)) => ElementVector::F32(choose_elements(&condition, &a, &b)),
        (ElementVector::I64(a), ElementVector::I64(b)) => ElementVector::I64(choose_elements(&condition, &a, &b)),
        _ => return Err(unknown_function(Function::Where)),
    })
}

fn choose_elements<T: Copy>(condition: &[bool], a: &[T], b: &[T]) -> Vec<T> {
    condition.iter().zip(a.iter().zip(b)).map(|(&c, (&a, &b))| if c { a } else { b }).collect()
}

/// Returns true if a function of integers yields an integer or a truth value.
fn returns_integer(function: Function) -> bool {
    use Function as F;
    matches!(
        function,
        F::Neg
            | F::BitNot
            | F::Add
            | F::Sub
            | F::Mul
            | F::Div
            | F::Mod
            | F::Remainder
            | F::Shl
            | F::Shr
            | F::Eq
            | F::Ne
            | F::Ge
            | F::Gt
            | F::Le
            | F::Lt
            | F::BitAnd
            | F::BitOr
            | F::BitXor
            | F::Max
            | F::Min
            | F::FMax
            | F::FMin
            | F::CeilDiv
            | F::Gcd
            | F::Pow
            | F::Abs
            | F::Relu
            | F::Clamp
            | F::Threshold
            | F::Ceil
            | F::Floor
            | F::Round
            | F::Trunc
    )
}

/// A comparison, if it is one.
fn comparison_function<T: PartialOrd>(function: Function) -> Option<fn(&T, &T) -> bool> {
    Some(match function {
        Function::Eq => |a, b| a == b,
        Function::Ne => |a, b| a != b,
        Function::Ge => |a, b| a >= b,
        Function::Gt => |a, b| a > b,
        Function::Le => |a, b| a <= b,
        Function::Lt => |a, b| a < b,
        _ => return None,
    })
}

type RealFunction = fn(Function) -> Option<fn(f64) -> f64>;
type RealPredicate = fn(Function) -> Option<fn(f64) -> bool>;

fn apply_reals(
    function: Function,
    a: &[f64],
    one: RealFunction,
    test: RealPredicate,
) -> Result<ElementVector, ExecutionFault> {
    if let Some(f) = one(function) {
        return Ok(ElementVector::F64(a.iter().map(|&x| f(x)).collect()));
    }
    let test = test(function).ok_or_else(|| unknown_function(function))?;
    Ok(ElementVector::I64(a.iter().map(|&x| i64::from(test(x))).collect()))
}

fn apply_floats(function: Function, a: &[f32]) -> Result<ElementVector, ExecutionFault> {
    if let Some(f) = f32_1(function) {
        return Ok(ElementVector::F32(a.iter().map(|&x| f(x)).collect()));
    }
    let test = test_f64(function).ok_or_else(|| unknown_function(function))?;
    Ok(ElementVector::I64(a.iter().map(|&x| i64::from(test(f64::from(x)))).collect()))
}

fn compare_elements<T: PartialOrd>(function: Function, a: &[T], b: &[T]) -> Option<ElementVector> {
    let test = comparison_function::<T>(function)?;
    Some(ElementVector::I64(a.iter().zip(b).map(|(a, b)| i64::from(test(a, b))).collect()))
}

fn apply_real_pairs(function: Function, a: &[f64], b: &[f64]) -> Result<ElementVector, ExecutionFault> {
    if let Some(lanes) = compare_elements(function, a, b) {
        return Ok(lanes);
    }
    let f = f64_2(function).ok_or_else(|| unknown_function(function))?;
    Ok(ElementVector::F64(a.iter().zip(b).map(|(&a, &b)| f(a, b)).collect()))
}

fn apply_float_pairs(function: Function, a: &[f32], b: &[f32]) -> Result<ElementVector, ExecutionFault> {
    if let Some(lanes) = compare_elements(function, a, b) {
        return Ok(lanes);
    }
    let f = f32_2(function).ok_or_else(|| unknown_function(function))?;
    Ok(ElementVector::F32(a.iter().zip(b).map(|(&a, &b)| f(a, b)).collect()))
}

fn apply_integers(step: &KernelStep, a: &[i64]) -> Result<ElementVector, ExecutionFault> {
    let f: fn(i64) -> i64 = match step.function {
        Function::Neg => i64::wrapping_neg,
        Function::Abs => i64::wrapping_abs,
        Function::Relu => |x| x.max(0),
        Function::BitNot if step.result == DType::Bool => |x| i64::from(x == 0),
        Function::BitNot => |x| !x,
        Function::Ceil | Function::Floor | Function::Round | Function::Trunc => |x| x,
        function => return Err(unknown_function(function)),
    };
    Ok(ElementVector::I64(a.iter().map(|&x| f(x)).collect()))
}

fn apply_integer_pairs(step: &KernelStep, a: &[i64], b: &[i64]) -> Result<ElementVector, ExecutionFault> {
    if let Some(lanes) = compare_elements(step.function, a, b) {
        return Ok(lanes);
    }
    let divides = matches!(step.function, Function::Div | Function::Mod | Function::Remainder | Function::CeilDiv);
    if divides && b.contains(&0) {
        return Err(ExecutionFault::Invalid("an integer is divided by zero".into()));
    }
    let f: fn(i64, i64) -> i64 = match step.function {
        Function::Add => i64::wrapping_add,
        Function::Sub => i64::wrapping_sub,
        Function::Mul => i64::wrapping_mul,
        Function::Div => i64::wrapping_div,
        Function::Mod => i64::wrapping_rem,
        Function::Remainder => |a, b| {
            let rest = a.wrapping_rem(b);
            if rest != 0 && (rest < 0) != (b < 0) { rest.wrapping_add(b) } else { rest }
        },
        Function::CeilDiv => |a, b| a.wrapping_add(b).wrapping_sub(1).wrapping_div(b),
        Function::Pow => integer_power,
        Function::Shl => |a, b| if (0..64).contains(&b) { a << b } else { 0 },
        Function::Shr => |a, b| a >> b.clamp(0, 63),
        Function::BitAnd => |a, b| a & b,
        Function::BitOr => |a, b| a | b,
        Function::BitXor => |a, b| a ^ b,
        Function::Max | Function::FMax => Ord::max,
        Function::Min | Function::FMin => Ord::min,
        Function::Gcd => gcd,
        function => return Err(unknown_function(function)),
    };
    Ok(ElementVector::I64(a.iter().zip(b).map(|(&a, &b)| f(a, b)).collect()))
}

/// A power of integers, which wraps; of a negative exponent 0, but for the bases 1 and -1.
fn integer_power(base: i64, exponent: i64) -> i64 {
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 if exponent % 2 != 0 => -1,
            -1 => 1,
            _ => 0,
        };
    }
    let (mut result, mut base, mut left) = (1i64, base, exponent);
    while left > 0 {
        if left % 2 == 1 {
            result = result.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        left /= 2;
    }
    result
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a.wrapping_abs() } else { gcd(b, a.wrapping_rem(b)) }
}

fn apply_triples<T: Copy>(
    f: Option<fn(T, T, T) -> T>,
    function: Function,
    [a, b, c]: [&[T]; 3],
) -> Result<Vec<T>, ExecutionFault> {
    let f = f.ok_or_else(|| unknown_function(function))?;
    Ok(a.iter().zip(b).zip(c).map(|((&a, &b), &c)| f(a, b, c)).collect())
}

fn clamp_integers(function: Function, a: &[i64], b: &[i64], c: &[i64]) -> Result<Vec<i64>, ExecutionFault> {
    let f: fn(i64, i64, i64) -> i64 = match function {
        Function::Clamp => |x, low, high| x.max(low).min(high),
        Function::Threshold => |x, threshold, value| if x <= threshold { value } else { x },
        function => return Err(unknown_function(function)),
    };
    Ok(a.iter().zip(b).zip(c).map(|((&a, &b), &c)| f(a, b, c)).collect())
}
