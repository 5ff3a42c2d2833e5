//! Degrees of the rational functions of elements, and the bound on a wrong verdict.

use super::field::MODULUS;

/// Bounds on the degrees of an element's numerator and denominator, as polynomials of the inputs and of hashes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct RationalDegree {
    numerator: u64,
    denominator: u64,
}

impl RationalDegree {
    /// Of a constant.
    pub(super) const CONSTANT: RationalDegree = RationalDegree { numerator: 0, denominator: 0 };
    /// Of an input or a hash.
    pub(super) const VARIABLE: RationalDegree = RationalDegree { numerator: 1, denominator: 0 };

    /// A bound for elements of both kinds.
    pub(super) fn join_degrees(self, other: Self) -> Self {
        Self { numerator: self.numerator.max(other.numerator), denominator: self.denominator.max(other.denominator) }
    }
    /// Of a sum of two.
    pub(super) fn sum_degree(self, other: Self) -> Self {
        let left = self.numerator.saturating_add(other.denominator);
        let right = other.numerator.saturating_add(self.denominator);
        Self { numerator: left.max(right), denominator: self.denominator.saturating_add(other.denominator) }
    }
    /// Of a product of two.
    pub(super) fn product_degree(self, other: Self) -> Self {
        Self {
            numerator: self.numerator.saturating_add(other.numerator),
            denominator: self.denominator.saturating_add(other.denominator),
        }
    }
    /// Of one divided by the element.
    pub(super) fn inverse_degree(self) -> Self {
        Self { numerator: self.denominator, denominator: self.numerator }
    }
    /// Of a product of `count` elements.
    pub(super) fn power_degree(self, count: usize) -> Self {
        let count = count as u64;
        Self { numerator: self.numerator.saturating_mul(count), denominator: self.denominator.saturating_mul(count) }
    }
    /// Of a sum of `count` elements.
    pub(super) fn sum_of(self, count: usize) -> Self {
        let count = count.max(1) as u64;
        Self {
            numerator: self.numerator.saturating_add(self.denominator.saturating_mul(count - 1)),
            denominator: self.denominator.saturating_mul(count),
        }
    }
    /// The degree of the polynomial that is zero where two such elements agree.
    pub(super) fn of_difference(self, other: Self) -> u64 {
        self.sum_degree(other).numerator
    }
}

/// The counts that determine the bound on a wrong verdict.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct ErrorCounts {
    /// Number of hashes of operands.
    pub(super) hashes: u64,
    /// The degree of their operands.
    pub(super) operands: RationalDegree,
}

impl ErrorCounts {
    /// The counts of two runs.
    pub(super) fn join_counts(self, other: Self) -> Self {
        Self { hashes: self.hashes.saturating_add(other.hashes), operands: self.operands.join_degrees(other.operands) }
    }
    /// A bound on the probability that outputs agree in one run of random inputs although they are different functions.
    /// `compared` is the degree of their difference: if hashes of different operands all differ, it is zero with a
    /// probability of at most degree / p (Schwartz-Zippel). Each pair of these hashes agrees by chance with a
    /// probability of at most (degree + 1) / p.
    pub(super) fn wrong_verdict(self, compared: u64) -> f64 {
        let hashes = self.hashes as f64;
        let pairs = hashes * hashes / 2.0;
        let of_pair = self.operands.of_difference(self.operands) as f64 + 1.0;
        ((compared as f64 + pairs * of_pair) / MODULUS as f64).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{ErrorCounts, RationalDegree};

    #[test]
    fn degrees_of_fractions() {
        let x = RationalDegree::VARIABLE;
        let quotient = x.product_degree(x.inverse_degree());
        // x/y + z/w = (xw + zy) / (yw).
        assert_eq!(quotient.sum_degree(quotient), RationalDegree { numerator: 2, denominator: 2 });
        assert_eq!(quotient.sum_of(3), RationalDegree { numerator: 3, denominator: 3 });
        assert_eq!(x.sum_of(1000), x);
        assert_eq!(x.power_degree(5).of_difference(x), 5);
        assert_eq!(RationalDegree::CONSTANT.of_difference(x), 1);
    }

    #[test]
    fn bounds_of_one_run() {
        let plain = ErrorCounts::default().wrong_verdict(2);
        assert!((plain * (2f64.powi(61) - 1.0) - 2.0).abs() < 1e-9);
        let hashed = ErrorCounts { hashes: 1 << 31, operands: RationalDegree::VARIABLE };
        assert!((hashed.wrong_verdict(0) - 2.0).abs() > 0.5, "a probability");
        assert!((hashed.wrong_verdict(0) - 1.0).abs() < 1e-9);
    }
}
