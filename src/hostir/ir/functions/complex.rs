//! Complex numbers, and the functions of them that take more than a method of the crate `num-complex`.

pub use num_complex::Complex64;

/// `a / b` by Smith's method (CACM 5, 1962), which does not overflow on the way where the quotient is a number. A
/// division by zero has the quotients of the parts by zero.
pub(super) fn quotient(a: Complex64, b: Complex64) -> Complex64 {
    if b.re == 0.0 && b.im == 0.0 {
        return Complex64::new(a.re / b.re.abs(), a.im / b.re.abs());
    }
    if b.re.abs() >= b.im.abs() {
        let ratio = b.im / b.re;
        let scale = 1.0 / (b.re + b.im * ratio);
        return Complex64::new((a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale);
    }
    let ratio = b.re / b.im;
    let scale = 1.0 / (b.re * ratio + b.im);
    Complex64::new((a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale)
}

/// `1 / a`.
pub(super) fn reciprocal(a: Complex64) -> Complex64 {
    quotient(Complex64::new(1.0, 0.0), a)
}

/// A real as a complex number.
pub(super) fn of_real(value: f64) -> Complex64 {
    Complex64::new(value, 0.0)
}

/// `a` to the power of `b`; 1 for the exponent 0, and 0 for the base 0.
pub(super) fn power(a: Complex64, b: Complex64) -> Complex64 {
    if b == of_real(0.0) {
        return of_real(1.0);
    }
    if a == of_real(0.0) && b.im == 0.0 && b.re > 0.0 {
        return of_real(0.0);
    }
    match (b.im == 0.0 && b.re.fract() == 0.0).then_some(b.re as i32) {
        // Small whole exponents are products.
        Some(whole) if f64::from(whole) == b.re && whole.abs() <= 64 => a.powi(whole),
        _ => (b * a.ln()).exp(),
    }
}

/// `1 / (1 + exp(-a))`.
pub(super) fn sigmoid(a: Complex64) -> Complex64 {
    reciprocal(of_real(1.0) + (-a).exp())
}

/// `exp(a) - 1`.
pub(super) fn exp_minus_one(a: Complex64) -> Complex64 {
    // exp(x) cos(y) - 1 = expm1(x) cos(y) - 2 sin(y / 2)^2
    let half = (a.im / 2.0).sin();
    Complex64::new(a.re.exp_m1() * a.im.cos() - 2.0 * half * half, a.re.exp() * a.im.sin())
}

/// `log(1 + a)`.
pub(super) fn log_one_plus(a: Complex64) -> Complex64 {
    // |1 + a|^2 - 1 = x (2 + x) + y^2
    let real = 0.5 * (a.re * (2.0 + a.re) + a.im * a.im).ln_1p();
    Complex64::new(real, a.im.atan2(1.0 + a.re))
}
