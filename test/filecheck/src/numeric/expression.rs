//! Numeric expressions: literals, variables, `+` and `-`, and functions of two arguments.

use super::format::NumberFormat;
use crate::failure::PatternError;
use crate::variables::VariableValues;
use num_bigint::{BigInt, Sign};

/// An expression, with the part of the check file that it was read from.
#[derive(Debug, Clone)]
pub(crate) enum NumericExpression {
    /// A number.
    Literal(BigInt),
    /// A variable, the place of its name, and the format of its definition.
    Variable { name: String, at: usize, format: Option<NumberFormat> },
    /// An operation on two operands.
    Operation(Box<Operation>),
}

/// An operation with its operands.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub(crate) operator: Operator,
    pub(crate) left: NumericExpression,
    pub(crate) right: NumericExpression,
    /// The text of the operation.
    pub(crate) text: String,
    /// Its start.
    pub(crate) at: usize,
}

/// An operation on numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    /// Rounds towards zero.
    Divide,
    Maximum,
    Minimum,
}

impl Operator {
    /// The operator of a function's name.
    pub(crate) fn from_name(name: &str) -> Option<Operator> {
        Some(match name {
            "add" => Operator::Add,
            "sub" => Operator::Subtract,
            "mul" => Operator::Multiply,
            "div" => Operator::Divide,
            "max" => Operator::Maximum,
            "min" => Operator::Minimum,
            _ => return None,
        })
    }

    /// The result; none for a division by zero, or for a number that is too large.
    fn apply_to(self, left: BigInt, right: BigInt) -> Option<BigInt> {
        Some(match self {
            Operator::Add => left + right,
            Operator::Subtract => left - right,
            Operator::Multiply if left.bits() + right.bits() > BIT_LIMIT => return None,
            Operator::Multiply => left * right,
            Operator::Divide if right.sign() == Sign::NoSign => return None,
            Operator::Divide => left / right,
            Operator::Maximum => left.max(right),
            Operator::Minimum => left.min(right),
        })
    }
}

/// The most bits of a product.
const BIT_LIMIT: u64 = 1 << 16;

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoValue {
    /// A variable without a value, and the place of its name.
    Undefined { name: String, at: usize },
    /// A result that does not exist or has no text in its format.
    Overflow,
}

impl NoValue {
    /// The error; without a place of its own it is `at`.
    pub(crate) fn describe(self, at: usize) -> PatternError {
        match self {
            NoValue::Undefined { name, at } => PatternError { at, message: format!("undefined variable: {name}") },
            NoValue::Overflow => {
                let message = "unable to substitute variable or numeric expression: overflow error".to_owned();
                PatternError { at, message }
            }
        }
    }
}

impl NumericExpression {
    /// The value, or all reasons why there is none.
    pub(crate) fn evaluate(&self, values: &VariableValues) -> Result<BigInt, Vec<NoValue>> {
        match self {
            NumericExpression::Literal(value) => Ok(value.clone()),
            NumericExpression::Variable { name, at, .. } => match values.number(name) {
                Some(value) => Ok(value),
                None => Err(vec![NoValue::Undefined { name: name.clone(), at: *at }]),
            },
            NumericExpression::Operation(operation) => {
                let (left, right) = (operation.left.evaluate(values), operation.right.evaluate(values));
                match (left, right) {
                    (Ok(left), Ok(right)) => {
                        operation.operator.apply_to(left, right).ok_or_else(|| vec![NoValue::Overflow])
                    }
                    (Err(mut left), Err(right)) => {
                        left.extend(right);
                        Err(left)
                    }
                    (Err(reasons), Ok(_)) | (Ok(_), Err(reasons)) => Err(reasons),
                }
            }
        }
    }

    /// The format that the variables of the expression give it.
    ///
    /// # Errors
    /// Two formats, with the place of the operation on them.
    pub(crate) fn implicit_format(&self) -> Result<Option<NumberFormat>, (usize, String)> {
        match self {
            NumericExpression::Literal(_) => Ok(None),
            NumericExpression::Variable { format, .. } => Ok(*format),
            NumericExpression::Operation(operation) => {
                let (left, right) = (operation.left.implicit_format()?, operation.right.implicit_format()?);
                match (left, right) {
                    (Some(first), Some(second)) if first != second => {
                        let message = format!(
                            "implicit format conflict between '{}' ({}) and '{}' ({}), need an explicit format specifier",
                            operation.left.text(),
                            first.notation,
                            operation.right.text(),
                            second.notation
                        );
                        Err((operation.at, message))
                    }
                    (left, right) => Ok(left.or(right)),
                }
            }
        }
    }

    fn text(&self) -> String {
        match self {
            NumericExpression::Literal(value) => value.to_string(),
            NumericExpression::Variable { name, .. } => name.clone(),
            NumericExpression::Operation(operation) => operation.text.clone(),
        }
    }
}
