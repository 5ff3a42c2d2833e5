//! Functions of rows.

use super::element_vector::ElementVector;
use super::storage::RankMemory;
use crate::backend::fault::ExecutionFault;
use crate::backend::view_rows::row_of;
use crate::plan::{Plan, RowCall, RowElements, RowOperand, RowValues, RowsInst, compute_row};
use rayon::prelude::*;

/// The elements of an operand: floats as doubles, integers as they are.
enum OperandValues {
    Reals(Vec<f64>),
    Integers(Vec<i64>),
}

impl OperandValues {
    fn row_elements(&self, row: usize, rows: usize) -> RowElements<'_> {
        match self {
            OperandValues::Reals(values) => RowElements::Reals(row_of(values, row, rows)),
            OperandValues::Integers(values) => RowElements::Integers(row_of(values, row, rows)),
        }
    }
}

/// The elements of a vector for a function of rows.
fn operand_values(values: ElementVector, function: &str) -> Result<OperandValues, ExecutionFault> {
    Ok(match values {
        ElementVector::F64(values) => OperandValues::Reals(values),
        ElementVector::F32(values) => OperandValues::Reals(values.into_iter().map(f64::from).collect()),
        ElementVector::I64(values) => OperandValues::Integers(values),
        ElementVector::U64(values) => {
            let signed: Result<Vec<i64>, _> = values.into_iter().map(i64::try_from).collect();
            OperandValues::Integers(
                signed
                    .map_err(|_| ExecutionFault::Invalid(format!("`{function}` takes no integers of 2^63 or more")))?,
            )
        }
        ElementVector::Complex(_) => {
            return Err(ExecutionFault::Invalid(format!("`{function}` is not defined for complex numbers")));
        }
    })
}

/// `output[b, ..] = function(inputs[b, ..])`, in doubles and 64-bit integers, rounded once to the element type.
pub(super) fn run_rows(memory: &mut RankMemory, plan: &Plan, rows: &RowsInst) -> Result<(), ExecutionFault> {
    if !rows.has_equal_batch() {
        return Err(ExecutionFault::Invalid(format!("the operands of `{}` have other rows", rows.function.name)));
    }
    let mut operands = Vec::with_capacity(rows.inputs.len());
    for view in &rows.inputs {
        let values = operand_values(ElementVector::load_view(memory, view)?, rows.function.name)?;
        operands.push((values, rows.row_shape(view)));
    }
    let count = rows.rows();
    let computed: Result<Vec<RowValues>, String> =
        (0..count).into_par_iter().map(|row| compute_one(rows, &operands, row)).collect();
    join_rows(computed.map_err(ExecutionFault::Invalid)?).store_view(memory, plan, &rows.output)
}

fn compute_one(rows: &RowsInst, operands: &[(OperandValues, Vec<usize>)], row: usize) -> Result<RowValues, String> {
    let count = rows.rows();
    let operands: Vec<RowOperand<'_>> = operands
        .iter()
        .map(|(values, shape)| RowOperand { elements: values.row_elements(row, count), shape })
        .collect();
    let shape = rows.row_shape(&rows.output);
    let call = RowCall {
        operands: &operands,
        arguments: &rows.arguments,
        result: rows.result,
        shape: &shape,
        dtype: rows.output.dtype,
    };
    compute_row(rows.function, &call)
}

/// All rows, one after the other; integers only if all are.
fn join_rows(rows: Vec<RowValues>) -> ElementVector {
    if rows.iter().all(|row| matches!(row, RowValues::Integers(_))) {
        let integers = rows.into_iter().flat_map(|row| match row {
            RowValues::Integers(values) => values,
            RowValues::Reals(_) => Vec::new(),
        });
        return ElementVector::I64(integers.collect());
    }
    let reals = rows.into_iter().flat_map(|row| match row {
        RowValues::Reals(values) => values,
        RowValues::Integers(values) => values.into_iter().map(|value| value as f64).collect(),
    });
    ElementVector::F64(reals.collect())
}
