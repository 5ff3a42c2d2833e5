//! The function table: one row for each pointwise function.
//!
//! A row begins with the name of its variant, the name in programs and the number of operands. Its form has the values
//! on the CPU, the C++ text, the meaning modulo a prime and the cost. Rows without a form are read, verified and
//! printed, but cannot run. Programs list functions in the order of the table.

use super::complex::{self, Complex64};
use super::row::{
    ComparisonForm, ElementFunction, ExactForm, FieldOperation, FunctionCost, FunctionForm, FunctionRow, HostForm,
    RealForm, internal_row, operator_row, plain_row, suffixed_row,
};
use super::{integers, inverse_error, philox, scalars};
use ElementFunction::{Binary, Ternary, Unary};
use FunctionCost::{Low, LowInFloat};

/// Declares [`Function`] with a row for each.
macro_rules! function_table {
    ($($(#[$doc:meta])* $variant:ident($name:literal, $arity:literal) = $row:expr,)*) => {
        /// A pointwise function.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Function { $($(#[$doc])* $variant,)* }

        #[allow(clippy::useless_conversion, reason = "`real!` widens floats and doubles alike")]
        static ROWS: &[FunctionRow] = &[$(FunctionRow { name: $name, arity: $arity, ..$row },)*];

        impl Function {
            /// All functions, in the order of the table.
            pub const ALL: &'static [Function] = &[$(Function::$variant,)*];

            /// The row.
            pub fn row(self) -> &'static FunctionRow {
                &ROWS[self as usize]
            }
            /// The function of an operator or a name (without the `f` of float functions).
            pub(super) fn with_exact_name(name: &str, operands: usize) -> Option<Function> {
                match (name, operands) {
                    $(($name, $arity) => Some(Function::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

/// A function of reals: its C++ template, its number of operands, and its value, in which `Real` is `f64` or `f32`.
macro_rules! real {
    ($cuda:literal, $arity:ident, $($value:tt)*) => {
        RealForm {
            cuda: $cuda,
            double: $arity({
                #[allow(dead_code, reason = "not every function names the type")]
                type Real = f64;
                $($value)*
            }),
            float: $arity({
                #[allow(dead_code, reason = "not every function names the type")]
                type Real = f32;
                $($value)*
            }),
        }
    };
}

/// A comparison: its C++ template and its value.
macro_rules! comparison {
    ($cuda:literal, $value:expr) => {
        ComparisonForm { cuda: $cuda, double: $value, float: $value, integer: $value, unsigned: $value, complex: None }
    };
    ($cuda:literal, $value:expr, complex) => {
        ComparisonForm { complex: Some($value), ..comparison!($cuda, $value) }
    };
}

function_table! {
    /// `-a`
    Neg("-", 1) = operator_row()
        .field_form(FieldOperation::Negation)
        .one_type()
        .kernel_cost(Low)
        .real_form(real!("(-{a})", Unary, |x| -x))
        .integer_form("i_sub(0, {a})", Unary(i64::wrapping_neg))
        .complex_form(Unary(|x| -x)),
    /// `!a`
    Not("!", 1) = operator_row().logic_form("!{a}", Unary(|a| !a)),
    /// `~a`
    BitNot("~", 1) = operator_row()
        .integer_form("(~{a})", Unary(|x| !x))
        .truth_form("(long long)({a} == 0)", Unary(|x| i64::from(x == 0))),
    /// `a + b`
    Add("+", 2) = operator_row()
        .field_form(FieldOperation::Sum)
        .one_type()
        .kernel_cost(Low)
        .real_form(real!("({a} + {b})", Binary, |a, b| a + b))
        .integer_form("i_add({a}, {b})", Binary(i64::wrapping_add))
        .complex_form(Binary(|a, b| a + b)),
    /// `a - b`
    Sub("-", 2) = operator_row()
        .field_form(FieldOperation::Difference)
        .one_type()
        .kernel_cost(Low)
        .real_form(real!("({a} - {b})", Binary, |a, b| a - b))
        .integer_form("i_sub({a}, {b})", Binary(i64::wrapping_sub))
        .complex_form(Binary(|a, b| a - b)),
    /// `a * b`
    Mul("*", 2) = operator_row()
        .field_form(FieldOperation::Product)
        .one_type()
        .kernel_cost(Low)
        .real_form(real!("({a} * {b})", Binary, |a, b| a * b))
        .integer_form("i_mul({a}, {b})", Binary(i64::wrapping_mul))
        .complex_form(Binary(|a, b| a * b)),
    /// `a / b`; integers truncate.
    Div("/", 2) = operator_row()
        .field_form(FieldOperation::Quotient)
        .one_type()
        .kernel_cost(LowInFloat)
        .real_form(real!("({a} / {b})", Binary, |a, b| a / b))
        .division_form("i_div({a}, {b})", Binary(i64::wrapping_div))
        .unsigned_form("u_div({a}, {b})", Binary(|a, b| a / b))
        .complex_form(Binary(complex::quotient)),
    /// `a % b` with the sign of `a`.
    Mod("%", 2) = operator_row()
        .one_type()
        .real_form(real!("fmod{f}({a}, {b})", Binary, |a, b| a % b))
        .division_form("i_mod({a}, {b})", Binary(i64::wrapping_rem))
        .unsigned_form("u_mod({a}, {b})", Binary(|a, b| a % b))
        .host_form(HostForm::Own(scalars::modulo_value)),
    /// `a << b`
    Shl("<<", 2) = operator_row().one_type().integer_form("i_shl({a}, {b})", Binary(integers::shift_left)),
    /// `a >> b`
    Shr(">>", 2) = operator_row()
        .one_type()
        .integer_form("i_shr({a}, {b})", Binary(|a, b| a >> b.clamp(0, 63)))
        .unsigned_form("u_shr({a}, {b})", Binary(|a, b| if b < 64 { a >> b } else { 0 })),
    /// `a == b`
    Eq("==", 2) = operator_row().comparison_form(comparison!("{a} == {b}", |a, b| a == b, complex)),
    /// `a != b`
    Ne("!=", 2) = operator_row().comparison_form(comparison!("{a} != {b}", |a, b| a != b, complex)),
    /// `a >= b`
    Ge(">=", 2) = operator_row().comparison_form(comparison!("{a} >= {b}", |a, b| a >= b)),
    /// `a > b`
    Gt(">", 2) = operator_row().comparison_form(comparison!("{a} > {b}", |a, b| a > b)),
    /// `a <= b`
    Le("<=", 2) = operator_row().comparison_form(comparison!("{a} <= {b}", |a, b| a <= b)),
    /// `a < b`
    Lt("<", 2) = operator_row().comparison_form(comparison!("{a} < {b}", |a, b| a < b)),
    /// `a && b`
    And("&&", 2) = operator_row().logic_form("{a} && {b}", Binary(|a, b| a && b)),
    /// `a || b`
    Or("||", 2) = operator_row().logic_form("{a} || {b}", Binary(|a, b| a || b)),
    /// `a & b`
    BitAnd("&", 2) = operator_row().one_type().integer_form("({a} & {b})", Binary(|a, b| a & b)),
    /// `a | b`
    BitOr("|", 2) = operator_row().one_type().integer_form("({a} | {b})", Binary(|a, b| a | b)),
    /// `a ^ b`
    BitXor("^", 2) = operator_row().one_type().integer_form("({a} ^ {b})", Binary(|a, b| a ^ b)),
    /// The bits as another type.
    BitCast("bit_cast", 1) = plain_row().unknown_form().kernel_cost(Low).kernel_form(FunctionForm::Reinterpretation),
    /// `|a|`
    Abs("abs", 1) = plain_row()
        .kernel_cost(Low)
        .real_form(real!("fabs{f}({a})", Unary, Real::abs))
        .integer_form("i_abs({a})", Unary(i64::wrapping_abs))
        .unsigned_form("{a}", Unary(|x| x))
        .host_form(HostForm::Own(scalars::absolute_value))
        .complex_form(Unary(|x| complex::of_real(x.norm()))),
    /// Arc cosine.
    Acos("acos", 1) = suffixed_row().real_form(real!("acos{f}({a})", Unary, Real::acos))
        .complex_form(Unary(|x| x.acos())),
    /// Inverse hyperbolic cosine. The standard library's overflow half way (`asinh(f32::MAX)`), libm's do not.
    Acosh("acosh", 1) = suffixed_row().real_form(real!("acosh{f}({a})", Unary, |x| if x < 1.0 {
        Real::NAN
    } else {
        libm::acosh(f64::from(x)) as Real
    }))
        .complex_form(Unary(|x| x.acosh())),
    /// Arc sine.
    Asin("asin", 1) = suffixed_row().real_form(real!("asin{f}({a})", Unary, Real::asin))
        .complex_form(Unary(|x| x.asin())),
    /// Inverse hyperbolic sine.
    Asinh("asinh", 1) =
        suffixed_row().real_form(real!("asinh{f}({a})", Unary, |x| libm::asinh(f64::from(x)) as Real))
        .complex_form(Unary(|x| x.asinh())),
    /// Arc tangent.
    Atan("atan", 1) = suffixed_row().real_form(real!("atan{f}({a})", Unary, Real::atan))
        .complex_form(Unary(|x| x.atan())),
    /// Inverse hyperbolic tangent.
    Atanh("atanh", 1) =
        suffixed_row().real_form(real!("atanh{f}({a})", Unary, |x| libm::atanh(f64::from(x)) as Real))
        .complex_form(Unary(|x| x.atanh())),
    /// Rounds up.
    Ceil("ceil", 1) = suffixed_row()
        .real_form(real!("ceil{f}({a})", Unary, Real::ceil))
        .integer_form("{a}", Unary(|x| x))
        .unsigned_form("{a}", Unary(|x| x))
        .host_form(HostForm::DoubleOrInteger),
    /// Cosine.
    Cos("cos", 1) = suffixed_row().one_type().real_form(real!("cos{f}({a})", Unary, Real::cos))
        .complex_form(Unary(|x| x.cos())),
    /// Hyperbolic cosine.
    Cosh("cosh", 1) = suffixed_row().real_form(real!("cosh{f}({a})", Unary, Real::cosh))
        .complex_form(Unary(|x| x.cosh())),
    /// e to the power of a.
    Exp("exp", 1) =
        suffixed_row().one_type().kernel_cost(LowInFloat).real_form(real!("exp{f}({a})", Unary, Real::exp))
        .complex_form(Unary(|x| x.exp())),
    /// 2 to the power of a.
    Exp2("exp2", 1) =
        suffixed_row().one_type().kernel_cost(LowInFloat).real_form(real!("exp2{f}({a})", Unary, Real::exp2))
        .complex_form(Unary(|x| x.exp2())),
    /// `exp(a) - 1`
    Expm1("expm1", 1) = suffixed_row().real_form(real!("expm1{f}({a})", Unary, Real::exp_m1))
        .complex_form(Unary(complex::exp_minus_one)),
    /// Error function.
    Erf("erf", 1) =
        suffixed_row().one_type().real_form(real!("erf{f}({a})", Unary, |x| libm::erf(f64::from(x)) as Real)),
    /// `1 - erf(a)`
    Erfc("erfc", 1) = suffixed_row().real_form(real!("erfc{f}({a})", Unary, |x| libm::erfc(f64::from(x)) as Real)),
    /// The inverse of `erf`.
    ErfInv("erfinv", 1) = suffixed_row()
        .real_form(real!("erfinv{f}({a})", Unary, |x| inverse_error::erf_inverse(f64::from(x)) as Real)),
    /// The inverse of `erfc`.
    ErfcInv("erfcinv", 1) = suffixed_row()
        .real_form(real!("erfcinv{f}({a})", Unary, |x| inverse_error::erfc_inverse(f64::from(x)) as Real)),
    /// Rounds down.
    Floor("floor", 1) = suffixed_row()
        .real_form(real!("floor{f}({a})", Unary, Real::floor))
        .integer_form("{a}", Unary(|x| x))
        .unsigned_form("{a}", Unary(|x| x))
        .host_form(HostForm::DoubleOrInteger),
    /// `a - trunc(a)`
    Frac("frac", 1) = plain_row().real_form(real!("({a} - trunc{f}({a}))", Unary, Real::fract)),
    /// The imaginary part.
    Imag("std::imag", 1) = plain_row()
        .real_form(real!("((void){a}, ({T})0)", Unary, |_| 0.0))
        .integer_form("(0 * {a})", Unary(|_| 0))
        .complex_form(Unary(|x| complex::of_real(x.im))),
    /// `a * sigmoid(a)`
    Silu("silu", 1) = plain_row().one_type().kernel_cost(LowInFloat).real_form(real!(
        "({a} * (1.0{f} / (1.0{f} + exp{f}(-{a}))))",
        Unary,
        |x| x * (1.0 / (1.0 + (-x).exp()))
    ))
        .complex_form(Unary(|x| x * complex::sigmoid(x))),
    /// Logarithm of the absolute value of the gamma function.
    Lgamma("lgamma", 1) =
        suffixed_row().real_form(real!("lgamma{f}({a})", Unary, |x| libm::lgamma(f64::from(x)) as Real)),
    /// Natural logarithm.
    Log("log", 1) =
        suffixed_row().one_type().kernel_cost(LowInFloat).real_form(real!("log{f}({a})", Unary, Real::ln))
        .complex_form(Unary(|x| x.ln())),
    /// Decimal logarithm.
    Log10("log10", 1) = suffixed_row().real_form(real!("log10{f}({a})", Unary, Real::log10))
        .complex_form(Unary(|x| x.log10())),
    /// `log(1 + a)`
    Log1p("log1p", 1) = suffixed_row().real_form(real!("log1p{f}({a})", Unary, Real::ln_1p))
        .complex_form(Unary(complex::log_one_plus)),
    /// Binary logarithm.
    Log2("log2", 1) =
        suffixed_row().one_type().kernel_cost(LowInFloat).real_form(real!("log2{f}({a})", Unary, Real::log2))
        .complex_form(Unary(|x| x.log2())),
    /// The real part.
    Real("std::real", 1) = plain_row()
        .real_form(real!("{a}", Unary, |x| x))
        .integer_form("{a}", Unary(|x| x))
        .unsigned_form("{a}", Unary(|x| x))
        .complex_form(Unary(|x| complex::of_real(x.re))),
    /// `1 / a`
    Reciprocal("reciprocal", 1) = plain_row()
        .field_form(FieldOperation::Inverse)
        .one_type()
        .kernel_cost(LowInFloat)
        .real_form(real!("(1.0{f} / {a})", Unary, |x| 1.0 / x))
        .complex_form(Unary(complex::reciprocal)),
    /// `max(a, 0)`
    Relu("relu", 1) = plain_row()
        .one_type()
        .kernel_cost(Low)
        .real_form(real!("({a} <= 0 ? 0 : {a})", Unary, |x| if x <= 0.0 { 0.0 } else { x }))
        .integer_form("({a} < 0 ? 0 : {a})", Unary(|x| x.max(0)))
        .unsigned_form("{a}", Unary(|x| x))
        .host_form(HostForm::DoubleOrInteger),
    /// `1 / sqrt(a)`
    Rsqrt("rsqrt", 1) =
        suffixed_row().one_type().kernel_cost(LowInFloat).real_form(real!("rsqrt{f}({a})", Unary, |x| 1.0 / x.sqrt()))
        .complex_form(Unary(|x| complex::reciprocal(x.sqrt()))),
    /// Rounds to the nearest integer, ties to even.
    Round("nearbyint", 1) = suffixed_row()
        .real_form(real!("rint{f}({a})", Unary, Real::round_ties_even))
        .integer_form("{a}", Unary(|x| x))
        .unsigned_form("{a}", Unary(|x| x))
        .host_form(HostForm::DoubleOrInteger),
    /// `1 / (1 + exp(-a))`
    Sigmoid("sigmoid", 1) = plain_row().one_type().kernel_cost(LowInFloat).real_form(real!(
        "(1.0{f} / (1.0{f} + exp{f}(-{a})))",
        Unary,
        |x| 1.0 / (1.0 + (-x).exp())
    ))
        .complex_form(Unary(complex::sigmoid)),
    /// True where the sign bit of a is set.
    Signbit("signbit", 1) = suffixed_row().test_form("signbit({a})", f64::is_sign_negative),
    /// Sine.
    Sin("sin", 1) = suffixed_row().one_type().real_form(real!("sin{f}({a})", Unary, Real::sin))
        .complex_form(Unary(|x| x.sin())),
    /// Hyperbolic sine.
    Sinh("sinh", 1) = suffixed_row().real_form(real!("sinh{f}({a})", Unary, Real::sinh))
        .complex_form(Unary(|x| x.sinh())),
    /// Square root.
    Sqrt("sqrt", 1) =
        suffixed_row().one_type().kernel_cost(LowInFloat).real_form(real!("sqrt{f}({a})", Unary, Real::sqrt))
        .complex_form(Unary(|x| x.sqrt())),
    /// Tangent.
    Tan("tan", 1) = suffixed_row().one_type().real_form(real!("tan{f}({a})", Unary, Real::tan))
        .complex_form(Unary(|x| x.tan())),
    /// Hyperbolic tangent.
    Tanh("tanh", 1) =
        suffixed_row().one_type().kernel_cost(LowInFloat).real_form(real!("tanh{f}({a})", Unary, Real::tanh))
        .complex_form(Unary(|x| x.tanh())),
    /// Rounds towards zero.
    Trunc("trunc", 1) = suffixed_row()
        .real_form(real!("trunc{f}({a})", Unary, Real::trunc))
        .integer_form("{a}", Unary(|x| x))
        .unsigned_form("{a}", Unary(|x| x))
        .host_form(HostForm::DoubleOrInteger),
    /// The smallest power of two that is not less; operands count as unsigned.
    BitCeil("bit_ceil", 1) = suffixed_row()
        .one_type()
        .integer_form("i_bit_ceil({a})", Unary(integers::power_of_two_above))
        .host_form(HostForm::DoubleOrInteger),
    /// The operand. nvFuser's kernel writes each element to the terminal, a run here writes nothing.
    Print("print", 1) = plain_row()
        .one_type()
        .kernel_cost(Low)
        .kernel_form(FunctionForm::Conversion)
        .host_form(HostForm::Own(scalars::operand_value)),
    /// True where a is finite.
    IsFinite("isfinite", 1) = plain_row().test_form("isfinite({a})", f64::is_finite).complex_test(|x| x.is_finite()),
    /// True where a is infinite.
    IsInf("isinf", 1) = plain_row().test_form("isinf({a})", f64::is_infinite).complex_test(|x| x.is_infinite()),
    /// True where a is not a number.
    IsNan("isnan", 1) = plain_row().test_form("{a} != {a}", f64::is_nan).complex_test(|x| x.is_nan()),
    /// True where a is minus infinity.
    IsNegInf("isneginf", 1) = plain_row().test_form("isinf({a}) && {a} < 0", |x| x == f64::NEG_INFINITY),
    /// True where a is plus infinity.
    IsPosInf("isposinf", 1) = plain_row().test_form("isinf({a}) && {a} > 0", |x| x == f64::INFINITY),
    /// True where a is real, which is everywhere.
    IsReal("isreal", 1) = plain_row().test_form("true", |_| true).complex_test(|x| x.im == 0.0),
    /// The address of shared memory as a number; kernels only.
    ToSmem("toSmem", 1) = plain_row(),
    /// True in one thread of a warp; kernels only.
    ElectSync("Hopper::electSync", 1) = suffixed_row(),
    /// The address of a part of a matrix of 8 rows; kernels only.
    AdjustAddress8("Turing::adjustPartialLdMatrixAddrInTuring<8>", 1) = plain_row(),
    /// The address of a part of a matrix of 16 rows; kernels only.
    AdjustAddress16("Turing::adjustPartialLdMatrixAddrInTuring<16>", 1) = plain_row(),
    /// `atan2(a, b)`
    Atan2("atan2", 2) = suffixed_row().one_type().real_form(real!("atan2{f}({a}, {b})", Binary, Real::atan2)),
    /// Another spelling of `a % b`.
    Fmod("fmod", 2) = suffixed_row().one_type().kernel_form(FunctionForm::SameAs("%")),
    /// The larger; NaN if either is NaN.
    Max("max", 2) = plain_row()
        .extreme_form(ExactForm::Largest)
        .one_type()
        .kernel_cost(Low)
        .real_form(real!("n_max<{T}>({a}, {b})", Binary, |a, b| if a > b || a.is_nan() { a } else { b }))
        .integer_form("n_max<long long>({a}, {b})", Binary(Ord::max))
        .unsigned_form("n_max<unsigned long long>({a}, {b})", Binary(Ord::max))
        .host_form(HostForm::Own(scalars::larger_or_nan)),
    /// The smaller; NaN if either is NaN.
    Min("min", 2) = plain_row()
        .extreme_form(ExactForm::Smallest)
        .one_type()
        .kernel_cost(Low)
        .real_form(real!("n_min<{T}>({a}, {b})", Binary, |a, b| if a > b || b.is_nan() { b } else { a }))
        .integer_form("n_min<long long>({a}, {b})", Binary(Ord::min))
        .unsigned_form("n_min<unsigned long long>({a}, {b})", Binary(Ord::min))
        .host_form(HostForm::Own(scalars::smaller_or_nan)),
    /// The larger; ignores a single NaN.
    FMax("fmax", 2) = plain_row()
        .extreme_form(ExactForm::Largest)
        .one_type()
        .kernel_cost(Low)
        .real_form(real!("fmax{f}({a}, {b})", Binary, Real::max))
        .integer_form("n_max<long long>({a}, {b})", Binary(Ord::max))
        .unsigned_form("n_max<unsigned long long>({a}, {b})", Binary(Ord::max))
        .host_form(HostForm::Own(scalars::larger_number)),
    /// The smaller; ignores a single NaN.
    FMin("fmin", 2) = plain_row()
        .extreme_form(ExactForm::Smallest)
        .one_type()
        .kernel_cost(Low)
        .real_form(real!("fmin{f}({a}, {b})", Binary, Real::min))
        .integer_form("n_min<long long>({a}, {b})", Binary(Ord::min))
        .unsigned_form("n_min<unsigned long long>({a}, {b})", Binary(Ord::min))
        .host_form(HostForm::Own(scalars::smaller_number)),
    /// The next number of the type towards b, `float` or `double`.
    NextAfter("nextafter", 2) = plain_row().unknown_form().one_type().own_precision().real_form(real!(
        "nextafter{f}({a}, {b})",
        Binary,
        |a, b| if a == b || b.is_nan() {
            b
        } else if a < b {
            a.next_up()
        } else {
            a.next_down()
        }
    )),
    /// `a` to the power of `b`; of integers exact, wrapping, and 0 for negative `b` unless `a` is 1 or -1.
    Pow("pow", 2) = plain_row()
        .field_form(FieldOperation::Power)
        .one_type()
        .real_form(real!("pow{f}({a}, {b})", Binary, Real::powf))
        .integer_form("i_pow({a}, {b})", Binary(integers::wrapping_power))
        .unsigned_form("u_pow({a}, {b})", Binary(integers::unsigned_power))
        .host_form(HostForm::Own(scalars::power_value))
        .complex_form(Binary(complex::power)),
    /// `a - b * floor(a / b)`: the remainder with the sign of `b`.
    Remainder("remainder", 2) = plain_row()
        .one_type()
        .real_form(real!("r_remainder<{T}>(fmod{f}({a}, {b}), {b})", Binary, |a, b| {
            let rest = a % b;
            if rest != 0.0 && (b < 0.0) != (rest < 0.0) { rest + b } else { rest }
        }))
        .division_form("i_remainder({a}, {b})", Binary(integers::floor_remainder))
        .unsigned_form("u_mod({a}, {b})", Binary(|a, b| a % b))
        .host_form(HostForm::Own(scalars::remainder_value)),
    /// `(a + b - 1) / b`: rounded up for positive `b`.
    CeilDiv("ceilDiv", 2) = plain_row()
        .division_form("i_ceil_div({a}, {b})", Binary(|a, b| a.wrapping_add(b).wrapping_sub(1).wrapping_div(b)))
        .unsigned_form("u_ceil_div({a}, {b})", Binary(|a, b| a.wrapping_add(b).wrapping_sub(1) / b))
        .host_form(HostForm::Own(scalars::ceil_div_value)),
    /// Greatest common divisor.
    Gcd("gcd", 2) = plain_row()
        .one_type()
        .integer_form("i_gcd({a}, {b})", Binary(integers::common_divisor))
        .unsigned_form("u_gcd({a}, {b})", Binary(integers::unsigned_divisor))
        .host_form(HostForm::Own(scalars::common_divisor_value)),
    /// A complex number of its parts.
    Complex("std::complex", 2) = plain_row().complex_form(Binary(|a, b| Complex64::new(a.re, b.re))),
    /// `min(max(a, low), high)`; NaN wins.
    Clamp("clamp", 3) = plain_row()
        .unknown_form()
        .one_type()
        .kernel_cost(Low)
        .real_form(real!("n_min<{T}>(n_max<{T}>({a}, {b}), {c})", Ternary, |x, low, high| {
            let x = if x > low || x.is_nan() { x } else { low };
            if x > high || high.is_nan() { high } else { x }
        }))
        .integer_form("n_min<long long>(n_max<long long>({a}, {b}), {c})", Ternary(|x, low, high| x.max(low).min(high)))
        .unsigned_form(
            "n_min<unsigned long long>(n_max<unsigned long long>({a}, {b}), {c})",
            Ternary(|x, low, high| x.max(low).min(high)),
        )
        .host_form(HostForm::DoubleOrInteger),
    /// `start + weight * (end - start)`, computed from the end for a weight of a half or more: a line that reaches both
    /// ends.
    Lerp("lerp", 3) = plain_row()
        .field_form(FieldOperation::Line)
        .one_type()
        .real_form(real!("r_lerp<{T}>({a}, {b}, {c})", Ternary, |start, end, weight| {
            match weight < 0.5 {
                true => start + weight * (end - start),
                false => end - (end - start) * (1.0 - weight),
            }
        })),
    /// `a <= threshold ? value : a`
    Threshold("threshold", 3) = plain_row()
        .unknown_form()
        .real_form(real!("({a} <= {b} ? {c} : {a})", Ternary, |x, threshold, value| {
            if x <= threshold { value } else { x }
        }))
        .integer_form("({a} <= {b} ? {c} : {a})", Ternary(|x, threshold, value| if x <= threshold { value } else { x }))
        .unsigned_form(
            "({a} <= {b} ? {c} : {a})",
            Ternary(|x, threshold, value| if x <= threshold { value } else { x }),
        )
        .host_form(HostForm::DoubleOrInteger),
    /// `condition ? a : b`
    Where("where", 3) = plain_row()
        .field_form(FieldOperation::Choice)
        .kernel_cost(Low)
        .kernel_form(FunctionForm::Choice)
        .host_form(HostForm::Own(scalars::chosen_value)),
    /// The first two words of Philox 4x32-10 for a seed, a subsequence and an offset.
    Philox("philox", 3) = plain_row().one_type().integer_form("i_philox({a}, {b}, {c})", Ternary(philox::first_words)),
    /// 32 random bits for a seed, an offset and a linear index.
    RandomBits32("random bits", 3) =
        internal_row().integer_form("i_random_32({a}, {b}, {c})", Ternary(philox::random_bits_32)),
    /// 53 random bits for a seed, an offset and a linear index.
    RandomBits53("random bits of double", 3) =
        internal_row().integer_form("i_random_53({a}, {b}, {c})", Ternary(philox::random_bits_53)),
    /// `a * b + c`, rounded once.
    MultiplyAdd("multiply-add", 3) =
        internal_row().real_form(real!("fma{f}({a}, {b}, {c})", Ternary, |a, b, c| a.mul_add(b, c))),
    /// `c` where `a == b`, else `a`.
    Replace("replace", 3) = internal_row()
        .real_form(real!("({a} == {b} ? {c} : {a})", Ternary, |a, b, c| if a == b { c } else { a })),
    /// A normal number of two uniform ones (G. E. P. Box, M. E. Muller, 1958): with the sine where `c` is 0, else the
    /// cosine.
    BoxMuller("normal", 3) = internal_row().real_form(real!(
        "(sqrt{f}(-2.0{f} * log{f}({a})) * ({c} == 0 ? sin{f}({b} * 6.283185307179586{f}) : cos{f}({b} * 6.283185307179586{f})))",
        Ternary,
        |a, b, c| {
            let angle = b * (2.0 * std::f64::consts::PI) as Real;
            (-2.0 * a.ln()).sqrt() * if c == 0.0 { angle.sin() } else { angle.cos() }
        }
    )),
    /// The operand itself.
    Identity("set", 1) = internal_row().kernel_cost(Low).kernel_form(FunctionForm::Conversion),
    /// The operand in the result's type.
    Cast("cast", 1) = internal_row().kernel_cost(Low).kernel_form(FunctionForm::Conversion),
}
