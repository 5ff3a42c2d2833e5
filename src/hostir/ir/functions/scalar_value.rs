//! Values of scalars.

use super::complex::Complex64;

/// A real as an integer of 64 bits without a sign: it truncates, and a negative one wraps, as the conversion to 64 bits
/// with a sign does. NaN is 0, and numbers that neither has become the nearest of the limits.
pub fn unsigned_of_real(value: f64) -> u64 {
    if value < 0.0 { (value as i64).cast_unsigned() } else { value as u64 }
}

/// A scalar value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ScalarValue {
    /// An integer.
    Int(i64),
    /// A real number.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// An integer beyond those of 64 bits with a sign, from 2^63 on.
    Unsigned(u64),
    /// A complex number: its real and its imaginary part.
    Complex(f64, f64),
}

impl ScalarValue {
    /// An integer without a sign.
    pub fn from_unsigned(value: u64) -> Self {
        i64::try_from(value).map_or(ScalarValue::Unsigned(value), ScalarValue::Int)
    }
    /// As a double; the real part of a complex number.
    pub fn as_f64(self) -> f64 {
        match self {
            ScalarValue::Int(value) => value as f64,
            ScalarValue::Float(value) => value,
            ScalarValue::Bool(value) => f64::from(u8::from(value)),
            ScalarValue::Unsigned(value) => value as f64,
            ScalarValue::Complex(real, _) => real,
        }
    }
    /// As an integer; reals truncate, and integers beyond 64 bits with a sign keep their bits.
    pub fn as_i64(self) -> i64 {
        match self {
            ScalarValue::Int(value) => value,
            ScalarValue::Float(value) => value as i64,
            ScalarValue::Bool(value) => i64::from(value),
            ScalarValue::Unsigned(value) => value.cast_signed(),
            ScalarValue::Complex(real, _) => real as i64,
        }
    }
    /// As an integer without a sign: reals truncate, and negative integers wrap.
    pub fn as_u64(self) -> u64 {
        match self {
            ScalarValue::Float(value) | ScalarValue::Complex(value, _) => unsigned_of_real(value),
            ScalarValue::Int(_) | ScalarValue::Bool(_) | ScalarValue::Unsigned(_) => self.as_i64().cast_unsigned(),
        }
    }
    /// As an integer with its sign; reals truncate.
    pub fn as_i128(self) -> i128 {
        match self {
            ScalarValue::Unsigned(value) => i128::from(value),
            ScalarValue::Int(_) | ScalarValue::Float(_) | ScalarValue::Bool(_) | ScalarValue::Complex(..) => {
                i128::from(self.as_i64())
            }
        }
    }
    /// As a complex number.
    pub fn as_complex(self) -> Complex64 {
        match self {
            ScalarValue::Complex(real, imaginary) => Complex64::new(real, imaginary),
            other => Complex64::new(other.as_f64(), 0.0),
        }
    }
    /// As a truth value: not zero.
    pub fn as_bool(self) -> bool {
        match self {
            ScalarValue::Int(value) => value != 0,
            ScalarValue::Float(value) => value != 0.0,
            ScalarValue::Bool(value) => value,
            ScalarValue::Unsigned(value) => value != 0,
            ScalarValue::Complex(real, imaginary) => real != 0.0 || imaginary != 0.0,
        }
    }
    /// Whether the value is a real number.
    pub fn is_real(self) -> bool {
        matches!(self, ScalarValue::Float(_))
    }
}

impl std::fmt::Display for ScalarValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ScalarValue::Int(value) => write!(f, "{value}"),
            ScalarValue::Float(value) => write!(f, "{value:?}"),
            ScalarValue::Bool(value) => write!(f, "{value}"),
            ScalarValue::Unsigned(value) => write!(f, "{value}"),
            ScalarValue::Complex(real, imaginary) => write!(f, "({real:?}, {imaginary:?})"),
        }
    }
}
