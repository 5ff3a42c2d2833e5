//! The inverses of the error functions, in double. The error is below 2 units in the last place.
//!
//! A first guess (S. Winitzki, 2008, relative error 0.002) is improved by Newton's method: near 0 on `erf`, where that
//! is well conditioned, else on the logarithm of `erfc`, which is nearly quadratic.

use std::f64::consts::{FRAC_2_SQRT_PI, LN_2, PI};

/// The `x` of `erf(x) = y`; NaN outside of -1 to 1, infinite at these ends.
pub(super) fn erf_inverse(y: f64) -> f64 {
    let size = y.abs();
    // 1 - |y| is exact above a half.
    let x = if size <= 0.5 { small_erf_inverse(size) } else { small_erfc_inverse(1.0 - size) };
    x.copysign(y)
}

/// The `x` of `erfc(x) = y`; NaN outside of 0 to 2, infinite at these ends.
pub(super) fn erfc_inverse(y: f64) -> f64 {
    if y < 0.5 {
        small_erfc_inverse(y)
    } else if y <= 1.5 {
        erf_inverse(1.0 - y)
    } else {
        -small_erfc_inverse(2.0 - y)
    }
}

/// `erf_inverse` of 0 to a half, and of NaN.
fn small_erf_inverse(y: f64) -> f64 {
    // The next term of the series, pi y^2 / 12, is lost.
    if y < 1e-9 {
        return y / FRAC_2_SQRT_PI;
    }
    let mut x = first_guess((-y * y).ln_1p());
    for _ in 0..2 {
        let step = (libm::erf(x) - y) / (FRAC_2_SQRT_PI * (-x * x).exp());
        // Halley's form of the step: the second derivative is -2 x times the first.
        x -= step / (1.0 + x * step);
    }
    x
}

/// `erfc_inverse` of 0 to a half; NaN below and for NaN.
fn small_erfc_inverse(y: f64) -> f64 {
    if y == 0.0 {
        return f64::INFINITY;
    }
    let mut x = first_guess(y.ln() + (-0.5 * y).ln_1p() + LN_2);
    for _ in 0..4 {
        x += log_erfc_excess(x, y);
    }
    x
}

/// The step of Newton's method for `log(erfc(x)) = log(y)`.
fn log_erfc_excess(x: f64, y: f64) -> f64 {
    if y >= 1e-280 {
        let erfc = libm::erfc(x);
        return ((erfc - y) / y).ln_1p() * erfc / (FRAC_2_SQRT_PI * (-x * x).exp());
    }
    // Here erfc is subnormal or nearly so. The asymptotic series of erfc(x) x exp(x^2) sqrt(pi), for x above 25.
    let scale = -0.5 / (x * x);
    let (mut sum, mut term) = (1.0, 1.0);
    for k in 1..9 {
        term *= f64::from(2 * k - 1) * scale;
        sum += term;
    }
    (sum.ln() - 0.5 * PI.ln() - x.ln() - x * x - y.ln()) * sum / (2.0 * x)
}

/// An approximation of the inverse of `erf` at `y`, for `log(1 - y^2)`.
fn first_guess(log: f64) -> f64 {
    const A: f64 = 0.147;
    let half = 2.0 / (PI * A) + 0.5 * log;
    ((half * half - log / A).sqrt() - half).sqrt()
}
