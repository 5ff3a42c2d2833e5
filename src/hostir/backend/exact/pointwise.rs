//! Pointwise functions of exact elements.

use super::degree::RationalDegree;
use super::field::FieldElement;
use super::hash::HashedSubject;
use super::memory::ExactMemory;
use super::value::{ExactColumn, ExactValue, holds_numbers, stored_integer};
use super::work::HashContext;
use crate::backend::fault::ExecutionFault;
use crate::ir::DType;
use crate::ir::functions::{ExactForm, FieldOperation, FunctionForm};
use crate::plan::{Function, KernelStep, Plan, PointwiseKernel, RedOp, ScalarValue, StepOperand};
use smallvec::SmallVec;

/// The largest exponent that counts as a number of factors.
const MOST_FACTORS: u64 = 64;

/// Runs a kernel's steps over its whole index space.
pub(super) fn run_kernel(
    memory: &mut ExactMemory,
    plan: &Plan,
    kernel: &PointwiseKernel,
    cx: &mut HashContext<'_>,
) -> Result<(), ExecutionFault> {
    let inputs: Vec<ExactColumn> = kernel.inputs.iter().map(|view| memory.read_view(plan, view)).collect();
    let mut results: Vec<ExactColumn> = Vec::new();
    for step in &kernel.steps {
        let positions = 0..step.args.len();
        let args = positions.map(|position| load_argument(kernel, step, position, &inputs, &results, cx));
        let args: Vec<ExactColumn> = args.collect();
        results.push(apply_step(step, &args, kernel.output.len(), cx)?);
    }
    if let Some(last) = results.pop() {
        memory.write_view(plan, &kernel.output, &last);
    }
    Ok(())
}

/// An operand in the type to which the step converts it.
fn load_argument(
    kernel: &PointwiseKernel,
    step: &KernelStep,
    position: usize,
    inputs: &[ExactColumn],
    results: &[ExactColumn],
    cx: &mut HashContext<'_>,
) -> ExactColumn {
    let to = operand_type(step, position);
    match step.args[position] {
        StepOperand::Input(index) => {
            let from = kernel.inputs[index as usize].dtype;
            convert_column(&inputs[index as usize], from, to.unwrap_or(from), cx)
        }
        StepOperand::Step(index) => {
            let from = kernel.steps[index as usize].result;
            convert_column(&results[index as usize], from, to.unwrap_or(from), cx)
        }
        StepOperand::Const(value) => {
            let value = scalar_element(value, to.unwrap_or(step.compute), cx);
            ExactColumn { values: vec![value; kernel.output.len()], degree: RationalDegree::CONSTANT }
        }
        StepOperand::Index(axis) => {
            let along = index_column(&kernel.output.shape(), axis as usize);
            convert_column(&along, DType::Int, to.unwrap_or(DType::Int), cx)
        }
    }
}

/// The index along an axis of each element of a shape.
fn index_column(shape: &[usize], axis: usize) -> ExactColumn {
    let inner: usize = shape[axis + 1..].iter().product();
    let elements = 0..shape.iter().product::<usize>();
    let values = elements.map(|flat| ExactValue::Integer(((flat / inner.max(1)) % shape[axis].max(1)) as i64));
    ExactColumn { values: values.collect(), degree: RationalDegree::CONSTANT }
}

/// Elements of a type as elements of another one.
fn convert_column(column: &ExactColumn, from: DType, to: DType, cx: &mut HashContext<'_>) -> ExactColumn {
    let values = column.values.iter().map(|&value| convert_element(value, from, to, cx)).collect();
    ExactColumn { values, degree: column.degree.join_degrees(RationalDegree::VARIABLE) }
}

