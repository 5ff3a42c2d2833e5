//! Pointwise functions as C++ expressions: what `backend/cpu/pointwise.rs` computes, for one element.
//!
//! Functions of integers that are no integer functions compute in double. An integer divided by zero
//! is 0 here (the CPU backend reports an error); shifts by less than 0 or more than 63 do the same as
//! there.

use crate::codegen::types::{ClassSource as _, ComputeClass, TypedExpr, compute_class};
use crate::unsupported::Unsupported;
use hostir::ir::DType;
use hostir::plan::{Function, KernelStep, ScalarValue};

/// A constant operand of a step that computes in a class: reals stay reals among integers.
pub(super) fn constant_operand(value: ScalarValue, wide: ComputeClass) -> TypedExpr {
    let real = matches!(value, ScalarValue::Float(_)) && wide == ComputeClass::I64;
    if real { ComputeClass::F64 } else { wide }.literal(value)
}

/// The result of a step, whose operands are given.
pub(super) fn apply_step(step: &KernelStep, mut args: Vec<TypedExpr>) -> Result<TypedExpr, Unsupported> {
    let wide = compute_class(step.compute)?;
    match (step.function, args.len()) {
        (Function::Identity | Function::Cast, 1) => return args.remove(0).rounded_to(step.result),
        (Function::Where, 3) => {
            let kind = compute_class(step.result)?;
            let b = args.remove(2).into_class(kind).text;
            let a = args.remove(1).into_class(kind).text;
            let condition = args[0].truth_condition();
            return TypedExpr::new(kind, format!("({condition} ? {a} : {b})")).rounded_to(step.result);
        }
        (Function::Not, 1) => {
            return truth_value(format!("!{}", args[0].truth_condition())).rounded_to(step.result);
        }
        (Function::And | Function::Or, 2) => {
            let sign = if step.function == Function::And { "&&" } else { "||" };
            let text = format!("{} {sign} {}", args[0].truth_condition(), args[1].truth_condition());
            return truth_value(text).rounded_to(step.result);
        }
        _ => {}
    }
    let real_only = wide == ComputeClass::I64 && !is_integer_function(step.function);
    let wide = if real_only { ComputeClass::F64 } else { wide };
    let args: Vec<String> = args.into_iter().map(|value| value.into_class(wide).text).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match (wide, args.as_slice()) {
        (ComputeClass::I64, _) => integer_value(step, &args),
        (_, [a]) => real_1(step.function, wide, a).or_else(|| unary_predicate(step.function, a)),
        (_, [a, b]) => comparison_value(step.function, a, b).or_else(|| real_2(step.function, wide, a, b)),
        (_, [a, b, c]) => real_3(step.function, wide, a, b, c),
        _ => None,
    };
    match result {
        Some(value) => value.rounded_to(step.result),
        None => Err(Unsupported::Pointwise(step.function, step.compute)),
    }
}

/// A condition as a value.
fn truth_value(condition: String) -> TypedExpr {
    TypedExpr::new(ComputeClass::I64, format!("(long long)({condition})"))
}

/// Whether a function of integers is an integer (or a truth value).
fn is_integer_function(function: Function) -> bool {
    use Function as F;
    matches!(function, F::Neg | F::BitNot | F::Abs | F::Relu | F::Ceil | F::Floor | F::Round | F::Trunc)
        || matches!(function, F::Add | F::Sub | F::Mul | F::Div | F::Mod | F::Remainder | F::CeilDiv)
        || matches!(function, F::Shl | F::Shr | F::BitAnd | F::BitOr | F::BitXor | F::Gcd | F::Pow)
        || matches!(function, F::Eq | F::Ne | F::Ge | F::Gt | F::Le | F::Lt)
        || matches!(function, F::Max | F::Min | F::FMax | F::FMin | F::Clamp | F::Threshold)
}

/// A function of the mathematics library by its name there, for functions that are called so.
fn math_library_name(function: Function) -> Option<&'static str> {
    Some(match function {
        Function::Abs => "fabs",
        Function::Acos => "acos",
        Function::Acosh => "acosh",
        Function::Asin => "asin",
        Function::Asinh => "asinh",
        Function::Atan => "atan",
        Function::Atanh => "atanh",
        Function::Ceil => "ceil",
        Function::Cos => "cos",
        Function::Cosh => "cosh",
        Function::Exp => "exp",
        Function::Exp2 => "exp2",
        Function::Expm1 => "expm1",
        Function::Erf => "erf",
        Function::Erfc => "erfc",
        Function::Floor => "floor",
        Function::Lgamma => "lgamma",
        Function::Log => "log",
        Function::Log10 => "log10",
        Function::Log1p => "log1p",
        Function::Log2 => "log2",
        Function::Round => "rint",
        Function::Rsqrt => "rsqrt",
        Function::Sin => "sin",
        Function::Sinh => "sinh",
        Function::Sqrt => "sqrt",
        Function::Tan => "tan",
        Function::Tanh => "tanh",
        Function::Trunc => "trunc",
        Function::Mod => "fmod",
        Function::FMax => "fmax",
        Function::FMin => "fmin",
        Function::Atan2 => "atan2",
        Function::Pow => "pow",
        _ => return None,
    })
}

/// `name` for doubles, `namef` for floats.
fn precision_variant(name: &str, class: ComputeClass) -> String {
    format!("{name}{}", if class == ComputeClass::F32 { "f" } else { "" })
}

