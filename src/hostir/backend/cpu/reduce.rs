//! Reductions along axes and over the members of a communication.

use super::element_vector::{ElementVector, VectorClass};
use super::storage::RankMemory;
use crate::backend::fault::ExecutionFault;
use crate::backend::view_rows::reduced_axes_last;
use crate::ir::DType;
use crate::ir::functions::complex::Complex64;
use crate::plan::{BufferView, Plan, RedOp, ReductionFold, ScalarValue};
use rayon::prelude::*;

/// `output[kept] = fold over reduced of input[kept, reduced]`, in row-major order of the reduced axes,
/// from the fold's initial value on.
/// `float` accumulates in doubles, narrower floats in floats.
pub(super) fn run_reduction(
    memory: &mut RankMemory,
    plan: &Plan,
    op: ReductionFold,
    axes: &[usize],
    input: &BufferView,
    output: &BufferView,
) -> Result<(), ExecutionFault> {
    let (turned, count) = reduced_axes_last(input, axes);
    let mut element_vector = ElementVector::load_view(memory, &turned)?;
    if input.dtype == DType::Float {
        element_vector = element_vector.into_class(VectorClass::F64);
    }
    let ReductionFold { op, initial } = op;
    let truths = input.dtype == DType::Bool;
    let result = match element_vector {
        ElementVector::F64(values) => {
            ElementVector::F64(fold_rows(&values, count, f64_op(op)?, initial.map(ScalarValue::as_f64)))
        }
        ElementVector::F32(values) => {
            let initial = initial.map(|value| value.as_f64() as f32);
            ElementVector::F32(fold_rows(&values, count, f32_op(op)?, initial))
        }
        ElementVector::I64(values) => {
            let initial = initial.map(|value| integer_element(value, truths));
            ElementVector::I64(fold_rows(&values, count, integer_op(op, truths)?, initial))
        }
        ElementVector::U64(values) => {
            ElementVector::U64(fold_rows(&values, count, unsigned_op(op), initial.map(ScalarValue::as_u64)))
        }
        ElementVector::Complex(values) => {
            let initial = initial.map(ScalarValue::as_complex);
            ElementVector::Complex(fold_rows(&values, count, complex_op(op)?, initial))
        }
    };
    result.store_view(memory, plan, output)
}

/// A scalar as an element of the integers' vectors, which hold truth values as 0 and 1.
fn integer_element(value: ScalarValue, is_truth: bool) -> i64 {
    match is_truth {
        true => i64::from(value.as_bool()),
        false => value.as_i64(),
    }
}

fn fold_rows<T: Copy + Send + Sync>(values: &[T], count: usize, f: fn(T, T) -> T, initial: Option<T>) -> Vec<T> {
    values.par_chunks_exact(count.max(1)).map(|row| fold_row(row, f, initial)).collect()
}

fn fold_row<T: Copy>(row: &[T], f: fn(T, T) -> T, initial: Option<T>) -> T {
    let first = initial.map_or(row[0], |value| f(value, row[0]));
    row[1..].iter().fold(first, |all, &x| f(all, x))
}

/// Combines the members' values in the order given. There is at least one member.
pub(super) fn combine_members(
    op: RedOp,
    truths: bool,
    members: Vec<ElementVector>,
) -> Result<Option<ElementVector>, ExecutionFault> {
    let count = members.len();
    let mut members = members.into_iter();
    let Some(mut all) = members.next() else { return Ok(None) };
    for member in members {
        all = match (all, member) {
            (ElementVector::F64(a), ElementVector::F64(b)) => ElementVector::F64(zip_with(a, &b, f64_op(op)?)),
            (ElementVector::F32(a), ElementVector::F32(b)) => ElementVector::F32(zip_with(a, &b, f32_op(op)?)),
            (ElementVector::I64(a), ElementVector::I64(b)) => {
                ElementVector::I64(zip_with(a, &b, integer_op(op, truths)?))
            }
            (ElementVector::U64(a), ElementVector::U64(b)) => ElementVector::U64(zip_with(a, &b, unsigned_op(op))),
            (ElementVector::Complex(a), ElementVector::Complex(b)) => {
                ElementVector::Complex(zip_with(a, &b, complex_op(op)?))
            }
            _ => return Err(ExecutionFault::Invalid("members send different types".into())),
        };
    }
    if op == RedOp::Avg {
        all = match all {
            ElementVector::F64(v) => ElementVector::F64(v.into_iter().map(|x| x / count as f64).collect()),
            ElementVector::F32(v) => ElementVector::F32(v.into_iter().map(|x| x / count as f32).collect()),
            ElementVector::I64(v) => ElementVector::I64(v.into_iter().map(|x| x / count as i64).collect()),
            ElementVector::U64(v) => ElementVector::U64(v.into_iter().map(|x| x / count as u64).collect()),
            ElementVector::Complex(v) => ElementVector::Complex(v.into_iter().map(|x| x / count as f64).collect()),
        };
    }
    Ok(Some(all))
}

