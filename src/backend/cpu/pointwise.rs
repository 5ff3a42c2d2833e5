//! Pointwise functions.

use super::fault::Fault;
use super::lanes::{Class, Lanes, class};
use super::storage::Memory;
use crate::ir::DType;
use crate::plan::real::{f32_1, f32_2, f32_3, f64_1, f64_2, f64_3, test_f64};
use crate::plan::{Arg, Function, Kernel, Plan, Step};

/// Runs a kernel's steps over its whole index space.
pub(super) fn run(memory: &mut Memory, plan: &Plan, kernel: &Kernel) -> Result<(), Fault> {
    let mut inputs = Vec::new();
    for view in &kernel.inputs {
        inputs.push(Lanes::load(memory, plan, view)?);
    }
    let mut results: Vec<Lanes> = Vec::new();
    for step in &kernel.steps {
        let mut args = Vec::new();
        for arg in &step.args {
            args.push(argument(kernel, step, *arg, &inputs, &results)?);
        }
        results.push(apply(step, args)?);
    }
    match results.pop() {
        Some(last) => last.store(memory, plan, &kernel.output),
        None => Ok(()),
    }
}

fn argument(
    kernel: &Kernel,
    step: &Step,
    arg: Arg,
    inputs: &[Lanes],
    results: &[Lanes],
) -> Result<Lanes, Fault> {
    let wide = class(step.compute)?;
    Ok(match arg {
        Arg::Input(index) => inputs[index as usize].clone(),
        Arg::Step(index) => results[index as usize].clone(),
        Arg::Const(value) => {
            let float = matches!(value, crate::plan::Scalar::Float(_));
            let keep = if float && wide == Class::I64 { Class::F64 } else { wide };
            Lanes::splat(value, keep, kernel.output.len())
        }
        Arg::Index(axis) => {
            let shape = kernel.output.shape();
            let inner: usize = shape[axis as usize + 1..].iter().product();
            let extent = shape[axis as usize];
            let along = |flat: usize| ((flat / inner.max(1)) % extent.max(1)) as i64;
            Lanes::I64((0..kernel.output.len()).map(along).collect())
        }
    })
}

/// One function of whole lanes.
fn apply(step: &Step, mut args: Vec<Lanes>) -> Result<Lanes, Fault> {
    let wide = class(step.compute)?;
    match (step.function, args.len()) {
        (Function::Identity | Function::Cast, 1) => return args.remove(0).rounded(step.result),
        (Function::Where, 3) => return select(step, args),
        (Function::Not, 1) => {
            let truths = args[0].truths();
            return Lanes::I64(truths.into_iter().map(|x| i64::from(!x)).collect())
                .rounded(step.result);
        }
        (Function::And | Function::Or, 2) => {
            let (a, b) = (args[0].truths(), args[1].truths());
            let and = step.function == Function::And;
            let one = |(a, b): (bool, bool)| i64::from(if and { a && b } else { a || b });
            return Lanes::I64(a.into_iter().zip(b).map(one).collect()).rounded(step.result);
        }
        _ => {}
    }
    let real_only = wide == Class::I64 && !integer_function(step.function);
    let wide = if real_only { Class::F64 } else { wide };
    let args: Vec<Lanes> = args.into_iter().map(|lanes| lanes.into_class(wide)).collect();
    let result = match args.as_slice() {
        [Lanes::F64(a)] => reals(step.function, a, f64_1, test_f64)?,
        [Lanes::F32(a)] => floats(step.function, a)?,
        [Lanes::I64(a)] => integers_1(step, a)?,
        [Lanes::F64(a), Lanes::F64(b)] => real_pairs(step.function, a, b)?,
        [Lanes::F32(a), Lanes::F32(b)] => float_pairs(step.function, a, b)?,
        [Lanes::I64(a), Lanes::I64(b)] => integer_pairs(step, a, b)?,
        [Lanes::F64(a), Lanes::F64(b), Lanes::F64(c)] => {
            Lanes::F64(triples(f64_3(step.function), step.function, [a, b, c])?)
        }
        [Lanes::F32(a), Lanes::F32(b), Lanes::F32(c)] => {
            Lanes::F32(triples(f32_3(step.function), step.function, [a, b, c])?)
        }
        [Lanes::I64(a), Lanes::I64(b), Lanes::I64(c)] => {
            Lanes::I64(clamps(step.function, a, b, c)?)
        }
        _ => return Err(unknown(step.function)),
    };
    result.rounded(step.result)
}

fn unknown(function: Function) -> Fault {
    Fault::Invalid(format!("`{}` cannot run on this type", function.name()))
}

fn select(step: &Step, mut args: Vec<Lanes>) -> Result<Lanes, Fault> {
    let wide = class(step.result)?;
    let b = args.remove(2).into_class(wide);
    let a = args.remove(1).into_class(wide);
    let condition = args.remove(0).truths();
    Ok(match (a, b) {
        (Lanes::F64(a), Lanes::F64(b)) => Lanes::F64(choose(&condition, &a, &b)),
        (Lanes::F32(a), Lanes::F32(b)) => Lanes::F32(choose(&condition, &a, &b)),
        (Lanes::I64(a), Lanes::I64(b)) => Lanes::I64(choose(&condition, &a, &b)),
        _ => return Err(unknown(Function::Where)),
    })
}