fn real_1(function: Function, class: ComputeClass, a: &str) -> Option<TypedExpr> {
    let one = class.literal(ScalarValue::Float(1.0)).text;
    let exp = precision_variant("exp", class);
    let text = match function {
        Function::Neg => format!("(-{a})"),
        Function::Frac => format!("({a} - {}({a}))", precision_variant("trunc", class)),
        Function::Silu => format!("({a} * ({one} / ({one} + {exp}(-{a}))))"),
        Function::Sigmoid => format!("({one} / ({one} + {exp}(-{a})))"),
        Function::Reciprocal => format!("({one} / {a})"),
        Function::Relu => format!("({a} <= 0 ? 0 : {a})"),
        function => {
            let name = math_library_name(function)?;
            format!("{}({a})", precision_variant(name, class))
        }
    };
    Some(TypedExpr::new(class, text))
}

fn unary_predicate(function: Function, a: &str) -> Option<TypedExpr> {
    let condition = match function {
        Function::Signbit => format!("signbit({a})"),
        Function::IsFinite => format!("isfinite({a})"),
        Function::IsInf => format!("isinf({a})"),
        Function::IsNan => format!("{a} != {a}"),
        Function::IsNegInf => format!("isinf({a}) && {a} < 0"),
        Function::IsPosInf => format!("isinf({a}) && {a} > 0"),
        Function::IsReal => "true".to_owned(),
        _ => return None,
    };
    Some(truth_value(condition))
}

fn comparison_value(function: Function, a: &str, b: &str) -> Option<TypedExpr> {
    let sign = match function {
        Function::Eq => "==",
        Function::Ne => "!=",
        Function::Ge => ">=",
        Function::Gt => ">",
        Function::Le => "<=",
        Function::Lt => "<",
        _ => return None,
    };
    Some(truth_value(format!("{a} {sign} {b}")))
}

fn real_2(function: Function, class: ComputeClass, a: &str, b: &str) -> Option<TypedExpr> {
    let text = match function {
        Function::Add => format!("({a} + {b})"),
        Function::Sub => format!("({a} - {b})"),
        Function::Mul => format!("({a} * {b})"),
        Function::Div => format!("({a} / {b})"),
        Function::Remainder => {
            format!("r_remainder<{}>({}({a}, {b}), {b})", class.ctype(), precision_variant("fmod", class))
        }
        Function::Max => format!("n_max<{}>({a}, {b})", class.ctype()),
        Function::Min => format!("n_min<{}>({a}, {b})", class.ctype()),
        function => {
            let name = math_library_name(function)?;
            format!("{}({a}, {b})", precision_variant(name, class))
        }
    };
    Some(TypedExpr::new(class, text))
}

fn real_3(function: Function, class: ComputeClass, a: &str, b: &str, c: &str) -> Option<TypedExpr> {
    let ctype = class.ctype();
    let text = match function {
        Function::Clamp => format!("n_min<{ctype}>(n_max<{ctype}>({a}, {b}), {c})"),
        Function::Threshold => format!("({a} <= {b} ? {c} : {a})"),
        Function::Lerp => format!("r_lerp<{ctype}>({a}, {b}, {c})"),
        _ => return None,
    };
    Some(TypedExpr::new(class, text))
}

fn integer_value(step: &KernelStep, args: &[&str]) -> Option<TypedExpr> {
    let text = match args {
        [a] => match step.function {
            Function::Neg => format!("i_sub(0, {a})"),
            Function::Abs => format!("i_abs({a})"),
            Function::Relu => format!("({a} < 0 ? 0 : {a})"),
            Function::BitNot if step.result == DType::Bool => format!("(long long)({a} == 0)"),
            Function::BitNot => format!("(~{a})"),
            Function::Ceil | Function::Floor | Function::Round | Function::Trunc => (*a).to_owned(),
            _ => return None,
        },
        [a, b] => {
            return comparison_value(step.function, a, b).or_else(|| integer_2(step.function, a, b));
        }
        [a, b, c] => match step.function {
            Function::Clamp => format!("n_min<long long>(n_max<long long>({a}, {b}), {c})"),
            Function::Threshold => format!("({a} <= {b} ? {c} : {a})"),
            _ => return None,
        },
        _ => return None,
    };
    Some(TypedExpr::new(ComputeClass::I64, text))
}

fn integer_2(function: Function, a: &str, b: &str) -> Option<TypedExpr> {
    let text = match function {
        Function::BitAnd => format!("({a} & {b})"),
        Function::BitOr => format!("({a} | {b})"),
        Function::BitXor => format!("({a} ^ {b})"),
        function => {
            let name = match function {
                Function::Add => "i_add",
                Function::Sub => "i_sub",
                Function::Mul => "i_mul",
                Function::Div => "i_div",
                Function::Mod => "i_mod",
                Function::Remainder => "i_remainder",
                Function::CeilDiv => "i_ceil_div",
                Function::Shl => "i_shl",
                Function::Shr => "i_shr",
                Function::Max | Function::FMax => "n_max<long long>",
                Function::Min | Function::FMin => "n_min<long long>",
                Function::Gcd => "i_gcd",
                Function::Pow => "i_pow",
                _ => return None,
            };
            format!("{name}({a}, {b})")
        }
    };
    Some(TypedExpr::new(ComputeClass::I64, text))
}
