//! Reductions along axes and over the members of a communication.

use super::fault::Fault;
use super::lanes::{Class, Lanes};
use super::storage::Memory;
use crate::ir::DType;
use crate::plan::{Fold, Plan, RedOp, Scalar, View};
use rayon::prelude::*;

/// `output[kept] = fold over reduced of input[kept, reduced]`, in row-major order of the reduced axes,
/// from the fold's initial value on.
/// `float` accumulates in doubles, narrower floats in floats.
pub(super) fn run(
    memory: &mut Memory,
    plan: &Plan,
    op: Fold,
    axes: &[usize],
    input: &View,
    output: &View,
) -> Result<(), Fault> {
    let mut turned = input.clone();
    turned.dims = (0..input.dims.len())
        .filter(|axis| !axes.contains(axis))
        .chain(axes.iter().copied())
        .map(|axis| input.dims[axis])
        .collect();
    let count: usize = axes.iter().map(|&axis| input.dims[axis].extent).product();
    let mut lanes = Lanes::load(memory, plan, &turned)?;
    if input.dtype == DType::Float {
        lanes = lanes.into_class(Class::F64);
    }
    let Fold { op, initial } = op;
    let truths = input.dtype == DType::Bool;
    let result = match lanes {
        Lanes::F64(values) => {
            Lanes::F64(fold_rows(&values, count, f64_op(op)?, initial.map(Scalar::as_f64)))
        }
        Lanes::F32(values) => {
            let initial = initial.map(|value| value.as_f64() as f32);
            Lanes::F32(fold_rows(&values, count, f32_op(op)?, initial))
        }
        Lanes::I64(values) => {
            let whole = |value: Scalar| match truths {
                true => i64::from(value.as_bool()),
                false => value.as_i64(),
            };
            Lanes::I64(fold_rows(&values, count, i64_op(op, truths)?, initial.map(whole)))
        }
    };
    result.store(memory, plan, output)
}

fn fold_rows<T: Copy + Send + Sync>(
    values: &[T],
    count: usize,
    f: fn(T, T) -> T,
    initial: Option<T>,
) -> Vec<T> {
    let fold = |row: &[T]| {
        let first = initial.map_or(row[0], |value| f(value, row[0]));
        row[1..].iter().fold(first, |all, &x| f(all, x))
    };
    values.par_chunks_exact(count.max(1)).map(fold).collect()
}

/// Combines the members' values in the order given. Never called without members.
pub(super) fn combine(
    op: RedOp,
    truths: bool,
    members: Vec<Lanes>,
) -> Result<Option<Lanes>, Fault> {
    let count = members.len();
    let mut members = members.into_iter();
    let Some(mut all) = members.next() else { return Ok(None) };
    for member in members {
        all = match (all, member) {
            (Lanes::F64(a), Lanes::F64(b)) => Lanes::F64(zip(a, &b, f64_op(op)?)),
            (Lanes::F32(a), Lanes::F32(b)) => Lanes::F32(zip(a, &b, f32_op(op)?)),
            (Lanes::I64(a), Lanes::I64(b)) => Lanes::I64(zip(a, &b, i64_op(op, truths)?)),
            _ => return Err(Fault::Invalid("members send different types".into())),
        };
    }
    if op == RedOp::Avg {
        all = match all {
            Lanes::F64(v) => Lanes::F64(v.into_iter().map(|x| x / count as f64).collect()),
            Lanes::F32(v) => Lanes::F32(v.into_iter().map(|x| x / count as f32).collect()),
            Lanes::I64(v) => Lanes::I64(v.into_iter().map(|x| x / count as i64).collect()),
        };
    }
    Ok(Some(all))
}

fn zip<T: Copy>(mut a: Vec<T>, b: &[T], f: fn(T, T) -> T) -> Vec<T> {
    for (x, &y) in a.iter_mut().zip(b) {
        *x = f(*x, y);
    }
    a
}

fn integers_only(op: RedOp) -> Fault {
    Fault::Invalid(format!("the reduction `{}` needs integers", op.word()))
}

/// The operation on one width of reals; NaN wins minima and maxima.
macro_rules! real_ops {
    ($name:ident, $real:ident) => {
        fn $name(op: RedOp) -> Result<fn($real, $real) -> $real, Fault> {
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
                RedOp::And | RedOp::Or | RedOp::Xor => return Err(integers_only(op)),
            })
        }
    };
}
real_ops!(f64_op, f64);
real_ops!(f32_op, f32);

fn i64_op(op: RedOp, truths: bool) -> Result<fn(i64, i64) -> i64, Fault> {
    Ok(match op {
        RedOp::Sum | RedOp::Avg if truths => |a, b| a | b,
        RedOp::Sum | RedOp::Avg => i64::wrapping_add,
        RedOp::Product => i64::wrapping_mul,
        RedOp::Min => Ord::min,
        RedOp::Max => Ord::max,
        RedOp::And => |a, b| a & b,
        RedOp::Or => |a, b| a | b,
        RedOp::Xor => |a, b| a ^ b,
    })
}
