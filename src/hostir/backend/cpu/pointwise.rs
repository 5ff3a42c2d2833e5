//! Pointwise functions.

use super::element_vector::{ElementVector, VectorClass, require_vector_class};
use super::storage::RankMemory;
use crate::backend::fault::ExecutionFault;
use crate::ir::DType;
use crate::ir::functions::complex::Complex64;
use crate::ir::functions::{ComparisonForm, ElementFunction, FunctionForm, IntegerForm, NumberForm};
use crate::plan::{Function, KernelStep, Plan, PointwiseKernel, StepOperand};

/// Runs a kernel's steps over its whole index space.
pub(super) fn run_kernel(memory: &mut RankMemory, plan: &Plan, kernel: &PointwiseKernel) -> Result<(), ExecutionFault> {
    let mut inputs = Vec::new();
    for view in &kernel.inputs {
        inputs.push(ElementVector::load_view(memory, view)?);
    }
    let mut results: Vec<ElementVector> = Vec::new();
    for step in &kernel.steps {
        let mut args = Vec::new();
        for arg in &step.args {
            args.push(load_argument(kernel, step, *arg, &inputs, &results)?);
        }
        results.push(apply_step(step, args)?);
    }
    match results.pop() {
        Some(last) => last.store_view(memory, plan, &kernel.output),
        None => Ok(()),
    }
}

fn load_argument(
    kernel: &PointwiseKernel,
    step: &KernelStep,
    arg: StepOperand,
    inputs: &[ElementVector],
    results: &[ElementVector],
) -> Result<ElementVector, ExecutionFault> {
    let wide = require_vector_class(step.compute)?;
    Ok(match arg {
        StepOperand::Input(index) => inputs[index as usize].clone(),
        StepOperand::Step(index) => results[index as usize].clone(),
        StepOperand::Const(value) => {
            let float = matches!(value, crate::plan::ScalarValue::Float(_));
            let keep = if float && wide.is_integer() { VectorClass::F64 } else { wide };
            ElementVector::splat(value, keep, kernel.output.len())
        }
        StepOperand::Index(axis) => {
            let shape = kernel.output.shape();
            let inner: usize = shape[axis as usize + 1..].iter().product();
            let extent = shape[axis as usize];
            let along = |flat: usize| ((flat / inner.max(1)) % extent.max(1)) as i64;
            ElementVector::I64((0..kernel.output.len()).map(along).collect())
        }
    })
}

/// One function of whole vectors.
fn apply_step(step: &KernelStep, mut args: Vec<ElementVector>) -> Result<ElementVector, ExecutionFault> {
    let wide = require_vector_class(step.compute)?;
    let row = step.function.row();
    if args.len() != row.arity {
        return Err(unknown_function(step.function));
    }
    let result = match row.form {
        FunctionForm::Conversion => Some(args.remove(0)),
        FunctionForm::Reinterpretation => Some(reinterpret_bits(step, args.remove(0))?),
        FunctionForm::Choice => return select_elements(step, args),
        FunctionForm::Truth { value, .. } => {
            let truths: Vec<Vec<bool>> = args.iter().map(ElementVector::nonzero_mask).collect();
            apply_elements(value, &slices_of(&truths)).map(truth_vector)
        }
        FunctionForm::Test { complex: Some(test), .. } if wide == VectorClass::Complex => {
            let values = args.remove(0).into_class(wide);
            values.as_complex().map(|values| truth_vector(values.iter().map(|&z| test(z)).collect()))
        }
        FunctionForm::Test { value, .. } => {
            let class = if wide.is_integer() { VectorClass::F64 } else { wide };
            test_elements(value, args.remove(0).into_class(class))
        }
        FunctionForm::Comparison(form) => {
            let b = args.remove(1).into_class(wide);
            compare_elements(form, &args.remove(0).into_class(wide), &b)
        }
        FunctionForm::Number(form) => apply_number(step, form, wide, args)?,
        FunctionForm::NotComputed | FunctionForm::SameAs(_) => None,
    };
    result.ok_or_else(|| unknown_function(step.function))?.rounded_to(step.result)
}

/// The bits of elements of the compute type as elements of the result's type.
fn reinterpret_bits(step: &KernelStep, elements: ElementVector) -> Result<ElementVector, ExecutionFault> {
    if step.compute.byte_size() != step.result.byte_size() {
        return Err(unknown_function(step.function));
    }
    ElementVector::from_bytes(step.result, &elements.into_bytes(step.compute)?)
}

/// Arithmetic: of integers in integers if the function has a form for them, else in reals.
fn apply_number(
    step: &KernelStep,
    form: NumberForm,
    wide: VectorClass,
    args: Vec<ElementVector>,
) -> Result<Option<ElementVector>, ExecutionFault> {
    let real_only = wide.is_integer() && form.integer.is_none();
    let wide = if real_only { VectorClass::F64 } else { wide };
    let args: Vec<ElementVector> = args.into_iter().map(|element_vector| element_vector.into_class(wide)).collect();
    Ok(match wide {
        VectorClass::F64 => {
            let args: Vec<&[f64]> = args.iter().filter_map(ElementVector::as_doubles).collect();
            form.real.and_then(|real| apply_elements(real.double, &args)).map(ElementVector::F64)
        }
        VectorClass::F32 => {
            let args: Vec<&[f32]> = args.iter().filter_map(ElementVector::as_floats).collect();
            form.real.and_then(|real| apply_elements(real.float, &args)).map(ElementVector::F32)
        }
        VectorClass::Complex => {
            let args: Vec<&[Complex64]> = args.iter().filter_map(ElementVector::as_complex).collect();
            form.complex.and_then(|form| apply_elements(form, &args)).map(ElementVector::Complex)
        }
        VectorClass::I64 | VectorClass::U64 => {
            let truth = form.truth.filter(|_| step.result == DType::Bool);
            match truth.or(form.integer) {
                Some(integer) => apply_integers(integer, args)?,
                None => None,
            }
        }
    })
}

