//! Sums and other reductions of exact elements.

use super::degree::RationalDegree;
use super::field::{FieldElement, sum_products};
use super::hash::HashedSubject;
use super::memory::ExactMemory;
use super::pointwise::scalar_element;
use super::value::{ExactColumn, ExactValue, holds_numbers, stored_integer};
use super::work::HashContext;
use crate::backend::cpu::{integer_operation, unsigned_operation};
use crate::backend::fault::ExecutionFault;
use crate::backend::view_rows::reduced_axes_last;
use crate::ir::DType;
use crate::plan::{BufferView, GemmInst, Plan, RedOp, ReductionFold};
use rayon::prelude::*;
use std::ops::Range;

/// `output[kept] = fold over reduced of input[kept, reduced]`, from the fold's initial value on.
pub(super) fn run_reduction(
    memory: &mut ExactMemory,
    plan: &Plan,
    fold: ReductionFold,
    axes: &[usize],
    [input, output]: [&BufferView; 2],
    cx: &mut HashContext<'_>,
) -> Result<(), ExecutionFault> {
    let (turned, count) = reduced_axes_last(input, axes);
    let column = memory.read_view(plan, &turned);
    let initial = fold.initial.map(|value| scalar_element(value, input.dtype, cx));
    cx.note_operands(column.degree);
    let mut values = Vec::with_capacity(output.len());
    let mut row = Vec::with_capacity(count + 1);
    for elements in column.values.chunks_exact(count.max(1)) {
        row.clear();
        row.extend(initial.iter().chain(elements));
        let folded = fold_elements(fold.op, input.dtype, &row, cx)?;
        values.push(folded.stored_as(output.dtype));
    }
    let degree = folded_degree(fold.op, column.degree, count + 1);
    memory.write_view(plan, output, &ExactColumn { values, degree });
    Ok(())
}

/// The degree of the result of [`fold_elements`] for `count` elements.
pub(super) fn folded_degree(op: RedOp, degree: RationalDegree, count: usize) -> RationalDegree {
    let folded = if op == RedOp::Product { degree.power_degree(count) } else { degree.sum_of(count) };
    folded.join_degrees(RationalDegree::VARIABLE)
}

/// Combines elements of a type. An average is a sum that the caller divides.
pub(super) fn fold_elements(
    op: RedOp,
    dtype: DType,
    elements: &[ExactValue],
    cx: &mut HashContext<'_>,
) -> Result<ExactValue, ExecutionFault> {
    let integers: Option<Vec<i64>> = elements.iter().map(|element| element.as_integer()).collect();
    if let Some(integers) = integers.filter(|_| !holds_numbers(dtype)) {
        let bits = match dtype {
            DType::UInt64 => {
                let integers = integers.into_iter().map(i64::cast_unsigned);
                integers.reduce(unsigned_operation(op)).unwrap_or_default().cast_signed()
            }
            _ => {
                let combine = integer_operation(op, dtype == DType::Bool)?;
                integers.into_iter().reduce(combine).unwrap_or_default()
            }
        };
        return Ok(ExactValue::from_bits(bits, dtype));
    }
    let numbers = elements.iter().map(|element| element.to_number());
    let value = match op {
        _ if dtype == DType::Bool => return Ok(hash_elements(op, numbers, cx)),
        RedOp::Sum | RedOp::Avg => numbers.fold(FieldElement::ZERO, |sum, element| sum + element),
        RedOp::Product => numbers.fold(FieldElement::ONE, |product, element| product * element),
        // There is no NaN among these numbers.
        RedOp::Min | RedOp::Max | RedOp::FMin | RedOp::FMax => {
            return Ok(cx.extreme_value(op.ignoring_nan(), &numbers.collect::<Vec<_>>()));
        }
        RedOp::And | RedOp::Or | RedOp::Xor => {
            return Ok(hash_elements(op, numbers, cx));
        }
    };
    if !holds_numbers(dtype) {
        cx.note_unknown(HashedSubject::IntegerArithmetic);
    }
    Ok(ExactValue::Number(value))
}

/// The value of a reduction without a meaning: the same for every order of the elements.
fn hash_elements(op: RedOp, numbers: impl Iterator<Item = FieldElement>, cx: &mut HashContext<'_>) -> ExactValue {
    let subject = HashedSubject::Reduction(op);
    let hashes = numbers.map(|number| cx.hash_operands(subject, &[number]).to_number());
    let sum = hashes.fold(FieldElement::ZERO, |sum, hash| sum + hash);
    cx.hash_unknown(subject, &[FieldElement::ZERO, sum])
}

