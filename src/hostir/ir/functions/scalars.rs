//! The evaluation of functions in scalar expressions, with checked arithmetic.

use super::complex::Complex64;
use super::integers::common_divisor;
use super::row::{FunctionForm, FunctionRow, HostForm, IntegerForm, NumberForm};
use super::scalar_value::ScalarValue;

/// The reason why an integer has no value.
pub(crate) const OVERFLOW: &str = "the result does not fit 64 bits";

type HostResult = Result<ScalarValue, String>;

impl FunctionRow {
    /// The value of the function for known scalars.
    ///
    /// # Errors
    ///
    /// A clause that says why there is no value.
    pub fn host_value(&self, name: &str, args: &[ScalarValue]) -> HostResult {
        if args.iter().any(|arg| matches!(arg, ScalarValue::Complex(..))) {
            return self
                .complex_value(args)
                .ok_or_else(|| format!("`{name}` of complex numbers cannot be evaluated on the host"));
        }
        if let HostForm::Own(function) = self.host {
            return function(name, args);
        }
        self.kernel_value(args).ok_or_else(|| refusal(name))
    }

    /// The value for complex numbers. Parts and absolute values are real.
    fn complex_value(&self, args: &[ScalarValue]) -> Option<ScalarValue> {
        let FunctionForm::Number(NumberForm { complex: Some(form), .. }) = self.form else { return None };
        let args: smallvec::SmallVec<[Complex64; 3]> = args.iter().map(|arg| arg.as_complex()).collect();
        form.value_of(&args).map(|value| ScalarValue::Complex(value.re, value.im))
    }

    /// The value of a kernel of doubles, or of integers if the row requires that.
    fn kernel_value(&self, args: &[ScalarValue]) -> Option<ScalarValue> {
        match (self.form, args) {
            (FunctionForm::Test { value, .. }, [a]) => Some(ScalarValue::Bool(value(a.as_f64()))),
            (FunctionForm::Number(NumberForm { integer: Some(form), .. }), args)
                if matches!(self.host, HostForm::DoubleOrInteger) && !has_real(args) =>
            {
                host_integer(form, args)
            }
            (FunctionForm::Number(NumberForm { real: Some(form), .. }), args) => {
                let args: smallvec::SmallVec<[f64; 3]> = args.iter().map(|arg| arg.as_f64()).collect();
                form.double.value_of(&args).map(ScalarValue::Float)
            }
            _ => None,
        }
    }
}

/// A function of integers: without a sign if one of them needs that.
fn host_integer(form: IntegerForm, args: &[ScalarValue]) -> Option<ScalarValue> {
    if !args.iter().any(|arg| matches!(arg, ScalarValue::Unsigned(_))) {
        let args: smallvec::SmallVec<[i64; 3]> = args.iter().map(|arg| arg.as_i64()).collect();
        return form.value.value_of(&args).map(ScalarValue::Int);
    }
    let args: Option<smallvec::SmallVec<[u64; 3]>> = args.iter().map(|arg| u64::try_from(arg.as_i128()).ok()).collect();
    form.unsigned?.value.value_of(&args?).map(ScalarValue::from_unsigned)
}

/// The reason why a function has no value on the host.
pub(crate) fn refusal(name: &str) -> String {
    format!("`{name}` cannot be evaluated on the host")
}

fn operands<const N: usize>(name: &str, args: &[ScalarValue]) -> Result<[ScalarValue; N], String> {
    args.try_into().map_err(|_| refusal(name))
}

/// The operands of a function of integers of 64 bits with a sign; reals truncate.
fn integer_operands<const N: usize>(name: &str, args: &[ScalarValue]) -> Result<[i64; N], String> {
    if args.iter().any(|arg| matches!(arg, ScalarValue::Unsigned(_))) {
        return Err(OVERFLOW.to_owned());
    }
    Ok(operands(name, args)?.map(ScalarValue::as_i64))
}

fn checked_integer(value: Option<i64>) -> HostResult {
    value.map(ScalarValue::Int).ok_or_else(|| OVERFLOW.to_owned())
}

fn has_real(args: &[ScalarValue]) -> bool {
    args.iter().any(|arg| arg.is_real())
}

fn is_nan(value: ScalarValue) -> bool {
    matches!(value, ScalarValue::Float(value) if value.is_nan())
}

/// Returns true if one number is less than another; integers compare exactly.
fn is_less(a: ScalarValue, b: ScalarValue) -> bool {
    if a.is_real() || b.is_real() { a.as_f64() < b.as_f64() } else { a.as_i128() < b.as_i128() }
}

