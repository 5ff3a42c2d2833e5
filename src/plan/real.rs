//! Functions of real numbers, for kernels of the CPU backend and scalars of the host.

use super::Function;

/// Functions of one, two and three reals, once for each width.
macro_rules! real_functions {
    ($real:ident, $one:ident, $two:ident, $three:ident) => {
        /// A function of one real, if it is one.
        pub(crate) fn $one(function: Function) -> Option<fn($real) -> $real> {
            Some(match function {
                Function::Neg => |x| -x,
                Function::Abs => $real::abs,
                Function::Acos => $real::acos,
                // The standard library's overflow half way (`asinh(f32::MAX)`), libm's do not.
                Function::Acosh => |x| if x < 1.0 { $real::NAN } else { libm::acosh(f64::from(x)) as $real },
                Function::Asin => $real::asin,
                Function::Asinh => |x| libm::asinh(f64::from(x)) as $real,
                Function::Atan => $real::atan,
                Function::Atanh => |x| libm::atanh(f64::from(x)) as $real,
                Function::Ceil => $real::ceil,
                Function::Cos => $real::cos,
                Function::Cosh => $real::cosh,
                Function::Exp => $real::exp,
                Function::Exp2 => $real::exp2,
                Function::Expm1 => $real::exp_m1,
                Function::Erf => |x| libm::erf(f64::from(x)) as $real,
                Function::Erfc => |x| libm::erfc(f64::from(x)) as $real,
                Function::Floor => $real::floor,
                Function::Frac => $real::fract,
                Function::Silu => |x| x * (1.0 / (1.0 + (-x).exp())),
                Function::Lgamma => |x| libm::lgamma(f64::from(x)) as $real,
                Function::Log => $real::ln,
                Function::Log10 => $real::log10,
                Function::Log1p => $real::ln_1p,
                Function::Log2 => $real::log2,
                Function::Round => $real::round_ties_even,
                Function::Sigmoid => |x| 1.0 / (1.0 + (-x).exp()),
                Function::Sin => $real::sin,
                Function::Sinh => $real::sinh,
                Function::Sqrt => $real::sqrt,
                Function::Rsqrt => |x| 1.0 / x.sqrt(),
                Function::Reciprocal => |x| 1.0 / x,
                Function::Relu => |x| if x <= 0.0 { 0.0 } else { x },
                Function::Tan => $real::tan,
                Function::Tanh => $real::tanh,
                Function::Trunc => $real::trunc,
                _ => return None,
            })
        }
        /// A function of two reals, if it is one.
        pub(crate) fn $two(function: Function) -> Option<fn($real, $real) -> $real> {
            Some(match function {
                Function::Add => |a, b| a + b,
                Function::Sub => |a, b| a - b,
                Function::Mul => |a, b| a * b,
                Function::Div => |a, b| a / b,
                Function::Mod => |a, b| a % b,
                Function::Remainder => |a, b| {
                    let rest = a % b;
                    if rest != 0.0 && (b < 0.0) != (rest < 0.0) { rest + b } else { rest }
                },
                Function::Max => |a, b| if a > b || a.is_nan() { a } else { b },
                Function::Min => |a, b| if a > b || b.is_nan() { b } else { a },
                Function::FMax => $real::max,
                Function::FMin => $real::min,
                Function::Atan2 => $real::atan2,
                Function::Pow => $real::powf,
                _ => return None,
            })
        }
        /// A function of three reals, if it is one. `clamp` and `lerp` are those of nvFuser's kernels: NaN
        /// wins, and a line reaches both of its ends.
        pub(crate) fn $three(function: Function) -> Option<fn($real, $real, $real) -> $real> {
            Some(match function {
                Function::Clamp => |x, low, high| {
                    let x = if x > low || x.is_nan() { x } else { low };
                    if x > high || high.is_nan() { high } else { x }
                },
                Function::Lerp => |start, end, weight| match weight < 0.5 {
                    true => start + weight * (end - start),
                    false => end - (end - start) * (1.0 - weight),
                },
                Function::Threshold => |x, threshold, value| if x <= threshold { value } else { x },
                _ => return None,
            })
        }
    };
}
real_functions!(f64, f64_1, f64_2, f64_3);
real_functions!(f32, f32_1, f32_2, f32_3);

/// A test of one real, if it is one.
pub(crate) fn test_f64(function: Function) -> Option<fn(f64) -> bool> {
    Some(match function {
        Function::Signbit => f64::is_sign_negative,
        Function::IsFinite => f64::is_finite,
        Function::IsInf => f64::is_infinite,
        Function::IsNan => f64::is_nan,
        Function::IsNegInf => |x| x == f64::NEG_INFINITY,
        Function::IsPosInf => |x| x == f64::INFINITY,
        Function::IsReal => |_| true,
        _ => return None,
    })
}