/// The type to which a step converts an operand; `None` if it takes the operand as it is.
fn operand_type(step: &KernelStep, position: usize) -> Option<DType> {
    match step.function.row().form {
        FunctionForm::Conversion => Some(step.result),
        FunctionForm::Reinterpretation => Some(step.compute),
        FunctionForm::Choice => (position > 0).then_some(step.result),
        FunctionForm::Comparison(_) => Some(step.compute),
        FunctionForm::Number(form) => {
            // Functions of reals alone compute in doubles.
            let real_only = form.integer.is_none() && !holds_numbers(step.compute);
            Some(if real_only { DType::Double } else { step.compute })
        }
        FunctionForm::Truth { .. }
        | FunctionForm::Test { .. }
        | FunctionForm::NotComputed
        | FunctionForm::SameAs(_) => None,
    }
}

/// A scalar as an element of a type.
pub(super) fn scalar_element(value: ScalarValue, dtype: DType, cx: &mut HashContext<'_>) -> ExactValue {
    match value {
        ScalarValue::Complex(real, imaginary) if dtype.is_complex() => cx.complex_constant(real, imaginary),
        ScalarValue::Complex(real, _) => scalar_element(ScalarValue::Float(real), dtype, cx),
        ScalarValue::Float(value) if holds_numbers(dtype) => cx.real_constant(value),
        ScalarValue::Unsigned(value) => ExactValue::Unsigned(value).stored_as(dtype),
        value if dtype == DType::Bool => ExactValue::Integer(i64::from(value.as_bool())),
        value if dtype == DType::UInt64 => stored_integer(value.as_u64().cast_signed(), dtype),
        value => stored_integer(value.as_i64(), dtype),
    }
}

/// One function of whole columns.
fn apply_step(
    step: &KernelStep,
    args: &[ExactColumn],
    elements: usize,
    cx: &mut HashContext<'_>,
) -> Result<ExactColumn, ExecutionFault> {
    if args.len() != step.function.row().arity {
        return Err(unknown_function(step));
    }
    let operands = args.iter().fold(RationalDegree::CONSTANT, |all, arg| all.join_degrees(arg.degree));
    cx.note_operands(operands);
    let mut values = Vec::with_capacity(elements);
    let mut element: SmallVec<[ExactValue; 3]> = SmallVec::new();
    for index in 0..elements {
        element.clear();
        element.extend(args.iter().map(|arg| arg.values[index]));
        values.push(apply_element(step, &element, cx)?);
    }
    // A hash may be the result in any case.
    let degree = result_degree(step, args, operands).join_degrees(RationalDegree::VARIABLE);
    Ok(ExactColumn { values, degree })
}

fn result_degree(step: &KernelStep, args: &[ExactColumn], operands: RationalDegree) -> RationalDegree {
    let ExactForm::Field(operation) = step.function.row().exact else { return operands };
    match (operation, args) {
        (FieldOperation::Sum | FieldOperation::Difference, [a, b]) => a.degree.sum_degree(b.degree),
        (FieldOperation::Product, [a, b]) => a.degree.product_degree(b.degree),
        (FieldOperation::Quotient, [a, b]) => a.degree.product_degree(b.degree.inverse_degree()),
        (FieldOperation::Inverse, [a]) => a.degree.inverse_degree(),
        (FieldOperation::Power, [a, b]) => {
            let exponents = b.values.iter().filter_map(|value| value.to_number().small_integer(MOST_FACTORS));
            let most = exponents.map(i64::unsigned_abs).max().unwrap_or(1);
            a.degree.power_degree(most as usize).join_degrees(a.degree.inverse_degree().power_degree(most as usize))
        }
        (FieldOperation::Choice, [a, b, c]) => {
            c.degree.sum_degree(a.degree.product_degree(b.degree.sum_degree(c.degree)))
        }
        (FieldOperation::Line, [a, b, c]) => {
            a.degree.sum_degree(c.degree.product_degree(b.degree.sum_degree(a.degree)))
        }
        _ => operands,
    }
}

