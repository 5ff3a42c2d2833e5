//! Functions of rows, of which only the operands are known.

use super::degree::RationalDegree;
use super::field::FieldElement;
use super::hash::HashedSubject;
use super::memory::ExactMemory;
use super::pointwise::scalar_element;
use super::value::{ExactColumn, ExactValue, holds_numbers, stored_integer};
use super::work::HashContext;
use crate::backend::fault::ExecutionFault;
use crate::backend::view_rows::row_of;
use crate::plan::{Plan, RowCall, RowElements, RowOperand, RowValues, RowsInst, ScalarValue, compute_row};

/// `output[b, ..] = function(inputs[b, ..])`. A row of integers is computed if all its operands are integers; of any
/// other row the elements are hashes of the whole operands, so that equal rows of equal operands are equal.
pub(super) fn run_rows(
    memory: &mut ExactMemory,
    plan: &Plan,
    rows: &RowsInst,
    cx: &mut HashContext<'_>,
) -> Result<(), ExecutionFault> {
    let columns: Vec<ExactColumn> = rows.inputs.iter().map(|view| memory.read_view(plan, view)).collect();
    columns.iter().for_each(|column| cx.note_operands(column.degree));
    let mut values = Vec::with_capacity(rows.output.len());
    for row in 0..rows.rows() {
        let operands: Vec<&[ExactValue]> =
            columns.iter().map(|column| row_of(&column.values, row, rows.rows())).collect();
        match integer_row(rows, &operands)? {
            Some(integers) => values.extend(integers),
            None => hash_row(rows, &operands, &mut values, cx),
        }
    }
    memory.write_view(plan, &rows.output, &ExactColumn { values, degree: RationalDegree::VARIABLE });
    Ok(())
}

/// The row itself, if its operands and its elements are integers.
fn integer_row(rows: &RowsInst, operands: &[&[ExactValue]]) -> Result<Option<Vec<ExactValue>>, ExecutionFault> {
    let dtype = rows.output.dtype;
    if holds_numbers(dtype) || rows.inputs.iter().any(|view| holds_numbers(view.dtype)) {
        return Ok(None);
    }
    let integers: Option<Vec<Vec<i64>>> =
        operands.iter().map(|row| row.iter().map(|value| value.as_signed()).collect()).collect();
    let Some(integers) = integers else { return Ok(None) };
    let shapes: Vec<Vec<usize>> = rows.inputs.iter().map(|view| rows.row_shape(view)).collect();
    let operands: Vec<RowOperand<'_>> = integers
        .iter()
        .zip(&shapes)
        .map(|(row, shape)| RowOperand { elements: RowElements::Integers(row), shape })
        .collect();
    let shape = rows.row_shape(&rows.output);
    let call = RowCall { operands: &operands, arguments: &rows.arguments, result: rows.result, shape: &shape, dtype };
    match compute_row(rows.function, &call).map_err(ExecutionFault::Invalid)? {
        RowValues::Integers(row) => Ok(Some(row.into_iter().map(|value| stored_integer(value, dtype)).collect())),
        RowValues::Reals(_) => Ok(None),
    }
}

/// Appends a row of hashes: each of the operands, the scalars and the element's index.
fn hash_row(rows: &RowsInst, operands: &[&[ExactValue]], values: &mut Vec<ExactValue>, cx: &mut HashContext<'_>) {
    let subject = HashedSubject::Rows(rows.function.name, rows.result);
    let extents = rows.inputs.iter().chain([&rows.output]).flat_map(|view| rows.row_shape(view));
    let mut words: Vec<FieldElement> = extents.map(|extent| FieldElement::from_integer(extent as i64)).collect();
    words.extend(operands.iter().copied().flatten().map(|value| value.to_number()));
    for &argument in &rows.arguments {
        words.push(argument_number(argument, cx));
    }
    let row = cx.hash_operands(subject, &words).to_number();
    let elements: usize = rows.row_shape(&rows.output).iter().product();
    values.extend((0..elements).map(|at| cx.hash_unknown(subject, &[row, FieldElement::from_integer(at as i64)])));
}

fn argument_number(argument: ScalarValue, cx: &mut HashContext<'_>) -> FieldElement {
    let dtype = match argument {
        ScalarValue::Float(_) => crate::ir::DType::Double,
        _ => crate::ir::DType::Int,
    };
    scalar_element(argument, dtype, cx).to_number()
}