fn choose<T: Copy>(condition: &[bool], a: &[T], b: &[T]) -> Vec<T> {
    condition.iter().zip(a.iter().zip(b)).map(|(&c, (&a, &b))| if c { a } else { b }).collect()
}

/// Whether a function of integers is an integer (or a truth value).
fn integer_function(function: Function) -> bool {
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
fn compare<T: PartialOrd>(function: Function) -> Option<fn(&T, &T) -> bool> {
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

type OneReal = fn(Function) -> Option<fn(f64) -> f64>;
type OneTest = fn(Function) -> Option<fn(f64) -> bool>;

fn reals(function: Function, a: &[f64], one: OneReal, test: OneTest) -> Result<Lanes, Fault> {
    if let Some(f) = one(function) {
        return Ok(Lanes::F64(a.iter().map(|&x| f(x)).collect()));
    }
    let test = test(function).ok_or_else(|| unknown(function))?;
    Ok(Lanes::I64(a.iter().map(|&x| i64::from(test(x))).collect()))
}

fn floats(function: Function, a: &[f32]) -> Result<Lanes, Fault> {
    if let Some(f) = f32_1(function) {
        return Ok(Lanes::F32(a.iter().map(|&x| f(x)).collect()));
    }
    let test = test_f64(function).ok_or_else(|| unknown(function))?;
    Ok(Lanes::I64(a.iter().map(|&x| i64::from(test(f64::from(x)))).collect()))
}

fn compared<T: PartialOrd>(function: Function, a: &[T], b: &[T]) -> Option<Lanes> {
    let test = compare::<T>(function)?;
    Some(Lanes::I64(a.iter().zip(b).map(|(a, b)| i64::from(test(a, b))).collect()))
}

fn real_pairs(function: Function, a: &[f64], b: &[f64]) -> Result<Lanes, Fault> {
    if let Some(lanes) = compared(function, a, b) {
        return Ok(lanes);
    }
    let f = f64_2(function).ok_or_else(|| unknown(function))?;
    Ok(Lanes::F64(a.iter().zip(b).map(|(&a, &b)| f(a, b)).collect()))
}

fn float_pairs(function: Function, a: &[f32], b: &[f32]) -> Result<Lanes, Fault> {
    if let Some(lanes) = compared(function, a, b) {
        return Ok(lanes);
    }
    let f = f32_2(function).ok_or_else(|| unknown(function))?;
    Ok(Lanes::F32(a.iter().zip(b).map(|(&a, &b)| f(a, b)).collect()))
}

fn integers_1(step: &Step, a: &[i64]) -> Result<Lanes, Fault> {
    let f: fn(i64) -> i64 = match step.function {
        Function::Neg => i64::wrapping_neg,
        Function::Abs => i64::wrapping_abs,
        Function::Relu => |x| x.max(0),
        Function::BitNot if step.result == DType::Bool => |x| i64::from(x == 0),
        Function::BitNot => |x| !x,
        Function::Ceil | Function::Floor | Function::Round | Function::Trunc => |x| x,
        function => return Err(unknown(function)),
    };
    Ok(Lanes::I64(a.iter().map(|&x| f(x)).collect()))
}

fn integer_pairs(step: &Step, a: &[i64], b: &[i64]) -> Result<Lanes, Fault> {
    if let Some(lanes) = compared(step.function, a, b) {
        return Ok(lanes);
    }
    let divides = matches!(
        step.function,
        Function::Div | Function::Mod | Function::Remainder | Function::CeilDiv
    );
    if divides && b.contains(&0) {
        return Err(Fault::Invalid("an integer is divided by zero".into()));
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
        function => return Err(unknown(function)),
    };
    Ok(Lanes::I64(a.iter().zip(b).map(|(&a, &b)| f(a, b)).collect()))
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

fn triples<T: Copy>(
    f: Option<fn(T, T, T) -> T>,
    function: Function,
    [a, b, c]: [&[T]; 3],
) -> Result<Vec<T>, Fault> {
    let f = f.ok_or_else(|| unknown(function))?;
    Ok(a.iter().zip(b).zip(c).map(|((&a, &b), &c)| f(a, b, c)).collect())
}

fn clamps(function: Function, a: &[i64], b: &[i64], c: &[i64]) -> Result<Vec<i64>, Fault> {
    let f: fn(i64, i64, i64) -> i64 = match function {
        Function::Clamp => |x, low, high| x.max(low).min(high),
        Function::Threshold => |x, threshold, value| if x <= threshold { value } else { x },
        function => return Err(unknown(function)),
    };
    Ok(a.iter().zip(b).zip(c).map(|((&a, &b), &c)| f(a, b, c)).collect())
}