/// Combines elements of `base` with values: the one at `places[j]` with value `j`, in the order of the values.
pub(super) fn combine_at(
    op: RedOp,
    truths: bool,
    base: ElementVector,
    values: ElementVector,
    places: &[usize],
) -> Result<ElementVector, ExecutionFault> {
    Ok(match (base, values) {
        (ElementVector::F64(a), ElementVector::F64(b)) => ElementVector::F64(apply_at(a, &b, places, f64_op(op)?)),
        (ElementVector::F32(a), ElementVector::F32(b)) => ElementVector::F32(apply_at(a, &b, places, f32_op(op)?)),
        (ElementVector::I64(a), ElementVector::I64(b)) => {
            ElementVector::I64(apply_at(a, &b, places, integer_op(op, truths)?))
        }
        (ElementVector::U64(a), ElementVector::U64(b)) => ElementVector::U64(apply_at(a, &b, places, unsigned_op(op))),
        (ElementVector::Complex(a), ElementVector::Complex(b)) => {
            ElementVector::Complex(apply_at(a, &b, places, complex_op(op)?))
        }
        _ => return Err(ExecutionFault::Invalid("the value is of another type than its base".into())),
    })
}

fn apply_at<T: Copy>(mut base: Vec<T>, values: &[T], places: &[usize], f: fn(T, T) -> T) -> Vec<T> {
    for (&place, &value) in places.iter().zip(values) {
        base[place] = f(base[place], value);
    }
    base
}

fn zip_with<T: Copy>(mut a: Vec<T>, b: &[T], f: fn(T, T) -> T) -> Vec<T> {
    for (x, &y) in a.iter_mut().zip(b) {
        *x = f(*x, y);
    }
    a
}

fn integers_only(op: RedOp) -> ExecutionFault {
    ExecutionFault::Invalid(format!("the reduction `{}` needs integers", op.word()))
}

/// The operation on one width of reals; NaN wins `min` and `max`, and loses `fmin` and `fmax`.
macro_rules! real_ops {
    ($name:ident, $real:ident) => {
        fn $name(op: RedOp) -> Result<fn($real, $real) -> $real, ExecutionFault> {
            Ok(match op {
                RedOp::Sum | RedOp::Avg => |a, b| a + b,
                RedOp::Product => |a, b| a * b,
                RedOp::Min => |a, b| {
                    if a.is_nan() || b < a {
                        if a.is_nan() { a } else { b }
                    } else if b.is_nan() {
                        b
                    } else {
                        a
                    }
                },
                RedOp::Max => |a, b| {
                    if a.is_nan() || b > a {
                        if a.is_nan() { a } else { b }
                    } else if b.is_nan() {
                        b
                    } else {
                        a
                    }
                },
                RedOp::FMin => $real::min,
                RedOp::FMax => $real::max,
                RedOp::And | RedOp::Or | RedOp::Xor => return Err(integers_only(op)),
            })
        }
    };
}
real_ops!(f64_op, f64);
real_ops!(f32_op, f32);

pub(in crate::backend) fn integer_op(op: RedOp, truths: bool) -> Result<fn(i64, i64) -> i64, ExecutionFault> {
    Ok(match op {
        RedOp::Sum | RedOp::Avg if truths => |a, b| a | b,
        RedOp::Sum | RedOp::Avg => i64::wrapping_add,
        RedOp::Product => i64::wrapping_mul,
        RedOp::Min | RedOp::FMin => Ord::min,
        RedOp::Max | RedOp::FMax => Ord::max,
        RedOp::And => |a, b| a & b,
        RedOp::Or => |a, b| a | b,
        RedOp::Xor => |a, b| a ^ b,
    })
}

/// The operation on complex numbers, which have no order and no bits.
fn complex_op(op: RedOp) -> Result<fn(Complex64, Complex64) -> Complex64, ExecutionFault> {
    match op {
        RedOp::Sum | RedOp::Avg => Ok(|a, b| a + b),
        RedOp::Product => Ok(|a, b| a * b),
        RedOp::Min | RedOp::FMin | RedOp::Max | RedOp::FMax | RedOp::And | RedOp::Or | RedOp::Xor => {
            Err(ExecutionFault::Invalid(format!("the reduction `{}` is not defined for complex numbers", op.word())))
        }
    }
}

/// The operation on integers without a sign.
pub(in crate::backend) fn unsigned_op(op: RedOp) -> fn(u64, u64) -> u64 {
    match op {
        RedOp::Sum | RedOp::Avg => u64::wrapping_add,
        RedOp::Product => u64::wrapping_mul,
        RedOp::Min | RedOp::FMin => Ord::min,
        RedOp::Max | RedOp::FMax => Ord::max,
        RedOp::And => |a, b| a & b,
        RedOp::Or => |a, b| a | b,
        RedOp::Xor => |a, b| a ^ b,
    }
}