/// `max`
pub(super) fn larger_or_nan(name: &str, args: &[ScalarValue]) -> HostResult {
    let [a, b] = operands(name, args)?;
    Ok(if is_less(a, b) || is_nan(b) { b } else { a })
}

/// `min`
pub(super) fn smaller_or_nan(name: &str, args: &[ScalarValue]) -> HostResult {
    let [a, b] = operands(name, args)?;
    Ok(if is_less(b, a) || is_nan(b) { b } else { a })
}

/// `fmax`
pub(super) fn larger_number(name: &str, args: &[ScalarValue]) -> HostResult {
    let [a, b] = operands(name, args)?;
    Ok(if is_less(a, b) || is_nan(a) { b } else { a })
}

/// `fmin`
pub(super) fn smaller_number(name: &str, args: &[ScalarValue]) -> HostResult {
    let [a, b] = operands(name, args)?;
    Ok(if is_less(b, a) || is_nan(a) { b } else { a })
}

/// `where`
pub(super) fn chosen_value(name: &str, args: &[ScalarValue]) -> HostResult {
    let [condition, a, b] = operands(name, args)?;
    Ok(if condition.as_bool() { a } else { b })
}

/// `print`
pub(super) fn operand_value(name: &str, args: &[ScalarValue]) -> HostResult {
    let [a] = operands(name, args)?;
    Ok(a)
}

/// `abs`
pub(super) fn absolute_value(name: &str, args: &[ScalarValue]) -> HostResult {
    match operands(name, args)? {
        [ScalarValue::Float(a)] => Ok(ScalarValue::Float(a.abs())),
        [a @ ScalarValue::Unsigned(_)] => Ok(a),
        [a] => checked_integer(a.as_i64().checked_abs()),
    }
}

/// `gcd`
pub(super) fn common_divisor_value(name: &str, args: &[ScalarValue]) -> HostResult {
    let [a, b] = integer_operands(name, args)?;
    Ok(ScalarValue::Int(common_divisor(a, b)))
}

/// `pow`. An integer power of a negative exponent is 0, except for the bases 1 and -1.
pub(super) fn power_value(name: &str, args: &[ScalarValue]) -> HostResult {
    let [a, b] = operands(name, args)?;
    if has_real(args) {
        return Ok(ScalarValue::Float(a.as_f64().powf(b.as_f64())));
    }
    let [base, exponent] = integer_operands(name, args)?;
    checked_integer(match (base, u32::try_from(exponent)) {
        (0 | 1, _) if exponent >= 0 => Some(if exponent == 0 { 1 } else { base }),
        (1, _) => Some(1),
        (-1, _) => Some(if exponent % 2 == 0 { 1 } else { -1 }),
        _ if exponent < 0 => Some(0),
        (_, Ok(exponent)) => base.checked_pow(exponent),
        (_, Err(_)) => None,
    })
}

/// `ceilDiv`
pub(super) fn ceil_div_value(name: &str, args: &[ScalarValue]) -> HostResult {
    let [a, b] = integer_operands(name, args)?;
    if b <= 0 {
        return Err(format!("`ceilDiv({a}, {b})` needs a positive divisor"));
    }
    let (quotient, rest) = (a.div_euclid(b), a.rem_euclid(b));
    Ok(ScalarValue::Int(quotient + i64::from(rest > 0)))
}

/// The operands of a remainder; refuses an integer division by 0.
fn divided_operands(name: &str, args: &[ScalarValue]) -> Result<[ScalarValue; 2], String> {
    let [a, b] = operands(name, args)?;
    if !has_real(args) && b.as_i64() == 0 {
        return Err(format!("`{name}({a}, 0)` divides by zero"));
    }
    Ok([a, b])
}

/// `fmod`
pub(super) fn modulo_value(name: &str, args: &[ScalarValue]) -> HostResult {
    let [a, b] = divided_operands(name, args)?;
    match has_real(args) {
        true => Ok(ScalarValue::Float(a.as_f64() % b.as_f64())),
        false => {
            let [a, b] = integer_operands(name, args)?;
            checked_integer(a.checked_rem(b))
        }
    }
}

/// `remainder`: `a % b`, with the sign of `b`.
pub(super) fn remainder_value(name: &str, args: &[ScalarValue]) -> HostResult {
    let [a, b] = divided_operands(name, args)?;
    if has_real(args) {
        let (rest, b) = (a.as_f64() % b.as_f64(), b.as_f64());
        let other = rest != 0.0 && (b < 0.0) != (rest < 0.0);
        return Ok(ScalarValue::Float(if other { rest + b } else { rest }));
    }
    let [a, b] = integer_operands(name, args)?;
    let rest = a.wrapping_rem(b);
    Ok(ScalarValue::Int(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }))
}