/// Arithmetic of integers of one class.
fn apply_integers(form: IntegerForm, args: Vec<ElementVector>) -> Result<Option<ElementVector>, ExecutionFault> {
    if form.divides && args.get(1).is_some_and(|divisors| divisors.nonzero_mask().contains(&false)) {
        return Err(ExecutionFault::Invalid("an integer is divided by zero".into()));
    }
    let unsigned: Vec<&[u64]> = args.iter().filter_map(ElementVector::as_unsigned).collect();
    if let (Some(form), false) = (form.unsigned, unsigned.is_empty()) {
        return Ok(apply_elements(form.value, &unsigned).map(ElementVector::U64));
    }
    // The same bits of the same bits.
    let args: Vec<ElementVector> = args.into_iter().map(|arg| arg.into_class(VectorClass::I64)).collect();
    let args: Vec<&[i64]> = args.iter().filter_map(ElementVector::as_integers).collect();
    Ok(apply_elements(form.value, &args).map(ElementVector::I64))
}

/// Applies a function to each element; `None` if it has another number of operands.
fn apply_elements<T: Copy>(function: ElementFunction<T>, args: &[&[T]]) -> Option<Vec<T>> {
    match (function, args) {
        (ElementFunction::Unary(f), [a]) => Some(a.iter().map(|&a| f(a)).collect()),
        (ElementFunction::Binary(f), [a, b]) => Some(a.iter().zip(*b).map(|(&a, &b)| f(a, b)).collect()),
        (ElementFunction::Ternary(f), [a, b, c]) => {
            Some(a.iter().zip(*b).zip(*c).map(|((&a, &b), &c)| f(a, b, c)).collect())
        }
        _ => None,
    }
}

fn slices_of(values: &[Vec<bool>]) -> Vec<&[bool]> {
    values.iter().map(Vec::as_slice).collect()
}

fn truth_vector(truths: Vec<bool>) -> ElementVector {
    ElementVector::I64(truths.into_iter().map(i64::from).collect())
}

/// A test of each real.
fn test_elements(test: fn(f64) -> bool, values: ElementVector) -> Option<ElementVector> {
    match values {
        ElementVector::F64(a) => Some(ElementVector::I64(a.iter().map(|&x| i64::from(test(x))).collect())),
        ElementVector::F32(a) => Some(ElementVector::I64(a.iter().map(|&x| i64::from(test(f64::from(x)))).collect())),
        ElementVector::I64(_) | ElementVector::U64(_) | ElementVector::Complex(_) => None,
    }
}

/// Compares each pair of elements of one class.
fn compare_elements(form: ComparisonForm, a: &ElementVector, b: &ElementVector) -> Option<ElementVector> {
    match (a, b) {
        (ElementVector::F64(a), ElementVector::F64(b)) => Some(compare_pairs(form.double, a, b)),
        (ElementVector::F32(a), ElementVector::F32(b)) => Some(compare_pairs(form.float, a, b)),
        (ElementVector::I64(a), ElementVector::I64(b)) => Some(compare_pairs(form.integer, a, b)),
        (ElementVector::U64(a), ElementVector::U64(b)) => Some(compare_pairs(form.unsigned, a, b)),
        (ElementVector::Complex(a), ElementVector::Complex(b)) => Some(compare_pairs(form.complex?, a, b)),
        _ => None,
    }
}

fn compare_pairs<T: Copy>(test: fn(T, T) -> bool, a: &[T], b: &[T]) -> ElementVector {
    ElementVector::I64(a.iter().zip(b).map(|(&a, &b)| i64::from(test(a, b))).collect())
}

fn unknown_function(function: Function) -> ExecutionFault {
    ExecutionFault::Invalid(format!("`{}` cannot run on this type", function.name()))
}

fn select_elements(step: &KernelStep, mut args: Vec<ElementVector>) -> Result<ElementVector, ExecutionFault> {
    let wide = require_vector_class(step.result)?;
    let b = args.remove(2).into_class(wide);
    let a = args.remove(1).into_class(wide);
    let condition = args.remove(0).nonzero_mask();
    Ok(match (a, b) {
        (ElementVector::F64(a), ElementVector::F64(b)) => ElementVector::F64(choose_elements(&condition, &a, &b)),
        (ElementVector::F32(a), ElementVector::F32(b)) => ElementVector::F32(choose_elements(&condition, &a, &b)),
        (ElementVector::I64(a), ElementVector::I64(b)) => ElementVector::I64(choose_elements(&condition, &a, &b)),
        (ElementVector::U64(a), ElementVector::U64(b)) => ElementVector::U64(choose_elements(&condition, &a, &b)),
        (ElementVector::Complex(a), ElementVector::Complex(b)) => {
            ElementVector::Complex(choose_elements(&condition, &a, &b))
        }
        _ => return Err(unknown_function(Function::Where)),
    })
}

fn choose_elements<T: Copy>(condition: &[bool], a: &[T], b: &[T]) -> Vec<T> {
    condition.iter().zip(a.iter().zip(b)).map(|(&c, (&a, &b))| if c { a } else { b }).collect()
}