/// Applies a function to one element of each operand.
fn apply_element(
    step: &KernelStep,
    args: &[ExactValue],
    cx: &mut HashContext<'_>,
) -> Result<ExactValue, ExecutionFault> {
    let row = step.function.row();
    match (row.form, args) {
        (FunctionForm::Conversion, &[value]) => return Ok(value),
        (FunctionForm::Reinterpretation, &[value]) => return Ok(reinterpret_element(step, value, cx)),
        (FunctionForm::Choice, &[condition, a, b]) => return Ok(choose_element(condition, a, b)),
        (FunctionForm::NotComputed | FunctionForm::SameAs(_), _) => return Err(unknown_function(step)),
        _ => {}
    }
    let integers: Option<SmallVec<[i64; 3]>> = args.iter().map(|value| value.as_integer()).collect();
    if let Some(integers) = integers
        && let Some(value) = integer_result(step, &integers)?
    {
        return Ok(stored_integer(value, step.result));
    }
    let numbers: SmallVec<[FieldElement; 3]> = args.iter().map(|value| value.to_number()).collect();
    let value = number_result(step, &numbers, cx);
    match operand_type(step, 0) {
        // The parts of complex numbers and their absolute values are real already.
        Some(computed) if computed.is_complex() && !step.result.is_complex() => Ok(value),
        Some(computed) if !row.is_predicate() => Ok(convert_element(value, computed, step.result, cx)),
        _ => Ok(value),
    }
}

/// Applies a function of integers; `None` if it computes in reals.
fn integer_result(step: &KernelStep, args: &[i64]) -> Result<Option<i64>, ExecutionFault> {
    Ok(match step.function.row().form {
        FunctionForm::Truth { value, .. } => {
            let truths: SmallVec<[bool; 3]> = args.iter().map(|&value| value != 0).collect();
            value.value_of(&truths).map(i64::from)
        }
        FunctionForm::Test { value, .. } => args.first().map(|&a| i64::from(value(a as f64))),
        FunctionForm::Comparison(form) => match *args {
            [a, b] if step.compute == DType::UInt64 => {
                Some(i64::from((form.unsigned)(a.cast_unsigned(), b.cast_unsigned())))
            }
            [a, b] => Some(i64::from((form.integer)(a, b))),
            _ => None,
        },
        FunctionForm::Number(form) => {
            let truth = form.truth.filter(|_| step.result == DType::Bool);
            let Some(integer) = truth.or(form.integer) else { return Ok(None) };
            if integer.divides && args.get(1) == Some(&0) {
                return Err(ExecutionFault::Invalid("an integer is divided by zero".into()));
            }
            match integer.unsigned.filter(|_| step.compute == DType::UInt64) {
                Some(unsigned) => {
                    let args: SmallVec<[u64; 3]> = args.iter().map(|arg| arg.cast_unsigned()).collect();
                    unsigned.value.value_of(&args).map(u64::cast_signed)
                }
                None => integer.value.value_of(args),
            }
        }
        FunctionForm::NotComputed
        | FunctionForm::SameAs(_)
        | FunctionForm::Conversion
        | FunctionForm::Reinterpretation
        | FunctionForm::Choice => None,
    })
}

/// A function of numbers of the field.
fn number_result(step: &KernelStep, args: &[FieldElement], cx: &mut HashContext<'_>) -> ExactValue {
    let subject = HashedSubject::Function(step.function);
    let real = operand_type(step, 0).is_some_and(holds_numbers);
    match step.function.row().exact {
        ExactForm::Field(operation) => {
            // Integers are a ring, truth values are not.
            let ring =
                !matches!(operation, FieldOperation::Quotient | FieldOperation::Inverse) && step.compute != DType::Bool;
            match apply_operation(operation, args, cx).filter(|_| real || ring) {
                Some(number) => {
                    if !real {
                        cx.note_unknown(HashedSubject::IntegerArithmetic);
                    }
                    ExactValue::Number(number)
                }
                None if real => cx.hash_operands(subject, args),
                None => cx.hash_unknown(subject, args),
            }
        }
        ExactForm::Smallest => cx.extreme_value(RedOp::Min, args),
        ExactForm::Largest => cx.extreme_value(RedOp::Max, args),
        ExactForm::Hashed if real => cx.hash_operands(subject, args),
        ExactForm::Hashed | ExactForm::Unknown => cx.hash_unknown(subject, args),
    }
}

