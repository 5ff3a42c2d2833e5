//! Pointwise functions as C++ expressions: fills the templates of the function table ([`hostir::ir::functions`]).
//!
//! Functions that are no integer functions compute on integers in double. An integer divided by zero is 0 here (the CPU
//! backend reports an error); shifts by less than 0 or more than 63 do the same as on the CPU.

use crate::codegen::types::{ClassSource as _, ComputeClass, TypedExpr, compute_class, storage_ctype};
use crate::unsupported::Unsupported;
use hostir::ir::DType;
use hostir::ir::functions::{FunctionForm, NumberForm};
use hostir::plan::{KernelStep, ScalarValue};

/// A constant operand of a step that computes in a class: real constants stay real among integers.
pub(super) fn constant_operand(value: ScalarValue, wide: ComputeClass) -> TypedExpr {
    let real = matches!(value, ScalarValue::Float(_)) && wide.is_integer();
    if real { ComputeClass::F64 } else { wide }.literal(value)
}

/// The result of a step for given operands.
pub(super) fn apply_step(step: &KernelStep, mut args: Vec<TypedExpr>) -> Result<TypedExpr, Unsupported> {
    let wide = compute_class(step.compute)?;
    let row = step.function.row();
    let refused = Unsupported::Pointwise(step.function, step.compute);
    if args.len() != row.arity {
        return Err(refused);
    }
    let result = match row.form {
        FunctionForm::Conversion => Some(args.remove(0)),
        FunctionForm::Reinterpretation => Some(reinterpreted_bits(step, args.remove(0))?),
        FunctionForm::Choice => Some(choice_value(step, &args)?),
        FunctionForm::Truth { cuda, .. } => {
            let conditions: Vec<String> = args.iter().map(TypedExpr::truth_condition).collect();
            Some(truth_value(fill_template(cuda, ComputeClass::I64, &conditions)))
        }
        FunctionForm::Test { cuda, .. } => {
            let class = if wide.is_integer() { ComputeClass::F64 } else { wide };
            Some(truth_value(fill_template(cuda, class, &operand_texts(args, class))))
        }
        FunctionForm::Comparison(form) => Some(truth_value(fill_template(form.cuda, wide, &operand_texts(args, wide)))),
        FunctionForm::Number(form) => number_value(step, form, wide, args),
        FunctionForm::NotComputed | FunctionForm::SameAs(_) => None,
    };
    result.ok_or(refused)?.rounded_to(step.result)
}

/// The operand that the first chooses.
fn choice_value(step: &KernelStep, args: &[TypedExpr]) -> Result<TypedExpr, Unsupported> {
    let class = compute_class(step.result)?;
    let [condition, a, b] = args else { return Err(Unsupported::Pointwise(step.function, step.compute)) };
    let (condition, a) = (condition.truth_condition(), a.clone().into_class(class).text);
    Ok(TypedExpr::new(class, format!("({condition} ? {a} : {})", b.clone().into_class(class).text)))
}

/// The bits of an element of the compute type as an element of the result's type.
fn reinterpreted_bits(step: &KernelStep, value: TypedExpr) -> Result<TypedExpr, Unsupported> {
    if step.compute.byte_size() != step.result.byte_size() {
        return Err(Unsupported::Pointwise(step.function, step.compute));
    }
    let [from, to] = [storage_ctype(step.compute)?, storage_ctype(step.result)?];
    let bits = value.into_memory(step.compute)?;
    // As functions of their own, the bits have a name or a call as their text.
    TypedExpr::from_memory(step.result, &format!("bits_as<{to}, {from}>({bits})"))
}

/// A condition as a value.
fn truth_value(condition: String) -> TypedExpr {
    TypedExpr::new(ComputeClass::I64, format!("(long long)({condition})"))
}

fn operand_texts(args: Vec<TypedExpr>, class: ComputeClass) -> Vec<String> {
    args.into_iter().map(|value| value.into_class(class).text).collect()
}

/// Arithmetic: of integers in integers if the function has a form for them, else in reals.
fn number_value(step: &KernelStep, form: NumberForm, wide: ComputeClass, args: Vec<TypedExpr>) -> Option<TypedExpr> {
    let real_only = wide.is_integer() && form.integer.is_none();
    let class = if real_only { ComputeClass::F64 } else { wide };
    let integer = form.truth.filter(|_| step.result == DType::Bool).or(form.integer);
    let template = match class {
        ComputeClass::I64 => integer?.cuda,
        ComputeClass::U64 => match integer?.unsigned {
            Some(unsigned) => unsigned.cuda,
            None => return Some(bitwise_value(integer?.cuda, args)),
        },
        ComputeClass::F64 | ComputeClass::F32 => form.real?.cuda,
    };
    Some(TypedExpr::new(class, fill_template(template, class, &operand_texts(args, class))))
}

/// A function of integers without a sign that makes the bits that the function of those with a sign makes.
fn bitwise_value(template: &str, args: Vec<TypedExpr>) -> TypedExpr {
    let class = ComputeClass::I64;
    TypedExpr::new(class, fill_template(template, class, &operand_texts(args, class)))
}

/// The C++ text of a template of the function table.
fn fill_template(template: &str, class: ComputeClass, args: &[String]) -> String {
    let mut out = String::with_capacity(template.len() + args.iter().map(String::len).sum::<usize>());
    let mut left = template;
    while let Some((before, rest)) = left.split_once('{') {
        let (word, after) = rest.split_once('}').unwrap_or((rest, ""));
        out.push_str(before);
        out.push_str(match word {
            "T" => class.ctype(),
            "f" if class == ComputeClass::F32 => "f",
            "a" => args.first().map_or("", String::as_str),
            "b" => args.get(1).map_or("", String::as_str),
            "c" => args.get(2).map_or("", String::as_str),
            _ => "",
        });
        left = after;
    }
    out.push_str(left);
    out
}
