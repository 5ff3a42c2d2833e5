//! Functions of whole rows, for ops that no combination of other instructions computes: sorts, scans, products of groups.

use crate::ir::DType;
use crate::ir::functions::ScalarValue;

/// A function of rows. It belongs to the file of its op.
pub struct RowFunction {
    /// The name of the op, which is also that of the function in the text of a plan.
    pub name: &'static str,
    /// Computes one row of a result from one row of each operand.
    ///
    /// # Errors
    /// One sentence about operands for which the function has no value.
    pub compute: fn(&RowCall<'_>) -> Result<RowValues, String>,
}

impl PartialEq for RowFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl std::fmt::Debug for RowFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// The elements of a row, in row-major order.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum RowElements<'a> {
    /// Of a floating-point type.
    Reals(&'a [f64]),
    /// Of integers or truth values.
    Integers(&'a [i64]),
}

impl RowElements<'_> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            RowElements::Reals(values) => values.len(),
            RowElements::Integers(values) => values.len(),
        }
    }
    /// Returns true if the row has no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One row of an operand.
#[derive(Clone, Copy, Debug)]
pub struct RowOperand<'a> {
    /// The elements.
    pub elements: RowElements<'a>,
    /// The extents of the row, without the batch axes.
    pub shape: &'a [usize],
}

/// The operands and scalars of one call of a [`RowFunction`].
#[derive(Clone, Copy, Debug)]
pub struct RowCall<'a> {
    /// One row of each operand, in order.
    pub operands: &'a [RowOperand<'a>],
    /// The op's scalars.
    pub arguments: &'a [ScalarValue],
    /// The number of the op's result that is computed.
    pub result: usize,
    /// The extents of the result's row.
    pub shape: &'a [usize],
    /// The element type of the result.
    pub dtype: DType,
}

/// One row of a result, in row-major order; the caller rounds it to the element type.
#[derive(Clone, PartialEq, Debug)]
pub enum RowValues {
    /// Of a floating-point type.
    Reals(Vec<f64>),
    /// Of integers or truth values.
    Integers(Vec<i64>),
}

impl RowValues {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            RowValues::Reals(values) => values.len(),
            RowValues::Integers(values) => values.len(),
        }
    }
    /// Returns true if the row has no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The result of one row as elements of both backends take it: checked for its length.
///
/// # Errors
/// The function's own, or that it returned another number of elements than the result has.
pub(crate) fn compute_row(function: &RowFunction, call: &RowCall<'_>) -> Result<RowValues, String> {
    let values = (function.compute)(call)?;
    let expected: usize = call.shape.iter().product();
    if values.len() != expected {
        return Err(format!("`{}` computed {} elements for a row of {expected}", function.name, values.len()));
    }
    Ok(values)
}