/// An operation of the field; `None` for a power whose exponent is no small integer.
fn apply_operation(operation: FieldOperation, args: &[FieldElement], cx: &mut HashContext<'_>) -> Option<FieldElement> {
    Some(match (operation, args) {
        (FieldOperation::Negation, &[a]) => -a,
        (FieldOperation::Sum, &[a, b]) => a + b,
        (FieldOperation::Difference, &[a, b]) => a - b,
        (FieldOperation::Product, &[a, b]) => a * b,
        (FieldOperation::Quotient, &[a, b]) => a * cx.invert_number(b),
        (FieldOperation::Inverse, &[a]) => cx.invert_number(a),
        (FieldOperation::Line, &[a, b, c]) => a + c * (b - a),
        (FieldOperation::Power, &[a, b]) => match b.small_integer(MOST_FACTORS)? {
            negative @ ..0 => cx.invert_number(a).raised_to(negative.unsigned_abs()),
            exponent => a.raised_to(exponent.unsigned_abs()),
        },
        _ => return None,
    })
}

/// Converts an element of the type that a step computes in to another type.
pub(super) fn convert_element(value: ExactValue, from: DType, to: DType, cx: &mut HashContext<'_>) -> ExactValue {
    match value {
        ExactValue::Integer(_) | ExactValue::Unsigned(_) => value.stored_as(to),
        // Of a complex number the real part is left.
        ExactValue::Number(number) if from.is_complex() && !to.is_complex() => {
            let part = cx.hash_operands(HashedSubject::Function(Function::Real), &[number]);
            convert_element(part, DType::Double, to, cx)
        }
        // Casts of floats are identities, and so are conversions of an integer to a float or to a wider integer.
        ExactValue::Number(_) if holds_numbers(to) || from == to => value,
        ExactValue::Number(_) if from == DType::Bool || holds_integers_of(to, from) => value,
        ExactValue::Number(number) => cx.hash_unknown(HashedSubject::Conversion(to), &[number]),
    }
}

/// The bits of an element as an element of the result's type: known of integers alone.
fn reinterpret_element(step: &KernelStep, value: ExactValue, cx: &mut HashContext<'_>) -> ExactValue {
    match value {
        _ if step.compute == step.result => value,
        ExactValue::Integer(_) | ExactValue::Unsigned(_) if !holds_numbers(step.result) => value.stored_as(step.result),
        value => cx.hash_unknown(HashedSubject::Reinterpretation(step.compute, step.result), &[value.to_number()]),
    }
}

/// Returns true if a type of integers has all numbers of another one.
fn holds_integers_of(to: DType, from: DType) -> bool {
    let limits = to.integer_limits().zip(from.integer_limits());
    limits.is_some_and(|([low, high], [least, most])| low <= least && most <= high)
}

/// The second operand where the first is true, else the third.
fn choose_element(condition: ExactValue, a: ExactValue, b: ExactValue) -> ExactValue {
    match condition {
        ExactValue::Integer(0) => b,
        ExactValue::Integer(_) | ExactValue::Unsigned(_) => a,
        ExactValue::Number(condition) => {
            let (a, b) = (a.to_number(), b.to_number());
            ExactValue::Number(b + condition * (a - b))
        }
    }
}

fn unknown_function(step: &KernelStep) -> ExecutionFault {
    ExecutionFault::Invalid(format!("`{}` cannot run on this type", step.function.name()))
}
