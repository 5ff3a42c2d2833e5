//! Functions of integers that take more than an expression. They wrap.

/// `a << b`; 0 if `b` is no number of bits.
pub(super) fn shift_left(a: i64, b: i64) -> i64 {
    if (0..64).contains(&b) { a << b } else { 0 }
}

/// `a % b` with the sign of `b`.
pub(super) fn floor_remainder(a: i64, b: i64) -> i64 {
    let rest = a.wrapping_rem(b);
    if rest != 0 && (rest < 0) != (b < 0) { rest.wrapping_add(b) } else { rest }
}

/// A power; for a negative exponent 0, except for the bases 1 and -1.
pub(super) fn wrapping_power(base: i64, exponent: i64) -> i64 {
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 if exponent % 2 != 0 => -1,
            -1 => 1,
            _ => 0,
        };
    }
    unsigned_power(base.cast_unsigned(), exponent.cast_unsigned()).cast_signed()
}

/// A power of an integer without a sign.
pub(super) fn unsigned_power(base: u64, exponent: u64) -> u64 {
    let (mut result, mut base, mut left) = (1u64, base, exponent);
    while left > 0 {
        if left % 2 == 1 {
            result = result.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        left /= 2;
    }
    result
}

/// The smallest power of two that is not below `a`, which counts as unsigned; 0 if 64 bits do not hold it.
pub(super) fn power_of_two_above(a: i64) -> i64 {
    a.cast_unsigned().checked_next_power_of_two().unwrap_or(0).cast_signed()
}

/// Greatest common divisor; not negative, except for the smallest integer.
pub(super) fn common_divisor(a: i64, b: i64) -> i64 {
    if b == 0 { a.wrapping_abs() } else { common_divisor(b, a.wrapping_rem(b)) }
}

/// Greatest common divisor of integers without a sign.
pub(super) fn unsigned_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { unsigned_divisor(b, a % b) }
}
