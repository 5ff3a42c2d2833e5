//! The field of integers modulo the prime 2^61 - 1.

use std::ops::{Add, Mul, Neg, Sub};

/// The prime.
pub(super) const MODULUS: u64 = (1 << 61) - 1;

/// A number modulo the prime, from 0 to `MODULUS - 1`.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct FieldElement(u64);

impl FieldElement {
    pub(super) const ZERO: FieldElement = FieldElement(0);
    pub(super) const ONE: FieldElement = FieldElement(1);

    /// The residue of a sum of products.
    pub(super) fn from_wide(wide: u128) -> Self {
        let modulus = u128::from(MODULUS);
        // 2^61 is 1 here.
        let folded = (wide & modulus) + ((wide >> 61) & modulus) + (wide >> 122);
        // Less than 2^62 + 64.
        FieldElement(folded as u64 % MODULUS)
    }
    /// The residue of an integer.
    pub(super) fn from_integer(value: i64) -> Self {
        let size = FieldElement::from_wide(u128::from(value.unsigned_abs()));
        if value < 0 { -size } else { size }
    }
    /// The residue of a real number: of the shortest decimal fraction that reads back as this double. `None` if it is
    /// not finite.
    pub(super) fn from_decimal(value: f64) -> Option<Self> {
        if !value.is_finite() {
            return None;
        }
        let text = format!("{:e}", value.abs());
        let (digits, exponent) = text.split_once('e')?;
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let exponent = exponent.parse::<i64>().ok()? - fraction.len() as i64;
        let digits: u64 = format!("{whole}{fraction}").parse().ok()?;
        let ten = FieldElement(10).raised_to(exponent.unsigned_abs());
        let scale = if exponent < 0 { ten.inverse_element()? } else { ten };
        let size = FieldElement::from_wide(u128::from(digits)) * scale;
        Some(if value < 0.0 { -size } else { size })
    }
    /// The number itself.
    pub(super) fn residue(self) -> u64 {
        self.0
    }
    /// The integer of the least magnitude with this residue, if its magnitude is at most `most`.
    pub(super) fn small_integer(self, most: u64) -> Option<i64> {
        match self.0 {
            small if small <= most => i64::try_from(small).ok(),
            large if MODULUS - large <= most => i64::try_from(MODULUS - large).ok().map(i64::wrapping_neg),
            _ => None,
        }
    }
    /// The element multiplied with itself.
    pub(super) fn raised_to(self, exponent: u64) -> Self {
        let (mut result, mut base, mut left) = (FieldElement::ONE, self, exponent);
        while left > 0 {
            if left % 2 == 1 {
                result = result * base;
            }
            base = base * base;
            left /= 2;
        }
        result
    }
    /// The element whose product with this one is 1; `None` for 0.
    pub(super) fn inverse_element(self) -> Option<Self> {
        (self != FieldElement::ZERO).then(|| self.raised_to(MODULUS - 2))
    }
}

impl Add for FieldElement {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        let sum = self.0 + other.0;
        FieldElement(if sum >= MODULUS { sum - MODULUS } else { sum })
    }
}

impl Neg for FieldElement {
    type Output = Self;
    fn neg(self) -> Self {
        FieldElement(if self.0 == 0 { 0 } else { MODULUS - self.0 })
    }
}

impl Sub for FieldElement {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Mul for FieldElement {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        let wide = u128::from(self.0) * u128::from(other.0);
        let folded = (wide as u64 & MODULUS) + (wide >> 61) as u64;
        FieldElement(if folded >= MODULUS { folded - MODULUS } else { folded })
    }
}

/// The most products that [`sum_products`] adds before it takes the residue; more would not fit 128 bits.
const PRODUCTS_AT_ONCE: usize = 32;

/// The sum of the products of pairs.
pub(super) fn sum_products(pairs: impl Iterator<Item = (FieldElement, FieldElement)>) -> FieldElement {
    let (mut sum, mut left) = (0u128, PRODUCTS_AT_ONCE);
    for (a, b) in pairs {
        sum += u128::from(a.0) * u128::from(b.0);
        left -= 1;
        if left == 0 {
            sum = u128::from(FieldElement::from_wide(sum).0);
            left = PRODUCTS_AT_ONCE;
        }
    }
    FieldElement::from_wide(sum)
}

#[cfg(test)]
mod tests {
    use super::{FieldElement, MODULUS, sum_products};

    fn element(value: i64) -> FieldElement {
        FieldElement::from_integer(value)
    }

    #[test]
    fn residues_of_integers() {
        assert_eq!(element(-1).residue(), MODULUS - 1);
        assert_eq!(element(1 << 61), element(1));
        // -2^63 = -4 * 2^61.
        assert_eq!(element(i64::MIN), element(-4));
        assert_eq!(element(-3).small_integer(5), Some(-3));
        assert_eq!(element(6).small_integer(5), None);
    }

    #[test]
    fn decimals_are_exact_fractions() {
        let tenth = FieldElement::from_decimal(0.1);
        assert_eq!(tenth.map(|tenth| tenth * element(10)), Some(element(1)));
        let cents = FieldElement::from_decimal(-12.75);
        assert_eq!(cents.map(|value| value * element(4)), Some(element(-51)));
        assert_eq!(FieldElement::from_decimal(3e2), Some(element(300)));
        assert_eq!(FieldElement::from_decimal(0.0), Some(FieldElement::ZERO));
        assert_eq!(FieldElement::from_decimal(f64::NEG_INFINITY), None);
    }

    #[test]
    fn inverses_and_long_sums() {
        for value in [1, 2, -7, 1 << 60, 12_345_678_901_234_567] {
            let inverse = element(value).inverse_element();
            assert_eq!(inverse.map(|inverse| inverse * element(value)), Some(FieldElement::ONE));
        }
        assert_eq!(FieldElement::ZERO.inverse_element(), None);
        // (p - 1)^2 = 1.
        let ones = std::iter::repeat_n((element(-1), element(-1)), 1000);
        assert_eq!(sum_products(ones), element(1000));
    }
}
