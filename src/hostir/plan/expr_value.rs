//! The values of expressions: numbers, and arrays and structs of them, such as `{ i0, 7 }` and `{ x = i0, y = 1 }`.
//!
//! Programs compose arrays and structs of scalars and take them apart again; instructions see numbers only.

use crate::ir::functions::ScalarValue;
use crate::ir::{ExprId, Symbol};
use std::sync::Arc;

/// The reason why an expression has no value.
#[derive(Clone, PartialEq, Debug)]
pub enum EvalError {
    /// Nothing defines this name.
    Unknown(Symbol),
    /// A real or a truth value where an integer is needed.
    NoInteger(ExprId, ScalarValue),
    /// Any other error, as a clause: "`8 / 0` divides by zero".
    Invalid(String),
}

/// The value of an expression. Parts are shared: `{ a1, a1 }` of `{ a0, a0 }` has few of them, and many numbers.
#[derive(Clone, Debug)]
pub enum ExprValue {
    /// A number or a truth value.
    Scalar(ScalarValue),
    /// The elements of an array, and the depth of arrays and structs inside each other.
    Array(Arc<[ExprValue]>, u32),
    /// The fields of a struct, and the depth.
    Struct(Arc<[(Symbol, ExprValue)]>, u32),
}

/// The largest depth of arrays and structs inside each other.
const MAX_NESTING: u32 = 64;

/// The depth of a composite of these parts; an error if it is too deep.
fn composite_depth<'v>(parts: impl Iterator<Item = &'v ExprValue>) -> Result<u32, EvalError> {
    let inner = parts.map(ExprValue::depth).max().unwrap_or(0);
    match inner < MAX_NESTING {
        true => Ok(inner + 1),
        false => Err(EvalError::Invalid(format!("arrays and structs are nested more than {MAX_NESTING} times"))),
    }
}

impl From<ScalarValue> for ExprValue {
    fn from(value: ScalarValue) -> Self {
        ExprValue::Scalar(value)
    }
}

impl ExprValue {
    /// An array of these elements.
    pub(super) fn array(items: Vec<ExprValue>) -> Result<Self, EvalError> {
        let depth = composite_depth(items.iter())?;
        Ok(ExprValue::Array(items.into(), depth))
    }

    /// A struct of these fields.
    pub(super) fn structure(fields: Vec<(Symbol, ExprValue)>) -> Result<Self, EvalError> {
        let depth = composite_depth(fields.iter().map(|(_, value)| value))?;
        Ok(ExprValue::Struct(fields.into(), depth))
    }

    fn depth(&self) -> u32 {
        match self {
            ExprValue::Scalar(_) => 0,
            ExprValue::Array(_, depth) | ExprValue::Struct(_, depth) => *depth,
        }
    }

    /// The number; an error for an array or a struct.
    pub(super) fn into_scalar(self) -> Result<ScalarValue, EvalError> {
        match self {
            ExprValue::Scalar(value) => Ok(value),
            composite => Err(EvalError::Invalid(format!("{} is not a number", composite.kind()))),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            ExprValue::Scalar(_) => "a number",
            ExprValue::Array(..) => "an array",
            ExprValue::Struct(..) => "a struct",
        }
    }

    /// The extents of nested arrays, as their first elements have them.
    pub fn array_shape(&self) -> Vec<usize> {
        let mut shape = Vec::new();
        let mut value = self;
        while let ExprValue::Array(items, _) = value {
            shape.push(items.len());
            let Some(first) = items.first() else { break };
            value = first;
        }
        shape
    }

    /// Appends the numbers of nested arrays of a shape in row-major order; `None` if they have another shape.
    pub fn push_numbers(&self, shape: &[usize], numbers: &mut Vec<ScalarValue>) -> Option<()> {
        match (self, shape) {
            (ExprValue::Scalar(value), []) => numbers.push(*value),
            (ExprValue::Array(items, _), [extent, inner @ ..]) if items.len() == *extent => {
                for item in items.iter() {
                    item.push_numbers(inner, numbers)?;
                }
            }
            _ => return None,
        }
        Some(())
    }

    /// The element of an array.
    pub(super) fn element(&self, index: i64) -> Result<ExprValue, EvalError> {
        let ExprValue::Array(items, _) = self else {
            return Err(EvalError::Invalid(format!("`[{index}]` needs an array, found {}", self.kind())));
        };
        let found = usize::try_from(index).ok().and_then(|index| items.get(index)).cloned();
        let count = items.len();
        found.ok_or_else(|| EvalError::Invalid(format!("`[{index}]` is outside of an array of {count} elements")))
    }

    /// The field of a struct; `text` is the field's name.
    pub(super) fn field(&self, field: Symbol, text: &str) -> Result<ExprValue, EvalError> {
        let ExprValue::Struct(fields, _) = self else {
            return Err(EvalError::Invalid(format!("`.{text}` needs a struct, found {}", self.kind())));
        };
        let found = fields.iter().find(|(name, _)| *name == field).map(|(_, value)| value.clone());
        found.ok_or_else(|| EvalError::Invalid(format!("the struct has no field `{text}`")))
    }

    /// The array with its elements in the opposite order.
    pub(super) fn reversed(&self) -> Result<ExprValue, EvalError> {
        match self {
            ExprValue::Array(items, depth) => Ok(ExprValue::Array(items.iter().rev().cloned().collect(), *depth)),
            other => Err(EvalError::Invalid(format!("`ReverseArray` needs an array, found {}", other.kind()))),
        }
    }
}