/// Computes `out = a @ b * row scale * column scale + bias` for every batch.
pub(super) fn run_gemm(memory: &mut ExactMemory, plan: &Plan, gemm: &GemmInst, cx: &mut HashContext<'_>) {
    let a = memory.read_view(plan, &gemm.a);
    let b = memory.read_view(plan, &transposed_view(&gemm.b));
    let bias = gemm.bias.as_ref().map(|view| memory.read_view(plan, view));
    let scales: Vec<ExactColumn> = gemm.scale_views().iter().map(|view| memory.read_view(plan, view)).collect();
    let depth = gemm.a.dims.last().map_or(1, |dim| dim.extent);
    let mut degree = a.degree.product_degree(b.degree).sum_of(depth);
    let mut values = multiply_columns(gemm, &a, &b, cx);
    for scale in &scales {
        degree = degree.product_degree(scale.degree);
        for (value, &factor) in values.iter_mut().zip(&scale.values) {
            *value = ExactValue::Number(value.to_number() * factor.to_number());
        }
    }
    if let Some(bias) = bias {
        degree = degree.sum_degree(bias.degree);
        for (value, &term) in values.iter_mut().zip(&bias.values) {
            *value = add_elements(*value, term, gemm.out.dtype);
        }
    }
    let values = values.into_iter().map(|value| value.stored_as(gemm.out.dtype)).collect();
    memory.write_view(plan, &gemm.out, &ExactColumn { values, degree: degree.join_degrees(RationalDegree::VARIABLE) });
}

/// A view with its last two axes exchanged.
fn transposed_view(view: &BufferView) -> BufferView {
    let mut turned = view.clone();
    let last = turned.dims.len().saturating_sub(1);
    turned.dims.swap(last.saturating_sub(1), last);
    turned
}

/// Multiplies all batches of `a` and the transposed `b`.
fn multiply_columns(gemm: &GemmInst, a: &ExactColumn, b: &ExactColumn, cx: &mut HashContext<'_>) -> Vec<ExactValue> {
    let elements = 0..gemm.out.len();
    let real = holds_numbers(gemm.a.dtype);
    if !real && let (Some(a), Some(b)) = (a.as_integers(), b.as_integers()) {
        let products = elements.map(|flat| {
            let [of_a, of_b] = factor_ranges(gemm, flat);
            let pairs = a[of_a].iter().zip(&b[of_b]);
            ExactValue::Integer(pairs.fold(0i64, |sum, (&x, &y)| sum.wrapping_add(x.wrapping_mul(y))))
        });
        return products.collect();
    }
    if !real {
        cx.note_unknown(HashedSubject::IntegerArithmetic);
    }
    let (a, b) = (a.to_numbers(), b.to_numbers());
    let products = elements.into_par_iter().map(|flat| {
        let [of_a, of_b] = factor_ranges(gemm, flat);
        ExactValue::Number(sum_products(a[of_a].iter().copied().zip(b[of_b].iter().copied())))
    });
    products.collect()
}

/// The ranges of `a` and of the transposed `b` whose product is an element of the result.
fn factor_ranges(gemm: &GemmInst, flat: usize) -> [Range<usize>; 2] {
    let mut extents = gemm.out.dims.iter().rev().map(|dim| dim.extent.max(1));
    let (columns, rows) = (extents.next().unwrap_or(1), extents.next().unwrap_or(1));
    let depth = gemm.a.dims.last().map_or(1, |dim| dim.extent);
    let (row, column) = (flat / columns, flat / columns / rows * columns + flat % columns);
    [row, column].map(|line| line * depth..(line + 1) * depth)
}

/// The sum of two elements of a type.
pub(super) fn add_elements(a: ExactValue, b: ExactValue, dtype: DType) -> ExactValue {
    match (a, b) {
        (ExactValue::Number(_), _) | (_, ExactValue::Number(_)) => ExactValue::Number(a.to_number() + b.to_number()),
        (a, b) => {
            let [a, b] = [a, b].map(|value| value.as_integer().unwrap_or_default());
            stored_integer(a.wrapping_add(b), dtype)
        }
    }
}
